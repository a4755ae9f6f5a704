//! Operations on keys, what they answer, and what they mean: the vocabulary of histories of key-value systems.
//!
//! `docs/history.md` describes the same for people who write histories by other means.

pub(crate) mod json;
mod spec;
mod value;

pub use spec::{Act, Item, Meaning, State};
pub use value::Value;

use base::Picos;

/// What is asked for a key. A time to live (`ttl`) counts from when the operation is done; without one the item stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The value, if there is one.
    Get,
    /// Stores, whatever is there.
    Set {
        /// What.
        value: Value,
        /// For how long.
        ttl: Option<Picos>,
    },
    /// Stores where nothing is.
    Add {
        /// What.
        value: Value,
        /// For how long.
        ttl: Option<Picos>,
    },
    /// Stores where something is.
    Replace {
        /// What.
        value: Value,
        /// For how long.
        ttl: Option<Picos>,
    },
    /// Stores if what is there is as expected.
    Cas {
        /// What.
        value: Value,
        /// What is expected.
        expect: Expect,
        /// For how long.
        ttl: Option<Picos>,
    },
    /// Removes.
    Delete,
    /// Computes a number from the one that is there, which is decimal text.
    Compute {
        /// How.
        how: Compute,
        /// With what.
        by: u64,
        /// What is stored, and answered, where nothing is; without it that is a miss.
        init: Option<u64>,
        /// For how long `init` is stored.
        ttl: Option<Picos>,
    },
    /// Adds bytes at the end of what is there.
    Append {
        /// Which.
        value: Value,
    },
    /// Stores a number if nothing or a smaller number is there.
    CondPut {
        /// Which.
        by: u64,
        /// For how long.
        ttl: Option<Picos>,
    },
    /// Gives what is there another time to live.
    Touch {
        /// Which; `None` for ever.
        ttl: Option<Picos>,
    },
    /// Removes everything, of all keys, now or later. Each key is judged for itself: not that all go at one moment. Where the history names a key: of this
    /// key alone, whether it is there or not.
    Flush {
        /// How much later.
        delay: Option<Picos>,
    },
}

/// What a compare-and-swap expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This version.
    Version(u64),
    /// This value.
    Value(Value),
}

/// How a number becomes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// More, beginning again at zero after 2⁶⁴ − 1.
    Incr,
    /// Less, but not below zero.
    Decr,
    /// The smaller of the two.
    Min,
    /// The larger of the two.
    Max,
    /// The bits of both.
    Or,
}

impl Compute {
    /// What becomes of `number`.
    pub fn apply(self, number: u64, by: u64) -> u64 {
        match self {
            Compute::Incr => number.wrapping_add(by),
            Compute::Decr => number.saturating_sub(by),
            Compute::Min => number.min(by),
            Compute::Max => number.max(by),
            Compute::Or => number | by,
        }
    }
}

impl Op {
    /// The time to live that it asks for.
    pub fn ttl(&self) -> Option<Picos> {
        match self {
            Op::Set { ttl, .. }
            | Op::Add { ttl, .. }
            | Op::Replace { ttl, .. }
            | Op::Cas { ttl, .. }
            | Op::Compute { ttl, .. }
            | Op::CondPut { ttl, .. }
            | Op::Touch { ttl } => *ttl,
            Op::Get | Op::Delete | Op::Append { .. } | Op::Flush { .. } => None,
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok,
    /// Nothing is there.
    Miss,
    /// The condition did not hold: something is there (add), nothing is there (replace, append), or no smaller number (cond_put).
    NotStored,
    /// Something else than expected is there (cas).
    Exists,
    /// The value had no room to grow; nothing happened (append).
    NoRoom,
    /// It was refused; it is certain that nothing happened. An operation whose end is unknown has no answer at all.
    Error,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ret {
    /// How it ended.
    pub status: Status,
    /// The value that was read or computed, where the answer tells.
    pub value: Option<Value>,
    /// The version that was read or given, where the answer tells.
    pub version: Option<u64>,
}

impl Ret {
    /// An answer that only says how it ended.
    pub const fn of(status: Status) -> Ret {
        Ret { status, value: None, version: None }
    }

    /// What was read.
    pub fn hit(value: &[u8]) -> Ret {
        Ret { value: Some(Value::of(value)), ..Ret::of(Status::Ok) }
    }

    /// With a version.
    pub fn versioned(self, version: u64) -> Ret {
        Ret { version: Some(version), ..self }
    }
}
