//! The log of what commands did, and who must wait for how much of it.
//!
//! A *position* is the number of a record; 0 needs nothing. Whoever executes a command asks [`Before::of`] and [`Journal::after`], and holds the reply until
//! [`Journal::durable`] has come to what that says. A read asks [`Journal::needs`].

use super::effect::{Effect, HEAD, State};
use super::records::Records;
use super::walk::{Shelf, Walk};
use crate::key::{Key, MAX_KEY};
use crate::redo::{self, Broken, HEADER, Refused};
use crate::store::Store;
use std::collections::{HashMap, VecDeque};

/// What commands do not take of the log, for flushes and for whoever cannot be refused: bytes, or that part of it.
const RESERVE: u64 = 64 << 10;
const RESERVE_PART: u64 = 16;

/// The least log for values of up to so many bytes.
pub fn needs_log(max_value: usize) -> u64 {
    (8 << 20).max(4 * (HEADER + HEAD + MAX_KEY + max_value) as u64)
}

/// What an item was before a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before(Option<(State, usize)>);

impl Before {
    /// What `key` has before a command that may change it.
    pub fn of(store: &Store, now: u32, key: Key<'_>) -> Before {
        Before(store.peek(now, key).map(|item| (State::of(&item), item.value.len())))
    }

    /// Whether there was one.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Bytes of its value.
    pub fn value_len(&self) -> usize {
        self.0.map_or(0, |(_, len)| len)
    }
}

/// What a command may do to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Anything; with a version of its own if it changes the value.
    All,
    /// The same, but the version may be one that was there: it is logged, whether or not it did anything.
    AllUnseen,
    /// An item that was there keeps its value.
    State,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of the log.
    pub log: redo::Counters,
    /// Bytes of it that are in use.
    pub log_used: u64,
    /// Bytes of it.
    pub log_capacity: u64,
    /// Snapshots made.
    pub snapshots: u64,
    /// Snapshots that failed.
    pub snapshots_failed: u64,
    /// Items in the newest, whether it was made or found.
    pub snapshot_items: u64,
    /// Effects that are not durable.
    pub pending: u64,
}

/// Bugs that tests plant, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    RepliesBeforeDurable,
    ReadsWhatIsNotDurable,
    ForgetsBeforeSnapshot,
    WalksBucketsByNumber,
    PublishesBeforeDurable,
    TouchesAreNotLogged,
    FlushesForgetThoseToCome,
}

/// See the head of the file.
pub struct Journal<L, S> {
    pub(super) log: L,
    pub(super) shelf: S,
    pub(super) identity: u64,
    /// By hash of the key: the last effect on it that is not durable.
    pending: HashMap<u64, u64>,
    /// The same in order.
    order: VecDeque<(u64, u64)>,
    /// The last flush.
    flushed: u64,
    /// When everything is to be flushed. Not the store's business, which would do it without a word.
    pub(super) flush_at: Option<u32>,
    /// Room was missing where it was kept.
    overrun: bool,
    pub(super) walk: Option<Walk>,
    /// Bytes that had been logged when the last walk began, of those since the start; and bytes that were found then.
    pub(super) walked_at: u64,
    pub(super) found_bytes: u64,
    /// No walk before this second.
    pub(super) retry_at: u32,
    pub(super) snapshots: u64,
    pub(super) failed: u64,
    pub(super) snapshot_items: u64,
    #[cfg(test)]
    pub(super) planted: Option<Planted>,
}

impl<L: Records, S: Shelf> Journal<L, S> {
    pub(super) fn new(log: L, shelf: S, identity: u64, flush_at: Option<u32>) -> Journal<L, S> {
        Journal {
            log,
            shelf,
            identity,
            pending: HashMap::new(),
            order: VecDeque::new(),
            flushed: 0,
            flush_at,
            overrun: false,
            walk: None,
            walked_at: 0,
            found_bytes: 0,
            retry_at: 0,
            snapshots: 0,
            failed: 0,
            snapshot_items: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    // ---- commands

    /// Whether a command may be executed that leaves at most `value_len` bytes under a key.
    pub fn has_room(&self, value_len: usize) -> bool {
        self.log.has_room(MAX_KEY + value_len, RESERVE, RESERVE_PART)
    }

    /// After that command: logs what it did. The position that its reply needs.
    pub fn after(&mut self, store: &Store, now: u32, key: Key<'_>, before: Before, what: What) -> u64 {
        match self.done(store, now, key, before, what) {
            None => self.needs(key.hash()),
            Some(effect) => self.append(&effect, Some(key.hash())),
        }
    }

    /// What a command did, if it did anything.
    pub(super) fn done<'s>(
        &self,
        store: &'s Store,
        now: u32,
        key: Key<'s>,
        before: Before,
        what: What,
    ) -> Option<Effect<'s>> {
        let Some(item) = store.peek(now, key) else {
            return before.is_there().then_some(Effect::Deleted { key: key.bytes() });
        };
        let state = State::of(&item);
        if what != What::AllUnseen && before.0 == Some((state, item.value.len())) {
            return None;
        }
        match what {
            #[cfg(test)]
            What::State if self.planted == Some(Planted::TouchesAreNotLogged) => None,
            What::State if before.is_there() => Some(Effect::Changed { key: key.bytes(), state }),
            _ => Some(Effect::put(&item)),
        }
    }

