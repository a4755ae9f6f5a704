//! What clients saw: each records by itself; at the end it becomes one history.
//!
//! Times are those of the machine's monotonic clock, which all processes share: so what several recorded is merged by time.

use super::journal::Journal;
use base::{Nanos, Picos};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sim::history::History;
use sim::kv::{Op, Ret};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

/// The longest latency that is told from longer ones: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Now, by the clock of all processes of this machine. Not the cycle counter: each process calibrates that for itself.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What an operation is, for latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// Of a class.
    pub fn of(&self, class: Class) -> &Histogram<u64> {
        &self.0[class as usize]
    }
}

/// A moment in a client's life.
#[derive(Debug, PartialEq)]
pub enum Saw {
    /// It asks.
    Call {
        /// For which key.
        key: Vec<u8>,
        /// What.
        op: Op,
    },
    /// Its operation ended: what it knows, and what the answer was; none where nothing was done.
    Return(Ret, Option<Class>),
}

/// When, the operation's number, what.
pub type Event = (Nanos, u64, Saw);

#[derive(Debug)]
enum Sink {
    Memory(Vec<Event>),
    Journal(Journal),
}

/// What one client saw.
#[derive(Debug)]
pub struct Part {
    client: u32,
    calls: u64,
    sink: Sink,
}

impl Part {
    /// Nothing yet.
    pub fn new(client: u32) -> Part {
        Part { client, calls: 0, sink: Sink::Memory(Vec::new()) }
    }

    /// Nothing yet; what comes is in a file before anything is sent, and survives the client.
    pub fn on_disk(client: u32, path: &Path) -> io::Result<Part> {
        Ok(Part { client, calls: 0, sink: Sink::Journal(Journal::create(path)?) })
    }

    /// What a client left in its file.
    ///
    /// # Errors
    /// In words.
    pub fn read(client: u32, path: &Path) -> Result<Part, String> {
        Ok(Part { client, calls: 0, sink: Sink::Memory(super::journal::read(path)?) })
    }

    /// It asks; the operation's number.
    pub fn call(&mut self, at: Nanos, key: &[u8], op: Op) -> io::Result<u64> {
        let id = u64::from(self.client) << 40 | self.calls;
        self.calls += 1;
        self.note((at, id, Saw::Call { key: key.into(), op }))?;
        Ok(id)
    }

    /// It is answered, or knows that nothing was done.
    pub fn returns(&mut self, at: Nanos, id: u64, ret: Ret, class: Option<Class>) -> io::Result<()> {
        self.note((at, id, Saw::Return(ret, class)))
    }

    fn note(&mut self, event: Event) -> io::Result<()> {
        match &mut self.sink {
            Sink::Memory(events) => {
                events.push(event);
                Ok(())
            }
            Sink::Journal(journal) => journal.write(&event),
        }
    }
}

/// That an operation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Since the beginning.
    pub at: Nanos,
    /// Whose.
    pub client: u32,
    /// What it was.
    pub class: Class,
}

/// What all saw.
#[derive(Debug)]
pub struct Recorded {
    /// In order.
    pub history: History<Op, Ret>,
    /// The same, and for each owner of keys that died a flush that any key may have met or not; none where no owner died.
    pub lossy: Option<History<Op, Ret>>,
    /// Of all clients.
    pub latencies: Latencies,
    /// In order.
    pub ends: Vec<End>,
    /// Operations begun.
    pub called: u64,
}

/// The flush that a home's death is: from its death until nothing of its earlier life can be seen; for ever, where that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wipe {
    /// Since the beginning.
    pub from: Nanos,
    /// Since the beginning.
    pub to: Option<Nanos>,
}

/// The client whose operations are [`Wipe`]s.
const NOBODY: u32 = u32::MAX;
/// The one whose operations are losses that may have been.
const OWNERS: u32 = NOBODY - 1;

impl Recorded {
    /// Merges what was seen since `begun`, by time; `owners` are when boxes died that may have owned keys.
    /// At one moment calls come first: so nothing is ordered that was not.
    pub fn merge(parts: Vec<Part>, wipes: &[Wipe], owners: &[Nanos], begun: Nanos) -> Recorded {
        let mut events: Vec<(u32, Event)> = Vec::new();
        for part in parts {
            let Sink::Memory(of) = part.sink else { unreachable!("what is on disk is read before") };
            events.extend(of.into_iter().map(|event| (part.client, event)));
        }
        for (number, wipe) in (0..).zip(wipes) {
            let id = u64::from(NOBODY) << 32 | number;
            let (key, op) = (Vec::new(), Op::Flush { delay: None });
            events.push((NOBODY, (begun.plus(wipe.from), id, Saw::Call { key, op })));
            if let Some(to) = wipe.to {
                let ret = Ret::of(sim::kv::Status::Ok);
                events.push((NOBODY, (begun.plus(to), id, Saw::Return(ret, None))));
            }
        }
        for (number, died) in (0..).zip(owners) {
            let (key, op) = (Vec::new(), Op::Flush { delay: None });
            let id = u64::from(OWNERS) << 32 | number;
            events.push((OWNERS, (begun.plus(*died), id, Saw::Call { key, op })));
        }
        events.sort_by_key(|(_, (at, id, saw))| (*at, matches!(saw, Saw::Return(..)), *id));
        let (history, latencies) = (History::new(), Latencies::new());
        let lossy = (!owners.is_empty()).then(History::new);
        let mut recorded = Recorded { history, lossy, latencies, ends: Vec::new(), called: 0 };
        let mut called = HashMap::new();
        for (client, (at, id, saw)) in events {
            let at = at.since(begun);
            match saw {
                Saw::Call { key, op } => {
                    called.insert(id, at);
                    recorded.called += u64::from(client < OWNERS);
                    if let Some(lossy) = &mut recorded.lossy {
                        lossy.call(Picos::from(at), client, id, &key, op.clone());
                    }
                    if client != OWNERS {
                        recorded.history.call(Picos::from(at), client, id, &key, op);
                    }
                }
                Saw::Return(ret, class) => {
                    if let Some(class) = class {
                        recorded.latencies.0[class as usize].saturating_record(at.since(called[&id]).0);
                        recorded.ends.push(End { at, client, class });
                    }
                    if let Some(lossy) = &mut recorded.lossy {
                        lossy.returns(Picos::from(at), id, ret.clone());
                    }
                    recorded.history.returns(Picos::from(at), id, ret);
                }
            }
        }
        recorded
    }

    /// Operations that were answered.
    pub fn answered(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Writes the history as JSON Lines.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        self.history.write(&mut out)?;
        out.flush()
    }
}
