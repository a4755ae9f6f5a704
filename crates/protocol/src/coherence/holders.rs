//! Who may hold copies of a key, and until when: the directory of a home, and of a box for those below it.
//!
//! By hash of the key, never by key: keys with the same hash share a record, which costs an invalidation too many and
//! nothing else. A record is a set of boxes and the latest end of what any of them was granted; a dead box delays others'
//! writes no longer than that.
//!
//! ```text
//!  records   hash → {boxes, until}      bounded
//!  ends      (when to look, hash)…      one per record: it goes when its end has come, else is looked at again then
//! ```
//!
//! Invariants: 1. a lease that was granted and has neither ended nor been answered for is in a record (who cannot be
//! entered is not granted); 2. `ends` has exactly one entry per record, so both are bounded alike. A record whose boxes all
//! answered stays, empty, until its entry comes up.

use super::Planted;
use super::lease::runs;
use crate::planted::{Bugs, NoBugs};
use crate::wire::{BoxId, KeyHash, Sharers};
use base::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// Boxes that one directory can tell apart: ids 1 to so many.
pub const MAX_BOXES: u16 = 64;

/// A set of boxes, by their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Boxes(pub u64);

impl Boxes {
    /// The set of one; none for an id that no set can have.
    pub const fn of(id: BoxId) -> Option<Boxes> {
        if id.0 == 0 || id.0 > MAX_BOXES { None } else { Some(Boxes(1 << (id.0 - 1))) }
    }

    /// Those that would keep a reply; none where there are none, or one that no set can have.
    pub fn named(sharers: &Sharers) -> Option<Boxes> {
        let all = sharers.iter().try_fold(Boxes(0), |all, sharer| Some(all.with(Boxes::of(sharer.at)?)));
        all.filter(|boxes| !boxes.is_empty())
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `id` is among them.
    pub fn contains(self, id: BoxId) -> bool {
        Boxes::of(id).is_some_and(|one| self.0 & one.0 != 0)
    }

    /// Whether one of `others` is among them.
    pub const fn has_any_of(self, others: Boxes) -> bool {
        self.0 & others.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, others: Boxes) -> Boxes {
        Boxes(self.0 | others.0)
    }

    /// These but not `others`.
    #[must_use]
    pub const fn without(self, others: Boxes) -> Boxes {
        Boxes(self.0 & !others.0)
    }

    /// By rising id.
    pub fn iter(self) -> impl Iterator<Item = BoxId> {
        (1..=MAX_BOXES).map(BoxId).filter(move |id| self.contains(*id))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    boxes: Boxes,
    until: Nanos,
}

/// The directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holders<B = NoBugs> {
    records: BTreeMap<KeyHash, Record>,
    ends: VecDeque<(Nanos, KeyHash)>,
    capacity: usize,
    /// By box, the latest end of all it was granted.
    latest: Vec<Nanos>,
    planted: B,
}

impl<B: Bugs<Planted>> Holders<B> {
    /// For at most `capacity` keys.
    pub fn new(capacity: usize, planted: B) -> Holders<B> {
        let latest = vec![Nanos::ZERO; usize::from(MAX_BOXES)];
        Holders { records: BTreeMap::new(), ends: VecDeque::new(), capacity, latest, planted }
    }

    /// Enters `boxes` until `until`. False where there is no room: then nothing may be granted.
    #[must_use]
    pub fn enter(&mut self, hash: KeyHash, boxes: Boxes, until: Nanos) -> bool {
        let full = self.records.len() >= self.capacity;
        let is_second = || self.records.get(&hash).is_some_and(|record| !record.boxes.is_empty());
        let forgets = self.planted.has(Planted::LoseSharer) && is_second();
        let boxes = if forgets { Boxes(0) } else { boxes };
        match self.records.get_mut(&hash) {
            Some(record) => {
                record.boxes = record.boxes.with(boxes);
                record.until = record.until.max(until);
            }
            None if full => return false,
            None => {
                self.records.insert(hash, Record { boxes, until });
                self.ends.push_back((until, hash));
            }
        }
        for id in boxes.iter() {
            let latest = &mut self.latest[usize::from(id.0 - 1)];
            *latest = (*latest).max(until);
        }
        true
    }

    /// Who may hold copies at `now`, and until when; nobody is the empty set.
    pub fn of(&self, hash: KeyHash, now: Nanos) -> (Boxes, Nanos) {
        match self.records.get(&hash) {
            Some(record) if runs(record.until, now) => (record.boxes, record.until),
            _ => (Boxes(0), now),
        }
    }

