//! What may be an element of a list, or a key or value of a map, and how it lies there.

use super::{AnyText, Message, Text};
use crate::memory::OutOfMemory;
use crate::object::{Addr, Edit, Key, Ref, Slot, bytes_of, view_at};

/// A type of elements: a number, `bool`, `str`, `[u8]`, [`AnyText`], a generated enum, or a [`Message`].
///
/// # Safety
/// `Raw` is what lies in an object or an array for such an element, and any bits of it may be copied.
pub unsafe trait Item: 'static {
    /// As it lies in memory.
    type Raw: Copy;
    /// As it is read.
    type Out<'a>;

    /// Reads an element.
    ///
    /// # Safety
    /// It comes from an object that lives, unchanged, for `'a`, from a place where such an element is.
    unsafe fn read<'a>(raw: Self::Raw) -> Self::Out<'a>;

    /// What the value of a map's entry reads as that has none.
    fn absent<'a>() -> Self::Out<'a>;
}

/// An element that is set in one go: all but messages.
pub trait Plain: Item {
    /// What it is set to.
    type In<'v>: Copy;

    /// Sets a singular field.
    ///
    /// # Errors
    /// The memory is full.
    ///
    /// # Safety
    /// The slot is one for such an element, in an object of its class.
    unsafe fn set(edit: &mut Edit<'_, '_>, slot: Slot, value: Self::In<'_>) -> Result<(), OutOfMemory>;
}

/// An element that may be the key of a map.
pub trait MapKey: Plain {
    /// The key as it lies in an entry.
    fn key(value: Self::In<'_>) -> Key<'_>;
}

macro_rules! numbers {
    ($($kind:ty),*) => { $(
        // SAFETY: a number lies there as it is.
        unsafe impl Item for $kind {
            type Raw = $kind;
            type Out<'a> = $kind;

            #[inline]
            unsafe fn read<'a>(raw: $kind) -> Self::Out<'a> {
                raw
            }

            #[inline]
            fn absent<'a>() -> Self::Out<'a> {
                Default::default()
            }
        }

        impl Plain for $kind {
            type In<'v> = $kind;

            #[inline]
            unsafe fn set(edit: &mut Edit<'_, '_>, slot: Slot, value: Self::In<'_>) -> Result<(), OutOfMemory> {
                // SAFETY: the caller's promise.
                unsafe { edit.set(slot, value) };
                Ok(())
            }
        }
    )* };
}
numbers!(i32, u32, i64, u64, f32, f64);

macro_rules! keys {
    ($($kind:ty => $key:ident as $bits:ty),*) => { $(
        impl MapKey for $kind {
            #[inline]
            fn key(value: Self::In<'_>) -> Key<'_> {
                Key::$key(value as $bits)
            }
        }
    )* };
}
keys!(i32 => U32 as u32, u32 => U32 as u32, i64 => U64 as u64, u64 => U64 as u64, bool => U8 as u8);

// SAFETY: a bool lies there as a byte.
unsafe impl Item for bool {
    type Raw = u8;
    type Out<'a> = bool;

    #[inline]
    unsafe fn read<'a>(raw: u8) -> Self::Out<'a> {
        raw != 0
    }

    #[inline]
    fn absent<'a>() -> Self::Out<'a> {
        false
    }
}

impl Plain for bool {
    type In<'v> = bool;

    #[inline]
    unsafe fn set(edit: &mut Edit<'_, '_>, slot: Slot, value: Self::In<'_>) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { edit.set(slot, u8::from(value)) };
        Ok(())
    }
}

macro_rules! texts {
    ($($kind:ty, $out:ty, $input:ty, |$bytes:ident| $read:expr, |$value:ident| $write:expr;)*) => { $(
        // SAFETY: strings and bytes lie there as a Ref.
        unsafe impl Item for $kind {
            type Raw = Ref;
            type Out<'a> = $out;

            #[inline]
            unsafe fn read<'a>(raw: Ref) -> Self::Out<'a> {
                // SAFETY: the caller's promise; the field is checked for UTF-8 if its type is str.
                unsafe {
                    let $bytes = bytes_of(raw);
                    $read
                }
            }

            #[inline]
            fn absent<'a>() -> Self::Out<'a> {
                Default::default()
            }
        }

        impl Plain for $kind {
            type In<'v> = $input;

            #[inline]
            unsafe fn set(edit: &mut Edit<'_, '_>, slot: Slot, $value: Self::In<'_>) -> Result<(), OutOfMemory> {
                // SAFETY: the caller's promise.
                unsafe { edit.set_bytes(slot, $write) }
            }
        }
    )* };
}
texts! {
    str, &'a str, &'v str, |bytes| std::str::from_utf8_unchecked(bytes), |value| value.as_bytes();
    [u8], &'a [u8], &'v [u8], |bytes| bytes, |value| value;
    AnyText, Text<'a>, &'v str, |bytes| Text(bytes), |value| value.as_bytes();
}

impl MapKey for str {
    #[inline]
    fn key(value: Self::In<'_>) -> Key<'_> {
        Key::Text(value.as_bytes())
    }
}

impl MapKey for AnyText {
    #[inline]
    fn key(value: Self::In<'_>) -> Key<'_> {
        Key::Text(value.as_bytes())
    }
}

// SAFETY: a sub-message lies there as its address.
unsafe impl<M: Message> Item for M {
    type Raw = Addr;
    type Out<'a> = M::View<'a>;

    #[inline]
    unsafe fn read<'a>(raw: Addr) -> Self::Out<'a> {
        // SAFETY: the caller's promise.
        unsafe { M::view(view_at(raw)) }
    }

    fn absent<'a>() -> Self::Out<'a> {
        panic!("an entry of a map of messages always has its value")
    }
}
