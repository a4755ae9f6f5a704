//! How the rows that results name answer to the numbers of platforms: each number is moved to a few places of its range, one at a time, and what that does is
//! remembered as a curve. Between the places it is interpolated, and what several numbers do is added (in the logarithm of a row).
//!
//! This makes fits and intervals cheap, where an experiment takes seconds; what is said in the end is run ([`Based::at`]). Runs are independent, and
//! whoever asks may run them on threads: [`Based::run`] each experiment, [`jobs`] says the moves, [`Response::of`] puts together. Simulations that a number
//! does not touch are taken from the first run, and spans are divided ([`crate::rerun`]).

use super::published::{Claim, Place, Results, Standing};
use super::rank;
use super::{Experiment, Rows};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Number, NumberPlace, Platforms};
use crate::random::{exp, ln};
use crate::rerun::{self, Recording};
use crate::system::System;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Positions on each side of the middle of a range: −`GRID` is its lower end.
pub const GRID: i32 = 64;
/// A range whose upper end is so many times the lower one is divided in the logarithm.
const WIDE: f64 = 3.0;

/// A number that could be another.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Where it is stated.
    pub place: NumberPlace,
    /// As it is.
    pub number: Number,
}

impl Parameter {
    /// Those of a system: all numbers of its platforms whose range has a width.
    ///
    /// # Errors
    /// A file is wrong.
    pub fn all(system: &System, platforms: &Platforms) -> Result<Vec<Parameter>, LoadError> {
        let mut all = Vec::new();
        for place in rank::numbers(system, platforms)?.into_keys() {
            let number = platforms.number(&place)?;
            if number.range.0 < number.range.1 {
                all.push(Parameter { place, number });
            }
        }
        Ok(all)
    }

    /// Whether results have something to do with its value, so that a fit may give it another.
    pub fn is_free(&self) -> bool {
        self.number.class.is_free()
    }

    fn is_wide(&self) -> bool {
        self.number.range.0 > 0.0 && self.number.range.1 / self.number.range.0 >= WIDE
    }

    /// The value at a position, as a file would say it.
    pub fn value(&self, position: i32) -> f64 {
        let (least, most) = self.number.range;
        let share = f64::from(position + GRID) / f64::from(2 * GRID);
        let value = match self.is_wide() {
            true => least * exp(share * ln(most / least)),
            false => least + share * (most - least),
        };
        let value = if self.number.unit.dimension == Dimension::Count {
            value.round()
        } else {
            super::fit::rounded(value, 6)
        };
        value.clamp(least, most)
    }

    /// The position that is nearest to its value.
    pub fn position(&self) -> i32 {
        let (least, most) = self.number.range;
        let share = match self.is_wide() {
            true => ln(self.number.value / least) / ln(most / least),
            false => (self.number.value - least) / (most - least),
        };
        (share * f64::from(2 * GRID)).round() as i32 - GRID
    }

    /// Where it is tried: at both ends, and if a fit may move it half-way to them.
    fn knots(&self) -> Vec<i32> {
        let now = self.position();
        let mut knots = vec![-GRID, GRID];
        if self.is_free() {
            knots.extend([(now - GRID) / 2, i32::midpoint(now, GRID)]);
        }
        knots.retain(|knot| *knot != now);
        knots.sort_unstable();
        knots.dedup();
        knots
    }
}

/// An experiment as it is, with what its simulations gave.
#[derive(Clone, Debug)]
pub struct Based {
    experiment: Experiment,
    seed: u64,
    /// What it said.
    pub rows: Rows,
    recording: Arc<Recording>,
    read: BTreeSet<NumberPlace>,
}

