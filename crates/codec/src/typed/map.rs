//! Maps, read and changed.

use super::{Item, MapKey, Message, Plain};
use crate::memory::OutOfMemory;
use crate::object::{Addr, Edit, MapEdit, MapSlot, View, view_at};
use std::fmt;
use std::marker::PhantomData;

/// The entries of a map, for as long as their message.
pub struct Map<'a, K: Item + ?Sized, V: Item + ?Sized> {
    of: View<'a>,
    map: MapSlot,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: Item + ?Sized, V: Item + ?Sized> Clone for Map<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Item + ?Sized, V: Item + ?Sized> Copy for Map<'_, K, V> {}

impl<'a, K: MapKey + ?Sized, V: Item + ?Sized> Map<'a, K, V> {
    /// A map of an object.
    ///
    /// # Safety
    /// The object's class has such a map.
    #[inline]
    pub unsafe fn of(of: View<'a>, map: MapSlot) -> Map<'a, K, V> {
        Map { of, map, types: PhantomData }
    }

    fn entries(self) -> &'a [Addr] {
        // SAFETY: `of`'s promise.
        unsafe { self.of.messages(self.map.field.offset) }
    }

    /// How many entries.
    pub fn len(self) -> usize {
        self.entries().len()
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value of a key, found by looking at one after the other.
    pub fn get(self, key: K::In<'_>) -> Option<V::Out<'a>> {
        // SAFETY: `of`'s promise.
        let position = unsafe { self.map.find(self.of, K::key(key)) }?;
        Some(self.value(self.entries()[position]))
    }

    fn key(self, entry: Addr) -> K::Out<'a> {
        // SAFETY: `of`'s promise; an absent key reads as zero or empty.
        unsafe { K::read(view_at(entry).object().read(self.map.key)) }
    }

    fn value(self, entry: Addr) -> V::Out<'a> {
        // SAFETY: `of`'s promise; entry 1 of a map's entry is the value.
        unsafe {
            let entry = view_at(entry);
            if entry.has(1) { V::read(entry.object().read(self.map.value)) } else { V::absent() }
        }
    }

    /// All keys and values, in no particular order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (K::Out<'a>, V::Out<'a>)> {
        self.entries().iter().map(move |&entry| (self.key(entry), self.value(entry)))
    }
}

impl<'a, K: MapKey + ?Sized, V: Item + ?Sized> fmt::Debug for Map<'a, K, V>
where
    K::Out<'a>: fmt::Debug,
    V::Out<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A map that is being changed. It remembers where keys are: fill a map through one of these, not one for each key.
pub struct MapMut<'m, 'a, K: Item + ?Sized, V: Item + ?Sized> {
    edit: MapEdit<'m, 'a>,
    map: MapSlot,
    types: PhantomData<fn(&K, &V)>,
}

impl<'m, 'a, K: MapKey + ?Sized, V: Item + ?Sized> MapMut<'m, 'a, K, V> {
    /// A map of an object.
    ///
    /// # Safety
    /// The object's class has such a map.
    pub unsafe fn of(of: Edit<'m, 'a>, map: MapSlot) -> MapMut<'m, 'a, K, V> {
        // SAFETY: the caller's promise; keys are made by K only.
        MapMut { edit: unsafe { MapEdit::new(of, map) }, map, types: PhantomData }
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.edit.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.edit.is_empty()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The memory is full.
    pub fn insert(&mut self, key: K::In<'_>, value: V::In<'_>) -> Result<(), OutOfMemory>
    where
        V: Plain,
    {
        // SAFETY: `of`'s promise; only the value is set.
        unsafe { V::set(&mut self.edit.entry(K::key(key))?, self.map.value(), value) }
    }

    /// The message that is the value of a key; an empty one is made if there is none.
    ///
    /// # Errors
    /// The memory is full.
    pub fn message_mut(&mut self, key: K::In<'_>) -> Result<V::Mut<'_, 'a>, OutOfMemory>
    where
        V: Message,
    {
        // SAFETY: `of`'s promise; the value is a message of type V.
        unsafe {
            let entry = self.edit.entry(K::key(key))?;
            Ok(V::edit(entry.into_message(self.map.value(), V::SIZE)?))
        }
    }

    /// Takes a key out: true if it was there.
    ///
    /// # Errors
    /// The memory is full.
    pub fn remove(&mut self, key: K::In<'_>) -> Result<bool, OutOfMemory> {
        self.edit.remove(K::key(key))
    }
}

impl<K: Item + ?Sized, V: Item + ?Sized> fmt::Debug for MapMut<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MapMut({} entries)", self.edit.len())
    }
}
