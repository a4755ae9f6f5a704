//! Clients of the chain: transfers between accounts, and reads of several at once, recorded for the judge of transactions.
//!
//! Where the node keeps its items in the chain, each also reads, and perhaps stores, one of the keys of memcached's and in-network clients. That is recorded
//! beside what those saw, in their words, so one judge has all of that key; the accounts are judged as ever, with the places that the same transactions have.

use super::Kills;
use super::conduct::Gauge;
use super::members::Durability;
use crate::lab::run::load::Pace;
use crate::lab::run::record::{Part, now};
use crate::lab::run::user::{is_number, name};
use crate::sim::chain::record::{answered, asked};
use base::{Nanos, Picos, Prng};
use fabric::link::Address;
use protocol::chain::{Outcome, Transaction};
use serve::txn::{self, Options, TxnError};
use sim::kv::{Op, Ret, Status, Value};
use sim::txn as words;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Accounts.
const ACCOUNTS: u64 = 32;
/// Until a client gives up an answer, and asks for something else.
const PATIENCE: Duration = Duration::from_secs(5);
const IN_MEMORY: &str = "what is in memory can be recorded";

/// What all clients saw.
pub struct Told {
    /// What they asked and were answered.
    pub history: words::History,
    /// When transactions were answered, and whose.
    pub ends: Vec<(Nanos, u32)>,
    /// How many began.
    pub begun: u64,
}

/// The same, while it is written.
pub struct History {
    told: Mutex<Told>,
    begun: Nanos,
}

impl History {
    /// Nothing yet; times are since `begun`.
    pub fn new(begun: Nanos) -> History {
        let told = Told { history: words::History::new(), ends: Vec::new(), begun: 0 };
        History { told: Mutex::new(told), begun }
    }

    /// It is over.
    pub fn into_told(self) -> Told {
        self.told.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, client: u32, transaction: &Transaction) -> u64 {
        let mut told = self.told();
        // Under the lock, so that the history is in the order of time.
        let (at, id) = (now().since(self.begun), told.begun);
        told.history.call(Picos::from(at), client, id, b"", asked(transaction));
        told.begun += 1;
        id
    }

    fn returns(&self, client: u32, id: u64, ret: words::Ret) {
        let mut told = self.told();
        let at = now().since(self.begun);
        if matches!(ret, words::Ret::Done(_)) {
            told.ends.push((at, client));
        }
        told.history.returns(Picos::from(at), id, ret);
    }
}

/// See the head of the file.
pub struct Client<'a> {
    number: u32,
    chain: &'a [Address],
    history: &'a History,
    gauge: &'a Gauge,
    random: Prng,
    pace: Pace,
    /// Keys of the other clients that it uses, too; 0: none.
    keys: u64,
    part: Part,
    made: u64,
}

/// One of the keys of the other clients in a transaction.
struct Shared {
    /// That it is read, and stored.
    calls: Vec<u64>,
}

impl<'a> Client<'a> {
    /// The `number`-th of these clients.
    pub fn new(
        kills: &Kills,
        number: u32,
        chain: &'a [Address],
        history: &'a History,
        gauge: &'a Gauge,
    ) -> Client<'a> {
        let random = Prng::for_entity(kills.seed, u64::from(number), 0x7478);
        let keys = if kills.durability == Durability::Chain { kills.keys } else { 0 };
        let (part, pace) = (Part::new(2 * kills.clients + number), Pace::of(kills.rate, kills.clients));
        Client { number, chain, history, gauge, random, pace, keys, part, made: 0 }
    }

    /// Until it is over: what it saw of the other clients' keys.
    pub fn work(mut self, over: &AtomicBool) -> Part {
        let options = Options { patience: PATIENCE, ..Options::default() };
        let (mut client, mut next) = (None, Nanos(0));
        while !over.load(Ordering::Relaxed) {
            next = self.pace.wait(next);
            match &mut client {
                None => client = txn::Client::connect(self.chain, &options).ok(),
                Some(known) => {
                    if !self.transact(known) {
                        client = None;
                    }
                }
            }
        }
        self.part
    }

    /// Does one. Whether the client is of any more use.
    fn transact(&mut self, client: &mut txn::Client) -> bool {
        let accounts = self.draw();
        let id = self.history.call(self.number, &accounts);
        let (transaction, shared) = self.share(accounts);
        match client.execute(transaction) {
            Ok(outcome) if self.keys == 0 || outcome.abort.is_none() => {
                let of_accounts = self.returns(outcome, shared);
                self.history.returns(self.number, id, words::Ret::Done(answered(&of_accounts)));
                self.gauge.add();
                true
            }
            // What nobody knows has no end.
            Err(TxnError::Unknown { .. }) => false,
            // Not done: also where the home has the chain and is not reached.
            Ok(_) | Err(_) => {
                for call in shared.into_iter().flat_map(|shared| shared.calls) {
                    self.part.returns(now(), call, Ret::of(Status::Error), None).expect(IN_MEMORY);
                }
                self.history.returns(self.number, id, words::Ret::Refused);
                false
            }
        }
    }

    /// With one of the other clients' keys, where they are in the chain.
    fn share(&mut self, accounts: Transaction) -> (Transaction, Option<Shared>) {
        if self.keys == 0 {
            return (accounts, None);
        }
        let key = self.random.below(self.keys);
        let name = name(key);
        let mut calls = vec![self.part.call(now(), name.as_bytes(), Op::Get).expect(IN_MEMORY)];
        let mut transaction = accounts.get(name.clone());
        if !transaction.only_reads() && !is_number(key) {
            self.made += 1;
            let text = format!("t{}n{}.", self.number, self.made);
            let op = Op::Set { value: Value::of(text.as_bytes()), ttl: None };
            calls.push(self.part.call(now(), name.as_bytes(), op).expect(IN_MEMORY));
            transaction = transaction.put(name, text);
        }
        (transaction, Some(Shared { calls }))
    }

    /// It was done: what is left are the accounts.
    fn returns(&mut self, mut outcome: Outcome, shared: Option<Shared>) -> Outcome {
        let Some(Shared { calls }) = shared else { return outcome };
        let found = outcome.reads.pop().expect("it is read last");
        let seen = match found {
            Some(found) => {
                let (value, version) = (Some(Value::of(&found.value)), Some(found.version.0));
                Ret { status: Status::Ok, value, version }
            }
            None => Ret::of(Status::Miss),
        };
        let stored = Ret { status: Status::Ok, value: None, version: Some(outcome.lsn.0) };
        for (call, ret) in calls.into_iter().zip([seen, stored]) {
            self.part.returns(now(), call, ret, None).expect(IN_MEMORY);
        }
        outcome
    }

    fn draw(&mut self) -> Transaction {
        let mut account = || format!("account{}", self.random.below(ACCOUNTS));
        let (from, mut to) = (account(), account());
        if from == to {
            to.push('x');
        }
        match self.random.below(4) {
            0 => Transaction::new().get(from).get(to),
            _ => {
                let amount = 1 + self.random.below(9) as i64;
                Transaction::new().get(from.clone()).add(from, -amount).add(to, amount)
            }
        }
    }
}
