//! Two things measured in turns: the ratio of each pair of neighbours, its middle and its spread.
//!
//! Why pairs: a virtual machine's speed drifts from second to second; neighbours in time see the same machine, so
//! their ratio holds still where the figures themselves do not.

use serde::Serialize;

/// The middle and the spread of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
    /// The spread of `samples`, or `None` where there are none; samples that are no numbers are left out.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let at = |q: f64| quantile(&sorted, q);
        Some(Spread { median: at(0.5), p10: at(0.1), p90: at(0.9), min, max, samples: sorted.len() })
    }
}

/// The quantile `q` of sorted samples, between neighbours on a straight line.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (low, part) = (place as usize, place.fract());
    match sorted.get(low + 1) {
        Some(next) => sorted[low] + (next - sorted[low]) * part,
        None => sorted[low],
    }
}

/// One metric of two sides, and their ratio pair by pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The first side.
    pub a: Spread,
    /// The second side.
    pub b: Spread,
    /// First over second.
    pub ratio: Spread,
}

impl Ratio {
    /// From pairs of neighbours; pairs with a missing or zero divisor are left out.
    pub fn of(pairs: &[(Option<f64>, Option<f64>)]) -> Option<Ratio> {
        let whole: Vec<(f64, f64)> =
            pairs.iter().filter_map(|&(a, b)| Some((a?, b?))).filter(|&(_, b)| b != 0.0).collect();
        Some(Ratio {
            a: Spread::of(whole.iter().map(|p| p.0))?,
            b: Spread::of(whole.iter().map(|p| p.1))?,
            ratio: Spread::of(whole.iter().map(|p| p.0 / p.1))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_spread_is_ordered_and_the_median_has_half_on_each_side(
            samples in proptest::collection::vec(-1e9f64..1e9, 1..60)
        ) {
            let s = Spread::of(samples.clone()).expect("samples");
            prop_assert!(s.min <= s.p10 && s.p10 <= s.median && s.median <= s.p90 && s.p90 <= s.max);
            prop_assert!(samples.iter().filter(|&&x| x <= s.median + 1e-6).count() * 2 >= samples.len());
            prop_assert!(samples.iter().filter(|&&x| x >= s.median - 1e-6).count() * 2 >= samples.len());
        }

        #[test]
        fn drift_that_both_sides_share_cancels(
            drift in proptest::collection::vec(0.2f64..5.0, 1..40), true_ratio in 0.1f64..10.0
        ) {
            let pairs: Vec<_> = drift.iter().map(|d| (Some(d * true_ratio), Some(*d))).collect();
            let ratio = Ratio::of(&pairs).expect("pairs").ratio;
            prop_assert!((ratio.min / true_ratio - 1.0).abs() < 1e-9);
            prop_assert!((ratio.max / true_ratio - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn known_values() {
        let s = Spread::of([3.0, 1.0, 2.0, f64::NAN]).expect("samples");
        assert_eq!((s.min, s.median, s.max, s.samples), (1.0, 2.0, 3.0, 3));
        assert_eq!(Spread::of([1.0, 2.0]).map(|s| s.median), Some(1.5));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Ratio::of(&[(Some(1.0), Some(0.0)), (None, Some(1.0))]), None);
    }
}
