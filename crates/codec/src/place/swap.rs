//! A value that is replaced as a whole while readers keep the one that they hold; one number tells that it changed.
//!
//! Invariant: a reader that has seen number n holds the value that was put n-th, or a later one; it never goes back.
//! Ordering (**swapped**): the number is stored with Release after the new value stands in the lock, and loaded with Acquire
//! before it is taken from there.
//! Cost: a reader that is up to date makes one load.
//! Tests: loom runs every interleaving of a writer and a reader (`tests/swap.rs`), and finds the number published too early.

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Swap<T> {
    epoch: AtomicU64,
    value: Mutex<Arc<T>>,
    /// A bug that the checker must find: the number is published before the value.
    #[cfg(test)]
    pub(super) early: bool,
}

impl<T> Swap<T> {
    pub(super) fn new(value: T) -> Swap<T> {
        Swap {
            epoch: AtomicU64::new(0),
            value: Mutex::new(Arc::new(value)),
            #[cfg(test)]
            early: false,
        }
    }

    /// How often it was replaced.
    pub(super) fn epoch(&self) -> u64 {
        // swapped
        self.epoch.load(Ordering::Acquire)
    }

    /// The value now.
    pub(super) fn value(&self) -> Arc<T> {
        Arc::clone(&self.lock())
    }

    /// Puts another value. Writers must not race with each other, or the number would be of no value in particular.
    pub(super) fn replace(&self, value: T) {
        #[cfg(test)]
        if self.early {
            self.epoch.fetch_add(1, Ordering::Release);
            *self.lock() = Arc::new(value);
            return;
        }
        let mut current = self.lock();
        *current = Arc::new(value);
        // swapped
        self.epoch.fetch_add(1, Ordering::Release);
    }

    pub(super) fn reader(&self) -> Reader<T> {
        let value = self.lock();
        // Within the lock, so that number and value belong together.
        Reader { epoch: self.epoch(), value: Arc::clone(&value) }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<T>> {
        self.value.lock().expect("nothing panics while the value is locked")
    }
}

/// A hold on one value.
#[derive(Debug)]
pub(super) struct Reader<T> {
    epoch: u64,
    value: Arc<T>,
}

impl<T> Reader<T> {
    /// The newest value; `swap` is where this reader comes from.
    pub(super) fn latest(&mut self, swap: &Swap<T>) -> &Arc<T> {
        if swap.epoch() != self.epoch {
            *self = swap.reader();
        }
        &self.value
    }
}
