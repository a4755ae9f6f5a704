//! How a home of boxes comes to have a chain for itself, and why a server has no client of a chain.

use ::client::chain::{Client, TxnError};
use protocol::chain::Claim;
use protocol::chain::claim::CLAIM;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

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
            if self.is_first {
                return Err(ConnectError::Claimed(claim.clone()));
            }
            log::info!("the chain was claimed before: {claim}");
        }
        let number = RandomState::new().build_hasher().finish().max(1);
        let claim = Claim { number, address: self.address.clone() };
        let version = before.map_or(0, |(version, _)| version);
        let outcome = client.execute(claim.make().if_version(CLAIM, version)).map_err(wrong)?;
        match outcome.abort {
            None => log::info!("the chain is claimed: {claim}"),
            Some(_) => return Err(ConnectError::Race),
        }
        Ok(number)
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
