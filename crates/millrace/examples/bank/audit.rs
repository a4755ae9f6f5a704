//! The auditor: all accounts in one transaction, over and over.

use super::Args;
use super::books::balances;
use fabric::link::Address;
use protocol::chain::client::Reads;
use serve::txn::{Client, Options, TxnError};
use std::sync::atomic::{AtomicBool, Ordering};

/// Audits until `stop`; how many there were.
pub fn work(addresses: &[Address], args: &Args, stop: &AtomicBool) -> Result<u64, String> {
    let options = Options { reads: Reads::Spread, ..Options::default() };
    let mut client = Client::connect(addresses, &options).map_err(|error| error.to_string())?;
    let total = i64::from(args.accounts) * args.balance;
    let mut audits = 0;
    while !stop.load(Ordering::Relaxed) {
        let (lsn, balances) = match balances(&mut client, args.accounts) {
            Ok(found) => found,
            // Nobody answered in time: that is the service's matter.
            Err(TxnError::Unknown { .. } | TxnError::NotDone(_)) => continue,
            Err(error) => return Err(error.to_string()),
        };
        let sum: i64 = balances.iter().sum();
        if sum != total {
            return Err(format!("as of transaction {lsn} the accounts hold {sum}, not {total}"));
        }
        if let Some(at) = balances.iter().position(|balance| *balance < 0) {
            return Err(format!("as of transaction {lsn} account {at} holds {}", balances[at]));
        }
        audits += 1;
    }
    Ok(audits)
}
