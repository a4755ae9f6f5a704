//! One trial: a server in one mode, its clients, the chaos, and the verdict.
//!
//! Shape: start the server; clients fill it; a controller holds the memory at its target by the share of deletions; in the
//! middle of the run the target is lifted, so that in store mode the wall is hit and refusals are seen; then clients end,
//! every key is read once more, and the server must drain and end by itself.

use super::chaos::{self, Done};
use super::client::FILL;
use super::ledger::{Ledger, Promise};
use super::link::Link;
use super::parts;
use super::server::{Footprint, Limits, Said, Server};
use super::slot::{Board, Faults, Slot, Victim};
use bench::load::args::run_number;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use protocol::memcache::client::{Reply, request};
use serde::Serialize;
use serve::process::progress;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Share of the memory that is to be held by items and index.
pub const TARGET: f64 = 0.90;

/// The most that resident memory may be, as a share of the limit.
pub const RSS_LIMIT: f64 = 1.03;

/// About the mean item, for choosing how many keys there are; what is held is steered, not computed.
const MEAN_ITEM: u64 = 21 << 10;

/// Below the target by more than this, clients only fill.
const NEAR: f64 = 0.03;

/// How fast the share of deletions follows, per tick.
const GAIN: f64 = 0.25;

/// The part of the run in which the target is lifted, so that in store mode writes are refused.
const WALL: std::ops::Range<f64> = 0.45..0.50;

/// How often the server is looked at.
const TICK: Duration = Duration::from_millis(50);

/// How long descriptors may take to go when all clients have gone, and the server to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads asked for at once in the last check.
const CHECK_BATCH: usize = 16;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server's settings.
    pub limits: Limits,
    /// Client processes at a time.
    pub clients: usize,
    /// How long.
    pub time: Duration,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The server at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Resident memory, as a share of the limit.
    pub rss: f64,
    /// Items and index, as a share of the limit.
    pub occupied: f64,
    /// Operations so far.
    pub ops: u64,
    /// Descriptors of the server.
    pub descriptors: u64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `store` or `cache`.
    pub mode: &'static str,
    /// The memory limit, in bytes.
    pub limit: u64,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Keys in play.
    pub keys: u64,
    /// Keys that the last check read.
    pub checked_at_end: u64,
    /// Keys that had to be there at the end, and were.
    pub present_at_end: u64,
    /// Operations answered.
    pub ops: u64,
    /// Reads judged, those of the last check included.
    pub reads: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Writes refused for want of memory.
    pub refusals: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Clients started.
    pub clients: u64,
    /// What was done to them.
    pub chaos: Done,
    /// Writes that were cut off by a kill.
    pub cut_off: u64,
    /// Connections that the server closed because buffers were full or the reader slow.
    pub closed: u64,
    /// Items and index, as a share of the limit: the mean of the second half.
    pub occupied: f64,
    /// Resident memory before the first client, as a share of the limit.
    pub rss_at_start: f64,
    /// The most resident memory ever, as a share of the limit.
    pub rss_peak: f64,
    /// Threads of the server at the start and the most there ever were.
    pub threads: (u64, u64),
    /// Descriptors of the server at the start, at most, and at the end.
    pub descriptors: (u64, u64, u64),
    /// CPU seconds of the server.
    pub cpu_s: f64,
    /// CPU time of the server per operation, in microseconds.
    pub cpu_us_per_op: f64,
    /// Median time to an answer in a batch, in microseconds.
    pub p50_us: u64,
    /// The 99th percentile of it.
    pub p99_us: u64,
    /// How long the server took to drain and end, in milliseconds.
    pub drain_ms: f64,
    /// How many promises were broken.
    pub faults: u64,
    /// The first of them.
    pub examples: Vec<String>,
    /// The course of it.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Runs one trial.
