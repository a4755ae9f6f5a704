//! A lane: the machine that walks one message through the table.
//!
//! State: the position in the input, the open message ([`Frame`]) and a stack of the messages around it, so that it can pause
//! between any two fields ([`Walk::go`]). A turn of the loop reads one tag, takes the expected entry or looks it up, and
//! handles the value; at a message's end it closes the object and links it into the one around it.
//!
//! Invariants
//! 1. A frame's `end` is at most its parent's, and the root's is the input's length. Asserted where a frame is opened: the
//!    length is compared before it is used.
//! 2. A value that ran past `end` is found out at the next turn, before anything else is read; what it stored until then
//!    lies in the object of the entry, and the whole message is refused.
//! 3. `expect` is an index of the message's entries (the compiler's word), or there are no entries and it points at `NONE`.
//!
//! Cost: `docs/measurements/codec.md`. Sources: RPCAcc III-B item 15; hyperpb's expected-next-field.

mod fields;
mod nesting;
mod repeated;
mod unknown;

use crate::decode::direct::Direct;
use crate::decode::error::{DecodeError, Fault};
use crate::decode::limits::Limits;
use crate::decode::maps::Maps;
use crate::decode::sink::{Open, Sink};
use crate::decode::window::Window;
use crate::memory::{Arena, Place};
use crate::object::{Addr, Object};
use crate::table::{Entry, Flags, Message, Table};
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
}
