//! A value whose type is forgotten, in place if it is small: what travels to a host thread and back through a ring slot.
//!
//! Invariant: `bytes` holds a `T`, or a `Box<T>` where it does not fit, of the type that `kind` tells; taking it or dropping it
//! happens once.

use std::any::TypeId;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Bytes that fit in place.
pub(crate) const INLINE: usize = 96;

#[repr(C, align(16))]
struct Bytes(MaybeUninit<[u8; INLINE]>);

struct Kind {
    id: fn() -> TypeId,
    /// Drops the value in the bytes.
    drop: unsafe fn(*mut u8),
}

/// A value of any sendable type.
pub(crate) struct Packed {
    bytes: Bytes,
    kind: &'static Kind,
}

// SAFETY: only values that may be sent are packed.
unsafe impl Send for Packed {}

struct Of<T>(T);

impl<T: 'static> Of<T> {
    const IN_PLACE: bool = size_of::<T>() <= INLINE && align_of::<T>() <= align_of::<Bytes>();
    const KIND: Kind = Kind { id: TypeId::of::<T>, drop: drop_packed::<T> };
}

/// # Safety
/// The bytes hold a packed `T`, which is not used afterwards.
unsafe fn drop_packed<T: 'static>(bytes: *mut u8) {
    if Of::<T>::IN_PLACE {
        // SAFETY: the caller's word; bytes are aligned for it.
        unsafe { bytes.cast::<T>().drop_in_place() }
    } else {
        // SAFETY: as above, of the box.
        unsafe { bytes.cast::<Box<T>>().drop_in_place() }
    }
}

impl Packed {
    pub(crate) fn new<T: Send + 'static>(value: T) -> Packed {
        let mut bytes = Bytes(MaybeUninit::uninit());
        let at = bytes.0.as_mut_ptr();
        if Of::<T>::IN_PLACE {
            // SAFETY: it fits and is aligned.
            unsafe { at.cast::<T>().write(value) };
        } else {
            // SAFETY: as above, of the box.
            unsafe { at.cast::<Box<T>>().write(Box::new(value)) };
        }
        Packed { bytes, kind: &Of::<T>::KIND }
    }

    /// The value.
    ///
    /// # Panics
    /// When it is of another type.
    pub(crate) fn take<T: 'static>(self) -> T {
        assert!((self.kind.id)() == TypeId::of::<T>(), "a packed value of another type");
        let packed = ManuallyDrop::new(self);
        let at = packed.bytes.0.as_ptr();
        if Of::<T>::IN_PLACE {
            // SAFETY: the invariant; it is not dropped here, and so taken once.
            unsafe { at.cast::<T>().read() }
        } else {
            // SAFETY: as above, of the box.
            *unsafe { at.cast::<Box<T>>().read() }
        }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        // SAFETY: the invariant.
        unsafe { (self.kind.drop)(self.bytes.0.as_mut_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn small_and_large_values_come_back_and_are_dropped_once() {
        let witness = Arc::new(5);
        let small = Packed::new((witness.clone(), 7u8));
        let large = Packed::new((witness.clone(), [1u64; 40]));
        let dropped = (Packed::new(witness.clone()), Packed::new((witness.clone(), [0u8; 99])));
        assert_eq!(Arc::strong_count(&witness), 5);
        drop(dropped);
        assert_eq!(small.take::<(Arc<i32>, u8)>(), (witness.clone(), 7));
        assert_eq!(large.take::<(Arc<i32>, [u64; 40])>().1[39], 1);
        assert_eq!(Arc::strong_count(&witness), 1);
        Packed::new(()).take::<()>();
    }

    #[test]
    #[should_panic(expected = "another type")]
    fn a_value_is_taken_as_what_it_is() {
        Packed::new(1u32).take::<i32>();
    }
}
