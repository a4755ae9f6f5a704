//! The client library without waiting: many operations under way, driven by whoever has a loop of its own.
//!
//! [`Client::start`] sends; [`Client::serve`] takes what has arrived and sends again what is due; [`Client::poll_outcome`] says what ended.
//! Between them, wait for the client's descriptor or [`Client::next_deadline`].
//!
//! Bounds: `coherence.operations` under way or not polled, and as many by streams.

use super::client::Client;
use base::Nanos;
use protocol::coherence::client::{Answer, Call, Failed, OpId, Refused};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

impl Client {
    /// Begins an operation.
    ///
    /// # Errors
    /// It cannot begin: nothing was sent.
    pub fn start(&mut self, call: Call) -> Result<OpId, Refused> {
        self.ways.start(call)
    }

    /// An operation that ended, and how.
    pub fn poll_outcome(&mut self) -> Option<(OpId, Result<Answer, Failed>)> {
        self.ways.poll_outcome()
    }

    /// Takes what has arrived and does what is due. It does not wait.
    ///
    /// # Errors
    /// The socket failed.
    pub fn serve(&mut self) -> io::Result<()> {
        self.ways.serve()
    }

    /// When [`Client::serve`] is wanted although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        self.ways.next_deadline()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ways.as_fd()
    }
}
