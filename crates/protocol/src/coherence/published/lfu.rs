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
//! Cost: constant for each operation. Memory: an entry, its key and its value; entries are made as they are needed.
//!
//! Source: IncBricks §4.2.1 (fixed number of items, least frequently used is evicted); the order among equals and what becomes of counts is
//! ours.

use super::ByKey;
use std::sync::Arc;

/// Counts stop here.
pub const HIGHEST: u16 = 1023;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Entry<V> {
    key: Arc<[u8]>,
    value: Option<V>,
    older: u32,
    newer: u32,
    count: u16,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// A table of values by keys.
#[derive(Clone, Debug)]
pub struct Lfu<V> {
    entries: Vec<Entry<V>>,
    /// Never iterated.
    index: ByKey<Arc<[u8]>, u32>,
    lists: Box<[List]>,
    room: usize,
    values: usize,
}

impl<V> Lfu<V> {
    /// A table of at most so many entries; with none it keeps nothing.
    ///
    /// # Panics
    /// From 2³² - 1 entries on.
    pub fn new(room: usize) -> Lfu<V> {
        assert!(room < NONE as usize, "{room} entries are more than a table has");
        let empty = List { oldest: NONE, newest: NONE };
        let lists = vec![empty; usize::from(HIGHEST) + 1].into();
        Lfu { entries: Vec::new(), index: ByKey::default(), lists, room, values: 0 }
    }

    /// Entries that it still has room for.
    pub fn room_left(&self) -> usize {
        self.room - self.entries.len()
    }

    /// Values that are there.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether no value is there.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// A key's value; to look at it so is no use of it.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.index.get(key).and_then(|slot| self.entries[*slot as usize].value.as_ref())
    }

    /// Uses a key whose value is there.
    pub fn touch(&mut self, key: &[u8]) -> Option<&mut V> {
        let slot = *self.index.get(key)?;
        self.entries[slot as usize].value.as_ref()?;
        self.count_up(slot, 1);
        self.entries[slot as usize].value.as_mut()
    }

    /// Puts a value in, evicting if there is no room. `uses`: how often its key was used, this one included.
    pub fn put(&mut self, key: &[u8], value: V, uses: u16) {
        if self.room == 0 {
            return;
        }
        if let Some(&slot) = self.index.get(key) {
            let had = self.entries[slot as usize].value.replace(value);
            self.values += usize::from(had.is_none());
            return self.count_up(slot, uses);
        }
        let key: Arc<[u8]> = key.into();
        let count = uses.min(HIGHEST);
        let entry = Entry { key: Arc::clone(&key), value: Some(value), older: NONE, newer: NONE, count };
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
    pub fn invalidate(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.index.get(key) else { return false };
        let had = self.entries[*slot as usize].value.take().is_some();
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
        let Entry { key, value, .. } = &self.entries[slot as usize];
        self.index.remove(key);
        self.values -= usize::from(value.is_some());
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

    /// As said above, in a vector from the oldest use to the newest: key, count, value.
    #[derive(Default)]
    struct Plain(Vec<(u8, u16, Option<u32>)>);

    impl Plain {
        fn place(&self, key: u8) -> Option<usize> {
            self.0.iter().position(|(its, ..)| *its == key)
        }

        fn touch(&mut self, key: u8) -> Option<u32> {
            let at = self.place(key).filter(|at| self.0[*at].2.is_some())?;
            let (key, count, value) = self.0.remove(at);
            self.0.push((key, (count + 1).min(HIGHEST), value));
            value
        }

        fn put(&mut self, key: u8, value: u32, room: usize) {
            if let Some(at) = self.place(key) {
                self.0[at].2 = Some(value);
                self.touch(key);
            } else if room > 0 {
                if self.0.len() == room {
                    let least = self.0.iter().map(|(_, count, _)| *count).min().expect("it is full");
                    let at = self.0.iter().position(|(_, count, _)| *count == least).expect("it was found");
                    self.0.remove(at);
                }
                self.0.push((key, 1, Some(value)));
            }
        }

        fn invalidate(&mut self, key: u8) -> bool {
            self.place(key).is_some_and(|at| self.0[at].2.take().is_some())
        }
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_plain_one_keeps(
            room in 0_usize..6,
            acts in proptest::collection::vec((0_u8..3, 0_u8..9), 0..300),
        ) {
            let (mut table, mut plain) = (Lfu::new(room), Plain::default());
            for (number, (act, key)) in (0..).zip(acts) {
                match act {
                    0 => prop_assert_eq!(table.touch(&[key]).copied(), plain.touch(key)),
                    1 => { table.put(&[key], number, 1); plain.put(key, number, room); }
                    _ => prop_assert_eq!(table.invalidate(&[key]), plain.invalidate(key)),
                }
                prop_assert_eq!(table.len(), plain.0.iter().filter(|(.., value)| value.is_some()).count());
                let same = |key| table.get(&[key]).copied() == plain.place(key).and_then(|at| plain.0[at].2);
                prop_assert!((0..9).all(same));
            }
        }
    }

    #[test]
    fn what_is_used_often_stays() {
        let mut table = Lfu::new(2);
        table.put(b"1", 'a', 1);
        table.put(b"2", 'b', 1);
        assert!(table.touch(b"1").is_some());
        table.put(b"3", 'c', 1);
        assert!(table.get(b"1").is_some() && table.get(b"3").is_some() && table.get(b"2").is_none());
        assert!(table.invalidate(b"1") && table.touch(b"1").is_none());
        table.put(b"4", 'd', 1);
        table.put(b"1", 'e', 1);
        assert!(table.get(b"1") == Some(&'e') && table.get(b"3").is_none(), "its count outlived the write");
        assert!(!table.is_empty() && table.room_left() == 0);
    }
}
