//! Where a walk finds the bytes of objects.

use super::error::EncodeError;
use crate::object::Addr;

/// Brings the bytes behind an address to where this thread can load them.
pub(super) trait Source {
    /// How much is held: see [`Source::release`].
    type Mark: Copy;

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
