//! The client side of a connection: calls out, events in. One thread owns it; nothing runs behind its back.
//!
//! ```text
//!   start · build · send · finish · cancel          poll(max, |event| …)          call: start, wait, take one event
//!            │ frames                                  ▲ events
//!   core ── call table (calls) ── streams (stream) ── deadlines (wheel) ── switching
//!            │ try_send, flush                         │ recv
//!   connection::switch::Links ── one link, or two while the transport is switched
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `core` | the call machine: what the application does |
//! | `receive` | the call machine: what the server's frames mean |
//! | `calls`, `stream`, `wheel` | its parts |
//! | `switching` | going over to another link |
//! | `connect` | from a link to a channel |
//! | `poll`, `wait` | the completion queue |
//! | `blocking`, `typed` | calls that wait, and messages instead of bytes |
//! | `caller` | what generated stubs need of it |
//! | `watched` | what the monitor is told |
//! | `reconnecting` | a client that connects again, and what it may send again |
//! | `one` | for the owner of one call: its next event, its next message |
//!
//! Invariants: those of `docs/design/003-fabric.md`, of which 1 (exactly one outcome) is `calls`', 5 (streams) `stream`'s, 6 `receive`'s and
//! 7 `switching`'s.
//!
//! Publishing: frames are published by [`Channel::flush`] and every wait, at once when nothing else is in flight, as [`batch`](crate::batch) has it
//! in between, and by a poll that finds nothing.
//!
//! Time: a call's timeout counts from when it is published. The clock is read once for each poll, wait and flush, never for a call.
//!
//! Bounds: as many calls as the server's Welcome says (65,536 at most); for each stream a window of items; events that wait for a
//! poll while a blocking call waits are bounded by these two.
//!
//! Tests: `tests` beside this file, with a scripted server; `simulation`, with faults from a seed.

mod blocking;
mod caller;
mod calls;
mod connect;
mod core;
mod error;
mod event;
mod one;
mod options;
mod owed;
mod poll;
mod receive;
mod reconnecting;
mod stream;
mod switching;
mod typed;
mod wait;
mod watched;
mod wheel;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use blocking::Response;
pub use caller::Caller;
pub use calls::CallId;
pub use connect::Connecting;
pub use error::{StartError, SwitchError};
pub use event::{Event, What};
pub use options::{CallOptions, Options};
pub use reconnecting::{Reconnecting, ReconnectingCounters};
pub use switching::Switch;

pub(crate) use calls::{Calls, MOST, State};
pub(crate) use event::{Happened, Scratch, undecodable};
pub(crate) use typed::Typed;
pub(crate) use wait::sleep;

use self::core::{Core, Phase};
use crate::batch::Policy;
use crate::connection::ConnectError;
use crate::connection::handshake::ServiceInfo;
use crate::connection::switch::{Links, Side};
use crate::link::{Frames, Link, Transport};
use crate::registers::{Registers, Watch, wait_policy};
use base::clock::Clock;
use base::units::Nanos;
use event::Waiting;
use ring::wait::WaitPolicy;
use std::collections::VecDeque;
use std::sync::Arc;

/// A method of the server, as calls name it. Valid for the channel that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    number: u16,
    client_streaming: bool,
    server_streaming: bool,
    idempotent: bool,
}

impl Method {
    /// The unary method of this number.
    pub(crate) fn unary(number: u16) -> Method {
        Method { number, client_streaming: false, server_streaming: false, idempotent: false }
    }

    /// The same, idempotent or not: the client's .proto file says so, servers do not tell in their Welcome. Stubs call it.
    pub fn idempotent(self, is_idempotent: bool) -> Method {
        Method { idempotent: is_idempotent, ..self }
    }

    /// A call whose connection broke may be sent again.
    pub fn is_idempotent(self) -> bool {
        self.idempotent
    }

    /// Its number in frames.
    pub fn number(self) -> u16 {
        self.number
    }

    /// The client sends a stream: [`Channel::send`], [`Channel::finish`].
    pub fn is_client_streaming(self) -> bool {
        self.client_streaming
    }

    /// The server sends a stream: [`What::Item`], [`What::End`].
    pub fn is_server_streaming(self) -> bool {
        self.server_streaming
    }

    /// One request, one reply.
    #[inline]
    pub fn is_unary(self) -> bool {
        !self.client_streaming && !self.server_streaming
    }
}

/// The client side of a connection.
pub struct Channel {
    core: Core,
    services: Vec<ServiceInfo>,
    connection: u64,
    /// Frames that arrived and were not handled yet, all over one link.
    frames: Frames,
    from: Side,
    /// Events that a blocking call left for the next poll.
    backlog: VecDeque<Waiting>,
    scratch: Scratch,
    typed: Option<Box<Typed>>,
    time: Time,
    /// How blocking calls wait.
    policy: WaitPolicy,
    registers: Option<(Arc<Registers>, Watch)>,
}

