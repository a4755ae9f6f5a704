//! `millrace bench`: one server, or two in turns; with one number of keys, or several (`scale`).
//!
//! Shape: preload, warm-up, measured phase (or turns), then the result goes to the terminal or as JSON, and to a report.
//! Exit: an error when any value was wrong, when the run ended before its time, or when it could not start.

use super::LoadError;
use super::args::{BenchArgs, Check};
use super::counts::Tally;
use super::fleet::Fleet;
use super::scale::{self, KeyCounts, Scaling};
use super::server::ServerProcess;
use super::summary::Summary;
use super::target::Target;
use super::versus::{Side, Versus, alternate};
use super::workload::{Job, Phase, Workload};
use crate::drive::Pace;
use crate::load::pages;
use crate::report;
use crate::report::environment::{self, Fact};
use base::Nanos;
use indicatif::ProgressBar;
use serde::Serialize;
use serve::process::{interrupt, progress};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A server of the run, as reports name it.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Where.
    pub target: Target,
    /// What it is, where it says: name, version, process.
    pub identity: Option<String>,
    /// Why its CPU time is not known, where it is not.
    pub cpu_unknown: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// The servers: one or two.
    pub servers: Vec<Server>,
    /// The operations.
    pub workload: Workload,
    /// How fast.
    pub pace: Pace,
    /// Number of keys, or one number after the other.
    pub keys: KeyCounts,
    /// Bytes per key.
    pub key_size: usize,
    /// Connections per server.
    pub connections: u16,
    /// Operations under way per connection.
    pub pipeline: usize,
    /// Free places gathered before a write.
    pub batch: usize,
    /// Client threads per server.
    pub threads: usize,
    /// Whether client threads never sleep.
    pub spin: bool,
    /// Whether connections check their own last writes.
    pub strict: bool,
    /// The seed.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of one server.
    Single(Box<Summary>),
    /// Of two.
    Versus(Box<Versus>),
    /// Of one or two, with several numbers of keys.
    Scaling(Box<Scaling>),
}

/// A whole result.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    /// What was done.
    pub setup: Setup,
    /// What came out.
    pub outcome: Outcome,
    /// Where.
    pub environment: Vec<Fact>,
}

impl BenchResult {
    /// The summaries with the server each is of.
    pub fn sides(&self) -> Vec<(&Server, &Summary)> {
        match &self.outcome {
            Outcome::Single(summary) => vec![(&self.setup.servers[0], summary)],
            Outcome::Versus(versus) => {
                vec![(&self.setup.servers[0], &versus.a), (&self.setup.servers[1], &versus.b)]
            }
            Outcome::Scaling(scaling) => {
                let sides =
                    scaling.sizes.iter().flat_map(|size| self.setup.servers.iter().zip(&size.servers));
                sides.map(|(server, at)| (server, &at.all)).collect()
            }
        }
    }

    /// An error when a value was wrong or the run ended before its time.
    ///
    /// # Errors
    /// See [`LoadError::WrongValues`] and [`LoadError::Ended`].
    pub fn verdict(&self) -> Result<(), LoadError> {
        for (server, summary) in self.sides() {
            let count = summary.wrong_count();
            if count > 0 {
                return Err(LoadError::WrongValues { count, examples: summary.examples.clone() });
            }
            if let Some(cause) = &summary.ended_early {
                return Err(LoadError::Ended { target: server.target.to_string(), cause: cause.clone() });
            }
        }
        if let Outcome::Scaling(scaling) = &self.outcome
            && let Some(end) = &scaling.ended_early
        {
            return Err(LoadError::Ended { target: end.target.clone(), cause: end.cause.clone() });
        }
        Ok(())
    }
}

/// Runs `millrace bench` and prints its result.
///
/// # Errors
/// When it could not run, ended early, or values were wrong.
pub fn run(args: &BenchArgs) -> Result<(), LoadError> {
    let stop =
        interrupt::flag().map_err(|e| LoadError::Plan(format!("Ctrl-C cannot be caught: {e}").into()))?;
    let result = execute(args, stop)?;
    let page = || pages::bench(&result);
    report::deliver(&result, args.json, || page().text(), page, args.report.as_deref())?;
    result.verdict()
}

/// Does what `args` say, without printing a result.
///
/// # Errors
/// When it could not run; what it measured decides [`BenchResult::verdict`].
pub fn execute(args: &BenchArgs, stop: Arc<AtomicBool>) -> Result<BenchResult, LoadError> {
    let args = &args.with_trust()?;
    let workload = args.workload()?;
    args.sizes_fit()?;
    let bar = progress::bar(args.json);
    let first = args.keys.first();
    let mut sides = Vec::new();
    let mut servers = Vec::new();
    let targets = [(Some(&args.target), args.server_pid), (args.vs.as_ref(), args.vs_server_pid)];
    for (side, (target, pid)) in targets.into_iter().enumerate() {
        let Some(target) = target else { continue };
        let fleet = Fleet::launch(&args.fleet(target, side as u32, first)?, Arc::clone(&stop))?;
        let (process, cpu_unknown) = match ServerProcess::find(target, pid) {
            Ok(process) => (Some(process), None),
            Err(reason) => (None, Some(reason)),
        };
        let identity = process.as_ref().map(identity);
        servers.push(Server { target: target.clone(), identity, cpu_unknown });
        sides.push(Side { fleet, dialect: args.dialect(target), process });
    }
    let outcome = match args.keys.is_list() {
        true => Outcome::Scaling(Box::new(scale::climb(args, &workload, sides, &stop, &bar)?)),
        false => {
            for side in &mut sides {
                prepare(args, &workload, side, first, &bar)?;
            }
            measure(args, &workload, &mut sides, &stop, &bar)
        }
    };
    bar.finish_and_clear();
    let setup = Setup {
        servers,
        workload,
        pace: args.pace(),
        keys: args.keys.clone(),
        key_size: args.key_size,
        connections: args.connections,
        pipeline: args.pipeline,
        batch: args.batch(),
        threads: args.threads,
        spin: args.spin,
        strict: args.check == Check::Strict,
        seed: args.seed,
    };
    Ok(BenchResult { setup, outcome, environment: environment::facts() })
}