///
/// # Errors
/// When it could not be started. Broken promises are in the outcome.
pub fn run(plan: &Plan, bar: &ProgressBar, interrupted: &AtomicBool) -> Result<Outcome, String> {
    let mut server = Server::start(&plan.limits)?;
    // Before it is asked anything: a question is a descriptor, too.
    let start = server.footprint().ok_or("the server ended at once")?;
    let cpu = server.cpu().unwrap_or_default();
    let (run, board) = (run_number(0), Board::new(FILL));
    let victims: Vec<Victim> = (0..plan.clients).map(|_| Victim::default()).collect();
    let began = Instant::now();
    let slots = slots(plan, &server, run, &board, &victims);
    let keys = slots.last().map_or(0, |slot| slot.ledger.keys().end);
    let mut watch = Watch::new(plan, began);
    let address = server.address;
    let (chaos, mut slots) = std::thread::scope(|scope| {
        let chaos = scope.spawn(|| chaos::run(&board, &victims, address, keys, plan.seed));
        let working: Vec<_> = slots.into_iter().map(|slot| scope.spawn(|| slot.run())).collect();
        watch.until_the_end(&mut server, &board, bar, interrupted);
        // First the chaos, which wakes who is stopped, then the clients.
        board.stop.store(true, Ordering::SeqCst);
        let chaos = chaos.join().expect("chaos does not panic");
        (
            chaos,
            working.into_iter().map(|slot| slot.join().expect("a slot does not panic")).collect::<Vec<_>>(),
        )
    });
    progress::show(bar, 1.0, "reading every key");
    let cpu = server.cpu().unwrap_or_default().since(&cpu);
    let seconds = began.elapsed().as_secs_f64();
    let mut latency = Histogram::<u64>::new(3).expect("three digits are fine");
    slots.iter().for_each(|slot| latency.add(&slot.latency).expect("both count microseconds"));
    let checked = last_check(&server, run, &board, &mut slots);
    let present = slots.iter().map(|slot| slot.ledger.present() as u64).sum();
    let said = server.ask().unwrap_or(watch.said);
    watch.close_the_books(&server, &board, &said, &start);
    let drain_ms = drain(&mut server, &board, keys);
    let ops = board.ops.load(Ordering::SeqCst);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::SeqCst);
    let Faults { count: faults, examples } = board.faults();
    let share = |bytes: u64| bytes as f64 / plan.limits.memory.0 as f64;
    Ok(Outcome {
        mode: if plan.limits.promise == Promise::Store { "store" } else { "cache" },
        limit: plan.limits.memory.0,
        seconds,
        keys: u64::from(keys),
        checked_at_end: checked,
        present_at_end: present,
        ops,
        reads: count(&board.reads),
        writes: count(&board.writes),
        refusals: count(&board.refusals),
        evictions: said.evictions,
        clients: count(&board.clients),
        chaos,
        cut_off: count(&board.cut_off),
        closed: count(&board.closed),
        occupied: watch.occupied(),
        rss_at_start: share(start.rss),
        rss_peak: share(watch.most.peak.max(watch.most.rss)),
        threads: (start.threads, watch.most.threads),
        descriptors: (start.descriptors, watch.most.descriptors, watch.last.descriptors),
        cpu_s: cpu.total_ns as f64 / 1e9,
        cpu_us_per_op: cpu.total_ns as f64 / 1e3 / ops.max(1) as f64,
        p50_us: latency.value_at_quantile(0.5),
        p99_us: latency.value_at_quantile(0.99),
        drain_ms,
        faults,
        examples,
        samples: watch.samples,
    })
}

fn slots<'s>(
    plan: &Plan,
    server: &Server,
    run: u32,
    board: &'s Board,
    victims: &'s [Victim],
) -> Vec<Slot<'s>> {
    // Four fifths of the keys are there in the long run, so that reads find both kinds.
    let present = plan.limits.memory.0 as f64 * TARGET / MEAN_ITEM as f64;
    let each = ((present / 0.8) as u32 / plan.clients as u32).max(64);
    let make = |(number, victim)| Slot {
        number,
        server: (server.pid(), server.address),
        run,
        seed: plan.seed,
        ledger: Ledger::new(plan.limits.promise, number as u32 * each, each),
        latency: Histogram::new(3).expect("three digits are fine"),
        board,
        victim,
    };
    victims.iter().enumerate().map(make).collect()
}

