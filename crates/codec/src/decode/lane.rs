//! A lane: the machine that walks one message through the table.
//!
//! State: the position in the input, the open message ([`Frame`]) and a stack of the messages around it, so that it can pause
//! between any two fields ([`Walk::go`]). A turn of the loop
//! reads one tag, takes the expected entry or looks it up, and handles the value; at a message's end it closes the object
//! and links it into the one around it.
//!
//! Invariants
//! 1. A frame's `end` is at most its parent's, and the root's is the input's length. Asserted where a frame is opened: the
//!    length is compared before it is used.
//! 2. A value that ran past `end` is found out at the next turn, before anything else is read; what it stored until then
//!    lies in the object of the entry, and the whole message is refused.
//! 3. `expect` is an index of the message's entries (the compiler's word), or there are no entries and it points at `NONE`.
//!
//! Cost: `docs/measurements/codec.md`. Sources: RPCAcc III-B item 15; hyperpb's expected-next-field.

use super::direct::Direct;
use super::error::{DecodeError, Fault};
use super::limits::Limits;
use super::maps::{Key, Maps};
use super::sink::{Open, Sink};
use super::skip::{skip, tag as slow_tag, varint as slow_varint};
use super::text::is_utf8;
use super::varint::{long, short, zigzag32, zigzag64};
use super::window::Window;
use crate::memory::{Arena, Place};
use crate::object::{Addr, Object, Ref, Value};
use crate::table::{Entry, Flags, Kind, Message, Table};
use std::ptr::NonNull;

/// Stands for the expected entry of a message without fields; no legal tag equals its own.
static NONE: [Entry; 1] = [Entry { tag: u32::MAX, op: 0, flags: Flags(0), next: 0, offset: 0, aux: 0 }];

/// One message being decoded, in 56 bytes; positions are bytes from the start of the input.
#[derive(Clone, Copy, Debug)]
struct Frame {
    open: Open,
    class: u32,
    /// Behind the message; of a group: behind the message around it.
    end: u32,
    /// The number that ends this group, or 0.
    group: u32,
    /// Where its tag begins.
    start: u32,
    /// Unknown fields not yet stored: a run of the input.
    unknown: (u32, u32),
    /// In a map entry: the key, when it is a string.
    key: (u32, u32),
    /// Index of the expected entry.
    expect: u16,
    /// Index, in the message around it, of the entry that this one is the value of.
    slot: u16,
    /// In a map entry: its value is an unknown value of a closed enum, and the whole entry belongs to the unknown fields.
    stray: bool,
}

/// A field whose tag was read: its entry if there is one, and where the tag began.
struct Field {
    index: Option<usize>,
    tag: u32,
    start: usize,
}

/// The machine, with what it keeps between messages.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    limits: Limits,
    maps: Maps,
    around: Vec<Frame>,
}

impl Lane {
    pub(crate) fn new(limits: Limits) -> Lane {
        Lane { limits, ..Lane::default() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Decodes all of `input` as a message of `class` into `arena`; strings are borrowed from the input if `BORROW`.
    #[inline]
    pub(crate) fn direct<const BORROW: bool>(
        &mut self,
        table: &Table,
        class: u32,
        input: &[u8],
        arena: &Arena,
    ) -> Result<Object, DecodeError> {
        let allowed = self.limits.memory_for(input.len());
        let before = arena.limit_to(arena.held_bytes().saturating_add(allowed));
        let mut sink = Direct::new(arena);
        let root = match self.root(table, class, input, &mut sink) {
            Ok(root) => self.walk::<_, BORROW>(table, class, input, &mut sink, root).go(usize::MAX),
            Err(error) => Err(error),
        };
        arena.limit_to(before);
        let root = root?.expect("without a pause it goes on to the end").pointer();
        Ok(Object::at(NonNull::new(root).expect("an object has an address")))
    }

    /// Opens the root of a message of `class`.
    #[inline(always)]
    pub(crate) fn root<S: Sink>(
        &self,
        table: &Table,
        class: u32,
        input: &[u8],
        sink: &mut S,
    ) -> Result<Open, DecodeError> {
        if input.len() > self.limits.input_bytes.min(Limits::MOST_INPUT) {
            return Err(DecodeError { fault: Fault::TooLong, at: 0 });
        }
        sink.open(Place::Host, table.message(class)).map_err(|full| DecodeError { fault: full.into(), at: 0 })
    }

    /// A message on its way; see [`Walk::go`]. Apart from `root`, which can fail: a walk in a `Result` would be copied.
    #[inline(always)]
    pub(crate) fn walk<'w, S: Sink, const BORROW: bool>(
        &'w mut self,
        table: &'w Table,
        class: u32,
        input: &'w [u8],
        sink: &'w mut S,
        root: Open,
    ) -> Walk<'w, S, BORROW> {
        self.around.clear();
        self.maps.clear();
        let message = table.message(class);
        Walk {
            table,
            input,
            window: Window::new(input),
            at: 0,
            message,
            entries: entries(table, message),
            frame: Frame::new(root, class, input.len(), 0, 0, 0),
            around: &mut self.around,
            depth: self.limits.depth,
            maps: &mut self.maps,
            sink,
        }
    }
}

