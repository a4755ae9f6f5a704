//! What the sides of a group do: each workload under each load, in turns.

use super::side::{Load, Side, Slice};
use super::tally::{Ended, Tally};
use super::workload::Workload;
use crate::contest::{self, Contest, Order, Sample, Sides, Turn};
use crate::tally::{CurvePoint, Latency, curve};
use indicatif::ProgressBar;
use serde::Serialize;
use serve::process::progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Before a slice: what the last one left is through.
const WARM_UP: Duration = Duration::from_millis(30);

/// What a side did under one load in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
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
    pub samples: Vec<Sample<Figures>>,
    /// Of all rounds together.
    pub latency: Latency,
    /// Their distribution.
    pub curve: Vec<CurvePoint>,
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
        let (shape, order) = ((sides.len(), self.cells.len()), Order::BackAndForth);
        let mut contest = Contest::new(shape, (self.rounds, order), self.stop, self.bar);
        contest.cores = self.cores;
        let totals = vec![vec![Tally::default(); sides.len()]; self.cells.len()];
        let mut group = Group { rounds: self, sides, totals };
        let mut measured = contest.run(&mut group)?;
        let mut lines = Vec::new();
        for (cell, totals) in group.totals.iter().enumerate() {
            for (side, total) in totals.iter().enumerate() {
                let samples = measured.take(cell, side);
                if !samples.is_empty() {
                    lines.push(self.line(&*group.sides[side], self.cells[cell], samples, total));
                }
            }
        }
        Ok(lines)
    }

    fn preload(&self, sides: &mut [Box<dyn Side>]) -> Result<(), String> {
        for side in sides {
            for &(workload, _) in self.cells {
                if side.can(workload) && !self.stop.load(Ordering::Relaxed) {
                    progress::show(self.bar.0, self.bar.1, &format!("preload {}", side.name()));
                    side.preload(workload).map_err(|why| format!("{}: {why}", side.name()))?;
                }
            }
        }
        Ok(())
    }

    fn line(
        &self,
        side: &dyn Side,
        (workload, load): (Workload, Load),
        samples: Vec<Sample<Figures>>,
        total: &Tally,
    ) -> Line {
        let latencies = total.all_latencies();
        Line {
            group: self.group.clone(),
            workload,
            load,
            side: side.name(),
            promise: side.promise(),
            samples,
            latency: Latency::of(&latencies),
            curve: curve(&latencies),
            per_second: total.throughput(),
            aborted: total.count(Ended::Aborted),
            retried: total.counts.retried,
        }
    }
}

/// The sides of a group, and what each did under each load so far.
struct Group<'r> {
    rounds: &'r Rounds<'r>,
    sides: &'r mut [Box<dyn Side>],
    totals: Vec<Vec<Tally>>,
}

impl Group<'_> {
    fn work(&mut self, turn: Turn, length: Duration, seed: u64) -> Result<Tally, String> {
        let (workload, load) = self.rounds.cells[turn.cell];
        let side = &mut self.sides[turn.side];
        side.run(Slice { workload, load, length, seed })
            .map_err(|why| format!("{} on {}, {workload}, {load}: {why}", side.name(), self.rounds.group))
    }

    fn seed(&self, turn: Turn) -> u64 {
        self.rounds.seed.wrapping_mul(1_000_003).wrapping_add(turn.round.into())
    }
}

impl Sides for Group<'_> {
    type Figures = Figures;
    type Error = String;

    fn name(&self, turn: Turn) -> String {
        format!("{}, {}", self.rounds.group, self.rounds.cells[turn.cell].0)
    }

    fn can(&self, turn: Turn) -> bool {
        self.sides[turn.side].can(self.rounds.cells[turn.cell].0)
    }

    fn warm_up(&mut self, turn: Turn) -> Result<(), String> {
        self.work(turn, WARM_UP, self.seed(turn) ^ (1 << 63)).map(drop)
    }

    fn slice(&mut self, turn: Turn) -> Result<contest::Slice<Figures>, String> {
        let tally = self.work(turn, self.rounds.slice, self.seed(turn))?;
        self.totals[turn.cell][turn.side].follow(&tally);
        Ok(contest::Slice::Measured(Figures {
            per_second: tally.throughput(),
            latency: Latency::of(&tally.all_latencies()),
        }))
    }
}
