//! Every transport, window and batch size in one run: a generated client on one core, a generated server on another.
//!
//! Shape: for each batch size a server: a process of its own that listens on all transports, and a thread of this one for
//! `memory`. All are pinned to the server's core and sleep while another one is measured. A round is one slice of every combination in
//! an order of its own; before and after each slice the distance of the two cores is probed, and slices in which it changed are left out.
//! Between slices every connection is driven once: a session over UDP that nobody drives for ten seconds is lost.
//!
//! Errors: calls that fail end the run, those of a slice's warm-up too.
//!
//! Why: a virtual machine's cores move, so only what was measured in turns may be compared.

use super::Bench;
use crate::contest::{self, Contest, Order, Ratio, Sides, Slice, Turn};
use crate::drive::{Caller, Calls, Plan, drive};
use crate::report::environment::{self, Fact};
use crate::tally::Tally;
use base::spread::Spread;
use base::{Clock, cpu};
use fabric::channel::{CallOptions, Channel, Event, StartError};
use fabric::link::Address;
use fabric::status::{Code, Status};
use indicatif::ProgressBar;
use serde::Serialize;
use serve::rpc::batch::Batch;
use serve::rpc::demo::proto::demo::{EchoClient, SayReply};
use serve::rpc::serve::{Child, Local};
use serve::rpc::{RpcError, target};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug)]
pub struct MatrixArgs {
    transports: Vec<String>,
    windows: Vec<usize>,
    batches: Vec<Batch>,
    rounds: u32,
    slice: Duration,
    payload: usize,
    cores: [usize; 2],
}

/// The longest slice: meanwhile nobody drives the other connections.
const LONGEST_SLICE: Duration = Duration::from_secs(5);
/// The transports that a matrix knows.
const TRANSPORTS: [&str; 5] = ["memory", "shm", "udp", "unix", "tcp"];

impl MatrixArgs {
    /// What the command line asks for.
    ///
    /// # Errors
    /// It asks for what there is not.
    pub(super) fn new(args: &Bench) -> Result<MatrixArgs, RpcError> {
        if let Some(unknown) = args.transports.iter().find(|name| !TRANSPORTS.contains(&name.as_str())) {
            let known = TRANSPORTS.join(", ");
            return Err(RpcError::Plan(format!("no transport {unknown}; there are {known}")));
        }
        if args.slice > LONGEST_SLICE {
            let most = LONGEST_SLICE.as_secs();
            return Err(RpcError::Plan(format!(
                "--slice is {most}s at most; more --rounds measure for longer"
            )));
        }
        let allowed = cpu::allowed_cores();
        let cores = match (&args.cores[..], &allowed[..]) {
            (&[client, server], _) if client != server => [client, server],
            ([], &[client, server, ..]) => [client, server],
            ([], _) => {
                let why = "a matrix needs two cores, and this process may use one; use `taskset` or another machine";
                return Err(RpcError::Plan(why.to_owned()));
            }
            _ => return Err(RpcError::Plan("--cores takes two different cores: --cores 0,1".to_owned())),
        };
        Ok(MatrixArgs {
            transports: args.transports.clone(),
            windows: args.windows.iter().map(|&window| window.max(1)).collect(),
            batches: args.batches.clone(),
            rounds: u32::try_from(args.rounds).unwrap_or(u32::MAX).max(1),
            slice: args.slice,
            payload: args.payload,
            cores,
        })
    }
}

/// One combination in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Which round.
    pub round: u32,
    /// What the cores shared, before and after.
    pub distance: String,
    /// Replies per second.
    pub replies_per_sec: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
}

/// All rounds of one combination.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What carries the frames.
    pub transport: String,
    /// Calls under way.
    pub window: usize,
    /// Frames published together.
    pub batch: Batch,
    /// What was measured, without slices in which the cores' distance changed.
    pub samples: Vec<Sample>,
}

impl Cell {
    /// Over the samples at a distance.
    pub fn spread(&self, distance: &str, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().filter(|sample| sample.distance == distance).map(of))
    }
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Client's and server's core.
    pub cores: [usize; 2],
    /// Bytes of text in each request.
    pub payload: usize,
    /// Of one slice.
    pub slice_ms: f64,
    /// Rounds that were made.
    pub rounds: u32,
    /// Slices left out because the cores' distance changed.
    pub left_out: usize,
    /// The distance that most samples were taken at; the tables are of these.
    pub distance: String,
    /// Every combination.
    pub cells: Vec<Cell>,
    /// Calls that failed, and the first failure.
    pub failed: Option<(u64, String)>,
    /// Where.
    pub environment: Vec<Fact>,
}

impl Matrix {
    /// An error if calls failed.
    ///
    /// # Errors
    /// [`RpcError::Failed`].
    pub fn verdict(&self) -> Result<(), RpcError> {
        match &self.failed {
            None => Ok(()),
            Some((count, example)) => {
                Err(RpcError::Failed { count: *count, of: *count, example: example.clone() })
            }
        }
    }

