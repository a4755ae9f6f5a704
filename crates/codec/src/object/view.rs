//! Reading a finished object: one pointer, alive as long as its memory.
//!
//! The typed accessors that the compiler generates are thin layers over these functions; so is [`Dynamic`](super::Dynamic).
//!
//! Errors: reading a field that lies in accelerator memory panics with the advice to move it; [`View::is_acc`] asks first.

use super::raw::{Object, Value};
use super::reference::{Addr, Ref};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A finished object that lives for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    object: Object,
    life: PhantomData<&'a [u8]>,
}

// SAFETY: a View only reads memory that nobody writes for 'a.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// A view of `object`.
    ///
    /// # Safety
    /// For `'a` the object and all that it refers to in host memory is alive, initialised and not written.
    #[inline]
    pub unsafe fn of(object: Object) -> View<'a> {
        View { object, life: PhantomData }
    }

    /// The object.
    #[inline]
    pub fn object(self) -> Object {
        self.object
    }

    /// The scalar at `offset`.
    ///
    /// # Safety
    /// The object's class has a value of this type there. So for all functions below: `offset` and `index` are of an
    /// entry of the object's class, of the kind that the function reads.
    #[inline]
    pub unsafe fn scalar<T: Value>(self, offset: u32) -> T {
        // SAFETY: the caller's promise, and `of`'s.
        unsafe { self.object.read(offset) }
    }

    /// The scalar at `offset` if entry `index` is present, else `absent`.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn scalar_or<T: Value>(self, index: u32, offset: u32, absent: T) -> T {
        // SAFETY: the caller's promise.
        unsafe { if self.has(index) { self.scalar(offset) } else { absent } }
    }

    /// Which member of a oneof is there, as its entry's index + 1, or 0; `offset` is that of a member.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn case(self, offset: u32) -> u32 {
        // SAFETY: the case word of a oneof lies 8 bytes before its slot (table::Message).
        unsafe { self.scalar(offset - 8) }
    }

    /// True if entry `index` is present.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn has(self, index: u32) -> bool {
        // SAFETY: the caller's promise, and `of`'s.
        unsafe { self.object.has(index) }
    }

    /// What the string or bytes field at `offset` holds, wherever its bytes are.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub(crate) unsafe fn scalar_ref(self, offset: u32) -> Ref {
        // SAFETY: the caller's promise; such a field is a Ref in the object.
        unsafe { self.object.read(offset) }
    }

    /// True if the dereference field at `offset` (string, bytes or repeated) lies in accelerator memory.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn is_acc(self, offset: u32) -> bool {
        // SAFETY: the caller's promise; a Ref begins with its address, and a sub-message's slot is an address.
        unsafe { self.object.read::<Addr>(offset).is_acc() }
    }

    /// Bytes, or the UTF-8 of a string.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn bytes(self, offset: u32) -> &'a [u8] {
        // SAFETY: the caller's promise; a Ref of bytes has len bytes (lanes and editors write it so).
        unsafe { slice(self.object.read::<Ref>(offset)) }
    }

    /// As [`View::bytes`] if entry `index` is present, else `absent`.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn bytes_or(self, index: u32, offset: u32, absent: &'a [u8]) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { if self.has(index) { self.bytes(offset) } else { absent } }
    }

    /// As [`View::string`] if entry `index` is present, else `absent`.
    ///
    /// # Safety
    /// As [`View::string`].
    #[inline]
    pub unsafe fn string_or(self, index: u32, offset: u32, absent: &'a str) -> &'a str {
        // SAFETY: the caller's promise.
        unsafe { if self.has(index) { self.string(offset) } else { absent } }
    }

    /// True if entry `index` is present and the dereference field at `offset` lies in accelerator memory.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn is_member_acc(self, index: u32, offset: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.has(index) && self.is_acc(offset) }
    }

    /// A string whose field is checked for UTF-8.
    ///
    /// # Safety
    /// As [`View::scalar`]; the entry has [`Flags::UTF8`](crate::table::Flags::UTF8).
    #[inline]
    pub unsafe fn string(self, offset: u32) -> &'a str {
        // SAFETY: lanes and editors store only valid UTF-8 in such a field.
        unsafe { std::str::from_utf8_unchecked(self.bytes(offset)) }
    }

    /// The elements of a repeated scalar.
    ///
    /// # Safety
    /// As [`View::scalar`]; `T` is the element's type.
    #[inline]
    pub unsafe fn array<T: Value>(self, offset: u32) -> &'a [T] {
        // SAFETY: as `bytes`.
        unsafe { slice(self.object.read::<Ref>(offset)) }
    }

    /// The elements of a repeated string or bytes field, each with [`bytes_of`].
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn refs(self, offset: u32) -> &'a [Ref] {
        // SAFETY: as `bytes`.
        unsafe { slice(self.object.read::<Ref>(offset)) }
    }

    /// A singular sub-message, if present.
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn message(self, index: u32, offset: u32) -> Option<View<'a>> {
        // SAFETY: the address of a present sub-message is that of a finished object.
        unsafe { if self.has(index) { Some(view_at(self.object.read::<Addr>(offset))) } else { None } }
    }

    /// The elements of a repeated sub-message or map, each with [`view_at`].
    ///
    /// # Safety
    /// As [`View::scalar`].
    #[inline]
    pub unsafe fn messages(self, offset: u32) -> &'a [Addr] {
        // SAFETY: as `bytes`.
        unsafe { slice(self.object.read::<Ref>(offset)) }
    }
}

/// The elements behind a reference.
///
/// # Safety
/// For `'a` it refers to `len` initialised elements of type `T` in host memory that nobody writes.
#[inline]
pub(crate) unsafe fn slice<'a, T>(of: Ref) -> &'a [T] {
    if of.len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; arrays are 8-byte aligned, bytes need none.
    unsafe { std::slice::from_raw_parts(of.addr.pointer().cast::<T>(), of.len as usize) }
}

/// The bytes behind an element of a repeated string or bytes field.
///
/// # Safety
/// The element comes from [`View::refs`] of the same life.
#[inline]
pub unsafe fn bytes_of<'a>(element: Ref) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice(element) }
}

/// The object behind an element of a repeated sub-message or map.
///
/// # Safety
/// The element comes from [`View::messages`] of the same life.
#[inline]
pub unsafe fn view_at<'a>(element: Addr) -> View<'a> {
    let start = NonNull::new(element.pointer()).expect("an element of a repeated message is an object");
    // SAFETY: the caller's promise.
    unsafe { View::of(Object::at(start)) }
}
