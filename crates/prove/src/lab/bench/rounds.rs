//! Slices in turns: every mode under every load in each round, the modes forwards in one round and backwards in the next, so that what drifts meets all.

use super::Bench;
use super::cpu::Ticks;
use super::mode::{Mode, Running};
use crate::lab::LabError;
use base::Nanos;
use bench::load::fleet::Fleet;
use bench::load::mix::OpKind;
use bench::load::server::{CpuUse, ServerProcess};
use bench::load::summary::{Latency, Summary};
use bench::load::tally::Tally;
use bench::load::workload::{Job, Pace, Phase, Workload};
use indicatif::ProgressBar;
use ring::probe;
use serde::Serialize;
use serve::process::progress;
use std::time::Duration;

/// Before the loads of a turn: connections, copies and caches of all kinds.
const WARM_UP: Nanos = Nanos::from_millis(150);

/// One mode under one load in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// Which round.
    pub round: u32,
    /// What the cores shared before it.
    pub distance: String,
    /// Of all operations.
    pub ops_per_sec: f64,
    /// Of gets.
    pub gets: Latency,
    /// Of gets that a box answered.
    pub hits: Option<Latency>,
    /// Processor time of the process with the items, for each operation.
    pub server_us: f64,
    /// Of the box.
    pub box_us: f64,
    /// Operations for a second of processor time of both.
    pub ops_per_cpu_sec: f64,
}

/// One mode under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which mode.
    pub mode: Mode,
    /// When operations start.
    pub pace: Pace,
    /// The most under way.
    pub window: usize,
    /// One per round.
    pub slices: Vec<Slice>,
    /// All rounds as one.
    pub total: Summary,
    /// How long the servers' core was busy for each operation, whoever it worked for.
    pub server_core_us: f64,
    /// Of this, softirqs outside of system calls.
    pub server_core_softirq_us: f64,
    /// Softirqs outside of system calls on the client's core.
    pub client_core_softirq_us: f64,
}

impl Line {
    /// Its load, in words.
    pub fn load(&self) -> String {
        match self.pace {
            Pace::Closed { .. } => format!("window {}", self.window),
            Pace::Open { rate, .. } => format!("{}/s", bench::report::format::short(rate)),
        }
    }

    /// Of the gets, those that a box answered.
    pub fn hit_share(&self) -> f64 {
        let gets: u64 = self.slices.iter().map(|slice| slice.gets.count).sum();
        self.total.by_box.map_or(0.0, |hits| hits.count as f64 / gets.max(1) as f64)
    }
}

/// What is done.
pub struct Rounds<'a> {
    /// How.
    pub args: &'a Bench,
    /// The operations.
    pub workload: Workload,
    /// Of the client, of the servers.
    pub cores: [usize; 2],
    /// Moves.
    pub bar: &'a ProgressBar,
}

/// A mode under a load, while it is measured.
#[derive(Default)]
struct Sum {
    slices: Vec<Slice>,
    tally: Option<Tally>,
    used: CpuUse,
    ticks: [Ticks; 2],
}

