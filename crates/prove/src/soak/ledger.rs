//! The verdict: what every key may hold, given what was tried and what was acknowledged. Pure: no clock, no socket.
//!
//! Each key belongs to one client at a time, with at most one write under way, so for each key the ledger knows the exact
//! states that it may be in: usually one; two once a client died between its attempt and the answer, until an answer or a
//! read tells which. A value of a state that is not among them is a fault, and the ledger says which kind.
//!
//! ```text
//!  attempt ──▶ pending ──answer──▶ the states that explain the answer, each with the write done
//!                 └──client died──▶ all states, and each with the write done
//!  read ──▶ the states that look like what was read; none: a fault
//! ```
//! Two promises: *store* keeps everything; a *cache* may drop a key at any time, never change it, and never refuse.
//!
//! After a fault the ledger believes what it saw, so that one fault is not reported for ever after.
//!
//! Invariants: `possible` is never empty; a pending write is in nobody else's hands (asserted by [`Ledger::attempt`]).
//!
//! Bounds: some 50 bytes per key. A key's `possible` doubles only when clients die twice between two answers for it.

use base::prng::mix64;
use std::fmt;

/// The longest value that the server takes, in bytes.
pub const MAX_VALUE: u64 = 1 << 20;

/// One write's bytes in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which write: they are numbered per range of keys, from 1.
    pub seq: u32,
    /// Its bytes.
    pub len: u32,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Absent,
    /// The bytes of these writes, one behind the other.
    Blob(Vec<Part>),
    /// A number.
    Number(u64),
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // seq and len are those of `Part`
pub enum Op {
    /// `set`.
    Set { seq: u32, len: u32 },
    /// `append`.
    Append { seq: u32, len: u32 },
    /// `prepend`.
    Prepend { seq: u32, len: u32 },
    /// `cas` with the unique number just read.
    Cas { seq: u32, len: u32 },
    /// `cas` with a number that is not the item's: must not store.
    WrongCas { seq: u32, len: u32 },
    /// `delete`.
    Delete,
    /// `set` of a number.
    SetNumber(u64),
    /// `incr`.
    Add(u64),
    /// `decr`.
    Take(u64),
}

/// What the server said to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `STORED` or `DELETED`.
    Done,
    /// `NOT_STORED`.
    NotStored,
    /// `NOT_FOUND`.
    NotFound,
    /// `EXISTS`.
    Exists,
    /// The number.
    Number(u64),
    /// `SERVER_ERROR out of memory`.
    NoMemory,
    /// `SERVER_ERROR object too large`.
    TooLarge,
    /// Anything else.
    Odd,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Absent,
    /// Whole parts.
    Blob {
        /// Of all parts and their order.
        digest: u64,
        /// How many.
        parts: u16,
        /// The highest write among them.
        newest: u32,
        /// Bytes together.
        len: u32,
    },
    /// A number.
    Number(u64),
    /// Bytes that no write of ours left there.
    Damaged {
        /// The first wrong byte.
        at: u32,
        /// The value's length.
        len: u32,
    },
}

impl State {
    /// What a read of this finds.
    pub fn seen(&self) -> Seen {
        match self {
            State::Absent => Seen::Absent,
            State::Number(n) => Seen::Number(*n),
            State::Blob(parts) => Seen::Blob {
                digest: parts
                    .iter()
                    .fold(0, |digest, p| mix64(digest ^ mix64(u64::from(p.seq) << 32 | u64::from(p.len)))),
                parts: parts.len() as u16,
                newest: parts.iter().map(|p| p.seq).max().unwrap_or(0),
                len: self.len() as u32,
            },
        }
    }

    fn len(&self) -> u64 {
        match self {
            State::Blob(parts) => parts.iter().map(|p| u64::from(p.len)).sum(),
            _ => 0,
        }
    }

    /// This, once `op` was done to it; the same where `op` does nothing to it.
    fn after(&self, op: Op) -> State {
        match (op, self) {
            (Op::Set { seq, len }, _) => State::Blob(vec![Part { seq, len }]),
            (Op::Cas { seq, len }, State::Blob(_)) => State::Blob(vec![Part { seq, len }]),
            (Op::Append { seq, len }, State::Blob(parts)) => {
                State::Blob(parts.iter().copied().chain([Part { seq, len }]).collect())
            }
            (Op::Prepend { seq, len }, State::Blob(parts)) => {
                State::Blob([Part { seq, len }].into_iter().chain(parts.iter().copied()).collect())
            }
            (Op::Delete, _) => State::Absent,
            (Op::SetNumber(n), _) => State::Number(n),
            (Op::Add(by), State::Number(n)) => State::Number(n.wrapping_add(by)),
            (Op::Take(by), State::Number(n)) => State::Number(n.saturating_sub(by)),
            _ => self.clone(),
        }
    }

