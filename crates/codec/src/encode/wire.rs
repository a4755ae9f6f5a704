//! The visitor that encodes: values to protobuf's wire format, back to front.

use super::back::Back;
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
    #[inline(always)]
    fn varint<R: Copy>(&mut self, field: Field, _raw: R, wire: u64) -> Result<(), EncodeError> {
        self.back.reserve(Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { self.back.put_tagged(field.entry.tag, wire) };
        Ok(())
    }

    #[inline(always)]
    fn fixed<R: Copy>(&mut self, field: Field, raw: R) -> Result<(), EncodeError> {
        self.back.reserve(Back::SCALAR)?;
        // SAFETY: reserved, for both.
        unsafe {
            self.back.put(raw);
            self.back.put_tag(field.entry.tag);
        }
        Ok(())
    }

    unsafe fn array(&mut self, field: Field, start: *const u8, count: u32) -> Result<(), EncodeError> {
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
    unsafe fn text(&mut self, field: Field, start: *const u8, len: u32) -> Result<(), EncodeError> {
        self.back.reserve(len as usize + Back::SCALAR)?;
        // SAFETY: reserved, and the caller's promise; the bytes are an object's, not this buffer's.
        unsafe {
            self.back.put_bytes(start, len as usize);
            self.back.put_tagged(field.entry.tag, u64::from(len));
        }
        Ok(())
    }

    #[inline(always)]
    fn enter(&mut self, field: Field) -> Result<usize, EncodeError> {
        if field.entry.tag & 7 == GROUP {
            self.back.reserve(Back::SCALAR)?;
            // SAFETY: reserved. The end of a group has the wire type after that of its start.
            unsafe { self.back.put_tag(field.entry.tag + 1) };
        }
        Ok(self.back.len())
    }

    #[inline(always)]
    fn leave(&mut self, field: Field, mark: usize) -> Result<(), EncodeError> {
        if field.entry.tag & 7 != GROUP {
            return self.delimit(field.entry.tag, mark);
        }
        self.back.reserve(Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { self.back.put_tag(field.entry.tag) };
        Ok(())
    }

    unsafe fn unknown(&mut self, start: *const u8, len: u32) -> Result<(), EncodeError> {
        self.back.reserve(len as usize)?;
        // SAFETY: reserved, and the caller's promise.
        unsafe { self.back.put_bytes(start, len as usize) };
        Ok(())
    }

    #[cold]
    fn elsewhere(&mut self, field: Field, _: Part, _: Addr, _: u32) -> Result<(), EncodeError> {
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
        self.back.reserve(Back::SCALAR)?;
        // SAFETY: reserved.
        unsafe { self.back.put_tagged(tag, len as u64) };
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
        let bytes = count * size_of::<T>();
        let Some(tag) = tag else {
            self.back.reserve(bytes)?;
            // SAFETY: reserved, and the caller's promise; a little-endian machine (checked where the crate begins).
            unsafe { self.back.put_bytes(start, bytes) };
            return Ok(());
        };
        for index in (0..count).rev() {
            self.back.reserve(Back::SCALAR)?;
            // SAFETY: reserved, and the caller's promise.
            unsafe {
                self.back.put(load::<T>(start.wrapping_add(index * size_of::<T>())));
                self.back.put_tag(tag);
            }
        }
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
        let mut left = count;
        while left > 0 {
            let block = left.min(BLOCK);
            self.back.reserve(block * Back::SCALAR)?;
            for index in (left - block..left).rev() {
                // SAFETY: reserved for each of the block, and the caller's promise.
                unsafe {
                    let value = wire(load::<T>(start.wrapping_add(index * size_of::<T>())));
                    match tag {
                        None => self.back.put_varint(value),
                        Some(tag) => self.back.put_tagged(tag, value),
                    }
                }
            }
            left -= block;
        }
        Ok(())
    }
}
