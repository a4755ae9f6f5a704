//! Pre-serialised messages: values as they lie in objects, one behind the other, in the order in which they are encoded.
//!
//! The host writes them forwards while it walks from the last field to the first; the accelerator reads them forwards and
//! encodes from the back. Nothing is encoded by the host, and no address but those in accelerator memory is left in them.
//!
//! ```text
//! record = head u32, then what the head says; little-endian; every record is a multiple of 4 bytes, the rest zeros
//!
//! head: │ entry index, 16 bits (low) │ what, 8 bits │ 0, 8 bits │
//!
//!  what           then
//!  1 scalar       the value as in the object: 1 byte and three zeros (bool), 4 bytes, or 8
//!  2 text         len u32 │ len bytes                          string, bytes, or an element of a repeated one
//!  3 array        count u32 │ count elements as in the object  repeated scalar, packed or not
//!  4 enter        nothing                                      sub-message or element of a repeated one: its records follow
//!  5 leave        nothing                                      the sub-message is complete; entry as in its enter
//!  6 unknown      len u32 │ len bytes                          a run of unknown fields; entry 0
//!  7 far text     len u32 │ address u64                        text in accelerator memory
//!  8 far array    count u32 │ address u64                      any repeated field whose array is in accelerator memory
//!  9 far message  address u64                                  a sub-message in accelerator memory
//! ```
//!
//! An entry index is that of the message that is open; the accelerator has the same table (RPCAcc III-B: one Schema Table
//! for all), so tags, kinds and classes are not repeated. Values that are not written (implicit zeros, absent fields) have
//! no record.
//!
//! Bounds: one buffer in host memory (where the accelerator can read); it grows by doubling and is kept for the next message.
//! Sources: RPCAcc III-C (items 19 to 22); the format is ours, the paper gives none.

use super::error::EncodeError;
use super::walk::{Field, Part, Visitor};
use crate::copy::{CopyEngine, Pending};
use crate::memory::{Arena, Memory, OutOfMemory, copy};
use crate::object::Addr;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a record is.
pub(super) mod what {
    pub const SCALAR: u8 = 1;
    pub const TEXT: u8 = 2;
    pub const ARRAY: u8 = 3;
    pub const ENTER: u8 = 4;
    pub const LEAVE: u8 = 5;
    pub const UNKNOWN: u8 = 6;
    pub const FAR_TEXT: u8 = 7;
    pub const FAR_ARRAY: u8 = 8;
    pub const FAR_MESSAGE: u8 = 9;
}

/// The buffer of records.
pub(super) struct Outbox {
    arena: Arena,
    start: NonNull<u8>,
    pen: Pen,
}

/// Where the next record goes, and the end of the room for it. The walk holds it in registers: see `back`.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    at: *mut u8,
    end: *mut u8,
}

// SAFETY: an Outbox owns its block alone, in the arena that it holds.
unsafe impl Send for Outbox {}

impl Outbox {
    const FIRST: usize = 1024;

    pub(super) fn new(memory: &Arc<Memory>) -> Result<Outbox, OutOfMemory> {
        let arena = Arena::new(memory);
        let start = arena.alloc(Outbox::FIRST)?;
        let pen = Pen { at: start.as_ptr(), end: start.as_ptr().wrapping_add(Outbox::FIRST) };
        Ok(Outbox { arena, start, pen })
    }

    pub(super) fn clear(&mut self) {
        self.pen.at = self.start.as_ptr();
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.pen.at.addr() - self.start.addr().get()
    }

    /// Moves what `pen` has written to a block with room for `bytes` more.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, pen: Pen, bytes: usize) -> Result<Pen, EncodeError> {
        let len = pen.at.addr() - self.start.addr().get();
        let needed = len.checked_add(bytes).ok_or(EncodeError::TooLong)?;
        let capacity = needed.max((pen.end.addr() - self.start.addr().get()) * 2);
        let arena = Arena::new(self.arena.memory());
        let start = arena.alloc(capacity)?;
        // SAFETY: len bytes are written here, and there is room for more there.
        unsafe { start.as_ptr().copy_from_nonoverlapping(self.start.as_ptr(), len) };
        let pen = Pen { at: start.as_ptr().wrapping_add(len), end: start.as_ptr().wrapping_add(capacity) };
        *self = Outbox { arena, start, pen };
        Ok(pen)
    }
}

impl Pen {
    /// Puts `value`.
    ///
    /// # Safety
    /// As many bytes are reserved.
    #[inline(always)]
    unsafe fn put<T: Copy>(&mut self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.at.cast::<T>().write_unaligned(value) };
        self.at = self.at.wrapping_add(size_of::<T>());
    }

    /// Puts a head; room for the whole record must be reserved.
    ///
    /// # Safety
    /// 4 bytes are reserved.
    #[inline(always)]
    unsafe fn put_head(&mut self, what: u8, index: u16) {
        // SAFETY: the caller's promise.
        unsafe { self.put(u32::from(what) << 16 | u32::from(index)) };
    }
}

/// The visitor that pre-serialises. Long values are copied by an engine: all of them are there when this has been dropped.
pub(super) struct Records<'b, E: CopyEngine> {
    pub(super) out: &'b mut Outbox,
    pub(super) copies: Pending<'b, E>,
    /// Values at least this long are the engine's.
    pub(super) threshold: usize,
}

