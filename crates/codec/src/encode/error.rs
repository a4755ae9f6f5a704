//! Why a message was not serialised.

use std::fmt;

/// What stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// A field that has to be read here lies in accelerator memory: move it to the CPU, or use
    /// [`Strategy::MemoryAffinity`](super::Strategy::MemoryAffinity).
    InAccelerator {
        /// Class of the message.
        class: u32,
        /// Index of the field's entry.
        entry: u16,
    },
    /// Messages nested deeper than the limit.
    Depth,
    /// More than 2 GiB − 1, which no protobuf message may be.
    TooLong,
    /// The slice is too small.
    Room {
        /// Bytes that the message needs.
        needed: usize,
    },
    /// The memory for pre-serialised data, or for what the accelerator reads from the host, is full.
    Memory,
    /// An address outside the accelerator's memory, or one that does not fit what should be there.
    Address,
    /// Pre-serialised data that make no sense.
    Record {
        /// Where, bytes from their start.
        at: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::InAccelerator { class, entry } => write!(
                f,
                "entry {entry} of class {class} lies in accelerator memory: move it to the CPU, or serialise by memory affinity"
            ),
            EncodeError::Depth => f.write_str("messages are nested too deeply"),
            EncodeError::TooLong => {
                f.write_str("the message, encoded or pre-serialised, would be longer than 2 GiB - 1")
            }
            EncodeError::Room { needed } => {
                write!(f, "the message needs {needed} bytes, more than there is room for")
            }
            EncodeError::Memory => f.write_str("no memory is left for what crosses"),
            EncodeError::Address => f.write_str("an address does not lie in the accelerator's memory"),
            EncodeError::Record { at } => write!(f, "pre-serialised data make no sense at byte {at}"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<crate::memory::OutOfMemory> for EncodeError {
    fn from(_: crate::memory::OutOfMemory) -> EncodeError {
        EncodeError::Memory
    }
}