/// Where a channel's time comes from.
enum Time {
    Clock(Clock),
    /// Whoever drives it says so; see [`Channel::poll_at`].
    Given(Nanos),
}

impl Time {
    #[inline]
    fn now(&self) -> Nanos {
        match self {
            Time::Clock(clock) => clock.now(),
            Time::Given(now) => *now,
        }
    }
}

impl Channel {
    /// The method of a path: `/shop.Cart/Add`. Ask once and keep it.
    pub fn method(&self, path: &str) -> Option<Method> {
        find_method(&self.services, path)
    }

    /// What the server offers.
    pub fn services(&self) -> &[ServiceInfo] {
        &self.services
    }

    /// The server's number for the connection, as in its lists and metrics.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// What carries the frames now; nothing when the connection is over.
    pub fn transport(&self) -> Option<Transport> {
        self.core.links.as_ref().map(Links::transport)
    }

    /// Calls whose Reply has not come; those that have their outcome already included.
    pub fn in_flight(&self) -> usize {
        self.core.calls.in_flight()
    }

    /// Calls that may be in flight.
    pub fn max_calls(&self) -> usize {
        self.core.calls.len()
    }

    /// Whether calls may still be started: not after the server's Goodbye, nor when the connection is over.
    pub fn is_open(&self) -> bool {
        matches!(self.core.phase, Phase::Open)
    }

    /// Why the connection is over, if it is.
    pub fn end(&self) -> Option<&str> {
        match &self.core.phase {
            Phase::Over { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Starts a call. What comes of it is told by [`Channel::poll`], with `user`. The method of a client's stream takes no body here: its
    /// messages are sent with [`Channel::send`].
    ///
    /// # Errors
    /// [`StartError`]; no call was started then, and no event comes.
    #[inline]
    pub fn start(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        body: &[u8],
    ) -> Result<CallId, StartError> {
        let (call, publish) = self.core.open(method, options, user, body)?;
        if publish {
            self.flush();
        }
        Ok(call)
    }

    /// Sends a further message of a client's stream.
    ///
    /// # Errors
    /// [`StartError::Full`] if the server's window is used up or the link is full; nothing was sent then.
    pub fn send(&mut self, call: CallId, body: &[u8]) -> Result<(), StartError> {
        if self.core.send(call, body)? {
            self.flush();
        }
        Ok(())
    }

    /// Says that a client's stream is complete.
    ///
    /// # Errors
    /// [`StartError::Full`] if the link is full; try again.
    pub fn finish(&mut self, call: CallId) -> Result<(), StartError> {
        self.core.finish(call)?;
        self.flush();
        Ok(())
    }

    /// Lets the server send so many further items of a stream that was started with [`CallOptions::explicit_credit`]; by default
    /// credit goes out as items are handed out.
    pub fn grant(&mut self, call: CallId, items: u32) {
        self.core.grant(call, items);
    }

    /// Gives a call up. Its outcome comes as an event, CANCELLED, unless it has one already.
    pub fn cancel(&mut self, call: CallId) {
        self.core.cancel(call);
    }

    /// Publishes what was started.
    #[inline]
    pub fn flush(&mut self) {
        self.core.publish(self.time.now());
    }

    /// Takes over what registers say now.
    #[inline]
    fn follow(&mut self) {
        if let Some((registers, watch)) = &mut self.registers
            && watch.changed(registers)
        {
            self.policy = wait_policy(registers);
            self.core.batching = Policy::of(registers);
        }
    }

    /// Goes on over another link to the same server, with calls in flight: none is lost or doubled. It takes some polls; see
    /// [`Channel::switching`]. A second switch waits for the first.
    ///
    /// # Errors
    /// [`SwitchError`]; the link is closed then.
    pub fn switch(&mut self, link: Box<dyn Link>) -> Result<(), SwitchError> {
        self.core.switch(link)
    }

    /// How far a switch is.
    pub fn switching(&self) -> Switch {
        self.core.switch_state()
    }

    /// Why the last switch failed, if it did; the connection goes on as it was. Told once.
    pub fn switch_error(&mut self) -> Option<ConnectError> {
        self.core.switch_error()
    }
}

/// The method of a path among what a server offers.
pub(crate) fn find_method(services: &[ServiceInfo], path: &str) -> Option<Method> {
    let (service, method) = path.strip_prefix('/').unwrap_or(path).split_once('/')?;
    let service = services.iter().find(|info| info.name == service)?;
    let info = service.methods.iter().find(|info| info.name == method)?;
    let (client_streaming, server_streaming) = (info.client_streaming, info.server_streaming);
    Some(Method { number: info.number, client_streaming, server_streaming, idempotent: false })
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let transport = self.transport().map_or("over", Transport::name);
        let in_flight = self.in_flight();
        write!(f, "Channel({transport}, connection {}, {in_flight} in flight)", self.connection)
    }
}
