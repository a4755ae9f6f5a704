//! The copies of a box: a table of fixed size, in sets, that keeps what is asked for often.
//!
//! Shape: the hash chooses a set of [`WAYS`] places; a set is searched place by place. Wide sets lose little against a fully
//! associative table and need no list of all entries.
//!
//! Eviction (after TinyLFU: Einziger, Friedman, Manes, 2017): the newcomer's frequency, as the sketch of
//! [`super::admission`] estimates it, against the least asked-for copy's of its set; the smaller one goes, which may be the newcomer.
//! Where both are asked for alike the copy stays: the newcomer is looked at just after it was asked for, the copies are at any time, so the
//! newcomer's count is the higher one of two keys that are equally popular. Copies that are over go first.
//!
//! A box asks [`Copies::would_keep`] before it asks to be granted a copy: what it would not keep is left to the box above, and nobody has to
//! be told when it is written.
//!
//! Invariants: 1. what is over is never handed out; 2. never more than the places it was made with; 3. a key is there once.

use super::super::lease::runs;
use super::changes::Changes;
use super::shards::Shard;
use crate::wire::{KeyHash, Kind, Version};
use base::Nanos;
use std::ops::Range;

/// Places of a set.
pub const WAYS: usize = 16;

/// A copy of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Of the key.
    pub hash: KeyHash,
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// What the value is.
    pub kind: Kind,
    /// The write that made it.
    pub version: Version,
    /// When the lease ends, on this box's clock.
    pub lease_end: Nanos,
    /// When the item's life ends, on this box's clock.
    pub life_end: Nanos,
}

impl Kept {
    /// When it must not be used any more.
    pub fn end(&self) -> Nanos {
        self.lease_end.min(self.life_end)
    }
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Copies {
    places: Vec<Option<Kept>>,
    ways: usize,
    /// Bits of hashes that are alike for all that come here.
    skipped: u32,
    /// None where nobody asks for them.
    changes: Option<Changes>,
}

impl Copies {
    /// With at least `entries` places.
    pub fn new(entries: usize) -> Copies {
        let ways = entries.clamp(1, WAYS);
        let sets = entries.max(1).div_ceil(ways).next_power_of_two();
        Copies { places: vec![None; sets * ways], ways, skipped: 0, changes: None }
    }

    /// The same as the table of one shard, which sees no other keys: the bits that say so choose no set.
    #[must_use]
    pub fn of_shard(mut self, shard: Shard) -> Copies {
        self.skipped = if shard.of() == 1 { 0 } else { Shard::GROUP_BITS };
        self
    }

    /// The copy of `key`, if it may be used at `now`.
    pub fn find(&mut self, hash: KeyHash, key: &[u8], now: Nanos) -> Option<&mut Kept> {
        let range = self.range(hash);
        let mut places = self.places[range].iter_mut().flatten();
        places.find(|kept| kept.hash == hash && kept.key == key && runs(kept.end(), now))
    }

    /// Whether [`Copies::keep`] would keep a copy of `key` now.
    pub fn would_keep(
        &self,
        hash: KeyHash,
        key: &[u8],
        now: Nanos,
        frequency: impl Fn(KeyHash) -> u32,
    ) -> bool {
        let set = &self.places[self.range(hash)];
        let is_there = set.iter().flatten().any(|kept| kept.key == key);
        is_there || set.iter().any(|place| worth(place, now, &frequency) <= frequency(hash))
    }

    /// Keeps it, if it is asked for more often than the least of its set. A copy of the same key is replaced unless it is
    /// newer or stays longer.
    pub fn keep(&mut self, new: Kept, now: Nanos, frequency: impl Fn(KeyHash) -> u32) -> bool {
        let range = self.range(new.hash);
        let set = &mut self.places[range];
        if let Some(old) = set.iter_mut().flatten().find(|kept| kept.key == new.key) {
            let older = (new.version, new.end()) < (old.version, old.end());
            if !older || !runs(old.end(), now) {
                note(&mut self.changes, new.hash);
                *old = new;
            }
            return true;
        }
        let least = set
            .iter_mut()
            .map(|place| (worth(place, now, &frequency), place))
            .min_by_key(|(worth, _)| *worth);
        let (least, victim) = least.expect("a set has places");
        let wins = least <= frequency(new.hash);
        if wins {
            note(&mut self.changes, new.hash);
            if let Some(old) = victim.replace(new) {
                note(&mut self.changes, old.hash);
            }
        }
        wins
    }

    /// Drops all keys with this hash.
    pub fn drop_hash(&mut self, hash: KeyHash) {
        let range = self.range(hash);
        self.drop_in(range, |held| held == hash);
    }

    /// Drops all whose hash is `meant`.
    pub fn drop_where(&mut self, meant: impl Fn(KeyHash) -> bool) {
        self.drop_in(0..self.places.len(), meant);
    }

    /// Those with this hash, also those that are over.
    pub fn of(&self, hash: KeyHash) -> impl Iterator<Item = &Kept> {
        self.places[self.range(hash)].iter().flatten().filter(move |kept| kept.hash == hash)
    }

    /// All that are there, also those that are over.
    pub fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.places.iter().flatten()
    }

