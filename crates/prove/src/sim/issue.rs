//! Operations: how they begin, what must come of them, and the phases in which they must succeed.
//!
//! 1. An operation ends once, and by its client's patience, whatever goes wrong.
//! 2. When all is well again, new operations succeed, within [`Script::bound`].
//! 3. They do so also when a box then dies, which may hold copies: a lease and a retransmission, no longer.

use super::moves;
use super::nodes::Machine;
use super::record;
use super::replicas::Replicas;
use super::script::{DELAY, Script, Want};
use super::watch::Write;
use super::words;
use super::world::{Happening, Phase, World};
use base::{Nanos, Picos};
use protocol::coherence::client::{Answer, Call, Failed, OpId};
use protocol::coherence::compute::may_change_nothing;
use protocol::coherence::{Compute, Out};
use protocol::wire::{Message, Opcode, Round, Verb, Version, key_hash};
use sim::kv::{Op, Ret, Status};
use sim::nodes::Node;
use sim::random;
use std::collections::HashMap;

/// Keys that the liveness phases work on.
const KEYS: usize = 3;

/// A call of a client's machine.
#[derive(Clone, Debug)]
pub struct Running {
    pub call: Call,
    /// In the record.
    pub number: usize,
    called: Nanos,
    /// It must have succeeded by then.
    pub must: Option<Picos>,
    sent: Sent,
}

/// As what the network knows an operation that may change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// It was not sent as a write.
    Never,
    As(Write),
    /// It, or another that is just like it.
    Ambiguous,
}

impl Running {
    pub fn new(call: Call, number: usize, called: Nanos, must: Option<Picos>) -> Running {
        Running { call, number, called, must, sent: Sent::Never }
    }

    fn is_asked_by(&self, message: &Message) -> bool {
        let (call, header) = (&self.call, &message.header);
        header.opcode == Opcode::Request(call.verb)
            && message.key == call.key
            && message.value == call.value
            && (header.operand, header.version) == (call.operand, call.version)
            && header.ttl.nanos() == call.life
    }
}

/// What is under way.
#[derive(Clone, Debug, Default)]
pub struct Underway {
    running: HashMap<(Node, OpId), Running>,
    /// Calls that a flush of all homes still waits for, by its number in the record. One that failed is taken out: it never returns.
    flushes: HashMap<usize, usize>,
    /// Operations of which no client knows what became.
    unknown: Vec<Running>,
    /// The version that each client saw last of each key.
    seen: HashMap<(Node, Vec<u8>), Version>,
}

impl Underway {
    /// A client has died with what it had under way.
    pub fn forget(&mut self, client: Node) {
        let dead = self.running.extract_if(|(node, _), _| *node == client);
        self.unknown.extend(dead.map(|(_, running)| running));
    }

    /// A call begins. `client` may be a home: then it is one by ticket, and that is its number.
    pub fn begin(&mut self, client: Node, id: OpId, running: Running) {
        self.running.insert((client, id), running);
    }

    /// It has ended.
    pub fn end(&mut self, client: Node, id: OpId) -> Option<Running> {
        self.running.remove(&(client, id))
    }

    /// All calls by ticket at this home, which has died: by their numbers.
    pub fn end_all(&mut self, home: Node) -> Vec<Running> {
        let dead = self.running.extract_if(|(node, _), _| *node == home);
        let mut dead: Vec<_> = dead.map(|(_, running)| running).collect();
        dead.sort_unstable_by_key(|running| running.number);
        dead
    }

    /// The version that a client saw last of a key; none if it saw none.
    pub fn seen(&self, client: Node, key: &[u8]) -> Option<Version> {
        self.seen.get(&(client, key.to_vec())).copied()
    }

    /// A client saw this version of a key; 0: it is absent.
    pub fn note_seen(&mut self, client: Node, key: &[u8], version: Version) {
        self.seen.insert((client, key.to_vec()), version);
    }

    /// A flush waits for so many homes.
    pub fn begin_flush(&mut self, number: usize, homes: usize) {
        self.flushes.insert(number, homes);
    }

