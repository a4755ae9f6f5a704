//! Turns: short slices of the same load on one server, or on two in the order A B B A A B …, compared pair by pair.
//!
//! `contest` says why; connections stay open between the turns.

use super::LoadError;
use super::counts::Tally;
use super::dialect::Dialect;
use super::fleet::{Fleet, FleetPlan};
use super::server::{CpuUse, ServerProcess};
use super::summary::Summary;
use super::workload::Phase;
use crate::contest::{self, Contest, Order, Ratio, Slice};
use crate::tally::Latency;
use indicatif::ProgressBar;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One server of a comparison.
pub struct Side {
    /// Drives it.
    pub fleet: Fleet,
    /// The language it speaks.
    pub dialect: Dialect,
    /// Its process, where it can be watched.
    pub process: Option<ServerProcess>,
}

impl Side {
    /// The same server, driven by another plan: what is connected is closed first, so that there are never more connections than one plan has.
    ///
    /// # Errors
    /// See [`Fleet::launch`].
    pub fn relaunch(self, plan: &FleetPlan, stop: Arc<AtomicBool>) -> Result<Side, LoadError> {
        let Side { fleet, dialect, process } = self;
        drop(fleet);
        Ok(Side { fleet: Fleet::launch(plan, stop)?, dialect, process })
    }

    /// One phase in this server's language, with the CPU time that the server spent on it.
    pub fn run(&mut self, mut phase: Phase, progress: &mut dyn FnMut(u64)) -> (Tally, Option<CpuUse>) {
        phase.dialect = self.dialect;
        let before = self.process.as_ref().and_then(ServerProcess::read);
        let tally = self.fleet.run(phase, progress);
        let after = self.process.as_ref().and_then(ServerProcess::read);
        let used = before.zip(after).map(|(before, after)| after.since(&before));
        (tally, used)
    }
}

/// What one turn gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Operations per second.
    pub ops_per_sec: f64,
    /// Its latencies.
    pub latency: Latency,
    /// Server CPU per operation, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// Generator CPU per operation, in microseconds.
    pub client_cpu_us: f64,
}

/// One metric compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Both sides and their ratio.
    #[serde(flatten)]
    pub ratio: Ratio,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// The turns, pair by pair: of the first server and of the second.
    pub pairs: Vec<(Turn, Turn)>,
    /// Metric by metric.
    pub compared: Vec<Compared>,
    /// All turns of the first server as one.
    pub a: Summary,
    /// All turns of the second server as one.
    pub b: Summary,
}

#[derive(Default)]
struct Total {
    tally: Option<Tally>,
    cpu: CpuUse,
    watched: bool,
}

impl Total {
    fn add(&mut self, tally: Tally, used: Option<CpuUse>) -> Turn {
        let s = Summary::of(&tally, used);
        match &mut self.tally {
            Some(sum) => sum.follow(&tally),
            None => self.tally = Some(tally),
        }
        if let Some(used) = used {
            self.watched = true;
            self.cpu.total_ns += used.total_ns;
            self.cpu.system_ns += used.system_ns;
        }
        Turn {
            ops_per_sec: s.ops_per_sec,
            latency: s.all,
            server_cpu_us: s.server_cpu.map(|cpu| cpu.total_us),
            client_cpu_us: s.client_cpu_us_per_op,
        }
    }

    fn summary(&self, phase: &Phase) -> Summary {
        let none = Tally::new(base::Nanos::ZERO, phase.interval);
        Summary::of(self.tally.as_ref().unwrap_or(&none), self.watched.then_some(self.cpu))
    }
}

/// What came of the turns.
pub struct Turns {
    /// Server by server, of whole rounds only.
    pub by_side: Vec<Vec<Turn>>,
    /// All turns of each server as one.
    pub totals: Vec<Summary>,
}

