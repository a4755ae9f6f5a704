//! Two things measured in turns: the ratio of each pair of neighbours, its middle and its spread.
//!
//! Why pairs: a virtual machine's speed drifts from second to second; neighbours in time see the same machine, so
//! their ratio holds still where the figures themselves do not.

use base::spread::Spread;
use serde::Serialize;

/// A [`Spread`] as JSON has it.
#[derive(Serialize)]
#[serde(remote = "Spread")]
struct SpreadJson {
    median: f64,
    p10: f64,
    p90: f64,
    min: f64,
    max: f64,
    samples: usize,
}

/// One metric of two sides, and their ratio pair by pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The first side.
    #[serde(with = "SpreadJson")]
    pub a: Spread,
    /// The second side.
    #[serde(with = "SpreadJson")]
    pub b: Spread,
    /// First over second.
    #[serde(with = "SpreadJson")]
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
    fn pairs_without_a_divisor_are_left_out() {
        assert_eq!(Ratio::of(&[(Some(1.0), Some(0.0)), (None, Some(1.0))]), None);
    }
}
