//! One channel for many threads, and for futures (Flock's way; ORCA, item 12).
//!
//! Why: a connection per thread costs memory on both sides and spreads requests so thinly that none of them is batched. A thread of its
//! own that drives the connection for the others costs every call two hand-overs between cores (measured: 40 to 80 times the processor time).
//! So the threads that are here anyway drive it, one at a time, for all: *combining*. Nobody waits for whoever drives: what it leaves is taken.
//!
//! Shape:
//! ```text
//! thread 0   Member ─┬─ free: drive ─────────────▶ ╔══ baton ═══════════════════╗
//! thread 1   Member ─┤                             ║ dispatcher ── Channel ── link ║ ──▶ server
//! any task   Call ───┴─ taken: tray ─ the driver ─▶ ╚════════════════════════════╝
//! standby    drives when nobody else does                │ outcomes of others
//!                                                        └──▶ mailboxes, promises
//! ```
//! | file | what it is |
//! |---|---|
//! | `member`, `waiting`, `blocking` | [`Member`]: a thread's share, with the words of [`Channel`] |
//! | `call` | [`Call`]: a future for any executor |
//! | `hub` | the baton: how a driver comes and goes |
//! | `dispatcher`, `desk` | who asked, who waits for room, who is told |
//! | `tray`, `mailbox`, `letters` | what is left for the driver, and for others; the bytes |
//! | `standby` | the thread for when no member drives |
//!
//! Invariants:
//! 1. Each call has one outcome, whatever goes first: its member, its future, the connection, the standby, a driver that panics. (`dispatcher` 1, 2;
//!    users' code never runs while its thread drives.)
//! 2. Nobody waits for what has arrived: whoever waits drives, or somebody who is awake does, or somebody sleeps on the link, or the standby
//!    looks within 100 µs (1 ms if nobody waited when it looked last) whether one of these is so. (`hub` 1, 2; `ring::baton`.)
//! 3. Memory is bounded, below.
//!
//! Bounds: of each member [`SharedOptions::calls`] calls, and [`SharedOptions::bytes`] of requests that wait for room, or one request; of futures
//! [`SharedOptions::futures`] calls, and together so many bytes as of a member. In the channel: its own.
//!
//! Cost: a driver pays a compare-and-swap and a fence a turn, not a call, and copies each request once more; no system call and no wake-up
//! while members are awake. `benches/shared.rs` holds it against a connection for each thread.
//!
//! Not here: methods that stream. They need a channel of their own.
//!
//! Sources: Monga et al., *Birds of a Feather Flock Together: Scaling RDMA RPCs with Flock*, SOSP 2021; Hendler et al., *Flat Combining*, SPAA 2010.
//!
//! Tests: `tests.rs`, with planted bugs; the baton itself runs under loom in `ring`.

mod blocking;
mod book;
mod call;
mod desk;
mod dispatcher;
mod hub;
mod letters;
mod mailbox;
mod member;
mod standby;
mod tray;
mod waiting;

#[cfg(test)]
mod tests;

pub use call::{Call, MessageCall};
pub use member::Member;

use crate::channel::{CallOptions, Channel, MOST, Method, StartError, Typed, find_method};
use crate::connection::handshake::ServiceInfo;
use crate::frame::{MAX_MESSAGE, MAX_METADATA};
use crate::port::OpenError;
use base::cpu;
use codec::memory::OutOfMemory;
use codec::typed::Message;
use desk::MOST_MEMBERS;
use dispatcher::Dispatcher;
use hub::Hub;
use mailbox::Told;
use ring::wait::{WaitPolicy, waiting_on_eventfd};
use standby::Standby;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tray::Tray;

/// How a channel is shared.
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// How members wait in blocking calls, and the standby while futures are open.
    pub wait: WaitPolicy,
    /// Calls that each member may have open, 65,536 at most.
    pub calls: u32,
    /// Bytes of requests that may wait for room in the channel: of each member, and of all futures together. One request may be longer.
    pub bytes: usize,
    /// Members that may be there at once, 65,535 at most.
    pub members: u32,
    /// Calls of futures that may be open at once; what is more ends as RESOURCE_EXHAUSTED.
    pub futures: usize,
    /// The standby's thread, in lists of the system.
    pub name: String,
    /// The core to which it is pinned.
    pub pin: Option<usize>,
}