/// Runs `rounds` turns of `phase` on each of `sides`. Ends early on a stop or when a server is lost, with the whole rounds there are.
pub fn alternate(
    sides: &mut [Side],
    phase: &Phase,
    rounds: u32,
    stop: &AtomicBool,
    (bar, name): (&ProgressBar, &str),
) -> Turns {
    let count = sides.len();
    let mut totals: Vec<Total> = sides.iter().map(|_| Total::default()).collect();
    let slice = |turn: contest::Turn| {
        let (tally, used) = sides[turn.side].run(phase.clone(), &mut |_| {});
        let ended_early = stop.load(Ordering::Relaxed) || tally.fatal.is_some();
        let figures = totals[turn.side].add(tally, used);
        Ok::<_, Infallible>(if ended_early { Slice::Over } else { Slice::Measured(figures) })
    };
    let mut turns = contest::by(|_| name.to_owned(), slice);
    let contest = Contest::new((count, 1), (rounds, Order::BackAndForth), stop, (bar, 0.0, 1.0));
    let Ok(mut samples) = contest.run(&mut turns);
    drop(turns);
    let whole = samples.whole_rounds(0).into_iter();
    let by_side = whole.map(|side| side.into_iter().map(|sample| sample.figures).collect()).collect();
    Turns { by_side, totals: totals.iter().map(|total| total.summary(phase)).collect() }
}

impl Versus {
    /// Of two servers' turns.
    pub fn of(turns: Turns) -> Versus {
        let pairs = pairs(&turns.by_side);
        let mut totals = turns.totals.into_iter();
        let mut next = || totals.next().expect("two servers have turns");
        let (a, b) = (next(), next());
        Versus { compared: compare(&pairs), pairs, a, b }
    }
}

/// The turns of two servers, neighbour by neighbour; none of one alone.
pub fn pairs(by_side: &[Vec<Turn>]) -> Vec<(Turn, Turn)> {
    match by_side {
        [a, b] => a.iter().copied().zip(b.iter().copied()).collect(),
        _ => Vec::new(),
    }
}

/// Metric by metric; nothing where there are no pairs.
pub fn compare(pairs: &[(Turn, Turn)]) -> Vec<Compared> {
    type Metric = (&'static str, &'static str, bool, fn(&Turn) -> Option<f64>);
    const METRICS: [Metric; 7] = [
        ("throughput", "ops/s", true, |t| Some(t.ops_per_sec)),
        ("mean", "µs", false, |t| Some(t.latency.mean_us)),
        ("p50", "µs", false, |t| Some(t.latency.p50_us)),
        ("p99", "µs", false, |t| Some(t.latency.p99_us)),
        ("p99.9", "µs", false, |t| Some(t.latency.p999_us)),
        ("server CPU", "µs/op", false, |t| t.server_cpu_us),
        ("client CPU", "µs/op", false, |t| Some(t.client_cpu_us)),
    ];
    let of = |&(metric, unit, more_is_better, read): &Metric| {
        let values: Vec<_> = pairs.iter().map(|(a, b)| (read(a), read(b))).collect();
        Some(Compared { metric, unit, more_is_better, ratio: Ratio::of(&values)? })
    };
    METRICS.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_without_samples_are_left_out() {
        let turn = |ops_per_sec, server_cpu_us| Turn {
            ops_per_sec,
            latency: Latency { mean_us: 1.0, p50_us: 1.0, p99_us: 2.0, p999_us: 3.0, ..Latency::default() },
            server_cpu_us,
            client_cpu_us: 1.0,
        };
        let pairs =
            [(turn(200.0, Some(1.0)), turn(100.0, None)), (turn(400.0, Some(1.0)), turn(200.0, None))];
        let compared = compare(&pairs);
        assert!(compared.iter().all(|c| c.metric != "server CPU"));
        assert_eq!((compared[0].metric, compared[0].ratio.ratio.median), ("throughput", 2.0));
        assert!(compare(&[]).is_empty());
    }
}
