//! How many bytes of requests a server holds at once, over all edges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts bytes that are held. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicUsize>);

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Hold {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// Holds so many bytes more, unless these would be more than `most` in all.
    pub fn hold(&self, bytes: usize, most: usize) -> Option<Hold> {
        let add = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Hold { budget: self.clone(), bytes })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_held_again() {
        let budget = Budget::default();
        let six = budget.hold(6, 10).expect("room");
        assert!(budget.hold(5, 10).is_none() && budget.hold(usize::MAX, 10).is_none());
        let four = budget.hold(4, 10).expect("room for as much as is left");
        drop(six);
        assert!(budget.hold(6, 10).is_some());
        drop(four);
    }
}
