//! The walk over an object, last field first: the one order in which every strategy sees a message.
//!
//! ```text
//!            Source: where bytes are loaded            Visitor: what is done with a value
//!            ├ Here    the host's own memory           ├ Wire     encodes it, back to front
//!  table ──▶ │ Across  host memory, by crossing   walk │
//!  object    └         accelerator memory, directly    └ Records  copies it as it is, for the accelerator to encode
//! ```
//!
//! What is written, and in what order, is decided here and nowhere else; so all strategies give the same bytes. Seen from
//! the front: fields in ascending order of number, then the message's unknown fields, oldest first. An implicit field of
//! value zero is left out (zero is a bit pattern: −0.0 is written); members of oneofs never are, and map entries always have
//! both key and value.
//!
//! Invariants: the object is of the class (the caller's word); bits beyond the entries are not looked at. Memory that the
//! source fetched is held only while its value is visited, so what is held at once is one path through the message.
//! Bounds: depth; each level of messages is one level of this thread's stack.
//! Cost: two loads of the table and one dispatch per field that is present; absent ones cost nothing.

use super::error::EncodeError;
use super::source::Source;
use crate::object::{Addr, Object, Ref};
use crate::table::{Entry, Flags, Kind, Message, Table};
use std::ptr::NonNull;

/// A field on its way to a visitor.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) class: u32,
    pub(super) index: u16,
    pub(super) entry: Entry,
}

/// What an address that the walk could not follow refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `count` bytes of a string or bytes.
    Text,
    /// `count` elements of a repeated field.
    Array,
    /// An object.
    Message,
}

/// What is done with the values of a message. Calls come last field first.
pub(super) trait Visitor {
    /// A scalar: as it lies in the object, and the number that its varint holds.
    fn varint<R: Copy>(&mut self, field: Field, raw: R, wire: u64) -> Result<(), EncodeError>;

    /// A scalar of 4 or 8 bytes, on the wire as in the object.
    fn fixed<R: Copy>(&mut self, field: Field, raw: R) -> Result<(), EncodeError>;

    /// The elements of a repeated scalar, one at least.
    ///
    /// # Safety
    /// `start` is the first of `count` elements of the field's kind, not necessarily aligned.
    unsafe fn array(&mut self, field: Field, start: *const u8, count: u32) -> Result<(), EncodeError>;

    /// A string or bytes, or an element of a repeated field of them.
    ///
    /// # Safety
    /// `start` is the first of `len` readable bytes.
    unsafe fn text(&mut self, field: Field, start: *const u8, len: u32) -> Result<(), EncodeError>;

    /// A sub-message, or an element of a repeated one: its fields come next.
    fn enter(&mut self, field: Field) -> Result<usize, EncodeError>;

    /// The sub-message is complete; `mark` is what `enter` returned.
    fn leave(&mut self, field: Field, mark: usize) -> Result<(), EncodeError>;

    /// A run of unknown fields.
    ///
    /// # Safety
    /// As [`Visitor::text`].
    unsafe fn unknown(&mut self, start: *const u8, len: u32) -> Result<(), EncodeError>;

    /// What the source cannot reach.
    fn elsewhere(&mut self, field: Field, part: Part, addr: Addr, count: u32) -> Result<(), EncodeError>;
}

/// A walk under way.
pub(super) struct Walk<'t, S, V> {
    pub(super) table: &'t Table,
    pub(super) source: S,
    pub(super) visitor: V,
    /// Messages that may still be opened within this one.
    pub(super) depth: u32,
}

const DOUBLE: u8 = Kind::Double as u8;
const FLOAT: u8 = Kind::Float as u8;
const INT64: u8 = Kind::Int64 as u8;
const UINT64: u8 = Kind::Uint64 as u8;
const INT32: u8 = Kind::Int32 as u8;
const FIXED64: u8 = Kind::Fixed64 as u8;
const FIXED32: u8 = Kind::Fixed32 as u8;
const BOOL: u8 = Kind::Bool as u8;
const STRING: u8 = Kind::String as u8;
const GROUP: u8 = Kind::Group as u8;
const MESSAGE: u8 = Kind::Message as u8;
const BYTES: u8 = Kind::Bytes as u8;
const UINT32: u8 = Kind::Uint32 as u8;
const ENUM: u8 = Kind::Enum as u8;
const SFIXED32: u8 = Kind::Sfixed32 as u8;
const SFIXED64: u8 = Kind::Sfixed64 as u8;
const SINT32: u8 = Kind::Sint32 as u8;
const SINT64: u8 = Kind::Sint64 as u8;

