//! Clients of a chain that moves: they write, read, and remember what was acknowledged.
//!
//! Each has counters of its own. A write adds one to a counter and puts the same number beside it; its answer says what the counter is. So a write
//! that was lost, done twice or undone shows at the next write of the counter, at the next read, or in the end.

use fabric::link::Address;
use protocol::chain::Transaction;
use protocol::chain::client::Reads;
use serve::txn::{Client, Options, TxnError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Counters of a client.
const COUNTERS: u64 = 64;
/// Bytes of an item that is there before.
const ITEM: usize = 200;
/// Items that are written in one transaction.
const BATCH: u64 = 100;
/// Every so many operations one reads.
const READS: u64 = 4;
/// Faults that are told in words.
const EXAMPLES: usize = 3;

/// What all clients see.
pub struct Run(AtomicBool);

impl Run {
    pub fn new() -> Run {
        Run(AtomicBool::new(false))
    }

    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An operation's time.
pub struct Wait {
    pub begun: Instant,
    pub ended: Instant,
    pub reads: bool,
}

/// What a client saw.
#[derive(Default)]
pub struct Account {
    number: u32,
    pub waits: Vec<Wait>,
    pub acknowledged: u64,
    pub reads: u64,
    pub unknown: u64,
    pub lost: u64,
    pub doubled: u64,
    pub read_back: u64,
    pub failed: u64,
    pub examples: Vec<String>,
    counters: Vec<Counter>,
}

/// What is known of a counter.
#[derive(Clone, Copy, Default)]
struct Counter {
    /// As it was acknowledged.
    known: i64,
    /// Writes of which nobody knows whether they were done.
    open: i64,
    /// What was put beside it with the last that was acknowledged.
    beside: i64,
}

fn options() -> Options {
    Options {
        reads: Reads::Spread,
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(60),
        ..Options::default()
    }
}

fn connect(addresses: &[Address]) -> Result<Client, String> {
    Client::connect(addresses, &options()).map_err(|error| error.to_string())
}

/// Puts items into the chain.
pub fn fill(addresses: &[Address], items: u64) -> Result<(), String> {
    let mut client = connect(addresses)?;
    for first in (0..items).step_by(BATCH as usize) {
        let mut transaction = Transaction::new();
        for item in first..items.min(first + BATCH) {
            transaction = transaction.put(format!("item {item}"), vec![b'x'; ITEM]);
        }
        client.execute(transaction).map_err(|error| error.to_string())?;
    }
    client.close();
    Ok(())
}

fn counter(number: u32, at: u64) -> String {
    format!("counter {number} {at}")
}

fn beside(number: u32, at: u64) -> String {
    format!("beside {number} {at}")
}

impl Account {
    fn fault(&mut self, of: fn(&mut Account) -> &mut u64, by: u64, what: impl FnOnce() -> String) {
        *of(self) += by;
        if self.examples.len() < EXAMPLES {
            let what = what();
            self.examples.push(format!("client {}: {what}", self.number));
        }
    }

    /// A counter is this much: what that says of the writes before.
    fn holds(&mut self, at: u64, found: i64, what: &str) {
        let Counter { known, open, .. } = self.counters[at as usize];
        if found < known {
            self.fault(
                |account| &mut account.lost,
                (known - found) as u64,
                || format!("{what} of counter {at} is {found}, and {known} were acknowledged"),
            );
        } else if found > known + open {
            let more = found - known - open;
            self.fault(
                |account| &mut account.doubled,
                more as u64,
                || {
                    format!(
                        "{what} of counter {at} is {found}, and {known} were acknowledged, {open} perhaps"
                    )
                },
            );
        }
    }

    fn write(&mut self, client: &mut Client, at: u64) {
        let Counter { known, open, .. } = self.counters[at as usize];
        let put = known + open + 1;
        let transaction =
            Transaction::new().add(counter(self.number, at), 1).put(beside(self.number, at), put.to_string());
        let begun = Instant::now();
        let done = client.execute(transaction);
        self.waits.push(Wait { begun, ended: Instant::now(), reads: false });
        match done {
            Ok(outcome) => {
                self.acknowledged += 1;
                match outcome.sums.first() {
                    Some(sum) => {
                        self.holds(at, sum - 1, "before a write the value");
                        self.counters[at as usize] = Counter { known: *sum, open: 0, beside: put };
                    }
                    None => self.fault(
                        |account| &mut account.failed,
                        1,
                        || format!("aborted: {:?}", outcome.abort),
                    ),
                }
            }
            Err(TxnError::Unknown { .. }) => {
                self.unknown += 1;
                self.counters[at as usize].open += 1;
            }
            Err(error) => self.fault(|account| &mut account.failed, 1, || error.to_string()),
        }
    }

    fn read(&mut self, client: &mut Client, at: u64) {
        let transaction = Transaction::new().get(counter(self.number, at));
        let begun = Instant::now();
        let done = client.execute(transaction);
        self.waits.push(Wait { begun, ended: Instant::now(), reads: true });
        match done {
            Ok(outcome) => {
                self.reads += 1;
                let found =
                    number(outcome.reads.first().and_then(Option::as_ref).map(|found| &found.value[..]));
                let Counter { known, open, .. } = self.counters[at as usize];
                if found < known || found > known + open {
                    self.fault(
                        |account| &mut account.read_back,
                        1,
                        || format!("counter {at} is read as {found}, and {known} were acknowledged"),
                    );
                }
            }
            Err(error) => self.fault(|account| &mut account.failed, 1, || error.to_string()),
        }
    }
}

fn number(value: Option<&[u8]>) -> i64 {
    let text = value.map(String::from_utf8_lossy);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// One client, until the run is over.
pub fn client(number: u32, addresses: &[Address], run: &Run) -> Result<Account, String> {
    let mut client = connect(addresses)?;
    let mut account =
        Account { number, counters: vec![Counter::default(); COUNTERS as usize], ..Account::default() };
    for turn in 0.. {
        if run.is_over() {
            break;
        }
        let at = turn % COUNTERS;
        match turn % READS {
            0 => account.read(&mut client, at),
            _ => account.write(&mut client, at),
        }
    }
    client.close();
    Ok(account)
}

/// In the end, at the replicas that are left: each counter is what was acknowledged, and what is beside it was put with it.
pub fn settle(addresses: &[Address], accounts: &mut [Account]) -> Result<(), String> {
    let mut client = connect(addresses)?;
    for account in accounts {
        for at in 0..COUNTERS {
            let transaction =
                Transaction::new().get(counter(account.number, at)).get(beside(account.number, at));
            let outcome = client.execute(transaction).map_err(|error| error.to_string())?;
            let value = |nth: usize| {
                number(outcome.reads.get(nth).and_then(Option::as_ref).map(|found| &found.value[..]))
            };
            account.holds(at, value(0), "in the end the value");
            let Counter { open, beside, .. } = account.counters[at as usize];
            if open == 0 && value(1) != beside {
                let (first, second) = (value(0), value(1));
                account.fault(
                    |account| &mut account.lost,
                    1,
                    || format!("counter {at} is {first}, and {second} is beside it: half of a write"),
                );
            }
        }
    }
    client.close();
    Ok(())
}
