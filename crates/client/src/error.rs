//! Why an operation has no result, and what to do about it.

use crate::chain::Across;
use crate::chain::reply::CLAIMED;
use crate::chain::words::refusal_text;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::transaction::Abort;
use std::fmt;

/// Why there is no result.
///
/// What was not done can be tried again by the program; of what is [`Error::Unknown`], [`crate::Store::status`] tells whether it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nobody of the cluster was found, where it was looked, and why; of a file that is wrong, with the line. Nothing was sent.
    NotFound(String),
    /// Nobody answered by the deadline. It was not done, and will not be.
    NotDone(String),
    /// No answer came by the deadline. It was done once or not at all, and may still be.
    Unknown {
        /// Under which [`crate::Store::status`] tells what became of it; none for what only reads.
        id: Option<RequestId>,
        /// What is known of the reason.
        why: String,
    },
    /// Its keys are in two chains of the cluster. It was not done.
    Across(Across),
    /// The chain refused it: a key or a value is too long, for one. It was not done.
    Refused(Refusal),
    /// What is there is no number; nothing was changed.
    NotANumber,
    /// The sum does not fit 64 bits with a sign; nothing was changed.
    Overflow,
    /// The chain has no room for it; nothing was changed.
    NoRoom,
    /// What is read is too much for one reply: read it in several.
    LongReply,
    /// Boxes have copies of the chain's items, and it did not come by their home; or another home has taken over. Nothing was changed.
    Claimed,
    /// The cache did not do it, for this reason: a value that does not fit, for one.
    Cache(String),
    /// An answer that no chain gives: another version of it?
    Odd(String),
}

impl Error {
    pub(crate) fn no_store() -> Error {
        Error::NotFound("the cluster has no store: its file has no [[chain]]".to_owned())
    }

    /// What an abort means for an operation whose condition, if it has one, held.
    pub(crate) fn of_abort(abort: Abort) -> Error {
        match abort {
            Abort::NotANumber(_) => Error::NotANumber,
            Abort::Overflow(_) => Error::Overflow,
            Abort::NoRoom => Error::NoRoom,
            Abort::LongReply => Error::LongReply,
            Abort::Claimed => Error::Claimed,
            Abort::Condition(at) => Error::Odd(format!("condition {at} does not hold, and there is none")),
        }
    }

    /// Whether it may have been done, or may yet be.
    pub fn may_be_done(&self) -> bool {
        matches!(self, Error::Unknown { .. } | Error::Odd(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(why) => f.write_str(why),
            Error::NotDone(why) => write!(f, "not done, and it will not be: {why}"),
            Error::Unknown { id: Some(id), why } => write!(
                f,
                "no answer, so whether it was done is not known: {why}\n  `millrace txn status {} {}`, or Store::status, tells what became of it",
                id.session, id.sequence
            ),
            Error::Unknown { id: None, why } => {
                write!(f, "no answer, so whether it was done is not known: {why}")
            }
            Error::Refused(refusal) => write!(f, "not done: {}", refusal_text(refusal)),
            Error::Across(across) => write!(f, "not done: {across}"),
            Error::NotANumber => f.write_str("not done: what is there is no number of 64 bits with a sign"),
            Error::Overflow => f.write_str("not done: the sum does not fit 64 bits with a sign"),
            Error::NoRoom => {
                f.write_str("not done: the chain has no room for it; give its replicas more --data-size")
            }
            Error::LongReply => f.write_str("what it reads is too much for one reply: read it in several"),
            Error::Claimed => write!(f, "not done: {CLAIMED}"),
            Error::Cache(why) => write!(f, "not done: {why}"),
            Error::Odd(what) => write!(f, "an answer that is not understood: {what}"),
        }
    }
}

impl std::error::Error for Error {}