impl Based {
    /// Runs it; with spans that are shorter, by no more than `most` times, if it has more than so many events.
    ///
    /// # Errors
    /// The experiment's.
    pub fn run(
        experiment: Experiment,
        platforms: &Platforms,
        seed: u64,
        (events, most): (u64, u64),
    ) -> Result<Based, LoadError> {
        // What others have read of these platforms is not the experiment's.
        let platforms = &platforms.with_values([])?;
        let (mut rows, mut recording) = rerun::record(1, || (experiment.run)(platforms, seed));
        let divisor = recording.events().div_ceil(events.max(1)).min(most);
        if divisor > 1 {
            (rows, recording) = rerun::record(divisor, || (experiment.run)(platforms, seed));
        }
        let mut read = BTreeSet::new();
        for platform in platforms.taken() {
            let names = platform.were_read();
            let of = platform.numbers().filter(|(name, _)| names.iter().any(|read| read == name));
            read.extend(of.map(|(_, number)| number.origin.clone()));
        }
        Ok(Based { experiment, seed, rows: rows?, recording: Arc::new(recording), read })
    }

    /// Its id.
    pub fn id(&self) -> &'static str {
        self.experiment.id
    }

    /// Of these values those that it reads: all that decides what it says.
    pub fn reads(&self, values: &[(NumberPlace, f64)]) -> Vec<(NumberPlace, f64)> {
        values.iter().filter(|(place, _)| self.read.contains(place)).cloned().collect()
    }

    /// What it says with these values.
    ///
    /// # Errors
    /// The experiment's.
    pub fn at(&self, platforms: &Platforms, values: &[(NumberPlace, f64)]) -> Result<Rows, LoadError> {
        let changed = platforms.with_values(values.iter().map(|(place, value)| (place, *value)))?;
        rerun::reuse(&self.recording, || (self.experiment.run)(&changed, self.seed))
    }
}

/// A run with one number moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which experiment.
    pub of: usize,
    /// Which number.
    pub parameter: usize,
    /// To where.
    pub position: i32,
}

/// The runs that a [`Response`] needs; without those numbers that are not free if `free_only`.
pub fn jobs(based: &[Based], parameters: &[Parameter], free_only: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (of, experiment) in based.iter().enumerate() {
        for (parameter, its) in parameters.iter().enumerate() {
            if experiment.read.contains(&its.place) && (its.is_free() || !free_only) {
                jobs.extend(its.knots().into_iter().map(|position| Job { of, parameter, position }));
            }
        }
    }
    jobs
}

/// Places that results name: of those that count.
pub fn places(results: &Results) -> Vec<&Place> {
    let counts = |standing| matches!(standing, Standing::Calibration | Standing::Prediction);
    let mut all = Vec::new();
    for result in results.all.iter().filter(|result| counts(result.standing)) {
        match &result.claim {
            Some(Claim::Within { of, over, .. }) => all.extend(of.iter().chain(over)),
            Some(Claim::Rising(places)) => all.extend(places),
            None => {}
        }
    }
    all.sort_by_key(|place| (&place.experiment, &place.variant, &place.point, &place.metric));
    all.dedup();
    all
}

/// The logarithms of rows at these places; no number where there is none.
pub fn logarithms(places: &[&Place], rows: &Rows) -> Vec<f64> {
    let of = |place: &&Place| {
        let row = rows.find(&place.experiment, &place.variant, &place.point, &place.metric);
        row.filter(|row| row.value.is_normal() && row.value > 0.0).map_or(f64::NAN, |row| ln(row.value))
    };
    places.iter().map(of).collect()
}

/// What a number does to the logarithm of each row, by position.
type Curve = Vec<(i32, Vec<f64>)>;

/// How rows answer to numbers.
#[derive(Clone, Debug)]
pub struct Response {
    /// The numbers as they are.
    pub now: Vec<i32>,
    base: Vec<f64>,
    curves: Vec<Curve>,
}

