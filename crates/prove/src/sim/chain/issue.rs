//! Transactions: how they begin, what must come of them, and the phases in which they must succeed.
//!
//! 1. A transaction ends once, and by its client's patience, whatever goes wrong.
//! 2. What its client was told was not done was not done.
//! 3. When all is well again, all replicas that belong to it are in the chain, and new transactions succeed within `Script::bound`.
//! 4. They do so also when a replica then dies, within `Script::bound_after_death`.

use super::record;
use super::script::{OWN, SEEN};
use super::shape::Role;
use super::world::{Happening, Phase, World};
use base::{Nanos, Picos};
use protocol::chain::claim::CLAIM;
use protocol::chain::client::Failure;
use protocol::chain::message::RequestId;
use protocol::chain::transaction::{Change, Condition, Outcome};
use protocol::chain::{Claim, Message, NodeId, Out, SessionId, Transaction};
use sim::nodes::Node;
use sim::random;
use sim::txn::Ret;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Whose session was forgotten, since there are as many as may be, learns so by a write that fails, and opens one in place of another. After
/// so many rounds all have one.
const ROUNDS: u32 = 2;

/// A transaction that a client's machine has.
#[derive(Clone, Debug)]
struct Running {
    transaction: Transaction,
    /// In the record.
    number: usize,
    called: Nanos,
    /// It must have succeeded by then.
    must: Option<Picos>,
    sent: Sent,
}

/// As what the chain knows it, if it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Never,
    As(RequestId),
}

/// What is under way.
#[derive(Clone, Debug, Default)]
pub struct Underway {
    running: BTreeMap<(Node, u64), Running>,
    /// No client knows what became of them; whether it was said that they were not done.
    ended: Vec<(Running, bool)>,
    /// The version that each client saw last of each key.
    seen: HashMap<(Node, Vec<u8>), u64>,
    /// The last claim that each client made, whatever became of it.
    claims: HashMap<Node, u64>,
}

impl Underway {
    /// A client has died with what it had under way.
    pub fn forget(&mut self, client: Node) {
        let dead: Vec<_> = self.running.keys().filter(|(node, _)| *node == client).copied().collect();
        let dead = dead.into_iter().filter_map(|key| self.running.remove(&key));
        self.ended.extend(dead.map(|running| (running, false)));
    }

    /// A client sends a request: notes which transaction that is. Those that write differ.
    pub fn note_request(&mut self, client: Node, message: &Message) {
        let Message::Request { id, transaction } = message else { return };
        if id.session == SessionId(0) || transaction.only_reads() {
            return;
        }
        let is_it = |node: Node, running: &Running| {
            node == client && running.sent == Sent::Never && running.transaction == *transaction
        };
        let known = self.running.values().any(|running| running.sent == Sent::As(*id));
        let running = self.running.iter_mut().find(|((node, _), running)| !known && is_it(*node, running));
        if let Some((_, running)) = running {
            running.sent = Sent::As(*id);
        }
    }
}

impl World {
    // ---- beginning

    /// Does what the script wants.
    pub(super) fn issue(&mut self, intent: usize) {
        let intent = &self.script.intents[intent];
        let mut transaction = intent.transaction.clone();
        for (key, condition) in &mut transaction.conditions {
            if *condition == Condition::Version(SEEN) {
                let seen = self.underway.seen.get(&(intent.client, key.clone()));
                *condition = Condition::Version(seen.copied().unwrap_or(0));
            }
        }
        if transaction.claim == OWN {
            transaction.claim = self.underway.claims.get(&intent.client).copied().unwrap_or(0);
        }
        if let [(key, Change::Put(value))] = &transaction.writes[..]
            && key == CLAIM
            && let Some(claim) = Claim::parse(value)
        {
            self.underway.claims.insert(intent.client, claim.number);
        }
        self.call(intent.client, transaction, None);
    }

    fn call(&mut self, client: Node, transaction: Transaction, must: Option<Picos>) {
        let called = self.read_clock(client);
        let mut out = Out::new();
        let now = self.now();
        let Some(machine) = self.client(client) else { return };
        let started = machine.start(called, transaction.clone(), &mut out);
        let number = self.record.call(now, client, &transaction);
        self.note(|shape| {
            format!("{:<13} begins operation {number}: [{}]", shape.name(client), record::asked(&transaction))
        });
        match started {
            Ok(ticket) => {
                let running = Running { transaction, number, called, must, sent: Sent::Never };
                self.underway.running.insert((client, ticket), running);
                self.acted(client, &mut out);
            }
            Err(_) => self.record.returns(now, number, Ret::Refused),
        }
    }

    // ---- ending

    /// Takes what has ended at a client.
    pub(super) fn collect(&mut self, client: Node) {
        while let Some((ticket, result)) = self.client(client).and_then(|machine| machine.next_done()) {
            let Some(running) = self.underway.running.remove(&(client, ticket)) else {
                return self.broken(format!("{} ends {ticket} twice", self.shape.name(client)));
            };
            self.print.number(ticket);
            self.check_in_time(client, &running);
            match result {
                Ok(outcome) => self.succeeded(client, &running, &outcome),
                Err(failure) => self.failed(client, running, &failure),
            }
        }
    }

    fn check_in_time(&mut self, client: Node, running: &Running) {
        let number = running.number;
        // A clock's reading is rounded, and who was paused is late.
        let patience = self.script.config.patience.plus(Nanos(2));
        if self.read_clock(client).since(running.called) > patience && !self.was_paused(client) {
            self.broken(format!("operation {number} ends after its deadline"));
        }
        if let Some(by) = running.must
            && self.now() > by
        {
            self.broken(format!("operation {number} ends, but not by {} ps", by.0));
        }
    }

