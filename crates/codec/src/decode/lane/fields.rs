//! Tags, and the values of fields that are not repeated scalars: the lane's hot loop is [`Walk::plain`].

use super::{Field, Walk};
use crate::decode::error::Fault;
use crate::decode::sink::Sink;
use crate::decode::skip::{skip, tag as slow_tag};
use crate::decode::text::is_utf8;
use crate::decode::varint::{long, short, zigzag32, zigzag64};
use crate::decode::window::Window;
use crate::memory::Place;
use crate::object::{Addr, Object, Ref};
use crate::table::{Entry, Flags, Kind, Message};

impl<S: Sink, const BORROW: bool> Walk<'_, S, BORROW> {
    /// Takes strings and singular scalars as they come, up to position `stop`: this is the hot loop. It ends at the first
    /// field of another kind, whose tag is behind the position then.
    #[inline(always)]
    pub(super) fn plain(&mut self, stop: usize) -> Result<Option<Field>, Fault> {
        const STRING: u8 = Kind::String as u8;
        const BYTES: u8 = Kind::Bytes as u8;
        const REPEATED_STRING: u8 = STRING | Entry::REPEATED;
        const REPEATED_BYTES: u8 = BYTES | Entry::REPEATED;
        const INT32: u8 = Kind::Int32 as u8;
        const UINT32: u8 = Kind::Uint32 as u8;
        const ENUM: u8 = Kind::Enum as u8;
        const INT64: u8 = Kind::Int64 as u8;
        const UINT64: u8 = Kind::Uint64 as u8;
        const BOOL: u8 = Kind::Bool as u8;
        const SINT32: u8 = Kind::Sint32 as u8;
        const SINT64: u8 = Kind::Sint64 as u8;
        const FLOAT: u8 = Kind::Float as u8;
        const FIXED32: u8 = Kind::Fixed32 as u8;
        const SFIXED32: u8 = Kind::Sfixed32 as u8;
        const DOUBLE: u8 = Kind::Double as u8;
        const FIXED64: u8 = Kind::Fixed64 as u8;
        const SFIXED64: u8 = Kind::Sfixed64 as u8;
        let entries = self.entries;
        let object = self.frame.open.object;
        // In registers, not behind `self`: the next field's address depends on both.
        let (mut at, mut expect) = (self.at, usize::from(self.frame.expect));
        while at < stop {
            let start = at;
            let word = self.window.word(start);
            let tag;
            if word & 0x80 == 0 {
                tag = word as u32 & 0x7f;
                at += 1;
            } else if word & 0x8000 == 0 {
                tag = word as u32 & 0x7f | (word >> 1) as u32 & 0x3f80;
                at += 2;
            } else {
                self.at = start;
                (tag, at) = slow_tag(self.input, start, self.frame.end as usize)?;
            }
            let mut index = expect;
            // SAFETY: invariant 3.
            let mut entry = unsafe { *entries.get_unchecked(index) };
            if entry.tag != tag {
                // An absent field is the most usual surprise: try the one after it before looking it up.
                index = usize::from(entry.next);
                // SAFETY: invariant 3.
                entry = unsafe { *entries.get_unchecked(index) };
                if entry.tag != tag {
                    let Some(found) = self.find(tag) else {
                        (self.at, self.frame.expect) = (at, expect as u16);
                        return Ok(Some(Field { index: None, tag, start }));
                    };
                    index = found;
                    entry = entries[found];
                }
            }
            expect = usize::from(entry.next);
            macro_rules! store {
                ($value:expr) => {{
                    let value = $value;
                    // SAFETY: the object is of the frame's message, open and ours; the entry is one of its entries, and
                    // each arm stores what its kind has in an object.
                    unsafe { store(object, &entry, index, value) }
                }};
            }
            macro_rules! varint {
                () => {{
                    let value;
                    self.at = start;
                    (value, at) = varint(&self.window, at)?;
                    value
                }};
            }
            // Of bytes that are all within the message.
            macro_rules! length {
                () => {{
                    let len = varint!();
                    let end = self.frame.end as usize;
                    if at > end || len > (end - at) as u64 {
                        return Err(Fault::Truncated);
                    }
                    len
                }};
            }
            match entry.op {
                INT64 | UINT64 => store!(varint!()),
                INT32 | UINT32 => store!(varint!() as u32),
                STRING | BYTES => {
                    let len = length!();
                    let value = self.text(&entry, at, len as usize)?;
                    if self.message.flags & Message::MAP_ENTRY != 0 && index == 0 {
                        self.frame.key = (at as u32, len as u32);
                    }
                    at += len as usize;
                    store!(value);
                }
                REPEATED_STRING | REPEATED_BYTES => {
                    let len = length!();
                    let value = self.text(&entry, at, len as usize)?;
                    self.push(&entry, index, value)?;
                    at += len as usize;
                }
                BOOL => store!(u8::from(varint!() != 0)),
                ENUM if !entry.flags.has(Flags::CLOSED) => store!(varint!() as i32),
                SINT32 => store!(zigzag32(varint!() as u32)),
                SINT64 => store!(zigzag64(varint!())),
                FLOAT | FIXED32 | SFIXED32 => {
                    store!(self.window.word(at) as u32);
                    at += 4;
                }
                DOUBLE | FIXED64 | SFIXED64 => {
                    store!(self.window.word(at));
                    at += 8;
                }
                _ => {
                    (self.at, self.frame.expect) = (at, expect as u16);
                    return Ok(Some(Field { index: Some(index), tag, start }));
                }
            }
        }
        (self.at, self.frame.expect) = (at, expect as u16);
        Ok(None)
    }

    /// The entry that a tag means; a repeated scalar may come packed or not, whatever its entry says.
    #[inline]
    pub(super) fn find(&self, tag: u32) -> Option<usize> {
        self.table.find(self.message, tag >> 3).filter(|&index| {
            let entry = &self.entries[index];
            let packable = entry.is_repeated() && entry.kind().is_scalar();
            tag == entry.tag || packable && (tag & 7 == 2 || tag & 7 == entry.kind().wire_type())
        })
    }

    /// A field that is not a string or singular scalar: a repeated scalar, a message, or unknown. A message is only opened.
    pub(super) fn other(&mut self, Field { index, tag, start }: Field) -> Result<(), Fault> {
        let Some(index) = index else { return self.unexpected(tag, start) };
        let entry = self.entries[index];
        match entry.kind() {
            Kind::Message => {
                let (from, len) = self.delimited()?;
                self.at = from;
                self.open(&entry, index, from + len, 0, start)
            }
            Kind::Group => self.open(&entry, index, self.frame.end as usize, entry.number(), start),
            Kind::Enum if !entry.is_repeated() => {
                let value = self.varint()? as i32;
                if self.table.is_enum_value(entry.aux, value) {
                    self.store(&entry, index, value);
                    return Ok(());
                }
                self.stray(start, self.at)
            }
            _ => self.repeated(&entry, index, tag),
        }
    }

    pub(super) fn unexpected(&mut self, tag: u32, start: usize) -> Result<(), Fault> {
        let number = tag >> 3;
        if number == 0 || tag & 7 > 5 {
            return Err(Fault::Tag);
        }
        if tag & 7 == 4 {
            return self.end_group(number);
        }
        // A two-byte tag is taken as it comes; its second byte may lie behind the end.
        if self.at > self.frame.end as usize {
            return Err(Fault::Truncated);
        }
        let depth = self.depth.saturating_sub(self.around.len() as u32 + 1);
        self.at = skip(self.input, self.at, self.frame.end as usize, tag, depth)?;
        self.unknown(start, self.at)
    }

    /// A varint at the position, which moves behind it.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let (value, after) = varint(&self.window, self.at)?;
        self.at = after;
        Ok(value)
    }

    /// A length and as many bytes, all within the message: where they begin, how many. The position moves behind them.
    #[inline(always)]
    pub(super) fn delimited(&mut self) -> Result<(usize, usize), Fault> {
        let len = self.varint()?;
        let from = self.at;
        let end = self.frame.end as usize;
        if from > end || len > (end - from) as u64 {
            return Err(Fault::Truncated);
        }
        self.at = from + len as usize;
        Ok((from, len as usize))
    }

    /// Where the bytes of a field of an open object go.
    #[inline(always)]
    pub(super) fn place(&self, entry: &Entry) -> Place {
        if entry.flags.has(Flags::ACC) { Place::Acc } else { self.frame.open.place }
    }

    /// Stores a string or bytes.
    #[inline(always)]
    pub(super) fn text(&mut self, entry: &Entry, from: usize, len: usize) -> Result<Ref, Fault> {
        let bytes = &self.input[from..from + len];
        if entry.flags.has(Flags::UTF8) && !is_utf8(bytes, self.window.word(from)) {
            return Err(Fault::Utf8);
        }
        let addr = if BORROW {
            Addr::host(bytes.as_ptr().cast_mut())
        } else {
            self.sink.bytes(self.place(entry), bytes)?
        };
        Ok(Ref { addr, len: len as u32, capacity: 0 })
    }

    /// Writes a singular value into the open object.
    #[inline(always)]
    pub(super) fn store<T: Copy>(&mut self, entry: &Entry, index: usize, value: T) {
        // SAFETY: the object is of the frame's message, open and ours; the entry is one of its entries, and T is what its
        // kind has in an object.
        unsafe { store(self.frame.open.object, entry, index, value) }
    }

    /// Appends an element to a repeated field of the open object.
    ///
    /// Length and capacity are loaded and stored as one word, the address as another: a load of the whole reference would
    /// wait for the stores of its parts that the element before made.
    #[inline(always)]
    pub(super) fn push<T: Copy>(&mut self, entry: &Entry, index: usize, value: T) -> Result<(), Fault> {
        let object = self.frame.open.object;
        // SAFETY: a repeated field has a Ref in the open object: an address, and two words of 4 bytes.
        let (mut addr, mut counts) =
            unsafe { (object.read::<Addr>(entry.offset), object.read::<u64>(entry.offset + 8)) };
        if counts as u32 == (counts >> 32) as u32 {
            let array = self.sink.grow(self.place(entry), self.array(entry), size_of::<T>(), 1)?;
            (addr, counts) = (array.addr, u64::from(array.capacity) << 32 | u64::from(array.len));
            self.set_array(entry, index, array);
        }
        let element = addr.pointer().wrapping_add(counts as u32 as usize * size_of::<T>());
        // SAFETY: `grow` gave room for an element behind the last one; the length is below the capacity, so the sum stays
        // in its half of the word.
        unsafe {
            element.cast::<T>().write(value);
            object.write(entry.offset + 8, counts + 1);
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn array(&self, entry: &Entry) -> Ref {
        // SAFETY: a repeated field has a Ref in the open object.
        unsafe { self.frame.open.object.read(entry.offset) }
    }

    #[inline(always)]
    pub(super) fn set_array(&mut self, entry: &Entry, index: usize, array: Ref) {
        // SAFETY: as `array`.
        unsafe {
            self.frame.open.object.set(index as u32);
            self.frame.open.object.write(entry.offset, array);
        }
    }
}

/// A varint at `at`, and the position behind it.
#[inline(always)]
fn varint(window: &Window<'_>, at: usize) -> Result<(u64, usize), Fault> {
    let word = window.word(at);
    let (value, len) = match short(word) {
        Some(found) => found,
        None => long(word, window.word(at + 8) as u16).ok_or(Fault::Varint)?,
    };
    Ok((value, at + len))
}

/// Writes a singular value into an open object.
///
/// # Safety
/// The object is this thread's to write; the entry is number `index` of its message, and `T` is what its kind has in an object.
#[inline(always)]
unsafe fn store<T: Copy>(object: Object, entry: &Entry, index: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe {
        if entry.flags.has(Flags::ONEOF) {
            object.choose(index as u32, entry.offset);
        }
        object.set(index as u32);
        object.write(entry.offset, value);
    }
}
