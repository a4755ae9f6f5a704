//! Why a message was refused.

use crate::memory::OutOfMemory;
use std::fmt;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The input, or a sub-message, ends within a field.
    Truncated,
    /// A varint of more than ten bytes.
    Varint,
    /// A tag with field number 0, above 2^29 − 1, or with a wire type that does not exist.
    Tag,
    /// An end-group tag where no such group is open.
    EndGroup,
    /// A string field that is not UTF-8.
    Utf8,
    /// A required field is missing.
    Required,
    /// Messages nested deeper than [`Limits::depth`](super::Limits::depth).
    Depth,
    /// More input than [`Limits::input_bytes`](super::Limits::input_bytes).
    TooLong,
    /// More memory than the limits allow for this input, or the memory is full.
    Memory,
    /// A sub-message came in two pieces, and the first was sent away already. It never leaves the crate: the lane decodes
    /// such a message where it can merge first.
    Split,
}

/// A refused message: what, and at which byte of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong.
    pub fault: Fault,
    /// Where the lane stood, bytes from the start of the input.
    pub at: u32,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            Fault::Truncated => "the input ends within a field",
            Fault::Varint => "a varint is longer than ten bytes",
            Fault::Tag => {
                "no such tag: field number 0, a wire type that does not exist, or more than five bytes"
            }
            Fault::EndGroup => "an end-group tag without its group",
            Fault::Utf8 => "a string is not valid UTF-8",
            Fault::Required => "a required field is missing",
            Fault::Depth => "messages are nested too deeply",
            Fault::TooLong => "the input is longer than the limit",
            Fault::Split => "a sub-message comes in two pieces",
            Fault::Memory => "the message needs more memory than its length allows, or memory is full",
        };
        write!(f, "{what} (at byte {})", self.at)
    }
}

impl std::error::Error for DecodeError {}

/// A fault before its position is known.
impl From<OutOfMemory> for Fault {
    fn from(_: OutOfMemory) -> Fault {
        Fault::Memory
    }
}
