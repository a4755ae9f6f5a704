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

    /// What came since `before` was; all of it where the count went back, since it began anew then.
    #[must_use]
    pub fn since(&self, before: &Buckets) -> Buckets {
        if self.count < before.count || self.steps.len() != before.steps.len() {
            return self.clone();
        }
        let steps = self.steps.iter().zip(&before.steps);
        let steps = steps.map(|((end, count), (_, less))| (*end, count.saturating_sub(*less))).collect();
        Buckets { steps, count: self.count - before.count, sum: (self.sum - before.sum).max(0.0) }
    }

    /// The span that a share `q` was no longer than, between the ends of its bucket in proportion; beyond the last end that. None of nothing.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = q * self.count as f64;
        let (mut low, mut below) = (0.0, 0);
        for &(end, within) in &self.steps {
            if within as f64 >= rank {
                let share = (rank - below as f64) / (within.saturating_sub(below).max(1)) as f64;
                return Some(low + (end - low) * share);
            }
            (low, below) = (end, within);
        }
        Some(low)
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
    fn quantiles_are_of_what_came_between_two_moments() {
        let before = Buckets { steps: vec![(0.1, 50), (0.2, 50), (1.0, 50)], count: 50, sum: 1.0 };
        let now = Buckets { steps: vec![(0.1, 50), (0.2, 140), (1.0, 149)], count: 150, sum: 30.0 };
        let grown = now.since(&before);
        assert_eq!((grown.count, &grown.steps[..]), (100, &[(0.1, 0), (0.2, 90), (1.0, 99)][..]));
        let near = |q: f64, wanted: f64| {
            let found = grown.quantile(q).expect("there are some");
            assert!((found - wanted).abs() < 1e-9, "{q}: {found}");
        };
        near(0.45, 0.15);
        near(0.9, 0.2);
        near(0.99, 1.0);
        near(1.0, 1.0);
        assert_eq!(now.since(&now).quantile(0.5), None, "nothing came");
        assert_eq!(before.since(&now), before, "it began anew");
    }

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
