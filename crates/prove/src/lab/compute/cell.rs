//! One line of the table: an operation, a way and a number of clients; measured slice by slice, and judged at the end.
//!
//! Every line has a key of its own. What it holds at the end must be what its operations that ended make it: no more, no less. One whose end is
//! not known (a client that gave up) may count or not.

use super::way::{Done, Operation, Way, once, read};
use base::{Clock, Nanos};
use bench::load::summary::Latency;
use hdrhistogram::Histogram;
use protocol::coherence::client::Call;
use protocol::wire::Verb;
use serde::Serialize;
use serve::inc::{Client, ClientError};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// What its clients did in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// Operations per second.
    pub ops_per_sec: f64,
    /// Median latency.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// See the file's head.
#[derive(Debug)]
pub struct Cell {
    /// What.
    pub operation: Operation,
    /// How.
    pub way: Way,
    /// By how many at once.
    pub clients: usize,
    /// One per round.
    pub slices: Vec<Slice>,
    key: String,
    numbers: AtomicU64,
    latencies: Histogram<u64>,
    counts: Counts,
}

/// What operations came to, of one client or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Operations that ended.
    pub done: u64,
    /// Of these, those that stored.
    pub stored: u64,
    /// Times that another client was faster.
    pub conflicts: u64,
    /// Of these that ended, those that a box answered.
    pub from_box: u64,
    /// Of which it is not known whether they were done.
    pub unknown: u64,
    /// Not done, since nobody answered.
    pub failed: u64,
    /// The largest number that was stored.
    pub largest: u64,
}

impl Counts {
    fn add(&mut self, done: Done) {
        self.done += 1;
        self.stored += u64::from(done.stored);
        self.conflicts += done.conflicts;
        self.from_box += u64::from(done.from_box);
        self.largest = self.largest.max(if done.stored { done.number } else { 0 });
    }

    fn join(&mut self, other: &Counts) {
        self.done += other.done;
        self.stored += other.stored;
        self.conflicts += other.conflicts;
        self.from_box += other.from_box;
        self.unknown += other.unknown;
        self.failed += other.failed;
        self.largest = self.largest.max(other.largest);
    }
}

/// A line as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What.
    pub operation: Operation,
    /// Where.
    pub way: Way,
    /// Clients.
    pub clients: usize,
    /// One per round.
    pub slices: Vec<Slice>,
    /// Of all rounds together.
    pub latency: Latency,
    /// Of all rounds together.
    pub counts: Counts,
    /// What its key held at the end.
    pub holds: u64,
    /// What it may hold: from, to.
    pub may_hold: [u64; 2],
}

impl Row {
    /// Whether the result is right.
    pub fn is_right(&self) -> bool {
        (self.may_hold[0]..=self.may_hold[1]).contains(&self.holds)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000_000, 3).expect("the bounds are good")
}

impl Cell {
    /// Line `number` of the table; its key is stored.
    ///
    /// # Errors
    /// The client's.
    pub fn new(
        number: usize,
        operation: Operation,
        way: &Way,
        clients: usize,
        by: &mut Client,
    ) -> Result<Cell, ClientError> {
        let key = format!("number-{number}");
        by.set(key.as_bytes(), operation.initial().to_string().as_bytes())?;
        Ok(Cell {
            operation,
            way: way.clone(),
            clients,
            slices: Vec::new(),
            key,
            numbers: AtomicU64::new(0),
            latencies: histogram(),
            counts: Counts::default(),
        })
    }

    /// Lets its clients work for `length`; a slice that only warms up counts for the result and in no figure.
    ///
    /// # Errors
    /// A status that no operation may end with, or a socket that failed.
    pub fn slice(&mut self, clients: &mut [Client], length: Nanos, warm_up: bool) -> Result<(), ClientError> {
        let barrier = Barrier::new(self.clients);
        let work = Work {
            way: &self.way,
            operation: self.operation,
            key: self.key.as_bytes(),
            numbers: &self.numbers,
        };
        let parts = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter_mut()
                .take(self.clients)
                .map(|client| {
                    scope.spawn(|| {
                        barrier.wait();
                        work.during(client, length)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
        })?;
        let (mut together, mut rate) = (histogram(), 0.0);
        for part in &parts {
            together.add(&part.latencies).expect("same bounds");
            rate += part.counts.done as f64 / part.took.as_secs_f64();
            self.counts.join(&part.counts);
        }
        if !warm_up {
            let us = |q| together.value_at_quantile(q) as f64 / 1e3;
            self.slices.push(Slice { ops_per_sec: rate, p50_us: us(0.5), p99_us: us(0.99) });
            self.latencies.add(&together).expect("same bounds");
        }
        Ok(())
    }

    /// Reads, past all boxes, what its operations made.
    ///
    /// # Errors
    /// The client's.
    pub fn judge(self, by: &mut Client) -> Result<Row, ClientError> {
        let get = Call { no_cache: true, ..Call::new(Verb::Get, self.key.as_bytes()) };
        let holds = read(&by.call(get)?)?;
        let asked = self.numbers.load(Ordering::Relaxed);
        let may_hold = match self.operation {
            Operation::Increment => [self.counts.done, self.counts.done + self.counts.unknown],
            // The largest was stored; but one whose end is not known may have been larger.
            Operation::Stores if self.counts.unknown > 0 => [self.counts.largest, asked],
            Operation::Stores => [self.counts.largest; 2],
            Operation::Refused => [self.operation.initial(); 2],
        };
        Ok(Row {
            operation: self.operation,
            way: self.way,
            clients: self.clients,
            slices: self.slices,
            latency: Latency::of(&self.latencies),
            counts: self.counts,
            holds,
            may_hold,
        })
    }
}

struct Work<'a> {
    way: &'a Way,
    operation: Operation,
    key: &'a [u8],
    numbers: &'a AtomicU64,
}

struct Part {
    latencies: Histogram<u64>,
    counts: Counts,
    took: Nanos,
}

impl Work<'_> {
    fn during(&self, client: &mut Client, length: Nanos) -> Result<Part, ClientError> {
        let clock = Clock::shared();
        let (mut latencies, mut counts) = (histogram(), Counts::default());
        let begun = clock.now();
        let mut now = begun;
        while now.since(begun) < length {
            let outcome = once(client, self.way, self.operation, self.key, self.numbers);
            let ended = clock.now();
            match outcome {
                Ok(done) => {
                    counts.add(done);
                    latencies.saturating_record(ended.since(now).0.max(1));
                }
                Err(ClientError::NotDone) => counts.failed += 1,
                Err(ClientError::Unknown) => counts.unknown += 1,
                Err(error) => return Err(error),
            }
            now = ended;
        }
        Ok(Part { latencies, counts, took: now.since(begun) })
    }
}
