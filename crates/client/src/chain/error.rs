//! Why a transaction has no outcome, and what to do about it.

use super::words::refusal_text;
use fabric::link::Address;
use protocol::chain::message::{Refusal, RequestId};
use std::fmt;

/// A transaction has keys of two chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Across {
    /// A key of the one, and one of the other.
    pub keys: [Vec<u8>; 2],
    /// The numbers of the chains.
    pub chains: [u32; 2],
}

impl fmt::Display for Across {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([one, other], [chain, another]) =
            (self.keys.each_ref().map(|key| key.escape_ascii()), self.chains);
        write!(
            f,
            "\"{one}\" is in chain {chain} and \"{other}\" in chain {another}, and a transaction is of one chain. Ask for them one by one; or name keys that \
             belong together with the same tag, as {{tag}}{one} and {{tag}}{other}: then they are in one chain"
        )
    }
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnError {
    /// No replica was reached; what was said at each address. Nothing was sent.
    Nobody(Vec<(Address, String)>),
    /// No source names a replica, and why. Nothing was sent.
    NotFound(String),
    /// The addresses are those of replicas of different chains.
    Chains(u32, u32),
    /// Its keys are in two chains. It was not sent.
    Across(Across),
    /// Its keys are each chain's own, and there are several. It was not sent.
    NoChain,
    /// The chain refused it. It was not done.
    Refused(Refusal),
    /// It was given up before it could be sent. It was not done, and will not be.
    NotDone(String),
    /// No answer came. It was done once or not at all, and may still be.
    Unknown {
        /// Under which `millrace txn status` tells what became of it; none for what only reads or has no session.
        id: Option<RequestId>,
        /// What is known of the reason.
        why: String,
    },
    /// As much is under way as may be: poll, then try again.
    TooMany,
}

impl TxnError {
    /// The exit status that says so: 2 for what was not done, 3 for what is not known.
    pub fn exit_code(&self) -> u8 {
        match self {
            TxnError::Unknown { .. } => 3,
            _ => 2,
        }
    }
}

impl fmt::Display for TxnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TxnError::Nobody(tried) => {
                f.write_str("no replica was reached, and nothing was done")?;
                tried.iter().try_for_each(|(address, why)| write!(f, "\n  {address}: {why}"))?;
                f.write_str("\n  `millrace chain up` starts a chain and prints its addresses")
            }
            TxnError::NotFound(why) => write!(f, "no replica was found, and nothing was done: {why}"),
            TxnError::Chains(one, other) => write!(
                f,
                "the addresses are those of different chains, {one} and {other}: name replicas of one of them"
            ),
            TxnError::Across(across) => write!(f, "not done: {across}"),
            TxnError::NoChain => {
                f.write_str("not done: its keys are each chain's own, and there are several: say which chain")
            }
            TxnError::Refused(refusal) => write!(f, "not done: {}", refusal_text(refusal)),
            TxnError::NotDone(why) => write!(f, "not done, and it will not be: {why}"),
            TxnError::Unknown { id: Some(id), why } => write!(
                f,
                "no answer, so whether it was done is not known: {why}\n  `millrace txn status {} {}` tells what became of it",
                id.session, id.sequence
            ),
            TxnError::Unknown { id: None, why } => write!(f, "no answer: {why}"),
            TxnError::TooMany => f.write_str("as much is under way as may be: poll, then try again"),
        }
    }
}

impl std::error::Error for TxnError {}
