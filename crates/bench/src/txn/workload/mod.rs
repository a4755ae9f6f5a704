//! What is done: transactions of the published workloads, with the key counts and mixes of their sources.
//!
//! | workload | mix, keys read + written | source |
//! |---|---|---|
//! | `0-1`, `4-2` | as named | ORCA, section VI-C; HyperLoop |
//! | `smallbank` | Amalgamate 0+3, Balance 2+0, DepositChecking 0+1, TransactSavings 0+1, WriteCheck 1+1: 15 % each; SendPayment 25 % 0+2 | as in FORD |
//! | `tatp` | GetSubscriber, GetAccess 35 % each 1+0, GetNewDestination 10 % 1..4+0; UpdateLocation 14 % 1+1; | as in FORD |
//! | | 2 % each: UpdateSubscriber 0+2, InsertCallForwarding 2+1, DeleteCallForwarding 1+1 | |
//! | `ycsb-t` | four read-modify-writes | YCSB-T |
//! | `tpcc` | new-order 45 : payment 43; new-order with n of 5 to 15 lines reads 2+n and writes 4+2n keys, payment writes 4 | TPC-C, as in FORD |
//!
//! **Order dependence.** A one-shot transaction declares its keys and says what to do with them, so what depends on a value that it would read first
//! (SmallBank's Amalgamate and WriteCheck; the number of a new order) is done by reconnaissance: a read at the tail ([`Task::look`]), then the
//! transaction on the condition that what was read is still there, and from the start again if it is not. Such a transaction is timed from
//! the reconnaissance to its commit. TATP's secondary index is read and checked (`if-value`) in the same transaction instead: whoever asks has the
//! subscriber's number.
//!
//! Numbers are decimal text; other values are random bytes of the size that is said.

mod smallbank;
mod tatp;
mod tpcc;

use base::Prng;
use base::zipf::{Scatter, Zipf};
use protocol::chain::Transaction;
use protocol::chain::transaction::Found;
use serde::Serialize;
use std::fmt;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, Serialize)]
pub enum Kind {
    /// One write, as published
    #[value(name = "0-1")]
    #[serde(rename = "0-1")]
    Write,
    /// Four reads and two writes, as published
    #[value(name = "4-2")]
    #[serde(rename = "4-2")]
    ReadWrite,
    /// Accounts of a bank, most of the work on a few
    #[value(name = "smallbank")]
    #[serde(rename = "smallbank")]
    SmallBank,
    /// Subscribers of a telephone network, mostly read
    #[value(name = "tatp")]
    #[serde(rename = "tatp")]
    Tatp,
    /// Four read-modify-writes of popular keys
    #[value(name = "ycsb-t")]
    #[serde(rename = "ycsb-t")]
    YcsbT,
    /// Orders and payments of a wholesaler
    #[value(name = "tpcc")]
    #[serde(rename = "tpcc")]
    Tpcc,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Write => "0-1",
            Kind::ReadWrite => "4-2",
            Kind::SmallBank => "smallbank",
            Kind::Tatp => "tatp",
            Kind::YcsbT => "ycsb-t",
            Kind::Tpcc => "tpcc",
        })
    }
}

/// What makes a transaction of what the reconnaissance found.
type Then = Box<dyn Fn(&[Option<Found>]) -> Transaction + Send>;

/// How one transaction of a workload is done.
pub enum Task {
    /// By this.
    Once(Transaction),
    /// By reading this, and then by what is made of what was found; again when it has changed meanwhile.
    Looked {
        /// Only reads.
        look: Transaction,
        /// The transaction.
        then: Then,
    },
}

/// A workload with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Workload {
    /// Which.
    pub kind: Kind,
    /// Keys, accounts, subscribers times ten; see [`Workload::rows`].
    pub keys: u64,
    /// Bytes of values that are no numbers; SmallBank and TATP have their own.
    pub value: usize,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Write | Kind::ReadWrite | Kind::YcsbT => write!(f, "{} {} B", self.kind, self.value),
            Kind::SmallBank | Kind::Tatp | Kind::Tpcc => self.kind.fmt(f),
        }
    }
}

/// Read-modify-writes of a transaction of YCSB-T.
const UPDATES: usize = 4;

impl Workload {
    /// Keys, accounts, subscribers, or items of the wholesaler.
    pub fn rows(&self) -> u64 {
        match self.kind {
            // About ten keys for each subscriber.
            Kind::Tatp => (self.keys / 10).max(1),
            _ => self.keys,
        }
    }

    /// One of those that have the same preloaded.
    #[must_use]
    pub fn data(self) -> Workload {
        match self.kind {
            Kind::Write | Kind::ReadWrite | Kind::YcsbT => Workload { kind: Kind::Write, ..self },
            Kind::SmallBank | Kind::Tatp | Kind::Tpcc => self,
        }
    }

