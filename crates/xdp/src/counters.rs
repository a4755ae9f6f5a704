//! What the program counted and how long it took: read from the rows that each CPU writes, without a system call.
//!
//! Each number is written by one CPU and read here while it grows: a sum of several is of no one moment.

use crate::layout::{Counter, Row, TIMES};
use base::Nanos;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counts since the maps were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Counter::PLACES]);

impl Counts {
    pub(crate) fn of(rows: &[Row]) -> Counts {
        Counts(sum(rows, |row| &row.count))
    }

    /// One of them.
    pub fn of_kind(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// All, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.of_kind(counter)))
    }

    /// What came between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts(std::array::from_fn(|i| self.0[i].wrapping_sub(earlier.0[i])))
    }
}

/// Time from when a datagram was known to be for the box to the verdict, of those that were sampled ([`Live::sample`](crate::Live)).
/// Bucket b: 2^b to 2^(b+1) - 1 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram([u64; TIMES]);

impl Histogram {
    pub(crate) fn hits(rows: &[Row]) -> Histogram {
        Histogram(sum(rows, |row| &row.hit_ns))
    }

    pub(crate) fn passed(rows: &[Row]) -> Histogram {
        Histogram(sum(rows, |row| &row.pass_ns))
    }

    /// The counts.
    pub fn buckets(&self) -> &[u64; TIMES] {
        &self.0
    }

    /// Samples.
    pub fn len(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No sample of this share (0 to 1) of the fastest took as long as this; none without samples.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let rank = ((self.len() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Nanos(2 << bucket))
    }
}

fn sum<const N: usize>(rows: &[Row], part: impl Fn(&Row) -> &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|i| rows.iter().map(|row| part(row)[i].load(Relaxed)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    #[test]
    fn rows_are_summed() {
        let rows = Region::<Row>::private(3);
        for row in rows.iter() {
            row.count[Counter::Hits as usize].store(2, Relaxed);
        }
        rows[1].count[Counter::Lost as usize].store(1, Relaxed);
        let counts = Counts::of(&rows);
        assert_eq!((counts.of_kind(Counter::Hits), counts.of_kind(Counter::Lost)), (6, 1));
        assert_eq!(counts.since(&counts), Counts::default());
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
    }

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        let rows = Region::<Row>::private(1);
        assert_eq!(Histogram::hits(&rows).quantile(0.5), None);
        rows[0].hit_ns[8].store(99, Relaxed);
        rows[0].hit_ns[12].store(1, Relaxed);
        let histogram = Histogram::hits(&rows);
        assert_eq!(histogram.len(), 100);
        assert_eq!(histogram.quantile(0.5), Some(Nanos(512)));
        assert_eq!(histogram.quantile(0.99), Some(Nanos(512)));
        assert_eq!(histogram.quantile(1.0), Some(Nanos(8192)));
        assert!(Histogram::passed(&rows).is_empty());
    }
}
