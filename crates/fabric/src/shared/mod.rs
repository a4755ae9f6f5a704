//! One channel for many threads, and for futures (Flock's way; ORCA, item 12).
//!
//! Why: a connection per thread costs memory on both sides and spreads requests so thinly that none of them is batched; a lock around one
//! connection costs every call. Here each thread has a [port](crate::port) of its own to a dispatcher, the *fabric core*, which alone
//! owns the [`Channel`]: what the threads send meanwhile leaves as one batch.
//!
//! Shape:
//! ```text
//! thread 0   Member ══ port ══▶ ┐
//! thread 1   Member ══ port ══▶ ├ dispatcher ── Channel ──▶ server
//! any task   Call ──── inbox ──▶ ┘
//! ```
//! | file | what it is |
//! |---|---|
//! | `member`, `blocking` | [`Member`]: a thread's share, with the words of [`Channel`] |
//! | `call`, `inbox` | [`Call`]: a future for any executor |
//! | `dispatcher`, `desk` | who asked, who waits for room, who is told |
//! | `core` | the dispatcher's thread |
//! | `packet` | what travels through ports |
//!
//! Invariants: each call has one outcome, whatever goes first: its member, its future, the connection, the dispatcher.
//!
//! Bounds: calls of a member: its port's entries. Open calls of futures: [`SharedOptions::futures`]. In the channel: its own.
//!
//! Not here: methods that stream. They need a channel of their own.
//!
//! Sources: Monga et al., *Birds of a Feather Flock Together: Scaling RDMA RPCs with Flock*, SOSP 2021.
//!
//! Tests: `tests.rs`, with planted bugs. Benchmark: `benches/shared.rs`.

mod blocking;
mod call;
mod core;
mod desk;
mod dispatcher;
mod inbox;
mod member;
mod packet;

#[cfg(test)]
mod tests;

pub use call::{Call, MessageCall};
pub use member::Member;

use crate::channel::{CallOptions, Channel, MOST, Method, StartError, Typed, find_method};
use crate::connection::handshake::ServiceInfo;
use crate::frame::{MAX_MESSAGE, MAX_METADATA};
use crate::port::{OpenError, PortOptions, Ports, PortsOptions};
use base::cpu;
use codec::memory::OutOfMemory;
use codec::typed::Message;
use dispatcher::Dispatcher;
use inbox::Inbox;
use ring::wait::WaitPolicy;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How a channel is shared.
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// How the dispatcher waits, and members in blocking calls.
    pub wait: WaitPolicy,
    /// Members' ports; `entries` is how many calls each may have open, 65,536 at most.
    pub port: PortOptions,
    /// Members that may be there at once.
    pub members: u32,
    /// Calls of futures that may be open at once; what is more ends as RESOURCE_EXHAUSTED.
    pub futures: usize,
    /// The dispatcher's thread, in lists of the system.
    pub name: String,
    /// The core to which it is pinned.
    pub pin: Option<usize>,
}

impl Default for SharedOptions {
    fn default() -> SharedOptions {
        SharedOptions {
            wait: WaitPolicy::default(),
            port: PortOptions::default(),
            members: 256,
            futures: 4096,
            name: "fabric core".into(),
            pin: None,
        }
    }
}

/// A channel that many threads and tasks use. Clones are handles of the same; with the last of them the dispatcher stops, open calls are
/// cancelled, and their members and futures are told.
#[derive(Clone)]
pub struct Shared(Arc<Handle>);

struct Handle {
    inbox: Arc<Inbox>,
    port: PortOptions,
    wait: WaitPolicy,
    services: Arc<[ServiceInfo]>,
    thread: Option<JoinHandle<()>>,
}

/// Bugs that the tests must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    WrongMember,
    Twice,
}

impl Shared {
    /// Starts the dispatcher's thread, which owns `channel` from now on.
    ///
    /// # Errors
    /// The system's: no thread, no descriptor, no such core.
    pub fn new(channel: Channel, options: &SharedOptions) -> io::Result<Shared> {
        let dispatcher = dispatcher(channel, options)?;
        Shared::run(dispatcher, options)
    }

    #[cfg(test)]
    fn planted(channel: Channel, options: &SharedOptions, bug: Option<Planted>) -> io::Result<Shared> {
        let mut dispatcher = dispatcher(channel, options)?;
        dispatcher.book.planted = bug;
        Shared::run(dispatcher, options)
    }

