//! What [`Channel::poll`](super::Channel::poll) hands out: something that happened to a call.

use super::calls::CallId;
use crate::frame;
use crate::status::{Code, Status};
use codec::decode::Decoder;
use codec::memory::Arena;
use codec::typed::Message;

/// Something that happened to a call.
pub struct Event<'a> {
    /// Which call.
    pub call: CallId,
    /// What its starter gave for it.
    pub user: u64,
    /// What happened.
    pub what: What<'a>,
    metadata: &'a [u8],
    pub(super) scratch: &'a mut Scratch,
}

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// The reply; the call is over.
    Reply(&'a [u8]),
    /// A message of the server's stream.
    Item(&'a [u8]),
    /// The server's stream is complete; the call is over.
    End,
    /// The call is over, and this is why.
    Failed(Status),
}

impl What<'_> {
    /// Whether the call is over.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, What::Item(_))
    }

    /// Why the call failed, if that is what happened.
    pub fn into_failure(self) -> Option<Status> {
        match self {
            What::Failed(status) => Some(status),
            _ => None,
        }
    }
}

/// Where messages are decoded.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) decoder: Decoder,
    pub(crate) arena: Arena,
}

impl Scratch {
    /// The message, until the next one.
    pub(super) fn message<'a, M: Message>(&'a mut self, body: &'a [u8]) -> Result<M::View<'a>, Status> {
        self.arena.reset();
        M::decode(&mut self.decoder, body, &self.arena).map_err(undecodable)
    }
}

/// The status of a reply that is no message of its type.
#[cold]
pub(crate) fn undecodable(error: codec::decode::DecodeError) -> Status {
    Status::new(Code::Internal, format!("the server's message does not decode: {error}"))
}

impl<'a> Event<'a> {
    pub(crate) fn new(happened: Happened<'a>, scratch: &'a mut Scratch) -> Event<'a> {
        let Happened { call, user, what, metadata } = happened;
        Event { call, user, what, metadata, scratch }
    }

    /// The message of a reply or an item; its strings and bytes lie in what arrived.
    ///
    /// # Errors
    /// The call's status if it failed; INTERNAL if there is no message of this type.
    #[inline]
    pub fn message<M: Message>(&mut self) -> Result<M::View<'_>, Status> {
        match &self.what {
            What::Reply(body) | What::Item(body) => self.scratch.message::<M>(body),
            What::Failed(status) => Err(status.clone()),
            What::End => Err(Status::new(Code::Internal, "the end of a stream has no message")),
        }
    }

    /// The metadata that came with it, encoded; see [`Event::metadata_entries`].
    pub fn metadata(&self) -> &'a [u8] {
        self.metadata
    }

    /// The metadata that came with it.
    pub fn metadata_entries(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        frame::metadata(self.metadata)
    }
}

/// An event without the means to decode it.
pub(crate) struct Happened<'a> {
    pub(crate) call: CallId,
    pub(crate) user: u64,
    pub(crate) what: What<'a>,
    pub(crate) metadata: &'a [u8],
}

impl Happened<'_> {
    /// One that waits for its poll.
    pub(super) fn keep(self) -> Waiting {
        let Happened { call, user, what, metadata } = self;
        let (kind, body) = match what {
            What::Reply(body) => (Kind::Reply, body),
            What::Item(body) => (Kind::Item, body),
            What::End => (Kind::End, &[][..]),
            What::Failed(status) => (Kind::Failed(status), &[][..]),
        };
        Waiting { call, user, kind, body: body.into(), metadata: metadata.into() }
    }
}

/// An event that waits for its poll.
pub(super) struct Waiting {
    pub(super) call: CallId,
    pub(super) user: u64,
    kind: Kind,
    body: Box<[u8]>,
    metadata: Box<[u8]>,
}

enum Kind {
    Reply,
    Item,
    End,
    Failed(Status),
}

impl Waiting {
    pub(super) fn item(call: CallId, user: u64, body: Box<[u8]>, metadata: Box<[u8]>) -> Waiting {
        Waiting { call, user, kind: Kind::Item, body, metadata }
    }

    pub(super) fn ending(call: CallId, user: u64, failed: Option<Status>, metadata: Box<[u8]>) -> Waiting {
        let kind = failed.map_or(Kind::End, Kind::Failed);
        Waiting { call, user, kind, body: Box::default(), metadata }
    }

    /// As it happened.
    pub(super) fn happened(&self) -> Happened<'_> {
        let what = match &self.kind {
            Kind::Reply => What::Reply(&self.body),
            Kind::Item => What::Item(&self.body),
            Kind::End => What::End,
            Kind::Failed(status) => What::Failed(status.clone()),
        };
        Happened { call: self.call, user: self.user, what, metadata: &self.metadata }
    }
}
