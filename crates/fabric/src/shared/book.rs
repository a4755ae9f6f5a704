//! Who waits for what: orders from where they were given to where their outcome is handed out.
//!
//! ```text
//! member's letter, future's order ── room ──▶ channel ── its end ──▶ desk │ promise
//!          └─ no room ─▶ a list, one of each list in turn ──▶ channel
//! ```
//! Invariants 1 to 3 of the [dispatcher](super::dispatcher) are kept here.

use super::call::{Promise, State};
use super::desk::{Desk, FUTURE, Order, Owner, place, slot};
use super::dispatcher::Mine;
use super::letters::{self, Ask, Request};
use super::tray::Tray;
use crate::channel::{CallId, CallOptions, Channel, Event, StartError};
use crate::port::Packet;
use crate::status::{Code, Status};
use base::clock::Clock;
use base::units::Nanos;
use std::collections::VecDeque;
use std::sync::Arc;

/// Who waits for what.
pub(super) struct Book {
    pub(super) tray: Arc<Tray>,
    /// Futures' calls in the channel, and places that are free.
    pub(super) started: Vec<Option<(Promise, CallId)>>,
    free: Vec<u32>,
    /// By the place of the member's key.
    pub(super) desks: Vec<Option<Desk>>,
    /// Orders of futures that wait for room in the channel.
    pub(super) futures: VecDeque<Order>,
    /// Orders that wait, in all lists.
    pub(super) waiting: usize,
    /// While orders wait: none has an earlier deadline.
    earliest: Nanos,
    /// The list whose turn it is to start a waiting order.
    first: usize,
    /// Places of desks that have outcomes.
    pub(super) touched: Vec<usize>,
    /// Tasks to wake.
    pub(super) tasks: Vec<std::task::Waker>,
    #[cfg(test)]
    pub(super) planted: Option<super::Planted>,
}

impl Book {
    pub(super) fn new(tray: Arc<Tray>) -> Book {
        Book {
            tray,
            started: Vec::new(),
            free: Vec::new(),
            desks: Vec::new(),
            futures: VecDeque::new(),
            waiting: 0,
            earliest: Nanos::MAX,
            first: 0,
            touched: Vec::new(),
            tasks: Vec::new(),
            #[cfg(test)]
            planted: None,
        }
    }

    pub(super) fn earliest(&self) -> Nanos {
        if self.waiting > 0 { self.earliest } else { Nanos::MAX }
    }

    /// The channel tells how a call ended.
    #[inline]
    pub(super) fn finish(&mut self, event: &Event<'_>, mine: &mut Mine<'_>) {
        let (key, tag) = ((event.user >> 32) as u32, event.user as u32);
        if key == FUTURE {
            return self.finish_future(tag, event);
        }
        // A member that is gone waits for nothing.
        let Some(desk) = desk(&mut self.desks, key) else { return };
        let call = desk.calls[slot(tag)].take();
        assert!(call == Some(event.call), "the channel tells of calls that were started, once each");
        #[cfg(test)]
        let key = self.misroute(key, tag, event);
        if key == mine.key {
            mine.outcomes.outcome(key, tag, &event.what, event.metadata());
        } else {
            self.hand(key, tag, event);
        }
    }

    /// An outcome of a member who does not drive.
    #[inline]
    fn hand(&mut self, key: u32, tag: u32, event: &Event<'_>) {
        let Some(desk) = desk(&mut self.desks, key) else { return };
        if desk.outcomes.is_empty() {
            self.touched.push(place(key));
        }
        desk.outcomes.outcome(key, tag, &event.what, event.metadata());
    }

    fn finish_future(&mut self, at: u32, event: &Event<'_>) {
        let (promise, _) = self.started[at as usize].take().expect("a future's call ends once");
        self.free.push(at);
        self.tasks.extend(promise.keep(letters::outcome(&event.what, event.metadata())));
    }

    /// A letter from the tray waits there no longer.
    pub(super) fn heard(&mut self, letter: &letters::Letter<'_>) {
        if let Some(desk) = desk(&mut self.desks, letter.key) {
            desk.started(letter.size());
        }
    }

    /// A member asks.
    #[inline]
    pub(super) fn hear(
        &mut self,
        channel: &mut Channel,
        clock: &Clock,
        (key, tag): (u32, u32),
        bytes: &[u8],
    ) {
        let Ask::Start(request) = letters::ask(bytes) else { return self.cancel(channel, key, tag) };
        if self.waiting == 0 {
            match self.start_for_member(channel, key, tag, &request, request.timeout) {
                Ok(()) => return,
                Err(StartError::Full) => {}
                Err(error) => return self.refuse(Owner::Member(key, tag), &Status::from(error)),
            }
        }
        self.begin(channel, clock, Owner::Member(key, tag), Packet::new(0, &[bytes]));
    }