    /// Cells of a transport and window, in the order of the batches.
    pub fn row(&self, transport: &str, window: usize) -> Vec<&Cell> {
        let here = |cell: &&Cell| cell.transport == transport && cell.window == window;
        self.cells.iter().filter(here).collect()
    }

    /// Throughput of adaptive over that of the fixed size with the best median, round by round.
    pub fn adaptive_over_best(&self, transport: &str, window: usize) -> Option<(Spread, Batch)> {
        let row = self.row(transport, window);
        let median =
            |cell: &&&Cell| cell.spread(&self.distance, |s| s.replies_per_sec).map_or(0.0, |s| s.median);
        let fixed = row.iter().filter(|cell| cell.batch != Batch::Adaptive);
        let best = fixed.max_by(|a, b| median(a).total_cmp(&median(b)))?;
        let adaptive = row.iter().find(|cell| cell.batch == Batch::Adaptive)?;
        let here = |sample: &Sample| sample.distance == self.distance;
        let rate = |sample: &Sample| (sample.round, here(sample).then_some(sample.replies_per_sec));
        let ratio = Ratio::by_round(adaptive.samples.iter().map(rate), best.samples.iter().map(rate))?;
        Some((ratio.ratio, best.batch))
    }
}

/// A server for one batch size: a process, and a thread.
struct Side {
    batch: Batch,
    child: Option<Child>,
    local: Option<Local>,
}

impl Side {
    fn start(args: &MatrixArgs, batch: Batch) -> Result<Side, RpcError> {
        let (threads, processes): (Vec<&String>, Vec<&String>) =
            args.transports.iter().partition(|name| *name == "memory");
        let core = args.cores[1];
        let names: Vec<&str> = processes.iter().map(|name| name.as_str()).collect();
        let child = if names.is_empty() { None } else { Some(Child::start(&names, core, batch)?) };
        let local = if threads.is_empty() { None } else { Some(Local::start(core, batch)?) };
        Ok(Side { batch, child, local })
    }

    fn address(&self, transport: &str) -> &Address {
        let address = match transport {
            "memory" => self.local.as_ref().map(Local::address),
            _ => self.child.as_ref().and_then(|child| child.address(transport)),
        };
        address.expect("a server listens on every transport that it was started for")
    }
}

/// Calls the echo through its stub.
struct Say<'a> {
    client: EchoClient,
    text: &'a str,
    options: CallOptions<'static>,
}

impl Caller for Say<'_> {
    type Counts = ();

    #[inline]
    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError> {
        let text = self.text;
        self.client.say_async(channel, &self.options, user, |request| request.set_text(text)).map(drop)
    }

    #[inline]
    fn check(&mut self, event: &mut Event<'_>, (): &mut ()) -> Result<(), Status> {
        if event.message::<SayReply>()?.text().len() != self.text.len() {
            return Err(Status::new(Code::DataLoss, "the reply is not what was said"));
        }
        Ok(())
    }
}

/// See the head of the file.
///
/// # Errors
/// A server did not start, or cannot be reached.
pub fn run(args: &MatrixArgs, stop: &AtomicBool, bar: &ProgressBar) -> Result<Matrix, RpcError> {
    let servers: Vec<Side> =
        args.batches.iter().map(|&batch| Side::start(args, batch)).collect::<Result<_, _>>()?;
    let mut lines = Vec::new();
    for server in &servers {
        for transport in &args.transports {
            let channel = target::connect(server.address(transport), server.batch.policy())?;
            lines.push(Line { transport: transport.clone(), batch: server.batch, channel });
        }
    }
    cpu::pin_to(args.cores[0]).map_err(RpcError::Pin)?;
    let mut meter = Meter { args, text: "x".repeat(args.payload), lines, failed: None };
    let shape = (meter.lines.len(), args.windows.len());
    let mut contest = Contest::new(shape, (args.rounds, Order::Shuffled(1)), stop, (bar, 0.0, 1.0));
    contest.cores = Some(args.cores);
    let mut measured = contest.run(&mut meter)?;
    let (mut cells, mut left_out) = (Vec::new(), 0);
    for (cell, &window) in args.windows.iter().enumerate() {
        for (side, line) in meter.lines.iter().enumerate() {
            let all = measured.take(cell, side);
            let count = all.len();
            let samples: Vec<Sample> = all.into_iter().filter_map(Sample::of).collect();
            left_out += count - samples.len();
            cells.push(Cell { transport: line.transport.clone(), window, batch: line.batch, samples });
        }
    }
    Ok(Matrix {
        cores: args.cores,
        payload: args.payload,
        slice_ms: args.slice.as_secs_f64() * 1e3,
        rounds: measured.rounds,
        left_out,
        distance: most_common(&cells),
        cells,
        failed: meter.failed,
        environment: environment::facts(),
    })
}

/// A transport to a server with one batch size.
struct Line {
    transport: String,
    batch: Batch,
    channel: Channel,
}

