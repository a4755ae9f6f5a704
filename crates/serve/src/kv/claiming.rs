//! How a server finds its chain, waiting for one that is being started; how a home of boxes comes to have it for itself, and why a server has no client
//! of one.

use ::client::chain::{Client, Options, Source, TxnError};
use base::Nanos;
use protocol::chain::claim::CLAIM;
use protocol::chain::{Claim, Transaction};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{Duration, Instant};

/// Between two looks for a chain of which nobody is there.
const PACE: Duration = Duration::from_millis(100);

/// A client of a chain, which may be being started: it is waited for as long as its clients wait for an answer (`chained.patience`). What is waited for is
/// said once, after the first look.
pub fn find_in_time(source: &Source, number: Option<u32>, options: &Options) -> Result<Client, ConnectError> {
    let begun = Instant::now();
    let mut is_said = false;
    loop {
        let error = match Client::find(vec![source.clone()], number, options) {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let may_come = matches!(error, TxnError::Nobody(_) | TxnError::NotFound(_));
        if !may_come || begun.elapsed() >= options.patience {
            return Err(ConnectError::Chain(number, error));
        }
        if !std::mem::replace(&mut is_said, true) {
            let which = number.map_or("the chain".to_owned(), |number| format!("chain {number}"));
            let longest = Nanos::from(options.patience);
            log::warn!(
                "waits for a replica of {which} to answer, {longest} at most (chained.patience): {error}"
            );
        }
        std::thread::sleep(PACE);
    }
}

/// A home that is to have a chain for itself.
pub struct Claiming {
    /// Where it is, for whoever wants to write.
    pub address: String,
    /// It never ran before, so there may be no copies in boxes.
    pub is_first: bool,
}

impl Claiming {
    /// The number of the claim that counts from now on. Who had claimed the chain before finds that it is replaced.
    pub fn claim(&self, chain: Option<u32>, client: &mut Client) -> Result<u64, ConnectError> {
        let wrong = |error| ConnectError::Chain(chain, error);
        let before = client.claim().map_err(wrong)?;
        if let Some((_, claim)) = &before {
            log::info!("the chain was claimed before: {claim}");
        }
        let number = RandomState::new().build_hasher().finish().max(1);
        let outcome = client.execute(self.replace(before, number)?).map_err(wrong)?;
        match outcome.abort {
            None => log::info!("the chain is claimed: {number:016x} by the home at {}", self.address),
            Some(_) => return Err(ConnectError::Race),
        }
        Ok(number)
    }

    /// What makes `number` the claim that counts, if that is still `before`, or none.
    ///
    /// # Errors
    /// [`ConnectError::Claimed`].
    pub fn replace(&self, before: Option<(u64, Claim)>, number: u64) -> Result<Transaction, ConnectError> {
        if let Some((_, claim)) = &before
            && self.is_first
        {
            return Err(ConnectError::Claimed(claim.clone()));
        }
        let claim = Claim { number, address: self.address.clone() };
        let version = before.map_or(0, |(version, _)| version);
        Ok(claim.make().if_version(CLAIM, version))
    }
}

/// Why there is no client.
#[derive(Debug)]
pub enum ConnectError {
    /// The cluster's file, or what was said beside it.
    File(String),
    /// The chain, of this number where that was said.
    Chain(Option<u32>, TxnError),
    /// A home that never ran before finds that another one claimed the chain.
    Claimed(Claim),
    /// Another home claims the chain in the same moment.
    Race,
    /// The system.
    Thread(io::Error),
}