impl<E: CopyEngine> Records<'_, E> {
    #[inline(always)]
    fn reserve(&mut self, pen: Pen, bytes: usize) -> Result<Pen, EncodeError> {
        if pen.end.addr() - pen.at.addr() >= bytes {
            return Ok(pen);
        }
        // The engine writes into the block that is about to go.
        self.copies.0.drain();
        self.out.grow(pen, bytes)
    }

    #[inline(always)]
    fn scalar<R: Copy>(&mut self, pen: Pen, field: Field<'_>, raw: R) -> Result<Pen, EncodeError> {
        let mut pen = self.reserve(pen, 4 + 8)?;
        // SAFETY: reserved.
        unsafe {
            pen.put_head(what::SCALAR, field.index);
            if size_of::<R>() < 4 {
                // The zeros behind a bool.
                pen.at.cast::<u32>().write_unaligned(0);
            }
            pen.put(raw);
        }
        pen.at = pen.at.wrapping_add(size_of::<R>().next_multiple_of(4) - size_of::<R>());
        Ok(pen)
    }

    /// Puts a record of `count` and as many values, `bytes` bytes in all.
    ///
    /// # Safety
    /// `from` is the first of `bytes` readable bytes, which stay as they are until the engine is drained.
    #[inline(always)]
    unsafe fn run(
        &mut self,
        pen: Pen,
        head: (u8, u16),
        count: u32,
        from: *const u8,
        bytes: usize,
    ) -> Result<Pen, EncodeError> {
        let padded = bytes.next_multiple_of(4);
        let mut pen = self.reserve(pen, 4 + 4 + padded)?;
        // SAFETY: reserved, and the caller's promise.
        unsafe {
            pen.put_head(head.0, head.1);
            pen.put(count);
            if padded != bytes {
                pen.at.wrapping_add(padded - 4).cast::<u32>().write_unaligned(0);
            }
            if bytes >= self.threshold {
                self.copies.0.submit(from, pen.at, bytes);
            } else {
                copy(from, pen.at, bytes);
            }
        }
        pen.at = pen.at.wrapping_add(padded);
        Ok(pen)
    }

    fn mark(&mut self, what: u8, field: Field<'_>) -> Result<(), EncodeError> {
        let mut pen = self.reserve(self.out.pen, 4)?;
        // SAFETY: reserved.
        unsafe { pen.put_head(what, field.index) };
        self.out.pen = pen;
        Ok(())
    }
}

impl<E: CopyEngine> Visitor for Records<'_, E> {
    type Pen = Pen;

    #[inline(always)]
    fn pen(&self) -> Pen {
        self.out.pen
    }

    #[inline(always)]
    fn set_pen(&mut self, pen: Pen) {
        self.out.pen = pen;
    }

    #[inline(always)]
    fn varint<R: Copy>(&mut self, pen: Pen, field: Field<'_>, raw: R, _: u64) -> Result<Pen, EncodeError> {
        self.scalar(pen, field, raw)
    }

    #[inline(always)]
    fn fixed<R: Copy>(&mut self, pen: Pen, field: Field<'_>, raw: R) -> Result<Pen, EncodeError> {
        self.scalar(pen, field, raw)
    }

    unsafe fn array(&mut self, field: Field<'_>, start: *const u8, count: u32) -> Result<(), EncodeError> {
        let bytes = count as usize * field.entry.kind().size();
        // SAFETY: the caller's promise; the message is not written while it is walked.
        self.out.pen = unsafe { self.run(self.out.pen, (what::ARRAY, field.index), count, start, bytes)? };
        Ok(())
    }

    #[inline(always)]
    unsafe fn text(
        &mut self,
        pen: Pen,
        field: Field<'_>,
        start: *const u8,
        len: u32,
        _stay: bool,
    ) -> Result<Pen, EncodeError> {
        // SAFETY: as `array`.
        unsafe { self.run(pen, (what::TEXT, field.index), len, start, len as usize) }
    }

    #[inline(always)]
    fn enter(&mut self, field: Field<'_>) -> Result<usize, EncodeError> {
        self.mark(what::ENTER, field)?;
        Ok(0)
    }

    #[inline(always)]
    fn leave(&mut self, field: Field<'_>, _mark: usize) -> Result<(), EncodeError> {
        self.mark(what::LEAVE, field)
    }

    unsafe fn unknown(&mut self, start: *const u8, len: u32) -> Result<(), EncodeError> {
        // SAFETY: as `array`.
        self.out.pen = unsafe { self.run(self.out.pen, (what::UNKNOWN, 0), len, start, len as usize)? };
        Ok(())
    }

    fn elsewhere(&mut self, field: Field<'_>, part: Part, addr: Addr, count: u32) -> Result<(), EncodeError> {
        let mut pen = self.reserve(self.out.pen, 16)?;
        // SAFETY: reserved.
        unsafe {
            match part {
                Part::Text => pen.put_head(what::FAR_TEXT, field.index),
                Part::Array => pen.put_head(what::FAR_ARRAY, field.index),
                Part::Message => pen.put_head(what::FAR_MESSAGE, field.index),
            }
            if part != Part::Message {
                pen.put(count);
            }
            pen.put(addr.to_bits());
        }
        self.out.pen = pen;
        Ok(())
    }
}
