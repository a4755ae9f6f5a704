//! Every mode under every load, in turns, with the processor time of each process.

use super::Bench;
use super::cpu::Ticks;
use super::mode::{Mode, Running};
use base::Nanos;
use bench::contest::{self, Contest, Order, Sample, Sides, Turn};
use bench::drive::Pace;
use bench::load::counts::Tally;
use bench::load::fleet::Fleet;
use bench::load::mix::OpKind;
use bench::load::server::{CpuReading, CpuUse, ServerProcess};
use bench::load::summary::Summary;
use bench::load::workload::{Job, Phase, Workload};
use bench::tally::Latency;
use indicatif::ProgressBar;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

/// Before a slice: connections, copies and caches of all kinds.
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
    /// Becomes true when it is to end.
    pub stop: &'a AtomicBool,
    /// Moves.
    pub bar: &'a ProgressBar,
}

/// A mode under a load, while it is measured.
#[derive(Clone, Default)]
struct Sum {
    tally: Option<Tally>,
    used: CpuUse,
    ticks: [Ticks; 2],
}

/// The modes in turns.
struct Modes<'r, 's> {
    rounds: &'r Rounds<'r>,
    sides: &'r mut [(Fleet, &'s Running)],
    loads: Vec<(Pace, usize)>,
    /// By load, by mode.
    sums: Vec<Vec<Sum>>,
}

impl Rounds<'_> {
    /// Measures; ends early when told to stop or when a server is lost.
    pub fn run(&self, sides: &mut [(Fleet, &Running)]) -> Vec<Line> {
        let loads = self.args.loads();
        let (shape, rounds) = ((sides.len(), loads.len()), (self.args.round_count(), Order::BackAndForth));
        let mut contest = Contest::new(shape, rounds, self.stop, (self.bar, 0.0, 1.0));
        contest.cores = Some(self.cores);
        let sums = vec![vec![Sum::default(); sides.len()]; loads.len()];
        let mut modes = Modes { rounds: self, sides, loads, sums };
        let Ok(mut measured) = contest.run(&mut modes);
        let Modes { sides, loads, sums, .. } = modes;
        let mut lines = Vec::new();
        for (load, (pace, sums)) in loads.into_iter().zip(sums).enumerate() {
            for (side, sum) in sums.into_iter().enumerate() {
                let slices = measured.take(load, side).into_iter().map(Slice::of).collect();
                lines.push(sum.line(sides[side].1.mode, pace, slices));
            }
        }
        lines
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
}

impl Sides for Modes<'_, '_> {
    type Figures = Slice;
    type Error = Infallible;

    fn name(&self, turn: Turn) -> String {
        format!("{} in turns", self.sides[turn.side].1.mode)
    }

    fn warm_up(&mut self, turn: Turn) -> Result<(), Infallible> {
        let phase = self.rounds.phase(Pace::FULL, 16, WARM_UP);
        let warm = self.sides[turn.side].0.run(phase, &mut |_| {});
        if warm.fatal.is_some() {
            self.sums[turn.cell][turn.side].tally = Some(warm);
        }
        Ok(())
    }

    fn slice(&mut self, turn: Turn) -> Result<contest::Slice<Slice>, Infallible> {
        if self.sums[turn.cell][turn.side].is_lost() {
            return Ok(contest::Slice::Over);
        }
        let (fleet, running) = &mut self.sides[turn.side];
        let ((pace, window), cores) = (self.loads[turn.cell], self.rounds.cores);
        let ticks = || cores.map(|core| Ticks::of(core).unwrap_or_default());
        let read = |process: &ServerProcess| process.read();
        let now = || (read(&running.server), running.boxed.as_ref().and_then(read), ticks());
        let before = now();
        let length = Nanos::from(self.rounds.args.slice());
        let tally = fleet.run(self.rounds.phase(pace, window, length), &mut |_| {});
        let after = now();
        let used = |before: Option<CpuReading>, after: Option<CpuReading>| {
            before.zip(after).map(|(before, after)| after.since(&before)).unwrap_or_default()
        };
        let (server, boxed) = (used(before.0, after.0), used(before.1, after.1));
        let sum = &mut self.sums[turn.cell][turn.side];
        sum.used.total_ns += server.total_ns + boxed.total_ns;
        sum.used.system_ns += server.system_ns + boxed.system_ns;
        for (ticks, (after, before)) in sum.ticks.iter_mut().zip(after.2.into_iter().zip(before.2)) {
            *ticks = ticks.plus(after.since(before));
        }
        let slice = Slice::new(turn.round, &tally, server, boxed);
        match &mut sum.tally {
            Some(all) => all.follow(&tally),
            None => sum.tally = Some(tally),
        }
        Ok(if sum.is_lost() { contest::Slice::Over } else { contest::Slice::Measured(slice) })
    }
}

impl Slice {
    fn of(sample: Sample<Slice>) -> Slice {
        let [before, _] = sample.distances;
        Slice { distance: before.unwrap_or_else(|| "unknown".to_string()), ..sample.figures }
    }

    fn new(round: u32, tally: &Tally, server: CpuUse, boxed: CpuUse) -> Slice {
        let summary = Summary::of(tally, None);
        let per_op = |used: CpuUse| used.total_ns as f64 / 1e3 / summary.ops.max(1) as f64;
        let all_ns = server.total_ns + boxed.total_ns;
        Slice {
            round,
            distance: String::new(),
            ops_per_sec: summary.ops_per_sec,
            gets: tally.latencies(OpKind::Get).map(Latency::of).unwrap_or_default(),
            hits: summary.by_box,
            server_us: per_op(server),
            box_us: per_op(boxed),
            ops_per_cpu_sec: summary.ops as f64 * 1e9 / all_ns.max(1) as f64,
        }
    }
}

impl Sum {
    fn is_lost(&self) -> bool {
        self.tally.as_ref().is_some_and(|tally| tally.fatal.is_some())
    }

    fn line(self, mode: Mode, (pace, window): (Pace, usize), slices: Vec<Slice>) -> Line {
        let tally = self.tally.unwrap_or_else(|| Tally::new(Nanos::ZERO, Nanos(1)));
        let total = Summary::of(&tally, Some(self.used));
        let ops = total.ops;
        Line {
            mode,
            pace,
            window,
            slices,
            server_core_us: Ticks::per_op(self.ticks[1].busy, ops),
            server_core_softirq_us: Ticks::per_op(self.ticks[1].softirq, ops),
            client_core_softirq_us: Ticks::per_op(self.ticks[0].softirq, ops),
            total,
        }
    }
}
