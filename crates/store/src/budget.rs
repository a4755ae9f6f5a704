//! Where the memory goes, and the one question whether there is more of it.
//!
//! Invariant: `spent() <= limit` after every operation, unless the limit was lowered and the store is still giving back.
//! Every byte that the store asks the system for passes through [`Budget::take`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a byte was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Segments,
    Index,
    Overflow,
    Ghosts,
}

#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limit: usize,
    taken: [usize; 4],
    total: usize,
    /// Shared with every large value, which gives its bytes back when its last reader lets go, on whatever thread.
    large: Arc<AtomicUsize>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { limit, taken: [0; 4], total: 0, large: Arc::new(AtomicUsize::new(0)) }
    }

    pub(crate) fn take(&mut self, what: Use, bytes: usize) {
        self.taken[what as usize] += bytes;
        self.total += bytes;
    }

    pub(crate) fn give(&mut self, what: Use, bytes: usize) {
        self.taken[what as usize] -= bytes;
        self.total -= bytes;
    }

    pub(crate) fn taken(&self, what: Use) -> usize {
        self.taken[what as usize]
    }

    /// Bytes in large values, those that only readers still hold included.
    pub(crate) fn large(&self) -> usize {
        // Relaxed: a count of bytes; the memory itself is given back by munmap before the count falls.
        self.large.load(Ordering::Relaxed)
    }

    pub(crate) fn large_counter(&self) -> &Arc<AtomicUsize> {
        &self.large
    }

    pub(crate) fn spent(&self) -> usize {
        self.total + self.large()
    }

    pub(crate) fn left(&self) -> usize {
        self.limit.saturating_sub(self.spent())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.spent() > self.limit
    }
}
