//! One line of the table: an operation, a way and a number of clients; measured slice by slice, and judged at the end.
//!
//! Every line has a key of its own. What it holds at the end must be what its operations that ended make it: no more, no less. One whose end is
//! not known (a client that gave up) may count or not.

use super::way::{Done, Operation, Way, once, read};
use base::{Clock, Nanos};
use bench::drive::{Ask, Lost, OneByOne, Plan, together};
use bench::tally::{Latency, Merge, Tally};
use protocol::coherence::client::Call;
use protocol::wire::Verb;
use serde::Serialize;
use serve::inc::{Client, ClientError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    key: String,
    numbers: AtomicU64,
    tally: Tally<Counts>,
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
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
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
            key,
            numbers: AtomicU64::new(0),
            tally: Tally::default(),
        })
    }

    /// Lets its clients work for `length`; a slice that only warms up counts for the result and in no figure.
    ///
    /// # Errors
    /// A status that no operation may end with, or a socket that failed.
    pub fn slice(
        &mut self,
        clients: &mut [Client],
        length: Nanos,
        warm_up: bool,
    ) -> Result<Option<Slice>, ClientError> {
        let (way, operation, key) = (&self.way, self.operation, self.key.as_bytes());
        let work =
            |client| OneByOne::new(Work { client, way, operation, key, numbers: &self.numbers, error: None });
        let mut all: Vec<_> = clients.iter_mut().take(self.clients).map(work).collect();
        let tally = together(&mut all, |_| Plan::full(length), &[], &AtomicBool::new(false), None);
        if let Some(error) = all.into_iter().find_map(|one| one.asker.error) {
            return Err(error);
        }
        if warm_up {
            self.tally.counts.merge(&tally.counts);
            return Ok(None);
        }
        self.tally.merge(&tally);
        let Latency { p50_us, p99_us, .. } = Latency::of(&tally.all_latencies());
        Ok(Some(Slice { ops_per_sec: tally.throughput(), p50_us, p99_us }))
    }

    /// Reads, past all boxes, what its operations made.
    ///
    /// # Errors
    /// The client's.
    pub fn judge(self, slices: Vec<Slice>, by: &mut Client) -> Result<Row, ClientError> {
        let counts = self.tally.counts.clone();
        let get = Call { no_cache: true, ..Call::new(Verb::Get, self.key.as_bytes()) };
        let holds = read(&by.call(get)?)?;
        let asked = self.numbers.load(Ordering::Relaxed);
        let may_hold = match self.operation {
            Operation::Increment => [counts.done, counts.done + counts.unknown],
            // The largest was stored; but one whose end is not known may have been larger.
            Operation::Stores if counts.unknown > 0 => [counts.largest, asked],
            Operation::Stores => [counts.largest; 2],
            Operation::Refused => [self.operation.initial(); 2],
        };
        Ok(Row {
            operation: self.operation,
            way: self.way,
            clients: self.clients,
            slices,
            latency: Latency::of(&self.tally.all_latencies()),
            counts,
            holds,
            may_hold,
        })
    }
}

struct Work<'a> {
    client: &'a mut Client,
    way: &'a Way,
    operation: Operation,
    key: &'a [u8],
    numbers: &'a AtomicU64,
    /// Why it could not go on.
    error: Option<ClientError>,
}

impl Ask for Work<'_> {
    type Counts = Counts;

    fn ask(&mut self, meant: Nanos, tally: &mut Tally<Counts>) -> Result<(), Lost> {
        match once(self.client, self.way, self.operation, self.key, self.numbers) {
            Ok(done) => {
                tally.counts.add(done);
                tally.record((), meant, Clock::shared().now());
            }
            Err(ClientError::NotDone) => tally.counts.failed += 1,
            Err(ClientError::Unknown) => tally.counts.unknown += 1,
            Err(error) => {
                let why = error.to_string();
                self.error = Some(error);
                return Err(Lost { failure: "client", why });
            }
        }
        Ok(())
    }
}
