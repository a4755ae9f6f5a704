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

use super::counts::{Failure, Tally};
use super::dialect::{Item, Storing, Verdict};
use super::ledger::{Expected, Finding, Ledger, OwnKeys, Wrong};
use super::line::{Ask, Heard, Line, Received, Ticket};
use super::mix::OpKind;
use super::sizes::ValueSizes;
use super::workload::{Job, Keys, Phase, Population, Workload, preload_share, view_of};
use crate::drive::Pace;
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

    /// Receives what is there and handles every whole answer.
    ///
    /// # Errors
    /// When the connection is lost, or its answers cannot be followed (`InvalidData`).
    pub fn receive(&mut self, phase: &Phase, clock: Clock, tally: &mut Tally) -> io::Result<()> {
        // A few rounds at most: with a fast server one connection must not keep the others waiting.
        for _ in 0..4 {
            let received = self.line_mut().receive(tally)?;
            if received == Received::Nothing {
                break;
            }
            // The line is taken out so that an answer may be read in place while the rest of `self` changes.
            let mut line = self.line.take().expect("answers are read within a call");
            let result = self.handle_answers(&mut *line, phase, clock.now(), tally);
            self.line = Some(line);
            result?;
            while let Some((key, cas, start)) = self.write_backs.pop() {
                self.write_back(key, cas, start, tally);
            }
            if received == Received::All {
                break;
            }
        }
        Ok(())
    }

    fn handle_answers(
        &mut self,
        line: &mut dyn Line,
        phase: &Phase,
        now: Nanos,
        tally: &mut Tally,
    ) -> io::Result<()> {
        while let Some(Heard { ticket, part, from_box }) = line.next(tally)? {
            if let Some(ticket) = ticket {
                self.bring_to_front(ticket);
            }
            if let Some(item) = part.item {
                self.handle_item(item, tally);
            } else if part.absent {
                self.next_asked_is_absent(tally);
            }
            let Some(verdict) = part.verdict else { continue };
            if let (true, Some(&UnderWay { kind: OpKind::Get, start, .. })) =
                (from_box, self.under_way.front())
            {
                tally.record_by_box(start, now);
            }
            self.handle_verdict(verdict, phase, now, tally);
        }
        Ok(())
    }

    /// Makes the request with this ticket the oldest, with the keys that it asked for.
    fn bring_to_front(&mut self, ticket: Ticket) {
        let at = self.under_way.iter().position(|request| request.ticket == ticket);
        let at = at.expect("a line answers what it was asked");
        let keys = |request: &UnderWay| match request.request {
            Request::Read { keys } => keys as usize,
            _ => 0,
        };
        let before: usize = self.under_way.iter().take(at).map(keys).sum();
        let own = keys(&self.under_way[at]);
        self.asked.make_contiguous()[..before + own].rotate_right(own);
        self.under_way.make_contiguous()[..=at].rotate_right(1);
    }

    /// An item came: finds which of the keys asked for it is, and holds it against what may be read.
    fn handle_item(&mut self, item: Item<'_>, tally: &mut Tally) {
        let Some(&UnderWay { kind, request: Request::Read { keys }, .. }) = self.under_way.front() else {
            return tally
                .wrong((Wrong::Unasked, "an item came in answer to a request that reads none".to_string()));
        };
        let place = match item.key {
            None => (keys > 0).then_some(0),
            Some(key) => {
                let id = self.shared.population.format.read(key);
                self.asked.iter().take(keys as usize).position(|&(asked, _)| Some(asked) == id)
            }
        };
        let Some(place) = place else {
            let name = String::from_utf8_lossy(item.key.unwrap_or_default()).into_owned();
            return tally
                .wrong((Wrong::Unasked, format!("an item with key {name:?} came that was not asked for")));
        };
        (0..place).for_each(|_| self.next_asked_is_absent(tally));
        let (key, expected) = self.take_asked().expect("its place was found");
        tally.counts.hits += 1;
        tally.counts.verified += 1;
        if kind == OpKind::Modify {
            self.found = Some(item.cas);
        }
        if let Err(finding) = self.check(key, expected, item) {
            tally.wrong(finding);
        }
    }

    fn check(&mut self, key: u64, expected: Expected, item: Item<'_>) -> Result<(), Finding> {
        let nonce = self.shared.ledger.check(key, item.flags, item.data)?;
        let writer = self.index as u16;
        match self.own_rank(key) {
            Some((own, rank)) => own.check(rank, key, writer, expected, nonce),
            None => Ok(()),
        }
    }

    fn take_asked(&mut self) -> Option<(u64, Expected)> {
        if let Some(UnderWay { request: Request::Read { keys }, .. }) = self.under_way.front_mut() {
            *keys = keys.checked_sub(1)?;
        }
        self.asked.pop_front()
    }

    fn next_asked_is_absent(&mut self, tally: &mut Tally) {
        let Some((key, expected)) = self.take_asked() else { return };
        tally.counts.misses += 1;
        if self.shared.misses_fail && !matches!(expected, Expected::Miss(_)) {
            tally.wrong((
                Wrong::Lost,
                format!("key {key}: nothing was found, though it was written and never deleted"),
            ));
        }
    }

    /// A request is answered: its operation is done, or goes on with its second request.
    fn handle_verdict(&mut self, verdict: Verdict<'_>, phase: &Phase, now: Nanos, tally: &mut Tally) {
        let Some(&UnderWay { kind, request, key, start, .. }) = self.under_way.front() else { return };
        self.last_answer = now;
        if let Request::Read { .. } = request {
            self.settle_read(verdict, tally);
        }
        self.under_way.pop_front();
        let found = self.found.take();
        match verdict {
            Verdict::Refused(refusal, why) => {
                let why = String::from_utf8_lossy(why).into_owned();
                tally.fail(Failure::from(refusal).name(), 1, || {
                    format!("{} of key {key}: the server said {why:?}", kind.name())
                });
                self.unsettle(request, key);
                return self.rest(phase, now);
            }
            Verdict::Done | Verdict::NotFound | Verdict::Conflict => {}
        }
        match (request, verdict) {
            (Request::Read { .. }, _) => {
                if let (OpKind::Modify, Some(cas)) = (kind, found) {
                    return self.write_backs.push((key, cas, start));
                }
            }
            (Request::Write, Verdict::Done) => {
                if let (OpKind::Insert, Source::Load { keys, .. }) = (kind, &self.source) {
                    keys.inserted();
                }
            }
            (Request::Write, _) => {
                tally.counts.conflicts += 1;
                self.unsettle(request, key);
            }
            (Request::Touch, Verdict::NotFound) => tally.counts.misses += 1,
            (Request::Touch, _) => tally.counts.hits += 1,
            (Request::Delete, _) => {}
        }
        tally.record(kind, start, now);
        self.rest(phase, now);
    }

    /// The keys of a finished read that brought no item are misses; after a refusal nothing is known of them.
    fn settle_read(&mut self, verdict: Verdict<'_>, tally: &mut Tally) {
        while let Some(UnderWay { request: Request::Read { keys: 1.. }, .. }) = self.under_way.front() {
            match verdict {
                Verdict::Refused(..) => drop(self.take_asked()),
                _ => self.next_asked_is_absent(tally),
            }
        }
    }

    /// The second half of a read-modify-write.
    fn write_back(&mut self, key: u64, cas: Option<u64>, start: Nanos, tally: &mut Tally) {
        let Source::Load { workload, .. } = &self.source else { return };
        let (values, ttl_s) = (workload.values, workload.ttl_s);
        let len = values.draw(&mut self.prng);
        self.start_write(Write { kind: OpKind::Modify, key, len, ttl_s, cas }, start, tally);
    }

    /// A write or delete did not take place as sent.
    fn unsettle(&mut self, request: Request, key: u64) {
        let next = self.shared.ledger.made_by(self.index as u16);
        if matches!(request, Request::Write | Request::Delete)
            && let Some((own, rank)) = self.own_rank(key)
        {
            own.refused(rank, next);
        }
    }

    fn rest(&mut self, phase: &Phase, now: Nanos) {
        if let Pace::Closed { think_ns: pause @ 1.. } = phase.pace {
            self.resting.push_back(now.plus(Nanos(pause)));
        }
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
