//! The entries that a replica has in memory: all that are not applied, and some that are, for a successor that lacks them.
//!
//! Invariant: without gaps; what is older is read from the log.

use crate::chain::{Entry, Log, Lsn};
use std::borrow::Cow;
use std::collections::VecDeque;

/// The newest entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Recent {
    /// One more. One that is not the next makes all others useless.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.back().is_some_and(|last| last.lsn.next() != entry.lsn) {
            self.clear();
        }
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// The entry at this place.
    pub(super) fn get(&self, lsn: Lsn) -> Option<&Entry> {
        let first = self.entries.front()?.lsn;
        self.entries.get(usize::try_from(lsn.0.checked_sub(first.0)?).ok()?)
    }

    /// The entry at this place, from the log if it is not here. `None` where it is damaged or forgotten.
    pub(super) fn entry<'a>(&'a self, log: &impl Log, lsn: Lsn) -> Option<Cow<'a, Entry>> {
        self.get(lsn).map(Cow::Borrowed).or_else(|| log.read(lsn).map(Cow::Owned))
    }

    /// Forgets what is beyond.
    pub(super) fn cut(&mut self, lsn: Lsn) {
        while let Some(last) = self.entries.back().filter(|last| last.lsn > lsn) {
            self.bytes -= last.bytes();
            self.entries.pop_back();
        }
    }

    /// Of those up to `lsn`, only so many and so many bytes stay.
    pub(super) fn trim(&mut self, lsn: Lsn, kept: usize, bytes: usize) {
        while let Some(first) = self.entries.front()
            && first.lsn <= lsn
            && (lsn.0 - first.lsn.0 >= kept as u64 || self.bytes > bytes)
        {
            self.bytes -= first.bytes();
            self.entries.pop_front();
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }
}