    /// Everything was flushed just now, at the second `now`, and so is what was to be flushed by then; what is to be flushed later stays so. What the reply
    /// needs, here and below.
    pub fn flushed(&mut self, now: u32) -> u64 {
        let to_come = self.flush_at.take().filter(|at| *at > now);
        #[cfg(test)]
        let to_come = to_come.filter(|_| self.planted != Some(Planted::FlushesForgetThoseToCome));
        self.flushed = self.append(&Effect::Flushed, None);
        if let Some(second) = to_come {
            self.flush_at(second);
        }
        self.flushed
    }

    /// The flush that is done now takes the place of one that was to come.
    pub fn flush_no_more(&mut self) {
        self.flush_at = None;
    }

    /// Everything is to be flushed at that second.
    pub fn flush_at(&mut self, second: u32) -> u64 {
        self.flush_at = Some(second);
        self.append(&Effect::FlushAt(second), None)
    }

    /// Whether a flush is due: nothing is executed before it.
    #[inline]
    pub fn is_flush_due(&self, now: u32) -> bool {
        self.flush_at.is_some_and(|at| at <= now)
    }

    /// The position that whoever is shown the item with this hash must wait for; that it is not there is a state of it.
    #[inline]
    pub fn needs(&self, hash: u64) -> u64 {
        #[cfg(test)]
        if self.planted == Some(Planted::ReadsWhatIsNotDurable) {
            return 0;
        }
        if self.overrun || self.log.broken().is_some() {
            return u64::MAX;
        }
        if self.order.is_empty() && self.flushed <= self.log.durable() {
            return 0;
        }
        let flushed = if self.flushed > self.log.durable() { self.flushed } else { 0 };
        self.pending.get(&hash).copied().unwrap_or(0).max(flushed)
    }

    fn append(&mut self, effect: &Effect<'_>, hash: Option<u64>) -> u64 {
        let position = self.log.last() + 1;
        let appended = self.log.append(position, effect);
        self.note(position, hash, appended)
    }

    /// An effect was appended, or not. What its reply needs.
    pub(super) fn note(&mut self, position: u64, hash: Option<u64>, appended: Result<(), Refused>) -> u64 {
        match appended {
            Ok(()) => {}
            // Nothing is durable any more, so no reply leaves.
            Err(Refused::Broken(_)) => return u64::MAX,
            Err(Refused::Full) => {
                self.overrun = true;
                return u64::MAX;
            }
        }
        if let Some(hash) = hash {
            self.pending.insert(hash, position);
            self.order.push_back((position, hash));
        }
        position
    }

    // ---- the medium

    /// Everything up to here survives.
    #[inline]
    pub fn durable(&self) -> u64 {
        #[cfg(test)]
        if self.planted == Some(Planted::RepliesBeforeDurable) {
            return self.log.last();
        }
        self.log.durable()
    }

    /// The position of the last effect.
    pub fn last(&self) -> u64 {
        self.log.last()
    }

    /// Ends a sync that is done. Whether [`Journal::durable`] may have moved.
    pub fn end_sync(&mut self) -> bool {
        if !self.log.sync_is_done() || self.log.end_sync().is_err() {
            return false;
        }
        let durable = self.log.durable();
        let mut has_moved = false;
        while let Some((position, hash)) =
            self.order.front().copied().filter(|(position, _)| *position <= durable)
        {
            self.order.pop_front();
            if self.pending.get(&hash) == Some(&position) {
                self.pending.remove(&hash);
            }
            has_moved = true;
        }
        has_moved || self.flushed > 0
    }

    /// Whether a sync is under way.
    pub fn is_under_way(&self) -> bool {
        self.log.is_under_way()
    }

    /// Begins to make durable what is not, if nothing is under way. Whether something is under way now.
    pub fn begin_sync(&mut self) -> bool {
        // The log remembers its error.
        self.log.begin_sync().unwrap_or(false)
    }

    /// Makes everything durable, waiting for it.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn sync(&mut self) -> Result<(), Broken> {
        self.log.sync()?;
        self.end_sync();
        Ok(())
    }

    /// Has the next sync say in a superblock what is durable, so that losing the end of the log is damage and not its end.
    pub fn mark(&mut self) {
        self.log.mark();
    }

    /// Whether something is durable that no superblock says.
    pub fn is_unmarked(&self) -> bool {
        self.log.marked() != self.log.durable()
    }

    /// Whether [`Journal::begin_sync`] has something to do, or something is under way.
    pub fn needs_sync(&self) -> bool {
        self.log.needs_sync()
    }

    /// Why nothing is durable any more, and nobody may be answered.
    pub fn broken(&self) -> Option<String> {
        let overrun = || {
            self.overrun.then(|| "the redo log had no room where room was kept; please report it".to_owned())
        };
        self.log.broken().map(ToString::to_string).or_else(overrun)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        Counters {
            log: self.log.counters(),
            log_used: self.log.capacity() - self.log.room(),
            log_capacity: self.log.capacity(),
            snapshots: self.snapshots,
            snapshots_failed: self.failed,
            snapshot_items: self.snapshot_items,
            pending: self.log.last() - self.log.durable(),
        }
    }

    /// Where snapshots lie.
    pub fn shelf_mut(&mut self) -> &mut S {
        &mut self.shelf
    }
}
