//! What every side of a segment does alike, whatever its form: the arenas, waiting and waking, the end.

use super::Segment;
use super::segment::Layout;
use crate::Mapping;
use crate::arena::{MappedConsumer, MappedProducer};
use crate::sync::AtomicU32;
use crate::wait::{Descriptor, Outcome, Sleeper, WaitPolicy, Waker};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No credit, or no room in the arena: the peer must take something first.
    Full,
    /// Longer than the segment's longest message.
    TooLarge,
    /// The peer is gone or broke the protocol.
    Gone,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the ring or its arena is full",
            SendError::TooLarge => "the message is longer than the segment allows",
            SendError::Gone => "the peer is gone",
        })
    }
}

impl std::error::Error for SendError {}

/// How a peer broke the protocol. The connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A message longer than the segment's longest.
    Length,
    /// Bytes outside its arena, or already released.
    Span,
    /// A reply to no request, or a second one.
    Tag,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::Length => "the peer sent a message longer than agreed",
            Violation::Span => "the peer named bytes outside its arena",
            Violation::Tag => "the peer answered a request that was not made",
        })
    }
}

impl std::error::Error for Violation {}

/// One side's means beside its half of the pair.
pub(super) struct Wire {
    pub(super) out: MappedProducer,
    pub(super) inn: MappedConsumer,
    sleeper: Sleeper,
    waker: Waker,
    pub(super) max_message: u32,
    /// A message did not fit the arena: room there is worth waking up for.
    pub(super) starved: bool,
    gone: bool,
}

/// Which side of a segment one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that sends through the request ring.
    Client,
    /// The one that sends through the response ring.
    Server,
}

impl Wire {
    pub(super) fn new(segment: &Segment, side: Side, socket: OwnedFd) -> Wire {
        let memory: &Arc<Mapping> = &segment.memory;
        let Layout { server_wake, client_wake, request_arena, response_arena, .. } = segment.layout;
        let (requests, responses) = (segment.geometry.request_arena, segment.geometry.response_arena);
        let socket = Descriptor::Socket(Arc::new(socket));
        let (mine, theirs, out, inn) = match side {
            Side::Client => {
                (client_wake, server_wake, (request_arena, requests), (response_arena, responses))
            }
            Side::Server => {
                (server_wake, client_wake, (response_arena, responses), (request_arena, requests))
            }
        };
        Wire {
            out: MappedProducer::new(memory, out.0, out.1),
            inn: MappedConsumer::new(memory, inn.0, inn.1),
            sleeper: Sleeper::mapped_with(memory, mine, socket.clone()),
            waker: Waker::mapped_with(memory, theirs, socket),
            max_message: segment.geometry.max_message,
            starved: false,
            gone: false,
        }
    }

    /// Nothing more to take for now: tell the peer of the room, and wake it if it waits for that.
    pub(super) fn idle(&mut self) {
        if self.inn.publish() {
            self.waker.wake();
        }
    }

    pub(super) fn wake_peer(&self) {
        self.waker.wake();
    }

    /// Waits until `ready`, or until a message that did not fit may fit now.
    pub(super) fn wait(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        watched: *const AtomicU32,
        mut ready: impl FnMut() -> bool,
    ) -> Outcome {
        // The peer may be waiting for the room of what was just taken.
        self.idle();
        let (out, starved) = (&self.out, self.starved);
        let outcome =
            self.sleeper.wait_on(policy, timeout, watched, || ready() || (starved && out.has_news()));
        self.gone |= outcome == Outcome::PeerGone;
        outcome
    }

    /// Whether a message that did not fit may fit now.
    pub(super) fn has_room(&self) -> bool {
        self.starved && self.out.has_news()
    }

    /// Whether the peer is gone, by its socket.
    pub(super) fn peer_is_gone(&self) -> bool {
        self.sleeper.peer_is_gone()
    }

    /// Ends the connection for the peer too, now and not when the last descriptor is closed.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.descriptor(), rustix::net::Shutdown::Both);
    }

    /// What the sleeper sleeps on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleeper.descriptor().expect("a wire sleeps on its socket")
    }

    /// Whether the descriptor is readable.
    #[cfg(test)]
    pub(super) fn is_rung(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") == 1
    }

    /// The connection is over.
    pub(super) fn give_up(&mut self) {
        self.gone = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.gone
    }

    pub(super) fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }
}
