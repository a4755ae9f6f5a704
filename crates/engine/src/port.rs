//! A port: one edge's way to the engine and back.
//!
//! Shape: a request/response ring pair for descriptors, an arena beside it for the bytes of replies (as a network card has
//! rings of descriptors and buffers beside them), and a doorbell in the engine's table.
//!
//! Order: a staged service answers in order of submission. Tasks are answered as they finish, and the [`Tag`] says which request a
//! reply is for.
//!
//! Cost: part of what `docs/measurements/engine.md` says of a whole pass.
//!
//! Bounds: a reply's bytes need room in one piece, and only up to half the arena does an empty arena have that wherever it
//! stands: services that ask for more in one reply may wait for ever.

use crate::service::Messages;
use crate::traced::{Marks, marked};
use base::Nanos;
use base::trace::Scope;
use ring::pair::Tag;
use ring::{Full, arena, doorbell, pair};
use std::sync::Arc;

/// Something with the moment at which it was handed over.
#[derive(Clone, Copy, Debug)]
pub struct Stamped<T> {
    /// When.
    pub at: Nanos,
    /// What.
    pub body: T,
}

/// The edge's end.
pub struct EdgePort<S: Messages> {
    client: pair::Client<Stamped<S::Request>, Stamped<S::Reply>>,
    bytes: arena::Consumer,
    doorbell: doorbell::Doorbell,
    unannounced: u32,
    marks: Arc<Marks>,
}

/// The engine's end.
pub struct EnginePort<S: Messages> {
    server: pair::Server<Stamped<S::Request>, Stamped<S::Reply>>,
    bytes: arena::Producer,
    index: usize,
    marks: Arc<Marks>,
}

/// A port of `entries` requests and `arena_bytes` of replies (powers of two), announced by `doorbell`, which is number
/// `index` of the engine's table.
pub(crate) fn port<S: Messages>(
    entries: u32,
    arena_bytes: u64,
    index: usize,
    doorbell: doorbell::Doorbell,
) -> (EdgePort<S>, EnginePort<S>) {
    let (client, server) = pair::pair(entries);
    let (producer, consumer) = arena::heap(arena_bytes);
    let marks = Arc::<Marks>::default();
    (
        EdgePort { client, bytes: consumer, doorbell, unannounced: 0, marks: Arc::clone(&marks) },
        EnginePort { server, bytes: producer, index, marks },
    )
}

impl<S: Messages> EdgePort<S> {
    /// Puts a request into the ring; the engine sees it after [`EdgePort::ring`]. `now` is by the clock of the engine's core.
    ///
    /// # Errors
    /// The request, when the ring has no free slot.
    #[inline]
    pub fn submit(&mut self, now: Nanos, request: S::Request) -> Result<Tag, S::Request> {
        self.send(Stamped { at: now, body: request })
    }

    /// As [`EdgePort::submit`]; what the engine does with it leaves spans within `scope`, which are there when its reply is.
    ///
    /// # Errors
    /// As [`EdgePort::submit`].
    pub fn submit_traced(
        &mut self,
        now: Nanos,
        request: S::Request,
        scope: &Scope,
    ) -> Result<Tag, S::Request> {
        let marks = Arc::clone(&self.marks);
        // Held over both: an engine that has seen the request already waits for its mark.
        let mut marks = marks.lock();
        let tag = self.send(Stamped { at: marked(now), body: request })?;
        marks.push_back((tag, scope.clone()));
        Ok(tag)
    }

    #[inline]
    fn send(&mut self, request: Stamped<S::Request>) -> Result<Tag, S::Request> {
        match self.client.try_send(request) {
            Ok(tag) => {
                self.unannounced += 1;
                Ok(tag)
            }
            Err(Full(stamped)) => Err(stamped.body),
        }
    }

    /// Announces what was submitted, if anything was: whether its engine is to be woken.
    #[inline]
    pub fn ring(&mut self) -> bool {
        self.client.flush();
        let is_any = self.unannounced > 0;
        if is_any {
            self.doorbell.ring(std::mem::take(&mut self.unannounced));
        }
        is_any
    }

    /// The next reply, stamped when it was executed: of a staged service, the one to the oldest request.
    #[inline]
    pub fn poll(&mut self) -> Option<Stamped<S::Reply>> {
        self.client.poll().map(|(_, reply)| reply)
    }

    /// The next reply, and which request it is for.
    #[inline]
    pub fn poll_tagged(&mut self) -> Option<(Tag, Stamped<S::Reply>)> {
        self.client.poll()
    }

    /// Whether a reply waits.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        self.client.is_ready()
    }

    /// The bytes beside a reply.
    ///
    /// # Panics
    /// When `span` was not given by this port's engine, or was released.
    #[inline]
    pub fn bytes(&self, span: arena::Span) -> &[u8] {
        self.bytes.bytes(span).expect("a span of our own engine")
    }

    /// The bytes up to the end of `span` are done with.
    #[inline]
    pub fn release(&mut self, span: arena::Span) {
        self.bytes.release(span);
    }

    /// Tells the engine now what was released, because it may be waiting for room.
    pub fn publish_room(&mut self) {
        self.bytes.publish();
    }

    /// Requests that may be submitted now.
    #[inline]
    pub fn free(&self) -> usize {
        self.client.free() as usize
    }

    /// Whether the engine is gone, or closed this port because the service panicked over one of its requests: requests that
    /// have no reply yet get none.
    pub fn is_closed(&self) -> bool {
        self.client.is_abandoned()
    }

    /// Requests submitted and not yet answered.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.client.in_flight() as usize
    }
}

impl<S: Messages> EnginePort<S> {
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    #[inline]
    pub(crate) fn drain(&mut self, max: usize, each: impl FnMut(Tag, Stamped<S::Request>)) -> usize {
        self.server.drain(max, each)
    }

    /// Where the spans of a request belong that was marked, once.
    pub(crate) fn take_scope(&self, tag: Tag) -> Option<Scope> {
        self.marks.take(tag)
    }

    /// Whether its edge is gone; then nothing is published any more.
    pub(crate) fn is_deserted(&self) -> bool {
        self.server.is_abandoned()
    }

    /// Whether its ring has a request.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.server.is_ready()
    }

    #[inline]
    pub(crate) fn out(&mut self) -> &mut arena::Producer {
        &mut self.bytes
    }

    #[inline]
    pub(crate) fn reply(&mut self, tag: Tag, reply: Stamped<S::Reply>) {
        self.server.reply(tag, reply);
    }

    /// Sends what was replied on its way, bytes first.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.server.flush();
    }
}

/// Ways in which an edge could break the rules of doorbells.
#[cfg(test)]
impl<S: Messages> EdgePort<S> {
    /// Rings for `n` requests that are not there.
    pub(crate) fn cry_wolf(&mut self, n: u32) {
        self.doorbell.ring(n);
    }

    /// Publishes what was submitted without ringing.
    pub(crate) fn whisper(&mut self) {
        self.client.flush();
    }
}
