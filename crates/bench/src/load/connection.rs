//! One connection: draws operations, writes them in batches, reads answers, holds every value against the ledger.
//!
//! Shape: requests go to a [`Line`] and are remembered in `under_way` in that order; an answer that comes out of its turn names its
//! request, which is then brought to the front. A read's keys wait in `asked` until their items (or the end of the answer) come.
//! A read-modify-write is two requests of one operation: the second is sent when the first is answered, the latency runs over both.
//!
//! Invariants:
//! 1. `places` (operations under way) never exceeds the phase's pipeline; `under_way.len() == places`, because a
//!    read-modify-write is always in exactly one of its two requests (but for the moment between them, within `receive`).
//! 2. Every key in `asked` belongs to an operation in `under_way`, in the same order.
//!
//! Cost: no allocation per operation once the buffers have grown.

mod answers;

use super::counts::{Failure, Tally};
use super::dialect::Storing;
use super::ledger::{Expected, Ledger, OwnKeys};
use super::line::{Ask, Line, Ticket};
use super::mix::OpKind;
use super::sizes::ValueSizes;
use super::workload::{Job, Keys, Phase, Population, Workload, preload_share, view_of};
use base::{Clock, Nanos, Prng};
use std::collections::VecDeque;
use std::io;

/// What all connections to one server share.
#[derive(Debug)]
pub struct Shared {
    /// The writes of the run.
    pub ledger: Ledger,
    /// The keys of the run.
    pub population: Population,
    /// How many connections there are.
    pub connections: u64,
    /// Whether a miss of a key that must be there is a wrong value.
    pub misses_fail: bool,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// What a request under way does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Read { keys: u32 },
    Write,
    Delete,
    Touch,
}

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
struct Write {
    kind: OpKind,
    key: u64,
    len: usize,
    ttl_s: u32,
    cas: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    ticket: Ticket,
    kind: OpKind,
    request: Request,
    key: u64,
    start: Nanos,
}

/// Where operations come from in the current phase.
enum Source<'p> {
    Idle,
    Preload { ids: Box<dyn Iterator<Item = u64> + Send>, values: ValueSizes },
    Load { keys: Keys<'p>, workload: Workload, left: u64 },
}

/// A connection of the generator. `'p` is the life of what all share.
pub struct Connection<'p> {
    index: u64,
    shared: &'p Shared,
    /// Away only while its answers are read.
    line: Option<Box<dyn Line>>,
    next_ticket: u64,
    source: Source<'p>,
    prng: Prng,
    own: Option<OwnKeys>,
    own_inserts: u64,
    under_way: VecDeque<UnderWay>,
    asked: VecDeque<(u64, Expected)>,
    /// The unique number that the read of a read-modify-write found: `Some(None)` where the language has none.
    found: Option<Option<u64>>,
    /// Second halves of read-modify-writes, to be sent when the answers are read: key, unique number, start.
    write_backs: Vec<(u64, Option<u64>, Nanos)>,
    /// When places in the pipeline may be used again, where operations pause in between.
    resting: VecDeque<Nanos>,
    scratch: Vec<u64>,
    last_answer: Nanos,
}

