//! Accounts and ledger, and whether they agree in the end.

use super::Args;
use base::Prng;
use fabric::link::Address;
use protocol::chain::Transaction;
use serve::txn::{Client, Options, TxnError};
use std::time::Instant;

/// Ledger entries that are read in one transaction.
const PAGE: usize = 256;

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged, at this time.
    Done(Instant),
    /// It was refused, or aborted.
    NotDone,
    /// No answer came.
    Unknown,
}

/// A transfer.
#[derive(Clone, Debug)]
pub struct Entry {
    thread: u32,
    number: u64,
    /// Whose money it is.
    pub from: u32,
    /// Whose it becomes.
    pub to: u32,
    /// How much.
    pub amount: i64,
    /// What became of it.
    pub fate: Fate,
}

impl Entry {
    /// A transfer between two accounts.
    pub fn draw(thread: u32, number: u64, accounts: u32, prng: &mut Prng) -> Entry {
        let from = prng.below(accounts.into()) as u32;
        let to = (from + 1 + prng.below(u64::from(accounts) - 1) as u32) % accounts;
        let amount = 1 + prng.below(20) as i64;
        Entry { thread, number, from, to, amount, fate: Fate::Unknown }
    }

    /// Its key in the ledger.
    pub fn key(&self) -> Vec<u8> {
        format!("ledger:{}:{}", self.thread, self.number).into_bytes()
    }
}

/// An account's key.
pub fn account(number: u32) -> Vec<u8> {
    format!("account:{number}").into_bytes()
}

/// Gives each account its first money.
pub fn open_accounts(addresses: &[Address], args: &Args) -> Result<(), String> {
    let mut client = Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
    let open = (0..args.accounts)
        .fold(Transaction::new(), |open, number| open.put(account(number), args.balance.to_string()));
    let outcome = client.execute(open).map_err(|error| error.to_string())?;
    client.close();
    outcome.abort.map_or(Ok(()), |abort| Err(format!("the accounts were not opened: {abort:?}")))
}

/// All balances as of one moment, and which.
pub fn balances(client: &mut Client, accounts: u32) -> Result<(u64, Vec<i64>), TxnError> {
    let all = (0..accounts).fold(Transaction::new(), |all, number| all.get(account(number)));
    let outcome = client.execute(all)?;
    let balance = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
    let balances =
        outcome.reads.iter().map(|found| found.as_ref().and_then(|found| balance(&found.value)).unwrap_or(0));
    Ok((outcome.lsn.0, balances.collect()))
}

/// Holds ledger and balances against what became of each transfer; of a chain from a backup, what was acknowledged until that was begun.
pub fn balance(
    addresses: &[Address],
    args: &Args,
    entries: &[Entry],
    backup: Option<Instant>,
) -> Result<(), String> {
    let mut client = Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
    let mut expected = vec![args.balance; args.accounts as usize];
    let (mut done, mut later, mut unknown_done, mut wrong) = (0u64, 0u64, 0u64, Vec::new());
    for page in entries.chunks(PAGE) {
        let read = page.iter().fold(Transaction::new(), |read, entry| read.get(entry.key()));
        let outcome = client.execute(read).map_err(|error| format!("the ledger cannot be read: {error}"))?;
        for (entry, found) in page.iter().zip(&outcome.reads) {
            let key = || String::from_utf8_lossy(&entry.key()).into_owned();
            match (entry.fate, found.is_some()) {
                (Fate::Done(at), false) if backup.is_some_and(|backup| at >= backup) => later += 1,
                (Fate::Done(_), false) => wrong.push(format!("{} was acknowledged, and is not there", key())),
                (Fate::NotDone, true) => wrong.push(format!("{} was refused, and is there", key())),
                (Fate::Done(_), true) => done += 1,
                (Fate::Unknown, true) => unknown_done += 1,
                (Fate::NotDone | Fate::Unknown, false) => {}
            }
            if found.is_some() {
                expected[entry.from as usize] -= entry.amount;
                expected[entry.to as usize] += entry.amount;
            }
        }
    }
    let (_, there) = balances(&mut client, args.accounts).map_err(|error| error.to_string())?;
    client.close();
    for (number, (there, expected)) in there.iter().zip(&expected).enumerate() {
        if there != expected {
            wrong.push(format!("account {number} holds {there}, and the ledger says {expected}"));
        }
    }
    let unknown = entries.iter().filter(|entry| entry.fate == Fate::Unknown).count();
    if backup.is_some() {
        println!(
            "restored: {later} transfers were acknowledged after the backup had begun, and are not in it"
        );
    }
    println!(
        "{} transfers: {done} acknowledged, all in the ledger; {unknown} without an answer, of which {unknown_done} were done; balances are what the ledger says",
        entries.len()
    );
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("{count} wrong: {}", wrong[..count.min(10)].join("; "))),
    }
}
