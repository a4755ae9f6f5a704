//! The side that asks.

use super::envelope::Envelope;
use super::wire::{SendError, Side, Violation, Wire};
use super::{Form, Outcome, Segment};
use crate::pair::{self, Client, Tag};
use crate::spsc::Hybrid;
use crate::tags::TagMap;
use crate::wait::{Sleeper, WaitPolicy};
use rustix::fd::OwnedFd;
use std::time::Duration;

/// A client over a segment. One per segment.
pub struct ShmClient {
    pair: Client<Envelope, Envelope>,
    wire: Wire,
    asked: TagMap<()>,
    private: Vec<u8>,
}

impl ShmClient {
    /// The client of `segment`, with the socket over which it was handed.
    ///
    /// # Panics
    /// When the segment is not a pair's.
    pub fn new(segment: &Segment, socket: impl Into<OwnedFd>) -> ShmClient {
        assert_eq!(segment.form(), Form::Pair, "a client of something else");
        let entries = segment.geometry.entries;
        ShmClient {
            pair: pair::map_client::<Hybrid, _, _>(&segment.memory, segment.layout.rings, entries),
            wire: Wire::new(segment, Side::Client, socket.into()),
            asked: TagMap::new(entries),
            private: Vec::new(),
        }
    }

    /// Issues a request; it is on its way at the latest after [`ShmClient::flush`].
    ///
    /// # Errors
    /// See [`SendError`]. What was issued before a [`SendError::Full`] is flushed.
    pub fn try_send(&mut self, message: &[u8]) -> Result<Tag, SendError> {
        if self.wire.is_over() {
            return Err(SendError::Gone);
        }
        let full = self.pair.free() == 0;
        let sealed = if full { Err(SendError::Full) } else { Envelope::seal(&mut self.wire, message) };
        match sealed {
            Ok(envelope) => {
                let tag = self.pair.try_send(envelope).map_err(|_| SendError::Full)?;
                self.asked.insert(tag, ());
                Ok(tag)
            }
            Err(error) => {
                self.flush();
                Err(error)
            }
        }
    }

    /// Sends what was issued on its way, and wakes the server if it sleeps.
    pub fn flush(&mut self) {
        self.pair.flush();
        self.wire.wake_peer();
    }

    /// Hands at most `max` replies to `each`, from memory that the peer cannot change, and returns how many.
    ///
    /// # Errors
    /// [`Violation`]: the server broke the protocol and the connection is over.
    pub fn poll(&mut self, max: usize, mut each: impl FnMut(Tag, &[u8])) -> Result<usize, Violation> {
        let mut taken = 0;
        while taken < max {
            let Some((tag, envelope)) = self.pair.poll() else {
                self.wire.idle();
                break;
            };
            let asked = self.asked.remove(tag).ok_or(Violation::Tag);
            let opened = asked
                .and_then(|()| envelope.open(&mut self.wire, &mut self.private, |bytes| each(tag, bytes)));
            opened.inspect_err(|_| self.wire.give_up())?;
            taken += 1;
        }
        Ok(taken)
    }

    /// Waits for a reply (or for room after a [`SendError::Full`]), for `timeout` at most.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        let watched = std::ptr::from_ref(self.pair.next_word());
        let pair = &mut self.pair;
        self.wire.wait(policy, timeout, watched, || pair.is_ready())
    }

    /// Requests without a reply.
    pub fn in_flight(&self) -> u32 {
        self.pair.in_flight()
    }

    /// For callers that sleep in epoll: see [`Sleeper::arm`].
    pub fn sleeper(&mut self) -> &mut Sleeper {
        self.wire.sleeper()
    }
}
