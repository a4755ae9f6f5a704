//! A call of a method without streams, on its way through a handler.
//!
//! Cost: [`Incoming::message`] decodes into an arena and encodes into a buffer that the thread uses again for each call, so that
//! nothing is allocated in steady state.
//!
//! With an accelerator before it the request comes placed ([`InCall`]): the same handler gets a view of that, and the reply is built in a
//! placed message, which the server has serialised. Such a call has no body here, and cannot be deferred: see
//! [`Service::request`](super::Service::request).

use super::context::Context;
use super::hand::{Hand, InCall};
use super::responder::Responder;
use crate::server::Returns;
use crate::status::{Code, Status};
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use std::sync::Arc;
use std::time::Duration;

/// What a thread that runs handlers uses again for each call.
pub(crate) struct Tools {
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    pub(crate) arena: Arena,
    pub(crate) bytes: Vec<u8>,
}

impl Tools {
    pub(crate) fn new(limits: Limits) -> Tools {
        Tools {
            decoder: Decoder::new(limits),
            encoder: Encoder::default(),
            arena: Arena::default(),
            bytes: Vec::new(),
        }
    }
}

/// Where the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Not,
    /// In the encoder.
    Encoded,
    /// In the bytes.
    Bytes,
    /// It is a message that lies in two memories.
    Placed,
    /// It comes from a [`Responder`].
    Deferred,
}

/// A call to be answered.
pub struct Incoming<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) call: u32,
    pub(crate) context: Context<'a>,
    pub(crate) tools: &'a mut Tools,
    /// The request, if an accelerator has placed it, until it is handled.
    pub(crate) placed: Option<InCall<'a>>,
    pub(crate) returns: &'a Arc<Returns>,
    pub(crate) answered: Answered,
}

impl<'a> Incoming<'a> {
    /// The request as it came. Nothing if an accelerator has decoded it: see [`Service::request`](super::Service::request).
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// What the caller sent beside it; see [`frame::metadata`](crate::frame::metadata).
    pub fn metadata(&self) -> &'a [u8] {
        self.context.metadata
    }

    /// As [`Context::time_left`].
    pub fn time_left(&self) -> Option<Duration> {
        self.context.time_left()
    }

    /// The call's circumstances.
    pub fn context(&mut self) -> &mut Context<'a> {
        &mut self.context
    }

    /// Answers with an encoded message.
    pub fn reply_bytes(&mut self, body: &[u8]) {
        self.assert_not_deferred();
        self.tools.bytes.clear();
        self.tools.bytes.extend_from_slice(body);
        self.answered = Answered::Bytes;
    }

    /// Decodes the request, has it handled, and answers with what the handler put into the reply.
    ///
    /// # Errors
    /// The handler's; INVALID_ARGUMENT when the request is no such message; RESOURCE_EXHAUSTED when it takes too much memory.
    #[inline]
    pub fn message<Q: Message, R: Message>(
        &mut self,
        handle: impl FnOnce(Q::View<'_>, &mut R::Mut<'_, '_>, &mut Context<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        self.assert_not_deferred();
        if let Some(placed) = self.placed.take() {
            return self.placed_message::<Q, R>(placed, handle);
        }
        let Tools { decoder, encoder, arena, .. } = &mut *self.tools;
        arena.reset();
        let arena = &*arena;
        let request = Q::decode(decoder, self.body, arena).map_err(|error| unreadable(&error))?;
        let mut reply = R::new(arena).map_err(exhausted)?;
        handle(request, &mut reply, &mut self.context)?;
        R::freeze(reply).encode(encoder).map_err(|error| unwritable(&error))?;
        self.answered = Answered::Encoded;
        Ok(())
    }

    /// The reply that the call was answered with, encoded; nothing if it was not, if it is answered later, if there is metadata beside it,
    /// or if an accelerator has it.
    /// For whoever wraps a service to keep its replies.
    pub fn answer(&self) -> Option<&[u8]> {
        match self.answered {
            _ if !self.context.reply_metadata.is_empty() => None,
            Answered::Encoded => Some(self.tools.encoder.written()),
            Answered::Bytes => Some(&self.tools.bytes),
            Answered::Not | Answered::Placed | Answered::Deferred => None,
        }
    }

    /// Whether the answer was left to a [`Responder`].
    pub fn is_deferred(&self) -> bool {
        self.answered == Answered::Deferred
    }

    /// The same for a request that an accelerator has placed.
    #[inline(never)]
    fn placed_message<Q: Message, R: Message>(
        &mut self,
        placed: InCall<'a>,
        handle: impl FnOnce(Q::View<'_>, &mut R::Mut<'_, '_>, &mut Context<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let InCall { near, request, reply } = placed;
        let view = Q::placed(request).ok_or_else(other_message)?;
        let mut built = near.message(R::types().table().layout_hash(), R::CLASS)?;
        // Not moved while the handler has its editor: the hand knows the reply by its arena.
        self.context.hand = Some(Box::new(Hand::new(near, request, &built)));
        let mut edit = R::placed_mut(&mut built).ok_or_else(other_message)?;
        let handled = handle(view, &mut edit, &mut self.context);
        drop(edit);
        let hand = self.context.hand.take();
        handled?;
        hand.expect("nobody else takes it").finish(&mut built);
        *reply = Some(built);
        self.answered = Answered::Placed;
        Ok(())
    }

    /// Leaves the answer to a [`Responder`], which any thread may use at any time.
    ///
    /// # Panics
    /// If the call was deferred already, or an accelerator has decoded its request.
    pub fn defer(&mut self) -> Responder {
        self.assert_not_deferred();
        assert!(self.placed.is_none(), "{BY_MESSAGE}");
        self.answered = Answered::Deferred;
        let metadata = std::mem::take(self.context.reply_metadata);
        Responder::new(self.returns, self.context.connection, self.call, self.context.deadline, metadata)
    }

    fn assert_not_deferred(&self) {
        assert!(self.answered != Answered::Deferred, "a call that was deferred is its responder's to answer");
    }
}

const BY_MESSAGE: &str = "an accelerator has decoded this request, as Service::request says it may: such a method answers by Incoming::message";

#[cold]
fn other_message() -> Status {
    Status::new(Code::Internal, "Service::request names another message than the handler takes")
}

#[cold]
pub(crate) fn unreadable(error: &codec::decode::DecodeError) -> Status {
    let code = match error.fault {
        codec::decode::Fault::Memory => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, format!("the request cannot be decoded: {error}"))
}

#[cold]
pub(crate) fn unwritable(error: &codec::encode::EncodeError) -> Status {
    Status::new(Code::Internal, format!("the reply cannot be encoded: {error}"))
}

#[cold]
pub(crate) fn exhausted(_: OutOfMemory) -> Status {
    Status::new(Code::ResourceExhausted, "no memory for the reply")
}