    fn run(dispatcher: Dispatcher, options: &SharedOptions) -> io::Result<Shared> {
        let inbox = Arc::clone(&dispatcher.book.inbox);
        let services = dispatcher.channel.services().into();
        let (wait, port, pin) = (options.wait, options.port, options.pin);
        let thread = std::thread::Builder::new().name(options.name.clone()).spawn(move || {
            if let Some(core) = pin {
                // Unpinned it works as well; a core that is not allowed is no reason to have no connection.
                let _ = cpu::pin_to(core);
            }
            core::run(dispatcher, wait);
        })?;
        Ok(Shared(Arc::new(Handle { inbox, port, wait, services, thread: Some(thread) })))
    }

    /// A share of its own for a thread.
    ///
    /// # Errors
    /// [`OpenError::TooMany`]; [`OpenError::Closed`] if the dispatcher has panicked.
    pub fn member(&self) -> Result<Member, OpenError> {
        let Handle { inbox, port, wait, services, .. } = &*self.0;
        let calls = entries(port);
        Ok(Member::new(inbox.opener().open(port)?, calls, *wait, Arc::clone(services)))
    }

    /// The method of a path: `/shop.Cart/Add`. Ask once and keep it.
    pub fn method(&self, path: &str) -> Option<Method> {
        find_method(&self.0.services, path)
    }

    /// What the server offers.
    pub fn services(&self) -> &[ServiceInfo] {
        &self.0.services
    }

    /// Calls a unary method. The call is under way when this returns; the future tells its outcome, and dropped before that, cancels it.
    pub fn call(&self, method: Method, options: &CallOptions<'_>, body: &[u8]) -> Call {
        let inbox = &self.0.inbox;
        let error = if !method.is_unary() {
            StartError::Shape
        } else if body.len() > MAX_MESSAGE || options.metadata.len() > MAX_METADATA {
            StartError::TooLarge
        } else {
            return Call::start(inbox, packet::request(0, method, options, body));
        };
        Call::failed(inbox, &error.into())
    }

    /// As [`Shared::call`], with messages.
    pub fn call_message<Q: Message, R: Message>(
        &self,
        method: Method,
        options: &CallOptions<'_>,
        request: Q::View<'_>,
    ) -> MessageCall<R> {
        self.call_encoded(method, options, |typed| typed.encoded::<Q>(request))
    }

    /// As [`Shared::call_message`], with a message that `fill` builds.
    pub fn call_built<Q: Message, R: Message>(
        &self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> MessageCall<R> {
        self.call_encoded(method, options, |typed| typed.built::<Q>(fill))
    }

    /// Encodes on this thread, in memory that it keeps for that.
    fn call_encoded<R: Message>(
        &self,
        method: Method,
        options: &CallOptions<'_>,
        encode: impl for<'a> FnOnce(&'a mut Typed) -> Result<&'a [u8], StartError>,
    ) -> MessageCall<R> {
        thread_local! {
            static TYPED: Cell<Option<Box<Typed>>> = const { Cell::new(None) };
        }
        let mut typed = TYPED.take().unwrap_or_default();
        let call = match encode(&mut typed) {
            Ok(body) => self.call(method, options, body),
            Err(error) => Call::failed(&self.0.inbox, &error.into()),
        };
        TYPED.set(Some(typed));
        MessageCall::new(call)
    }
}

/// Calls that a member may have open.
fn entries(port: &PortOptions) -> usize {
    (port.entries.max(1) as usize).min(MOST).next_power_of_two()
}

fn dispatcher(channel: Channel, options: &SharedOptions) -> io::Result<Dispatcher> {
    let ports =
        Ports::with_descriptor(&PortsOptions { max_ports: options.members, ..PortsOptions::default() })?;
    let inbox = Arc::new(Inbox::new(ports.opener(), options.futures));
    Ok(Dispatcher::new(channel, ports, inbox, entries(&options.port)))
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inbox.stop();
        let Some(thread) = self.thread.take() else { return };
        // A task that the dispatcher woke may have held the last handle, and be dropped on its thread.
        if thread.thread().id() != std::thread::current().id() {
            // If it has panicked, its members and futures were told.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} services)", self.services().len())
    }
}