    fn succeeded(&mut self, client: Node, running: &Running, outcome: &Outcome) {
        let number = running.number;
        let done = record::answered(outcome);
        self.note(|shape| format!("{:<13} ends operation {number}: {done}", shape.name(client)));
        let transaction = &running.transaction;
        if !transaction.only_reads() {
            self.check_committed(outcome.lsn, number);
        }
        for (key, found) in transaction.reads.iter().zip(&outcome.reads) {
            let version = found.as_ref().map_or(0, |found| found.version.0);
            self.underway.seen.insert((client, key.clone()), version);
        }
        if outcome.abort.is_none() {
            for (key, change) in &transaction.writes {
                let version = if *change == Change::Delete { 0 } else { outcome.lsn.0 };
                self.underway.seen.insert((client, key.clone()), version);
            }
        }
        self.record.returns(self.now(), number, Ret::Done(done));
    }

    fn failed(&mut self, client: Node, running: Running, failure: &Failure) {
        let number = running.number;
        self.note(|shape| format!("{:<13} ends operation {number}: {failure:?}", shape.name(client)));
        if running.must.is_some() {
            return self.broken(format!("operation {number} fails, and nothing hinders it: {failure:?}"));
        }
        let is_certain = *failure != Failure::Unknown;
        if is_certain {
            self.record.returns(self.now(), number, Ret::Refused);
        }
        self.underway.ended.push((running, is_certain));
    }

    /// At the end: what became of the transactions of which no client knows.
    pub(super) fn settle(&mut self) {
        let running = std::mem::take(&mut self.underway.running);
        self.underway.ended.extend(running.into_values().map(|running| (running, false)));
        for (running, is_certain) in std::mem::take(&mut self.underway.ended) {
            let done = match running.sent {
                Sent::As(id) => self.watch.lsn_of(id),
                Sent::Never => None,
            };
            match (done, is_certain) {
                (Some(lsn), true) => {
                    let number = running.number;
                    self.broken(format!("operation {number} was said not to be done, and is LSN {}", lsn.0));
                }
                (_, true) => {}
                (done, false) => self.record.settle(running.number, done.map(|lsn| lsn.0)),
            }
        }
    }

    // ---- phases

    pub(super) fn enter(&mut self, phase: Phase) {
        self.note(|_| format!("phase         {phase:?}"));
        let script = Arc::clone(&self.script);
        let next = match phase {
            Phase::Calm => {
                self.calm();
                Some((script.recovery(), Phase::Sessions(ROUNDS)))
            }
            Phase::Sessions(0) => {
                self.enter(Phase::Liveness);
                None
            }
            Phase::Sessions(left) => {
                self.touch_all();
                Some((script.bound(), Phase::Sessions(left - 1)))
            }
            Phase::Liveness if self.is_lost() => {
                // Nobody has everything: an operator would have to say what to do.
                self.is_over = true;
                None
            }
            Phase::Liveness => {
                self.check_all_serve();
                self.ask_all(0, script.bound());
                Some((script.bound(), Phase::OneDies))
            }
            Phase::OneDies => {
                self.one_dies();
                self.ask_all(1, script.bound_after_death());
                Some((script.bound_after_death(), Phase::Rest))
            }
            Phase::Rest => {
                self.check_all_ended();
                self.check_images();
                self.is_over = true;
                None
            }
        };
        if let Some((after, phase)) = next {
            self.queue.push(self.now().plus(after), self.shape.count(), Happening::Phase(phase));
        }
    }

    /// One of the replicas that belong to the chain dies, if it is not the last.
    pub(in crate::sim) fn one_dies(&mut self) {
        let chosen = self.belonging();
        let nth = random::stream(self.script.seed, 0, "dead replica").below(chosen.len() as u64);
        if chosen.len() > 1 {
            self.crash(chosen[nth as usize]);
        }
    }

    /// Each client writes, whatever comes of it.
    fn touch_all(&mut self) {
        for client in self.shape.clients() {
            let put = Change::Put(format!("touch {}", self.record.len()).into_bytes());
            let key = self.script.keys[0].clone();
            self.call(client, Transaction { writes: vec![(key, put)], ..Transaction::default() }, None);
        }
    }

    /// Each client writes, adds, and reads some of what the others write.
    fn ask_all(&mut self, turn: usize, bound: Picos) {
        let by = self.now().plus(bound);
        let script = Arc::clone(&self.script);
        let keys = &script.keys;
        for client in self.shape.clients() {
            let nth = |i: usize| keys[(client as usize + i) % keys.len()].clone();
            let unique = 10_000_000 * (turn as i64 + 1) + i64::from(client);
            let put = Change::Put(unique.to_string().into_bytes());
            let write = Transaction { writes: vec![(nth(turn), put)], ..Transaction::default() };
            let read = Transaction { reads: vec![nth(turn)], ..Transaction::default() };
            let mut both = Transaction { reads: vec![nth(0)], ..Transaction::default() };
            both.writes.push((nth(1), Change::Put((unique + 1_000_000).to_string().into_bytes())));
            for transaction in [write, read, both] {
                self.call(client, transaction, Some(by));
            }
        }
    }

    fn check_all_ended(&mut self) {
        let first = self.underway.running.values().find(|running| running.must.is_some());
        if let Some(number) = first.map(|running| running.number) {
            self.broken(format!("operation {number} never ends"));
        }
    }

    /// Who asked for what is answered nothing else: a reply goes to a client that lives.
    pub(super) fn is_for(&self, node: Node, to: NodeId) -> bool {
        match self.shape.role(node) {
            Role::Client(_) | Role::Operator => self.places[node as usize].id == to,
            _ => true,
        }
    }
}
