//! What generated stubs are made of: everything that they name of this crate, and the parts that are the same for every service.

mod streams;

pub use crate::channel::{CallId, CallOptions, Caller, Channel, Method, StartError};
pub use crate::service::{
    BoxFuture, Cacheable, Context, Incoming, Key, KeyKind, MethodDescriptor, MethodOptions, Order, Place,
    Places, Ran, Replies, RequestType, Requests, Service, ServiceDescriptor, StreamCall,
};
pub use crate::status::Status;
pub use streams::{Exchange, ReplyStream, RequestStream};

use crate::service::{Responder, unreadable};
use crate::status::Code;
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};
use std::fmt;
use std::marker::PhantomData;

/// A peer does not serve what a client is generated for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotServed {
    /// `/shop.Cart/Add`.
    pub method: String,
    /// It is served, but streams in another way.
    pub other_shape: bool,
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = &self.method;
        if self.other_shape {
            write!(f, "{method} streams in another way at the server: build both from the same .proto")
        } else {
            write!(f, "the server has no {method}: is it the right one, and new enough?")
        }
    }
}

impl std::error::Error for NotServed {}

impl From<NotServed> for Status {
    fn from(error: NotServed) -> Status {
        Status::new(Code::Unimplemented, error.to_string())
    }
}

/// The methods of a service at a channel's peer.
///
/// # Errors
/// One of them is not there, or streams in another way.
pub fn resolve<const N: usize>(
    channel: &impl Caller,
    service: &ServiceDescriptor,
) -> Result<[Method; N], NotServed> {
    let mut found = Vec::with_capacity(N);
    for method in service.methods {
        let path = format!("/{}/{}", service.name, method.name);
        let served = channel.method(&path);
        match served {
            Some(at)
                if at.is_client_streaming() == method.client_streaming
                    && at.is_server_streaming() == method.server_streaming =>
            {
                found.push(at.idempotent(method.options.idempotent));
            }
            _ => return Err(NotServed { method: path, other_shape: served.is_some() }),
        }
    }
    Ok(found.try_into().expect("a client has as many methods as its descriptor"))
}

/// A unary call that waits for its outcome.
///
/// # Errors
/// What the call ended with.
#[inline]
pub fn unary<Q: Message, R: Message>(
    channel: &mut impl Caller,
    method: Method,
    options: &CallOptions<'_>,
    fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
) -> Result<Owned<R>, Status> {
    channel.call_built::<Q, R>(method, options, fill)
}

/// A call whose replies are a stream.
///
/// # Errors
/// Why it was not started.
pub fn replies<'c, Q: Message, R: Message>(
    channel: &'c mut Channel,
    method: Method,
    options: &CallOptions<'_>,
    fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
) -> Result<ReplyStream<'c, R>, Status> {
    let call = channel.build::<Q>(method, options, 0, fill)?;
    Ok(ReplyStream::new(channel, call))
}

/// A call whose requests are a stream.
///
/// # Errors
/// Why it was not started.
pub fn requests<'c, Q: Message, R: Message>(
    channel: &'c mut Channel,
    method: Method,
    options: &CallOptions<'_>,
) -> Result<RequestStream<'c, Q, R>, Status> {
    let call = channel.start(method, options, 0, &[])?;
    Ok(RequestStream::new(channel, call))
}

/// A call with streams both ways.
///
/// # Errors
/// Why it was not started.
pub fn exchange<'c, Q: Message, R: Message>(
    channel: &'c mut Channel,
    method: Method,
    options: &CallOptions<'_>,
) -> Result<Exchange<'c, Q, R>, Status> {
    let call = channel.start(method, options, 0, &[])?;
    Ok(Exchange::new(channel, call))
}

/// The right, and the duty, to answer a call later, from any thread. Dropped without an answer, the call fails with INTERNAL.
#[derive(Debug)]
pub struct Deferred<R> {
    responder: Responder,
    of: PhantomData<fn() -> R>,
}

impl<R: Message> Deferred<R> {
    /// Answers with the message that `fill` builds.
    pub fn reply(self, fill: impl FnOnce(&mut R::Mut<'_, '_>) -> Result<(), OutOfMemory>) {
        self.responder.reply::<R>(fill);
    }

    /// Ends the call without a reply.
    pub fn fail(self, status: Status) {
        self.responder.fail(&status);
    }

    /// Without the type, for what else it knows: whether the caller has given up, the deadline.
    pub fn responder(&self) -> &Responder {
        &self.responder
    }

    /// For an answer that is encoded already, or that has metadata beside it.
    pub fn into_responder(self) -> Responder {
        self.responder
    }
}

/// A call with streams, as its handler gets it. A single request is a stream of one, and so is a single reply.
pub struct Streaming<Q, R> {
    /// What the caller sends.
    pub requests: Requests<Q>,
    /// Where the answers go.
    pub replies: Replies<R>,
    /// Metadata, deadline, whether the caller has given up.
    pub call: StreamCall,
}

impl<Q: Message, R: Message> Streaming<Q, R> {
    /// The same, with types.
    pub fn new(call: StreamCall) -> Streaming<Q, R> {
        Streaming { requests: call.requests(), replies: call.replies(), call }
    }

    /// The one request of a caller that does not stream.
    ///
    /// # Errors
    /// It does not decode, or never came.
    pub async fn request(&mut self) -> Result<Owned<Q>, Status> {
        let missing = || Err(Status::new(Code::InvalidArgument, "a call without a request"));
        self.requests.next().await.unwrap_or_else(missing)
    }
}

/// Has a call handled whose answer comes later.
///
/// # Errors
/// None: what goes wrong is the answer.
pub fn deferred<Q: Message, R: Message>(
    call: &mut Incoming<'_>,
    handle: impl FnOnce(Q::View<'_>, Deferred<R>, &mut Context<'_>),
) -> Result<(), Status> {
    let responder = call.defer();
    let tools = &mut *call.tools;
    tools.arena.reset();
    match Q::decode(&mut tools.decoder, call.body, &tools.arena) {
        Ok(request) => handle(request, Deferred { responder, of: PhantomData }, &mut call.context),
        Err(error) => responder.fail(&unreadable(&error)),
    }
    Ok(())
}

/// What a method without a handler answers.
#[cold]
pub fn unimplemented(path: &str) -> Status {
    Status::new(Code::Unimplemented, format!("{path} is not implemented"))
}

/// What a streaming method without a handler answers.
#[cold]
pub fn unimplemented_stream(path: &str) -> BoxFuture {
    let status = unimplemented(path);
    Box::pin(async move { Err(status) })
}

/// What a call of no streaming method answers.
#[cold]
pub fn no_stream(service: &dyn Service, method: usize) -> BoxFuture {
    let status = service.unimplemented(method);
    Box::pin(async move { Err(status) })
}
