//! Building and changing an object, in the arena that keeps it.
//!
//! The counterpart of [`View`]: the accessors that the compiler generates and [`DynamicMut`](super::DynamicMut) are thin
//! layers over it. What is set is copied into the arena, or lent for as long as the arena is borrowed.
//!
//! Two lives: `'m` is how long nobody else touches the object and its arena is borrowed, `'a` how long lent bytes live. A
//! sub-message is edited for as long as its parent is borrowed, but what is lent to it must live as long as the message; so
//! `'a` is invariant and `'m` is not.
//!
//! Invariants: (1) presence bits, case words and lengths are those of [`table::Message`](crate::table::Message), after
//! every call, also after one that failed; (2) a `Ref` with a capacity is the only one to its bytes, so they may be written;
//! (3) an element of a repeated message, and the value of a map of messages, is an object, never null.
//!
//! Errors: [`OutOfMemory`]; the object is as it was. A field in accelerator memory may be overwritten or cleared; adding to
//! it, or changing what is in it, panics with the advice to move it.
//!
//! Cost: replaced bytes and grown arrays leave their old place unused until the arena is reset; bytes that fit where the old
//! ones were go there.

use super::array::grow_in;
use super::raw::{Object, Value};
use super::reference::{Addr, Ref};
use super::slot::Slot;
use super::view::View;
use crate::memory::{Arena, OutOfMemory, Place};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// An object that only its holder touches for `'m`; bytes lent to it live for `'a`.
pub struct Edit<'m, 'a> {
    object: Object,
    arena: &'m Arena,
    life: PhantomData<(&'m mut [u8], *mut &'a [u8])>,
}

impl std::fmt::Debug for Edit<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edit({:?})", self.object)
    }
}

impl<'a> Edit<'a, 'a> {
    /// A new object of `size` bytes, all fields absent.
    ///
    /// # Errors
    /// The memory is full.
    ///
    /// # Panics
    /// If the arena is one of accelerator memory.
    #[inline]
    pub fn new(arena: &'a Arena, size: u32) -> Result<Edit<'a, 'a>, OutOfMemory> {
        assert_eq!(arena.memory().place(), Place::Host, "objects are built in host memory");
        Ok(Edit { object: new_object(arena, size)?, arena, life: PhantomData })
    }
}

/// A zeroed object.
#[inline]
pub(super) fn new_object(arena: &Arena, size: u32) -> Result<Object, OutOfMemory> {
    Ok(Object::at(arena.alloc_zeroed(size as usize)?))
}

/// The object at an address.
#[inline]
fn object_at(addr: Addr) -> Object {
    Object::at(NonNull::new(addr.pointer()).expect("a present sub-message is an object"))
}

// Every function below that takes a `Slot` has the same contract, which is View's: the slot is of an entry of the object's
// class, and of the kind that the function writes; sizes are those of the class or of the element.
#[allow(clippy::missing_safety_doc, reason = "said once, at the first of them")]
impl<'m, 'a> Edit<'m, 'a> {
    /// Goes on with an object.
    ///
    /// # Safety
    /// The object is finished, in the arena's memory or that of something that lives longer, and for `'m` nobody else reads
    /// or writes it or what it refers to. After `'m` it is read for `'a` at most.
    #[inline]
    pub unsafe fn of(object: Object, arena: &'m Arena) -> Edit<'m, 'a> {
        Edit { object, arena, life: PhantomData }
    }

    /// The object.
    #[inline]
    pub fn object(&self) -> Object {
        self.object
    }