/// The controller, and what it saw.
struct Watch<'p> {
    plan: &'p Plan,
    began: Instant,
    samples: Vec<Sample>,
    said: Said,
    most: Footprint,
    last: Footprint,
    /// Share of deletions among writes that holds the memory at the target.
    deletions: f64,
}

impl Watch<'_> {
    fn new(plan: &Plan, began: Instant) -> Watch<'_> {
        let (said, most, last) = (Said::default(), Footprint::default(), Footprint::default());
        Watch { plan, began, samples: Vec::new(), said, most, last, deletions: 0.2 }
    }

    fn until_the_end(
        &mut self,
        server: &mut Server,
        board: &Board,
        bar: &ProgressBar,
        interrupted: &AtomicBool,
    ) {
        while self.began.elapsed() < self.plan.time && !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            if let Some(status) = server.ended() {
                board.fault(format_args!("the server ended: {status}; it said:\n{}", server.last_words()));
                return;
            }
            match server.ask() {
                Ok(said) => self.said = said,
                Err(e) => board.fault(e),
            }
            if self.said.memory > 1.0 {
                board.fault(format_args!("the store counts {:.4} of its limit as used", self.said.memory));
            }
            self.look(server, board);
            let done = self.began.elapsed().as_secs_f64() / self.plan.time.as_secs_f64();
            board.order.store(self.order(done), Ordering::Relaxed);
            let name = if self.plan.limits.promise == Promise::Store { "store" } else { "cache" };
            let text =
                format!("{name}: {:.0} % full, {} faults", self.said.occupied * 100.0, board.faults().count);
            progress::show(bar, done, &text);
        }
    }

    fn look(&mut self, server: &Server, board: &Board) {
        let Some(now) = server.footprint() else { return };
        self.last = now;
        self.most = Footprint {
            rss: self.most.rss.max(now.rss),
            peak: self.most.peak.max(now.peak),
            threads: self.most.threads.max(now.threads),
            descriptors: self.most.descriptors.max(now.descriptors),
        };
        self.samples.push(Sample {
            at_s: self.began.elapsed().as_secs_f64(),
            rss: now.rss as f64 / self.plan.limits.memory.0 as f64,
            occupied: self.said.occupied,
            ops: board.ops.load(Ordering::Relaxed),
            descriptors: now.descriptors,
        });
    }

    /// The order of the day: fill below the target; around it, delete as much as keeps it there.
    fn order(&mut self, done: f64) -> u8 {
        let share = match self.plan.limits.promise {
            Promise::Store => {
                let wall = WALL.contains(&done);
                let off = self.said.occupied - TARGET;
                if wall || off < -NEAR {
                    return FILL;
                }
                self.deletions = (self.deletions + off * GAIN).clamp(0.01, 0.9);
                // The sum finds the share; the part in proportion keeps it from swinging.
                (self.deletions + off * 8.0).clamp(0.01, 0.9)
            }
            Promise::Cache if self.said.evictions == 0 => return FILL,
            Promise::Cache => 0.05,
        };
        (share * 255.0) as u8
    }

    /// Items and index as a share of the limit, the mean of the second half.
    fn occupied(&self) -> f64 {
        let half = &self.samples[self.samples.len() / 2..];
        half.iter().map(|s| s.occupied).sum::<f64>() / half.len().max(1) as f64
    }

    /// What must hold when all clients have gone.
    fn close_the_books(&mut self, server: &Server, board: &Board, said: &Said, start: &Footprint) {
        let began = Instant::now();
        self.look(server, board);
        while self.last.descriptors > start.descriptors && began.elapsed() < PATIENCE {
            std::thread::sleep(TICK);
            self.look(server, board);
        }
        if self.last.descriptors > start.descriptors {
            board.fault(format_args!(
                "the server has {} descriptors with all clients gone, {} before the first",
                self.last.descriptors, start.descriptors
            ));
        }
        if self.most.threads != start.threads {
            board.fault(format_args!(
                "the server had {} threads, {} at its start",
                self.most.threads, start.threads
            ));
        }
        let (limit, most) = (self.plan.limits.memory.0, self.most.peak.max(self.most.rss));
        if most as f64 > limit as f64 * RSS_LIMIT {
            board.fault(format_args!(
                "resident memory reached {most} bytes, {:.2} % of the limit of {limit}; {:.0} % are allowed",
                most as f64 / limit as f64 * 100.0,
                RSS_LIMIT * 100.0
            ));
        }
        let (closed, owned_up) =
            (board.closed.load(Ordering::SeqCst), said.buffer_refusals + said.slow_reader_kicks);
        if closed > owned_up {
            board.fault(format_args!(
                "the server closed {closed} connections of clients that did nothing wrong, and owns up to {owned_up}"
            ));
        }
    }
}

