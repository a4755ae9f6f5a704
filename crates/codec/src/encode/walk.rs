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
pub(super) struct Field<'t> {
    pub(super) entry: &'t Entry,
    pub(super) class: u32,
    pub(super) index: u16,
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
///
/// The pen is where the visitor writes; the walk holds it by value between the fields of one message (see `back`), so most
/// calls take it and give it back.
pub(super) trait Visitor {
    /// Where the next byte goes.
    type Pen: Copy;

    /// Takes the pen.
    fn pen(&self) -> Self::Pen;

    /// Brings it back.
    fn set_pen(&mut self, pen: Self::Pen);

    /// A scalar: as it lies in the object, and the number that its varint holds.
    fn varint<R: Copy>(
        &mut self,
        pen: Self::Pen,
        field: Field<'_>,
        raw: R,
        wire: u64,
    ) -> Result<Self::Pen, EncodeError>;

    /// A scalar of 4 or 8 bytes, on the wire as in the object.
    fn fixed<R: Copy>(&mut self, pen: Self::Pen, field: Field<'_>, raw: R) -> Result<Self::Pen, EncodeError>;

    /// The elements of a repeated scalar, one at least.
    ///
    /// # Safety
    /// `start` is the first of `count` elements of the field's kind, not necessarily aligned.
    unsafe fn array(&mut self, field: Field<'_>, start: *const u8, count: u32) -> Result<(), EncodeError>;

    /// A string or bytes, or an element of a repeated field of them. If they `stay`, they are where they are until the walk is over.
    ///
    /// # Safety
    /// `start` is the first of `len` readable bytes.
    unsafe fn text(
        &mut self,
        pen: Self::Pen,
        field: Field<'_>,
        start: *const u8,
        len: u32,
        stay: bool,
    ) -> Result<Self::Pen, EncodeError>;

    /// A sub-message, or an element of a repeated one: its fields come next.
    fn enter(&mut self, field: Field<'_>) -> Result<usize, EncodeError>;

    /// The sub-message is complete; `mark` is what `enter` returned.
    fn leave(&mut self, field: Field<'_>, mark: usize) -> Result<(), EncodeError>;

    /// A run of unknown fields.
    ///
    /// # Safety
    /// As [`Visitor::text`].
    unsafe fn unknown(&mut self, start: *const u8, len: u32) -> Result<(), EncodeError>;

    /// What the source cannot reach.
    fn elsewhere(&mut self, field: Field<'_>, part: Part, addr: Addr, count: u32) -> Result<(), EncodeError>;
}

/// A walk under way.
pub(super) struct Walk<'t, S, V> {
    pub(super) table: &'t Table,
    pub(super) source: S,
    pub(super) visitor: V,
    /// Messages that may still be opened within this one.
    pub(super) depth: u32,
}

/// Of an entry's `op`.
const KIND: u8 = 0x1f;
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
        let mut pen = self.visitor.pen();
        for word in (0..u32::from(message.words)).rev() {
            // SAFETY: presence words come first.
            let present = if whole { u32::MAX } else { unsafe { object.read(word * 4) } };
            // Turned round, the last entry's bit is the lowest, and those are found faster on most processors.
            let mut bits = (present & first_bits(entries.len() as u32, word * 32)).reverse_bits();
            while bits != 0 {
                let index = word * 32 + 31 - bits.trailing_zeros();
                bits &= bits - 1;
                // SAFETY: the bit is below the number of entries.
                let entry = unsafe { entries.get_unchecked(index as usize) };
                let field = Field { entry, class, index: index as u16 };
                let slot = object.start().as_ptr().cast_const().wrapping_add(entry.offset as usize);
                // SAFETY: the entry's slot in an object of its class.
                pen = unsafe {
                    match entry.op {
                        // Before the jump for all kinds, which waits for one load more.
                        STRING | BYTES => self.text_in(pen, field, slot, whole)?,
                        _ => self.field(pen, field, slot, whole)?,
                    }
                };
            }
        }
        self.visitor.set_pen(pen);
        self.depth += 1;
        Ok(())
    }

    /// Visits what lies in a field's slot, which is no singular string or bytes.
    ///
    /// # Safety
    /// `slot` holds a value as the entry says, and [`Walk::message`].
    #[inline(always)]
    unsafe fn field(
        &mut self,
        pen: V::Pen,
        field: Field<'_>,
        slot: *const u8,
        whole: bool,
    ) -> Result<V::Pen, EncodeError> {
        let visitor = &mut self.visitor;
        let keep_zero = whole || !field.entry.flags.has(Flags::IMPLICIT);
        // One jump for all kinds, scalars and others: hence the two matches on one value, which become one.
        // SAFETY: the caller's promise: the slot holds a value of the kind that each arm reads.
        unsafe {
            if let Some(written) = scalar(visitor, pen, field, slot, keep_zero) {
                return written;
            }
            match field.entry.op {
                MESSAGE | GROUP => {
                    visitor.set_pen(pen);
                    self.submessage(field, load(slot))?;
                    Ok(self.visitor.pen())
                }
                _ => {
                    visitor.set_pen(pen);
                    self.repeated(field, load(slot))?;
                    Ok(self.visitor.pen())
                }
            }
        }
    }

    /// Visits the string or bytes in a field's slot.
    ///
    /// # Safety
    /// As [`Walk::field`].
    #[inline(always)]
    unsafe fn text_in(
        &mut self,
        pen: V::Pen,
        field: Field<'_>,
        slot: *const u8,
        whole: bool,
    ) -> Result<V::Pen, EncodeError> {
        // SAFETY: the caller's promise.
        let text = unsafe { load::<Ref>(slot) };
        if text.len == 0 && !whole && field.entry.flags.has(Flags::IMPLICIT) {
            return Ok(pen);
        }
        // SAFETY: the caller's promise.
        unsafe { self.text(pen, field, text) }
    }

    /// Visits a string or bytes.
    ///
    /// # Safety
    /// As [`Walk::field`].
    #[inline(always)]
    pub(super) unsafe fn text(
        &mut self,
        pen: V::Pen,
        field: Field<'_>,
        text: Ref,
    ) -> Result<V::Pen, EncodeError> {
        if text.len == 0 {
            // SAFETY: no byte is read.
            return unsafe { self.visitor.text(pen, field, NonNull::dangling().as_ptr(), 0, S::STAYS) };
        }
        let mark = self.source.mark();
        // SAFETY: the caller's promise, for both.
        let pen = unsafe {
            match self.source.fetch(text.addr, text.len as usize, 1)? {
                Some(start) => self.visitor.text(pen, field, start, text.len, S::STAYS)?,
                None => {
                    self.visitor.set_pen(pen);
                    self.visitor.elsewhere(field, Part::Text, text.addr, text.len)?;
                    self.visitor.pen()
                }
            }
        };
        self.source.release(mark);
        Ok(pen)
    }

    /// Visits a sub-message. No address is an empty one: the value that a map entry need not have.
    ///
    /// # Safety
    /// As [`Walk::field`].
    #[inline(always)]
    pub(super) unsafe fn submessage(&mut self, field: Field<'_>, addr: Addr) -> Result<(), EncodeError> {
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
    pub(super) unsafe fn repeated(&mut self, field: Field<'_>, array: Ref) -> Result<(), EncodeError> {
        if array.len == 0 {
            return Ok(());
        }
        let (size, align) = match field.entry.op & KIND {
            STRING | BYTES => (size_of::<Ref>(), 8),
            MESSAGE | GROUP => (size_of::<Addr>(), 8),
            _ => (field.entry.kind().size(), field.entry.kind().size()),
        };
        let mark = self.source.mark();
        let count = array.len as usize;
        // SAFETY: the caller's promise: an array of that kind.
        let found = unsafe { self.source.fetch(array.addr, count * size, align)? };
        let Some(start) = found else {
            return self.visitor.elsewhere(field, Part::Array, array.addr, array.len);
        };
        // SAFETY: as above; each element is one of the array's.
        unsafe {
            match field.entry.op & KIND {
                STRING | BYTES => {
                    let mut pen = self.visitor.pen();
                    for index in (0..count).rev() {
                        pen = self.text(pen, field, load(start.wrapping_add(index * size)))?;
                    }
                    self.visitor.set_pen(pen);
                }
                MESSAGE | GROUP => {
                    for index in (0..count).rev() {
                        self.submessage(field, load(start.wrapping_add(index * size)))?;
                    }
                }
                _ => self.visitor.array(field, start, array.len)?,
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

/// Visits the scalar in `slot`, or does nothing if the field is no singular scalar.
///
/// # Safety
/// `slot` holds a value of the field's kind, not necessarily aligned.
#[inline(always)]
pub(super) unsafe fn scalar<V: Visitor>(
    visitor: &mut V,
    pen: V::Pen,
    field: Field<'_>,
    slot: *const u8,
    keep_zero: bool,
) -> Option<Result<V::Pen, EncodeError>> {
    macro_rules! value {
        ($kind:ty, $visit:expr) => {{
            // SAFETY: the caller's promise.
            let raw = unsafe { load::<$kind>(slot) };
            if raw == 0 && !keep_zero {
                return Some(Ok(pen));
            }
            $visit(raw)
        }};
    }
    Some(match field.entry.op {
        DOUBLE | FIXED64 | SFIXED64 => value!(u64, |raw| visitor.fixed(pen, field, raw)),
        FLOAT | FIXED32 | SFIXED32 => value!(u32, |raw| visitor.fixed(pen, field, raw)),
        INT64 | UINT64 => value!(u64, |raw| visitor.varint(pen, field, raw, raw)),
        INT32 | ENUM => value!(i32, |raw| visitor.varint(pen, field, raw, signed(raw))),
        UINT32 => value!(u32, |raw| visitor.varint(pen, field, raw, u64::from(raw))),
        BOOL => value!(u8, |raw| visitor.varint(pen, field, raw, u64::from(raw != 0))),
        SINT32 => value!(i32, |raw| visitor.varint(pen, field, raw, zigzag32(raw))),
        SINT64 => value!(i64, |raw| visitor.varint(pen, field, raw, zigzag64(raw))),
        _ => return None,
    })
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
