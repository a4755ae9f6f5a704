//! The seam to workers: who runs unary handlers when it is not the thread that took the frame.
//!
//! ```text
//! server ── submit(origin, request) ──▶ worker: Router::execute(scratch, request, origin, now)
//!        ◀─ collect: (connection, reply) ─┘     Executed::Reply(head, body): bring it back; Executed::Deferred: nothing, it comes by itself
//! ```
//! Contract: what `submit` took is executed once, and its reply comes out of `collect` once, on this thread, in any order. What it
//! did not take is offered again after some replies were collected; nothing else is taken from that connection until then. Requests of
//! one line (methods with an order) are executed one after the other, as they were submitted.

use crate::registers::Registers;
use base::units::Nanos;
use rustix::fd::BorrowedFd;
use std::fmt;

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The server's number of the connection.
    pub connection: u64,
    /// When it came, on the clock that drives the server; the caller's patience counts from here.
    pub arrived: Nanos,
}

/// No room for the request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the workers have no room for another request")
    }
}

impl std::error::Error for Full {}

/// Runs unary requests elsewhere.
pub trait Executor: Send {
    /// Whether requests are to be submitted; if not, the server's thread runs handlers itself. Asked once in each poll.
    fn takes(&self) -> bool {
        true
    }

    /// Takes a request (a whole frame) that a worker shall execute.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full>;

    /// Requests that were taken and whose replies were not collected; with a handler that deferred, until that has returned.
    fn in_flight(&self) -> usize;

    /// Publishes what was taken.
    fn flush(&mut self);

    /// Hands replies (whole frames) that are there to `each`, with the connection, and says how many.
    fn collect(&mut self, now: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize;

    /// Before sleeping on the descriptors: whether there is nothing to collect, and one of them becomes readable when there is.
    fn arm(&mut self) -> bool;

    /// After sleeping: awake again.
    fn disarm(&mut self);

    /// Adds what is readable when an armed executor has replies.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>);

    /// A connection is over; replies to it go nowhere.
    fn closed(&mut self, _connection: u64) {}

    /// Registers were changed.
    fn follow(&mut self, _registers: &Registers) {}
}
