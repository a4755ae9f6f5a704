//! Clients of transactions, beside the homes over chains that their items have: several keys of one home at once, on the same keys as clients of memcached's
//! protocol and clients by packet.
//!
//! ```text
//!  client ─▶ home: serve::kv::service::by_home ─▶ its home admits what it writes ─▶ the chain ─▶ answer ─▶ record
//!     └────────────────────────── past the home, under no claim ──────────────────────▶ refused
//! ```
//! A transaction that was under way when its home died is asked for again, under the same number, when the home is up, or is not; what became of it, if nobody
//! was answered, the chain knows, and that is where the judge has it from.
//!
//! One that changes memcached's attributes of an item, so that it has expired, is in the record as what it is to everybody: a flush of that key. One that
//! removes attributes where there are none is done, and changes nothing: a read.

use super::chain::record::{answered, asked};
use super::chains::Clients;
use super::homes::Homes;
use super::nodes::Machine;
use super::script::{Want, one_of};
use super::workload::is_unsure;
use super::world::World;
use base::Picos;
use protocol::chain::at_home::Answer;
use protocol::chain::attributes::{Attributes, RESERVED, beside};
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::transaction::{Change, Condition};
use protocol::chain::{Outcome, SessionId, Transaction};
use protocol::coherence::home::slow::Ended;
use protocol::coherence::table::Layout;
use protocol::wire::{Version, key_hash};
use serve::kv::Relayed;
use sim::kv::{self, Op, Ret};
use sim::nodes::Node;
use sim::random;
use sim::txn::Done;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One operation in so many is a transaction.
const ONE_IN: u64 = 4;
/// One transaction in so many goes past the home.
const STRAY_ONE_IN: u64 = 8;
/// Keys of one at most.
const KEYS: usize = 3;
/// A version that stands for the one that the client saw last.
const SEEN: u64 = u64::MAX;
/// A second that was long ago.
const EXPIRED: u32 = 1;

/// What the script wants at place `number`: `want`, or a transaction.
pub fn draw(seed: u64, number: usize, want: Want, (keys, layout): (&[Vec<u8>], &Arc<Layout>)) -> Want {
    let mut random = random::stream(seed, number as u64, "transaction");
    if random.below(ONE_IN) > 0 {
        return want;
    }
    let first = &keys[random.below(keys.len() as u64) as usize];
    let home = layout.home_of(key_hash(first));
    let is_mate = |key: &&Vec<u8>| *key != first && layout.home_of(key_hash(key)) == home;
    let mates = keys.iter().filter(is_mate).filter(|_| random.below(2) == 0).take(KEYS - 1);
    let chosen: Vec<&[u8]> = std::iter::once(first).chain(mates).map(Vec::as_slice).collect();
    let kind = match is_unsure(seed, Homes::Chained) {
        true => one_of(&mut random, &UNSURE),
        false => random.below(KINDS),
    };
    let transaction = draw_transaction(kind, number, &chosen);
    let is_stray = !expires(&transaction) && !clears(&transaction) && random.below(STRAY_ONE_IN) == 0;
    Want::Transaction { transaction, is_stray }
}

/// Kinds of transactions, drawn alike.
const KINDS: u64 = 12;
/// Those of runs in which much changes nothing, and much is not known: items without attributes, and what is done to attributes.
const UNSURE: [u64; 8] = [2, 2, CLEARS, CLEARS, CLEARS, CLEARS, CLEARS, ENDS];
const ENDS: u64 = KINDS - 1;
const CLEARS: u64 = KINDS;

