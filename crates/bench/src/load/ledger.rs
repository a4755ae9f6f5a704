//! What may be read: every write of the run is entered before it is sent, and every value read is held against it.
//!
//! Two levels:
//! * *values* (always): a value is whole, belongs to its key, and its nonce names a write that was really made.
//! * *strict*: each connection keeps to keys of its own, so it knows which write it must see. Servers answer one
//!   connection in order, so a read sees exactly the last write sent before it on that connection, or misses (evicted,
//!   expired); after a delete it misses. A write that the server refused leaves its key open until the next good write.
//!
//! Ordering: (W) `Ledger::enter` stores the writer's count with Release before the request is sent; (R) `check` loads it
//! with Acquire after the reply arrived. The reply itself orders the two across threads.
//!
//! Bounds: 8 bytes per writer, and under *strict* 8 bytes per key; the first findings are kept in words.

use super::value::{self, BadValue, Nonce};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The writes of one run against one server, shared by all its connections.
#[derive(Debug)]
pub struct Ledger {
    run: u32,
    /// Whether values of earlier runs may be there (no preload was made).
    foreign_allowed: bool,
    writes: Vec<AtomicU64>,
}

/// What is wrong with a value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// Not bytes of the generator: changed, torn or cut.
    Corrupt,
    /// A good value of another key.
    OtherKey,
    /// A good value that no write of this run made.
    NeverWritten,
    /// An older write than the connection's own last one.
    Stale,
    /// A value of a key that the connection had deleted before.
    Undead,
    /// The flags are not those that were stored.
    Flags,
    /// An item that was not asked for.
    Unasked,
    /// A miss where the run allows none (`--misses-fail`).
    Lost,
}

impl Wrong {
    /// A name for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Corrupt => "corrupt",
            Wrong::OtherKey => "other key",
            Wrong::NeverWritten => "never written",
            Wrong::Stale => "stale",
            Wrong::Undead => "undead",
            Wrong::Flags => "flags",
            Wrong::Unasked => "unasked",
            Wrong::Lost => "lost",
        }
    }
}

/// A wrong value in words: what was found, and what was expected.
pub type Finding = (Wrong, String);

impl Ledger {
    /// The ledger of run number `run` with `writers` connections.
    pub fn new(run: u32, writers: u16, foreign_allowed: bool) -> Ledger {
        let writes = (0..writers).map(|_| AtomicU64::new(0)).collect();
        Ledger { run, foreign_allowed, writes }
    }

    /// The number that the run's values carry.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Enters the next write (or delete) of `writer`, which is about to be sent.
    #[inline]
    pub fn enter(&self, writer: u16) -> Nonce {
        let count = &self.writes[usize::from(writer)];
        let seq = count.load(Ordering::Relaxed); // One thread drives a writer; only it stores.
        count.store(seq + 1, Ordering::Release); // (W)
        Nonce::new(writer, seq)
    }

    /// How many writes and deletes `writer` has made: the number of its next one.
    pub fn made_by(&self, writer: u16) -> u64 {
        self.writes[usize::from(writer)].load(Ordering::Acquire) // (R)
    }

    /// Holds `data`, found under `key`, against all writes; the write it came from, where the value says.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn check(&self, key: u64, flags: Option<u32>, data: &[u8]) -> Result<Option<Nonce>, Finding> {
        let nonce = match value::read(data, key, self.run) {
            Ok(value) => value.nonce,
            Err(BadValue::OtherRun) if self.foreign_allowed => None,
            Err(bad) => return Err(describe(bad, key, data)),
        };
        if let Some(nonce) = nonce {
            let writes =
                self.writes.get(usize::from(nonce.writer())).map_or(0, |w| w.load(Ordering::Acquire)); // (R)
            if nonce.seq() >= writes {
                let text = format!("key {key}: {nonce} was read, but that connection made {writes} writes");
                return Err((Wrong::NeverWritten, text));
            }
        }
        match flags {
            Some(flags) if flags != value::flags_of(key) => {
                let text = format!("key {key}: flags {flags} were read, {} stored", value::flags_of(key));
                Err((Wrong::Flags, text))
            }
            _ => Ok(nonce),
        }
    }
}

#[cold]
fn describe(bad: BadValue, key: u64, data: &[u8]) -> Finding {
    let len = data.len();
    match bad {
        BadValue::OtherKey(other) => {
            (Wrong::OtherKey, format!("key {key}: a value of key {other} was read ({len} bytes)"))
        }
        BadValue::OtherRun => (
            Wrong::NeverWritten,
            format!("key {key}: a value of an earlier run was read; preload had replaced it"),
        ),
        BadValue::Length(want) => {
            (Wrong::Corrupt, format!("key {key}: {len} bytes were read, the value was written with {want}"))
        }
        BadValue::Header => {
            (Wrong::Corrupt, format!("key {key}: the header of a value of {len} bytes is changed"))
        }
        BadValue::Byte(at) => (
            Wrong::Corrupt,
            format!("key {key}: byte {at} of {len} is {:#04x}, which nobody wrote there", data[at]),
        ),
    }
}

/// What a connection must see of one of its own keys, fixed when the read is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any value that passes [`Ledger::check`], or a miss.
    Any,
    /// This write of the connection, or a miss.
    Write(u64),
    /// A miss, after the delete with this number.
    Miss(u64),
}

/// The last state of every key that a connection owns (strict checking). Writes and deletes are numbered together.
#[derive(Debug)]
pub struct OwnKeys {
    /// By rank: 0 unknown, else the last change's number plus one, shifted by one, with the low bit set by a delete.
    last: Vec<u64>,
    /// Keys with a refused change: what reads must see of changes numbered below this is open.
    open: HashMap<u64, u64>,
}