    /// Where its parts are allocated.
    #[inline]
    pub fn arena(&self) -> &'m Arena {
        self.arena
    }

    /// Reads it as it is now.
    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: nobody else writes it, and this borrow keeps its holder from doing so.
        unsafe { View::of(self.object) }
    }

    /// No more changes.
    #[inline]
    pub fn freeze(self) -> View<'m> {
        // SAFETY: nobody else writes it for 'm, and its holder is gone.
        unsafe { View::of(self.object) }
    }

    /// The same, for a while.
    #[inline]
    pub fn borrow(&mut self) -> Edit<'_, 'a> {
        Edit { object: self.object, arena: self.arena, life: PhantomData }
    }

    /// A part of this object, for as long as this is borrowed.
    #[inline]
    fn part(&mut self, object: Object) -> Edit<'_, 'a> {
        Edit { object, arena: self.arena, life: PhantomData }
    }

    /// Sets a singular scalar; it is present then, also if zero.
    ///
    /// # Safety
    /// `slot` is of an entry of the object's class, of the kind that this function writes: here a singular `T`. So for
    /// all functions below; a `size` is that of the entry's message, or of the entry's elements.
    #[inline]
    pub unsafe fn set<T: Value>(&mut self, slot: Slot, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.put(slot, value) }
    }

    /// Writes a singular value and says that it is there.
    #[inline]
    unsafe fn put<T: Copy>(&mut self, slot: Slot, value: T) {
        // SAFETY: the caller's promise, and `of`'s.
        unsafe {
            if slot.oneof {
                self.object.choose(slot.index, slot.offset);
            }
            self.object.set(slot.index);
            self.object.write(slot.offset, value);
        }
    }

    /// Sets a singular string or bytes field to a copy of `bytes`, which are UTF-8 if the entry wants that.
    #[inline]
    pub unsafe fn set_bytes(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe {
            let old = if self.object.has(slot.index) { self.object.read(slot.offset) } else { Ref::EMPTY };
            let new = store(self.arena, old, bytes)?;
            self.put(slot, new);
        }
        Ok(())
    }

    /// Sets a singular string or bytes field to these bytes themselves.
    ///
    /// # Panics
    /// Above 4 GiB.
    #[inline]
    pub unsafe fn lend_bytes(&mut self, slot: Slot, bytes: &'a [u8]) {
        // SAFETY: the caller's promise; the bytes live as long as all that the object refers to.
        unsafe { self.put(slot, lent(bytes)) }
    }

    /// Sets a singular bytes field to `len` bytes of accelerator memory at `at`, which live as long as the message.
    pub(crate) unsafe fn set_acc_bytes(&mut self, slot: Slot, at: Addr, len: u32) {
        let bytes = if len == 0 { Ref::EMPTY } else { Ref { addr: at, len, capacity: 0 } };
        // SAFETY: the caller's promise.
        unsafe { self.put(slot, bytes) }
    }

    /// The singular sub-message of `size` bytes, made if it is not there.
    #[inline]
    pub unsafe fn message(&mut self, slot: Slot, size: u32) -> Result<Edit<'_, 'a>, OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.borrow().into_message(slot, size) }
    }

    /// As [`Edit::message`], and lets go of this object.
    #[inline]
    pub unsafe fn into_message(mut self, slot: Slot, size: u32) -> Result<Edit<'m, 'a>, OutOfMemory> {
        // SAFETY: the caller's promise; a present sub-message has the address of an object.
        let object = unsafe {
            if self.object.has(slot.index) {
                object_at(self.object.read::<Addr>(slot.offset))
            } else {
                let object = new_object(self.arena, size)?;
                self.put(slot, Addr::host(object.start().as_ptr()));
                object
            }
        };
        Ok(Edit { object, ..self })
    }

    /// Makes the member of a oneof absent that is there; `offset` is that of any member.
    #[inline]
    pub unsafe fn clear_oneof(&mut self, offset: u32) {
        // SAFETY: the caller's promise; a oneof's case word lies 8 bytes before its slot. What is left in the slot is read
        // only when a member is there again, and that was written first.
        unsafe {
            let case: u32 = self.object.read(offset - 8);
            if case != 0 {
                self.object.clear(case - 1);
                self.object.write(offset - 8, 0_u32);
            }
        }
    }

    /// Makes all fields absent and forgets the unknown ones; `size` is that of the object.
    #[inline]
    pub unsafe fn clear_all(&mut self, size: u32) {
        // SAFETY: the caller's promise; an object begins as zeros.
        unsafe { self.object.start().write_bytes(0, size as usize) }
    }

    /// Makes a field absent; `bytes` is what it takes in the object ([`Entry::slot`](crate::table::Entry::slot)).
    #[inline]
    pub unsafe fn clear(&mut self, slot: Slot, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if slot.oneof {
                if self.object.has(slot.index) {
                    self.clear_oneof(slot.offset);
                }
                return;
            }
            self.object.clear(slot.index);
            self.object.start().add(slot.offset as usize).write_bytes(0, bytes);
        }
    }

    /// The array of a repeated field.
    #[inline]
    unsafe fn array(&self, slot: Slot) -> Ref {
        // SAFETY: a repeated field is a Ref in the object, empty at first.
        unsafe { self.object.read(slot.offset) }
    }

    #[inline]
    unsafe fn put_array(&mut self, slot: Slot, array: Ref) {
        // SAFETY: as `array`.
        unsafe {
            if array.len == 0 {
                self.object.clear(slot.index);
            } else {
                self.object.set(slot.index);
            }
            self.object.write(slot.offset, array);
        }
    }

    /// Appends to a repeated scalar.
    #[inline]
    pub unsafe fn push<T: Value>(&mut self, slot: Slot, value: T) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.append(slot, value) }
    }

    #[inline]
    unsafe fn append<T: Copy>(&mut self, slot: Slot, value: T) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise; below its capacity an array has room, and is ours to write.
        unsafe {
            let mut array = self.array(slot);
            if array.len >= array.capacity {
                array = grow_in(self.arena, array, size_of::<T>(), 1)?;
            }
            array.addr.pointer().cast::<T>().add(array.len as usize).write(value);
            array.len += 1;
            self.put_array(slot, array);
        }
        Ok(())
    }

    /// Appends `values` to a repeated scalar.
    pub unsafe fn extend<T: Value>(&mut self, slot: Slot, values: &[T]) -> Result<(), OutOfMemory> {
        let more = u32::try_from(values.len()).map_err(|_| OutOfMemory)?;
        // SAFETY: as `append`; the values are not in this object, which is borrowed alone.
        unsafe {
            let mut array = self.array(slot);
            if more == 0 {
                return Ok(());
            }
            if array.capacity.saturating_sub(array.len) < more {
                array = grow_in(self.arena, array, size_of::<T>(), more)?;
            }
            let end = array.addr.pointer().cast::<T>().add(array.len as usize);
            end.copy_from_nonoverlapping(values.as_ptr(), values.len());
            array.len += more;
            self.put_array(slot, array);
        }
        Ok(())
    }

    /// Replaces a repeated scalar by `values`.
    pub unsafe fn set_array<T: Value>(&mut self, slot: Slot, values: &[T]) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe {
            let old = self.array(slot);
            let keeps_place = !old.addr.is_acc() && old.capacity as usize >= values.len();
            let emptied = if keeps_place { Ref { len: 0, ..old } } else { Ref::EMPTY };
            self.object.write(slot.offset, emptied);
            let done = self.extend(slot, values);
            if done.is_err() {
                self.object.write(slot.offset, old);
            } else if values.is_empty() {
                self.put_array(slot, emptied);
            }
            done
        }
    }

    /// Appends a copy of `bytes` to a repeated string or bytes field.
    #[inline]
    pub unsafe fn push_bytes(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.append(slot, store(self.arena, Ref::EMPTY, bytes)?) }
    }

    /// Appends these bytes themselves to a repeated string or bytes field.
    ///
    /// # Panics
    /// Above 4 GiB.
    #[inline]
    pub unsafe fn push_lent(&mut self, slot: Slot, bytes: &'a [u8]) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise; as `lend_bytes`.
        unsafe { self.append(slot, lent(bytes)) }
    }

    /// Replaces one element of a repeated string or bytes field by a copy of `bytes`.
    ///
    /// # Panics
    /// If there is no such element.
    pub unsafe fn set_element_bytes(
        &mut self,
        slot: Slot,
        index: usize,
        bytes: &[u8],
    ) -> Result<(), OutOfMemory> {
        let arena = self.arena;
        // SAFETY: the caller's promise.
        let element = &mut unsafe { self.owned::<Ref>(slot)? }[index];
        *element = store(arena, *element, bytes)?;
        Ok(())
    }

    /// Appends a new sub-message of `size` bytes to a repeated field.
    #[inline]
    pub unsafe fn push_message(&mut self, slot: Slot, size: u32) -> Result<Edit<'_, 'a>, OutOfMemory> {
        let object = new_object(self.arena, size)?;
        // SAFETY: the caller's promise; the object is finished, all its fields are absent.
        unsafe { self.push_object(slot, object)? };
        Ok(self.part(object))
    }

    /// Appends a finished object of this arena.
    #[inline]
    pub(super) unsafe fn push_object(&mut self, slot: Slot, object: Object) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.append(slot, Addr::host(object.start().as_ptr())) }
    }

    /// One element of a repeated sub-message or map.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline]
    pub unsafe fn element(&mut self, slot: Slot, index: usize) -> Edit<'_, 'a> {
        // SAFETY: the caller's promise; elements are objects.
        let object = object_at(unsafe { self.view().messages(slot.offset) }[index]);
        self.part(object)
    }

    /// The elements of a repeated scalar, to be changed in place. (They are copied first if they are not this object's.)
    #[inline]
    pub unsafe fn elements<T: Value>(&mut self, slot: Slot) -> Result<&mut [T], OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.owned(slot) }
    }

    /// The elements of an array that may be written.
    unsafe fn owned<T: Copy>(&mut self, slot: Slot) -> Result<&mut [T], OutOfMemory> {
        // SAFETY: the caller's promise; an array with a capacity is ours alone, and `len` elements are initialised.
        unsafe {
            let mut array = self.array(slot);
            if array.len == 0 {
                return Ok(&mut []);
            }
            if array.capacity == 0 {
                array = grow_in(self.arena, array, size_of::<T>(), 0)?;
                self.put_array(slot, array);
            }
            Ok(std::slice::from_raw_parts_mut(array.addr.pointer().cast::<T>(), array.len as usize))
        }
    }

    /// Takes one element out of a repeated field, and keeps the order of the others; `T` is as large as an element:
    /// [`Ref`] for strings and bytes, [`Addr`] for messages.
    ///
    /// # Panics
    /// If there is no such element.
    pub unsafe fn remove<T: Copy>(&mut self, slot: Slot, index: usize) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe {
            let elements = self.owned::<T>(slot)?;
            let last = elements.len().checked_sub(1).expect("an element to remove");
            elements.copy_within(index + 1.., index);
            self.truncate(slot, last);
        }
        Ok(())
    }

    /// As [`Edit::remove`]; the last element takes the place.
    ///
    /// # Panics
    /// If there is no such element.
    pub unsafe fn swap_remove<T: Copy>(&mut self, slot: Slot, index: usize) -> Result<(), OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe {
            let elements = self.owned::<T>(slot)?;
            let last = elements.len().checked_sub(1).expect("an element to remove");
            elements[index] = elements[last];
            self.truncate(slot, last);
        }
        Ok(())
    }

    /// Keeps the first `len` elements of a repeated field.
    #[inline]
    pub unsafe fn truncate(&mut self, slot: Slot, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let array = self.array(slot);
            if len < array.len as usize {
                self.put_array(slot, Ref { len: len as u32, ..array });
            }
        }
    }

    /// Appends a copy of `fields`, as they are on the wire, to the unknown fields. They should be whole fields:
    /// they are written as they are.
    ///
    /// # Safety
    /// `unknown` is [`table::Message::unknown`](crate::table::Message::unknown) of the object's class.
    pub unsafe fn push_unknown(&mut self, unknown: u32, fields: &[u8]) -> Result<(), OutOfMemory> {
        let run = store(self.arena, Ref::EMPTY, fields)?;
        // SAFETY: the caller's promise; as `append`, without a presence bit.
        unsafe {
            let mut runs: Ref = self.object.read(unknown);
            if runs.len >= runs.capacity {
                runs = grow_in(self.arena, runs, size_of::<Ref>(), 1)?;
            }
            runs.addr.pointer().cast::<Ref>().add(runs.len as usize).write(run);
            runs.len += 1;
            self.object.write(unknown, runs);
        }
        Ok(())
    }

    /// Forgets the unknown fields.
    ///
    /// # Safety
    /// As [`Edit::push_unknown`].
    pub unsafe fn clear_unknown(&mut self, unknown: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.object.write(unknown, Ref::EMPTY) }
    }
}

/// A copy of `bytes`: where `old` was if that is ours to write and large enough, else new.
#[inline]
fn store(arena: &Arena, old: Ref, bytes: &[u8]) -> Result<Ref, OutOfMemory> {
    let len = u32::try_from(bytes.len()).map_err(|_| OutOfMemory)?;
    if len == 0 {
        return Ok(Ref { len: 0, ..if old.addr.is_acc() { Ref::EMPTY } else { old } });
    }
    let reuse = old.capacity >= len && !old.addr.is_acc();
    let start = if reuse { old.addr.pointer() } else { arena.alloc(bytes.len())?.as_ptr() };
    // SAFETY: room for that many bytes, just given or ours alone (invariant 2), so not part of `bytes`.
    unsafe { crate::memory::copy(bytes.as_ptr(), start, bytes.len()) };
    Ok(Ref { addr: Addr::host(start), len, capacity: if reuse { old.capacity } else { len } })
}

/// These bytes themselves.
#[inline]
fn lent(bytes: &[u8]) -> Ref {
    let len = u32::try_from(bytes.len()).expect("a field is at most 4 GiB");
    Ref { addr: Addr::host(bytes.as_ptr().cast_mut()), len, capacity: 0 }
}
