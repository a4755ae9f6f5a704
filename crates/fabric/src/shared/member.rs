//! One thread's share of a channel: the words of [`Channel`](crate::channel::Channel).
//!
//! Shape: requests are written into `written`, a few of them together go into the channel, or into the tray if somebody else drives. Outcomes
//! arrive in `arrived`: those that this thread took from the channel itself, and those that others put into its mailbox.
//!
//! Invariants:
//! 1. A call takes a slot when it is started and leaves it with its outcome: the dispatcher's, or, when the end has come and the mailbox is
//!    empty, one of the member's own, which says that the call may have run.
//! 2. Events are handed out without the baton: what the user does there holds nobody up, and may use the same shared channel.
//!
//! Bounds: calls as the options say, and a cancel for each; bytes of requests that are not in the channel yet, or one request.

use super::desk::Desk;
use super::dispatcher::Mine;
use super::hub::Hub;
use super::letters::{self, Letters};
use super::mailbox::{Mailbox, Told};
use super::tray::Entry;
use crate::channel::{
    CallId, CallOptions, Calls, Event, Happened, Method, Scratch, StartError, State, Typed, find_method,
};
use crate::connection::handshake::ServiceInfo;
use crate::frame::{MAX_MESSAGE, MAX_METADATA};
use crate::port::{OpenError, Packet};
use crate::status::Status;
use ring::wait::{Sleeper, WaitPolicy, waiting_on_eventfd};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Requests that go into the channel together, which has its own mind about when to publish them.
const TOGETHER: u32 = 8;

/// One thread's share of a channel. Dropped, it cancels its calls and forgets them.
pub struct Member {
    pub(super) hub: Arc<Hub>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) key: u32,
    pub(super) sleeper: Sleeper,
    calls: Calls,
    /// Requests and cancels that are not in the channel nor in the tray.
    pub(super) written: Letters,
    /// Requests among them.
    unseen: u32,
    /// Bytes of requests that may wait.
    bytes: usize,
    /// Outcomes that were not handed out.
    pub(super) arrived: Letters,
    /// What a blocking call left for the next poll.
    pub(super) backlog: VecDeque<Kept>,
    /// Whom to wake; empty between two turns.
    pub(super) told: Told,
    scratch: Scratch,
    pub(super) typed: Option<Box<Typed>>,
    /// How blocking calls wait.
    pub(super) policy: WaitPolicy,
    services: Arc<[ServiceInfo]>,
    /// After the end: slots whose calls were ended.
    swept: u32,
}

/// An outcome of one of its calls.
pub(super) struct Arrived<'a> {
    pub(super) call: CallId,
    user: u64,
    pub(super) bytes: &'a [u8],
}

/// One that waits for a poll.
pub(super) struct Kept {
    call: CallId,
    user: u64,
    outcome: Packet,
}

impl Arrived<'_> {
    pub(super) fn keep(&self) -> Kept {
        Kept { call: self.call, user: self.user, outcome: Packet::new(0, &[self.bytes]) }
    }
}

