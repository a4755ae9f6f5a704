//! `millrace soak attack`: what a polite client of each server feels, and how much memory the server takes, while others misbehave.
//!
//! ```text
//!  attack ── rig ───── server     child processes on loopback, their memory and how they ended
//!        ├── polite ── one client that asks, waits, pauses, and checks every answer
//!        ├── hostile ─ a thread that misbehaves in one of the ways of `kinds`
//!        └── show      the table
//! ```
//! Quiet and attacked slices take turns, so that both see the same machine; the ratio is that of neighbours. Attackers would have machines of
//! their own: here they have the processor time that nobody else wants (SCHED_IDLE), so the client feels what the server does for them.

mod hostile;
mod kinds;
mod polite;
mod rig;
mod show;

use super::SoakError;
use base::Bytes;
use bench::contest::{self, Contest, Order, Ratio, Sample, Slice, Turn};
use bench::report;
use bench::tally::{Latency, Tally};
use clap::Args;
use indicatif::ProgressBar;
use kinds::{KINDS, Kind, Way};
use rig::Rig;
use serde::Serialize;
use serve::process::parse::duration;
use serve::process::{interrupt, progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Attack servers on loopback, one kind of attack after the other, and watch a polite client and the server's memory.
///
/// For each attack a server is started as a child process. Slices without and with the attack take turns. The exit status is 1 if a server
/// died, the polite client's requests failed, memory went over its budget by more than 10 %, or the median ratio of p50 or p99 is above the bound.
#[derive(Args, Clone, Debug)]
pub struct Attack {
    /// Only these; --list names them. A server's name stands for all attacks on it
    #[arg(value_name = "NAME")]
    only: Vec<String>,

    /// List the attacks
    #[arg(long)]
    list: bool,

    /// Pairs of slices, quiet and attacked
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,

    /// Length of a slice
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    slice: Duration,

    /// What the polite client's p50 and p99 may grow by
    #[arg(long, value_name = "RATIO", default_value_t = 1.5)]
    bound: f64,

    /// Run each server in a control group with so much memory, such as 256m (needs root and cgroup v2)
    #[arg(long, value_name = "SIZE")]
    group: Option<Bytes>,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The sides of the comparison.
const QUIET: usize = 0;
const ATTACKED: usize = 1;

/// What came of one attack.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub attack: &'static str,
    /// Whether it is judged; else it is there to compare.
    pub is_attack: bool,
    /// The polite client's p50, attacked over quiet.
    pub p50: Option<Ratio>,
    /// And p99.
    pub p99: Option<Ratio>,
    /// The longest that the polite client waited while it was attacked, in µs.
    pub longest_us: f64,
    /// Its answers.
    pub answers: u64,
    /// Its requests that failed while the server was attacked, and the first reason.
    pub failed: (u64, Option<String>),
    /// Of each of the server's processes.
    pub memory: Vec<rig::Memory>,
    /// How a process ended that should not have.
    pub died: Option<String>,
    /// Whether all is as it should be.
    pub is_good: bool,
}

impl Attack {
    /// Runs it.
    ///
    /// # Errors
    /// A server could not be started, or the result is not what is promised.
    pub fn run(&self) -> Result<(), SoakError> {
        if self.list {
            print!("{}", show::list());
            return Ok(());
        }
        let chosen = self.chosen()?;
        let interrupted =
            interrupt::flag().map_err(|e| SoakError::Run(format!("Ctrl-C cannot be caught: {e}")))?;
        let bar = progress::bar(self.json);
        let mut outcomes = Vec::new();
        for (at, kind) in chosen.iter().enumerate() {
            let part = |at: usize| at as f64 / chosen.len() as f64;
            let bar = (&bar, part(at), part(at + 1));
            outcomes.push(self.attack(kind, bar, &interrupted).map_err(SoakError::Run)?);
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
        bar.finish_and_clear();
        report::print(&outcomes, self.json, || show::text(&outcomes, self.bound))
            .map_err(|error| SoakError::Run(error.to_string()))?;
        match outcomes.iter().filter(|outcome| outcome.is_attack && !outcome.is_good).count() {
            0 => Ok(()),
            bad => Err(SoakError::Broken(bad as u64)),
        }
    }

    fn chosen(&self) -> Result<Vec<&'static Kind>, SoakError> {
        let is_named = |kind: &Kind, name: &str| kind.name == name || kind.role.name() == name;
        if let Some(unknown) = self.only.iter().find(|name| !KINDS.iter().any(|kind| is_named(kind, name))) {
            return Err(SoakError::Run(format!("there is no attack {unknown:?}; --list names all")));
        }
        let is_chosen =
            |kind: &&Kind| self.only.is_empty() || self.only.iter().any(|name| is_named(kind, name));
        Ok(KINDS.iter().filter(is_chosen).collect())
    }

    fn attack(
        &self,
        kind: &'static Kind,
        bar: (&ProgressBar, f64, f64),
        interrupted: &AtomicBool,
    ) -> Result<Outcome, String> {
        let named = |why: String| format!("{}: {why}", kind.name);
        let mut rig = Rig::start(kind.role, self.group).map_err(named)?;
        let mut polite = polite::connect(&rig.places, kind.polite).map_err(named)?;
        // The first requests make buffers and threads that stay.
        polite.during(Duration::from_millis(300));
        rig.rest();
        // What was felt while the server was attacked.
        let (places, mut felt) = (rig.places, Tally::default());
        let slice = |turn: Turn| {
            let tally = match turn.side {
                QUIET => polite.during(self.slice),
                _ => hostile::during(kind, &places, || polite.during(self.slice))?,
            };
            if turn.side == ATTACKED {
                felt.merge(&tally);
            }
            Ok(Slice::Measured(Latency::of(&tally.all_latencies())))
        };
        let rounds = u32::try_from(self.rounds).expect("bounded by its parser");
        // In this order always: what an attack leaves behind is part of it.
        let contest = Contest::new((2, 1), (rounds, Order::Fixed), interrupted, bar);
        let mut measured = contest.run(&mut contest::by(|_| kind.name.to_owned(), slice)).map_err(named)?;
        let (quiet, attacked) = (measured.take(0, QUIET), measured.take(0, ATTACKED));
        let of = |which: fn(&Latency) -> f64| {
            let rounds = |samples: &[Sample<Latency>]| -> Vec<_> {
                let figure = |latency: &Latency| (latency.count > 0).then(|| which(latency));
                samples.iter().map(|sample| (sample.round, figure(&sample.figures))).collect()
            };
            Ratio::by_round(rounds(&attacked), rounds(&quiet))
        };
        let longest_us = felt.all_latencies().max() as f64 / 1e3;
        let mut outcome = Outcome {
            attack: kind.name,
            is_attack: !matches!(kind.way, Way::Load(_)),
            p50: of(|latency| latency.p50_us),
            p99: of(|latency| latency.p99_us),
            longest_us,
            answers: felt.ops(),
            failed: (felt.all_failed(), felt.examples.into_iter().next()),
            died: rig.died(),
            memory: rig.memory(),
            is_good: false,
        };
        let is_within = |ratio: &Option<Ratio>| ratio.is_some_and(|ratio| ratio.ratio.median <= self.bound);
        outcome.is_good = outcome.failed.0 == 0
            && outcome.died.is_none()
            && outcome.memory.iter().all(rig::Memory::is_within)
            && is_within(&outcome.p50)
            && is_within(&outcome.p99);
        Ok(outcome)
    }
}