    /// This after `op` was answered with `answer`; `None` where a key in this state is not answered so.
    fn explained(&self, op: Op, answer: Answer) -> Option<State> {
        let here = *self != State::Absent;
        let joins = matches!(op, Op::Append { .. } | Op::Prepend { .. });
        let wants = match (op, answer) {
            (Op::Set { .. } | Op::SetNumber(_), Answer::Done) => true,
            (Op::Append { .. } | Op::Prepend { .. } | Op::Cas { .. } | Op::Delete, Answer::Done) => here,
            (Op::Append { .. } | Op::Prepend { .. }, Answer::NotStored) => !here,
            (
                Op::Cas { .. } | Op::WrongCas { .. } | Op::Delete | Op::Add(_) | Op::Take(_),
                Answer::NotFound,
            ) => !here,
            (Op::WrongCas { .. }, Answer::Exists) => here,
            (Op::Add(_) | Op::Take(_), Answer::Number(n)) => here && self.after(op) == State::Number(n),
            (_, Answer::NoMemory) => return Some(self.clone()),
            (_, Answer::TooLarge) if joins && self.after(op).len() > MAX_VALUE => return Some(self.clone()),
            _ => false,
        };
        wants.then(|| self.after(op))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Absent => f.write_str("nothing"),
            State::Number(n) => write!(f, "the number {n}"),
            State::Blob(parts) => {
                let seqs: Vec<String> = parts.iter().map(|p| p.seq.to_string()).collect();
                write!(f, "{} bytes of write {}", self.len(), seqs.join(" + "))
            }
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Absent => f.write_str("nothing"),
            Seen::Number(n) => write!(f, "the number {n}"),
            Seen::Blob { parts: 1, newest, len, .. } => write!(f, "{len} bytes of write {newest}"),
            Seen::Blob { parts, newest, len, .. } => {
                write!(f, "{len} bytes of {parts} writes, the newest {newest}")
            }
            Seen::Damaged { at, len } => write!(f, "{len} bytes that are wrong from byte {at}"),
        }
    }
}

/// Which promise the server made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing acknowledged is lost.
    Store,
    /// What is there is right; anything may be missing.
    Cache,
}

/// The kinds of broken promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An acknowledged write is gone.
    Lost,
    /// An older value than an acknowledged one.
    Stale,
    /// A value that is no write's, or of several.
    Torn,
    /// Something is there after its deletion (in a cache: after it was seen missing).
    Resurrected,
    /// A write that was never sent.
    Invented,
    /// A number that does not follow from the one before.
    Miscounted,
    /// The server's answer fits no state that the key can be in.
    WrongAnswer,
    /// Refused where a refusal is not allowed.
    Refused,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Lost => "lost write",
            Kind::Stale => "stale value",
            Kind::Torn => "torn value",
            Kind::Resurrected => "resurrected value",
            Kind::Invented => "value from nowhere",
            Kind::Miscounted => "wrong number",
            Kind::WrongAnswer => "wrong answer",
            Kind::Refused => "refusal",
        })
    }
}

/// A broken promise: where, what, and what was to be expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which kind.
    pub kind: Kind,
    /// At which key.
    pub key: u32,
    /// What happened.
    pub found: String,
    /// What was allowed.
    pub expected: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at key {}: found {}, expected {}", self.kind, self.key, self.found, self.expected)
    }
}

#[derive(Clone, Debug)]
struct Entry {
    possible: Vec<State>,
    pending: Option<Op>,
    /// The newest write that was sent.
    attempted: u32,
    /// The newest write that was acknowledged.
    acknowledged: u32,
}

/// The states of a range of keys.
#[derive(Clone, Debug)]
pub struct Ledger {
    promise: Promise,
    first: u32,
    entries: Vec<Entry>,
}

impl Ledger {
    /// `count` keys from `first`, all absent.
    pub fn new(promise: Promise, first: u32, count: u32) -> Ledger {
        let empty = Entry { possible: vec![State::Absent], pending: None, attempted: 0, acknowledged: 0 };
        Ledger { promise, first, entries: vec![empty; count as usize] }
    }

    /// Its keys.
    pub fn keys(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.entries.len() as u32
    }

    /// The newest write that was sent to any key.
    pub fn newest(&self) -> u32 {
        self.entries.iter().map(|e| e.attempted).max().unwrap_or(0)
    }

    /// Keys that certainly hold something.
    pub fn present(&self) -> usize {
        self.entries.iter().filter(|e| !e.possible.contains(&State::Absent)).count()
    }

    /// Writes under way.
    pub fn pending(&self) -> usize {
        self.entries.iter().filter(|e| e.pending.is_some()).count()
    }

    fn entry(&mut self, key: u32) -> &mut Entry {
        &mut self.entries[(key - self.first) as usize]
    }

