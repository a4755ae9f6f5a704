//! The bytes beyond the slots of all packets in a ring or queue, and their limit.
//!
//! Invariant: the count is at most the limit, or the bytes of one packet. There is one sender, who adds before it pushes; receivers
//! subtract after they took, so the count is never too low, and what fits now still fits when it is pushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the ends.
#[derive(Clone)]
pub(crate) struct Weight {
    bytes: Arc<AtomicUsize>,
    limit: usize,
}

impl Weight {
    pub(crate) fn new(limit: usize) -> Weight {
        Weight { bytes: Arc::default(), limit }
    }

    /// Whether a packet with so many boxed bytes may be pushed.
    #[inline]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes == 0 || {
            let before = self.bytes.load(Ordering::Relaxed);
            before == 0 || before.saturating_add(bytes) <= self.limit
        }
    }

    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn subtract(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}
