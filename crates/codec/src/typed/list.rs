//! Repeated strings, bools and messages. (Repeated numbers and enums are slices.)

use super::Item;
use crate::object::{Ref, View};
use std::fmt;
use std::marker::PhantomData;

/// The elements of a repeated field, for as long as their message.
pub struct List<'a, T: Item + ?Sized> {
    array: Ref,
    life: PhantomData<&'a [u8]>,
    item: PhantomData<fn(&T)>,
}

// SAFETY: a List only reads memory that nobody writes for 'a; a Ref is an address and two numbers.
unsafe impl<T: Item + ?Sized> Send for List<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Item + ?Sized> Sync for List<'_, T> {}

impl<T: Item + ?Sized> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Item + ?Sized> Copy for List<'_, T> {}

impl<'a, T: Item + ?Sized> List<'a, T> {
    /// The elements of the repeated field at `offset`.
    ///
    /// # Safety
    /// The object's class has a repeated field of such elements there.
    #[inline]
    pub unsafe fn of(view: View<'a>, offset: u32) -> List<'a, T> {
        // SAFETY: the caller's promise; a repeated field is a Ref in the object.
        List { array: unsafe { view.object().read(offset) }, life: PhantomData, item: PhantomData }
    }

    /// How many elements.
    #[inline]
    pub fn len(self) -> usize {
        self.array.len as usize
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.array.len == 0
    }

    /// One element.
    #[inline]
    pub fn get(self, index: usize) -> Option<T::Out<'a>> {
        if index >= self.len() {
            return None;
        }
        let place = self.array.addr.pointer().cast::<T::Raw>().wrapping_add(index);
        // SAFETY: `of`'s promise, and the index is below the length.
        Some(unsafe { T::read(place.read()) })
    }

    /// All elements.
    #[inline]
    pub fn iter(self) -> Iter<'a, T> {
        Iter { list: self, at: 0 }
    }
}

impl<'a, T: Item + ?Sized> IntoIterator for List<'a, T> {
    type Item = T::Out<'a>;
    type IntoIter = Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item + ?Sized> fmt::Debug for List<'a, T>
where
    T::Out<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// Goes through a [`List`].
#[derive(Clone)]
pub struct Iter<'a, T: Item + ?Sized> {
    list: List<'a, T>,
    at: usize,
}

impl<'a, T: Item + ?Sized> Iterator for Iter<'a, T> {
    type Item = T::Out<'a>;

    #[inline]
    fn next(&mut self) -> Option<T::Out<'a>> {
        let item = self.list.get(self.at)?;
        self.at += 1;
        Some(item)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.at;
        (left, Some(left))
    }
}

impl<T: Item + ?Sized> ExactSizeIterator for Iter<'_, T> {}
