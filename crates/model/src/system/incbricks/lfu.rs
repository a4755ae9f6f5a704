//! A box's table: a fixed number of entries, of which the least frequently used goes when room is needed.
//!
//! Shape: entries that were used equally often form a list, in the order of their last use; there is a list for each count.
//!
//! ```text
//!   count 1:  oldest ⇄ … ⇄ newest          evict takes the oldest of the lowest count
//!   count 2:  …                            a use moves an entry to the end of the next list
//! ```
//!
//! Counts stop at [`HIGHEST`], where the last use decides. An invalidated key keeps its entry and its count, without a value, until it is read again
//! or evicted. (Else every write would make a wanted key the first to go: with 5 % writes such a table answers 52 % of reads after 400,000
//! operations, 49 % after three million, and not the share that the most wanted keys cover, by which the paper explains its figures.)
//!
//! Cost: constant for each operation. Memory: 16 bytes and a slot of the index for each entry, fixed.
//!
//! Source: IncBricks §4.2.1 (fixed number of items, least frequently used is evicted); the order among equals and what becomes of counts is
//! ours.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Counts stop here.
pub const HIGHEST: u16 = 1023;
const NONE: u32 = u32::MAX;

/// Keys are numbers that are spread well enough by a multiplication.
#[derive(Clone, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    older: u32,
    newer: u32,
    count: u16,
    has_value: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Lfu {
    entries: Vec<Entry>,
    /// Never iterated.
    index: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    lists: Box<[List]>,
    room: usize,
    values: usize,
}

impl Lfu {
    /// A table of so many entries; with none it keeps nothing.
    pub fn new(room: u64) -> Lfu {
        let room = usize::try_from(room).expect("a table fits memory");
        let empty = List { oldest: NONE, newest: NONE };
        Lfu {
            entries: Vec::with_capacity(room),
            index: HashMap::with_capacity_and_hasher(room, BuildHasherDefault::default()),
            lists: vec![empty; usize::from(HIGHEST) + 1].into(),
            room,
            values: 0,
        }
    }

    /// Entries that there may be.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Values that are there.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether no value is there.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Whether a key's value is there; that is no use of it.
    pub fn has(&self, key: u32) -> bool {
        self.index.get(&key).is_some_and(|slot| self.entries[*slot as usize].has_value)
    }

    /// Uses a key; whether its value is there.
    pub fn touch(&mut self, key: u32) -> bool {
        match self.index.get(&key) {
            Some(&slot) if self.entries[slot as usize].has_value => {
                self.count_up(slot, 1);
                true
            }
            _ => false,
        }
    }

    /// Puts a value in, evicting if there is no room: one use of its key.
    pub fn put(&mut self, key: u32) {
        self.put_used(key, 1);
    }

    /// Puts a value in whose key was used so often.
    pub fn put_used(&mut self, key: u32, uses: u16) {
        if self.room == 0 {
            return;
        }
        if let Some(&slot) = self.index.get(&key) {
            let had = std::mem::replace(&mut self.entries[slot as usize].has_value, true);
            self.values += usize::from(!had);
            return self.count_up(slot, uses);
        }
        let count = uses.min(HIGHEST);
        let entry = Entry { key, count, older: NONE, newer: NONE, has_value: true };
        let slot = if self.entries.len() == self.room {
            let slot = self.evict();
            self.entries[slot as usize] = entry;
            slot
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.values += 1;
        self.index.insert(key, slot);
        self.link(slot);
    }

    /// Takes a key's value away; whether it was there.
    pub fn invalidate(&mut self, key: u32) -> bool {
        let Some(slot) = self.index.get(&key) else { return false };
        let had = std::mem::replace(&mut self.entries[*slot as usize].has_value, false);
        self.values -= usize::from(had);
        had
    }

    fn count_up(&mut self, slot: u32, uses: u16) {
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        entry.count = entry.count.saturating_add(uses).min(HIGHEST);
        self.link(slot);
    }

    /// Frees an entry.
    fn evict(&mut self) -> u32 {
        let least = self.lists.iter().find(|list| list.oldest != NONE).expect("a full table has entries");
        let slot = least.oldest;
        self.unlink(slot);
        let Entry { key, has_value, .. } = self.entries[slot as usize];
        self.index.remove(&key);
        self.values -= usize::from(has_value);
        slot
    }

    fn link(&mut self, slot: u32) {
        let list = &mut self.lists[usize::from(self.entries[slot as usize].count)];
        let before = std::mem::replace(&mut list.newest, slot);
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (before, NONE);
        match before {
            NONE => list.oldest = slot,
            before => self.entries[before as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { count, older, newer, .. } = self.entries[slot as usize];
        let list = &mut self.lists[usize::from(count)];
        match older {
            NONE => list.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As said above, in a vector from the oldest use to the newest: key, count, whether there is a value.
    #[derive(Default)]
    struct Plain(Vec<(u32, u16, bool)>);

    impl Plain {
        fn place(&self, key: u32) -> Option<usize> {
            self.0.iter().position(|(its, ..)| *its == key)
        }

        fn touch(&mut self, key: u32) -> bool {
            let Some(at) = self.place(key).filter(|at| self.0[*at].2) else { return false };
            let (key, count, _) = self.0.remove(at);
            self.0.push((key, (count + 1).min(HIGHEST), true));
            true
        }

        fn put(&mut self, key: u32, room: usize) {
            if let Some(at) = self.place(key) {
                self.0[at].2 = true;
                self.touch(key);
            } else if room > 0 {
                if self.0.len() == room {
                    let least = self.0.iter().map(|(_, count, _)| *count).min().expect("it is full");
                    let at = self.0.iter().position(|(_, count, _)| *count == least).expect("it was found");
                    self.0.remove(at);
                }
                self.0.push((key, 1, true));
            }
        }

        fn invalidate(&mut self, key: u32) -> bool {
            self.place(key).is_some_and(|at| std::mem::replace(&mut self.0[at].2, false))
        }
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_plain_one_keeps(
            room in 0_usize..6,
            acts in proptest::collection::vec((0_u8..3, 0_u32..9), 0..300),
        ) {
            let (mut table, mut plain) = (Lfu::new(room as u64), Plain::default());
            for (act, key) in acts {
                match act {
                    0 => prop_assert_eq!(table.touch(key), plain.touch(key)),
                    1 => { table.put(key); plain.put(key, room); }
                    _ => prop_assert_eq!(table.invalidate(key), plain.invalidate(key)),
                }
                prop_assert_eq!(table.len(), plain.0.iter().filter(|(.., value)| *value).count());
                let same = |key| table.has(key) == plain.place(key).is_some_and(|at| plain.0[at].2);
                prop_assert!((0..9).all(same));
            }
        }
    }

    #[test]
    fn what_is_used_often_stays() {
        let mut table = Lfu::new(2);
        table.put(1);
        table.put(2);
        assert!(table.touch(1));
        table.put(3);
        assert!(table.has(1) && table.has(3) && !table.has(2) && !table.is_empty());
        assert!(table.invalidate(1) && !table.touch(1));
        table.put(4);
        table.put(1);
        assert!(table.has(1) && !table.has(3), "its count outlived the write");
    }
}
