//! Transfers, many under way, each with an entry in the ledger.

use super::Args;
use super::books::{Entry, Fate, account};
use super::service::Service;
use base::Prng;
use fabric::link::Address;
use protocol::chain::{Outcome, Transaction};
use serve::txn::{Client, Options, TxnError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How soon it notices that it is to stop.
const NOTICE: Duration = Duration::from_millis(20);

/// Transfers until `stop`; what became of each.
pub fn work(
    addresses: &[Address],
    args: &Args,
    thread: u32,
    service: &Service,
    stop: &AtomicBool,
) -> Result<Vec<Entry>, String> {
    let mut client = Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
    let mut prng = Prng::for_entity(args.seed, thread.into(), 0);
    let mut entries: Vec<Entry> = Vec::new();
    let mut under_way = HashMap::new();
    loop {
        while !stop.load(Ordering::Relaxed) && under_way.len() < args.window as usize {
            let entry = Entry::draw(thread, entries.len() as u64, args.accounts, &mut prng);
            match client.start(transfer(&entry)) {
                Ok(ticket) => under_way.insert(ticket, entries.len()),
                Err(TxnError::TooMany) => break,
                Err(error) => return Err(error.to_string()),
            };
            entries.push(entry);
        }
        if under_way.is_empty() {
            client.close();
            return Ok(entries);
        }
        while let Some((ticket, result)) = client.poll() {
            if let Some(at) = under_way.remove(&ticket) {
                entries[at].fate = fate(result);
                if matches!(entries[at].fate, Fate::Done(_)) {
                    service.done();
                }
            }
        }
        client.wait(Some(NOTICE));
    }
}

fn transfer(entry: &Entry) -> Transaction {
    Transaction::new()
        .if_at_least(account(entry.from), entry.amount)
        .add(account(entry.from), -entry.amount)
        .add(account(entry.to), entry.amount)
        .put(entry.key(), entry.amount.to_string())
}

fn fate(result: Result<Outcome, TxnError>) -> Fate {
    match result {
        Ok(outcome) if outcome.abort.is_none() => Fate::Done(Instant::now()),
        Ok(_) | Err(TxnError::Refused(_) | TxnError::NotDone(_) | TxnError::Nobody(_)) => Fate::NotDone,
        Err(_) => Fate::Unknown,
    }
}
