//! Two things measured in turns: the ratio of each pair of neighbours, its middle and its spread.
//!
//! Why pairs: a virtual machine's speed drifts from second to second; neighbours in time see the same machine, so
//! their ratio holds still where the figures themselves do not.

use base::spread::Spread;
use serde::{Serialize, Serializer};

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

/// As JSON has it where it may be absent.
///
/// # Errors
/// The serializer's.
pub fn maybe<S: Serializer>(spread: &Option<Spread>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct One(#[serde(with = "SpreadJson")] Spread);
    spread.map(One).serialize(serializer)
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

    /// From figures of the same rounds; rounds that only one side has are left out.
    pub fn by_round(
        a: impl IntoIterator<Item = (u32, Option<f64>)>,
        b: impl IntoIterator<Item = (u32, Option<f64>)>,
    ) -> Option<Ratio> {
        let b: Vec<_> = b.into_iter().collect();
        let pair = |(round, a)| Some((a, b.iter().find(|(other, _)| *other == round)?.1));
        Ratio::of(&a.into_iter().filter_map(pair).collect::<Vec<_>>())
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

    #[test]
    fn only_what_is_of_the_same_round_is_divided() {
        let a = [(0, Some(2.0)), (1, Some(9.0)), (2, Some(6.0)), (3, None)];
        let ratio =
            Ratio::by_round(a, [(2, Some(2.0)), (0, Some(1.0)), (3, Some(1.0))]).expect("two rounds").ratio;
        assert_eq!((ratio.min, ratio.max, ratio.samples), (2.0, 3.0, 2));
    }
}