impl OwnKeys {
    /// For `keys` keys of unknown state.
    pub fn new(keys: u64) -> OwnKeys {
        OwnKeys { last: vec![0; keys as usize], open: HashMap::new() }
    }

    /// Write number `seq`, to the key of `rank`, was sent.
    pub fn wrote(&mut self, rank: u64, seq: u64) {
        *self.slot(rank) = (seq + 1) << 1;
    }

    /// Delete number `seq`, of the key of `rank`, was sent.
    pub fn deleted(&mut self, rank: u64, seq: u64) {
        *self.slot(rank) = (seq + 1) << 1 | 1;
    }

    /// A change of `rank` did not take place. `next` is the number of the connection's next change: all that was
    /// expected before it is open.
    pub fn refused(&mut self, rank: u64, next: u64) {
        self.open.insert(rank, next);
    }

    /// What a read sent now must see.
    pub fn expected(&mut self, rank: u64) -> Expected {
        match *self.slot(rank) {
            0 => Expected::Any,
            last if last & 1 == 1 => Expected::Miss((last >> 1) - 1),
            last => Expected::Write((last >> 1) - 1),
        }
    }

    fn slot(&mut self, rank: u64) -> &mut u64 {
        let rank = rank as usize;
        if rank >= self.last.len() {
            self.last.resize(rank + rank / 8 + 1, 0);
        }
        &mut self.last[rank]
    }

    /// Holds a value that passed the ledger against what was expected.
    ///
    /// # Errors
    /// When it is another write than the last, or the key was deleted.
    pub fn check(
        &self,
        rank: u64,
        key: u64,
        writer: u16,
        expected: Expected,
        nonce: Option<Nonce>,
    ) -> Result<(), Finding> {
        let (Expected::Write(change) | Expected::Miss(change)) = expected else { return Ok(()) };
        if self.open.get(&rank).is_some_and(|&open| change < open) {
            return Ok(());
        }
        match (expected, nonce) {
            (Expected::Write(seq), Some(nonce)) if nonce != Nonce::new(writer, seq) => Err((
                Wrong::Stale,
                format!("key {key}: {nonce} was read, the last was write {seq} of connection {writer}"),
            )),
            (Expected::Miss(_), _) => {
                let from = nonce.map_or_else(|| "a value".to_string(), |nonce| nonce.to_string());
                Err((
                    Wrong::Undead,
                    format!("key {key}: {from} was read after connection {writer} deleted it"),
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(key: u64, nonce: Nonce, run: u32) -> Vec<u8> {
        let mut out = Vec::new();
        value::write(&mut out, key, nonce, run, 64);
        out
    }

    fn kind(result: Result<Option<Nonce>, Finding>) -> Option<Wrong> {
        result.err().map(|(wrong, _)| wrong)
    }

    #[test]
    fn only_writes_that_were_made_pass() {
        let ledger = Ledger::new(5, 2, false);
        let nonce = ledger.enter(1);
        let flags = Some(value::flags_of(3));
        assert_eq!(ledger.check(3, flags, &value_of(3, nonce, 5)), Ok(Some(nonce)));
        let check = |flags, data: &[u8]| kind(ledger.check(3, flags, data));
        assert_eq!(check(flags, &value_of(3, Nonce::new(1, 1), 5)), Some(Wrong::NeverWritten));
        assert_eq!(check(flags, &value_of(3, Nonce::new(0, 0), 5)), Some(Wrong::NeverWritten));
        assert_eq!(check(flags, &value_of(3, Nonce::new(9, 0), 5)), Some(Wrong::NeverWritten));
        assert_eq!(check(flags, &value_of(3, nonce, 4)), Some(Wrong::NeverWritten));
        assert_eq!(check(flags, &value_of(4, nonce, 5)), Some(Wrong::OtherKey));
        assert_eq!(check(Some(88), &value_of(3, nonce, 5)), Some(Wrong::Flags));
        assert_eq!(check(flags, &value_of(3, nonce, 5)[..50]), Some(Wrong::Corrupt));
    }

    #[test]
    fn without_preload_other_runs_are_only_held_against_their_bytes() {
        let ledger = Ledger::new(5, 1, true);
        let mut data = value_of(3, Nonce::new(7, 7), 4);
        assert_eq!(ledger.check(3, None, &data), Ok(None));
        data[40] ^= 1;
        assert_eq!(kind(ledger.check(3, None, &data)), Some(Wrong::Corrupt));
    }

    #[test]
    fn a_connection_sees_its_last_write_or_a_miss() {
        let mut own = OwnKeys::new(2);
        let seen = |own: &OwnKeys, expected, seq| {
            own.check(0, 0, 1, expected, Some(Nonce::new(1, seq))).err().map(|(wrong, _)| wrong)
        };
        assert_eq!(own.expected(0), Expected::Any);
        own.wrote(0, 4);
        let first = own.expected(0);
        own.wrote(0, 6);
        let second = own.expected(0);
        assert_eq!(seen(&own, first, 4), None);
        assert_eq!(seen(&own, second, 4), Some(Wrong::Stale));
        assert_eq!(seen(&own, first, 6), Some(Wrong::Stale), "from the future");
        own.deleted(0, 7);
        let gone = own.expected(0);
        assert_eq!(seen(&own, gone, 6), Some(Wrong::Undead));
        own.refused(0, 8);
        assert_eq!(seen(&own, gone, 6), None, "the delete was refused");
        assert_eq!(seen(&own, second, 4), None, "and so is all that was expected before");
        own.wrote(0, 9);
        let last = own.expected(0);
        assert_eq!(seen(&own, last, 6), Some(Wrong::Stale), "a good write settles the key");
        assert_eq!(own.expected(100), Expected::Any, "inserted keys find room");
    }
}
