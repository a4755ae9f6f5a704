//! Which keys a home has given to boxes, and which box may be given one.
//!
//! ```text
//!  given ──── the owner gives it back by itself, half a lease later ────▶ taken back
//!    │                                                                       ▲
//!    └─ somebody else wants it, or three quarters of the lease are over ─────┘ at the latest when the lease is over
//! ```
//!
//! A mark has what was there when the key was given away; the store has nothing of it meanwhile, so that a store which evicts cannot
//! touch it. *Suitors* say by whom a key was asked for last, one place for all keys that share it: who asks for a key twice
//! and nobody else between gets it, so that two boxes do not take it from each other.
//!
//! Invariants: 1. one mark per hash; 2. one timer per mark, or none when it is being taken back.
//!
//! Bounds: marks, and places for suitors, as it is made for.

use super::super::compute::Item;
use super::super::lease::runs;
use crate::wire::{BoxId, KeyHash, Round, Token, Version};
use base::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// A key that a box has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Which.
    pub key: Vec<u8>,
    /// What was there when it was given away.
    pub item: Item,
    /// Who has it.
    pub owner: BoxId,
    /// With which it asked.
    pub token: Token,
    /// The last of the versions that it may give.
    pub last: Version,
    /// Sessions whose writes it may have done.
    pub told: Vec<Round>,
    /// When to ask for it unasked.
    pub recall_at: Nanos,
    /// When the lease is over.
    pub until: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Suitor {
    hash: KeyHash,
    /// None: nobody.
    by: BoxId,
    /// How often it has asked.
    asked: u32,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owners {
    marks: BTreeMap<KeyHash, Mark>,
    timers: BTreeSet<(Nanos, KeyHash)>,
    capacity: usize,
    /// A power of two.
    suitors: Vec<Suitor>,
}

impl Owners {
    /// For at most `capacity` keys.
    pub fn new(capacity: usize) -> Owners {
        let suitors = vec![Suitor::default(); capacity.clamp(16, 1 << 16).next_power_of_two()];
        Owners { marks: BTreeMap::new(), timers: BTreeSet::new(), capacity, suitors }
    }

    /// Whether another may be given away.
    pub fn has_room(&self) -> bool {
        self.marks.len() < self.capacity
    }

    /// The mark of keys with this hash.
    pub fn of(&self, hash: KeyHash) -> Option<&Mark> {
        self.marks.get(&hash)
    }

    /// All hashes that have one.
    pub fn hashes(&self) -> Vec<KeyHash> {
        self.marks.keys().copied().collect()
    }

    /// A key is given away.
    ///
    /// # Panics
    /// Where it is already, or there is no room.
    pub fn give(&mut self, hash: KeyHash, mark: Mark) {
        assert!(self.has_room(), "a key is given away where there is room for its mark");
        self.timers.insert((mark.recall_at, hash));
        *self.suitor(hash) = Suitor::default();
        assert!(self.marks.insert(hash, mark).is_none(), "a key has one owner");
    }

    /// It has no owner any more.
    pub fn end(&mut self, hash: KeyHash) -> Option<Mark> {
        let mark = self.marks.remove(&hash)?;
        self.timers.remove(&(mark.recall_at, hash));
        Some(mark)
    }

    /// A key that is to be asked for, one per call; it does not come again.
    pub fn due(&mut self, now: Nanos) -> Option<KeyHash> {
        let &(when, hash) = self.timers.first().filter(|(when, _)| !runs(*when, now))?;
        self.timers.remove(&(when, hash));
        Some(hash)
    }

    /// There was no room to ask for it: it comes again when its lease is over.
    pub fn postpone(&mut self, hash: KeyHash) {
        let mark = self.marks.get_mut(&hash).expect("what is postponed is given away");
        mark.recall_at = mark.until;
        self.timers.insert((mark.until, hash));
    }

    /// When [`Owners::due`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(when, _)| *when)
    }

    /// `by` asks for this key.
    pub fn woo(&mut self, hash: KeyHash, by: BoxId) {
        let suitor = self.suitor(hash);
        let asked = if (suitor.hash, suitor.by) == (hash, by) { suitor.asked.saturating_add(1) } else { 1 };
        *suitor = Suitor { hash, by, asked };
    }

    /// Somebody wants this key, by way of `by` or of no box: whoever else asked for it begins anew.
    pub fn disturb(&mut self, hash: KeyHash, by: Option<BoxId>) {
        let suitor = self.suitor(hash);
        if suitor.hash == hash && Some(suitor.by) != by {
            *suitor = Suitor::default();
        }
    }

    /// Whether `by` has asked for it twice, and nobody else between.
    pub fn is_won(&mut self, hash: KeyHash, by: BoxId) -> bool {
        let suitor = self.suitor(hash);
        (suitor.hash, suitor.by) == (hash, by) && suitor.asked >= 2
    }

    fn suitor(&mut self, hash: KeyHash) -> &mut Suitor {
        let place = hash.0 as usize & (self.suitors.len() - 1);
        &mut self.suitors[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;

    const H: KeyHash = KeyHash(5);
    const ONE: BoxId = BoxId(1);

    fn mark(recall_at: u64, until: u64) -> Mark {
        let item =
            Item { value: b"1".to_vec(), flags: 0, kind: Kind::Number, version: Version(1), end: Nanos::MAX };
        Mark {
            key: b"k".to_vec(),
            item,
            owner: ONE,
            token: Token(9),
            last: Version(512),
            told: vec![],
            recall_at: Nanos(recall_at),
            until: Nanos(until),
        }
    }

    #[test]
    fn who_asks_twice_in_a_row_has_won() {
        let mut owners = Owners::new(4);
        owners.woo(H, ONE);
        assert!(!owners.is_won(H, ONE));
        owners.disturb(H, Some(ONE));
        owners.disturb(KeyHash(5 + 16), None);
        owners.woo(H, ONE);
        assert!(owners.is_won(H, ONE) && !owners.is_won(H, BoxId(2)) && !owners.is_won(KeyHash(21), ONE));
        owners.disturb(H, None);
        assert!(!owners.is_won(H, ONE));
        for (by, won) in [(1, false), (2, false), (1, false), (1, true)] {
            owners.woo(H, BoxId(by));
            assert_eq!(owners.is_won(H, BoxId(by)), won);
        }
        owners.give(H, mark(1, 2));
        assert!(!owners.is_won(H, ONE), "all begin anew");
    }

    #[test]
    fn a_key_is_asked_for_once_and_again_if_there_was_no_room() {
        let mut owners = Owners::new(1);
        owners.give(H, mark(10, 20));
        assert!(!owners.has_room() && owners.of(H).is_some());
        assert_eq!((owners.due(Nanos(9)), owners.next_deadline()), (None, Nanos(10)));
        assert_eq!((owners.due(Nanos(10)), owners.due(Nanos(99))), (Some(H), None));
        owners.postpone(H);
        assert_eq!(owners.next_deadline(), Nanos(20));
        assert_eq!(owners.end(H).map(|mark| mark.token), Some(Token(9)));
        assert_eq!((owners.end(H), owners.next_deadline()), (None, Nanos::MAX));
    }
}