/// On these keys; what it stores is stored by no other operation.
fn draw_transaction(kind: u64, number: usize, keys: &[&[u8]]) -> Transaction {
    let unique = 1000 * (number as u64 + 1);
    let put_all = |txn: Transaction| {
        let put = |txn: Transaction, (i, key): (u64, &&[u8])| txn.put(*key, (unique + i).to_string());
        (0..).zip(keys).fold(txn, put)
    };
    let get_all = || keys.iter().fold(Transaction::new(), |txn, key| txn.get(*key));
    let (first, last) = (keys[0], keys[keys.len() - 1]);
    match kind {
        0..2 => get_all(),
        2..4 => put_all(Transaction::new()),
        4..6 => put_all(get_all()),
        6..8 => put_all(Transaction::new().if_version(first, SEEN).get(first)),
        8 if keys.len() > 1 => get_all().if_exists(first).delete(first).put(last, unique.to_string()),
        8 => get_all().delete(first),
        9 => get_all().add(first, unique as i64),
        CLEARS => Transaction::new().if_version(beside(first), 0).get(first).delete(beside(first)),
        _ => {
            let expired = Attributes { expiry: EXPIRED, of: Some(SEEN), ..Attributes::default() };
            Transaction::new().if_version(first, SEEN).put(beside(first), expired.to_bytes())
        }
    }
}

/// Whether a transaction puts attributes alone: the item has expired then.
fn expires(transaction: &Transaction) -> bool {
    matches!(&transaction.writes[..], [(key, Change::Put(_))] if key.first() == Some(&RESERVED))
}

/// Whether it removes attributes where there are none.
fn clears(transaction: &Transaction) -> bool {
    matches!(&transaction.writes[..], [(key, Change::Delete)] if key.first() == Some(&RESERVED))
}

/// What became of it, as clients of its items see it; none if nothing.
fn seen(transaction: &Transaction, outcome: &Outcome) -> Option<Done> {
    let is_nothing = clears(transaction) && outcome.abort.is_some();
    (!is_nothing).then(|| answered(outcome))
}

/// A transaction of a client.
#[derive(Clone, Debug)]
struct Running {
    home: Node,
    /// In the record.
    number: usize,
    transaction: Transaction,
    /// It went past the home.
    is_stray: bool,
    /// It must have succeeded by then.
    must: Option<Picos>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Transacted {
    running: BTreeMap<RequestId, Running>,
    /// Nobody knows what became of them.
    unknown: BTreeMap<RequestId, Running>,
}

impl Transacted {
    /// Whether none is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The first that is under way.
    pub fn first(&self) -> Option<usize> {
        self.running.values().map(|running| running.number).min()
    }
}

pub(super) fn id_of(number: usize) -> RequestId {
    RequestId { session: SessionId(1), sequence: number as u64 + 1 }
}

impl World<'_> {
    // ---- beginning

    /// A client wants this, of keys of one home, or of the chain itself.
    pub(super) fn transact(&mut self, transaction: Transaction, is_stray: bool) {
        let home = self.home_of_transaction(&transaction);
        let transaction = self.having_seen(home, transaction);
        self.begin_transaction(home, transaction, is_stray, None);
    }

    fn home_of_transaction(&self, transaction: &Transaction) -> Node {
        let keys = transaction.keys();
        let key = keys.iter().find(|key| key.first() != Some(&RESERVED)).expect("it names an item");
        self.home_of(key)
    }

    /// What stands for a version is the one that clients beside this home saw last.
    fn having_seen(&self, home: Node, mut transaction: Transaction) -> Transaction {
        for (key, condition) in &mut transaction.conditions {
            if *condition != Condition::Version(SEEN) {
                continue;
            }
            let seen = self.underway.seen(home, key).unwrap_or(Version(0)).0;
            *condition = Condition::Version(seen);
            let of = beside(key);
            for (_, change) in transaction.writes.iter_mut().filter(|(key, _)| *key == of) {
                let expired = Attributes { expiry: EXPIRED, of: Some(seen), ..Attributes::default() };
                *change = Change::Put(expired.to_bytes());
            }
        }
        transaction
    }

