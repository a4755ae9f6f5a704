//! What every sample of the benchmark needs: cores, probes before and after, a second process, and the table of results.

use base::spread::{self, Spread};
use base::{Clock, Nanos, cpu};
use ring::Mapping;
use ring::probe::{Distance, ping_pong};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

const CHILD_CORE: &str = "MILLRACE_RING_ECHO_CORE";
const PROBE: Duration = Duration::from_millis(3);

/// What the command line asked for.
pub struct Options {
    pub repeats: u32,
    pub time: Nanos,
    json: bool,
}

impl Options {
    pub fn from_args() -> Options {
        let has = |flag: &str| std::env::args().any(|arg| arg == flag);
        let (repeats, ms) = if has("--quick") { (3, 10) } else { (12, 40) };
        Options { repeats, time: Nanos::from_millis(ms), json: has("--json") }
    }
}

/// The first two cores that this process may use.
pub fn two_cores() -> Option<[usize; 2]> {
    cpu::allowed_cores().first_chunk().copied()
}

pub fn pin(core: usize) {
    cpu::pin_to(core).expect("an allowed core");
}

/// Runs `work` in a thread pinned to `core`, so that this one, and what it starts later, stays free.
pub fn on_core<T: Send>(core: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin(core);
            work()
        });
        pinned.join().expect("no panic")
    })
}

/// One sample's figures.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Million messages or calls a second.
    pub mrps: f64,
    /// Median round trip in ns, where one call at a time was made.
    pub round_trip: Option<f64>,
}

/// Repeats `step`, which returns how many messages it moved, for the time. The rate is that of the median stretch of some 2048
/// messages, so that a stretch in which the host took a core away does not count.
pub fn steady_rate(time: Nanos, mut step: impl FnMut() -> u64) -> Sample {
    const STRETCH: u64 = 2048;
    let clock = Clock::shared();
    let start = clock.now();
    let (mut last, mut per_message) = (start, Vec::with_capacity(1 << 14));
    while last.since(start) < time {
        let mut moved = 0;
        let mut idle = 0u32;
        while moved < STRETCH && idle < 1 << 20 {
            let n = step();
            moved += n;
            idle = if n == 0 { idle + 1 } else { 0 };
        }
        let now = clock.now();
        if moved > 0 {
            per_message.push(now.since(last).0 as f64 / moved as f64);
        }
        last = now;
    }
    let median = Spread::of(per_message).map_or(f64::INFINITY, |spread| spread.median);
    Sample { mrps: 1e3 / median, round_trip: None }
}

/// What is compared within a row of the table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    group: &'static str,
    n: u32,
    class: Distance,
    ring: &'static str,
}

#[derive(Default)]
struct Cell {
    mrps: Vec<f64>,
    round_trip: Vec<f64>,
    ratio: Vec<f64>,
}

/// All samples kept, and how many were not.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<Row, Cell>,
    probes: Vec<f64>,
    unclear: u32,
}

impl Table {
    /// Takes a sample between two probes and keeps it when both agree on the distance.
    pub fn run(
        &mut self,
        group: &'static str,
        ring: &'static str,
        n: u32,
        cores: [usize; 2],
        take: impl FnOnce() -> Option<Sample>,
    ) {
        let before = ping_pong(cores, PROBE);
        let sample = take();
        let after = ping_pong(cores, PROBE);
        let (Some(before), Some(sample), Some(after)) = (before, sample, after) else {
            self.unclear += 1;
            return;
        };
        if before.distance() != after.distance() {
            self.unclear += 1;
            return;
        }
        let raw = (before.round_trip.0 + after.round_trip.0) as f64 / 2.0;
        self.probes.push(raw);
        let cell = self.rows.entry(Row { group, n, class: before.distance(), ring }).or_default();
        cell.mrps.push(sample.mrps);
        if let Some(round_trip) = sample.round_trip {
            cell.round_trip.push(round_trip);
            cell.ratio.push(round_trip / raw);
        }
    }

    pub fn print(&self, options: &Options) {
        let kept: usize = self.rows.values().map(|cell| cell.mrps.len()).sum();
        if !options.json {
            println!(
                "{}; raw ping-pong {} ns",
                cpu::model_name(),
                spread::text(self.probes.iter().copied(), 2)
            );
            println!("{kept} samples kept, {} dropped since their two probes differ or failed", self.unclear);
            println!("median [p10..p90]; n is the batch (one way) or the window (echo)\n");
            println!(
                "{:<26}{:>4}  {:<13}{:<8}{:>4}  {:<25}{:<25}raw ping-pongs",
                "what", "n", "distance", "ring", "kept", "M/s", "round trip ns"
            );
        }
        for (row, cell) in &self.rows {
            let kept = cell.mrps.len();
            let [mrps, trip, ratio] =
                [&cell.mrps, &cell.round_trip, &cell.ratio].map(|values| Spread::of(values.iter().copied()));
            if options.json {
                println!(
                    "{{\"what\":\"{}\",\"n\":{},\"distance\":\"{}\",\"ring\":\"{}\",\"kept\":{kept},\"mrps\":{},\"round_trip_ns\":{},\"ratio\":{}}}",
                    row.group,
                    row.n,
                    row.class,
                    row.ring,
                    json(mrps),
                    json(trip),
                    json(ratio)
                );
            } else {
                let line = format!(
                    "{:<26}{:>4}  {:<13}{:<8}{kept:>4}  {:<25}{:<25}{}",
                    row.group,
                    row.n,
                    row.class,
                    row.ring,
                    human(mrps),
                    human(trip),
                    human(ratio)
                );
                println!("{}", line.trim_end());
            }
        }
    }
}

fn human(spread: Option<Spread>) -> String {
    spread.map_or(String::new(), |spread| spread.to_string())
}

fn json(spread: Option<Spread>) -> String {
    spread.map_or("null".into(), |Spread { median, p10, p90, .. }| format!("[{p10:.3},{median:.3},{p90:.3}]"))
}

/// The core this process is to serve on, when it is the child.
pub fn child_core() -> Option<usize> {
    std::env::var(CHILD_CORE).ok()?.parse().ok()
}

/// Memory of `bytes` and this program again as a child that has it as its standard input.
pub fn start_child(bytes: usize, core: usize) -> Option<(Arc<Mapping>, Child)> {
    let file: OwnedFd = memfd_create("millrace-echo", MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, bytes as u64).ok()?;
    let memory = Mapping::shared(&file, bytes).ok()?;
    let child = Command::new(std::env::current_exe().ok()?)
        .env(CHILD_CORE, core.to_string())
        .stdin(file)
        .spawn()
        .ok()?;
    Some((memory, child))
}

/// The child's view of that memory.
pub fn inherited_memory(bytes: usize) -> Arc<Mapping> {
    Mapping::shared(std::io::stdin().as_fd(), bytes).expect("the parent made it as large")
}
