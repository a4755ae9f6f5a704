//! Fits what is free on results, all constants and all results at once: what two papers share has one value, and no constant is fitted on a result of its own.
//!
//! * What may be fitted is known by class: constants that were fitted or chosen, within their ranges.
//! * Errors count as much as is usual for their size up to [`USUAL`], beyond that less than their square: one result that the model cannot do is not bought
//!   with all others. Ranges count where they do not hold, orders where they are wrong.
//! * The search goes along one constant at a time, by steps on a grid that halve; it is bounded, needs no derivative, and is the same in every run. What rows
//!   say with numbers moved is interpolated ([`super::response`]).
//!
//! Two fits: [`Fitting::again`] from where constants are, which stay where nothing is gained, so that after a second one, whose interpolation is nearer,
//! they stay; and that of [`super::validate`], which forgets where they are.

use super::published::{Claim, Place, Published, Results, Standing};
use super::response::{GRID, Parameter, Response, places};
use crate::platform::NumberPlace;
use crate::random::ln;

/// The error of a result that is usual.
pub const USUAL: f64 = 0.05;
/// Times that a search goes through all constants at most.
const ROUNDS: usize = 60;
/// A constant that has a value is given another if what is missed shrinks by so much: an error of 5 % that becomes one of 4.9 %.
const GAIN: f64 = 0.01;

/// The results that count.
pub fn counted(results: &Results) -> Vec<&Published> {
    let counts = |standing| matches!(standing, Standing::Calibration | Standing::Prediction);
    results.all.iter().filter(|result| counts(result.standing)).collect()
}

/// With so many significant digits.
pub fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().expect("it was printed as a number")
}

/// A claim, with rows by where they are among the places.
#[derive(Clone, Debug)]
enum Aim {
    /// The logarithms of both ends, if they have one; which rows, and over which.
    Within(Option<f64>, Option<f64>, Vec<usize>, Option<usize>),
    Rising(Vec<usize>),
}

impl Aim {
    fn of(claim: &Claim, places: &[&Place]) -> Aim {
        let at = |place: &Place| places.iter().position(|its| *its == place).expect("all places are there");
        let end = |value: f64| (value > 0.0).then(|| ln(value));
        match claim {
            Claim::Within { range, of, over } => {
                Aim::Within(end(range.0), end(range.1), of.iter().map(at).collect(), over.as_ref().map(at))
            }
            Claim::Rising(places) => Aim::Rising(places.iter().map(at).collect()),
        }
    }

    /// How far it is missed, in the logarithm, when what is said is off by so much.
    fn error(&self, off: f64, said: &[f64]) -> f64 {
        match self {
            Aim::Within(least, most, of, over) => {
                let over = over.map_or(0.0, |over| said[over]);
                let outside = |at: &usize| {
                    let value = said[*at] - over + off;
                    let below = least.map_or(0.0, |least| least - value);
                    below.max(most.map_or(0.0, |most| value - most)).max(0.0)
                };
                of.iter().map(outside).fold(0.0, f64::max)
            }
            Aim::Rising(places) => {
                places.windows(2).map(|pair| said[pair[0]] - said[pair[1]]).fold(0.0, f64::max)
            }
        }
    }

    /// The logarithm of what it is about, if that is one value.
    fn value(&self, said: &[f64]) -> Option<f64> {
        let Aim::Within(.., of, over) = self else { return None };
        let [of] = of[..] else { return None };
        Some(said[of] - over.map_or(0.0, |over| said[over])).filter(|value| value.is_finite())
    }
}

/// Constants, results, and how these answer to those.
#[derive(Debug)]
pub struct Fitting<'a> {
    /// Numbers that could be others.
    pub parameters: &'a [Parameter],
    /// What rows say with them.
    pub response: &'a Response,
    results: Vec<&'a Published>,
    aims: Vec<Aim>,
}

