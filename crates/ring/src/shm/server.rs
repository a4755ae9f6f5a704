//! The side that answers.

use super::envelope::Envelope;
use super::wire::{SendError, Side, Violation, Wire};
use super::{Form, Outcome, Segment};
use crate::pair::{self, Server, Tag};
use crate::spsc::Hybrid;
use crate::wait::{Sleeper, WaitPolicy};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// A server over a segment. One per segment.
pub struct ShmServer {
    pair: Server<Envelope, Envelope>,
    wire: Wire,
    private: Vec<u8>,
}

impl ShmServer {
    /// The server of `segment`, with the socket over which it was handed.
    ///
    /// # Panics
    /// When the segment is not a pair's.
    pub fn new(segment: &Segment, socket: impl Into<OwnedFd>) -> ShmServer {
        assert_eq!(segment.form(), Form::Pair, "a server of something else");
        ShmServer {
            pair: pair::map_server::<Hybrid, _, _>(
                &segment.memory,
                segment.layout.rings,
                segment.geometry.entries,
            ),
            wire: Wire::new(segment, Side::Server, socket.into()),
            private: Vec::new(),
        }
    }

    /// Hands at most `max` requests to `each`, oldest first, from memory that the peer cannot change, and returns how many.
    ///
    /// # Errors
    /// [`Violation`]: the client broke the protocol and the connection is over. The request that did so is owed no reply.
    pub fn recv(&mut self, max: usize, mut each: impl FnMut(Tag, &[u8])) -> Result<usize, Violation> {
        let mut taken = 0;
        while taken < max && !self.wire.is_over() {
            let Some((tag, envelope)) = self.pair.try_recv() else {
                self.wire.idle();
                break;
            };
            let opened = envelope.open(&mut self.wire, &mut self.private, |bytes| each(tag, bytes));
            opened.inspect_err(|_| self.wire.give_up())?;
            taken += 1;
        }
        Ok(taken)
    }

    /// Answers the request `tag`; the reply is on its way at the latest after [`ShmServer::flush`].
    ///
    /// # Errors
    /// See [`SendError`]: `Full` only for a reply longer than [`super::INLINE`] while the client has not taken the ones
    /// before; the request is still owed its reply then.
    ///
    /// # Panics
    /// When no request waits for a reply.
    pub fn reply(&mut self, tag: Tag, message: &[u8]) -> Result<(), SendError> {
        assert!(self.pair.owed() > 0, "a reply to {tag:?} without a request that waits for one");
        if self.wire.is_over() {
            return Err(SendError::Gone);
        }
        match Envelope::seal(&mut self.wire, message) {
            Ok(envelope) => {
                self.pair.reply(tag, envelope);
                Ok(())
            }
            Err(error) => {
                self.flush();
                Err(error)
            }
        }
    }

    /// Sends the replies given so far on their way, and wakes the client if it sleeps.
    pub fn flush(&mut self) {
        self.pair.flush();
        self.wire.wake_peer();
    }

    /// Whether a request waits.
    pub fn is_ready(&mut self) -> bool {
        self.pair.is_ready()
    }

    /// Waits for a request (or for room after a [`SendError::Full`]), for `timeout` at most.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        let watched = std::ptr::from_ref(self.pair.next_word());
        let pair = &mut self.pair;
        self.wire.wait(policy, timeout, watched, || pair.is_ready())
    }

    /// Requests received and not answered.
    pub fn owed(&self) -> u32 {
        self.pair.owed()
    }

    /// For callers that sleep in epoll: see [`Sleeper::arm`].
    pub fn sleeper(&mut self) -> &mut Sleeper {
        self.wire.sleeper()
    }

    /// For a server that sleeps in epoll, on many connections at once: says that it is about to sleep on
    /// [`ShmServer::descriptor`]. False when something is there already, a request or room after [`SendError::Full`]:
    /// then it is awake as before.
    pub fn park(&mut self) -> bool {
        self.wire.idle();
        self.wire.sleeper().arm();
        let has_news = self.pair.is_ready() || self.wire.has_room();
        if has_news {
            // What else this could tell, the descriptor in its epoll set goes on telling.
            self.wire.sleeper().disarm();
        }
        !has_news
    }

    /// Awake again, after the descriptor became readable. Returns whether the client is gone; what it sent before can still
    /// be received.
    pub fn unpark(&mut self) -> bool {
        self.wire.sleeper().disarm()
    }

    /// What a parked server sleeps on: readable when the client rings or is gone.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }
}
