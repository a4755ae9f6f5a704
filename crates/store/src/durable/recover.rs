//! The start: the newest snapshot, then what the log has behind it, in order.
//!
//! Why at second 0: an item whose life has ended by now may have been given a longer one by a later effect. So nothing ends while effects are done, and what
//! has ended is
//! gone for the first command.
//!
//! Memory: a snapshot with what came and went meanwhile may be more than there ever was at once. So the limit is raised where it must be, and lowered again
//! at the end, if it can be.

use super::effect::{Effect, State};
use super::journal::Journal;
use super::records::Records;
use super::snapshot::Reader;
use super::walk::Shelf;
use crate::ops::delete::DeleteHow;
use crate::ops::set::{SetError, SetHow};
use crate::redo::Recovery;
use crate::store::Store;
use std::fmt;
use std::io::{self, Read};

/// What was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Items of the snapshot, if there was one.
    pub snapshot_items: Option<u64>,
    /// Effects of the log behind it.
    pub effects: u64,
    /// Bytes of records that were being written when the process before ended, and that nobody was promised.
    pub torn_bytes: u64,
    /// Items there are now.
    pub items: u64,
    /// The memory limit is higher than it was to be: it could not be had with less.
    pub raised_to: Option<usize>,
}

/// Why a store cannot be what it was.
#[derive(Debug)]
pub enum RecoverError {
    /// The snapshot cannot be read.
    Snapshot(io::Error),
    /// The log begins behind this record, and there is no snapshot that has what was before.
    Gap {
        /// What the log has first.
        first: u64,
        /// What the snapshot, if there is one, has last.
        from: u64,
    },
    /// The log ends before the snapshot begins: it is an older one, or another.
    Behind {
        /// What the log has last.
        last: u64,
        /// What the snapshot has last.
        from: u64,
    },
    /// The snapshot goes with another log.
    Foreign,
    /// Records that were durable cannot be read: the first of them, and how many.
    Damaged(u64, usize),
    /// An item does not fit the memory.
    Memory(usize),
    /// A value of so many bytes is longer than the longest.
    TooLong(usize),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Snapshot(error) => write!(f, "the snapshot cannot be read: {error}"),
            RecoverError::Gap { first, from: 0 } => {
                write!(
                    f,
                    "the log begins with record {first}, and the snapshot that has what was before is not there"
                )
            }
            RecoverError::Gap { first, from } => {
                write!(
                    f,
                    "the snapshot ends with record {from} and the log begins with {first}: one of them is from another time"
                )
            }
            RecoverError::Behind { last, from } => {
                write!(
                    f,
                    "the snapshot ends with record {from} and the log with {last}: one of them is from another time"
                )
            }
            RecoverError::Foreign => f.write_str("the snapshot goes with another log"),
            RecoverError::Damaged(first, 1) => {
                write!(f, "record {first} of the log was durable, and is damaged")
            }
            RecoverError::Damaged(first, count) => {
                write!(
                    f,
                    "{count} records of the log were durable, and are damaged, the first of them {first}"
                )
            }
            RecoverError::Memory(limit) => {
                write!(
                    f,
                    "the items do not fit {} of memory, though four times the limit were tried",
                    base::Bytes(*limit as u64)
                )
            }
            RecoverError::TooLong(len) => {
                write!(f, "a value of {len} bytes is longer than the longest that is taken")
            }
        }
    }
}

impl std::error::Error for RecoverError {}

impl From<io::Error> for RecoverError {
    fn from(error: io::Error) -> RecoverError {
        RecoverError::Snapshot(error)
    }
}

