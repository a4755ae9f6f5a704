//! One thread's share of a channel: the words of [`Channel`](crate::channel::Channel), over a port of its own.
//!
//! Invariants:
//! 1. A call takes a slot when it is started and leaves it with its outcome: the dispatcher's, or, when the dispatcher is gone and the port
//!    is empty, one of the member's own, which says that the call may have run.
//! 2. Cancels that found no room in the port are sent before anything else, as soon as there is.
//!
//! Bounds: as many calls as the port has entries; as many cancels.

use super::packet;
use crate::channel::{
    CallId, CallOptions, Calls, Event, Happened, Method, Scratch, StartError, State, Typed, find_method,
};
use crate::connection::handshake::ServiceInfo;
use crate::frame::{MAX_MESSAGE, MAX_METADATA};
use crate::port::{Packet, Port, SendError};
use crate::status::Status;
use ring::wait::{Outcome, WaitPolicy};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Requests after which they are shown to the dispatcher though others are in flight and no poll came.
const PUBLISH_AFTER: u32 = 16;

/// One thread's share of a channel. Dropped, it cancels its calls and forgets them.
pub struct Member {
    port: Port,
    calls: Calls,
    /// Calls whose cancel found no room.
    owed: VecDeque<u32>,
    /// What a blocking call left for the next poll.
    pub(super) backlog: VecDeque<Kept>,
    scratch: Scratch,
    pub(super) typed: Option<Box<Typed>>,
    /// How blocking calls wait.
    pub(super) policy: WaitPolicy,
    services: Arc<[ServiceInfo]>,
    /// Requests since the last flush.
    unflushed: u32,
    /// When the dispatcher is gone: slots whose calls were ended.
    swept: u32,
}

/// An outcome, as it came.
pub(super) struct Kept {
    pub(super) call: CallId,
    user: u64,
    outcome: Packet,
}

impl Kept {
    pub(super) fn outcome(&self) -> &Packet {
        &self.outcome
    }
}

impl Member {
    pub(super) fn new(port: Port, calls: usize, policy: WaitPolicy, services: Arc<[ServiceInfo]>) -> Member {
        Member {
            port,
            calls: Calls::new(calls),
            owed: VecDeque::new(),
            backlog: VecDeque::new(),
            scratch: Scratch::default(),
            typed: None,
            policy,
            services,
            unflushed: 0,
            swept: 0,
        }
    }

    /// The method of a path: `/shop.Cart/Add`. Ask once and keep it.
    pub fn method(&self, path: &str) -> Option<Method> {
        find_method(&self.services, path)
    }

    /// What the server offers.
    pub fn services(&self) -> &[ServiceInfo] {
        &self.services
    }

    /// Calls whose outcome was not taken.
    pub fn in_flight(&self) -> usize {
        self.calls.in_flight()
    }

    /// Calls that may be in flight.
    pub fn max_calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether calls may still be started: not after the dispatcher has stopped.
    pub fn is_open(&self) -> bool {
        !self.port.is_closed()
    }

    /// Starts a call. What comes of it is told by [`Member::poll`], with `user`; that the connection takes no more calls, too.
    ///
    /// # Errors
    /// [`StartError`]; no call was started then, and no event comes. [`StartError::Shape`] for methods that stream.
    #[inline]
    pub fn start(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        body: &[u8],
    ) -> Result<CallId, StartError> {
        if !method.is_unary() {
            return Err(StartError::Shape);
        }
        if body.len() > MAX_MESSAGE || options.metadata.len() > MAX_METADATA {
            return Err(StartError::TooLarge);
        }
        if self.port.is_closed() {
            return Err(StartError::Gone);
        }
        let call = self.calls.next().ok_or(StartError::Full)?;
        match self.port.try_send(packet::request(call.number(), method, options, body)) {
            Ok(()) => {}
            Err(SendError::Full(_)) => return Err(StartError::Full),
            Err(SendError::Gone(_)) => return Err(StartError::Gone),
        }
        self.calls.open(user, method.number(), 0, None);
        self.unflushed += 1;
        if self.calls.in_flight() == 1 || self.unflushed >= PUBLISH_AFTER {
            self.flush();
        }
        Ok(call)
    }

