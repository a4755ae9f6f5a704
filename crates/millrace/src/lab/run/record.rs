//! What clients saw: each records by itself; at the end it becomes one history.

use base::{Nanos, Picos};
use hdrhistogram::Histogram;
use sim::history::History;
use sim::kv::{Op, Ret};
use std::io::{self, Write};
use std::path::Path;

/// The longest latency that is told from longer ones: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// What an operation is, for latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A read that a box answered.
    Hit,
    /// A read that a home answered.
    Miss,
    /// Stores or removes.
    Write,
    /// Computes, answered by a box.
    ComputeHit,
    /// Computes, at the home.
    Compute,
}

impl Class {
    /// All, in the order of printing.
    pub const ALL: [(Class, &str); 5] = [
        (Class::Hit, "read, by a box"),
        (Class::Miss, "read, at the home"),
        (Class::Write, "write"),
        (Class::ComputeHit, "compute, by a box"),
        (Class::Compute, "compute, at the home"),
    ];
}

/// Latencies by class.
#[derive(Debug)]
pub struct Latencies([Histogram<u64>; 5]);

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        let one = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are good");
        Latencies(std::array::from_fn(|_| one()))
    }

    /// One more.
    pub fn note(&mut self, class: Class, took: Nanos) {
        self.0[class as usize].saturating_record(took.0);
    }

    /// Of a class.
    pub fn of(&self, class: Class) -> &Histogram<u64> {
        &self.0[class as usize]
    }

    fn add(&mut self, other: &Latencies) {
        for (sum, part) in self.0.iter_mut().zip(&other.0) {
            sum.add(part).expect("all have the same bounds");
        }
    }
}

#[derive(Debug)]
enum Saw {
    Call { key: Vec<u8>, op: Op },
    Return(Ret),
}

/// What one client saw.
#[derive(Debug)]
pub struct Part {
    client: u32,
    events: Vec<(Nanos, u64, Saw)>,
    /// Latencies of operations that were answered.
    pub latencies: Latencies,
    calls: u64,
}

impl Part {
    /// Nothing yet.
    pub fn new(client: u32) -> Part {
        Part { client, events: Vec::new(), latencies: Latencies::new(), calls: 0 }
    }

    /// It asks; the operation's number.
    pub fn call(&mut self, at: Nanos, key: &[u8], op: Op) -> u64 {
        let id = u64::from(self.client) << 40 | self.calls;
        self.calls += 1;
        self.events.push((at, id, Saw::Call { key: key.into(), op }));
        id
    }

    /// It is answered.
    pub fn returns(&mut self, at: Nanos, id: u64, ret: Ret) {
        self.events.push((at, id, Saw::Return(ret)));
    }
}

/// What all saw.
#[derive(Debug)]
pub struct Recorded {
    /// In order.
    pub history: History<Op, Ret>,
    /// Of all clients.
    pub latencies: Latencies,
    /// Operations begun.
    pub called: u64,
    /// Of these, answered.
    pub answered: u64,
}

impl Recorded {
    /// Merges what was seen since `begun`, by time. At one moment calls come first: so nothing is ordered that was not.
    pub fn merge(parts: Vec<Part>, begun: Nanos) -> Recorded {
        let mut recorded =
            Recorded { history: History::new(), latencies: Latencies::new(), called: 0, answered: 0 };
        let mut events = Vec::new();
        for part in parts {
            recorded.latencies.add(&part.latencies);
            events.extend(part.events.into_iter().map(|event| (part.client, event)));
        }
        events.sort_by_key(|(_, (at, id, saw))| (*at, matches!(saw, Saw::Return(_)), *id));
        for (client, (at, id, saw)) in events {
            let at = Picos::from(at.since(begun));
            match saw {
                Saw::Call { key, op } => {
                    recorded.called += 1;
                    recorded.history.call(at, client, id, &key, op);
                }
                Saw::Return(ret) => {
                    recorded.answered += 1;
                    recorded.history.returns(at, id, ret);
                }
            }
        }
        recorded
    }

    /// Writes the history as JSON Lines.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        self.history.write(&mut out)?;
        out.flush()
    }
}