fn identity(process: &ServerProcess) -> String {
    let version = process.version.as_deref().unwrap_or("");
    format!("{} {version} (process {})", process.name, process.pid).replace("  ", " ")
}

fn phase(args: &BenchArgs, workload: &Workload, length: Nanos) -> Phase {
    Phase {
        job: Job::Load { workload: workload.clone(), length, ops_each: args.ops_each() },
        dialect: super::dialect::Dialect::Classic,
        pace: args.pace(),
        pipeline: args.pipeline,
        batch: args.batch(),
        interval: Nanos((length.0 / 100).max(50_000_000)),
        number: 0,
    }
}

/// The phase of one turn.
pub fn slice(args: &BenchArgs, workload: &Workload) -> Phase {
    let length = Nanos::from(args.slice);
    Phase { interval: length, ..phase(args, workload, length) }
}

/// The phase that writes every key once.
pub fn preload_phase(values: super::sizes::ValueSizes, dialect: super::dialect::Dialect) -> Phase {
    // About a megabyte under way at most, so that huge values do not fill the sockets for minutes.
    let pipeline = (1_000_000 / values.longest().max(1)).clamp(1, 64);
    Phase {
        job: Job::Preload(values),
        dialect,
        pace: Pace::FULL,
        pipeline,
        batch: pipeline.div_ceil(2),
        interval: Nanos::from_secs(1),
        number: 0,
    }
}

/// Writes the keys and warms up.
///
/// # Errors
/// When the server refused writes, was lost, or gave wrong values.
pub fn prepare(
    args: &BenchArgs,
    workload: &Workload,
    side: &mut Side,
    keys: u64,
    bar: &ProgressBar,
) -> Result<(), LoadError> {
    if !args.no_preload {
        preload(args, side, keys, bar)?;
    }
    warm_up(args, workload, side, bar)
}

fn preload(args: &BenchArgs, side: &mut Side, keys: u64, bar: &ProgressBar) -> Result<(), LoadError> {
    let phase = preload_phase(args.value, side.dialect);
    let name = format!("preload {}", side.fleet.target());
    let tally = side.fleet.run(phase, &mut |done| progress::show(bar, done as f64 / keys as f64, &name));
    check_preload(&tally, side.fleet.target(), keys)
}

/// A preload that failed makes every later figure meaningless.
///
/// # Errors
/// When a write was refused or the connection was lost; an interrupted preload is none.
pub fn check_preload(tally: &Tally, target: &Target, keys: u64) -> Result<(), LoadError> {
    let ended = |cause| Err(LoadError::Ended { target: target.to_string(), cause });
    if let Some(cause) = &tally.fatal {
        return ended(cause.clone());
    }
    match tally.all_failed() {
        0 => Ok(()),
        failed => {
            let example = tally.examples.first().map_or("", String::as_str);
            ended(format!(
                "{failed} of {keys} writes of the preload failed, the first: {example}\n  \
                 give the server more memory (-m) or a larger item limit (-I), or use fewer or smaller values"
            ))
        }
    }
}

fn warm_up(
    args: &BenchArgs,
    workload: &Workload,
    side: &mut Side,
    bar: &ProgressBar,
) -> Result<(), LoadError> {
    if args.warmup.is_zero() || side.fleet.stopped() {
        return Ok(());
    }
    let name = format!("warm-up {}", side.fleet.target());
    progress::show(bar, 0.0, &name);
    let (tally, _) = side.run(phase(args, workload, Nanos::from(args.warmup)), &mut |_| {});
    progress::show(bar, 1.0, &name);
    let target = side.fleet.target().to_string();
    match tally {
        Tally { fatal: Some(cause), .. } => Err(LoadError::Ended { target, cause }),
        ref tally if tally.all_wrongs() > 0 => {
            Err(LoadError::WrongValues { count: tally.all_wrongs(), examples: tally.examples.clone() })
        }
        _ => Ok(()),
    }
}

fn measure(
    args: &BenchArgs,
    workload: &Workload,
    sides: &mut [Side],
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Outcome {
    match sides {
        [_, _] => {
            let turns =
                alternate(sides, &slice(args, workload), args.pairs, stop, (bar, "in turns, A B B A"));
            Outcome::Versus(Box::new(Versus::of(turns)))
        }
        sides => {
            let side = &mut sides[0];
            let length = args.duration();
            let began = std::time::Instant::now();
            let name = format!("measure {}", side.fleet.target());
            let ops = args.ops.map_or(f64::INFINITY, |ops| ops as f64);
            let mut show = |done: u64| {
                let time = began.elapsed().as_secs_f64() / length.as_secs_f64();
                progress::show(bar, time.max(done as f64 / ops), &name);
            };
            let (tally, used) = side.run(phase(args, workload, length), &mut show);
            Outcome::Single(Box::new(Summary::of(&tally, used)))
        }
    }
}
