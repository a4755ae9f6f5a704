//! Clients of the chain: transfers between accounts, and reads of several at once, recorded for the judge of transactions.
//!
//! Where the node keeps its items in the chain, each also reads, and perhaps stores, one of the keys of memcached's and in-network clients.

use super::Kills;
use super::conduct::Gauge;
use crate::cluster::Durability;
use crate::lab::run::load::Pace;
use crate::lab::run::record::now;
use crate::lab::run::user::{is_number, name};
use crate::sim::chain::record::{answered, asked};
use base::{Nanos, Picos, Prng};
use fabric::link::Address;
use protocol::chain::Transaction;
use protocol::chain::transaction::Abort;
use serve::txn::{self, Options, TxnError};
use sim::txn as words;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Accounts.
const ACCOUNTS: u64 = 32;
/// Until a client gives up an answer, and asks for something else.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// The number of the first of these clients.
    first: u32,
}

impl History {
    /// Nothing yet; times are since `begun`, and the clients' numbers begin with `first`.
    pub fn new(begun: Nanos, first: u32) -> History {
        let told = Told { history: words::History::new(), ends: Vec::new(), begun: 0 };
        History { told: Mutex::new(told), begun, first }
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
        let client = self.first + client;
        // As other recorders number theirs.
        let (at, id) = (now().since(self.begun), u64::from(client) << 40 | told.begun);
        told.history.call(Picos::from(at), client, id, b"", asked(transaction));
        told.begun += 1;
        id
    }

    fn returns(&self, client: u32, id: u64, ret: words::Ret) {
        let mut told = self.told();
        let at = now().since(self.begun);
        if matches!(ret, words::Ret::Done(_)) {
            told.ends.push((at, self.first + client));
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
    made: u64,
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
        let pace = Pace::of(kills.rate, kills.clients);
        Client { number, chain, history, gauge, random, pace, keys, made: 0 }
    }

    /// Until it is over.
    pub fn work(mut self, over: &AtomicBool) {
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
    }

    /// Does one. Whether the client is of any more use.
    fn transact(&mut self, client: &mut txn::Client) -> bool {
        let accounts = self.draw();
        let transaction = self.share(accounts);
        let id = self.history.call(self.number, &transaction);
        match client.execute(transaction) {
            // Where the home has the chain and is not reached, a transaction looks at nothing.
            Ok(outcome) if self.keys == 0 || outcome.abort != Some(Abort::Claimed) => {
                self.history.returns(self.number, id, words::Ret::Done(answered(&outcome)));
                self.gauge.add();
                true
            }
            // What nobody knows has no end.
            Err(TxnError::Unknown { .. }) => false,
            Ok(_) | Err(_) => {
                self.history.returns(self.number, id, words::Ret::Refused);
                false
            }
        }
    }

    /// With one of the other clients' keys, where they are in the chain.
    fn share(&mut self, accounts: Transaction) -> Transaction {
        if self.keys == 0 {
            return accounts;
        }
        let key = self.random.below(self.keys);
        let name = name(key);
        let transaction = accounts.get(name.clone());
        if transaction.only_reads() || is_number(key) {
            return transaction;
        }
        self.made += 1;
        let text = format!("t{}n{}.", self.number, self.made);
        transaction.put(name, text)
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
