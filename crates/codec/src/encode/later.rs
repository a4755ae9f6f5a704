//! Copies that a walk puts off until it is over.
//!
//! Why: a walk goes from the last field to the first, and then to a message that lies behind. No processor foresees that way: bytes that are
//! copied in that order come from memory at a quarter to a half of the speed of bytes that are copied in the order in which they lie. So the walk
//! only says what goes where, and the copies are made afterwards, from the first field to the last.
//!
//! Bounds: [`ROOM`] copies; when there are more, those that are there are made first.
//! Cost: three stores and as many loads for each copy, about half a nanosecond; `docs/measurements/codec.md`.

use crate::memory::copy;
use std::mem::MaybeUninit;

/// Copies that are put off at most.
const ROOM: usize = 16;

/// See the file's head. Last first.
pub(super) struct Later {
    copies: [MaybeUninit<Span>; ROOM],
    count: usize,
}

/// Bytes to copy.
#[derive(Clone, Copy)]
struct Span {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

impl Default for Later {
    fn default() -> Later {
        Later { copies: [MaybeUninit::uninit(); ROOM], count: 0 }
    }
}

impl Later {
    /// So few bytes are copied at once: that is cheaper than to remember it.
    pub(super) const AT_ONCE: usize = 16;

    /// Puts off a copy of `len` bytes.
    ///
    /// # Safety
    /// Until [`Later::copy`] or [`Later::forget`], `from` is readable and `to` writable for that many bytes, and they do not overlap.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if self.count >= ROOM {
            // SAFETY: the promises of those before.
            unsafe { self.copy() };
        }
        // SAFETY: there is room, by now.
        unsafe { self.copies.get_unchecked_mut(self.count).write(Span { from, to, len }) };
        self.count += 1;
    }

    /// Makes the copies, the last one that was put off first.
    ///
    /// # Safety
    /// The promises of [`Later::push`] still hold.
    #[inline]
    pub(super) unsafe fn copy(&mut self) {
        while self.count > 0 {
            self.count -= 1;
            // SAFETY: as many were written; the caller's promise.
            unsafe {
                let Span { from, to, len } = self.copies.get_unchecked(self.count).assume_init();
                copy(from, to, len);
            }
        }
    }

    /// Makes none of them.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    /// True if there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
