//! Histograms of any make as Prometheus has them: how many were no longer than each of some ends, in seconds.

use hdrhistogram::Histogram;

/// A distribution of spans.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Upper ends in seconds, rising, and how many were no longer.
    pub steps: Vec<(f64, u64)>,
    /// All.
    pub count: u64,
    /// Their sum, in seconds.
    pub sum: f64,
}

/// Ends in nanoseconds: 1, 2, 5, 10, … from 100 ns to a second.
fn ends() -> impl Iterator<Item = u64> {
    (2..9).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power))).chain([1_000_000_000])
}

impl Buckets {
    /// Of spans that somebody counts: `count` of them, `sum_ns` together, of which `within` says how many were no longer than that many nanoseconds.
    pub fn of(count: u64, sum_ns: f64, within: impl Fn(u64) -> u64) -> Buckets {
        let steps = ends().map(|end| (end as f64 / 1e9, within(end).min(count))).collect();
        Buckets { steps, count, sum: sum_ns / 1e9 }
    }

    /// Upper ends and how many are in each bucket alone, with the one that has no end.
    pub fn each(&self) -> Vec<(f64, u64)> {
        let ends = self.steps.iter().copied().chain([(f64::INFINITY, self.count)]);
        let mut below = 0;
        let alone = ends.map(|(end, within)| {
            let own = within.saturating_sub(below);
            below = below.max(within);
            (end, own)
        });
        alone.collect()
    }

    /// With others that have the same ends.
    pub fn add(&mut self, others: &Buckets) {
        for ((_, count), (_, more)) in self.steps.iter_mut().zip(&others.steps) {
            *count += more;
        }
        self.count += others.count;
        self.sum += others.sum;
    }

    /// Of nanoseconds.
    pub fn of_histogram(spans: &Histogram<u64>) -> Buckets {
        Buckets::of(spans.len(), spans.mean() * spans.len() as f64, |end| spans.count_between(0, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_within_its_end_and_all_after_it() {
        let mut spans = Histogram::new_with_bounds(1, 1 << 40, 2).expect("bounds");
        for ns in [1500, 7000, 7000, 5_000_000_000] {
            spans.record(ns).expect("it is within");
        }
        let buckets = Buckets::of_histogram(&spans);
        let within = |end: f64| buckets.steps.iter().find(|(at, _)| *at == end).map(|(_, count)| *count);
        assert_eq!(
            [within(1e-7), within(2e-6), within(1e-5), within(1.0)],
            [Some(0), Some(1), Some(3), Some(3)]
        );
        assert_eq!(buckets.count, 4);
        assert!((buckets.sum - 5.0).abs() < 0.1, "{}", buckets.sum);
    }
}