    /// A client sends a write: notes which operation that is.
    pub fn note_write(&mut self, client: Node, message: &Message) {
        let header = &message.header;
        let write = (header.client, header.round, header.operation);
        let Opcode::Request(verb) = header.opcode else { return };
        if header.round == Round(0) || self.running.values().any(|running| running.sent == Sent::As(write)) {
            return;
        }
        let is_it = |(node, _): &(Node, OpId), running: &Running| {
            *node == client && running.sent == Sent::Never && running.is_asked_by(message)
        };
        let mut alike: Vec<_> = self.running.iter_mut().filter(|(id, running)| is_it(id, running)).collect();
        alike.sort_unstable_by_key(|(id, _)| **id);
        // Those that are tried first are not sent in the order in which they began.
        if alike.len() > 1 && may_change_nothing(verb) {
            alike.iter_mut().for_each(|(_, running)| running.sent = Sent::Ambiguous);
        } else if let Some((_, first)) = alike.first_mut() {
            first.sent = Sent::As(write);
        }
    }
}

impl World<'_> {
    // ---- beginning

    /// Does what the script wants.
    pub(super) fn issue(&mut self, intent: usize) {
        let intent = &self.script.intents[intent];
        match &intent.want {
            Want::Evict(key) => self.evict(key),
            Want::Flush if intent.by_ticket => self.flush_by_ticket(),
            Want::Call(call) if intent.by_ticket => self.ask(call.clone(), None),
            Want::Transaction { transaction, is_stray } => self.transact(transaction.clone(), *is_stray),
            Want::Method(method) => self.call_method(intent.client, method.clone()),
            Want::Flush => self.flush(intent.client),
            Want::Call(call) => {
                let call = self.expecting(intent.client, call.clone());
                self.call(intent.client, call, None);
            }
        }
    }

    /// A CAS expects the version that its client saw last.
    pub(super) fn expecting(&self, client: Node, mut call: Call) -> Call {
        if call.verb == Verb::Cas {
            // What was absent has no version that a CAS could name.
            let seen = self.underway.seen(client, &call.key).filter(|seen| *seen != Version(0));
            call.version = seen.unwrap_or(Version(1));
        }
        call
    }

    fn flush(&mut self, client: Node) {
        if self.places[client as usize].machine.is_none() {
            return;
        }
        let number = self.record.call(self.now(), client, b"", Op::Flush { delay: None });
        let homes: Vec<_> = self.topology.layout.homes().collect();
        self.underway.begin_flush(number, homes.len());
        for home in homes {
            self.start(client, Call::flush(home), number, None);
        }
    }

    fn call(&mut self, client: Node, call: Call, must: Option<Picos>) {
        if self.places[client as usize].machine.is_none() {
            return;
        }
        let op = record::asked(&call, &self.places[self.home_of(&call.key) as usize].clock);
        let number = self.record.call(self.now(), client, &call.key, op);
        self.start(client, call, number, must);
    }

    fn start(&mut self, client: Node, call: Call, number: usize, must: Option<Picos>) {
        self.start_for(client, call, number, must, |_, _| ());
    }

    /// The same; `begun` hears its number at the client before anything comes of it.
    pub(super) fn start_for(
        &mut self,
        client: Node,
        call: Call,
        number: usize,
        must: Option<Picos>,
        begun: impl FnOnce(&mut Self, OpId),
    ) {
        let now = self.places[client as usize].clock.read(self.now());
        let mut out = Out::new();
        let Some(Machine::Client(machine)) = self.machine(client) else { return };
        let started = machine.start(now, call.clone(), &mut out);
        self.note(|names| {
            format!("{:<13} begins operation {number}: {}", names.name(client), words::call(&call))
        });
        match started {
            Ok(id) => {
                self.underway.begin(client, id, Running::new(call, number, now, must));
                begun(self, id);
                self.acted(client, None, &mut out);
            }
            Err(refused) => {
                let what = format!("{} refuses operation {number}: {refused:?}", self.numbers.name(client));
                self.broken(what, &call.key);
            }
        }
    }

    pub(super) fn home_of(&self, key: &[u8]) -> Node {
        let home = self.topology.layout.home_of(key_hash(key));
        self.numbers.home(home).expect("a key's home is a node")
    }

    // ---- ending

    /// Takes what has ended at a client, which has just heard `message`.
    pub(super) fn collect(&mut self, client: Node, message: Option<&Message>) {
        while let Some(Machine::Client(machine)) = self.places[client as usize].machine.as_mut()
            && let Some((id, outcome)) = machine.poll_outcome()
        {
            let Some(running) = self.underway.end(client, id) else {
                return self.broken(format!("{} ends {id:?} twice", self.numbers.name(client)), b"");
            };
            self.print.number(id.0);
            self.check_in_time(client, &running);
            match &outcome {
                Ok(answer) => {
                    let write = message.map(|m| (m.header.client, m.header.round, m.header.operation));
                    let changed = write.is_some_and(|write| self.watch.has_made(&write));
                    self.succeeded(client, &running, answer, changed);
                }
                Err(failed) => self.failed(client, running, *failed),
            }
            self.method_hears(client, id, outcome);
        }
    }

    pub(super) fn check_in_time(&mut self, client: Node, running: &Running) {
        let now = self.places[client as usize].clock.read(self.now());
        let Running { number, call, .. } = running;
        // What a client of another protocol asks a home that has moved waits until the home is ordered there.
        let waits = client >= self.numbers.clients().end && !self.script.moves.is_empty();
        // A clock's reading is rounded.
        if !waits && now.since(running.called) > self.script.config.patience.plus(Nanos(2)) {
            self.broken(format!("operation {number} ends after its deadline"), &call.key);
        }
        if running.must.is_some_and(|by| self.now() > by) {
            let bound = self.script.bound();
            self.broken(format!("operation {number} ends, but not within {bound}"), &call.key);
        }
    }

    /// `changed`: it made the version that was answered.
    pub(super) fn succeeded(&mut self, client: Node, running: &Running, answer: &Answer, changed: bool) {
        let Running { call, number, .. } = running;
        self.note(|names| {
            format!("{:<13} ends operation {number}: {}", names.name(client), words::answer(answer))
        });
        if call.verb == Verb::Flush {
            return self.flushed(*number);
        }
        if answer.version != Version(0) {
            self.underway.note_seen(client, &call.key, answer.version);
        }
        let home = self.home_of(&call.key);
        match record::answered(call, answer, &self.places[home as usize].clock, changed) {
            Ok((op, ret)) => self.record.returns(self.now(), *number, op, ret),
            Err(what) => self.broken(what, &call.key),
        }
    }

    fn flushed(&mut self, number: usize) {
        let Some(left) = self.underway.flushes.get_mut(&number) else { return };
        *left -= 1;
        if *left == 0 {
            self.underway.flushes.remove(&number);
            self.record.returns(self.now(), number, None, Ret::of(Status::Ok));
        }
    }

    pub(super) fn failed(&mut self, client: Node, running: Running, failed: Failed) {
        let Running { call, number, must, .. } = &running;
        self.note(|names| format!("{:<13} ends operation {number}: {failed:?}", names.name(client)));
        if must.is_some() {
            return self.broken(format!("operation {number} fails, and nothing hinders it"), &call.key);
        }
        if call.verb == Verb::Flush {
            self.underway.flushes.remove(number);
        } else if failed == Failed::NotDone {
            self.record.returns(self.now(), *number, None, Ret::of(Status::Error));
        } else {
            self.underway.unknown.push(running);
        }
    }

    /// At the end: what became of the operations of which no client knows. A flush is left as it is.
    pub(super) fn settle(&mut self) {
        self.settle_transactions();
        for Running { call, number, sent, .. } in std::mem::take(&mut self.underway.unknown) {
            let not_done = (self.now(), None, Ret::of(Status::Error));
            let write = match sent {
                _ if call.verb == Verb::Flush => continue,
                Sent::Ambiguous => continue,
                Sent::Never => None,
                Sent::As(write) => Some(write),
            };
            let done = write.and_then(|write| Some((self.watch.done(&write)?, self.watch.has_made(&write))));
            let called = self.record.called(number);
            let (at, op, ret) = match done {
                None if write.is_some() && self.has_died_since(self.home_of(&call.key), called) => continue,
                None => not_done,
                Some(((at, answer), changed)) => {
                    let home = &self.places[self.home_of(&call.key) as usize].clock;
                    match record::answered(&call, answer, home, changed) {
                        Ok((op, ret)) => (*at, op, ret),
                        Err(what) => return self.broken(what, &call.key),
                    }
                }
            };
            self.record.settle(at, number, op, ret);
        }
    }

    // ---- phases

    pub(super) fn enter(&mut self, phase: Phase) {
        self.note(|_| format!("phase         {phase:?}"));
        let (script, now) = (self.script, self.now());
        let bound = script.bound();
        let next = match phase {
            Phase::Calm => {
                self.calm();
                self.replicas_are_calm();
                self.tell_of_moves(0);
                Some((recovery(script), Phase::Sessions))
            }
            Phase::Sessions => {
                self.touch_all();
                Some((bound, Phase::Liveness))
            }
            Phase::Liveness => {
                self.replicas_serve();
                if self.served.is_lost {
                    return;
                }
                self.ask_all(0, bound);
                Some((bound, Phase::BoxDies))
            }
            Phase::BoxDies => {
                let boxes = self.numbers.boxes();
                let nth =
                    random::stream(script.seed, 0, "dead box").below(u64::from(boxes.end - boxes.start));
                self.crash(boxes.start + nth as Node);
                self.replicas_die();
                Some((Picos(DELAY.0), Phase::WithoutIt))
            }
            Phase::WithoutIt => {
                self.ask_all(1, bound);
                None
            }
        };
        let source = self.numbers.count();
        if let Some((after, phase)) = next {
            self.queue.push(now.plus(after), source, Happening::Phase(phase));
        }
    }

    fn touch_all(&mut self) {
        for client in self.numbers.clients() {
            for key in self.script.keys.iter().take(KEYS) {
                self.call(client, Call::new(Verb::Touch, key), None);
            }
        }
    }

    /// Each client writes a key, counts it where boxes may own keys, and reads some: what the others read a little earlier, so that there are copies.
    fn ask_all(&mut self, turn: usize, bound: Picos) {
        let by = self.now().plus(bound);
        let keys = &self.script.keys;
        let count = keys.len().min(KEYS);
        if self.script.has_tickets {
            self.ask_all_homes(turn, by, count);
        }
        if self.script.has_transactions {
            self.transact_at_all_homes(turn, by, count);
        }
        for client in self.numbers.clients() {
            let nth = |i: usize| &keys[(client as usize + i) % count];
            let value = format!("{}", 1_000_000 + 1000 * turn + client as usize).into_bytes();
            self.call(client, Call::new(Verb::Set, nth(turn)).value(&value), Some(by));
            if self.script.config.compute == Compute::Own {
                self.call(client, Call::new(Verb::Incr, nth(turn)).operand(1), Some(by));
            }
            for i in 0..count {
                self.call(client, Call::new(Verb::Get, nth(i)), Some(by));
            }
        }
    }

    /// Nothing can come any more that matters.
    pub(super) fn is_over(&self) -> bool {
        if self.served.is_lost {
            return true;
        }
        let script = self.script;
        let last_phase = script.until.plus(recovery(script)).plus(Picos(2 * script.bound().0)).plus(DELAY);
        let patience = Picos::from(Nanos(script.config.patience.0 + script.config.patience.0 / 50));
        let nothing_runs = self.underway.running.is_empty() && self.transacted.is_idle();
        let all_ended = nothing_runs && self.now() > last_phase;
        all_ended || self.now() > last_phase.plus(script.bound()).max(script.until.plus(patience))
    }

    pub(super) fn check_all_ended(&mut self) {
        if self.served.is_lost {
            return;
        }
        self.replicas_rest();
        let first = self.underway.running.values().min_by_key(|running| running.number).cloned();
        if let Some(Running { call, number, .. }) = first {
            self.broken(format!("operation {number} never ends"), &call.key);
        }
        if let Some(number) = self.transacted.first() {
            self.broken(format!("operation {number} never ends"), b"");
        }
    }
}

/// After this homes serve again, and clients go through their boxes.
fn recovery(script: &Script) -> Picos {
    let Nanos(lease) = script.config.lease;
    let Nanos(health) = script.config.health;
    let replicas = script.replicas.as_ref().map_or(Picos::ZERO, Replicas::recovery);
    Picos::from(Nanos(lease + lease / 50 + 2 * health)).plus(moves::recovery(script)).plus(replicas)
}
