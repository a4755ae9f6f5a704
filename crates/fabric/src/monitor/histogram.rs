//! Spans of time as a histogram that one thread writes and others read while it does.
//!
//! Shape: log-linear. Values below 16 ns have a bucket each; every power of two above is cut into 16 equal buckets, up to 2³⁶ ns
//! (69 s), beyond which all share the last. 528 words of 8 bytes.
//!
//! Invariants:
//! 1. Only the owner of the recorder writes, so a write is a load and a store, not a locked instruction.
//! 2. A reader may see a bucket's count and not yet the sum, or the other way round; both only grow.
//!
//! Errors: a percentile is the middle of its bucket, at most 1/32 of its value beside the true one.

use base::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

const SUB: u32 = 4;
const CEILING: u64 = (1 << 36) - 1;
const BUCKETS: usize = (33 << SUB) as usize;

/// Counts one writer's values.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// What was counted, to be read, merged and printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// By bucket; empty when nothing was counted.
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(super) fn record(&self, span: Nanos) {
        super::add(&self.buckets[bucket(span.0)], 1);
        super::add(&self.sum, span.0);
    }

    pub(super) fn read(&self) -> Distribution {
        let buckets: Vec<u64> = self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        match buckets.iter().sum() {
            0 => Distribution::default(),
            count => Distribution { buckets, count, sum_ns: self.sum.load(Ordering::Relaxed) },
        }
    }
}

impl Distribution {
    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum_ns)
    }

    /// The value that this part of all, from 0 to 1, does not exceed; zero where nothing was counted.
    pub fn quantile(&self, part: f64) -> Nanos {
        let rank = ((part.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let at = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        });
        at.map_or(Nanos::ZERO, |at| Nanos(middle(at)))
    }

    /// How many did not exceed this, to within a bucket.
    pub fn within(&self, end: Nanos) -> u64 {
        self.buckets.iter().enumerate().filter(|(at, _)| middle(*at) <= end.0).map(|(_, count)| count).sum()
    }

    /// Counts what `other` has counted too.
    pub fn merge(&mut self, other: &Distribution) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    let value = value.min(CEILING);
    let power = (64 - (value >> SUB).leading_zeros()).saturating_sub(1);
    if value < 1 << SUB {
        return value as usize;
    }
    ((power as usize) << SUB) + (value >> power) as usize
}

/// The value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let power = (bucket >> SUB).saturating_sub(1) as u32;
    let low = (bucket as u64 - (u64::from(power) << SUB)) << power;
    low + ((1u64 << power) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Spans from a nanosecond to half a minute, short ones as likely as long ones.
    fn spans() -> impl Strategy<Value = Vec<u64>> {
        let span = (0..35u32, any::<u64>()).prop_map(|(bits, any)| any & ((1 << bits) - 1));
        proptest::collection::vec(span, 1..200)
    }

    fn counted(values: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        values.iter().for_each(|&ns| histogram.record(Nanos(ns)));
        histogram.read()
    }

    proptest! {
        #[test]
        fn a_percentile_is_near_the_true_one(mut values in spans(), part in 0.0..1.0f64) {
            let seen = counted(&values).quantile(part).0;
            values.sort_unstable();
            let rank = ((part * values.len() as f64).ceil() as usize).max(1);
            let truth = values[rank - 1];
            prop_assert!(seen.abs_diff(truth) <= truth / 32 + 1, "{seen} for {truth}");
            prop_assert!(counted(&values).within(Nanos(seen)) >= rank as u64);
        }

        #[test]
        fn merged_is_as_counted_together(a in spans(), b in spans()) {
            let mut merged = counted(&a);
            merged.merge(&counted(&b));
            prop_assert_eq!(&merged, &counted(&[a, b].concat()));
            merged.merge(&Distribution::default());
            let mut from_nothing = Distribution::default();
            from_nothing.merge(&merged);
            prop_assert_eq!(from_nothing, merged);
        }
    }

    #[test]
    fn buckets_have_neither_gaps_nor_overlaps() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(middle(at)), at);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!((bucket(15), bucket(16), bucket(31), bucket(32), bucket(33)), (15, 16, 31, 32, 32));
    }
}
