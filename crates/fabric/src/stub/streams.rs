//! A caller's side of streams, for a thread that waits.
//!
//! Each borrows its channel, so nothing else happens on that; events of other calls wait for the next poll. A stream that is dropped before
//! its end is cancelled.

use crate::channel::{CallId, Channel, Event, StartError, What};
use crate::status::{Code, Status};
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};
use std::marker::PhantomData;

/// A call that goes on: until its outcome was taken, or it is dropped.
#[derive(Debug)]
struct Open<'c> {
    channel: &'c mut Channel,
    call: CallId,
    over: bool,
}

/// What came of it.
enum Came<R: Message> {
    Message(Owned<R>),
    End,
}

impl Open<'_> {
    /// Waits for the next event.
    fn next<R: Message>(&mut self) -> Result<Came<R>, Status> {
        let (came, over) =
            self.channel.next_of(self.call, |mut event| (came(&mut event), event.what.is_terminal()));
        self.over = over;
        came
    }

    /// Sends a message when the server has room for it.
    fn send<Q: Message>(
        &mut self,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), StartError> {
        if self.over {
            return Err(StartError::Ended);
        }
        self.channel.send_waiting::<Q>(self.call, fill)
    }

    fn finish(&mut self) -> Result<(), Status> {
        match self.channel.finish_waiting(self.call) {
            // Its outcome is there, and says more.
            Ok(()) | Err(StartError::Ended) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn came<R: Message>(event: &mut Event<'_>) -> Result<Came<R>, Status> {
    match event.what {
        What::End => Ok(Came::End),
        _ => event.owned::<R>().map(Came::Message),
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.channel.cancel(self.call);
        // Its outcome is there already, behind what came before; nobody else shall find it.
        while !self.channel.next_of(self.call, |event| event.what.is_terminal()) {}
    }
}

/// Replies of a call, as they come: an iterator that ends with the stream, or with the error that ended it.
#[derive(Debug)]
pub struct ReplyStream<'c, R> {
    open: Open<'c>,
    of: PhantomData<fn() -> R>,
}

impl<'c, R: Message> ReplyStream<'c, R> {
    pub(super) fn new(channel: &'c mut Channel, call: CallId) -> ReplyStream<'c, R> {
        ReplyStream { open: Open { channel, call, over: false }, of: PhantomData }
    }
}

impl<R: Message> Iterator for ReplyStream<'_, R> {
    type Item = Result<Owned<R>, Status>;

    /// Waits for the next reply.
    fn next(&mut self) -> Option<Self::Item> {
        next_reply(&mut self.open)
    }
}

fn next_reply<R: Message>(open: &mut Open<'_>) -> Option<Result<Owned<R>, Status>> {
    if open.over {
        return None;
    }
    match open.next() {
        Ok(Came::Message(message)) => Some(Ok(message)),
        Ok(Came::End) => None,
        Err(status) => Some(Err(status)),
    }
}

/// Requests of a call that has one reply.
pub struct RequestStream<'c, Q, R: Message> {
    open: Open<'c>,
    /// The reply, if it came before the last request.
    early: Option<Owned<R>>,
    of: PhantomData<fn() -> Q>,
}

impl<'c, Q: Message, R: Message> RequestStream<'c, Q, R> {
    pub(super) fn new(channel: &'c mut Channel, call: CallId) -> RequestStream<'c, Q, R> {
        RequestStream { open: Open { channel, call, over: false }, early: None, of: PhantomData }
    }

    /// Sends a request; waits while the server has no room for it.
    ///
    /// # Errors
    /// What the call ended with; FAILED_PRECONDITION if that was a reply, which [`RequestStream::finish`] gives.
    pub fn send(
        &mut self,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), Status> {
        match self.open.send::<Q>(fill) {
            Err(StartError::Ended) => {
                if !self.open.over {
                    self.early = Some(self.outcome()?);
                }
                Err(Status::new(Code::FailedPrecondition, "the server has replied already"))
            }
            other => other.map_err(Status::from),
        }
    }

    /// Ends the stream and waits for the reply.
    ///
    /// # Errors
    /// What the call ended with.
    pub fn finish(mut self) -> Result<Owned<R>, Status> {
        if let Some(reply) = self.early.take() {
            return Ok(reply);
        }
        if self.open.over {
            return Err(StartError::Ended.into());
        }
        self.open.finish()?;
        self.outcome()
    }

    fn outcome(&mut self) -> Result<Owned<R>, Status> {
        match self.open.next()? {
            Came::Message(reply) => Ok(reply),
            Came::End => Err(Status::new(Code::Internal, "the server ended the call without a reply")),
        }
    }
}

/// Requests and replies of a call, both streams.
///
/// Read replies while sending: who sends more than a window of requests to a server that waits for its replies to be read waits
/// without end, or until the call's deadline.
#[derive(Debug)]
pub struct Exchange<'c, Q, R> {
    open: Open<'c>,
    of: PhantomData<fn() -> (Q, R)>,
}

impl<'c, Q: Message, R: Message> Exchange<'c, Q, R> {
    pub(super) fn new(channel: &'c mut Channel, call: CallId) -> Exchange<'c, Q, R> {
        Exchange { open: Open { channel, call, over: false }, of: PhantomData }
    }

    /// Sends a request; waits while the server has no room for it.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the call is over; [`Exchange::next`] says how it ended.
    pub fn send(
        &mut self,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), Status> {
        self.open.send::<Q>(fill).map_err(Status::from)
    }

    /// Says that there are no more requests. Replies go on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn finish(&mut self) -> Result<(), Status> {
        self.open.finish()
    }
}

impl<Q: Message, R: Message> Iterator for Exchange<'_, Q, R> {
    type Item = Result<Owned<R>, Status>;

    /// Waits for the next reply.
    fn next(&mut self) -> Option<Self::Item> {
        next_reply(&mut self.open)
    }
}