impl<S: Source, V: Visitor> Walk<'_, S, V> {
    /// Visits an object of `class` at `addr`: its unknown fields, then its fields from the last to the first.
    ///
    /// # Safety
    /// There is an object of that class of this table, alive and not written meanwhile, and so is all it refers to. Where
    /// the source checks addresses, any bytes will do.
    pub(super) unsafe fn message(&mut self, class: u32, object: Object) -> Result<(), EncodeError> {
        self.depth = self.depth.checked_sub(1).ok_or(EncodeError::Depth)?;
        let table = self.table;
        let message = table.message(class);
        let entries = table.entries(message);
        // SAFETY: the offsets are those of the object's class, here and below.
        let unknown: Ref = unsafe { object.read(message.unknown) };
        if unknown.len != 0 {
            // SAFETY: as above.
            unsafe { self.unknown(unknown)? };
        }
        let whole = message.flags & Message::MAP_ENTRY != 0;
        for word in (0..u32::from(message.words)).rev() {
            // SAFETY: presence words come first.
            let present = if whole { u32::MAX } else { unsafe { object.read(word * 4) } };
            let mut bits = present & first_bits(entries.len() as u32, word * 32);
            while bits != 0 {
                let bit = bits.ilog2();
                bits ^= 1 << bit;
                let index = word * 32 + bit;
                // SAFETY: the bit is below the number of entries.
                let entry = unsafe { *entries.get_unchecked(index as usize) };
                let field = Field { class, index: index as u16, entry };
                let slot = object.start().as_ptr().cast_const().wrapping_add(entry.offset as usize);
                // SAFETY: the entry's slot in an object of its class.
                unsafe { self.field(field, slot, whole)? };
            }
        }
        self.depth += 1;
        Ok(())
    }

    /// Visits what lies in a field's slot.
    ///
    /// # Safety
    /// `slot` holds a value as the entry says, and [`Walk::message`].
    #[inline(always)]
    unsafe fn field(&mut self, field: Field, slot: *const u8, whole: bool) -> Result<(), EncodeError> {
        // SAFETY: the caller's promise: the slot holds a value of the kind that each arm reads.
        unsafe {
            match field.entry.op {
                STRING | BYTES => {
                    let text = load::<Ref>(slot);
                    if text.len == 0 && !whole && field.entry.flags.has(Flags::IMPLICIT) {
                        return Ok(());
                    }
                    self.text(field, text)
                }
                MESSAGE | GROUP => self.submessage(field, load(slot)),
                op if op & Entry::REPEATED != 0 => self.repeated(field, load(slot)),
                _ => {
                    let keep_zero = whole || !field.entry.flags.has(Flags::IMPLICIT);
                    scalar(&mut self.visitor, field, slot, keep_zero)
                }
            }
        }
    }

    /// Visits a string or bytes.
    ///
    /// # Safety
    /// As [`Walk::field`].
    #[inline(always)]
    pub(super) unsafe fn text(&mut self, field: Field, text: Ref) -> Result<(), EncodeError> {
        if text.len == 0 {
            // SAFETY: no byte is read.
            return unsafe { self.visitor.text(field, NonNull::dangling().as_ptr(), 0) };
        }
        let mark = self.source.mark();
        // SAFETY: the caller's promise, for both.
        unsafe {
            match self.source.fetch(text.addr, text.len as usize, 1)? {
                Some(start) => self.visitor.text(field, start, text.len)?,
                None => self.visitor.elsewhere(field, Part::Text, text.addr, text.len)?,
            }
        }
        self.source.release(mark);
        Ok(())
    }

    /// Visits a sub-message. No address is an empty one: the value that a map entry need not have.
    ///
    /// # Safety
    /// As [`Walk::field`].
    pub(super) unsafe fn submessage(&mut self, field: Field, addr: Addr) -> Result<(), EncodeError> {
        if addr.is_null() {
            let mark = self.visitor.enter(field)?;
            return self.visitor.leave(field, mark);
        }
        let held = self.source.mark();
        let class = field.entry.aux;
        // SAFETY: the caller's promise: an object of that class.
        match unsafe { self.source.fetch(addr, self.table.message(class).size as usize, 8)? } {
            Some(start) => {
                let mark = self.visitor.enter(field)?;
                let start =
                    NonNull::new(start.cast_mut()).expect("an address that is not null leads somewhere");
                // SAFETY: as above.
                unsafe { self.message(class, Object::at(start))? };
                self.visitor.leave(field, mark)?;
            }
            None => self.visitor.elsewhere(field, Part::Message, addr, 1)?,
        }
        self.source.release(held);
        Ok(())
    }

    /// Visits the elements of a repeated field or map, last first.
    ///
    /// # Safety
    /// As [`Walk::field`].
    #[inline(never)]
    pub(super) unsafe fn repeated(&mut self, field: Field, array: Ref) -> Result<(), EncodeError> {
        if array.len == 0 {
            return Ok(());
        }
        let kind = field.entry.kind();
        let mark = self.source.mark();
        let align = if kind.is_scalar() { kind.size() } else { 8 };
        // SAFETY: the caller's promise: an array of that kind.
        let found = unsafe { self.source.fetch(array.addr, array.len as usize * kind.size(), align)? };
        let Some(start) = found else {
            return self.visitor.elsewhere(field, Part::Array, array.addr, array.len);
        };
        // SAFETY: as above; each element is one of the array's.
        unsafe {
            if kind.is_scalar() {
                self.visitor.array(field, start, array.len)?;
            } else if kind.is_message() {
                for index in (0..array.len as usize).rev() {
                    self.submessage(field, load(start.wrapping_add(index * 8)))?;
                }
            } else {
                for index in (0..array.len as usize).rev() {
                    self.text(field, load(start.wrapping_add(index * 16)))?;
                }
            }
        }
        self.source.release(mark);
        Ok(())
    }

    /// Visits the runs of unknown fields, newest first.
    ///
    /// # Safety
    /// As [`Walk::message`].
    #[cold]
    unsafe fn unknown(&mut self, runs: Ref) -> Result<(), EncodeError> {
        let mark = self.source.mark();
        // SAFETY: the caller's promise: an array of runs.
        let runs_at = unsafe { self.source.fetch(runs.addr, runs.len as usize * size_of::<Ref>(), 8)? };
        let start = runs_at.ok_or(EncodeError::Address)?;
        for index in (0..runs.len as usize).rev() {
            // SAFETY: as above.
            let run: Ref = unsafe { load(start.wrapping_add(index * size_of::<Ref>())) };
            if run.len == 0 {
                continue;
            }
            let held = self.source.mark();
            // SAFETY: as above.
            unsafe {
                let bytes = self.source.fetch(run.addr, run.len as usize, 1)?.ok_or(EncodeError::Address)?;
                self.visitor.unknown(bytes, run.len)?;
            }
            self.source.release(held);
        }
        self.source.release(mark);
        Ok(())
    }
}

