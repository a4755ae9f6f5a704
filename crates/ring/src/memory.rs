//! A boxed slice that starts on a 128-byte boundary, so that slots of whole lines stay whole lines. The allocator gives 16.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Two lines: the prefetcher of current cores fetches lines in pairs, so what must not be shared is this far apart.
pub(crate) const SPACING: usize = 128;

/// An owned, line-aligned slice, built element by element.
pub(crate) struct Aligned<S> {
    start: NonNull<S>,
    len: usize,
}

// SAFETY: it owns its elements as a Box<[S]> would.
unsafe impl<S: Send> Send for Aligned<S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Sync for Aligned<S> {}

impl<S> Aligned<S> {
    /// `len` elements, each made by `make`. `len` must not be 0.
    pub(crate) fn new(len: usize, mut make: impl FnMut() -> S) -> Aligned<S> {
        let layout = Aligned::<S>::layout(len);
        // SAFETY: the layout is not empty: `len` > 0 and slots hold at least a sequence word or a byte of padding.
        let raw = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(raw.cast::<S>()) else { handle_alloc_error(layout) };
        for i in 0..len {
            // SAFETY: inside the allocation.
            unsafe { start.add(i).write(make()) };
        }
        Aligned { start, len }
    }

    fn layout(len: usize) -> Layout {
        let layout = Layout::array::<S>(len.max(1)).and_then(|l| l.align_to(SPACING));
        let layout = layout.expect("a ring fits the address space");
        if layout.size() == 0 { Layout::new::<[u8; SPACING]>() } else { layout }
    }

    #[inline(always)]
    pub(crate) fn start(&self) -> NonNull<S> {
        self.start
    }
}

impl<S> Drop for Aligned<S> {
    fn drop(&mut self) {
        for i in 0..self.len {
            // SAFETY: each element was built in `new` and is dropped once.
            unsafe { self.start.add(i).drop_in_place() };
        }
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr().cast(), Aligned::<S>::layout(self.len)) };
    }
}