impl Default for SharedOptions {
    fn default() -> SharedOptions {
        SharedOptions {
            wait: WaitPolicy::default(),
            calls: 256,
            bytes: 1 << 20,
            members: 256,
            futures: 4096,
            name: "fabric standby".into(),
            pin: None,
        }
    }
}

/// A channel that many threads and tasks use. Clones are handles of the same; with the last of them the connection ends, open calls are
/// cancelled, and their members and futures are told.
#[derive(Clone)]
pub struct Shared(Arc<Handle>);

struct Handle {
    hub: Arc<Hub>,
    /// Calls of a member.
    calls: usize,
    bytes: usize,
    wait: WaitPolicy,
    services: Arc<[ServiceInfo]>,
    thread: Option<JoinHandle<()>>,
}

/// Bugs that the tests must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// Outcomes go to another member.
    WrongMember,
    /// Outcomes are handed out twice.
    Twice,
    /// A member that led goes without a word.
    Silent,
}

impl Shared {
    /// Shares `channel`, and starts the standby's thread.
    ///
    /// # Errors
    /// The system's: no thread, no descriptor.
    pub fn new(channel: Channel, options: &SharedOptions) -> io::Result<Shared> {
        let members = (options.members as usize).min(MOST_MEMBERS);
        let tray = Arc::new(Tray::new(options.futures, options.bytes, members));
        Shared::run(Dispatcher::new(channel, Arc::clone(&tray)), tray, options)
    }

    #[cfg(test)]
    fn planted(channel: Channel, options: &SharedOptions, bug: Option<Planted>) -> io::Result<Shared> {
        let shared = Shared::new(channel, options)?;
        shared.0.hub.plant(bug);
        Ok(shared)
    }

    fn run(dispatcher: Dispatcher, tray: Arc<Tray>, options: &SharedOptions) -> io::Result<Shared> {
        let services = dispatcher.channel.services().into();
        let (sleeper, bell) = waiting_on_eventfd()?;
        let hub = Arc::new(Hub::new(dispatcher, tray, bell)?);
        let (wait, pin, bytes) = (options.wait, options.pin, options.bytes);
        let standby = Standby { hub: Arc::clone(&hub), sleeper, policy: wait, told: Told::default() };
        let thread = std::thread::Builder::new().name(options.name.clone()).spawn(move || {
            if let Some(core) = pin {
                // Unpinned it works as well; a core that is not allowed is no reason to have no connection.
                let _ = cpu::pin_to(core);
            }
            standby.run();
        })?;
        let calls = (options.calls.max(1) as usize).min(MOST).next_power_of_two();
        Ok(Shared(Arc::new(Handle { hub, calls, bytes, wait, services, thread: Some(thread) })))
    }

    /// A share of its own for a thread.
    ///
    /// # Errors
    /// [`OpenError::TooMany`], also if the system has no descriptor; [`OpenError::Closed`] after a panic of ours.
    pub fn member(&self) -> Result<Member, OpenError> {
        let Handle { hub, calls, bytes, wait, services, .. } = &*self.0;
        Member::join(hub, (*calls, *bytes), *wait, Arc::clone(services))
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
        let hub = &self.0.hub;
        let error = if !method.is_unary() {
            StartError::Shape
        } else if body.len() > MAX_MESSAGE || options.metadata.len() > MAX_METADATA {
            StartError::TooLarge
        } else {
            return Call::start(hub, letters::request(method, options, body));
        };
        Call::failed(hub, &error.into())
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
            Err(error) => Call::failed(&self.0.hub, &error.into()),
        };
        TYPED.set(Some(typed));
        MessageCall::new(call)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.stop();
        let Some(thread) = self.thread.take() else { return };
        // A task that the standby woke may have held the last handle, and be dropped on its thread.
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