    fn begin_transaction(
        &mut self,
        home: Node,
        transaction: Transaction,
        is_stray: bool,
        must: Option<Picos>,
    ) {
        let is_up = self.places[home as usize].machine.is_some();
        if !is_up && !is_stray {
            return;
        }
        let number = match transaction.conditions.first().filter(|_| expires(&transaction)) {
            Some((key, _)) => self.record.call(self.now(), home, key, Op::Flush { delay: None }),
            None if clears(&transaction) => {
                let read = Transaction { reads: transaction.reads.clone(), ..Transaction::default() };
                self.record.call_transaction(self.now(), home, asked(&read))
            }
            None => self.record.call_transaction(self.now(), home, asked(&transaction)),
        };
        let id = id_of(number);
        let running = Running { home, number, transaction: transaction.clone(), is_stray, must };
        self.transacted.running.insert(id, running);
        self.note(|names| {
            let (name, txn) = (names.name(home), asked(&transaction));
            let past = if is_stray { " past it, at its chain" } else { "" };
            format!("{name:<13} is asked operation {number}{past}: [{txn}]")
        });
        if let Some(chain) = self.served.replicas_of(home) {
            chain.ask(number, transaction, is_stray);
            return self.drive_chain(home);
        }
        if !is_stray {
            return self.send_transaction(home, id, transaction);
        }
        let chain = self.served.map_of(home).expect("homes that transactions go by have chains");
        chain.send_past_home(id, transaction);
        self.drive_chain(home);
    }

    fn send_transaction(&mut self, home: Node, id: RequestId, transaction: Transaction) {
        let Some(Machine::Home(machine)) = self.machine(home) else { return };
        machine.clients().expect("homes that transactions go by have chains").ask(id, transaction);
        // As when the bell rings.
        self.act(home, 0, None);
    }

    /// In the liveness phases: at each home, all keys at once.
    pub(super) fn transact_at_all_homes(&mut self, turn: usize, by: Picos, keys: usize) {
        for home in self.numbers.homes() {
            let of_home = self.script.keys.iter().take(keys).filter(|key| self.home_of(key) == home);
            let put = |txn: Transaction, (i, key): (usize, &Vec<u8>)| {
                let value = 3_000_000 + 1000 * turn + 10 * home as usize + i;
                txn.get(key.clone()).put(key.clone(), value.to_string())
            };
            let transaction = (0..).zip(of_home).fold(Transaction::new(), put);
            if !transaction.only_reads() {
                self.begin_transaction(home, transaction, false, Some(by));
            }
        }
    }

    // ---- ending

    /// Takes what a node has answered.
    pub(super) fn collect_transacted(&mut self, home: Node) {
        while let Some(Machine::Home(machine)) = self.machine(home)
            && let Some((id, answer)) = machine.clients().and_then(Clients::poll_answer)
        {
            if let Some(chain) = self.served.replicas_of(home) {
                chain.answer(id, answer);
                continue;
            }
            let ended = match answer {
                Ok(Answer::Done(outcome)) => Ended::Done(outcome),
                Ok(Answer::Refused(Refusal::NoSession | Refusal::Forgotten)) => Ended::Unknown,
                Ok(Answer::Refused(_)) | Err(_) => Ended::NotDone,
            };
            self.transaction_ended(id, ended);
        }
    }

    /// What went past its home has ended.
    pub(super) fn collect_strays(&mut self, strays: Vec<(RequestId, Relayed)>) {
        for (id, fate) in strays {
            match fate {
                Relayed::Ended(ended) => self.transaction_ended(id, ended),
                Relayed::Lost => self.transaction_ended(id, Ended::Unknown),
            }
        }
    }

    pub(super) fn transaction_ended(&mut self, id: RequestId, ended: Ended<Outcome>) {
        let Some(running) = self.transacted.running.remove(&id) else {
            return self.broken(format!("transaction {} ends twice", id.sequence), b"");
        };
        let Running { home, number, must, .. } = running;
        self.print.number(id.sequence);
        self.note(|names| format!("{:<13} ends operation {number}: {ended:?}", names.name(home)));
        if let Some(by) = must {
            let is_done = matches!(&ended, Ended::Done(outcome) if outcome.abort.is_none());
            if !is_done || self.now() > by {
                let bound = self.script.bound();
                let what = format!("operation {number} was to be done within {bound}: {ended:?}");
                return self.broken(what, b"");
            }
        }
        match ended {
            Ended::Done(outcome) | Ended::Same(outcome) => self.transaction_done(&running, &outcome),
            Ended::NotDone => self.record.returns(self.now(), number, None, Ret::of(kv::Status::Error)),
            Ended::Unknown => drop(self.transacted.unknown.insert(id, running)),
        }
    }