    /// Gives a call up. Its outcome comes as an event: CANCELLED, or what it was before that.
    pub fn cancel(&mut self, call: CallId) {
        if let Some(slot) = self.calls.find(call)
            && !std::mem::replace(&mut slot.owes_cancel, true)
        {
            self.owed.push_back(call.number());
            self.pay();
        }
    }

    /// Shows the dispatcher what was started.
    #[inline]
    pub fn flush(&mut self) {
        self.unflushed = 0;
        if !self.owed.is_empty() {
            self.pay();
        }
        self.port.flush();
    }

    /// Sends cancels that are owed.
    #[cold]
    fn pay(&mut self) {
        while let Some(&number) = self.owed.front() {
            let is_open = self.calls.find(CallId(number)).is_some();
            if is_open && matches!(self.port.try_send(packet::cancel(number)), Err(SendError::Full(_))) {
                return;
            }
            self.owed.pop_front();
        }
    }

    /// Shows what was started and hands out up to `max` events; how many.
    #[inline]
    pub fn poll(&mut self, max: usize, mut each: impl FnMut(Event<'_>)) -> usize {
        let mut count = 0;
        while count < max
            && let Some(kept) = self.backlog.pop_front()
        {
            hand(&kept, &mut self.scratch, &mut each);
            count += 1;
        }
        count + self.turn(max - count, |kept, scratch| hand(&kept, scratch, &mut each))
    }

    /// Takes up to `max` outcomes; how many.
    #[inline]
    pub(super) fn turn(&mut self, max: usize, mut each: impl FnMut(Kept, &mut Scratch)) -> usize {
        self.flush();
        // Before the last look into the port.
        let closed = self.port.is_closed();
        let Member { port, calls, scratch, .. } = self;
        let count = port.drain(max, |outcome| {
            let call = CallId(outcome.tag());
            let slot = calls.find(call).expect("the dispatcher answers calls that are open, once each");
            let user = slot.user;
            calls.close(call.slot());
            each(Kept { call, user, outcome }, scratch);
        });
        if closed && count < max { count + self.sweep(max - count, each) } else { count }
    }

    /// The dispatcher is gone, and all that it said was taken: ends up to `max` calls that are open; how many.
    #[cold]
    fn sweep(&mut self, max: usize, mut each: impl FnMut(Kept, &mut Scratch)) -> usize {
        let mut count = 0;
        while count < max && (self.swept as usize) < self.calls.len() {
            let slot = self.calls.slot(self.swept);
            let (state, user) = (slot.state, slot.user);
            if state != State::Free {
                let call = self.calls.id_of(self.swept);
                self.calls.close(self.swept);
                let lost = Status::lost("the shared channel was stopped");
                let outcome = packet::failed(call.number(), &lost);
                each(Kept { call, user, outcome }, &mut self.scratch);
                count += 1;
            }
            self.swept += 1;
        }
        count
    }

    /// Shows what was started and waits until a poll would find something, or what was refused may be tried again.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        if !self.backlog.is_empty() {
            return Outcome::Ready;
        }
        self.wait_for_packets(policy, timeout)
    }

    /// As [`Member::wait`], whatever waits in the backlog.
    pub(super) fn wait_for_packets(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        self.flush();
        if self.port.is_closed() && self.calls.in_flight() > 0 {
            return Outcome::Ready;
        }
        match self.port.wait(policy, timeout) {
            Outcome::PeerGone if self.calls.in_flight() > 0 => Outcome::Ready,
            outcome => outcome,
        }
    }
}

#[inline]
fn hand(kept: &Kept, scratch: &mut Scratch, each: &mut impl FnMut(Event<'_>)) {
    let (what, metadata) = packet::told(&kept.outcome);
    each(Event::new(Happened { call: kept.call, user: kept.user, what, metadata }, scratch));
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({} in flight)", self.in_flight())
    }
}
