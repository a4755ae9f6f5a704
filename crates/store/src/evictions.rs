//! Which items were evicted, for whoever wants to know: noted while somebody does, and taken between two operations.
//!
//! Bounds: [`NOTED_MAX`] items; those beyond are counted. Cost: while nobody wants to know a branch for each item that is removed.

use crate::item::FETCHED;
use crate::store::Store;

/// Items that are noted at most before they are taken.
pub const NOTED_MAX: usize = 4096;

/// An item that made room for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Vec<u8>,
    /// Bytes of its value.
    pub size: usize,
    /// When it would have expired; 0 is never.
    pub expiry: u32,
    /// When it was last accessed.
    pub access: u32,
    /// Whether it was ever asked for.
    pub fetched: bool,
}

/// Those that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    items: Vec<Evicted>,
    left_out: u64,
}

impl Store {
    /// From now on evicted items are noted, or not any more.
    pub fn note_evictions(&mut self, are_wanted: bool) {
        if are_wanted != self.noted.is_some() {
            self.noted = are_wanted.then(Box::default);
        }
    }

    /// Whether evicted items are noted.
    pub fn notes_evictions(&self) -> bool {
        self.noted.is_some()
    }

    /// Hands out what was noted since; how many more there were.
    pub fn take_evictions(&mut self, mut each: impl FnMut(Evicted)) -> u64 {
        let Some(noted) = &mut self.noted else { return 0 };
        noted.items.drain(..).for_each(&mut each);
        std::mem::take(&mut noted.left_out)
    }

    /// The item at `offset` goes, and makes room for others.
    #[cold]
    pub(crate) fn note_eviction(&mut self, offset: usize) {
        let item = self.item_at(offset);
        let header = item.load();
        let peek = self.describe(item);
        let (key, size) = (peek.key.to_vec(), peek.value.len());
        let evicted = Evicted {
            key,
            size,
            expiry: header.expiry,
            access: header.access,
            fetched: header.state & FETCHED != 0,
        };
        let Some(noted) = &mut self.noted else { return };
        if noted.items.len() == NOTED_MAX {
            noted.left_out += 1;
        } else {
            noted.items.push(evicted);
        }
    }
}
