//! What a home keeps its items in.

use super::super::compute::Item;
use super::super::lease::runs;
use base::Nanos;
use std::collections::BTreeMap;

/// A store of items. It may forget any of them at any time: a home that finds a key gone while boxes have copies
/// of it takes the copies away before it says so.
pub trait Items {
    /// The item of `key`, if it lives at `now`.
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item>;

    /// Keeps an item under `key`. False where there is no room; then what was there before is there still.
    fn store(&mut self, key: &[u8], item: Item) -> bool;

    /// Removes `key`.
    fn remove(&mut self, key: &[u8]);

    /// Removes everything.
    fn clear(&mut self);
}

/// Items in an ordered tree: at most so many, and none is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    items: BTreeMap<Vec<u8>, Item>,
    capacity: usize,
}

impl Tree {
    /// For at most `capacity` items.
    pub fn new(capacity: usize) -> Tree {
        Tree { items: BTreeMap::new(), capacity }
    }

    /// The item of `key`, alive or not.
    pub fn peek(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key)
    }

    /// Makes room by dropping what is dead at `now`.
    pub fn expire(&mut self, now: Nanos) {
        self.items.retain(|_, item| runs(item.end, now));
    }
}

impl Items for Tree {
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item> {
        let item = self.items.get(key)?;
        if runs(item.end, now) {
            return Some(item.clone());
        }
        self.items.remove(key);
        None
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        if self.items.len() >= self.capacity && !self.items.contains_key(key) {
            return false;
        }
        self.items.insert(key.to_vec(), item);
        true
    }

    fn remove(&mut self, key: &[u8]) {
        self.items.remove(key);
    }

    fn clear(&mut self) {
        self.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, Version};

    #[test]
    fn dead_items_are_gone_and_full_is_full() {
        let item =
            |end| Item { value: vec![], flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos(end) };
        let mut tree = Tree::new(2);
        assert!(tree.store(b"a", item(5)) && tree.store(b"b", item(9)) && tree.store(b"a", item(6)));
        assert!(!tree.store(b"c", item(9)));
        assert!(tree.read(b"a", Nanos(5)).is_some() && tree.read(b"a", Nanos(6)).is_none());
        assert!(tree.store(b"c", item(9)));
        tree.expire(Nanos(9));
        assert!(tree.peek(b"b").is_none() && tree.peek(b"c").is_none());
    }
}