    /// From now on changes are noted.
    pub fn watch(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Exchanges what was noted for `other`, which is empty.
    pub fn take_changes(&mut self, other: &mut Changes) {
        if let Some(changes) = &mut self.changes {
            std::mem::swap(changes, other);
        }
    }

    /// Places.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    fn drop_in(&mut self, places: Range<usize>, meant: impl Fn(KeyHash) -> bool) {
        for place in &mut self.places[places] {
            if let Some(kept) = place.take_if(|kept| meant(kept.hash)) {
                note(&mut self.changes, kept.hash);
            }
        }
    }

    fn range(&self, hash: KeyHash) -> Range<usize> {
        let sets = self.places.len() / self.ways;
        let first = ((hash.0 >> self.skipped) as usize & (sets - 1)) * self.ways;
        first..first + self.ways
    }
}

fn note(changes: &mut Option<Changes>, hash: KeyHash) {
    if let Some(changes) = changes {
        changes.note(hash);
    }
}

/// How much a place is worth: nothing where none or one that is over is, else more the more often it is asked for.
fn worth(place: &Option<Kept>, now: Nanos, frequency: impl Fn(KeyHash) -> u32) -> u32 {
    place.as_ref().filter(|kept| runs(kept.end(), now)).map_or(0, |kept| 1 + frequency(kept.hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: u8, version: u64, end: u64) -> Kept {
        Kept {
            hash: KeyHash(u32::from(name)),
            key: vec![name],
            value: vec![],
            flags: 0,
            kind: Kind::Bytes,
            version: Version(version),
            lease_end: Nanos(end),
            life_end: Nanos::MAX,
        }
    }

    #[test]
    fn a_copy_ends_with_lease_or_life() {
        let mut copies = Copies::new(4);
        assert!(copies.keep(Kept { life_end: Nanos(5), ..kept(1, 1, 10) }, Nanos(0), |_| 0));
        assert!(copies.find(KeyHash(1), &[1], Nanos(4)).is_some());
        assert!(copies.find(KeyHash(1), &[1], Nanos(5)).is_none());
        assert!(copies.find(KeyHash(1), &[2], Nanos(0)).is_none(), "another key with this hash");
    }

    #[test]
    fn the_seldom_asked_for_goes_and_may_be_the_newcomer() {
        let mut copies = Copies::new(2);
        let frequency = |hash: KeyHash| hash.0;
        assert!(
            copies.keep(kept(5, 1, 10), Nanos(0), frequency)
                && copies.keep(kept(7, 1, 10), Nanos(0), frequency)
        );
        assert!(!copies.keep(kept(4, 1, 10), Nanos(0), frequency));
        assert!(copies.keep(kept(6, 1, 10), Nanos(0), frequency));
        assert!(
            !copies.would_keep(KeyHash(6), &[9], Nanos(0), frequency),
            "as often, and another: the copy stays"
        );
        assert!(copies.would_keep(KeyHash(6), &[6], Nanos(0), frequency), "it is there");
        assert_eq!(copies.iter().map(|k| k.hash.0).collect::<Vec<_>>(), [6, 7]);
        // What is over goes before what is seldom asked for.
        assert!(copies.would_keep(KeyHash(1), &[1], Nanos(10), frequency));
        assert!(copies.keep(kept(1, 1, 20), Nanos(10), frequency));
        assert_eq!(copies.iter().count(), 2);
    }

    #[test]
    fn what_changes_is_noted_where_somebody_asks() {
        let (mut copies, mut changes) = (Copies::new(2), Changes::default());
        let mut noted = |copies: &mut Copies| {
            changes.clear();
            copies.take_changes(&mut changes);
            changes.hashes().map(|hashes| hashes.iter().map(|hash| hash.0).collect::<Vec<_>>())
        };
        copies.keep(kept(1, 1, 10), Nanos(0), |_| 0);
        assert_eq!(noted(&mut copies), Some(vec![]));
        copies.watch();
        copies.keep(kept(1, 2, 10), Nanos(0), |_| 0);
        copies.keep(kept(2, 1, 10), Nanos(0), |_| 0);
        assert_eq!(noted(&mut copies), Some(vec![1, 2]));
        // Not older than what is there; another's place; none.
        copies.keep(kept(1, 1, 10), Nanos(0), |_| 0);
        copies.keep(kept(3, 1, 10), Nanos(0), |hash| hash.0);
        copies.drop_hash(KeyHash(9));
        assert_eq!(noted(&mut copies), Some(vec![3, 1]));
        assert_eq!(copies.of(KeyHash(3)).count(), 1);
        copies.drop_hash(KeyHash(3));
        copies.drop_where(|_| true);
        assert_eq!(noted(&mut copies), Some(vec![3, 2]));
    }

    #[test]
    fn a_key_is_there_once_and_the_newest_stays() {
        let mut copies = Copies::new(32);
        for (version, end) in [(2, 10), (1, 90), (2, 8), (2, 12)] {
            copies.keep(kept(1, version, end), Nanos(0), |_| 0);
        }
        let all: Vec<_> = copies.iter().map(|k| (k.version.0, k.lease_end.0)).collect();
        assert_eq!(all, [(2, 12)]);
        // Unless it is over.
        copies.keep(kept(1, 1, 90), Nanos(12), |_| 0);
        assert_eq!(copies.iter().next().map(|k| k.version.0), Some(1));
        copies.drop_hash(KeyHash(1));
        assert_eq!(copies.iter().count(), 0);
    }
}
