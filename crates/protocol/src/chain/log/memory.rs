//! A [`Log`] in memory whose driver says when entries become durable and when the machine crashes. For tests, simulations and models; a
//! replica that serves has `store::redo`.
//!
//! Making entries durable takes a while: [`Memory::begin_sync`], and [`Memory::end_sync`] some events later; [`Memory::sync`] is both.
//!
//! Bounds: the capacity, in entries.

use super::{Full, Log};
use crate::chain::{Durability, Entry, Epoch, Lsn};
use std::collections::{BTreeSet, VecDeque};

/// A log in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    class: Durability,
    capacity: usize,
    entries: VecDeque<Entry>,
    /// What was before the first entry that is here.
    before: (Lsn, Epoch),
    durable: Lsn,
    /// The sync that is under way makes everything up to here durable.
    syncing: Option<Lsn>,
    /// Entries that cannot be read.
    damaged: BTreeSet<Lsn>,
}

impl Memory {
    /// Empty, with room for `capacity` entries. What is durable survives a crash, unless the class is volatile.
    pub fn new(class: Durability, capacity: usize) -> Memory {
        Memory {
            class,
            capacity,
            entries: VecDeque::new(),
            before: (Lsn::ZERO, Epoch(0)),
            durable: Lsn::ZERO,
            syncing: None,
            damaged: BTreeSet::new(),
        }
    }

    /// Begins to make durable what is there now, and says up to where that is. If one is under way already, that one.
    pub fn begin_sync(&mut self) -> Lsn {
        let last = self.last().0;
        *self.syncing.get_or_insert(last)
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.syncing.is_some()
    }

    /// The sync that is under way is done.
    pub fn end_sync(&mut self) {
        self.durable = self.syncing.take().map_or(self.durable, |lsn| lsn.max(self.durable));
    }

    /// Makes everything durable at once.
    pub fn sync(&mut self) {
        self.syncing = None;
        self.durable = self.last().0;
    }

    /// The machine stops and starts: what is not durable is lost. All is, if the class is volatile.
    pub fn crash(&mut self) {
        self.crash_after(self.durable);
    }

    /// As [`Memory::crash`], but what reached the medium without anybody knowing is still there: everything up to `lsn`.
    pub fn crash_after(&mut self, lsn: Lsn) {
        self.syncing = None;
        if self.class == Durability::Volatile {
            self.restart(Lsn::ZERO, Epoch(0));
            return;
        }
        self.cut(lsn.max(self.durable));
        self.durable = self.last().0;
    }

    /// A checkpoint has everything below `lsn`: the log forgets it. What is not durable stays.
    pub fn forget_below(&mut self, lsn: Lsn) {
        while let Some(entry) = self.entries.front()
            && entry.lsn < lsn
            && entry.lsn <= self.durable
        {
            self.before = (entry.lsn, entry.epoch);
            self.damaged.remove(&entry.lsn);
            self.entries.pop_front();
        }
    }

    /// From now on this entry cannot be read.
    pub fn damage(&mut self, lsn: Lsn) {
        if self.place_of(lsn).is_some() {
            self.damaged.insert(lsn);
        }
    }

    /// It can be read again.
    pub fn mend(&mut self, lsn: Lsn) {
        self.damaged.remove(&lsn);
    }

    /// Those that cannot be read.
    pub fn damaged(&self) -> impl Iterator<Item = Lsn> {
        self.damaged.iter().copied()
    }

    fn place_of(&self, lsn: Lsn) -> Option<usize> {
        let place = lsn.0.checked_sub(self.first().0)? as usize;
        (place < self.entries.len()).then_some(place)
    }
}

impl Log for Memory {
    fn append(&mut self, entry: &Entry) -> Result<(), Full> {
        assert_eq!(entry.lsn, self.last().0.next(), "an entry is the next after the last");
        if self.entries.len() >= self.capacity {
            return Err(Full);
        }
        self.entries.push_back(entry.clone());
        Ok(())
    }

    fn last(&self) -> (Lsn, Epoch) {
        self.entries.back().map_or(self.before, |entry| (entry.lsn, entry.epoch))
    }

    fn durable(&self) -> Lsn {
        self.durable
    }

    fn first(&self) -> Lsn {
        self.before.0.next()
    }

    fn read(&self, lsn: Lsn) -> Option<Entry> {
        if self.damaged.contains(&lsn) {
            return None;
        }
        Some(self.entries[self.place_of(lsn)?].clone())
    }

