//! Loads from the input that may run past its end.
//!
//! Why: a tag and a varint take one unaligned 8-byte load each if the load need not ask how much input is left. So while
//! [`SLACK`] bytes are left, loads go to the input; from there on they go to a patch, a copy of the last bytes with zeros
//! behind. A field that runs into the zeros is found out when the lane compares its position with the message's end.
//!
//! Invariant: after [`Window::ready`] with position `at ≤ len`, every load within `[at, at + SLACK)` is in bounds.
//! Source: upb's decoder patches the tail in the same way.

use std::ptr::NonNull;

/// Bytes that may be loaded from a position that was made ready.
pub(super) const SLACK: usize = 32;

/// Room for the patch.
#[derive(Debug)]
pub(super) struct Patch([u8; 2 * SLACK]);

impl Default for Patch {
    fn default() -> Patch {
        Patch([0; 2 * SLACK])
    }
}

pub(super) struct Window<'a> {
    /// Where position 0 would be.
    base: *const u8,
    /// The last position from which SLACK bytes may be loaded without patching; all of them once patched.
    safe: usize,
    input: &'a [u8],
    patch: NonNull<[u8; 2 * SLACK]>,
}

impl<'a> Window<'a> {
    #[inline]
    pub(super) fn new(input: &'a [u8], patch: &'a mut Patch) -> Window<'a> {
        let mut window = Window { base: input.as_ptr(), safe: 0, input, patch: NonNull::from(&mut patch.0) };
        match input.len().checked_sub(SLACK) {
            Some(safe) => window.safe = safe,
            None => window.switch(),
        }
        window
    }

    #[inline(always)]
    pub(super) fn ready(&mut self, at: usize) {
        if at > self.safe {
            self.switch();
        }
    }

    /// From here on loads go to the patch: the last SLACK bytes of the input, or all of it, and zeros.
    #[inline]
    fn switch(&mut self) {
        // SAFETY: the patch is borrowed alone for 'a.
        let (tail, zeros) = unsafe { self.patch.as_mut() }.split_at_mut(SLACK);
        zeros.fill(0);
        let from = match self.input.last_chunk::<SLACK>() {
            Some(last) => {
                tail.copy_from_slice(last);
                self.input.len() - SLACK
            }
            None => {
                tail.fill(0);
                tail[..self.input.len()].copy_from_slice(self.input);
                0
            }
        };
        self.base = self.patch.as_ptr().cast::<u8>().cast_const().wrapping_sub(from);
        self.safe = usize::MAX;
    }

    /// Eight bytes from `at`.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u64 {
        // SAFETY: `at` is within SLACK - 8 of a position that was made ready (the lane loads at most a tag, a varint or a
        // fixed value from one), so it is in the input or in the patch.
        unsafe { u64::from_le(self.base.wrapping_add(at).cast::<u64>().read_unaligned()) }
    }

    /// Two bytes from `at`.
    #[inline(always)]
    pub(super) fn half(&self, at: usize) -> u16 {
        // SAFETY: as `word`.
        unsafe { u16::from_le(self.base.wrapping_add(at).cast::<u16>().read_unaligned()) }
    }
}