    fn transaction_done(&mut self, running: &Running, outcome: &Outcome) {
        let Running { home, number, transaction, .. } = running;
        for (key, found) in transaction.reads.iter().zip(&outcome.reads) {
            let version = found.as_ref().map_or(0, |found| found.version.0);
            self.underway.note_seen(*home, key, Version(version));
        }
        let changed = transaction.writes.iter().filter(|_| outcome.abort.is_none());
        for (key, change) in changed.filter(|(key, _)| key.first() != Some(&RESERVED)) {
            let version = if *change == Change::Delete { 0 } else { outcome.lsn.0 };
            self.underway.note_seen(*home, key, Version(version));
        }
        let now = self.now();
        match seen(transaction, outcome) {
            _ if expires(transaction) => self.record.returns(now, *number, None, flushed(Some(outcome))),
            Some(done) => self.record.returns_done(now, *number, done),
            None => self.record.returns(now, *number, None, Ret::of(kv::Status::Error)),
        }
    }

    /// A home died: nobody is answered about what was under way there.
    pub(super) fn forget_transactions(&mut self, home: Node) {
        // Clients of replicas ask until they know.
        if self.served.replicas_of(home).is_some() {
            return;
        }
        let all = std::mem::take(&mut self.transacted.running);
        let is_lost = |running: &Running| running.home == home && !running.is_stray;
        let (dead, left): (BTreeMap<_, _>, _) = all.into_iter().partition(|(_, running)| is_lost(running));
        self.transacted.running = left;
        self.transacted.unknown.extend(dead);
    }

    /// It is up again: of what nobody knows, half is asked for once more.
    pub(super) fn ask_again(&mut self, home: Node) {
        if self.served.replicas_of(home).is_some() {
            return;
        }
        let seed = self.script.seed;
        let of_home = self.transacted.unknown.iter().filter(|(_, running)| running.home == home);
        let is_asked = |id: &RequestId| random::stream(seed, id.sequence, "asked again").below(2) == 0;
        let again: Vec<RequestId> = of_home.map(|(id, _)| *id).filter(is_asked).collect();
        for id in again {
            if let Some(mut running) = self.transacted.unknown.remove(&id) {
                running.is_stray = false;
                let transaction = running.transaction.clone();
                self.transacted.running.insert(id, running);
                self.send_transaction(home, id, transaction);
            }
        }
    }

    /// At the end: what became of transactions of which no client knows.
    pub(super) fn settle_transactions(&mut self) {
        let now = self.now();
        let unknown = std::mem::take(&mut self.transacted.unknown);
        for (id, Running { home, number, transaction, .. }) in unknown {
            let outcome = match self.served.replicas_of(home) {
                Some(chain) => chain.outcome_of(number),
                None => self.served.map_of(home).and_then(|chain| chain.outcome_of(id)),
            };
            if expires(&transaction) {
                self.record.settle(now, number, None, flushed(outcome.as_ref()));
                continue;
            }
            match outcome.and_then(|outcome| seen(&transaction, &outcome)) {
                Some(done) => self.record.settle_done(now, number, done),
                None => self.record.settle(now, number, None, Ret::of(kv::Status::Error)),
            }
        }
    }
}

/// What came of a flush of one key.
fn flushed(outcome: Option<&Outcome>) -> Ret {
    let is_done = outcome.is_some_and(|outcome| outcome.abort.is_none());
    Ret::of(if is_done { kv::Status::Ok } else { kv::Status::Error })
}
