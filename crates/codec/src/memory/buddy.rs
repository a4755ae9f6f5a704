//! Runs of 2^k chunks, split and joined in pairs.
//!
//! Invariants: a block of order k begins at a multiple of 2^k; free blocks never overlap; two free buddies are always
//! joined, so the free blocks are the largest possible. Checked against a bitmap in the tests.
//! Cost: a few ordered-set operations; it stands behind the runs kept aside and is not on the fast path.

use std::collections::BTreeSet;

/// Orders there are; of the highest, 2^20 chunks of 4 KiB are 4 GiB.
pub(super) const ORDERS: usize = 21;

pub(super) struct Buddy {
    free: [BTreeSet<u32>; ORDERS],
}

impl Buddy {
    /// All chunks below `chunks` free.
    pub(super) fn new(chunks: u32) -> Buddy {
        let mut buddy = Buddy { free: Default::default() };
        let mut start = 0;
        while start < chunks {
            let aligned = if start == 0 { u32::MAX } else { start.trailing_zeros() };
            let order = aligned.min((chunks - start).ilog2()).min(ORDERS as u32 - 1);
            buddy.free[order as usize].insert(start);
            start += 1 << order;
        }
        buddy
    }

    /// A run of 2^order chunks.
    pub(super) fn take(&mut self, order: u32) -> Option<u32> {
        let from = (order as usize..ORDERS).find(|&order| !self.free[order].is_empty())?;
        let start = self.free[from].pop_first().expect("a set that is not empty");
        for half in (order as usize..from).rev() {
            self.free[half].insert(start + (1 << half));
        }
        Some(start)
    }

    /// Gives back what [`Buddy::take`] gave.
    pub(super) fn give(&mut self, mut start: u32, order: u32) {
        let mut order = order as usize;
        while order + 1 < ORDERS && self.free[order].remove(&(start ^ (1 << order))) {
            start &= !(1 << order);
            order += 1;
        }
        let fresh = self.free[order].insert(start);
        assert!(fresh, "a run of chunks was given back twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn runs_never_overlap_and_all_join_again() {
        for chunks in [1, 2, 3, 5, 64, 100, 1000] {
            let mut buddy = Buddy::new(chunks);
            let whole: Vec<_> = buddy.free.clone().into_iter().collect();
            let mut used = vec![false; chunks as usize];
            let mut held = Vec::new();
            let mut prng = Prng::new(u64::from(chunks));
            for _ in 0..2000 {
                if prng.below(3) < 2 {
                    let order = prng.below(5) as u32;
                    if let Some(start) = buddy.take(order) {
                        for chunk in &mut used[start as usize..][..1 << order] {
                            assert!(!std::mem::replace(chunk, true), "a chunk was given twice");
                        }
                        held.push((start, order));
                    }
                } else if !held.is_empty() {
                    let (start, order) = held.swap_remove(prng.below(held.len() as u64) as usize);
                    used[start as usize..][..1 << order].fill(false);
                    buddy.give(start, order);
                }
            }
            for (start, order) in held {
                buddy.give(start, order);
            }
            assert_eq!(buddy.free.to_vec(), whole, "all free blocks are joined");
        }
    }
}
