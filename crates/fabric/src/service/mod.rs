//! What a server runs: a [`Service`], described by names, methods and schema, with a handler for each method.
//!
//! ```text
//! unary    Incoming ── message(|request, reply, context| …)   decoded, handled, encoded on the thread that took the frame
//!                   └─ defer() ─▶ Responder                   answered later, from any thread
//! stream   StreamCall ── requests().next().await, replies().send(…).await      a future that the server drives
//! ```
//! Generated code implements the trait; so may you, at the level of bytes.

mod context;
mod hand;
mod incoming;
mod kernels;
mod key;
mod options;
mod responder;
mod stream;

pub use context::{Context, Ran};
pub use incoming::Incoming;
pub use kernels::Kernels;
pub use key::{Key, KeyValue, key_at};
pub use options::{Cacheable, KeyKind, MethodOptions, Order, Place, Places};
pub use responder::Responder;
pub use stream::{Replies, Requests, Sending, StreamCall};

pub(crate) use hand::{InCall, Near};
pub(crate) use incoming::{Answered, Tools, unreadable, unwritable};
pub(crate) use kernels::OnThisThread;
pub(crate) use responder::{CallState, too_long};
pub(crate) use stream::{Held, Outgoing, Pumped, Shape, Shared};

use crate::status::{Code, Status};
use base::hash::{Hasher64, WIRE_SEED};
use codec::schema::{Schema, Service as Described, Types};
use codec::typed::Message;
use std::collections::BTreeSet;
use std::pin::Pin;

/// What a streaming handler is: driven by the server, dropped when its call is cancelled.
pub type BoxFuture = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// What a server runs. `method` counts in the order of the descriptor's methods.
pub trait Service: Send + Sync {
    /// What it is.
    fn descriptor(&self) -> &'static ServiceDescriptor;

    /// Handles a call of a method without streams: answers it, or defers it.
    ///
    /// # Errors
    /// How the call failed.
    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let _ = call;
        Err(self.unimplemented(method))
    }

    /// What the request of a method without streams is, if an accelerator before the server may decode it: the method then answers by
    /// [`Incoming::message`] with a message of this type, or fails; it neither asks for the body nor defers. Generated code says so for each
    /// method that is not deferred.
    fn request(&self, method: usize) -> Option<RequestType> {
        let _ = method;
        None
    }

    /// Handles a call of a method with streams.
    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        drop(call);
        let status = self.unimplemented(method);
        Box::pin(async move { Err(status) })
    }

    /// What a method without a handler answers.
    #[cold]
    fn unimplemented(&self, method: usize) -> Status {
        let descriptor = self.descriptor();
        let method = descriptor.methods.get(method).map_or("?", |method| method.name);
        Status::new(Code::Unimplemented, format!("/{}/{method} is not implemented", descriptor.name))
    }
}

/// The message that a method takes.
#[derive(Clone, Copy)]
pub struct RequestType {
    types: fn() -> &'static Types,
    class: u32,
}

impl RequestType {
    /// It takes a `Q`.
    pub fn of<Q: Message>() -> RequestType {
        RequestType { types: Q::types, class: Q::CLASS }
    }

    pub(crate) fn types(self) -> &'static Types {
        (self.types)()
    }

    pub(crate) fn class(self) -> u32 {
        self.class
    }
}

/// What is known of a service without running it; in generated code a constant.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDescriptor {
    /// Full name: `shop.Cart`.
    pub name: &'static str,
    /// In the order of the .proto file.
    pub methods: &'static [MethodDescriptor],
    /// [`schema_hash`] of the service.
    pub hash: u64,
    /// Serialised `google.protobuf.FileDescriptorSet` with the service and all that its messages are made of.
    pub descriptors: &'static [u8],
}

/// What is known of a method without running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodDescriptor {
    /// Its name alone: `Add`.
    pub name: &'static str,
    /// The client sends a stream.
    pub client_streaming: bool,
    /// The server sends a stream.
    pub server_streaming: bool,
    /// What it says of itself.
    pub options: MethodOptions,
}

impl MethodDescriptor {
    /// A method that says nothing of itself.
    pub const fn new(name: &'static str, client_streaming: bool, server_streaming: bool) -> MethodDescriptor {
        MethodDescriptor { name, client_streaming, server_streaming, options: MethodOptions::NONE }
    }

    /// One request, one reply.
    pub fn is_unary(&self) -> bool {
        !self.client_streaming && !self.server_streaming
    }
}

/// What two peers must agree on to mean the same by a service: its name, its methods and how they stream, and the numbers,
/// names, kinds and labels of the fields of all messages that they reach. Not comments, options or the order of declarations.
pub fn schema_hash(schema: &Schema, service: &Described) -> u64 {
    let name = |class: u32| schema.messages()[class as usize].name.as_str();
    let mut lines = vec![format!("service {}", service.name)];
    let mut classes = Vec::new();
    for method in &service.methods {
        let streaming = (method.client_streaming, method.server_streaming);
        lines.push(format!(
            "method {} {} {} {streaming:?}",
            method.name,
            name(method.input),
            name(method.output)
        ));
        classes.extend([method.input, method.output]);
    }
    let mut seen = BTreeSet::new();
    while let Some(class) = classes.pop() {
        if !seen.insert(class) {
            continue;
        }
        for field in &schema.messages()[class as usize].fields {
            let of = field.message.map_or("", name);
            let (field_name, kind, label) = (&field.name, field.kind, field.label);
            lines.push(format!(
                "field {} {} {field_name} {kind:?} {label:?} {of}",
                name(class),
                field.number
            ));
            classes.extend(field.message);
            let values = field.enumeration.iter().flat_map(|&e| &schema.enums()[e as usize].values);
            lines.extend(values.map(|(value, number)| format!("value {field_name} {value} {number}")));
        }
    }
    lines.sort_unstable();
    Hasher64::new(WIRE_SEED).hash(lines.join("\n").as_bytes())
}
