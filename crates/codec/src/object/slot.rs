//! Which field of an object is meant: what the generated accessors and those by the table hand to [`Edit`](super::Edit).

use crate::table::{Entry, Flags};

/// Which field of a class, and where it lies in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of its entry.
    pub index: u32,
    /// Offset of its value.
    pub offset: u32,
    /// It is a member of a oneof.
    pub oneof: bool,
}

impl Slot {
    /// A field that is in no oneof.
    pub const fn new(index: u32, offset: u32) -> Slot {
        Slot { index, offset, oneof: false }
    }

    /// A member of a oneof.
    pub const fn member(index: u32, offset: u32) -> Slot {
        Slot { index, offset, oneof: true }
    }

    /// What the table says of entry `index`.
    pub const fn of(entry: &Entry, index: usize) -> Slot {
        Slot { index: index as u32, offset: entry.offset, oneof: entry.flags.has(Flags::ONEOF) }
    }
}
