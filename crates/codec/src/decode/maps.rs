//! Distinct keys: which entry of a map has this key already.
//!
//! The last entry on the wire wins. An index lives as long as its map's message is open; small maps are searched linearly,
//! larger ones through an open-addressing table, so that a map of n entries costs O(n) whatever the keys.
//!
//! Bounds: 24 bytes a key and 8 to 16 a table slot, for keys of open maps only; a key needs four bytes of input or more.

use base::hash::Hasher64;

/// A key: a number, or bytes that stay where they are while the message is decoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Number(u64),
    Text(*const u8, usize),
}

/// Keys up to which a search is linear.
const LINEAR: usize = 8;

#[derive(Debug)]
struct Index {
    /// The frame and the entry whose map this is.
    of: (usize, u16),
    keys: Vec<Key>,
    /// Key number + 1, or 0.
    slots: Vec<u32>,
}

/// The indices of the maps of all open messages, innermost last.
pub(super) struct Maps {
    open: Vec<Index>,
    spare: Vec<Index>,
    /// Seeded at random: keys come from outside and could be chosen to collide.
    hasher: Hasher64,
}

// SAFETY: keys are looked at only during the decode that put them there; between decodes there are none.
unsafe impl Send for Maps {}

impl Default for Maps {
    fn default() -> Maps {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
        Maps { open: Vec::new(), spare: Vec::new(), hasher: Hasher64::new(seed) }
    }
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Maps({} open)", self.open.len())
    }
}

impl Key {
    fn hash(self, hasher: &Hasher64) -> u64 {
        match self {
            Key::Number(number) => hasher.hash(&number.to_le_bytes()),
            // SAFETY: an index is cleared before the decode ends.
            Key::Text(..) => hasher.hash(unsafe { self.bytes() }),
        }
    }

    /// # Safety
    /// The decode that made the key is still going on.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        match self {
            Key::Number(_) => &[],
            Key::Text(_, 0) => &[],
            // SAFETY: the caller's promise.
            Key::Text(start, len) => unsafe { std::slice::from_raw_parts(start, len) },
        }
    }

    fn is(self, other: Key) -> bool {
        match (self, other) {
            (Key::Number(one), Key::Number(two)) => one == two,
            // SAFETY: an index is cleared before the decode ends.
            _ => unsafe { self.bytes() == other.bytes() },
        }
    }
}

impl Maps {
    /// True if the map has an index.
    pub(super) fn is_open(&self, of: (usize, u16)) -> bool {
        self.open.iter().rev().take_while(|index| index.of.0 == of.0).any(|index| index.of == of)
    }

    /// The position of the entry that has `key`; if none has, the key is taken as the next entry's.
    pub(super) fn place(&mut self, of: (usize, u16), key: Key) -> Option<u32> {
        let at = self.open.iter().rposition(|index| index.of == of).unwrap_or_else(|| {
            let mut index = self.spare.pop().unwrap_or(Index { of, keys: Vec::new(), slots: Vec::new() });
            index.of = of;
            self.open.push(index);
            self.open.len() - 1
        });
        self.open[at].place(key, &self.hasher)
    }

    /// Forgets all maps: those that a refused message left open.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.open.is_empty() {
            self.close(0);
        }
    }

    /// Forgets the maps of frame `depth` and of those within it.
    pub(super) fn close(&mut self, depth: usize) {
        while let Some(mut index) = self.open.pop_if(|index| index.of.0 >= depth) {
            index.keys.clear();
            index.slots.clear();
            self.spare.push(index);
        }
    }
}

impl Index {
    fn place(&mut self, key: Key, hasher: &Hasher64) -> Option<u32> {
        if self.slots.is_empty() {
            if let Some(at) = self.keys.iter().position(|have| have.is(key)) {
                return Some(at as u32);
            }
            self.keys.push(key);
            if self.keys.len() > LINEAR {
                self.rebuild(hasher);
            }
            return None;
        }
        let slot = self.find(key, hasher);
        if self.slots[slot] != 0 {
            return Some(self.slots[slot] - 1);
        }
        self.keys.push(key);
        self.slots[slot] = self.keys.len() as u32;
        if self.keys.len() * 2 > self.slots.len() {
            self.rebuild(hasher);
        }
        None
    }

    fn find(&self, key: Key, hasher: &Hasher64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = key.hash(hasher) as usize & mask;
        while self.slots[slot] != 0 && !self.keys[self.slots[slot] as usize - 1].is(key) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn rebuild(&mut self, hasher: &Hasher64) {
        let slots = (self.keys.len() * 4).next_power_of_two();
        self.slots.clear();
        self.slots.resize(slots, 0);
        for number in 0..self.keys.len() {
            let slot = self.find(self.keys[number], hasher);
            self.slots[slot] = number as u32 + 1;
        }
    }
}