    /// Bytes that a chain needs for it, generously.
    pub fn room(&self) -> u64 {
        let item = match self.kind {
            Kind::Write | Kind::ReadWrite | Kind::YcsbT => self.value as u64 + 64,
            Kind::SmallBank => 2 * 64,
            Kind::Tatp => 96,
            // With what orders add to it.
            Kind::Tpcc => 256 + 1024,
        };
        self.keys * item * 3 / 2
    }

    /// What must be there before, in transactions of many puts.
    pub fn preload(&self) -> impl Iterator<Item = Transaction> + use<> {
        let workload = *self;
        let mut rows = (0..workload.preload_rows()).peekable();
        let mut prng = Prng::for_entity(0, self.kind as u64, self.value as u64);
        std::iter::from_fn(move || {
            rows.peek()?;
            let mut transaction = Transaction::new();
            while transaction.writes.len() < 64
                && let Some(row) = rows.next()
            {
                workload.put_row(row, &mut transaction, &mut prng);
            }
            Some(transaction)
        })
    }

    fn preload_rows(&self) -> u64 {
        match self.kind {
            Kind::Tpcc => self.rows() + tpcc::PLACES,
            _ => self.rows(),
        }
    }

    fn put_row(&self, row: u64, into: &mut Transaction, prng: &mut Prng) {
        match self.kind {
            Kind::Write | Kind::ReadWrite | Kind::YcsbT => {
                let put = std::mem::take(into).put(self.key(row), value(self.value, prng));
                *into = put;
            }
            Kind::SmallBank => smallbank::put_account(row, into),
            Kind::Tatp => tatp::put_subscriber(row, into, prng),
            Kind::Tpcc => tpcc::put_row(row, self.rows(), into, prng),
        }
    }

    /// A stream of tasks; different for each seed.
    pub fn tasks(&self, seed: u64) -> Tasks {
        let popular =
            (self.kind == Kind::YcsbT).then(|| (Zipf::new(self.keys, 0.99), Scatter::new(self.keys)));
        Tasks { workload: *self, prng: Prng::for_entity(seed, self.kind as u64, 1), popular, made: 0, seed }
    }

    fn key(&self, row: u64) -> Vec<u8> {
        format!("{}:{row:08}", self.value).into_bytes()
    }
}

/// A stream of tasks.
pub struct Tasks {
    workload: Workload,
    prng: Prng,
    popular: Option<(Zipf, Scatter)>,
    made: u64,
    seed: u64,
}

impl Tasks {
    /// The next one.
    pub fn next_task(&mut self) -> Task {
        self.made += 1;
        let (rows, size) = (self.workload.rows(), self.workload.value);
        match self.workload.kind {
            Kind::Write => Task::Once(self.reads_and_writes(0, 1)),
            Kind::ReadWrite => Task::Once(self.reads_and_writes(4, 2)),
            Kind::YcsbT => {
                let keys = self.distinct(UPDATES);
                let update = |transaction: Transaction, key: &Vec<u8>| {
                    transaction.get(&key[..]).put(&key[..], value(size, &mut self.prng))
                };
                Task::Once(keys.iter().fold(Transaction::new(), update))
            }
            Kind::SmallBank => smallbank::task(rows, &mut self.prng),
            Kind::Tatp => tatp::task(rows, &mut self.prng),
            // Whoever orders numbers its own orders; nobody else has these numbers.
            Kind::Tpcc => tpcc::task(rows, (self.seed, self.made), &mut self.prng),
        }
    }

    fn reads_and_writes(&mut self, reads: usize, writes: usize) -> Transaction {
        let mut keys = self.distinct(reads + writes).into_iter();
        let read = keys.by_ref().take(reads).fold(Transaction::new(), Transaction::get);
        let size = self.workload.value;
        keys.fold(read, |transaction, key| transaction.put(key, value(size, &mut self.prng)))
    }

    /// Keys, each once.
    fn distinct(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut rows: Vec<u64> = Vec::with_capacity(count);
        while rows.len() < count.min(self.workload.keys as usize) {
            let row = match &self.popular {
                None => self.prng.below(self.workload.keys),
                Some((zipf, scatter)) => scatter.place(zipf.sample(&mut self.prng)),
            };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows.into_iter().map(|row| self.workload.key(row)).collect()
    }
}

fn value(bytes: usize, prng: &mut Prng) -> Vec<u8> {
    let mut value = vec![0; bytes];
    prng.fill(&mut value);
    value
}

/// A number as it is stored; what is no number counts as 0.
fn number(found: Option<&Option<Found>>) -> i64 {
    let text = found.and_then(Option::as_ref).and_then(|found| std::str::from_utf8(&found.value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The version of what was found; 0 for nothing, as conditions have it.
fn version(found: Option<&Option<Found>>) -> u64 {
    found.and_then(Option::as_ref).map_or(0, |found| found.version.0)
}

#[cfg(test)]
mod tests;