impl<'p> Connection<'p> {
    /// Connection number `index` over `line`.
    pub fn new(index: u64, shared: &'p Shared, line: Box<dyn Line>) -> Connection<'p> {
        let own = shared.population.owned.then(|| {
            OwnKeys::new(
                view_of(&shared.population, index, shared.connections)
                    .count_below(shared.population.preloaded),
            )
        });
        Connection {
            index,
            shared,
            line: Some(line),
            next_ticket: 0,
            source: Source::Idle,
            prng: Prng::new(shared.seed),
            own,
            own_inserts: 0,
            under_way: VecDeque::new(),
            asked: VecDeque::new(),
            found: None,
            write_backs: Vec::new(),
            resting: VecDeque::new(),
            scratch: Vec::new(),
            last_answer: Nanos::ZERO,
        }
    }

    /// Gets ready for `phase`. Nothing may be under way.
    pub fn begin(&mut self, phase: &Phase, now: Nanos) {
        assert!(self.under_way.is_empty(), "a phase begins while operations of the last are under way");
        let shared = self.shared;
        self.prng = Prng::for_entity(shared.seed, self.index, phase.number);
        self.last_answer = now;
        self.resting.clear();
        self.line_mut().begin(phase.dialect, shared.population.format);
        self.source = match &phase.job {
            Job::Preload(values) => {
                let ids = preload_share(shared.population.preloaded, self.index, shared.connections);
                Source::Preload { ids: Box::new(ids), values: *values }
            }
            Job::Load { workload, ops_each, .. } => {
                let keys = Keys::new(
                    &shared.population,
                    workload.popularity,
                    self.index,
                    shared.connections,
                    self.own_inserts,
                );
                Source::Load { keys, workload: workload.clone(), left: *ops_each }
            }
        };
    }

    /// What carries its operations.
    pub fn line(&self) -> &dyn Line {
        self.line.as_deref().expect("answers are read within a call")
    }

    fn line_mut(&mut self) -> &mut dyn Line {
        self.line.as_deref_mut().expect("answers are read within a call")
    }

    /// Operations under way.
    pub fn places(&self) -> usize {
        self.under_way.len()
    }

    /// Since when the oldest operation under way has been at the head of the line: its own start, or the last answer.
    pub fn waiting_since(&self) -> Nanos {
        self.under_way.front().map_or(self.last_answer, |head| head.start.max(self.last_answer))
    }

    /// Closed loop: fills the pipeline when at least `phase.batch` places are free. False when there is nothing more to do.
    pub fn refill(&mut self, phase: &Phase, clock: Clock, tally: &mut Tally) -> bool {
        let free = phase.pipeline.saturating_sub(self.under_way.len());
        if free == 0 || (free < phase.batch && !self.under_way.is_empty()) {
            return true;
        }
        let now = clock.now();
        for _ in 0..free {
            let resting = self.under_way.len() + self.resting.len() >= phase.pipeline;
            if resting {
                match self.resting.front() {
                    Some(&until) if until <= now => self.resting.pop_front(),
                    _ => break,
                };
            }
            if !self.start(now, tally) {
                return false;
            }
        }
        true
    }

    /// When a resting place may be used again.
    pub fn rested_at(&self) -> Option<Nanos> {
        self.resting.front().copied()
    }

    /// Encodes the next operation, which counts from `start`. False when there is none.
    pub fn start(&mut self, start: Nanos, tally: &mut Tally) -> bool {
        let mut source = std::mem::replace(&mut self.source, Source::Idle);
        let started = match &mut source {
            Source::Idle => false,
            Source::Preload { ids, values } => match ids.next() {
                Some(key) => {
                    let len = values.draw(&mut self.prng);
                    self.start_write(
                        Write { kind: OpKind::Set, key, len, ttl_s: 0, cas: None },
                        start,
                        tally,
                    );
                    true
                }
                None => false,
            },
            Source::Load { left: 0, .. } => false,
            Source::Load { keys, workload, left } => {
                *left -= 1;
                self.start_drawn(keys, workload, start, tally);
                true
            }
        };
        self.source = source;
        started
    }

    fn start_drawn(&mut self, keys: &mut Keys<'_>, workload: &Workload, start: Nanos, tally: &mut Tally) {
        let kind = workload.mix.draw(&mut self.prng);
        match kind {
            OpKind::Get => {
                self.scratch.clear();
                let drawn = (0..workload.multiget).map(|_| keys.choose(&mut self.prng));
                self.scratch.extend(drawn);
                self.start_read(kind, start, tally);
            }
            OpKind::Scan => {
                let count = 1 + self.prng.below(u64::from(workload.longest_scan));
                self.scratch.clear();
                self.scratch.extend(keys.run(count, &mut self.prng));
                self.start_read(kind, start, tally);
            }
            OpKind::Modify => {
                self.scratch.clear();
                self.scratch.push(keys.choose(&mut self.prng));
                self.start_read(kind, start, tally);
            }
            OpKind::Set | OpKind::Insert => {
                let key = if kind == OpKind::Set { keys.choose(&mut self.prng) } else { keys.insert() };
                let len = workload.values.draw(&mut self.prng);
                self.own_inserts = keys.own_inserts();
                self.start_write(Write { kind, key, len, ttl_s: workload.ttl_s, cas: None }, start, tally);
            }
            OpKind::Delete => {
                let key = keys.choose(&mut self.prng);
                let number = self.shared.ledger.enter(self.index as u16).seq();
                if let Some((own, rank)) = self.own_rank(key) {
                    own.deleted(rank, number);
                }
                let ticket = self.push(kind, Request::Delete, key, start);
                self.line_mut().ask(ticket, Ask::Delete(key), tally);
            }
            OpKind::Touch => {
                let key = keys.choose(&mut self.prng);
                let ticket = self.push(kind, Request::Touch, key, start);
                self.line_mut().ask(ticket, Ask::Touch { key, ttl_s: workload.ttl_s }, tally);
            }
        }
    }

    /// Reads the keys in `scratch`.
    fn start_read(&mut self, kind: OpKind, start: Nanos, tally: &mut Tally) {
        for at in 0..self.scratch.len() {
            let key = self.scratch[at];
            let expected = self.own_rank(key).map_or(Expected::Any, |(own, rank)| own.expected(rank));
            self.asked.push_back((key, expected));
        }
        let keys = self.scratch.len() as u32;
        let ticket = self.push(kind, Request::Read { keys }, self.scratch[0], start);
        let line = self.line.as_deref_mut().expect("answers are read within a call");
        line.ask(ticket, Ask::Read { keys: &self.scratch, unique: kind == OpKind::Modify }, tally);
    }

    fn start_write(&mut self, write: Write, start: Nanos, tally: &mut Tally) {
        let Write { kind, key, len, ttl_s, cas } = write;
        let nonce = self.shared.ledger.enter(self.index as u16);
        if let Some((own, rank)) = self.own_rank(key) {
            own.wrote(rank, nonce.seq());
        }
        let run = self.shared.ledger.run();
        let ticket = self.push(kind, Request::Write, key, start);
        self.line_mut().ask(ticket, Ask::Store(Storing { key, nonce, run, len, ttl_s, cas }), tally);
    }

    fn push(&mut self, kind: OpKind, request: Request, key: u64, start: Nanos) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.under_way.push_back(UnderWay { ticket, kind, request, key, start });
        ticket
    }

    fn own_rank(&mut self, key: u64) -> Option<(&mut OwnKeys, u64)> {
        let own = self.own.as_mut()?;
        let view = view_of(&self.shared.population, self.index, self.shared.connections);
        (key % view.stride == view.offset).then(|| (own, view.rank(key)))
    }

    /// Sends what was asked, as far as it goes.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&mut self, tally: &mut Tally) -> io::Result<()> {
        self.line_mut().flush(tally)
    }

    /// Gives up what is under way; how many operations that were.
    pub fn abandon(&mut self) -> u64 {
        let lost = self.under_way.len() as u64;
        self.under_way.clear();
        self.asked.clear();
        self.line_mut().abandon();
        lost
    }

    /// What a lost connection is counted as.
    pub fn failure_of(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::InvalidData => Failure::Protocol,
            _ => Failure::Disconnected,
        }
    }
}