impl Member {
    pub(super) fn join(
        hub: &Arc<Hub>,
        (calls, bytes): (usize, usize),
        policy: WaitPolicy,
        services: Arc<[ServiceInfo]>,
    ) -> Result<Member, OpenError> {
        let (sleeper, bell) = waiting_on_eventfd().map_err(|_| OpenError::TooMany)?;
        let key = hub.tray.key().ok_or(OpenError::TooMany)?;
        let mailbox = Arc::new(Mailbox::new(bell));
        let desk = Box::new(Desk::new(key, Arc::clone(&mailbox), calls));
        if hub.tray.push(Entry::Join(desk)).is_some() {
            return Err(OpenError::Closed);
        }
        let mut told = Told::default();
        hub.settle(&mut told);
        Ok(Member {
            hub: Arc::clone(hub),
            mailbox,
            key,
            sleeper,
            calls: Calls::new(calls),
            written: Letters::default(),
            unseen: 0,
            bytes,
            arrived: Letters::default(),
            backlog: VecDeque::new(),
            told,
            scratch: Scratch::default(),
            typed: None,
            policy,
            services,
            swept: 0,
        })
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

    /// Whether calls may still be started: not after the last handle is gone.
    pub fn is_open(&self) -> bool {
        !self.hub.is_closed()
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
        let call = self.write(method, options, user, body)?;
        if self.calls.in_flight() == 1 {
            self.flush();
        } else if self.unseen >= TOGETHER {
            self.hand_in(false);
        }
        Ok(call)
    }

    /// Starts a call without telling anybody.
    #[inline]
    pub(super) fn write(
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
        if self.hub.is_closed() {
            return Err(StartError::Gone);
        }
        let waiting = self.written.bytes() + self.mailbox.waiting.load(Ordering::Relaxed);
        if waiting > 0 && waiting + options.metadata.len() + body.len() > self.bytes {
            self.hand_in(false);
            return Err(StartError::Full);
        }
        let call = self.calls.next().ok_or(StartError::Full)?;
        self.written.request((self.key, call.number()), method, options, body);
        self.calls.open(user, method.number(), 0, None);
        self.unseen += 1;
        Ok(call)
    }

    /// Gives a call up. Its outcome comes as an event: CANCELLED, or what it was before that.
    pub fn cancel(&mut self, call: CallId) {
        if let Some(slot) = self.calls.find(call)
            && !std::mem::replace(&mut slot.owes_cancel, true)
        {
            self.written.cancel(self.key, call.number());
        }
    }

    /// Publishes what was started.
    #[inline]
    pub fn flush(&mut self) {
        self.hand_in(true);
    }

    /// Hands what was written to the channel, or to whoever drives.
    #[inline]
    fn hand_in(&mut self, publish: bool) {
        let Member { hub, written, told, .. } = self;
        let driven = hub.take_turn(told, |dispatcher| {
            dispatcher.hear(written);
            if publish {
                dispatcher.channel.flush();
            }
        });
        if driven.is_none() {
            self.leave_written();
        }
        self.unseen = 0;
    }

    /// Leaves what was written to whoever drives.
    pub(super) fn leave_written(&mut self) {
        if !self.written.is_empty() {
            self.mailbox.waiting.fetch_add(self.written.bytes(), Ordering::Relaxed);
            self.hub.tray.leave_letters(&mut self.written);
            self.hub.settle(&mut self.told);
        }
        self.unseen = 0;
    }

    /// Hands what was written in and takes a turn if nothing has arrived, or if there is something to hand in.
    #[inline]
    fn look(&mut self) {
        if self.arrived.is_empty() {
            self.mailbox.take(&mut self.arrived);
        }
        if !self.arrived.is_empty() && self.written.is_empty() {
            return;
        }
        let Member { hub, written, arrived, told, key, .. } = self;
        let driven = hub.take_turn(told, |dispatcher| {
            dispatcher.hear(written);
            dispatcher.turn(&mut Mine { key: *key, outcomes: arrived });
        });
        if driven.is_none() {
            self.leave_written();
        }
        self.unseen = 0;
        if self.arrived.is_empty() {
            self.mailbox.take(&mut self.arrived);
        }
    }

    /// Publishes what was started and hands out up to `max` events; how many.
    #[inline]
    pub fn poll(&mut self, max: usize, mut each: impl FnMut(Event<'_>)) -> usize {
        let mut count = 0;
        while count < max
            && let Some(Kept { call, user, outcome }) = self.backlog.pop_front()
        {
            hand(&Arrived { call, user, bytes: outcome.bytes() }, &mut self.scratch, &mut each);
            count += 1;
        }
        count + self.take_arrived(max - count, |arrived, scratch| hand(&arrived, scratch, &mut each))
    }

    /// Looks, and takes up to `max` outcomes; how many.
    #[inline]
    pub(super) fn take_arrived(
        &mut self,
        max: usize,
        mut each: impl FnMut(Arrived<'_>, &mut Scratch),
    ) -> usize {
        // Before the last look into the mailbox.
        let closed = self.hub.is_closed();
        self.look();
        let Member { arrived, calls, scratch, .. } = self;
        let mut count = 0;
        while count < max
            && let Some(letter) = arrived.pop()
        {
            let call = CallId(letter.tag);
            let slot = calls.find(call).expect("the dispatcher answers calls that are open, once each");
            let user = slot.user;
            calls.close(call.slot());
            each(Arrived { call, user, bytes: letter.bytes }, scratch);
            count += 1;
        }
        if closed && count < max { count + self.sweep(max - count, each) } else { count }
    }

    /// The end has come, and all that was said was taken: ends up to `max` calls that are open; how many.
    #[cold]
    fn sweep(&mut self, max: usize, mut each: impl FnMut(Arrived<'_>, &mut Scratch)) -> usize {
        let mut count = 0;
        while count < max && (self.swept as usize) < self.calls.len() {
            let slot = self.calls.slot(self.swept);
            let (state, user) = (slot.state, slot.user);
            if state != State::Free {
                let call = self.calls.id_of(self.swept);
                self.calls.close(self.swept);
                let lost = letters::failed(&Status::lost("the shared channel was stopped"));
                each(Arrived { call, user, bytes: lost.bytes() }, &mut self.scratch);
                count += 1;
            }
            self.swept += 1;
        }
        count
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A closed tray needs no telling.
        if self.hub.tray.push(Entry::Leave(self.key)).is_none() {
            self.hub.settle(&mut self.told);
        }
    }
}

#[inline]
fn hand(arrived: &Arrived<'_>, scratch: &mut Scratch, each: &mut impl FnMut(Event<'_>)) {
    let (what, metadata) = letters::told(arrived.bytes);
    each(Event::new(Happened { call: arrived.call, user: arrived.user, what, metadata }, scratch));
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({} in flight)", self.in_flight())
    }
}