/// Makes of the empty `store` what the newest snapshot, if there is one, and the log say.
///
/// # Errors
/// [`RecoverError`]; nothing is changed then but the store.
pub fn recover<L: Records, S: Shelf>(
    store: &mut Store,
    (mut log, recovery): (L, &Recovery),
    identity: u64,
    snapshot: Option<Reader<impl Read>>,
    shelf: S,
) -> Result<(Journal<L, S>, Found), RecoverError> {
    let limit = store.config().memory;
    let mut found = Found { torn_bytes: recovery.torn_bytes, ..Found::default() };
    let (mut from, mut flush_at) = (0, None);
    let mut found_bytes = 0;
    if let Some(reader) = snapshot {
        let head = reader.head;
        if head.identity != identity {
            return Err(RecoverError::Foreign);
        }
        (from, flush_at) = (head.from, head.flush_at);
        found.snapshot_items = Some(reader.read(|effect| redo(store, &effect, &mut flush_at))?);
        store.begin_versions(head.version);
    }
    if from + 1 < log.first() {
        return Err(RecoverError::Gap { first: log.first(), from });
    }
    if from > log.last() {
        return Err(RecoverError::Behind { last: log.last(), from });
    }
    let damaged = || recovery.damaged.iter().filter(|position| **position > from);
    if let Some(first) = damaged().next() {
        return Err(RecoverError::Damaged(*first, damaged().count()));
    }
    for position in from + 1..=log.last() {
        let payload = log.payload(position).ok_or(RecoverError::Damaged(position, 1))?;
        match Effect::parse(&payload) {
            Some((effect, [])) => redo(store, &effect, &mut flush_at)?,
            _ => return Err(RecoverError::Damaged(position, 1)),
        }
        found.effects += 1;
        found_bytes += payload.len() as u64;
    }
    log.release(from + 1);
    if store.config().memory != limit && store.set_memory_limit(limit).is_err() {
        found.raised_to = Some(store.config().memory);
    }
    found.items = store.stats().items as u64;
    let mut journal = Journal::new(log, shelf, identity, flush_at);
    journal.found_bytes = found_bytes;
    journal.snapshot_items = found.snapshot_items.unwrap_or(0);
    Ok((journal, found))
}

/// Does what a command did.
fn redo(store: &mut Store, effect: &Effect<'_>, flush_at: &mut Option<u32>) -> Result<(), RecoverError> {
    match *effect {
        Effect::Put { key, value, state } => put(store, key, value, &state),
        Effect::Changed { key, state } => {
            let key = store.key(key).expect("effects have keys");
            // Where it is not there it was deleted afterwards, and that stands behind.
            if store.amend(0, key, state.version, state.expiry) {
                store.mark(0, key, state.stale, state.win_sent);
            }
            Ok(())
        }
        Effect::Deleted { key } => {
            let key = store.key(key).expect("effects have keys");
            // A plain delete finds room for itself.
            let _ = store.delete(0, key, &DeleteHow::default());
            Ok(())
        }
        Effect::Flushed => {
            store.flush_all(0, 0);
            *flush_at = None;
            Ok(())
        }
        Effect::FlushAt(second) => {
            *flush_at = Some(second);
            Ok(())
        }
    }
}

fn put(store: &mut Store, key: &[u8], value: &[u8], state: &State) -> Result<(), RecoverError> {
    let how = SetHow {
        flags: state.flags,
        expiry: state.expiry,
        version: Some(state.version),
        ..SetHow::default()
    };
    loop {
        let limit = store.config().memory;
        let key = store.key(key).expect("effects have keys");
        match store.set(0, key, value, &how) {
            Ok(_) => break,
            Err(SetError::TooLarge) => return Err(RecoverError::TooLong(value.len())),
            Err(SetError::OutOfMemory) => {
                let more = (limit + limit / 4).min(store.config().memory_ceiling);
                if more == limit || store.set_memory_limit(more).is_err() {
                    return Err(RecoverError::Memory(limit));
                }
            }
        }
    }
    if state.stale || state.win_sent {
        let key = store.key(key).expect("effects have keys");
        store.mark(0, key, state.stale, state.win_sent);
    }
    Ok(())
}
