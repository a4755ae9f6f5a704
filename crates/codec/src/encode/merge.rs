//! Pre-serialised records, and what they refer to in accelerator memory, to the wire format.
//!
//! The accelerator believes nothing that it reads: lengths are compared with what is left, entries with the table, addresses
//! with its memory, depth with the limit. Bytes that make no sense are an error, whatever they are.

use super::error::EncodeError;
use super::record::what;
use super::source::Source;
use super::walk::{Field, Visitor, Walk, load, scalar};
use crate::object::{Addr, Ref};
use crate::table::{Kind, Table};

/// A sub-message whose records are being read.
struct Open<'t> {
    /// Class of the message around it.
    class: u32,
    field: Field<'t>,
    mark: usize,
}

/// Reads `records` of a message of `class`. `walk` follows addresses in accelerator memory, and has the limit of depth.
pub(super) fn merge<S: Source, V: Visitor>(
    walk: &mut Walk<'_, S, V>,
    class: u32,
    records: &[u8],
) -> Result<(), EncodeError> {
    let table = walk.table;
    let mut input = Input { records, at: 0 };
    let mut class = class;
    let mut open: Vec<Open<'_>> = Vec::new();
    let depth = walk.depth;
    if depth == 0 {
        return Err(EncodeError::Depth);
    }
    while input.at < records.len() {
        let start = input.at;
        let senseless = EncodeError::Record { at: start };
        let head = input.word()?;
        let what = (head >> 16) as u8;
        if what == what::UNKNOWN {
            let len = input.word()?;
            let run = input.take(len as usize)?;
            // SAFETY: the slice has that many bytes.
            unsafe { walk.visitor.unknown(run.as_ptr(), len)? };
            continue;
        }
        if what == what::LEAVE {
            let inner = open.pop().filter(|inner| inner.field.index == head as u16).ok_or(senseless)?;
            walk.visitor.leave(inner.field, inner.mark)?;
            class = inner.class;
            continue;
        }
        let field = field(table, class, head as u16).ok_or(senseless)?;
        // Messages around the value, the one whose field it is included.
        let around = open.len() as u32 + 1;
        match what {
            what::ENTER if field.entry.kind().is_message() => {
                if around >= depth {
                    return Err(EncodeError::Depth);
                }
                let mark = walk.visitor.enter(field)?;
                open.push(Open { class, field, mark });
                class = field.entry.aux;
            }
            what::FAR_TEXT | what::FAR_ARRAY | what::FAR_MESSAGE => {
                walk.depth = depth - around;
                far(walk, &mut input, what, field, senseless)?;
            }
            _ => here(walk, &mut input, what, field, senseless)?,
        }
    }
    if open.is_empty() { Ok(()) } else { Err(EncodeError::Record { at: records.len() }) }
}

/// A value that is in its record.
#[inline(always)]
fn here<S: Source, V: Visitor>(
    walk: &mut Walk<'_, S, V>,
    input: &mut Input<'_>,
    what: u8,
    field: Field<'_>,
    senseless: EncodeError,
) -> Result<(), EncodeError> {
    let kind = field.entry.kind();
    match what {
        what::SCALAR if kind.is_scalar() && !field.entry.is_repeated() => {
            let value = input.take(kind.size())?;
            let pen = walk.visitor.pen();
            // SAFETY: as many bytes as the kind has; any are a value.
            let written = unsafe { scalar(&mut walk.visitor, pen, field, value.as_ptr(), true) };
            let pen = written.ok_or(senseless)??;
            walk.visitor.set_pen(pen);
        }
        what::TEXT if is_textual(kind) => {
            let len = input.word()?;
            let text = input.take(len as usize)?;
            // SAFETY: the slice has that many bytes.
            let pen = unsafe { walk.visitor.text(walk.visitor.pen(), field, text.as_ptr(), len, false)? };
            walk.visitor.set_pen(pen);
        }
        what::ARRAY if kind.is_scalar() && field.entry.is_repeated() => {
            let count = input.word()?;
            let elements = input.take(count as usize * kind.size())?;
            // SAFETY: as many bytes as that many elements have; any are values.
            unsafe { walk.visitor.array(field, elements.as_ptr(), count)? };
        }
        _ => return Err(senseless),
    }
    Ok(())
}

/// A value in accelerator memory, of which the record has the address. The walk's depth is what is left for it.
#[inline(always)]
fn far<S: Source, V: Visitor>(
    walk: &mut Walk<'_, S, V>,
    input: &mut Input<'_>,
    what: u8,
    field: Field<'_>,
    senseless: EncodeError,
) -> Result<(), EncodeError> {
    let kind = field.entry.kind();
    match what {
        what::FAR_TEXT if is_textual(kind) => {
            let (len, addr) = (input.word()?, input.addr()?);
            // SAFETY: the walk's source checks addresses.
            let pen = unsafe { walk.text(walk.visitor.pen(), field, Ref { addr, len, capacity: 0 })? };
            walk.visitor.set_pen(pen);
        }
        what::FAR_ARRAY if field.entry.is_repeated() => {
            let (len, addr) = (input.word()?, input.addr()?);
            // SAFETY: as above.
            unsafe { walk.repeated(field, Ref { addr, len, capacity: 0 })? };
        }
        what::FAR_MESSAGE if kind.is_message() => {
            let addr = input.addr()?;
            // SAFETY: as above.
            unsafe { walk.submessage(field, addr)? };
        }
        _ => return Err(senseless),
    }
    Ok(())
}

fn is_textual(kind: Kind) -> bool {
    matches!(kind, Kind::String | Kind::Bytes)
}

/// The field with that index.
fn field(table: &Table, class: u32, index: u16) -> Option<Field<'_>> {
    let entry = table.entries(table.message(class)).get(usize::from(index))?;
    Some(Field { entry, class, index })
}

/// Records not yet read.
struct Input<'r> {
    records: &'r [u8],
    at: usize,
}

impl<'r> Input<'r> {
    /// The next `len` bytes; the position moves behind them and the zeros that follow.
    fn take(&mut self, len: usize) -> Result<&'r [u8], EncodeError> {
        let senseless = EncodeError::Record { at: self.at };
        let padded = len.checked_next_multiple_of(4).ok_or(senseless)?;
        let taken = self.records[self.at..].get(..padded).ok_or(senseless)?;
        self.at += padded;
        Ok(&taken[..len])
    }

    fn word(&mut self) -> Result<u32, EncodeError> {
        let bytes = self.take(4)?;
        // SAFETY: four bytes.
        Ok(unsafe { load(bytes.as_ptr()) })
    }

    fn addr(&mut self) -> Result<Addr, EncodeError> {
        let bytes = self.take(8)?;
        // SAFETY: eight bytes.
        Ok(Addr::from_bits(unsafe { load(bytes.as_ptr()) }))
    }
}
