//! Reading and writing the bytes of one object.
//!
//! This is where the table's word becomes memory accesses: every function here trusts that the object is of the class
//! whose entry gave the offset. Callers are the lanes, the serialisers, the typed accessors that the compiler generates and
//! [`Dynamic`](super::Dynamic), each of which takes offsets from the table of that class only.

use std::ptr::NonNull;

/// Values that may lie in an object: any bits are one.
///
/// # Safety
/// Every bit pattern of `Self` is valid, and so are zeros.
pub unsafe trait Value: Copy + Default + PartialEq + std::fmt::Debug + 'static {}

macro_rules! values {
    ($($kind:ty),*) => { $(
        // SAFETY: a number; any bits are one.
        unsafe impl Value for $kind {}
    )* };
}
values!(u8, i32, u32, i64, u64, f32, f64);

/// One object, in memory that this thread may read and, while it is being built, write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Object(NonNull<u8>);

impl Object {
    /// The object at `start`, 8-byte aligned.
    #[inline]
    pub fn at(start: NonNull<u8>) -> Object {
        debug_assert!(start.as_ptr().addr().is_multiple_of(8), "objects are aligned");
        Object(start)
    }

    /// Its first byte.
    #[inline]
    pub fn start(self) -> NonNull<u8> {
        self.0
    }

    /// Reads what lies at `offset`.
    ///
    /// # Safety
    /// The object is alive and initialised, its class has a value of this type at `offset`, and nobody writes it meanwhile.
    #[inline]
    pub unsafe fn read<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the caller's promise; the layout aligns values to their size up to 8.
        unsafe { self.0.add(offset as usize).cast::<T>().read() }
    }

    /// Writes `value` to `offset`.
    ///
    /// # Safety
    /// As [`Object::read`], and nobody reads it meanwhile.
    #[inline]
    pub unsafe fn write<T: Copy>(self, offset: u32, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset as usize).cast::<T>().write(value) }
    }

    /// True if the presence bit of entry `index` is set.
    ///
    /// # Safety
    /// As [`Object::read`]; the class has that entry.
    #[inline]
    pub unsafe fn has(self, index: u32) -> bool {
        // SAFETY: presence words come first in every object.
        unsafe { self.read::<u32>(index / 32 * 4) >> (index % 32) & 1 != 0 }
    }

    /// Sets the presence bit of entry `index`.
    ///
    /// # Safety
    /// As [`Object::write`]; the class has that entry.
    #[inline]
    pub unsafe fn set(self, index: u32) {
        // SAFETY: presence words come first in every object.
        unsafe { self.write(index / 32 * 4, self.read::<u32>(index / 32 * 4) | 1 << (index % 32)) }
    }

    /// Clears the presence bit of entry `index`.
    ///
    /// # Safety
    /// As [`Object::set`].
    #[inline]
    pub unsafe fn clear(self, index: u32) {
        // SAFETY: presence words come first in every object.
        unsafe { self.write(index / 32 * 4, self.read::<u32>(index / 32 * 4) & !(1 << (index % 32))) }
    }

    /// Makes entry `index` the member of its oneof whose slot is at `offset`: the member before it loses its presence.
    /// True if it was the one already.
    ///
    /// # Safety
    /// As [`Object::set`]; the entry is a member of a oneof.
    #[inline]
    pub unsafe fn choose(self, index: u32, offset: u32) -> bool {
        // SAFETY: the case word of a oneof lies 8 bytes before its slot (table::Message).
        unsafe {
            let case = self.read::<u32>(offset - 8);
            if case == index + 1 {
                return true;
            }
            if case != 0 {
                self.clear(case - 1);
            }
            self.write(offset - 8, index + 1);
            false
        }
    }
}