    /// `op` is about to be sent to `key`.
    pub fn attempt(&mut self, key: u32, op: Op) {
        let entry = self.entry(key);
        assert!(entry.pending.is_none(), "key {key} has a write under way, a second one was begun");
        entry.pending = Some(op);
        entry.attempted = entry.attempted.max(seq_of(op));
    }

    /// The write under way at `key` was answered.
    ///
    /// # Errors
    /// The promise that the answer breaks.
    pub fn answer(&mut self, key: u32, answer: Answer) -> Result<(), Fault> {
        let promise = self.promise;
        let entry = self.entry(key);
        let op = entry.pending.take().expect("an answer belongs to an attempt");
        entry.allow_eviction(promise);
        let after: Vec<State> = entry.possible.iter().filter_map(|s| s.explained(op, answer)).collect();
        let refused = promise == Promise::Cache && answer == Answer::NoMemory;
        let kind = match (answer, op) {
            _ if refused => Some(Kind::Refused),
            _ if !after.is_empty() => None,
            (Answer::NotFound | Answer::NotStored, _) => Some(Kind::Lost),
            (Answer::Number(_), Op::Add(_) | Op::Take(_)) => Some(Kind::Miscounted),
            (Answer::Done, Op::Delete | Op::Append { .. } | Op::Prepend { .. } | Op::Cas { .. }) => {
                Some(Kind::Resurrected)
            }
            _ => Some(Kind::WrongAnswer),
        };
        let fault = kind.map(|kind| Fault {
            kind,
            key,
            found: format!("{answer:?} to {op:?}"),
            expected: format!("an answer for {}", entry.describe()),
        });
        if after.is_empty() {
            entry.believe_either(op);
        } else {
            entry.possible = after;
            entry.possible.dedup();
        }
        if answer == Answer::Done {
            entry.acknowledged = entry.acknowledged.max(seq_of(op));
        }
        fault.map_or(Ok(()), Err)
    }

    /// The client died: whatever it had under way happened or did not. Call it only when the server has let go of the
    /// client's connection, so that it cannot happen later.
    pub fn orphan(&mut self) {
        for entry in &mut self.entries {
            if let Some(op) = entry.pending.take() {
                entry.believe_either(op);
            }
        }
    }

    /// A read of `key`, with no write under way there, found `seen`.
    ///
    /// # Errors
    /// The promise that is broken.
    pub fn observe(&mut self, key: u32, seen: Seen) -> Result<(), Fault> {
        let promise = self.promise;
        let entry = self.entry(key);
        entry.allow_eviction(promise);
        let explains: Vec<State> = entry.possible.iter().filter(|s| s.seen() == seen).cloned().collect();
        if !explains.is_empty() {
            entry.possible = explains;
            return Ok(());
        }
        let fault =
            Fault { kind: entry.kind_of(seen), key, found: seen.to_string(), expected: entry.describe() };
        entry.believe(seen);
        Err(fault)
    }
}

impl Entry {
    fn allow_eviction(&mut self, promise: Promise) {
        if promise == Promise::Cache && !self.possible.contains(&State::Absent) {
            self.possible.push(State::Absent);
        }
    }

    fn believe_either(&mut self, op: Op) {
        for at in 0..self.possible.len() {
            let after = self.possible[at].after(op);
            if !self.possible.contains(&after) {
                self.possible.push(after);
            }
        }
    }

    /// After a fault: what was seen is taken for true where it can be written down, else anything of before.
    fn believe(&mut self, seen: Seen) {
        match seen {
            Seen::Absent => self.possible = vec![State::Absent],
            Seen::Number(n) => self.possible = vec![State::Number(n)],
            Seen::Blob { .. } | Seen::Damaged { .. } => {}
        }
    }

    fn kind_of(&self, seen: Seen) -> Kind {
        let gone = self.possible.iter().all(|s| *s == State::Absent);
        match seen {
            Seen::Damaged { .. } => Kind::Torn,
            Seen::Absent => Kind::Lost,
            Seen::Blob { newest, .. } if newest > self.attempted => Kind::Invented,
            _ if gone => Kind::Resurrected,
            Seen::Number(_) => Kind::Miscounted,
            Seen::Blob { newest, .. } if newest < self.acknowledged => Kind::Stale,
            Seen::Blob { .. } => Kind::Torn,
        }
    }

    fn describe(&self) -> String {
        let states: Vec<String> = self.possible.iter().map(State::to_string).collect();
        format!(
            "{} (sent up to write {}, acknowledged up to {})",
            states.join(" or "),
            self.attempted,
            self.acknowledged
        )
    }
}

fn seq_of(op: Op) -> u32 {
    match op {
        Op::Set { seq, .. }
        | Op::Append { seq, .. }
        | Op::Prepend { seq, .. }
        | Op::Cas { seq, .. }
        | Op::WrongCas { seq, .. } => seq,
        Op::Delete | Op::SetNumber(_) | Op::Add(_) | Op::Take(_) => 0,
    }
}

#[cfg(test)]
mod tests;