/// Visits the scalar in `slot`.
///
/// # Safety
/// `slot` holds a value of the field's kind, not necessarily aligned; the field is a singular scalar.
#[inline(always)]
pub(super) unsafe fn scalar<V: Visitor>(
    visitor: &mut V,
    field: Field,
    slot: *const u8,
    keep_zero: bool,
) -> Result<(), EncodeError> {
    macro_rules! value {
        ($kind:ty, $visit:expr) => {{
            // SAFETY: the caller's promise.
            let raw = unsafe { load::<$kind>(slot) };
            if raw == 0 && !keep_zero {
                return Ok(());
            }
            $visit(raw)
        }};
    }
    match field.entry.op {
        DOUBLE | FIXED64 | SFIXED64 => value!(u64, |raw| visitor.fixed(field, raw)),
        FLOAT | FIXED32 | SFIXED32 => value!(u32, |raw| visitor.fixed(field, raw)),
        INT64 | UINT64 => value!(u64, |raw| visitor.varint(field, raw, raw)),
        INT32 | ENUM => value!(i32, |raw| visitor.varint(field, raw, signed(raw))),
        UINT32 => value!(u32, |raw| visitor.varint(field, raw, u64::from(raw))),
        BOOL => value!(u8, |raw| visitor.varint(field, raw, u64::from(raw != 0))),
        SINT32 => value!(i32, |raw| visitor.varint(field, raw, zigzag32(raw))),
        SINT64 => value!(i64, |raw| visitor.varint(field, raw, zigzag64(raw))),
        _ => unreachable!("the walk takes strings, messages and repeated fields apart"),
    }
}

/// # Safety
/// `from` is the first of as many readable bytes as a `T` has.
#[inline(always)]
pub(super) unsafe fn load<T: Copy>(from: *const u8) -> T {
    // SAFETY: the caller's promise.
    unsafe { from.cast::<T>().read_unaligned() }
}

/// The varint of an int32 or enum: sign-extended to 64 bits.
#[inline(always)]
pub(super) fn signed(value: i32) -> u64 {
    i64::from(value) as u64
}

/// The varint of a sint32.
#[inline(always)]
pub(super) fn zigzag32(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}

/// The varint of a sint64.
#[inline(always)]
pub(super) fn zigzag64(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// A mask of those of the 32 bits from `from` that are below `count`.
#[inline(always)]
fn first_bits(count: u32, from: u32) -> u32 {
    match count.saturating_sub(from) {
        32.. => u32::MAX,
        left => (1 << left) - 1,
    }
}
