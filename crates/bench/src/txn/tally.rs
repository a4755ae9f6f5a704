//! What a side did in a slice of time.

use crate::load::summary::Latency;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Longer latencies count as this: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Transactions that were committed, or only read.
    pub done: u64,
    /// Transactions whose conditions did not hold.
    pub aborted: u64,
    /// Times that a reconnaissance was in vain, or a lock was taken.
    pub retried: u64,
    /// From the first thing that was sent for a transaction to its end, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// How long the slice was.
    pub elapsed: Duration,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            done: 0,
            aborted: 0,
            retried: 0,
            latencies: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("three digits"),
            elapsed: Duration::ZERO,
        }
    }
}

impl Tally {
    /// One that ended.
    pub fn note(&mut self, aborted: bool, latency_ns: u64) {
        *(if aborted { &mut self.aborted } else { &mut self.done }) += 1;
        self.latencies.saturating_record(latency_ns);
    }

    /// With what another did in the same time.
    #[must_use]
    pub fn beside(mut self, other: &Tally) -> Tally {
        self.add(other);
        self.elapsed = self.elapsed.max(other.elapsed);
        self
    }

    /// With what was done after it.
    #[must_use]
    pub fn followed_by(mut self, other: &Tally) -> Tally {
        self.add(other);
        self.elapsed += other.elapsed;
        self
    }

    fn add(&mut self, other: &Tally) {
        self.done += other.done;
        self.aborted += other.aborted;
        self.retried += other.retried;
        self.latencies.add(&other.latencies).expect("all have the same bounds");
    }

    /// Transactions, aborted ones too, in a second.
    pub fn per_second(&self) -> f64 {
        (self.done + self.aborted) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Their latencies.
    pub fn latency(&self) -> Latency {
        Latency::of(&self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_add_up_and_slices_follow() {
        let mut one = Tally::default();
        one.note(false, 1_000);
        one.note(true, 3_000);
        one.elapsed = Duration::from_secs(1);
        let both = one.clone().beside(&one);
        assert_eq!((both.done, both.aborted, both.per_second()), (2, 2, 4.0));
        let twice = one.clone().followed_by(&one);
        assert_eq!((twice.done, twice.per_second(), twice.latency().count), (2, 2.0, 4));
        let latency = twice.latency();
        assert!((latency.mean_us - 2.0).abs() < 0.01 && (latency.max_us - 3.0).abs() < 0.01);
    }
}
