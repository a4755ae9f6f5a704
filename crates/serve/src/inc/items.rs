//! What a home of this program keeps its items in: a table with so many bytes, that forgets what was not asked for lately.
//!
//! Why not `store::Store`: a home's versions, expiry and directory are the coherence machine's; it needs a map with a bound, and
//! every item as a value that it can change.
//!
//! Eviction: CLOCK. A hand goes round the places; an item that was read since it last passed is spared once.
//!
//! Invariants: 1. `bytes` is the sum of what the items cost, their overhead included, at most `limit`; 2. each key of `index` names the place that has it.

use base::{Bytes, Nanos};
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::Items;
use protocol::wire::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that an item takes beside its key and value: two words of each table, the item's numbers, the allocator's.
const OVERHEAD: usize = 192;

#[derive(Debug)]
struct Place {
    key: Arc<[u8]>,
    item: Item,
    was_read: bool,
}

/// The table.
#[derive(Debug)]
pub struct Shelf {
    index: HashMap<Arc<[u8]>, usize>,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    limit: usize,
    evicted: u64,
    /// The last version that was given.
    version: u64,
}

fn cost(key: &[u8], item: &Item) -> usize {
    OVERHEAD + key.len() + item.value.len()
}

impl Shelf {
    /// For so many bytes.
    pub fn new(limit: Bytes) -> Shelf {
        Shelf {
            index: HashMap::new(),
            places: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            limit: limit.as_usize(),
            evicted: 0,
            version: 0,
        }
    }

    /// Items that it forgot to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Items that are there.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn take_out(&mut self, at: usize) {
        if let Some(place) = self.places[at].take() {
            self.index.remove(&place.key);
            self.bytes -= cost(&place.key, &place.item);
            self.free.push(at);
        }
    }

    fn put_in(&mut self, key: &[u8], item: Item) {
        let key: Arc<[u8]> = key.into();
        self.bytes += cost(&key, &item);
        let place = Some(Place { key: key.clone(), item, was_read: false });
        let at = match self.free.pop() {
            Some(at) => {
                self.places[at] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.index.insert(key, at);
    }

    /// One step of the hand.
    fn pass_one(&mut self) {
        self.hand = if self.hand + 1 < self.places.len() { self.hand + 1 } else { 0 };
        match &mut self.places[self.hand] {
            Some(place) if place.was_read => place.was_read = false,
            Some(_) => {
                self.take_out(self.hand);
                self.evicted += 1;
            }
            None => {}
        }
    }
}

impl Items for Shelf {
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item> {
        let at = *self.index.get(key)?;
        let place = self.places[at].as_mut().expect("the index names places that are taken");
        if now < place.item.end {
            place.was_read = true;
            return Some(place.item.clone());
        }
        self.take_out(at);
        None
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        let needs = cost(key, &item);
        if needs > self.limit {
            return false;
        }
        self.remove(key);
        while self.bytes + needs > self.limit {
            self.pass_one();
        }
        self.put_in(key, item);
        true
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(at) = self.index.get(key) {
            self.take_out(*at);
        }
    }

    fn clear(&mut self) {
        self.index.clear();
        self.places.clear();
        self.free.clear();
        (self.hand, self.bytes) = (0, 0);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("evicted", self.evicted), ("items", self.len() as u64)]
    }

    fn begin_versions(&mut self, last: Version) {
        self.version = last.0;
    }

    fn take_versions(&mut self, count: u64) -> Version {
        let first = self.version + 1;
        self.version += count;
        Version(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::wire::Kind;
    use std::collections::BTreeMap;

    fn item(len: usize, version: u64, end: u64) -> Item {
        Item { value: vec![1; len], flags: 0, kind: Kind::Bytes, version: Version(version), end: Nanos(end) }
    }

    #[test]
    fn what_was_read_lately_is_spared() {
        let mut shelf = Shelf::new(Bytes(4 * (OVERHEAD as u64 + 9)));
        for key in [b"a", b"b", b"c", b"d"] {
            assert!(shelf.store(key, item(8, 1, 9)));
        }
        assert!(shelf.read(b"b", Nanos(0)).is_some());
        assert!(shelf.store(b"e", item(8, 1, 9)) && shelf.store(b"f", item(8, 1, 9)));
        assert_eq!((shelf.len(), shelf.evicted()), (4, 2));
        assert!(shelf.read(b"b", Nanos(0)).is_some());
        assert!(!shelf.store(b"g", item(5000, 1, 9)), "more than there is room for");
        assert!(shelf.read(b"b", Nanos(9)).is_none(), "its life is over");
    }

    proptest! {
        /// Whatever is there is what was stored last, and never more bytes than the limit.
        #[test]
        fn it_is_a_map_that_forgets(steps in prop::collection::vec((0u8..3, 0u8..12, 0usize..300), 1..200)) {
            let mut shelf = Shelf::new(Bytes(2000));
            let mut model = BTreeMap::new();
            for (version, (what, key, len)) in steps.into_iter().enumerate() {
                let key = [key];
                match what {
                    0 => {
                        let item = item(len, version as u64, u64::MAX);
                        prop_assert!(shelf.store(&key, item.clone()));
                        model.insert(key, item);
                    }
                    1 => {
                        shelf.remove(&key);
                        model.remove(&key);
                    }
                    _ => if let Some(found) = shelf.read(&key, Nanos(0)) {
                        prop_assert_eq!(Some(&found), model.get(&key));
                    },
                }
                let bytes: usize = shelf.places.iter().flatten().map(|place| cost(&place.key, &place.item)).sum();
                prop_assert_eq!(bytes, shelf.bytes);
                prop_assert!(bytes <= 2000 && shelf.len() + shelf.free.len() == shelf.places.len());
            }
        }
    }
}
