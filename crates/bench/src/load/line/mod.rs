//! What carries a connection's operations: requests out, answers back.
//!
//! | file | carries |
//! |---|---|
//! | `text` | memcached's or Redis's text over a [`Transport`](super::target::Transport): answers come in the order of the requests |
//! | `datagrams` | memcached's text in UDP datagrams: each request stands alone, and is sent again when nothing comes |
//! | `caches` | the in-network protocol, by the client of `serve::inc` |
//!
//! A line never blocks. Answers that may overtake each other name their request by its *ticket*.

pub mod caches;
pub mod datagrams;
pub mod text;

use super::counts::Tally;
use super::dialect::{Dialect, Part, Storing};
use super::keys::KeyFormat;
use base::Nanos;
use std::io;
use std::os::fd::BorrowedFd;

/// Names a request of a connection; given by the connection, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// A request.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// The items of these keys; perhaps with their unique numbers.
    Read {
        /// Which.
        keys: &'a [u64],
        /// Whether a conditional write will follow.
        unique: bool,
    },
    /// Store a value.
    Store(Storing),
    /// Remove a key.
    Delete(u64),
    /// Give a key so many more seconds; 0 is for ever.
    Touch {
        /// Which.
        key: u64,
        /// Seconds.
        ttl_s: u32,
    },
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// To which request; without one, to the oldest.
    pub ticket: Option<Ticket>,
    /// What came.
    pub part: Part<'a>,
    /// A box answered on the way to the server.
    pub from_box: bool,
}

/// What came of looking for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing.
    Nothing,
    /// Something, and nothing more for now.
    All,
    /// Something, and there may be more at once.
    Some,
}

/// See the file's head.
pub trait Line: Send {
    /// Gets ready for a phase. Nothing is under way.
    fn begin(&mut self, dialect: Dialect, keys: KeyFormat);

    /// Takes a request, to be sent at [`Line::flush`] at the latest.
    fn ask(&mut self, ticket: Ticket, ask: Ask<'_>, tally: &mut Tally);

    /// Sends what was asked, as far as it goes.
    ///
    /// # Errors
    /// The connection is lost.
    fn flush(&mut self, tally: &mut Tally) -> io::Result<()>;

    /// Whether something could not be sent yet, so that the thread should wait for room as well.
    fn has_unsent(&self) -> bool;

    /// Takes what has arrived, and serves what is due.
    ///
    /// # Errors
    /// The connection is lost.
    fn receive(&mut self, tally: &mut Tally) -> io::Result<Received>;

    /// The next piece of an answer that was received.
    ///
    /// # Errors
    /// `InvalidData` when answers cannot be followed.
    fn next(&mut self, tally: &mut Tally) -> io::Result<Option<Heard<'_>>>;

    /// What epoll can wait for; without one, the thread polls.
    fn waitable(&self) -> Option<BorrowedFd<'_>>;

    /// When [`Line::receive`] is wanted although nothing arrives; [`Nanos::MAX`]: not.
    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    /// Whether it ever has a deadline.
    fn is_timed(&self) -> bool {
        false
    }

    /// Forgets what is under way.
    fn abandon(&mut self);
}
