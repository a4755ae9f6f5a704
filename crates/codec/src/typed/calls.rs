//! What generated methods call where a load or store is not enough.

use super::Message;
use crate::memory::OutOfMemory;
use crate::object::{Edit, Slot, View};
use crate::place::FieldId;

/// A field's id.
pub const fn field(class: u32, entry: u32) -> FieldId {
    FieldId { class, entry }
}

/// A singular sub-message, if it is there.
///
/// # Safety
/// The entry is one of the object's class, with sub-messages of type `M`.
#[inline]
pub unsafe fn message<M: Message>(view: View<'_>, index: u32, offset: u32) -> Option<M::View<'_>> {
    // SAFETY: the caller's promise.
    unsafe { view.message(index, offset).map(|view| M::view(view)) }
}

/// A singular sub-message, made if it is not there.
///
/// # Errors
/// The memory is full.
///
/// # Safety
/// As [`message`].
#[inline]
pub unsafe fn message_mut<'m, 'a, M: Message>(
    edit: Edit<'m, 'a>,
    slot: Slot,
) -> Result<M::Mut<'m, 'a>, OutOfMemory> {
    // SAFETY: the caller's promise.
    unsafe { Ok(M::edit(edit.into_message(slot, M::SIZE)?)) }
}

/// A new last element of a repeated sub-message.
///
/// # Errors
/// The memory is full.
///
/// # Safety
/// As [`message`], with a repeated entry.
#[inline]
pub unsafe fn push_message<'m, 'a, M: Message>(
    edit: &'m mut Edit<'_, 'a>,
    slot: Slot,
) -> Result<M::Mut<'m, 'a>, OutOfMemory> {
    // SAFETY: the caller's promise.
    unsafe { Ok(M::edit(edit.push_message(slot, M::SIZE)?)) }
}

/// One element of a repeated sub-message.
///
/// # Panics
/// If there is no such element.
///
/// # Safety
/// As [`push_message`].
#[inline]
pub unsafe fn messages_mut<'m, 'a, M: Message>(
    edit: &'m mut Edit<'_, 'a>,
    slot: Slot,
    index: usize,
) -> M::Mut<'m, 'a> {
    // SAFETY: the caller's promise.
    unsafe { M::edit(edit.element(slot, index)) }
}

/// Bools as they lie in arrays.
#[inline]
pub fn bools(values: &[bool]) -> &[u8] {
    // SAFETY: a bool is a byte, 0 or 1.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}
