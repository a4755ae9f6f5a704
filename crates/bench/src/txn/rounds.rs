//! Short slices in turns: in every round each workload under each load on every side, forwards in one round and backwards in the next, so that what drifts
//! meets all sides, and neighbours in time are compared.

use super::side::{Load, Side, Slice};
use super::tally::Tally;
use super::workload::Workload;
use crate::load::summary::Latency;
use indicatif::ProgressBar;
use ring::probe;
use serde::Serialize;
use serve::process::progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For the probe of the machine.
const PROBE: Duration = Duration::from_millis(2);
/// Before a slice: what the last one left is through.
const WARM_UP: Duration = Duration::from_millis(30);

/// One side under one load in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Which round.
    pub round: u32,
    /// What the two cores shared before the slice and after it.
    pub distances: [Option<String>; 2],
    /// Transactions in a second.
    pub per_second: f64,
    /// Their latencies.
    pub latency: Latency,
}

/// One side under one load, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The chain that it was measured on, or beside.
    pub group: String,
    /// What was done.
    pub workload: Workload,
    /// How much at once.
    pub load: Load,
    /// Who did it.
    pub side: String,
    /// What an acknowledged transaction of it survives.
    pub promise: String,
    /// Round by round.
    pub samples: Vec<Sample>,
    /// Of all rounds together.
    pub latency: Latency,
    /// Points of the latencies' distribution: quantile, microseconds.
    pub curve: Vec<(f64, f64)>,
    /// Transactions in a second, of all rounds together.
    pub per_second: f64,
    /// Transactions whose conditions did not hold.
    pub aborted: u64,
    /// Reconnaissances in vain, and locks that were taken.
    pub retried: u64,
}

/// What is done with the sides of a group.
pub struct Rounds<'a> {
    /// What the group is called.
    pub group: String,
    /// What is done.
    pub cells: &'a [(Workload, Load)],
    /// How often.
    pub rounds: u32,
    /// How long each time.
    pub slice: Duration,
    /// Of the random numbers.
    pub seed: u64,
    /// Becomes true when it is to end.
    pub stop: &'a AtomicBool,
    /// Where the program is and where the other core is, if there is one.
    pub cores: Option<[usize; 2]>,
    /// Moves from .0 to .1 of its length.
    pub bar: (&'a ProgressBar, f64, f64),
}

impl Rounds<'_> {
    /// Preloads and measures.
    ///
    /// # Errors
    /// The first that goes wrong at any side.
    pub fn run(&self, sides: &mut [Box<dyn Side>]) -> Result<Vec<Line>, String> {
        self.preload(sides)?;
        let mut tallies: Vec<Vec<(Vec<Sample>, Tally)>> =
            sides.iter().map(|_| vec![(Vec::new(), Tally::default()); self.cells.len()]).collect();
        'rounds: for round in 0..self.rounds {
            for (cell, &(workload, load)) in self.cells.iter().enumerate() {
                let done = f64::from(round) + cell as f64 / self.cells.len() as f64;
                self.show(done / f64::from(self.rounds), &format!("{}, {workload}", self.group));
                let count = sides.len();
                for turn in 0..count {
                    let at = if round % 2 == 0 { turn } else { count - 1 - turn };
                    if !sides[at].can(workload) {
                        continue;
                    }
                    if self.stop.load(Ordering::Relaxed) {
                        break 'rounds;
                    }
                    let (sample, tally) = self.slice(round, &mut *sides[at], workload, load)?;
                    let (samples, total) = &mut tallies[at][cell];
                    samples.push(sample);
                    *total = std::mem::take(total).followed_by(&tally);
                }
            }
        }
        let mut lines = Vec::new();
        for (cell, &(workload, load)) in self.cells.iter().enumerate() {
            for (side, tallies) in sides.iter().zip(&mut tallies) {
                let (samples, total) = std::mem::take(&mut tallies[cell]);
                if !samples.is_empty() {
                    lines.push(self.line(&**side, (workload, load), samples, &total));
                }
            }
        }
        Ok(lines)
    }

    fn preload(&self, sides: &mut [Box<dyn Side>]) -> Result<(), String> {
        for side in sides {
            for &(workload, _) in self.cells {
                if side.can(workload) && !self.stop.load(Ordering::Relaxed) {
                    self.show(0.0, &format!("preload {}", side.name()));
                    side.preload(workload).map_err(|why| format!("{}: {why}", side.name()))?;
                }
            }
        }
        Ok(())
    }

    fn slice(
        &self,
        round: u32,
        side: &mut dyn Side,
        workload: Workload,
        load: Load,
    ) -> Result<(Sample, Tally), String> {
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(round.into());
        let slice = |length, seed| Slice { workload, load, length, seed };
        let name = side.name();
        let failed = |why| format!("{name} on {}, {workload}, {load}: {why}", self.group);
        side.run(slice(WARM_UP, seed ^ (1 << 63))).map_err(failed)?;
        let before = self.distance();
        let tally = side.run(slice(self.slice, seed)).map_err(failed)?;
        let distances = [before, self.distance()];
        let sample = Sample { round, distances, per_second: tally.per_second(), latency: tally.latency() };
        Ok((sample, tally))
    }

    fn distance(&self) -> Option<String> {
        Some(probe::ping_pong(self.cores?, PROBE)?.distance().to_string())
    }

    fn show(&self, part: f64, what: &str) {
        let (bar, from, to) = self.bar;
        progress::show(bar, from + part * (to - from), what);
    }

    fn line(
        &self,
        side: &dyn Side,
        (workload, load): (Workload, Load),
        samples: Vec<Sample>,
        total: &Tally,
    ) -> Line {
        Line {
            group: self.group.clone(),
            workload,
            load,
            side: side.name(),
            promise: side.promise(),
            samples,
            latency: total.latency(),
            curve: curve(total),
            per_second: total.per_second(),
            aborted: total.aborted,
            retried: total.retried,
        }
    }
}

/// Points at equal distances in "nines", as far as there are samples for them.
fn curve(tally: &Tally) -> Vec<(f64, f64)> {
    let nines = (tally.latencies.len().max(1) as f64).log10().min(5.0);
    let quantile = |step: u32| 1.0 - 10f64.powf(-f64::from(step) / 10.0);
    let point = |step| (quantile(step), tally.latencies.value_at_quantile(quantile(step)) as f64 / 1e3);
    (0..=(nines * 10.0) as u32).map(point).collect()
}