impl Frame {
    #[inline]
    fn new(open: Open, class: u32, end: usize, group: u32, slot: usize, start: usize) -> Frame {
        let (end, slot, start) = (end as u32, slot as u16, start as u32);
        let none = (0, 0);
        Frame { open, class, end, group, start, unknown: none, key: none, expect: 0, slot, stray: false }
    }
}

/// The entries of a message; never none, so that there always is an expected one.
#[inline]
fn entries<'t>(table: &'t Table, message: &Message) -> &'t [Entry] {
    let entries = table.entries(message);
    if entries.is_empty() { &NONE } else { entries }
}

/// One message on its way through a lane.
pub(crate) struct Walk<'w, S, const BORROW: bool> {
    table: &'w Table,
    input: &'w [u8],
    window: Window<'w>,
    at: usize,
    /// The innermost open message, and its lines of the table.
    frame: Frame,
    message: &'w Message,
    entries: &'w [Entry],
    /// The messages around it, the root first.
    around: &'w mut Vec<Frame>,
    depth: u32,
    maps: &'w mut Maps,
    sink: &'w mut S,
}

impl<S: Sink, const BORROW: bool> Walk<'_, S, BORROW> {
    /// Goes on until the message is done, or at least to position `pause`: the root's address if it is done.
    pub(crate) fn go(&mut self, pause: usize) -> Result<Option<Addr>, DecodeError> {
        self.fields(pause).map_err(|fault| DecodeError { fault, at: self.at.min(self.input.len()) as u32 })
    }

    fn fields(&mut self, pause: usize) -> Result<Option<Addr>, Fault> {
        loop {
            while let Some(field) = self.plain(pause.min(self.frame.end as usize))? {
                self.other(field)?;
            }
            if self.at < self.frame.end as usize {
                return Ok(None);
            }
            if self.at > self.frame.end as usize || self.frame.group != 0 {
                return Err(Fault::Truncated);
            }
            if self.around.is_empty() && self.is_simple() {
                return Ok(Some(self.seal()?));
            }
            if let Some(root) = self.close()? {
                return Ok(Some(root));
            }
        }
    }

    /// Whether the open message has nothing to do at its end but to be sealed and linked.
    #[inline(always)]
    fn is_simple(&self) -> bool {
        self.frame.unknown.1 == 0
            && self.message.required == 0
            && self.message.flags & Message::MAP_ENTRY == 0
    }

    /// Takes strings and singular scalars as they come, up to position `stop`: this is the hot loop. It ends at the first
    /// field of another kind, whose tag is behind the position then.
    #[inline(always)]
    fn plain(&mut self, stop: usize) -> Result<Option<Field>, Fault> {
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
            match entry.op {
                INT64 | UINT64 => store!(varint!()),
                INT32 | UINT32 => store!(varint!() as u32),
                STRING | BYTES => {
                    let len = varint!();
                    let end = self.frame.end as usize;
                    if at > end || len > (end - at) as u64 {
                        return Err(Fault::Truncated);
                    }
                    let value = self.text(&entry, at, len as usize)?;
                    if self.message.flags & Message::MAP_ENTRY != 0 && index == 0 {
                        self.frame.key = (at as u32, len as u32);
                    }
                    at += len as usize;
                    store!(value);
                }
                REPEATED_STRING | REPEATED_BYTES => {
                    let len = varint!();
                    let end = self.frame.end as usize;
                    if at > end || len > (end - at) as u64 {
                        return Err(Fault::Truncated);
                    }
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
    fn find(&self, tag: u32) -> Option<usize> {
        self.table.find(self.message, tag >> 3).filter(|&index| {
            let entry = &self.entries[index];
            let packable = entry.is_repeated() && entry.kind().is_scalar();
            tag == entry.tag || packable && (tag & 7 == 2 || tag & 7 == entry.kind().wire_type())
        })
    }

    /// A field that is not a string or singular scalar: a repeated scalar, a message, or unknown. A message is only opened.
    fn other(&mut self, Field { index, tag, start }: Field) -> Result<(), Fault> {
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

    fn unexpected(&mut self, tag: u32, start: usize) -> Result<(), Fault> {
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
    fn varint(&mut self) -> Result<u64, Fault> {
        let (value, after) = varint(&self.window, self.at)?;
        self.at = after;
        Ok(value)
    }

    /// A length and as many bytes, all within the message: where they begin, how many. The position moves behind them.
    #[inline(always)]
    fn delimited(&mut self) -> Result<(usize, usize), Fault> {
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
    fn place(&self, entry: &Entry) -> Place {
        if entry.flags.has(Flags::ACC) { Place::Acc } else { self.frame.open.place }
    }

    /// Stores a string or bytes.
    #[inline(always)]
    fn text(&mut self, entry: &Entry, from: usize, len: usize) -> Result<Ref, Fault> {
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
    fn store<T: Copy>(&mut self, entry: &Entry, index: usize, value: T) {
        // SAFETY: the object is of the frame's message, open and ours; the entry is one of its entries, and T is what its
        // kind has in an object.
        unsafe { store(self.frame.open.object, entry, index, value) }
    }

    /// Appends an element to a repeated field of the open object.
    ///
    /// Length and capacity are loaded and stored as one word, the address as another: a load of the whole reference would
    /// wait for the stores of its parts that the element before made.
    #[inline(always)]
    fn push<T: Copy>(&mut self, entry: &Entry, index: usize, value: T) -> Result<(), Fault> {
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
    fn array(&self, entry: &Entry) -> Ref {
        // SAFETY: a repeated field has a Ref in the open object.
        unsafe { self.frame.open.object.read(entry.offset) }
    }

    #[inline(always)]
    fn set_array(&mut self, entry: &Entry, index: usize, array: Ref) {
        // SAFETY: as `array`.
        unsafe {
            self.frame.open.object.set(index as u32);
            self.frame.open.object.write(entry.offset, array);
        }
    }

    /// A repeated scalar: one element, or a packed run of them.
    #[inline(never)]
    fn repeated(&mut self, entry: &Entry, index: usize, tag: u32) -> Result<(), Fault> {
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

    fn repeated_fixed<T: Value>(&mut self, entry: &Entry, index: usize, tag: u32) -> Result<(), Fault> {
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
    fn repeated_varint<T: Value>(
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
    fn repeated_closed(&mut self, entry: &Entry, index: usize, tag: u32) -> Result<(), Fault> {
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

    /// Opens the message that is the value of entry `index`; its tag began at `start`.
    #[inline]
    fn open(
        &mut self,
        entry: &Entry,
        index: usize,
        end: usize,
        group: u32,
        start: usize,
    ) -> Result<(), Fault> {
        if self.around.len() as u32 + 1 >= self.depth {
            return Err(Fault::Depth);
        }
        let message = self.table.message(entry.aux);
        let place = self.place(entry);
        let object = self.frame.open.object;
        // SAFETY: the entry is one of the open object's.
        let present = !entry.is_repeated() && unsafe { object.has(index as u32) };
        let open = if present {
            // SAFETY: as above; a present sub-message has an address.
            let addr = unsafe { object.read::<Addr>(entry.offset) };
            self.sink.reopen(addr, place).ok_or(Fault::Split)?
        } else {
            self.sink.open(place, message)?
        };
        self.around.push(self.frame);
        self.frame = Frame::new(open, entry.aux, end, group, index, start);
        self.message = message;
        self.entries = entries(self.table, message);
        Ok(())
    }

    /// Closes the innermost message and links it into the one around it; the root's address if it was the root.
    #[inline]
    fn close(&mut self) -> Result<Option<Addr>, Fault> {
        if self.frame.unknown.1 != 0 {
            self.keep_run()?;
        }
        if self.message.required != 0 {
            self.check_required()?;
        }
        if self.is_in_map() {
            return self.close_map_entry().map(|()| None);
        }
        let addr = self.seal()?;
        let index = usize::from(self.frame.slot);
        if !self.leave() {
            return Ok(Some(addr));
        }
        let entry = self.entries[index];
        if entry.is_repeated() {
            self.push(&entry, index, addr)?;
        } else {
            self.store(&entry, index, addr);
        }
        Ok(None)
    }

    /// Back to the message around the open one; false if there is none.
    #[inline]
    fn leave(&mut self) -> bool {
        let Some(parent) = self.around.pop() else { return false };
        self.frame = parent;
        self.message = self.table.message(parent.class);
        self.entries = entries(self.table, self.message);
        true
    }

    /// Finishes the open object.
    #[inline]
    fn seal(&mut self) -> Result<Addr, Fault> {
        if self.message.flags & Message::PLAIN == 0 {
            self.maps.close(self.around.len());
        }
        let entries = &self.entries[..usize::from(self.message.fields)];
        Ok(self.sink.close(self.frame.open, self.message, entries)?)
    }

    #[cold]
    fn check_required(&mut self) -> Result<(), Fault> {
        for word in 0..usize::from(self.message.words) {
            let mask = self.table.required(self.message, word);
            // SAFETY: presence words come first in the object.
            let have = unsafe { self.frame.open.object.read::<u32>(word as u32 * 4) };
            if have & mask != mask {
                return Err(Fault::Required);
            }
        }
        Ok(())
    }

    /// True if the open message is the entry of a map. As a root, its class being asked for, it is a message like others.
    fn is_in_map(&self) -> bool {
        self.message.flags & Message::MAP_ENTRY != 0 && !self.around.is_empty()
    }

    fn end_group(&mut self, number: u32) -> Result<(), Fault> {
        if self.frame.group != number {
            return Err(Fault::EndGroup);
        }
        let root = self.close()?;
        assert!(root.is_none(), "the root is not a group");
        Ok(())
    }

    /// Closes the entry of a map: it replaces the one that has its key already.
    fn close_map_entry(&mut self) -> Result<(), Fault> {
        let (start, stray) = (self.frame.start, self.frame.stray);
        let (key, value) = (self.entries[0], self.entries[1]);
        let object = self.frame.open.object;
        // SAFETY: entry 0 is the key and entry 1 the value of every map entry; their kinds say what to read.
        let (key, valueless) = unsafe {
            let key = match key.kind() {
                Kind::String => {
                    Key::Text(self.input[self.frame.key.0 as usize..].as_ptr(), self.frame.key.1 as usize)
                }
                kind => match kind.size() {
                    1 => Key::Number(object.read::<u8>(key.offset).into()),
                    4 => Key::Number(object.read::<u32>(key.offset).into()),
                    _ => Key::Number(object.read(key.offset)),
                },
            };
            (key, value.kind().is_message() && !object.has(1))
        };
        if valueless && !stray {
            // A missing value is an empty message: opened and closed like one that is there, ending where it begins.
            self.open(&value, 1, self.at, 0, self.at)?;
            if self.message.required != 0 {
                self.check_required()?;
            }
            let addr = self.seal()?;
            assert!(self.leave(), "the map entry is around its value");
            self.store(&value, 1, addr);
        }
        let addr = if stray { Addr::NULL } else { self.seal()? };
        let index = usize::from(self.frame.slot);
        assert!(self.leave(), "a map entry is in a message");
        if stray {
            return self.unknown(start as usize, self.at);
        }
        let entry = self.entries[index];
        let of = (self.around.len(), index as u16);
        let array = self.array(&entry);
        if array.len != 0 && !self.maps.is_open(of) {
            self.index_map(of, array);
        }
        match self.maps.place(of, key) {
            None => self.push(&entry, index, addr),
            Some(at) => {
                // SAFETY: `at` is below the array's length.
                unsafe { self.sink.element(array, size_of::<Addr>(), at).cast::<Addr>().write(addr) };
                Ok(())
            }
        }
    }

    /// Indexes the entries of a map that was finished and is open again. Only a sink that can reopen comes here, and its
    /// objects are this thread's memory.
    #[cold]
    fn index_map(&mut self, of: (usize, u16), array: Ref) {
        let message = self.table.message(self.entries[usize::from(of.1)].aux);
        let key = self.table.entries(message)[0];
        for number in 0..array.len {
            // SAFETY: elements of a map are finished objects of the entry's class.
            unsafe {
                let element = self.sink.element(array, size_of::<Addr>(), number).cast::<Addr>().read();
                let view = crate::object::view_at(element);
                let key = match key.kind() {
                    Kind::String => {
                        let text = view.bytes(key.offset);
                        Key::Text(text.as_ptr(), text.len())
                    }
                    kind => match kind.size() {
                        1 => Key::Number(view.scalar::<u8>(key.offset).into()),
                        4 => Key::Number(view.scalar::<u32>(key.offset).into()),
                        _ => Key::Number(view.scalar(key.offset)),
                    },
                };
                self.maps.place(of, key);
            }
        }
    }

    /// An unknown value of a closed enum: the field is kept as it came; in a map, the whole entry is.
    #[cold]
    fn stray(&mut self, start: usize, end: usize) -> Result<(), Fault> {
        if self.is_in_map() {
            self.frame.stray = true;
            return Ok(());
        }
        self.unknown(start, end)
    }

    /// The bytes from `start` to `end` are an unknown field of the open message.
    fn unknown(&mut self, start: usize, end: usize) -> Result<(), Fault> {
        if end > self.frame.end as usize {
            return Err(Fault::Truncated);
        }
        if self.frame.unknown.1 as usize == start && start != 0 {
            self.frame.unknown.1 = end as u32;
            return Ok(());
        }
        if self.frame.unknown.1 != 0 {
            self.keep_run()?;
        }
        self.frame.unknown = (start as u32, end as u32);
        Ok(())
    }

    /// Stores the run of unknown fields that was gathered.
    #[cold]
    fn keep_run(&mut self) -> Result<(), Fault> {
        let (start, end) = std::mem::take(&mut self.frame.unknown);
        let run = &self.input[start as usize..end as usize];
        if !BORROW {
            return self.keep(run);
        }
        let run = Ref { addr: Addr::host(run.as_ptr().cast_mut()), len: run.len() as u32, capacity: 0 };
        self.keep_ref(run)
    }

    /// Copies bytes to the unknown fields of the open message.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let addr = self.sink.bytes(self.frame.open.place, bytes)?;
        self.keep_ref(Ref { addr, len: bytes.len() as u32, capacity: 0 })
    }

    fn keep_ref(&mut self, run: Ref) -> Result<(), Fault> {
        let (object, offset) = (self.frame.open.object, self.message.unknown);
        // SAFETY: every object has a Ref of runs there.
        let mut runs: Ref = unsafe { object.read(offset) };
        if runs.len == runs.capacity {
            runs = self.sink.grow(self.frame.open.place, runs, size_of::<Ref>(), 1)?;
        }
        // SAFETY: `grow` gave room.
        unsafe { self.sink.element(runs, size_of::<Ref>(), runs.len).cast::<Ref>().write(run) };
        runs.len += 1;
        // SAFETY: as above.
        unsafe { object.write(offset, runs) };
        Ok(())
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

/// Writes a varint at `at`; the position behind it.
fn put_varint(out: &mut [u8; 20], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}