    fn replace(&mut self, entry: &Entry) {
        if let Some(place) = self.place_of(entry.lsn)
            && self.damaged.remove(&entry.lsn)
        {
            self.entries[place] = entry.clone();
        }
    }

    fn cut(&mut self, lsn: Lsn) {
        let kept = lsn.0.saturating_sub(self.before.0.0);
        self.entries.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        let (last, _) = self.last();
        self.durable = self.durable.min(last);
        self.syncing = self.syncing.map(|lsn| lsn.min(last));
        self.damaged.retain(|lsn| *lsn <= last);
    }

    fn restart(&mut self, lsn: Lsn, epoch: Epoch) {
        *self = Memory { before: (lsn, epoch), durable: lsn, ..Memory::new(self.class, self.capacity) };
    }

    fn class(&self) -> Durability {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lsn: u64, epoch: u64) -> Entry {
        Entry {
            lsn: Lsn(lsn),
            epoch: Epoch(epoch),
            committed: Lsn(lsn - 1),
            session: crate::chain::SessionId(1),
            sequence: lsn,
            tuples: Vec::new(),
        }
    }

    fn with(class: Durability, entries: u64) -> Memory {
        let mut log = Memory::new(class, 10);
        (1..=entries).for_each(|lsn| log.append(&entry(lsn, 1)).expect("room"));
        log
    }

    #[test]
    fn a_crash_loses_what_is_not_durable() {
        let mut log = with(Durability::PowerLoss, 2);
        assert_eq!(log.begin_sync(), Lsn(2));
        log.append(&entry(3, 1)).expect("room");
        assert_eq!((log.durable(), log.begin_sync()), (Lsn::ZERO, Lsn(2)), "one at a time");
        log.end_sync();
        assert_eq!((log.durable(), log.last()), (Lsn(2), (Lsn(3), Epoch(1))));
        let mut lucky = log.clone();
        log.crash();
        assert_eq!((log.durable(), log.last()), (Lsn(2), (Lsn(2), Epoch(1))));
        lucky.crash_after(Lsn(3));
        assert_eq!((lucky.durable(), lucky.last()), (Lsn(3), (Lsn(3), Epoch(1))));
        let mut volatile = with(Durability::Volatile, 2);
        volatile.sync();
        volatile.crash();
        assert_eq!((volatile.durable(), volatile.last()), (Lsn::ZERO, (Lsn::ZERO, Epoch(0))));
    }

    #[test]
    fn what_is_cut_during_a_sync_is_not_durable_afterwards() {
        let mut log = with(Durability::PowerLoss, 3);
        log.begin_sync();
        log.cut(Lsn(1));
        log.append(&entry(2, 2)).expect("room");
        log.end_sync();
        assert_eq!((log.durable(), log.last()), (Lsn(1), (Lsn(2), Epoch(2))));
    }

    #[test]
    fn it_is_full_until_a_checkpoint() {
        let mut log = with(Durability::PowerLoss, 10);
        assert_eq!(log.append(&entry(11, 1)), Err(Full));
        log.forget_below(Lsn(4));
        assert_eq!(log.first(), Lsn(1), "what is not durable stays");
        log.sync();
        log.forget_below(Lsn(4));
        assert_eq!((log.first(), log.read(Lsn(3))), (Lsn(4), None));
        log.append(&entry(11, 2)).expect("room");
        assert_eq!(log.read(Lsn(11)), Some(entry(11, 2)));
        log.forget_below(Lsn(100));
        assert_eq!((log.first(), log.last()), (Lsn(11), (Lsn(11), Epoch(2))));
    }

    #[test]
    fn damage_is_replaced_and_nothing_else_is() {
        let mut log = with(Durability::PowerLoss, 2);
        log.damage(Lsn(1));
        log.damage(Lsn(9));
        assert_eq!(log.damaged().collect::<Vec<_>>(), [Lsn(1)]);
        assert_eq!((log.read(Lsn(1)), log.read(Lsn(2))), (None, Some(entry(2, 1))));
        log.replace(&entry(1, 7));
        log.replace(&entry(2, 7));
        assert_eq!((log.read(Lsn(1)), log.read(Lsn(2))), (Some(entry(1, 7)), Some(entry(2, 1))));
    }

    #[test]
    fn a_restart_goes_on_after_what_it_is_told() {
        let mut log = with(Durability::PowerLoss, 2);
        log.restart(Lsn(40), Epoch(3));
        assert_eq!((log.first(), log.last(), log.durable()), (Lsn(41), (Lsn(40), Epoch(3)), Lsn(40)));
        log.append(&entry(41, 3)).expect("the next one");
    }
}
