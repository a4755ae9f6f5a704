//! Experiments: an evaluation setup of a published system, run on the model; what it says, beside what was published.
//!
//! An experiment reports everything that its setup measures as [`Row`]s; [`published`] results are held against them afterwards, so that a
//! result that nobody listed can be looked up later. Nothing in an experiment knows the published values.

pub mod audit;
pub mod compare;
pub mod file;
pub mod fit;
pub mod published;
pub mod rank;
pub mod response;
#[cfg(test)]
pub(crate) mod toy;
pub mod validate;

use crate::platform::{LoadError, Platforms};
use std::fmt;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of which setup: the id of the system's review, `F1`, `D-E3`, …
    pub experiment: &'static str,
    /// Which of the things that are compared: a path, a mode, a system.
    pub variant: String,
    /// Where on its axes: `READ 64 B`, `8 clients`; empty where there is one.
    pub point: String,
    /// What was measured: `throughput`, `latency`, `p99`, …
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The mean over replications.
    pub value: f64,
    /// Half of the 95 % confidence interval; 0 where nothing is random.
    pub ci95: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { experiment, variant, point, metric, unit, value, .. } = self;
        write!(f, "{experiment} · {variant} · {point} · {metric}: {value} {unit}")
    }
}

/// What an experiment said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Adds a value that is not random.
    pub fn add(
        &mut self,
        at: (&'static str, &str, &str),
        metric: &'static str,
        unit: &'static str,
        value: f64,
    ) {
        self.add_random(at, metric, unit, (value, 0.0));
    }

    /// Adds a mean and half its confidence interval.
    pub fn add_random(
        &mut self,
        (experiment, variant, point): (&'static str, &str, &str),
        metric: &'static str,
        unit: &'static str,
        (value, ci95): (f64, f64),
    ) {
        self.0.push(Row {
            experiment,
            variant: variant.into(),
            point: point.into(),
            metric,
            unit,
            value,
            ci95,
        });
    }

    /// All, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// The value at a place.
    pub fn find(&self, experiment: &str, variant: &str, point: &str, metric: &str) -> Option<&Row> {
        let at = |row: &&Row| {
            row.experiment == experiment
                && row.variant == variant
                && row.point == point
                && row.metric == metric
        };
        self.0.iter().find(at)
    }

    /// Takes over what another said.
    pub fn append(&mut self, mut other: Rows) {
        self.0.append(&mut other.0);
    }
}

/// What runs a setup on machines of a set, with a seed: a function of a system's module, or what a file says.
pub type Run = dyn Fn(&Platforms, u64) -> Result<Rows, LoadError> + Send + Sync;

/// A setup that can be run.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The id of the system's review.
    pub id: &'static str,
    /// In a line.
    pub title: &'static str,
    /// Runs it on machines of this set, with a seed.
    pub run: &'static Run,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("id", &self.id).finish_non_exhaustive()
    }
}
