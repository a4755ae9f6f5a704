//! The visitor that encodes: values to protobuf's wire format, back to front.

use super::back::{Back, Pen};
use super::error::EncodeError;
use super::walk::{Field, Part, Visitor, load, signed, zigzag32, zigzag64};
use crate::object::Addr;
use crate::table::{Flags, Kind};

/// Writes into `back`.
pub(super) struct Wire<'b> {
    pub(super) back: &'b mut Back,
}

/// Elements of an array between two looks at the room that is left.
const BLOCK: usize = 64;

impl Visitor for Wire<'_> {
    type Pen = Pen;

    #[inline(always)]
    fn pen(&self) -> Pen {
        self.back.pen()
    }

    #[inline(always)]
    fn set_pen(&mut self, pen: Pen) {
        self.back.set_pen(pen);
    }

    #[inline(always)]
    fn varint<R: Copy>(
        &mut self,
        pen: Pen,
        field: Field<'_>,
        _raw: R,
        wire: u64,
    ) -> Result<Pen, EncodeError> {
        let mut pen = self.back.reserve(pen, Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { pen.put_tagged(field.entry.tag, wire) };
        Ok(pen)
    }

    #[inline(always)]
    fn fixed<R: Copy>(&mut self, pen: Pen, field: Field<'_>, raw: R) -> Result<Pen, EncodeError> {
        let mut pen = self.back.reserve(pen, Back::SCALAR)?;
        // SAFETY: reserved, for both.
        unsafe {
            pen.put(raw);
            pen.put_tag(field.entry.tag);
        }
        Ok(pen)
    }

    unsafe fn array(&mut self, field: Field<'_>, start: *const u8, count: u32) -> Result<(), EncodeError> {
        let packed = field.entry.flags.has(Flags::PACKED);
        let before = self.back.len();
        let tag = if packed { None } else { Some(field.entry.tag) };
        let count = count as usize;
        // SAFETY: the caller's promise: elements of this kind, each of the size that its arm says.
        unsafe {
            match field.entry.kind() {
                Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => {
                    self.fixed_array::<u64>(start, count, tag)?
                }
                Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => self.fixed_array::<u32>(start, count, tag)?,
                Kind::Int64 | Kind::Uint64 => self.varint_array::<u64>(start, count, tag, |raw| raw)?,
                Kind::Int32 | Kind::Enum => self.varint_array(start, count, tag, signed)?,
                Kind::Uint32 => self.varint_array::<u32>(start, count, tag, u64::from)?,
                Kind::Bool => self.varint_array::<u8>(start, count, tag, |raw| u64::from(raw != 0))?,
                Kind::Sint32 => self.varint_array(start, count, tag, zigzag32)?,
                Kind::Sint64 => self.varint_array(start, count, tag, zigzag64)?,
                Kind::String | Kind::Bytes | Kind::Message | Kind::Group => {
                    unreachable!("the walk takes the elements of other fields one by one")
                }
            }
        }
        if packed { self.delimit(field.entry.tag, before) } else { Ok(()) }
    }

    #[inline(always)]
    unsafe fn text(
        &mut self,
        pen: Pen,
        field: Field<'_>,
        start: *const u8,
        len: u32,
        stay: bool,
    ) -> Result<Pen, EncodeError> {
        let mut pen = self.back.reserve(pen, len as usize + Back::SCALAR)?;
        // SAFETY: reserved, and the caller's promise; the bytes are an object's, not this buffer's.
        unsafe {
            if stay {
                self.back.put_later(&mut pen, start, len as usize);
            } else {
                pen.put_bytes(start, len as usize);
            }
            pen.put_tagged(field.entry.tag, u64::from(len));
        }
        Ok(pen)
    }

    #[inline(always)]
    fn enter(&mut self, field: Field<'_>) -> Result<usize, EncodeError> {
        if field.entry.tag & 7 == GROUP {
            // The end of a group has the wire type after that of its start.
            self.tag(field.entry.tag + 1)?;
        }
        Ok(self.back.len())
    }

    #[inline(always)]
    fn leave(&mut self, field: Field<'_>, mark: usize) -> Result<(), EncodeError> {
        if field.entry.tag & 7 == GROUP {
            self.tag(field.entry.tag)
        } else {
            self.delimit(field.entry.tag, mark)
        }
    }

    unsafe fn unknown(&mut self, start: *const u8, len: u32) -> Result<(), EncodeError> {
        let mut pen = self.back.reserve(self.pen(), len as usize)?;
        // SAFETY: reserved, and the caller's promise.
        unsafe { pen.put_bytes(start, len as usize) };
        self.set_pen(pen);
        Ok(())
    }

    #[cold]
    fn elsewhere(&mut self, field: Field<'_>, _: Part, _: Addr, _: u32) -> Result<(), EncodeError> {
        Err(EncodeError::InAccelerator { class: field.class, entry: field.index })
    }
}

/// The wire type of the start of a group.
const GROUP: u32 = 3;

impl Wire<'_> {
    /// Puts the tag and length of what was written since the buffer had `before` bytes.
    #[inline(always)]
    fn delimit(&mut self, tag: u32, before: usize) -> Result<(), EncodeError> {
        let len = self.back.len() - before;
        let mut pen = self.back.reserve(self.pen(), Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { pen.put_tagged(tag, len as u64) };
        self.set_pen(pen);
        Ok(())
    }

    fn tag(&mut self, tag: u32) -> Result<(), EncodeError> {
        let mut pen = self.back.reserve(self.pen(), Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { pen.put_tag(tag) };
        self.set_pen(pen);
        Ok(())
    }

    /// # Safety
    /// `start` is the first of `count` elements of type `T`.
    unsafe fn fixed_array<T: Copy>(
        &mut self,
        start: *const u8,
        count: usize,
        tag: Option<u32>,
    ) -> Result<(), EncodeError> {
        let mut pen = self.pen();
        let Some(tag) = tag else {
            let bytes = count * size_of::<T>();
            pen = self.back.reserve(pen, bytes)?;
            // SAFETY: reserved, and the caller's promise; a little-endian machine (checked where the crate begins).
            unsafe { pen.put_bytes(start, bytes) };
            self.set_pen(pen);
            return Ok(());
        };
        for index in (0..count).rev() {
            pen = self.back.reserve(pen, Back::SCALAR)?;
            // SAFETY: reserved, and the caller's promise.
            unsafe {
                pen.put(load::<T>(start.wrapping_add(index * size_of::<T>())));
                pen.put_tag(tag);
            }
        }
        self.set_pen(pen);
        Ok(())
    }

    /// # Safety
    /// `start` is the first of `count` elements of type `T`.
    #[inline(always)]
    unsafe fn varint_array<T: Copy>(
        &mut self,
        start: *const u8,
        count: usize,
        tag: Option<u32>,
        wire: impl Fn(T) -> u64 + Copy,
    ) -> Result<(), EncodeError> {
        let mut pen = self.pen();
        let mut left = count;
        while left > 0 {
            let block = left.min(BLOCK);
            pen = self.back.reserve(pen, block * Back::SCALAR)?;
            for index in (left - block..left).rev() {
                // SAFETY: reserved for each of the block, and the caller's promise.
                unsafe {
                    let value = wire(load::<T>(start.wrapping_add(index * size_of::<T>())));
                    match tag {
                        None => pen.put_varint(value),
                        Some(tag) => pen.put_tagged(tag, value),
                    }
                }
            }
            left -= block;
        }
        self.set_pen(pen);
        Ok(())
    }
}
