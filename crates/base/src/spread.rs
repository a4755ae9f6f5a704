//! What many samples of one quantity come to: the median, the 10th and 90th percentile, the ends, and how many there were.
//!
//! Why the median and not the mean: on a shared machine a sample is either right or spoiled by something else (a stolen time slice, another
//! placement of the virtual cores), and the spoiled ones are far away.
//!
//! Cost: sorts; for figures, not for hot paths.

use std::fmt;

/// See the file's head. The unit is the caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// A tenth of the samples are at most this.
    pub p10: f64,
    /// A tenth of the samples are at least this.
    pub p90: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many samples there are.
    pub samples: usize,
}

impl Spread {
    /// Of `samples` in any order, or `None` where there are none; samples that are no numbers are left out.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let sorted = sorted(samples);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let at = |q| quantile(&sorted, q);
        Some(Spread { median: at(0.5), p10: at(0.1), p90: at(0.9), min, max, samples: sorted.len() })
    }

    /// As [`Spread::of`], but `None` as well where one of them is no number: where each was taken with care, that spoils all.
    pub fn of_all(samples: &[f64]) -> Option<Spread> {
        samples.iter().all(|sample| sample.is_finite()).then(|| Spread::of(samples.iter().copied())).flatten()
    }
}

/// `median [p10..p90]` with as many digits after the point as the precision asks for, or two.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let text = format!("{:.digits$} [{:.digits$}..{:.digits$}]", self.median, self.p10, self.p90);
        // Not `pad`, which would cut the text at the precision.
        let width = f.width().unwrap_or(0);
        write!(f, "{text:>width$}")
    }
}

/// The numbers among `samples`, from the least to the greatest.
pub fn sorted(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The quantile `q` of sorted samples (at least one), on a straight line between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// The median, or no number where there are no samples.
pub fn median(samples: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(samples).map_or(f64::NAN, |spread| spread.median)
}

/// A [`Spread`] as text with so many digits after the point; empty where there are no samples.
pub fn text(samples: impl IntoIterator<Item = f64>, digits: usize) -> String {
    Spread::of(samples).map_or_else(String::new, |spread| format!("{spread:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_spread_is_ordered_and_the_median_has_half_on_each_side(
            samples in proptest::collection::vec(-1e9f64..1e9, 1..200)
        ) {
            let s = Spread::of(samples.clone()).expect("samples");
            prop_assert!(s.min <= s.p10 && s.p10 <= s.median && s.median <= s.p90 && s.p90 <= s.max);
            prop_assert!(samples.iter().filter(|&&x| x <= s.median + 1e-6).count() * 2 >= samples.len());
            prop_assert!(samples.iter().filter(|&&x| x >= s.median - 1e-6).count() * 2 >= samples.len());
        }
    }

    #[test]
    fn known_samples_give_known_figures() {
        let s = Spread::of((0..=100).rev().map(f64::from)).expect("samples");
        assert_eq!((s.median, s.p10, s.p90, s.min, s.max, s.samples), (50.0, 10.0, 90.0, 0.0, 100.0, 101));
        let s = Spread::of([3.0, 1.0, 2.0, f64::NAN]).expect("samples");
        assert_eq!((s.min, s.median, s.max, s.samples), (1.0, 2.0, 3.0, 3));
        assert_eq!(Spread::of([7.0]).map(|s| (s.p10, s.median, s.p90)), Some((7.0, 7.0, 7.0)));
        assert_eq!(median([1.0, 2.0]), 1.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of_all(&[1.0, f64::NAN]), None);
        assert_eq!(Spread::of_all(&[2.0]).map(|s| s.samples), Some(1));
        assert!(median([]).is_nan());
    }

    #[test]
    fn text_has_the_digits_and_the_width_that_are_asked_for() {
        let s = Spread::of([1.0, 2.0, 3.0]).expect("samples");
        assert_eq!(s.to_string(), "2.00 [1.20..2.80]");
        assert_eq!(format!("{s:>20.1}"), "      2.0 [1.2..2.8]");
        assert_eq!(text([2.0], 0), "2 [2..2]");
        assert_eq!(text([], 1), "");
    }
}