    #[inline]
    fn start_for_member(
        &mut self,
        channel: &mut Channel,
        key: u32,
        tag: u32,
        request: &Request<'_>,
        timeout: Option<std::time::Duration>,
    ) -> Result<(), StartError> {
        let options = CallOptions { timeout, metadata: request.metadata, ..CallOptions::default() };
        let user = u64::from(key) << 32 | u64::from(tag);
        let call = channel.start(request.method, &options, user, request.body)?;
        let desk = desk(&mut self.desks, key).expect("a member has a desk while it is there");
        desk.calls[slot(tag)] = Some(call);
        Ok(())
    }

    pub(super) fn join(&mut self, desk: Desk) {
        let at = place(desk.key);
        if self.desks.len() <= at {
            self.desks.resize_with(at + 1, || None);
        }
        assert!(self.desks[at].is_none(), "a desk is cleared before its place is given again");
        self.desks[at] = Some(desk);
    }

    /// Starts a call, or lets it wait behind others.
    pub(super) fn begin(&mut self, channel: &mut Channel, clock: &Clock, owner: Owner, request: Packet) {
        let Ask::Start(asked) = letters::ask(request.bytes()) else { panic!("an order is a request") };
        let now = clock.now();
        let deadline = asked.timeout.map_or(Nanos::MAX, |timeout| now.plus(timeout.into()));
        let order = Order { owner, request, deadline };
        if let Owner::Member(key, _) = &order.owner {
            let desk = desk(&mut self.desks, *key).expect("a member has a desk while it is there");
            desk.waits(order.request.bytes().len());
        }
        if self.waiting > 0 {
            return self.queue(order);
        }
        if let Some(order) = self.start(channel, now, order) {
            self.queue(order);
        }
    }

