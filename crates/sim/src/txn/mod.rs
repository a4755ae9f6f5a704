//! One-shot transactions on several keys, what they answer, and the judges of histories of them.
//!
//! A transaction is preconditions, reads and writes. All preconditions and reads see the moment before it; if they hold, all writes are
//! done at once and have its LSN as their version; else nothing is. `docs/history.md` describes the same for people who write histories
//! by other means.
//!
//! Two judges, which have nothing in common but what a transaction means ([`effect`]):
//! * [`order`]: the system says its order (the LSNs), so it is held to it: replay, and compare every answer. Nearly linear; says what is
//!   wrong in words.
//! * [`serial`]: is there any order at all that explains the answers? A search, for small histories and as an oracle for the first.

pub mod effect;
pub(crate) mod json;
pub mod order;
pub mod serial;
mod show;

#[cfg(test)]
mod tests;

use crate::history::{self, Operation};
use crate::kv::Value;
use std::sync::Arc;

/// A key.
pub type Key = Arc<[u8]>;
/// The item that says which claim counts: its number, in decimal.
pub const CLAIM: &[u8] = &[0, 0];
/// What clients of transactions asked and were answered.
pub type History = history::History<Txn, Ret>;

type Asked<'a> = Operation<'a, Txn, Ret>;

/// What must hold of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has this version; 0: it is absent.
    Version(u64),
    /// It is there.
    Exists,
    /// It has this value.
    Value(Value),
    /// It is a number of at least this much; absent counts as 0.
    AtLeast(i64),
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value.
    Put(Value),
    /// It is absent.
    Delete,
    /// It is a number (decimal text, 64-bit signed) and becomes larger by this much; absent counts as 0.
    Add(i64),
}

/// What is asked. A key has at most one read and one write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Preconditions.
    pub conditions: Vec<(Key, Condition)>,
    /// Keys that are read.
    pub reads: Vec<Key>,
    /// Keys that are written.
    pub writes: Vec<(Key, Change)>,
    /// The number of the claim that it is made under; 0: none. What writes does so only where this one counts, or writes the [`CLAIM`] alone; what
    /// only reads under a claim is answered only there.
    pub claim: u64,
}

impl Txn {
    /// The keys it touches, some perhaps twice.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let conditions = self.conditions.iter().map(|(key, _)| key);
        conditions.chain(&self.reads).chain(self.written())
    }

    /// The keys it writes.
    pub fn written(&self) -> impl Iterator<Item = &Key> {
        self.writes.iter().map(|(key, _)| key)
    }

    /// Whether it may be done where the claim of this number counts.
    pub fn is_allowed(&self, claim: u64) -> bool {
        let is_claim = self.writes.len() == 1 && &*self.writes[0].0 == CLAIM;
        self.claim == claim || is_claim || (self.only_reads() && self.claim == 0)
    }

    /// It writes nothing, so it has no place of its own in the order.
    pub fn only_reads(&self) -> bool {
        self.writes.is_empty()
    }
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The LSN of the transaction that wrote it.
    pub version: u64,
    /// The value.
    pub value: Value,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abort {
    /// This precondition does not hold; it is the first that does not.
    Condition(u32),
    /// This write adds to what is no number.
    NotANumber(u32),
    /// This write adds beyond 64 bits.
    Overflow(u32),
    /// There was no room for what is written.
    NoRoom,
    /// What the reads found was too much for a reply; it is left out.
    LongReply,
    /// Another claim counts than its own; nothing was looked at.
    Claimed,
}

/// What was answered. A transaction of which nobody knows what became has no answer at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ret {
    /// It has its place in the order.
    Done(Done),
    /// It was refused: it is certain that it was not done, and never will be.
    Refused,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its place in the order: the version of what it wrote. Of one that only reads: what it saw is the state after this one.
    pub lsn: u64,
    /// Nothing was written, because of this.
    pub abort: Option<Abort>,
    /// What the reads found, in their order; also where it aborted.
    pub reads: Vec<Option<Found>>,
    /// What each addition came to, in the order of the writes; none where it aborted.
    pub sums: Vec<i64>,
}

/// What a judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Good,
    /// This is, in some lines.
    Violation(String),
    /// It is not known, and why.
    Undecided(String),
}