/// What a slice gives.
struct Rates {
    replies_per_sec: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Sample {
    /// Of a slice in which the cores' distance did not change.
    fn of(sample: contest::Sample<Rates>) -> Option<Sample> {
        let distance = sample.distance()?.to_owned();
        let Rates { replies_per_sec, p50_us, p99_us } = sample.figures;
        Some(Sample { round: sample.round, distance, replies_per_sec, p50_us, p99_us })
    }
}

/// Takes one slice at a time.
struct Meter<'a> {
    args: &'a MatrixArgs,
    text: String,
    lines: Vec<Line>,
    failed: Option<(u64, String)>,
}

impl Meter<'_> {
    /// Calls on a line; nothing if calls failed.
    fn load(&mut self, turn: Turn, length: Duration) -> Result<Option<Tally>, RpcError> {
        let (window, channel) = (self.args.windows[turn.cell], &mut self.lines[turn.side].channel);
        let client = EchoClient::new(channel)?;
        let caller = Say { client, text: &self.text, options: CallOptions::default() };
        // No multiple of any batch, so that every place in a batch is seen.
        let sample = if window == 1 { 1 } else { 17 };
        let mut calls = Calls::new(channel, caller, window, sample);
        calls.spin = true;
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let tally = drive(&mut calls, &Plan::full(length.into()), Clock::shared().now(), &stop, &done);
        let Some(example) = tally.examples.first() else { return Ok(Some(tally)) };
        self.failed = Some((tally.all_failed(), example.clone()));
        Ok(None)
    }
}

impl Sides for Meter<'_> {
    type Figures = Rates;
    type Error = RpcError;

    fn name(&self, turn: Turn) -> String {
        let Line { transport, batch, .. } = &self.lines[turn.side];
        format!("{transport} window {} batch {batch}", self.args.windows[turn.cell])
    }

    fn warm_up(&mut self, turn: Turn) -> Result<(), RpcError> {
        for line in &mut self.lines {
            // No call is under way.
            line.channel.poll(1, |_| {});
        }
        self.load(turn, self.args.slice / 10).map(drop)
    }

    fn slice(&mut self, turn: Turn) -> Result<Slice<Rates>, RpcError> {
        let tally = if self.failed.is_some() { None } else { self.load(turn, self.args.slice)? };
        let Some(tally) = tally else { return Ok(Slice::Over) };
        let latency = tally.all_latencies();
        let at = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e3;
        let figures = Rates { replies_per_sec: tally.throughput(), p50_us: at(0.5), p99_us: at(0.99) };
        Ok(Slice::Measured(figures))
    }
}

/// The distance that most samples were taken at.
fn most_common(cells: &[Cell]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for sample in cells.iter().flat_map(|cell| &cell.samples) {
        *counts.entry(sample.distance.as_str()).or_insert(0usize) += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map_or("", |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::batch::Policy;

    #[test]
    fn a_call_that_fails_in_the_warm_up_fails_the_run() {
        let core = cpu::allowed_cores()[0];
        let args = MatrixArgs {
            transports: vec![],
            windows: vec![4],
            batches: vec![],
            rounds: 1,
            slice: Duration::from_millis(10),
            // No call with it can be started.
            payload: fabric::frame::MAX_MESSAGE,
            cores: [core, core],
        };
        // No other test has a server with this batch size.
        let local = Local::start(core, Batch::Fixed(63)).expect("a server");
        let channel = target::connect(local.address(), Policy::default()).expect("it listens");
        let line = Line { transport: "memory".to_owned(), batch: Batch::Fixed(63), channel };
        let mut meter =
            Meter { args: &args, text: "x".repeat(args.payload), lines: vec![line], failed: None };
        let turn = Turn { round: 0, cell: 0, side: 0 };
        meter.warm_up(turn).expect("it can be driven");
        assert!(matches!(meter.slice(turn), Ok(Slice::Over)));
        assert!(meter.failed.is_some_and(|(count, _)| count > 0));
    }

    #[test]
    fn adaptive_is_compared_with_the_best_fixed_size_round_by_round() {
        let cell = |batch, rates: &[f64]| {
            let sample = |(round, &replies_per_sec): (u32, &f64)| {
                let distance = if round == 2 { "across L3" } else { "same L3" }.to_owned();
                Sample { round, distance, replies_per_sec, p50_us: 1.0, p99_us: 2.0 }
            };
            let samples = (0..).zip(rates).map(sample).collect();
            Cell { transport: "shm".to_owned(), window: 8, batch, samples }
        };
        let cells = vec![
            cell(Batch::Fixed(1), &[10.0, 20.0, 90.0]),
            cell(Batch::Fixed(4), &[20.0, 40.0, 10.0]),
            cell(Batch::Adaptive, &[18.0, 36.0, 10.0]),
        ];
        let distance = most_common(&cells);
        assert_eq!(distance, "same L3");
        let matrix = Matrix {
            cores: [0, 1],
            payload: 64,
            slice_ms: 1.0,
            rounds: 3,
            left_out: 0,
            distance,
            cells,
            failed: None,
            environment: vec![],
        };
        let (spread, best) = matrix.adaptive_over_best("shm", 8).expect("both are there");
        assert_eq!((best, spread.samples), (Batch::Fixed(4), 2));
        assert!((spread.median - 0.9).abs() < 1e-9);
        assert!(matrix.adaptive_over_best("udp", 8).is_none());
    }
}
