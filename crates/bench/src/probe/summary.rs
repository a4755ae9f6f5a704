//! What many samples of one quantity come to: the median, the 10th and 90th percentile, and how many there were.
//!
//! Why the median and not the mean: on a shared machine a sample is either right or spoiled by something else (a stolen
//! time slice, another placement of the virtual cores), and the spoiled ones are far away.

/// Median, tenth and ninetieth percentile of `n` samples. The unit is the caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The sample in the middle.
    pub median: f64,
    /// A tenth of the samples are below.
    pub p10: f64,
    /// A tenth of the samples are above.
    pub p90: f64,
    /// Number of samples.
    pub n: u64,
}

impl Summary {
    /// Summarises `samples` in any order; `None` where there are none or one is not a number.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        if sorted.is_empty() || sorted.iter().any(|s| !s.is_finite()) {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Summary {
            median: quantile(&sorted, 0.5),
            p10: quantile(&sorted, 0.1),
            p90: quantile(&sorted, 0.9),
            n: sorted.len() as u64,
        })
    }

    /// The same samples in a unit `factor` times smaller.
    pub fn scaled(self, factor: f64) -> Summary {
        Summary { median: self.median * factor, p10: self.p10 * factor, p90: self.p90 * factor, n: self.n }
    }
}

/// The `q` quantile of `sorted` (not empty), linear between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_samples_give_known_figures() {
        let samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(Summary::of(&samples), Some(Summary { median: 50.0, p10: 10.0, p90: 90.0, n: 101 }));
        assert_eq!(Summary::of(&[7.0]), Some(Summary { median: 7.0, p10: 7.0, p90: 7.0, n: 1 }));
        assert_eq!(Summary::of(&[1.0, 2.0]).map(|s| s.median), Some(1.5));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn figures_are_ordered_and_inside_the_samples(samples in prop::collection::vec(-1e9..1e9f64, 1..200)) {
            let summary = Summary::of(&samples).expect("finite samples");
            let (low, high) = samples.iter().fold((f64::MAX, f64::MIN), |(l, h), &s| (l.min(s), h.max(s)));
            prop_assert!(low <= summary.p10 && summary.p10 <= summary.median);
            prop_assert!(summary.median <= summary.p90 && summary.p90 <= high);
        }
    }
}
