//! The right, and the duty, to answer one call: from any thread, once.
//!
//! Invariant: for each Responder exactly one reply reaches the server: what was answered, or on drop INTERNAL.
//!
//! Ordering: **cancelled** is a hint and publishes nothing.

use super::incoming::{exhausted, unwritable};
use crate::frame::{self, HEADER, Header, Kind, MAX_MESSAGE};
use crate::server::{Return, Returns, failure};
use crate::status::{Code, Status};
use base::units::Nanos;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the server tells a handler that has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct CallState {
    cancelled: AtomicBool,
}

impl CallState {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed); // label: cancelled
    }
}

/// Answers a call that was deferred. Dropped without an answer, the call fails with INTERNAL.
pub struct Responder {
    returns: Arc<Returns>,
    state: Arc<CallState>,
    connection: u64,
    call: u32,
    deadline: Nanos,
    metadata: Vec<u8>,
    answered: bool,
}

impl Responder {
    pub(crate) fn new(
        returns: &Arc<Returns>,
        connection: u64,
        call: u32,
        deadline: Nanos,
        metadata: Vec<u8>,
    ) -> Responder {
        let state = Arc::new(CallState::default());
        returns.push(Return::Deferred { connection, call, state: Arc::clone(&state) });
        Responder {
            returns: Arc::clone(returns),
            state,
            connection,
            call,
            deadline,
            metadata,
            answered: false,
        }
    }

    /// Sends an entry of metadata with the reply, beside what the handler pushed before it deferred; false if it is no entry (see
    /// [`frame::push_metadata`]).
    #[must_use]
    pub fn push_metadata(&mut self, key: &str, value: &[u8]) -> bool {
        frame::push_metadata(&mut self.metadata, key, value)
    }

    /// Answers with an encoded message; RESOURCE_EXHAUSTED if it is longer than one may be.
    pub fn reply_bytes(mut self, body: &[u8]) {
        if body.len() > MAX_MESSAGE {
            return self.answer(&too_long(body.len()));
        }
        let metadata = self.metadata.len();
        let header = Header { metadata: metadata as u32, ..Header::new(Kind::Reply, self.call) };
        let mut frame = Vec::with_capacity(HEADER + metadata + body.len());
        frame.extend_from_slice(&header.emit());
        frame.extend_from_slice(&self.metadata);
        frame.extend_from_slice(body);
        self.hand_over(frame);
    }

    /// Answers with the message that `fill` puts together.
    pub fn reply<R: Message>(mut self, fill: impl FnOnce(&mut R::Mut<'_, '_>) -> Result<(), OutOfMemory>) {
        let arena = Arena::default();
        let built = R::new(&arena).and_then(|mut reply| fill(&mut reply).map(|()| reply));
        let reply = match built {
            Ok(reply) => reply,
            Err(full) => return self.answer(&exhausted(full)),
        };
        let mut encoder = Encoder::default();
        match R::freeze(reply).encode(&mut encoder) {
            Ok(_) => self.reply_bytes(encoder.written()),
            Err(error) => self.answer(&unwritable(&error)),
        }
    }

    /// Ends the call without a reply.
    pub fn fail(mut self, status: &Status) {
        self.answer(status);
    }

    /// Whether nobody waits for the answer any more. One is owed all the same.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::Relaxed) // label: cancelled
    }

    /// When the caller stops to wait, on the clock that drives the server; [`Nanos::MAX`] for never.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    fn answer(&mut self, status: &Status) {
        self.hand_over(failure(self.call, 0, status));
    }

    fn hand_over(&mut self, frame: Vec<u8>) {
        self.answered = true;
        self.returns.answer(Return::Answer { connection: self.connection, call: self.call, frame });
    }
}

#[cold]
pub(crate) fn too_long(bytes: usize) -> Status {
    Status::new(
        Code::ResourceExhausted,
        format!("the reply has {bytes} bytes, more than the {MAX_MESSAGE} of the longest message"),
    )
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(&Status::new(Code::Internal, "the handler dropped the call"));
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder(connection {}, call {})", self.connection, self.call)
    }
}
