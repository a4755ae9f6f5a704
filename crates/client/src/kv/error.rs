//! Why a request has no answer, and what to do about it.

use std::fmt;
use std::time::Duration;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It cannot be asked. Nothing was sent. A sentence.
    Argument(String),
    /// The server cannot be reached, or not as it was asked to. A sentence.
    Unreachable(String),
    /// The server is gone, and the session with it. What was under way was done or not.
    Gone,
    /// No answer came in time. It was done, will be, or not; the answer is dropped when it comes.
    TimedOut(Duration),
    /// Requests are under way: they are to be completed before one is called.
    Busy,
    /// As many requests as can be are under way: some are to be completed before another is submitted. It was not sent.
    Full,
    /// The value, or the item that is there, is longer than the server or its rings allow. Nothing was changed.
    TooLarge,
    /// What is there is no number. Nothing was changed.
    NotANumber,
    /// The server knows its users, and does not know this one.
    Login,
    /// The server refused it, in its words.
    Refused(String),
    /// The server said what no key-value server says; the session is over.
    Broken(String),
}

impl Error {
    /// Whether the session is over: another is to be opened.
    pub fn ends_session(&self) -> bool {
        matches!(self, Error::Gone | Error::Broken(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Argument(why) | Error::Unreachable(why) => f.write_str(why),
            Error::Gone => f.write_str(
                "the server is gone: open another session; a write that was under way was done or not, read to know",
            ),
            Error::TimedOut(after) => write!(
                f,
                "no answer within {after:?}: try again, or with a longer timeout; a write was done, will be, or not"
            ),
            Error::Busy => f.write_str("requests are under way: complete them first, or ask by another session"),
            Error::Full => f.write_str("too many requests are under way: complete some first; this one was not sent"),
            Error::TooLarge => f.write_str(
                "too large: the server's -I says how long an item may be, and over shared memory half of its shm.arena what one message holds",
            ),
            Error::NotANumber => f.write_str("what is there is no number; nothing was changed"),
            Error::Login => f.write_str("the server asks for a user and password that it knows; see its -Y"),
            Error::Refused(why) => write!(f, "the server refused: {why}"),
            Error::Broken(why) => write!(f, "{why}; the session is over"),
        }
    }
}

impl std::error::Error for Error {}
