//! Where a task's bytes are: spans of the accelerator's memory, and the trait that finds them there.
//!
//! Bounds: every span is checked against its memory when the task runs; a hostile descriptor ends its task, nothing else.

use crate::memory::Memory;
use base::pages::Region;
use std::ptr::NonNull;

/// Bytes in accelerator memory: a distance from its start, and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes from the start of the memory.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

impl Span {
    /// `len` bytes at `addr`.
    pub const fn new(addr: u64, len: u32) -> Span {
        Span { addr, len }
    }
}

/// An entry of the descriptor ring (RPCAcc III-D): where to read, and where to write how much at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What the kernel reads.
    pub input: Span,
    /// The buffer it writes to.
    pub output: Span,
}

/// The memory that a compute unit has a port to.
///
/// # Safety
/// What [`AccMemory::resolve`] returns leads to `span.len` initialised bytes that may be read and written, and that stay where
/// they are as long as the memory lives.
pub unsafe trait AccMemory: Send + Sync {
    /// The first byte of `span`, or `None` when any of it lies outside. A span without bytes may end at the memory's end.
    fn resolve(&self, span: Span) -> Option<NonNull<u8>>;
}

// SAFETY: `within` has checked the span against the memory's length; its pages are zeroed at first and never move.
unsafe impl AccMemory for Memory {
    #[inline]
    fn resolve(&self, span: Span) -> Option<NonNull<u8>> {
        within(self.start(), self.len(), span)
    }
}

// SAFETY: as for Memory.
unsafe impl AccMemory for Region {
    #[inline]
    fn resolve(&self, span: Span) -> Option<NonNull<u8>> {
        within(self.start(), self.len(), span)
    }
}

fn within(start: *mut u8, len: usize, span: Span) -> Option<NonNull<u8>> {
    let addr = usize::try_from(span.addr).ok()?;
    let end = addr.checked_add(span.len as usize)?;
    if end > len {
        return None;
    }
    NonNull::new(start.wrapping_add(addr))
}

/// Whether the two stretches share a byte.
pub(super) fn overlap(a: NonNull<u8>, a_len: u32, b: NonNull<u8>, b_len: u32) -> bool {
    let (a, b) = (a.addr().get(), b.addr().get());
    a_len > 0 && b_len > 0 && a < b + b_len as usize && b < a + a_len as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::pages::PageKind;
    use proptest::prelude::*;

    #[test]
    fn spans_outside_the_memory_are_not_found() {
        let region = Region::map(4096, PageKind::Base).expect("a page");
        let len = region.len() as u64;
        for inside in [(0, 0), (0, 4096), (len, 0), (len - 1, 1)] {
            let found = region.resolve(Span::new(inside.0, inside.1)).expect("it is inside");
            assert_eq!(found.addr().get() - region.start().addr(), inside.0 as usize);
        }
        for outside in
            [(len, 1), (len + 1, 0), (0, u32::MAX), (u64::MAX, 1), (u64::MAX - 3, u32::MAX), (1 << 63, 0)]
        {
            assert_eq!(region.resolve(Span::new(outside.0, outside.1)), None, "{outside:?}");
        }
    }

    proptest! {
        #[test]
        fn overlap_is_a_shared_byte(a in 1usize..20, a_len in 0u32..8, b in 1usize..20, b_len in 0u32..8) {
            let bytes = |start: usize, len: u32| start..start + len as usize;
            let shared = bytes(a, a_len).any(|byte| bytes(b, b_len).contains(&byte));
            let at = |addr| NonNull::new(std::ptr::without_provenance_mut(addr)).expect("not zero");
            prop_assert_eq!(overlap(at(a), a_len, at(b), b_len), shared);
        }
    }
}
