//! Where the item of a hash is: open addressing with linear probing, made for its most items once, so that it never grows.
//!
//! Why not a map of the standard library: that grows by copying everything, which stalls a replica for as long as that takes, and it
//! would keep keys a second time. Here an entry is 32 bits of hash and 32 bits of offset in units of 16 bytes; keys are compared in the image, and
//! only if all 32 bits agree.
//!
//! Invariants: (1) an entry is reached from its home without passing an empty place (removal moves later ones up, so there are no
//! tombstones); (2) at most two thirds of the places are used.
//!
//! Bounds: 12 bytes for each of the most items. Cost: one cache miss for a hit.

use super::layout::UNIT;
use super::memory::Memory;
use base::touch::prefetch;
use std::io;

#[derive(Debug)]
pub(super) struct Table {
    memory: Memory,
    places: usize,
    most: usize,
    len: usize,
}

impl Table {
    pub(super) fn new(most: usize) -> io::Result<Table> {
        let places = most + most / 2 + 8;
        Ok(Table { memory: Memory::new(places * 8)?, places, most, len: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Items that still have a place.
    pub(super) fn room(&self) -> usize {
        self.most - self.len
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.len = 0;
    }

    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.places as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        if place + 1 == self.places { 0 } else { place + 1 }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch((&raw const self.memory.words()[self.home(hash)]).cast());
    }

    /// The place of the entry with this hash whose offset `is` the right one.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(usize) -> bool) -> Option<(usize, usize)> {
        let words = self.memory.words();
        let mut place = self.home(hash);
        loop {
            let word = words[place];
            if word == 0 {
                return None;
            }
            if (word >> 32) as u32 == hash && is(offset_in(word)) {
                return Some((place, offset_in(word)));
            }
            place = self.after(place);
        }
    }

    /// Enters what is not there.
    pub(super) fn insert(&mut self, hash: u32, offset: usize) {
        assert!(self.len < self.most, "whoever inserts has asked for room");
        let mut place = self.home(hash);
        while self.memory.words()[place] != 0 {
            place = self.after(place);
        }
        self.memory.words_mut()[place] = word(hash, offset);
        self.len += 1;
    }

    /// The entry at a place leads elsewhere.
    pub(super) fn set(&mut self, place: usize, offset: usize) {
        let before = self.memory.words()[place];
        self.memory.words_mut()[place] = word((before >> 32) as u32, offset);
    }

    /// Removes the entry at a place.
    pub(super) fn remove(&mut self, place: usize) {
        let mut hole = place;
        let mut next = self.after(hole);
        loop {
            let word = self.memory.words()[next];
            if word == 0 {
                break;
            }
            // It may move up unless its home lies between the hole and itself.
            let home = self.home((word >> 32) as u32);
            if self.distance(home, next) >= self.distance(hole, next) {
                self.memory.words_mut()[hole] = word;
                hole = next;
            }
            next = self.after(next);
        }
        self.memory.words_mut()[hole] = 0;
        self.len -= 1;
    }

    /// Steps from one place to a later one, round the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.places - from }
    }
}

/// An entry; the offset is counted from 1, so that none is 0.
fn word(hash: u32, offset: usize) -> u64 {
    u64::from(hash) << 32 | (offset / UNIT + 1) as u64
}

fn offset_in(word: u64) -> usize {
    (word as u32 as usize - 1) * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Hashes from few values, so that runs are long, go round the end, and have holes in them.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..24, any::<bool>()), 0..200)) {
            let mut table = Table::new(16).expect("a page");
            let mut model = BTreeMap::new();
            for (number, (key, insert)) in steps.into_iter().enumerate() {
                let hash = key.wrapping_mul(0x3000_0001) | 0xC000_0000;
                let known = model.get(&key).copied();
                let found = table.find(hash, |offset| known == Some(offset));
                prop_assert_eq!(found.map(|(_, offset)| offset), known);
                match found {
                    Some((place, _)) if insert => {
                        table.set(place, number * UNIT);
                        model.insert(key, number * UNIT);
                    }
                    Some((place, _)) => {
                        table.remove(place);
                        model.remove(&key);
                    }
                    None if insert && table.room() > 0 => {
                        table.insert(hash, number * UNIT);
                        model.insert(key, number * UNIT);
                    }
                    None => {}
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