    /// Who may hold anything at `now`, and until when.
    pub fn of_all(&self, now: Nanos) -> (Boxes, Nanos) {
        let running = (1..=MAX_BOXES).zip(&self.latest).filter(|(_, until)| runs(**until, now));
        running.fold((Boxes(0), now), |(boxes, end), (id, until)| {
            (boxes.with(Boxes::of(BoxId(id)).expect("an id in range")), end.max(*until))
        })
    }

    /// Who may hold anything at `now` whose hash is `meant`, and until when. Looks at every record.
    pub fn of_where(&self, now: Nanos, meant: impl Fn(KeyHash) -> bool) -> (Boxes, Nanos) {
        let running = self.records.iter().filter(|(hash, record)| meant(**hash) && runs(record.until, now));
        running.fold((Boxes(0), now), |(boxes, end), (_, record)| {
            (boxes.with(record.boxes), end.max(record.until))
        })
    }

    /// All have answered for this key, or their leases are over.
    pub fn clear(&mut self, hash: KeyHash) {
        if let Some(record) = self.records.get_mut(&hash) {
            record.boxes = Boxes(0);
        }
    }

    /// All have answered for these keys, or their leases are over.
    pub fn clear_where(&mut self, meant: impl Fn(KeyHash) -> bool) {
        for (_, record) in self.records.iter_mut().filter(|(hash, _)| meant(**hash)) {
            record.boxes = Boxes(0);
        }
    }

    /// All have answered for everything.
    pub fn clear_all(&mut self) {
        self.clear_where(|_| true);
        self.latest.fill(Nanos::ZERO);
    }

    /// Forgets what has ended. A record's lease that was made longer is looked at again at its new end.
    pub fn expire(&mut self, now: Nanos) {
        while let Some(&(when, hash)) = self.ends.front()
            && !runs(when, now)
        {
            self.ends.pop_front();
            let Some(record) = self.records.get(&hash) else { continue };
            if runs(record.until, now) && !record.boxes.is_empty() {
                self.ends.push_back((record.until, hash));
            } else {
                self.records.remove(&hash);
            }
        }
    }

    /// Records in use.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyHash = KeyHash(1);
    const B: KeyHash = KeyHash(2);

    fn one(id: u16) -> Boxes {
        Boxes::of(BoxId(id)).expect("in range")
    }

    #[test]
    fn ids_out_of_range_are_in_no_set() {
        assert_eq!(Boxes::of(BoxId(0)), None);
        assert_eq!(Boxes::of(BoxId(65)), None);
        assert_eq!(one(1).with(one(64)).iter().map(|id| id.0).collect::<Vec<_>>(), [1, 64]);
    }

    #[test]
    fn leases_run_until_their_end_or_an_answer() {
        let mut holders = Holders::new(4, NoBugs);
        assert!(holders.enter(A, one(1), Nanos(10)) && holders.enter(A, one(2), Nanos(20)));
        assert_eq!(holders.of(A, Nanos(19)), (one(1).with(one(2)), Nanos(20)));
        assert_eq!(holders.of_all(Nanos(15)), (one(2), Nanos(20)));
        assert_eq!(holders.of_where(Nanos(15), |hash| hash == B).0, Boxes(0));
        assert!(holders.of(A, Nanos(20)).0.is_empty());
        holders.clear(A);
        assert!(holders.of(A, Nanos(19)).0.is_empty());
        holders.expire(Nanos(20));
        assert!(holders.is_empty());
    }

    #[test]
    fn the_bound_holds_and_room_comes_back() {
        let mut holders = Holders::new(1, NoBugs);
        assert!(holders.enter(A, one(1), Nanos(10)));
        assert!(!holders.enter(B, one(1), Nanos(10)));
        // Cleared and entered again: still one entry in the list of ends.
        for until in 11..100 {
            holders.clear(A);
            assert!(holders.enter(A, one(1), Nanos(until)));
            holders.expire(Nanos(until - 5));
            assert_eq!((holders.len(), holders.ends.len()), (1, 1));
        }
        holders.clear_all();
        assert!(holders.of_all(Nanos(0)).0.is_empty());
        holders.expire(Nanos(1000));
        assert!(holders.enter(B, one(1), Nanos(2000)));
    }
}
