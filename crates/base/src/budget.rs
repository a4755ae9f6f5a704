//! Bytes that many may take from together, and never more than there are.
//!
//! A bound for each of many connections bounds nothing: a thousand of them take a thousand times as much. Whoever buffers what strangers send
//! takes the bytes from a budget before it allocates, as they come, and gives them back when they go.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The budget. Threads share it.
#[derive(Debug)]
pub struct Budget {
    taken: AtomicUsize,
    limit: AtomicUsize,
}

impl Budget {
    /// So many bytes.
    pub const fn new(limit: usize) -> Budget {
        Budget { taken: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
    }

    /// Takes all of these bytes, or none.
    #[must_use]
    pub fn try_take(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let take = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        // The count alone is shared, nothing is published by it: no order is needed.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Takes these bytes, also beyond what there are: for bytes that are there already. Who takes them sees to it that others go, as
    /// [`Budget::is_over`] says.
    pub fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether more is taken than there is.
    pub fn is_over(&self) -> bool {
        self.taken() > self.limit()
    }

    /// Gives back bytes that were taken.
    pub fn give(&self, bytes: usize) {
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more is given back than was taken");
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes there are.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes how many there are. What is taken beyond stays until it is given back.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }
}

/// Bytes of a budget, given back when this goes. `B` is a reference to the budget, or an `Arc` of it.
#[derive(Debug)]
pub struct Share<B: Deref<Target = Budget>> {
    budget: B,
    bytes: usize,
}

impl<B: Deref<Target = Budget>> Share<B> {
    /// Nothing yet.
    pub const fn new(budget: B) -> Share<B> {
        Share { budget, bytes: 0 }
    }

    /// So many bytes, also beyond what there are: as [`Budget::take`].
    pub fn forced(budget: B, bytes: usize) -> Share<B> {
        budget.take(bytes);
        Share { budget, bytes }
    }

    /// Has so many bytes from now on; whether there were as many. If not it has what it had.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.budget.try_take(bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.budget.give(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    /// Bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<B: Deref<Target = Budget>> Drop for Share<B> {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_what_goes_comes_back() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (Share::new(&budget), Share::new(&budget));
        assert!(one.resize(60) && !other.resize(41) && other.resize(40));
        assert_eq!((budget.taken(), other.bytes()), (100, 40));
        assert!(!one.resize(61) && one.resize(10) && other.resize(90));
        assert!(!other.resize(usize::MAX));
        drop(other);
        assert_eq!(budget.taken(), 10);
        budget.set_limit(5);
        assert!(budget.is_over());
        budget.take(1);
        budget.give(1);
        assert!(!one.resize(11) && one.resize(5) && one.bytes() == 5);
    }

    #[test]
    fn threads_together_take_no_more() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for bytes in 1..if cfg!(miri) { 50 } else { 5000 } {
                        let mut share = Share::new(&budget);
                        if share.resize(bytes % 600) {
                            assert!(budget.taken() <= 1000);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.taken(), 0);
    }
}
