//! What is counted of key-value operations besides their latencies, and the names of their failures.

use super::dialect::Refusal;
use super::ledger::Finding;
use crate::tally::{self, Merge, add, histogram};
use base::Nanos;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// What a phase against a key-value server gives.
pub type Tally = tally::Tally<Counts>;

/// Ways in which an operation failed without a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server does not know the command.
    Unknown,
    /// The server called the request bad.
    Client,
    /// The server failed.
    Server,
    /// The bytes were no answer, or to nothing asked.
    Protocol,
    /// The connection was lost with the operation under way.
    Disconnected,
    /// No answer came in time.
    TimedOut,
}

impl Failure {
    /// A name for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Unknown => "unknown command",
            Failure::Client => "client error",
            Failure::Server => "server error",
            Failure::Protocol => "protocol",
            Failure::Disconnected => "disconnected",
            Failure::TimedOut => "timed out",
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Unknown => Failure::Unknown,
            Refusal::Client => Failure::Client,
            Refusal::Server => Failure::Server,
            Refusal::Unanswered => Failure::TimedOut,
        }
    }
}

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Wrong values by the name of what is wrong; empty is good.
    pub wrongs: BTreeMap<&'static str, u64>,
    /// Keys asked for and found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Conditional writes whose condition did not hold.
    pub conflicts: u64,
    /// Values held against what may be read, good or bad.
    pub verified: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Latencies of the reads that a box answered on the way.
    pub by_box: Option<Box<Histogram<u64>>>,
    /// Requests that were sent again because nothing came.
    pub sent_again: u64,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        for (&wrong, count) in &other.wrongs {
            *self.wrongs.entry(wrong).or_default() += count;
        }
        add(&mut self.by_box, other.by_box.as_deref());
        self.sent_again += other.sent_again;
        self.hits += other.hits;
        self.misses += other.misses;
        self.conflicts += other.conflicts;
        self.verified += other.verified;
        self.sent += other.sent;
        self.received += other.received;
    }
}

impl Tally {
    /// A read that began at `start` was answered by a box; it is recorded as an operation besides.
    pub fn record_by_box(&mut self, start: Nanos, now: Nanos) {
        let ns = now.since(start).0.max(1);
        self.counts.by_box.get_or_insert_with(|| Box::new(histogram())).saturating_record(ns);
    }

    /// A wrong value was read.
    #[cold]
    pub fn wrong(&mut self, (wrong, text): Finding) {
        *self.counts.wrongs.entry(wrong.name()).or_default() += 1;
        self.example(|| format!("{}: {text}", wrong.name()));
    }

    /// How many values were wrong at all.
    pub fn all_wrongs(&self) -> u64 {
        self.counts.wrongs.values().sum()
    }
}
