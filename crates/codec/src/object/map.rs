//! Changing a map: entries by key.
//!
//! A map is an array of entry objects with distinct keys, and has no index of its own. A [`MapEdit`] makes one while it
//! lives: up to [`LINEAR`] entries it searches, above that the first call by key indexes all of them, and later ones find
//! theirs at once. So filling a map with n entries through one `MapEdit` costs O(n).
//!
//! Invariant: while a `MapEdit` lives, nothing else changes the map; keys are never changed in place, so the index may
//! refer to their bytes.

use super::edit::{Edit, new_object};
use super::reference::Addr;
use super::slot::Slot;
use super::view::{View, view_at};
use crate::memory::OutOfMemory;
use std::collections::HashMap;

/// Entries up to which a search is linear.
pub const LINEAR: usize = 16;

/// A key, as wide as it lies in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key<'k> {
    /// A bool: 0 or 1.
    U8(u8),
    /// Any 32-bit integer, its bits.
    U32(u32),
    /// Any 64-bit integer, its bits.
    U64(u64),
    /// A string.
    Text(&'k [u8]),
}

impl<'k> Key<'k> {
    /// The key of an entry, as wide as this one.
    ///
    /// # Safety
    /// The entry has a key of that kind at `offset`.
    pub(super) unsafe fn of<'e>(self, entry: View<'e>, offset: u32) -> Key<'e> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Key::U8(_) => Key::U8(entry.scalar(offset)),
                Key::U32(_) => Key::U32(entry.scalar(offset)),
                Key::U64(_) => Key::U64(entry.scalar(offset)),
                Key::Text(_) => Key::Text(entry.bytes(offset)),
            }
        }
    }

    /// Stores the key in an entry.
    unsafe fn put(self, entry: &mut Edit<'_, '_>, slot: Slot) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise, as of `of`.
        unsafe {
            match self {
                Key::U8(key) => entry.set(slot, key),
                Key::U32(key) => entry.set(slot, key),
                Key::U64(key) => entry.set(slot, key),
                Key::Text(key) => entry.set_bytes(slot, key)?,
            }
        }
        Ok(())
    }
}

/// A map field and its entries' class.
#[derive(Clone, Copy, Debug)]
pub struct MapSlot {
    /// The field.
    pub field: Slot,
    /// Bytes of an entry.
    pub entry: u32,
    /// Offset of the key in an entry; its index is 0.
    pub key: u32,
    /// Offset of the value in an entry; its index is 1.
    pub value: u32,
    /// Bytes of a value that is a message, else 0.
    pub message: u32,
}

impl MapSlot {
    /// The map at `offset`, with entries of `entry` bytes that have the key at `key`, and at `value` the value, a message of
    /// `message` bytes or (0) something else.
    pub const fn new(index: u32, offset: u32, entry: u32, key: u32, value: u32, message: u32) -> MapSlot {
        MapSlot { field: Slot::new(index, offset), entry, key, value, message }
    }

    /// The key of an entry.
    pub const fn key(&self) -> Slot {
        Slot::new(0, self.key)
    }

    /// The value of an entry.
    pub const fn value(&self) -> Slot {
        Slot::new(1, self.value)
    }

    /// The position of the entry with that key.
    ///
    /// # Safety
    /// This is a map field of the object's class, with keys of that kind.
    pub unsafe fn find(&self, map: View<'_>, key: Key<'_>) -> Option<usize> {
        // SAFETY: the caller's promise; elements of a map are entries.
        unsafe {
            map.messages(self.field.offset).iter().position(|&entry| key.of(view_at(entry), self.key) == key)
        }
    }
}

/// A map that is being changed.
#[derive(Debug)]
pub struct MapEdit<'m, 'a> {
    of: Edit<'m, 'a>,
    map: MapSlot,
    /// Positions by key, of all entries or of none; the keys' bytes are in the entries.
    index: HashMap<Key<'m>, u32>,
}

impl<'m, 'a> MapEdit<'m, 'a> {
    /// Changes one map of an object.
    ///
    /// # Safety
    /// `map` is a map field of the object's class. All keys passed to one `MapEdit` are of that map's kind.
    pub unsafe fn new(of: Edit<'m, 'a>, map: MapSlot) -> MapEdit<'m, 'a> {
        MapEdit { of, map, index: HashMap::new() }
    }

    fn entries(&self) -> &[Addr] {
        // SAFETY: `new`'s promise.
        unsafe { self.of.view().messages(self.map.field.offset) }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of an entry, as wide as `like`; alive while nobody changes it.
    fn key_at(&self, position: usize, like: Key<'_>) -> Key<'m> {
        // SAFETY: `new`'s promise; keys are not changed or freed while this MapEdit has the object to itself, which is 'm.
        unsafe { like.of(view_at(self.entries()[position]), self.map.key) }
    }

    /// The position of the entry with that key.
    pub fn find(&mut self, key: Key<'_>) -> Option<usize> {
        let len = self.len();
        if len <= LINEAR {
            // SAFETY: `new`'s promise.
            return unsafe { self.map.find(self.of.view(), key) };
        }
        if self.index.is_empty() {
            self.index.extend((0..len).map(|at| (self.key_at(at, key), at as u32)).collect::<Vec<_>>());
        }
        self.index.get(&key).map(|&at| at as usize)
    }

    /// The entry with that key, for its value to be set; made, with an absent value or an empty message, if there is none.
    ///
    /// # Errors
    /// The memory is full; the map is as it was.
    ///
    /// # Safety
    /// What is set in the entry is its value, not its key. A string key is UTF-8 if the map's keys must be.
    pub unsafe fn entry(&mut self, key: Key<'_>) -> Result<Edit<'_, 'a>, OutOfMemory> {
        let position = match self.find(key) {
            Some(position) => position,
            None => self.add(key)?,
        };
        // SAFETY: `new`'s promise.
        Ok(unsafe { self.of.element(self.map.field, position) })
    }

    fn add(&mut self, key: Key<'_>) -> Result<usize, OutOfMemory> {
        let position = self.len();
        let object = new_object(self.of.arena(), self.map.entry)?;
        // SAFETY: new and only ours; its class is the map's entry.
        let mut entry: Edit<'_, 'a> = unsafe { Edit::of(object, self.of.arena()) };
        // SAFETY: as above; the slots are those of the entry's class.
        unsafe {
            key.put(&mut entry, self.map.key())?;
            if self.map.message != 0 {
                entry.message(self.map.value(), self.map.message)?;
            }
            self.of.push_object(self.map.field, object)?;
        }
        if !self.index.is_empty() {
            self.index.insert(self.key_at(position, key), position as u32);
        }
        Ok(position)
    }

    /// Takes the entry with that key out: true if there was one. The last entry takes its place.
    ///
    /// # Errors
    /// The memory is full; the map is as it was. (Only if the array had to be copied before it could be changed.)
    pub fn remove(&mut self, key: Key<'_>) -> Result<bool, OutOfMemory> {
        let Some(position) = self.find(key) else { return Ok(false) };
        let last = self.len() - 1;
        let (own, moved) = (self.key_at(position, key), self.key_at(last, key));
        // SAFETY: `new`'s promise; an element of a map is an address.
        unsafe { self.of.swap_remove::<Addr>(self.map.field, position)? };
        if !self.index.is_empty() {
            self.index.insert(moved, position as u32);
            self.index.remove(&own);
        }
        Ok(true)
    }
}