impl<'a> Fitting<'a> {
    /// Of those results that count.
    pub fn new(results: &'a Results, parameters: &'a [Parameter], response: &'a Response) -> Fitting<'a> {
        let (places, results) = (places(results), counted(results));
        let aim = |result: &&Published| {
            Aim::of(result.claim.as_ref().expect("what counts claims something"), &places)
        };
        let aims = results.iter().map(aim).collect();
        Fitting { parameters, response, results, aims }
    }

    /// Results that count.
    pub fn results(&self) -> &[&'a Published] {
        &self.results
    }

    /// The logarithm of what a result is about, if that is one value.
    pub(super) fn value(&self, result: usize, said: &[f64]) -> Option<f64> {
        self.aims[result].value(said)
    }

    /// Where the numbers are after a fit on all results from where they are.
    pub fn again(&self) -> Vec<i32> {
        let all: Vec<usize> = (0..self.results.len()).collect();
        let exact = vec![0.0; self.results.len()];
        self.search(self.response.now.clone(), GAIN, |said| self.cost(&all, &exact, said), |_, _| 0.0)
    }

    /// What is missed by these results, each off by so much, with rows as they are said.
    pub(super) fn cost(&self, used: &[usize], off: &[f64], said: &[f64]) -> f64 {
        let one = |at: &usize| {
            let error = self.aims[*at].error(off[*at], said) / USUAL;
            if error.is_finite() { (1.0 + error * error).sqrt() - 1.0 } else { 0.0 }
        };
        used.iter().map(one).sum()
    }

    /// From some positions to others with the least cost and what each adds to it, by steps that gain more than `gain`.
    pub(super) fn search(
        &self,
        mut positions: Vec<i32>,
        gain: f64,
        cost: impl Fn(&[f64]) -> f64,
        adds: impl Fn(usize, i32) -> f64,
    ) -> Vec<i32> {
        let free: Vec<usize> = (0..positions.len()).filter(|at| self.parameters[*at].is_free()).collect();
        let mut said = self.response.at(&positions);
        let mut missed = cost(&said);
        let mut step = GRID / 2;
        let mut rounds = 0;
        while step > 0 && rounds < ROUNDS {
            rounds += 1;
            let mut moved = false;
            for at in &free {
                for by in [step, -step] {
                    let position = (positions[*at] + by).clamp(-GRID, GRID);
                    let mut there = said.clone();
                    self.response.add(&mut there, (*at, positions[*at]), -1.0);
                    self.response.add(&mut there, (*at, position), 1.0);
                    let cost = cost(&there);
                    if cost + adds(*at, position) < missed + adds(*at, positions[*at]) - gain {
                        (missed, positions[*at], said, moved) = (cost, position, there, true);
                        break;
                    }
                }
            }
            step = if moved { step } else { step / 2 };
        }
        positions
    }

    /// The free constants at these positions, with their values.
    pub fn values(&self, positions: &[i32]) -> Vec<(NumberPlace, f64)> {
        let free = self.parameters.iter().zip(positions).filter(|(of, _)| of.is_free());
        free.map(|(of, position)| (of.place.clone(), of.value(*position))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;
    use crate::platform::Platforms;
    use crate::random::exp;
    use crate::system::System;

    /// Fits the toy's latency, which begins at so many nanoseconds, on what was published of it; the latency then.
    fn fitted(published: f64, begins_at: f64) -> f64 {
        let platforms = Platforms::shipped().with(toy::platform());
        let parameters = Parameter::all(&System::of_toys(), &platforms).expect("its file is right");
        let latency = parameters.iter().position(|of| of.is_free()).expect("there is one");
        let platforms =
            platforms.with_values([(&parameters[latency].place, begins_at)]).expect("it is there");
        let results = toy::RESULTS.replace("0.25", &published.to_string());
        let results = Results::parse(&results, "toy.toml").expect("it is right");
        let (parameters, response) = toy::answers(&platforms, &results, true);
        let fitting = Fitting::new(&results, &parameters, &response);
        let positions = fitting.again();
        // What is not free stays.
        assert!((0..3).all(|at| at == latency || positions[at] == response.now[at]));
        let said = exp(fitting.value(0, &response.at(&positions)).expect("a number"));
        assert!((said / published - 1.0).abs() < 0.02 || published > 0.4, "{said} of {published}");
        fitting.values(&positions)[0].1
    }

    #[test]
    fn a_constant_is_found_from_anywhere_and_then_stays() {
        // 250 ns are 100 ns of service and the constant.
        for begins_at in [50.0, 100.0, 200.0] {
            let first = fitted(0.25, begins_at);
            assert!((first - 150.0).abs() < 6.0, "{begins_at}: {first}");
            // Near by, what is interpolated is nearer as well.
            let second = fitted(0.25, first);
            assert!((second - 150.0).abs() < 3.0, "{begins_at}: {second}");
            assert_eq!(fitted(0.25, second), second);
        }
    }

    #[test]
    fn what_the_range_does_not_allow_ends_at_its_end() {
        assert_eq!(fitted(0.5, 100.0), 200.0);
    }
}
