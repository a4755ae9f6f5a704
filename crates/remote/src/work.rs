//! What is asked of memory elsewhere, and what comes of it.

use std::fmt;

/// Names a region. Drawn at random by its owner: who has not been told it cannot guess it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

/// A place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which region.
    pub key: Key,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// A place in a queue's own memory, where what is read goes to and what is written comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Bytes from its beginning.
    pub at: u32,
    /// Bytes.
    pub len: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Bytes of the region go to local memory.
    Read,
    /// Bytes of local memory go to the region.
    Write,
    /// The region's word becomes `new` if it is `expected`; what it was goes to local memory, as eight bytes of this machine's order. The address is
    /// a multiple of eight.
    CompareSwap {
        /// What it should be.
        expected: u64,
        /// What it becomes then.
        new: u64,
    },
    /// Something is added to the region's word, around its end; what it was goes to local memory, likewise.
    FetchAdd {
        /// What is added.
        add: u64,
    },
}

impl Verb {
    /// Whether it changes a word atomically.
    pub fn is_atomic(self) -> bool {
        matches!(self, Verb::CompareSwap { .. } | Verb::FetchAdd { .. })
    }
}

/// A work, as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its completion has it.
    pub id: u64,
    /// What.
    pub verb: Verb,
    /// Where here.
    pub local: Local,
    /// Where there.
    pub remote: Address,
    /// Tell that it is done. What is not told is done when a later one is; a work that fails is told always.
    pub is_signaled: bool,
}

/// What came of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The owner has no such region, or not for this, or it ends before; nothing was done. The queue is broken.
    Denied,
    /// The owner is gone, or was not reached in time; it may have been done. The queue is broken.
    Unreachable,
    /// The queue broke at a work before this one; it was not told whether this one was done.
    Flushed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Done => "done",
            Outcome::Denied => "denied: no such region, not lent for this, or beyond its end",
            Outcome::Unreachable => "the owner of the memory is gone",
            Outcome::Flushed => "the queue broke at an earlier work",
        })
    }
}

/// What is told of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The work's.
    pub id: u64,
    /// What came of it.
    pub outcome: Outcome,
}
