//! Where a walk finds the bytes of objects.

use super::error::EncodeError;
use crate::crossing::Crossing;
use crate::memory::{Arena, Mark, Memory};
use crate::object::Addr;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Brings the bytes behind an address to where this thread can load them.
pub(super) trait Source {
    /// How much is held: see [`Source::release`].
    type Mark: Copy;

    /// What was fetched stays where it is until the walk is over, released or not.
    const STAYS: bool;

    /// Where `bytes` bytes at `addr`, aligned to `align`, can be loaded; `None` if only the other side can do that.
    ///
    /// # Safety
    /// An object of the walk refers to them so.
    unsafe fn fetch(
        &mut self,
        addr: Addr,
        bytes: usize,
        align: usize,
    ) -> Result<Option<*const u8>, EncodeError>;

    /// What is held now.
    fn mark(&self) -> Self::Mark;

    /// What was fetched since `mark` is not needed any more.
    fn release(&mut self, mark: Self::Mark);
}

/// The host reads its own memory: plain loads, and nothing in the accelerator's.
pub(super) struct Here;

impl Source for Here {
    type Mark = ();
    const STAYS: bool = true;

    #[inline(always)]
    unsafe fn fetch(
        &mut self,
        addr: Addr,
        _bytes: usize,
        _align: usize,
    ) -> Result<Option<*const u8>, EncodeError> {
        Ok(if addr.is_acc() { None } else { Some(addr.pointer().cast_const()) })
    }

    #[inline(always)]
    fn mark(&self) {}

    #[inline(always)]
    fn release(&mut self, _mark: ()) {}
}

/// The accelerator reads: its own memory directly, the host's by crossing, one read for each object, array and string.
///
/// What lies in its own memory may be anything: addresses are checked, so that nothing outside it is read.
pub(super) struct Across<'a, C> {
    /// None where no host address may occur.
    pub(super) crossing: Option<&'a C>,
    pub(super) memory: &'a Memory,
    /// Holds what was read while it is needed.
    pub(super) scratch: &'a mut Arena,
}

impl<C: Crossing> Source for Across<'_, C> {
    type Mark = Mark;
    const STAYS: bool = false;

    unsafe fn fetch(
        &mut self,
        addr: Addr,
        bytes: usize,
        align: usize,
    ) -> Result<Option<*const u8>, EncodeError> {
        if addr.is_acc() {
            let offset = addr.offset();
            let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.memory.len());
            if !inside || !offset.is_multiple_of(align) {
                return Err(EncodeError::Address);
            }
            return Ok(Some(self.memory.start().wrapping_add(offset)));
        }
        let crossing = self.crossing.ok_or(EncodeError::Address)?;
        let from = NonNull::new(addr.pointer()).ok_or(EncodeError::Address)?;
        let room = self.scratch.alloc(bytes)?;
        // SAFETY: given just now, that long; MaybeUninit may be anything.
        let into = unsafe { std::slice::from_raw_parts_mut(room.as_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        // SAFETY: the caller's promise: an object of the walk says that they are there.
        unsafe { crossing.read(from, into) };
        Ok(Some(room.as_ptr()))
    }

    fn mark(&self) -> Mark {
        self.scratch.mark()
    }

    fn release(&mut self, mark: Mark) {
        self.scratch.release(mark);
    }
}
