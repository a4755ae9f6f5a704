//! Which points: a grid of all combinations, or a Latin hypercube, which has each axis in as many strata as there are points and uses every stratum once.
//!
//! Source: McKay, Beckman & Conover, "A comparison of three methods for selecting values of input variables" (1979).

use crate::experiment::fit::rounded;
use crate::random::power;
use base::Prng;

/// An axis, as its values or its ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// These.
    Listed(Vec<f64>),
    /// Between two.
    Range {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
        /// Equal ratios, not equal differences.
        logarithmic: bool,
        /// Only whole numbers.
        whole: bool,
    },
}

impl Values {
    /// The value at a share of the axis, 0 to below 1, or 1 for the end of a range.
    fn at(&self, share: f64) -> f64 {
        match self {
            Values::Listed(all) => all[((share * all.len() as f64) as usize).min(all.len() - 1)],
            Values::Range { least, most, logarithmic, whole } => {
                let value = match logarithmic {
                    true => least * power(most / least, share),
                    false => least + (most - least) * share,
                };
                // Six digits: readable.
                let value = if *whole { value.round() } else { rounded(value, 6) };
                value.clamp(*least, *most)
            }
        }
    }
}

/// Which points of the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Design {
    /// All combinations; the first axis changes slowest. Of a range so many steps, both ends among them.
    Grid {
        /// How many values of each axis.
        steps: Vec<u64>,
    },
    /// A point per stratum.
    LatinHypercube {
        /// How many.
        points: u64,
        /// Of each axis, the stratum of each point.
        strata: Vec<Vec<u32>>,
        /// Of the draws.
        seed: u64,
    },
}

impl Design {
    /// A Latin hypercube over so many axes.
    pub fn latin_hypercube(axes: usize, points: u32, seed: u64) -> Design {
        let strata = (0..axes).map(|axis| {
            let mut order: Vec<u32> = (0..points).collect();
            let mut prng = Prng::for_entity(seed, axis as u64, 0);
            for at in (1..order.len()).rev() {
                order.swap(at, prng.below(at as u64 + 1) as usize);
            }
            order
        });
        Design::LatinHypercube { points: u64::from(points), strata: strata.collect(), seed }
    }

    /// How many points; none if they are more than can be counted.
    pub fn points(&self) -> Option<u64> {
        match self {
            Design::Grid { steps } => steps.iter().try_fold(1u64, |all, steps| all.checked_mul(*steps)),
            Design::LatinHypercube { points, .. } => Some(*points),
        }
    }

    /// The values of a point, an axis each.
    pub fn point(&self, number: u64, axes: &[Values]) -> Vec<f64> {
        match self {
            Design::Grid { steps } => {
                let mut rest = number;
                let mut values: Vec<_> = axes
                    .iter()
                    .zip(steps)
                    .rev()
                    .map(|(axis, steps)| {
                        let step = rest % steps;
                        rest /= steps;
                        match axis {
                            Values::Listed(all) => all[step as usize],
                            range => range.at(step as f64 / (steps - 1).max(1) as f64),
                        }
                    })
                    .collect();
                values.reverse();
                values
            }
            Design::LatinHypercube { points, strata, seed } => {
                let within = |axis: usize| Prng::for_entity(*seed, axis as u64 | number << 16, 1).unit_f64();
                let share =
                    |axis: usize| (f64::from(strata[axis][number as usize]) + within(axis)) / *points as f64;
                axes.iter().enumerate().map(|(axis, values)| values.at(share(axis))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(least: f64, most: f64, logarithmic: bool) -> Values {
        Values::Range { least, most, logarithmic, whole: false }
    }

    #[test]
    fn a_grid_has_all_combinations_and_both_ends() {
        let axes = [Values::Listed(vec![3.0, 1.0]), range(1.0, 100.0, true)];
        let grid = Design::Grid { steps: vec![2, 3] };
        let points: Vec<_> = (0..6).map(|number| grid.point(number, &axes)).collect();
        let wanted = [[3.0, 1.0], [3.0, 10.0], [3.0, 100.0], [1.0, 1.0], [1.0, 10.0], [1.0, 100.0]];
        assert_eq!((grid.points(), points), (Some(6), wanted.map(Vec::from).to_vec()));
        assert_eq!(Design::Grid { steps: vec![u64::MAX, 2] }.points(), None);
    }

    proptest! {
        #[test]
        fn a_latin_hypercube_uses_every_stratum_of_every_axis_once(
            points in 1u32..200, axes in 1usize..6, seed: u64
        ) {
            let design = Design::latin_hypercube(axes, points, seed);
            let all = vec![range(0.0, 1.0, false); axes];
            for axis in 0..axes {
                let at = |number| design.point(number, &all)[axis] * f64::from(points);
                let mut values: Vec<_> = (0..u64::from(points)).map(at).collect();
                values.sort_by(f64::total_cmp);
                // Rounded to six digits, a value may touch the next stratum.
                let within = |(stratum, value): (usize, &f64)| (value - stratum as f64 - 0.5).abs() < 0.501;
                prop_assert!(values.iter().enumerate().all(within), "{:?}", values);
            }
        }

        #[test]
        fn values_stay_on_their_axis(share in 0.0f64..1.0, least in 0.1f64..10.0, more in 0.0f64..1e6) {
            for logarithmic in [false, true] {
                let value = range(least, least + more, logarithmic).at(share);
                prop_assert!((least..=least + more).contains(&value));
            }
        }
    }
}
