//! `millrace lab rpc`: one method whose replies may be kept, called in every way that there is, in turns: answered by a box's XDP program, by a box without
//! one, by the server's own look at the cache, by the handler, and through the gRPC gateway with and without the cache.
//!
//! ```text
//!   client:1 ── box:1, XDP ── home:1    the homes of both; `rpc serve` with the cache of either box and without, for the fabric over UDP
//!      │    └── box without ───┘
//!      └── two gateways beside the client, for gRPC over TCP: one that asks the cache with XDP, one that asks none
//! ```
//!
//! | file | what |
//! |---|---|
//! | `rig` | the lab, its processes, and a client for each way |
//! | `show` | the table |
//!
//! Every reply is checked. Clients sleep while they wait, in all ways. In the end boxes say how many replies program and process gave.
//!
//! Bounds: names of the command line; a tally for each way.

mod rig;
mod show;

use super::LabError;
use super::state::{self, parse_name};
use base::{Clock, Nanos};
use bench::contest::{self, Contest, Order, Slice, Turn};
use bench::drive::{Ask, Lost, OneByOne, Plan, together};
use bench::load::LoadError;
use bench::report;
use bench::report::environment::{self, Fact};
use bench::tally::{Latency, Merge, Tally};
use rig::{Rig, Way};
use serde::Serialize;
use serve::process::parse::duration;
use serve::process::{interrupt, progress};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Measure a call whose reply may be kept: in the box, at the server, by its handler, and by gRPC.
///
/// The method says the same text again, which costs its handler nothing: what differs is the way. All ways are measured in turns, so that they see
/// the same machine.
///
/// Needs root, iproute2 and XDP; client, box and server have a network namespace each.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  millrace lab rpc --quick\n  millrace lab rpc --rounds 20 --json > rpc.json"
)]
pub struct Calls {
    /// Texts that are said, in turns
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    texts: u32,

    /// Bytes of each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(12..=512))]
    size: u32,

    /// Rounds over all ways
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Time for one way in one round
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration)]
    slice: Duration,

    /// Three rounds of 100 ms instead: a look, not a measurement
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    quick: bool,

    /// What the lab is called while it stands
    #[arg(long, value_name = "NAME", default_value = "rpc", value_parser = parse_name)]
    name: String,
    /// First remove the lab of this name, or what is left of one
    #[arg(long)]
    replace: bool,

    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

/// What the calls of a way came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Answered rightly.
    pub done: u64,
    /// Of these answered by the cache, as far as the client sees that.
    pub kept: u64,
    /// Answered with something else.
    pub wrong: u64,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        self.done += other.done;
        self.kept += other.kept;
        self.wrong += other.wrong;
    }
}

/// Replies that a box gave, warming up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// By its XDP program, in the driver.
    pub program: u64,
    /// By its process.
    pub process: u64,
}

/// The figures of one way in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Median latency.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Calls per second, one at a time.
    pub per_sec: f64,
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Which way.
    pub way: Way,
    /// One for each round.
    pub rounds: Vec<Figures>,
    /// Of all rounds.
    pub counts: Counts,
}

/// What came out.
#[derive(Debug, Serialize)]
struct Outcome {
    setup: String,
    rows: Vec<Row>,
    /// The box with XDP, and the one without.
    boxes: Vec<Answered>,
    environment: Vec<Fact>,
}

impl Calls {
    /// Runs and prints.
    ///
    /// # Errors
    /// It could not be run, or a reply was wrong.
    pub fn run(&self) -> Result<(), LabError> {
        let stop = interrupt::flag().map_err(LabError::io("catching Ctrl-C"))?;
        let outcome = self.measure(&stop)?;
        report::print(&outcome, self.json, || show::text(&outcome)).map_err(LoadError::from)?;
        match outcome.rows.iter().map(|row| row.counts.wrong).sum() {
            0 => Ok(()),
            wrong => Err(LabError::WrongReplies(wrong)),
        }
    }

    fn measure(&self, stop: &AtomicBool) -> Result<Outcome, LabError> {
        let (rounds, slice) =
            if self.quick { (3, Duration::from_millis(100)) } else { (self.rounds, self.slice) };
        if self.replace {
            state::remove(&self.name)?;
        }
        let mut rig = Rig::start(&self.name)?;
        let texts: Vec<String> =
            (0..self.texts).map(|at| format!("{at:0width$}", width = self.size as usize)).collect();
        let mut tallies = Way::ALL.map(|_| Tally::<Counts>::default());
        let bar = progress::bar(self.json);
        // The first round warms up: connections, copies, what is kept.
        let measure = |turn: Turn| {
            let length = if turn.round == 0 { slice.min(Duration::from_millis(200)) } else { slice };
            let work = Work { way: rig.caller(Way::ALL[turn.cell]), texts: &texts, at: 0 };
            let mut one = [OneByOne::new(work)];
            let tally = together(&mut one, |_| Plan::full(length.into()), &[], &AtomicBool::new(false), None);
            if let Some(why) = tally.fatal {
                return Err(LabError::Call(format!("{}: {why}", Way::ALL[turn.cell])));
            }
            if turn.round == 0 {
                return Ok(Slice::LeftOut);
            }
            tallies[turn.cell].merge(&tally);
            let Latency { p50_us, p99_us, .. } = Latency::of(&tally.all_latencies());
            Ok(Slice::Measured(Figures { p50_us, p99_us, per_sec: tally.throughput() }))
        };
        let contest =
            Contest::new((1, Way::ALL.len()), (1 + rounds, Order::BackAndForth), stop, (&bar, 0.0, 1.0));
        let mut measured = contest.run(&mut contest::by(|turn| Way::ALL[turn.cell].to_string(), measure))?;
        bar.finish_and_clear();
        let row = |(number, way)| Row {
            way,
            rounds: measured.take(number, 0).into_iter().map(|sample| sample.figures).collect(),
            counts: tallies[number].counts.clone(),
        };
        let rows = Way::ALL.into_iter().enumerate().map(row).collect();
        let setup = format!(
            "{} texts of {} bytes; {rounds} rounds of {} ms, one call at a time, clients sleep while they wait",
            self.texts,
            self.size,
            slice.as_millis()
        );
        Ok(Outcome { setup, rows, boxes: rig.answered(), environment: environment::facts() })
    }
}

struct Work<'a> {
    way: &'a mut dyn rig::Say,
    texts: &'a [String],
    at: usize,
}

impl Ask for Work<'_> {
    type Counts = Counts;

    fn ask(&mut self, meant: Nanos, tally: &mut Tally<Counts>) -> Result<(), Lost> {
        let text = &self.texts[self.at % self.texts.len()];
        self.at += 1;
        let said = self.way.say(text).map_err(|why| Lost { failure: "call", why })?;
        tally.record((), meant, Clock::shared().now());
        tally.counts.wrong += u64::from(said.text != *text);
        tally.counts.done += u64::from(said.text == *text);
        tally.counts.kept += u64::from(said.is_kept);
        Ok(())
    }
}