impl Rounds<'_> {
    /// Measures; ends early when told to stop or when a server is lost.
    ///
    /// # Errors
    /// A warm-up fails.
    pub fn run(&self, sides: &mut [(Fleet, &Running)]) -> Result<Vec<Line>, LabError> {
        let (loads, rounds) = (self.args.loads(), self.args.round_count());
        let mut sums: Vec<Vec<Sum>> =
            sides.iter().map(|_| loads.iter().map(|_| Sum::default()).collect()).collect();
        let count = sides.len();
        'rounds: for round in 0..rounds {
            for turn in 0..count {
                let side = if round % 2 == 0 { turn } else { count - 1 - turn };
                let (fleet, running) = &mut sides[side];
                let part = (f64::from(round) + turn as f64 / count as f64) / f64::from(rounds);
                progress::show(self.bar, part, &format!("{} in turns", running.mode));
                let warm = fleet.run(self.phase(Pace::FULL, 16, WARM_UP), &mut |_| {});
                if warm.fatal.is_some() {
                    sums[side][0].tally = Some(warm);
                    break 'rounds;
                }
                for (load, &(pace, window)) in loads.iter().enumerate() {
                    self.slice(round, fleet, running, (pace, window), &mut sums[side][load]);
                    if fleet.stopped() || sums[side][load].is_lost() {
                        break 'rounds;
                    }
                }
            }
        }
        let mut lines = Vec::new();
        for (load, &(pace, window)) in loads.iter().enumerate() {
            for (side, (_, running)) in sides.iter().enumerate() {
                lines.push(std::mem::take(&mut sums[side][load]).line(running.mode, pace, window));
            }
        }
        Ok(lines)
    }

    fn phase(&self, pace: Pace, window: usize, length: Nanos) -> Phase {
        Phase {
            job: Job::Load { workload: self.workload.clone(), length, ops_each: u64::MAX },
            dialect: bench::load::dialect::Dialect::Classic,
            pace,
            pipeline: window,
            // Whoever has an answer asks again at once, in every mode.
            batch: 1,
            interval: length,
            number: 0,
        }
    }

    fn slice(
        &self,
        round: u32,
        fleet: &mut Fleet,
        running: &Running,
        (pace, window): (Pace, usize),
        sum: &mut Sum,
    ) {
        let distance = probe::ping_pong(self.cores, Duration::from_millis(2));
        let distance = distance.map_or("unknown".to_string(), |found| found.distance().to_string());
        let ticks = || self.cores.map(|core| Ticks::of(core).unwrap_or_default());
        let read = |process: &ServerProcess| process.read();
        let before = (read(&running.server), running.boxed.as_ref().and_then(read), ticks());
        let tally = fleet.run(self.phase(pace, window, Nanos::from(self.args.slice())), &mut |_| {});
        let after = (read(&running.server), running.boxed.as_ref().and_then(read), ticks());
        let used = |before, after: Option<_>| -> CpuUse {
            let both = Option::zip(before, after);
            both.map(|(before, after): (bench::load::server::CpuReading, _)| {
                bench::load::server::CpuReading::since(&after, &before)
            })
            .unwrap_or_default()
        };
        let (server, boxed) = (used(before.0, after.0), used(before.1, after.1));
        let summary = Summary::of(&tally, None);
        let per_op = |used: CpuUse| used.total_ns as f64 / 1e3 / summary.ops.max(1) as f64;
        let all_ns = server.total_ns + boxed.total_ns;
        sum.slices.push(Slice {
            round,
            distance,
            ops_per_sec: summary.ops_per_sec,
            gets: tally.latencies(OpKind::Get).map(Latency::of).unwrap_or_default(),
            hits: summary.by_box,
            server_us: per_op(server),
            box_us: per_op(boxed),
            ops_per_cpu_sec: summary.ops as f64 * 1e9 / all_ns.max(1) as f64,
        });
        sum.used.total_ns += all_ns;
        sum.used.system_ns += server.system_ns + boxed.system_ns;
        for (ticks, (after, before)) in sum.ticks.iter_mut().zip(after.2.into_iter().zip(before.2)) {
            *ticks = ticks.plus(after.since(before));
        }
        match &mut sum.tally {
            Some(all) => all.follow(&tally),
            None => sum.tally = Some(tally),
        }
    }
}

impl Sum {
    fn is_lost(&self) -> bool {
        self.tally.as_ref().is_some_and(|tally| tally.fatal.is_some())
    }

    fn line(self, mode: Mode, pace: Pace, window: usize) -> Line {
        let tally = self.tally.unwrap_or_else(|| Tally::new(Nanos::ZERO, Nanos(1)));
        let total = Summary::of(&tally, Some(self.used));
        let ops = total.ops;
        Line {
            mode,
            pace,
            window,
            slices: self.slices,
            server_core_us: Ticks::per_op(self.ticks[1].busy, ops),
            server_core_softirq_us: Ticks::per_op(self.ticks[1].softirq, ops),
            client_core_softirq_us: Ticks::per_op(self.ticks[0].softirq, ops),
            total,
        }
    }
}