    /// Starts a call; the order again if there is no room.
    fn start(&mut self, channel: &mut Channel, now: Nanos, order: Order) -> Option<Order> {
        let Ask::Start(request) = letters::ask(order.request.bytes()) else {
            panic!("an order is a request")
        };
        let timeout = (order.deadline != Nanos::MAX).then(|| order.deadline.since(now).into());
        let started = match &order.owner {
            Owner::Member(key, tag) => self.start_for_member(channel, *key, *tag, &request, timeout),
            Owner::Future(_) => {
                let options = CallOptions { timeout, metadata: request.metadata, ..CallOptions::default() };
                let at = self.free.last().copied().unwrap_or(self.started.len() as u32);
                let user = u64::from(FUTURE) << 32 | u64::from(at);
                match channel.start(request.method, &options, user, request.body) {
                    Ok(call) => {
                        self.started_future(at, order, call);
                        return None;
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match started {
            Ok(()) => self.no_longer_waits(&order),
            Err(StartError::Full) => return Some(order),
            Err(error) => {
                self.no_longer_waits(&order);
                self.refuse(order.owner, &Status::from(error));
            }
        }
        None
    }

    fn started_future(&mut self, at: u32, order: Order, call: CallId) {
        self.no_longer_waits(&order);
        let Owner::Future(promise) = order.owner else { panic!("a future's order") };
        promise.started(at);
        if self.free.pop().is_none() {
            self.started.push(None);
        }
        let before = self.started[at as usize].replace((promise, call));
        assert!(before.is_none(), "a place is given again after its call has ended");
    }

    /// An order's bytes count no longer.
    fn no_longer_waits(&mut self, order: &Order) {
        let bytes = order.request.bytes().len();
        match &order.owner {
            Owner::Future(_) => self.tray.started(bytes),
            Owner::Member(key, _) => {
                if let Some(desk) = desk(&mut self.desks, *key) {
                    desk.started(bytes);
                }
            }
        }
    }

    #[cold]
    fn queue(&mut self, order: Order) {
        if self.waiting == 0 {
            self.earliest = Nanos::MAX;
        }
        self.waiting += 1;
        self.earliest = self.earliest.min(order.deadline);
        match &order.owner {
            Owner::Member(key, _) => {
                let desk = desk(&mut self.desks, *key).expect("a member has a desk while it is there");
                desk.waiting.push_back(order);
            }
            Owner::Future(_) => self.futures.push_back(order),
        }
    }

    /// The lists of waiting orders: each member's, then the futures'.
    fn list(&mut self, at: usize) -> Option<&mut VecDeque<Order>> {
        if at == self.desks.len() {
            return Some(&mut self.futures);
        }
        self.desks[at].as_mut().map(|desk| &mut desk.waiting)
    }

    /// Starts orders that wait, one of each list in turn, until there is no room; how many.
    #[cold]
    pub(super) fn start_waiting(&mut self, channel: &mut Channel, now: Nanos) -> usize {
        let before = self.waiting;
        let lists = self.desks.len() + 1;
        while self.waiting > 0 {
            let at = self.first % lists;
            if let Some(order) = self.list(at).and_then(VecDeque::pop_front) {
                self.waiting -= 1;
                if let Some(order) = self.start(channel, now, order) {
                    self.waiting += 1;
                    self.list(at).expect("it was there just now").push_front(order);
                    break;
                }
            }
            self.first = at + 1;
        }
        before - self.waiting
    }

    /// Ends orders whose time has passed before there was room for them; how many.
    #[cold]
    pub(super) fn expire(&mut self, now: Nanos) -> usize {
        if now < self.earliest {
            return 0;
        }
        let Book { desks, futures, .. } = self;
        let (mut late, mut earliest) = (Vec::new(), Nanos::MAX);
        for list in desks.iter_mut().flatten().map(|desk| &mut desk.waiting).chain([futures]) {
            for order in std::mem::take(list) {
                if order.deadline <= now {
                    late.push(order);
                } else {
                    earliest = earliest.min(order.deadline);
                    list.push_back(order);
                }
            }
        }
        self.earliest = earliest;
        self.waiting -= late.len();
        let expired = late.len();
        let status = Status::new(Code::DeadlineExceeded, "no room for the call within its time");
        late.into_iter().for_each(|order| self.give_up(order, &status));
        expired
    }

    /// A member gives a call up.
    fn cancel(&mut self, channel: &mut Channel, key: u32, tag: u32) {
        let Some(desk) = desk(&mut self.desks, key) else { return };
        let is_it = |order: &Order| matches!(order.owner, Owner::Member(_, number) if number == tag);
        if let Some(at) = desk.waiting.iter().position(is_it) {
            let order = desk.waiting.remove(at).expect("found just now");
            self.waiting -= 1;
            let status = Status::new(Code::Cancelled, "the call was cancelled before it was sent");
            self.give_up(order, &status);
        } else if let Some(call) = desk.calls[slot(tag)] {
            channel.cancel(call);
        }
    }

    /// A future was dropped.
    pub(super) fn cancel_future(&mut self, channel: &mut Channel, state: &Arc<State>) {
        let is_it = |owner: &Owner| matches!(owner, Owner::Future(promise) if promise.is_for(state));
        let started = self.started.get(state.place() as usize).and_then(Option::as_ref);
        if let Some((_, call)) = started.filter(|(promise, _)| promise.is_for(state)) {
            channel.cancel(*call);
        } else if let Some(at) = self.futures.iter().position(|order| is_it(&order.owner)) {
            let order = self.futures.remove(at).expect("found just now");
            self.waiting -= 1;
            self.no_longer_waits(&order);
        }
    }

    /// A member is gone: nobody waits for its calls any more.
    #[cold]
    pub(super) fn leave(&mut self, channel: &mut Channel, key: u32) {
        if desk(&mut self.desks, key).is_none() {
            return;
        }
        let gone = self.desks[place(key)].take().expect("looked at just now");
        self.waiting -= gone.waiting.len();
        // Their outcomes find nobody.
        gone.calls.iter().flatten().for_each(|&call| channel.cancel(call));
        self.tray.free_key(key);
    }

    /// Ends an order that was not started.
    fn give_up(&mut self, order: Order, status: &Status) {
        self.no_longer_waits(&order);
        self.refuse(order.owner, status);
    }

    /// Ends a call that was not started.
    #[cold]
    fn refuse(&mut self, owner: Owner, status: &Status) {
        match owner {
            Owner::Future(promise) => self.tasks.extend(promise.keep(letters::failed(status))),
            Owner::Member(key, tag) => {
                let Some(desk) = desk(&mut self.desks, key) else { return };
                if desk.outcomes.is_empty() {
                    self.touched.push(place(key));
                }
                desk.outcomes.outcome(key, tag, &crate::channel::What::Failed(status.clone()), &[]);
            }
        }
    }

    /// Plants a bug: the key of the member that an outcome is handed to.
    #[cfg(test)]
    fn misroute(&mut self, key: u32, tag: u32, event: &Event<'_>) -> u32 {
        use super::Planted;
        match self.planted {
            Some(Planted::Twice) => {
                self.hand(key, tag, event);
                key
            }
            Some(Planted::WrongMember) => {
                let other = self.desks.iter().flatten().map(|desk| desk.key).find(|&other| other != key);
                other.unwrap_or(key)
            }
            _ => key,
        }
    }
}

#[inline]
fn desk(desks: &mut [Option<Desk>], key: u32) -> Option<&mut Desk> {
    desks.get_mut(place(key))?.as_mut().filter(|desk| desk.key == key)
}
