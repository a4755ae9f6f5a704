//! Repeated scalars, packed or not.

use super::Walk;
use super::unknown::put_varint;
use crate::decode::error::Fault;
use crate::decode::sink::Sink;
use crate::decode::skip::varint as slow_varint;
use crate::decode::varint::{zigzag32, zigzag64};
use crate::object::Value;
use crate::table::{Entry, Flags, Kind};

impl<S: Sink, const BORROW: bool> Walk<'_, S, BORROW> {
    /// A repeated scalar: one element, or a packed run of them.
    #[inline(never)]
    pub(super) fn repeated(&mut self, entry: &Entry, index: usize, tag: u32) -> Result<(), Fault> {
        match entry.kind() {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => self.repeated_fixed::<u64>(entry, index, tag),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => self.repeated_fixed::<u32>(entry, index, tag),
            Kind::Int64 | Kind::Uint64 => self.repeated_varint(entry, index, tag, |value| value),
            Kind::Int32 | Kind::Uint32 => self.repeated_varint(entry, index, tag, |value| value as u32),
            Kind::Bool => self.repeated_varint(entry, index, tag, |value| u8::from(value != 0)),
            Kind::Sint32 => self.repeated_varint(entry, index, tag, |value| zigzag32(value as u32)),
            Kind::Sint64 => self.repeated_varint(entry, index, tag, zigzag64),
            Kind::Enum if entry.flags.has(Flags::CLOSED) => self.repeated_closed(entry, index, tag),
            Kind::Enum => self.repeated_varint(entry, index, tag, |value| value as i32),
            Kind::String | Kind::Bytes | Kind::Message | Kind::Group => unreachable!("not a scalar"),
        }
    }

    pub(super) fn repeated_fixed<T: Value>(
        &mut self,
        entry: &Entry,
        index: usize,
        tag: u32,
    ) -> Result<(), Fault> {
        let size = size_of::<T>();
        let (from, len) = if tag & 7 == 2 {
            self.delimited()?
        } else {
            self.at += size;
            (self.at - size, size)
        };
        if self.at > self.frame.end as usize || !len.is_multiple_of(size) {
            return Err(Fault::Truncated);
        }
        let count = (len / size) as u32;
        if count == 0 {
            return Ok(());
        }
        let mut array = self.array(entry);
        if array.capacity - array.len < count {
            array = self.sink.grow(self.place(entry), array, size, count)?;
        }
        let source = self.input[from..from + len].as_ptr();
        // SAFETY: `grow` gave room for count elements behind the last one, apart from the input; little-endian machine
        // (checked where the crate begins).
        unsafe { self.sink.element(array, size, array.len).copy_from_nonoverlapping(source, len) };
        array.len += count;
        self.set_array(entry, index, array);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn repeated_varint<T: Value>(
        &mut self,
        entry: &Entry,
        index: usize,
        tag: u32,
        from_bits: impl Fn(u64) -> T + Copy,
    ) -> Result<(), Fault> {
        if tag & 7 != 2 {
            let value = self.varint()?;
            return self.push(entry, index, from_bits(value));
        }
        let (from, len) = self.delimited()?;
        let run = &self.input[from..from + len];
        // Every varint ends with a byte below 0x80: the exact number of elements, at memory speed.
        let count = run.iter().map(|&byte| usize::from(byte < 0x80)).sum::<usize>() as u32;
        if run.last().is_some_and(|&byte| byte >= 0x80) {
            return Err(Fault::Truncated);
        }
        if count == 0 {
            return Ok(());
        }
        let mut array = self.array(entry);
        if array.capacity - array.len < count {
            array = self.sink.grow(self.place(entry), array, size_of::<T>(), count)?;
        }
        let mut out = self.sink.element(array, size_of::<T>(), array.len).cast::<T>();
        let end = self.at;
        self.at = from;
        while self.at < end {
            let word = self.window.word(self.at);
            if word & 0x8080_8080_8080_8080 == 0 && self.at + 8 <= end {
                for byte in word.to_le_bytes() {
                    // SAFETY: each byte is an element, and `count` elements have room.
                    unsafe { out.write(from_bits(u64::from(byte))) };
                    out = out.wrapping_add(1);
                }
                self.at += 8;
                continue;
            }
            let value = self.varint()?;
            // SAFETY: this element's last byte was counted.
            unsafe { out.write(from_bits(value)) };
            out = out.wrapping_add(1);
        }
        array.len += count;
        self.set_array(entry, index, array);
        Ok(())
    }

    /// A repeated closed enum: values that it does not have go to the unknown fields, one by one.
    pub(super) fn repeated_closed(&mut self, entry: &Entry, index: usize, tag: u32) -> Result<(), Fault> {
        let (mut from, end) = if tag & 7 == 2 {
            let (from, len) = self.delimited()?;
            (from, from + len)
        } else {
            let from = self.at;
            self.varint()?;
            (from, self.at.min(self.frame.end as usize))
        };
        while from < end {
            let (value, after) = slow_varint(self.input, from, end)?;
            if self.table.is_enum_value(entry.aux, value as i32) {
                self.push(entry, index, value as i32)?;
            } else {
                if self.frame.unknown.1 != 0 {
                    self.keep_run()?;
                }
                let mut field = [0; 20];
                let number = put_varint(&mut field, 0, u64::from(entry.number() << 3));
                let len = put_varint(&mut field, number, value);
                self.keep(&field[..len])?;
            }
            from = after;
        }
        Ok(())
    }
}
