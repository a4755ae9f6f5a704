//! Messages instead of bytes: what generated stubs call.
//!
//! A message is built in the channel's own arena and encoded by its own encoder, so starting a call allocates nothing once both have
//! grown to the messages' size.

use super::event::undecodable;
use super::{CallId, CallOptions, Channel, Method, StartError};
use crate::status::Status;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView, Owned};

/// Where messages are built and encoded.
#[derive(Default)]
pub(crate) struct Typed {
    encoder: Encoder,
    arena: Arena,
}

impl Typed {
    #[inline]
    pub(crate) fn encoded<'a, M: Message>(
        &'a mut self,
        message: M::View<'_>,
    ) -> Result<&'a [u8], StartError> {
        message.encode(&mut self.encoder).map_err(StartError::Encode)
    }

    #[inline]
    pub(crate) fn built<M: Message>(
        &mut self,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<&[u8], StartError> {
        let Typed { encoder, arena } = self;
        arena.reset();
        let mut message = M::new(arena).map_err(|OutOfMemory| StartError::OutOfMemory)?;
        fill(&mut message).map_err(|OutOfMemory| StartError::OutOfMemory)?;
        M::freeze(message).encode(encoder).map_err(StartError::Encode)
    }
}

impl Channel {
    /// As [`Channel::start`], with a message.
    ///
    /// # Errors
    /// As [`Channel::start`].
    #[inline]
    pub fn start_message<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        message: M::View<'_>,
    ) -> Result<CallId, StartError> {
        self.with_typed(|channel, typed| channel.start(method, options, user, typed.encoded::<M>(message)?))
    }

    /// As [`Channel::start`], with a message that `fill` builds.
    ///
    /// # Errors
    /// As [`Channel::start`].
    #[inline]
    pub fn build<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<CallId, StartError> {
        self.with_typed(|channel, typed| channel.start(method, options, user, typed.built::<M>(fill)?))
    }

    /// As [`Channel::send`], with a message.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_message<M: Message>(&mut self, call: CallId, message: M::View<'_>) -> Result<(), StartError> {
        self.with_typed(|channel, typed| channel.send(call, typed.encoded::<M>(message)?))
    }

    /// As [`Channel::send`], with a message that `fill` builds.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_built<M: Message>(
        &mut self,
        call: CallId,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), StartError> {
        self.with_typed(|channel, typed| channel.send(call, typed.built::<M>(fill)?))
    }

    /// Calls a unary method and waits for its outcome.
    ///
    /// # Errors
    /// As [`Channel::call_bytes`]; INTERNAL if the reply is no `R`.
    pub fn call<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        request: Q::View<'_>,
    ) -> Result<Owned<R>, Status> {
        self.with_typed(|channel, typed| {
            let body = typed.encoded::<Q>(request)?;
            channel.call_encoded(method, options, body)
        })
    }

    /// As [`Channel::call`], with a message that `fill` builds.
    ///
    /// # Errors
    /// As [`Channel::call`].
    pub fn call_built<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<Owned<R>, Status> {
        self.with_typed(|channel, typed| {
            let body = typed.built::<Q>(fill)?;
            channel.call_encoded(method, options, body)
        })
    }

    fn call_encoded<R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<Owned<R>, Status> {
        let call = self.start_waiting(method, options, body)?;
        self.outcome(call, |body, _, scratch| Owned::decode(&mut scratch.decoder, body).map_err(undecodable))
    }

    /// Takes the encoder out for a while, so that what it holds can be sent. (After a panic of `with` there is a new one.)
    #[inline]
    pub(super) fn with_typed<T>(&mut self, with: impl FnOnce(&mut Channel, &mut Typed) -> T) -> T {
        let mut typed = self.typed.take().unwrap_or_default();
        let result = with(self, &mut typed);
        self.typed = Some(typed);
        result
    }
}