/// Reads every key and holds it against the ledger. Returns how many were read.
fn last_check(server: &Server, run: u32, board: &Board, slots: &mut [Slot<'_>]) -> u64 {
    let mut link = match Link::open(&server.address.to_string()) {
        Ok(link) => link,
        Err(why) => {
            board.fault(format_args!("the last check {why}"));
            return 0;
        }
    };
    let mut checked = 0;
    for slot in slots {
        let keys: Vec<u32> = slot.ledger.keys().collect();
        for keys in keys.chunks(CHECK_BATCH) {
            let names: HashMap<Vec<u8>, u32> = keys.iter().map(|&key| (parts::name(key), key)).collect();
            let expect = request::read(&mut link.out, "get", names.keys().map(Vec::as_slice));
            link.expect(expect);
            let mut found = HashMap::new();
            let each = |reply: Reply<'_>, _| {
                if let Reply::Value { key, flags, data, .. } = reply
                    && let Some(&key) = names.get(key)
                {
                    found.insert(key, parts::read(data, key, run, flags));
                }
            };
            if let Err(why) = link.exchange(each, || ()) {
                board.fault(format_args!("the last check {why}"));
                return checked;
            }
            for key in keys {
                let seen = found.remove(key).unwrap_or(super::ledger::Seen::Absent);
                board.judge(slot.ledger.observe(*key, seen));
                checked += 1;
            }
        }
    }
    board.reads.fetch_add(checked, Ordering::Relaxed);
    checked
}

/// Sends requests, SIGTERM right behind them, and expects every answer, then the end with status 0. Returns the time from
/// the signal to the end, in milliseconds.
fn drain(server: &mut Server, board: &Board, keys: u32) -> f64 {
    const REQUESTS: u32 = 200;
    // Once: a second signal ends a server at once.
    let (mut began, mut told) = (Instant::now(), false);
    match Link::open(&server.address.to_string()) {
        Ok(mut link) => {
            for key in (0..keys).take(REQUESTS as usize) {
                let expect = request::read(&mut link.out, "get", [parts::name(key).as_slice()]);
                link.expect(expect);
            }
            let mut answered = 0;
            let each = |_: Reply<'_>, last: bool| answered += u32::from(last);
            let answer = link.exchange(each, || {
                if !std::mem::replace(&mut told, true) {
                    began = Instant::now();
                    server.terminate();
                }
            });
            if let Err(why) = answer {
                board.fault(format_args!(
                    "a client with {REQUESTS} requests sent before SIGTERM {why} after {answered} answers"
                ));
            }
        }
        Err(why) => board.fault(format_args!("the client that was to see the drain {why}")),
    }
    if !told {
        server.terminate();
    }
    match server.finish(PATIENCE) {
        Ok(status) if status.success() => {}
        Ok(status) => board.fault(format_args!(
            "the server ended with {status} after SIGTERM; it said:\n{}",
            server.last_words()
        )),
        Err(why) => board.fault(format_args!("the server did not end: {why}")),
    }
    began.elapsed().as_secs_f64() * 1e3
}