impl Response {
    /// Of rows as they are, and with each number moved.
    pub fn of(parameters: &[Parameter], base: Vec<f64>, moved: &[(Job, Vec<f64>)]) -> Response {
        let now: Vec<i32> = parameters.iter().map(Parameter::position).collect();
        let mut curves: Vec<Curve> = now.iter().map(|at| vec![(*at, vec![0.0; base.len()])]).collect();
        for (job, rows) in moved {
            let curve = &mut curves[job.parameter];
            let at = curve.iter().position(|(position, _)| *position == job.position).unwrap_or_else(|| {
                curve.push((job.position, vec![0.0; base.len()]));
                curve.len() - 1
            });
            for ((change, row), before) in curve[at].1.iter_mut().zip(rows).zip(&base) {
                let by = row - before;
                *change += if by.is_finite() { by } else { 0.0 };
            }
        }
        curves.iter_mut().for_each(|curve| curve.sort_by_key(|(position, _)| *position));
        Response { now, base, curves }
    }

    /// Rows' logarithms with the numbers there.
    pub fn at(&self, positions: &[i32]) -> Vec<f64> {
        let mut rows = self.base.clone();
        for (parameter, position) in positions.iter().enumerate() {
            self.add(&mut rows, (parameter, *position), 1.0);
        }
        rows
    }

    /// Adds what a number does at a position, so many times.
    pub fn add(&self, rows: &mut [f64], (parameter, position): (usize, i32), times: f64) {
        let curve = &self.curves[parameter];
        if curve.len() < 2 {
            return;
        }
        let above = curve.iter().position(|(at, _)| *at >= position).unwrap_or(curve.len() - 1).max(1);
        let ((left, low), (right, high)) = (&curve[above - 1], &curve[above]);
        let share = f64::from(position - left) / f64::from(right - left);
        for ((row, low), high) in rows.iter_mut().zip(low).zip(high) {
            *row += times * (low + share * (high - low));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;

    const TOYS: System = System::of_toys();

    #[test]
    fn what_was_run_comes_out_again_and_between_it_is_interpolated() {
        let platforms = Platforms::shipped().with(toy::platform());
        let parameters = Parameter::all(&TOYS, &platforms).expect("its file is right");
        let names: Vec<_> = parameters.iter().map(|of| of.place.number.as_str()).collect();
        assert_eq!(names, ["nic.latency", "nic.rate", "nic.units"]);
        // 50 to 200 ns in the logarithm: 100 is the middle.
        assert_eq!(
            (parameters[0].position(), parameters[0].value(GRID), parameters[2].value(0)),
            (0, 200.0, 3.0)
        );
        let based = [Based::run(toy::EXPERIMENT, &platforms, 1, (1000, 1)).expect("it is complete")];
        let results = Results::parse(toy::RESULTS, "toy.toml").expect("it is right");
        let places = places(&results);
        let run = |job: &Job| {
            let parameter = &parameters[job.parameter];
            let rows = based[0].at(&platforms, &[(parameter.place.clone(), parameter.value(job.position))]);
            (*job, logarithms(&places, &rows.expect("it is complete")))
        };
        // Nobody reads the units; the rate is not free.
        assert_eq!(jobs(&based, &parameters, true).len(), 4);
        let moved: Vec<_> = jobs(&based, &parameters, false).iter().map(run).collect();
        assert_eq!(moved.len(), 6);
        let response = Response::of(&parameters, logarithms(&places, &based[0].rows), &moved);
        // 100 ns of service beside the latency, and 200 of both as it is.
        let near = |positions: [i32; 3], wanted: f64, by: f64| {
            let said = exp(response.at(&positions)[0]);
            assert!((said / wanted - 1.0).abs() < by, "{positions:?}: {said}");
        };
        near([0, response.now[1], 0], 0.2, 1e-9);
        near([GRID, response.now[1], 0], 0.3, 1e-9);
        near([GRID, -GRID, 0], 0.45, 1e-9);
        near([GRID / 4, response.now[1], 0], 0.1 + 0.1 * 2f64.powf(0.25), 0.02);
    }
}
