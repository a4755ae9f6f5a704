//! The dispatcher: requests of all members and futures into the channel, outcomes back to whoever asked. A value; `turns` drives it.
//!
//! Shape of a turn:
//! ```text
//! channel ── events ──▶ owners ──▶ port, or promise
//! ports, inbox ── requests ──▶ channel;  no room: the member's desk, whence in turn
//! channel.flush, ports.flush: once each
//! ```
//! Invariants:
//! 1. An order (a request and its owner) is in one place: a desk's list, the futures' list, or as owner in the slot of the channel's call.
//!    Its outcome is handed out where it leaves the last place.
//! 2. The channel gives one terminal event for each call, so each owner has one outcome. Members check: a second one would name no call.
//! 3. While any order waits, new ones wait behind it, and desks have their turns one order each.
//!
//! Cost: it moves bytes; messages are encoded and decoded by members.

use super::call::State;
use super::desk::{Desk, Order, Owner, slot};
use super::inbox::{Entry, Inbox};
use super::packet::{self, Ask};
use crate::channel::{CallOptions, Channel, Event, StartError};
use crate::port::{Packet, PortId, Ports, SendError};
use crate::status::{Code, Status};
use base::units::Nanos;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events, and packets, that are taken in one go.
const BATCH: usize = 256;

pub(super) struct Dispatcher {
    pub(super) channel: Channel,
    pub(super) ports: Ports,
    pub(super) book: Book,
}

impl Dispatcher {
    pub(super) fn new(channel: Channel, ports: Ports, inbox: Arc<Inbox>, entries: usize) -> Dispatcher {
        let book = Book {
            inbox,
            entries,
            owners: (0..channel.max_calls()).map(|_| None).collect(),
            desks: Vec::new(),
            futures: VecDeque::new(),
            waiting: 0,
            earliest: Nanos::MAX,
            first: 0,
            ended: Vec::new(),
            stuck: 0,
            fetched: Vec::new(),
            #[cfg(test)]
            planted: None,
        };
        Dispatcher { channel, ports, book }
    }

    /// One turn; how much was done.
    pub(super) fn turn(&mut self, now: Nanos) -> usize {
        let Dispatcher { channel, ports, book } = self;
        if book.stuck > 0 {
            book.hand_out_late(ports);
        }
        let mut done = channel.poll_at(now, BATCH, |event| book.finish(ports, &event));
        done += ports.poll(now, BATCH, |port, packet| book.hear(channel, now, port, packet));
        done += book.take_futures(channel, now);
        if book.waiting > 0 {
            done += book.expire(now) + book.start_waiting(channel, now);
        }
        channel.flush();
        while let Some(port) = ports.next_left() {
            book.leave(channel, port);
        }
        done + book.hand_out(ports)
    }

    /// The end: every open call is cancelled, and its owner told.
    pub(super) fn stop(&mut self) {
        let Dispatcher { channel, ports, book } = self;
        for entry in book.inbox.close() {
            if let Entry::Start(promise, _) = entry {
                book.ended.push((Owner::Future(promise), packet::failed(0, &super::call::stopped())));
            }
        }
        for order in book.desks.iter_mut().flatten().flat_map(|desk| desk.waiting.drain(..)) {
            book.ended.push(refused(order.owner, &super::call::stopped()));
        }
        for order in book.futures.drain(..) {
            book.ended.push(refused(order.owner, &super::call::stopped()));
        }
        book.waiting = 0;
        for desk in book.desks.iter().flatten() {
            desk.calls.iter().flatten().for_each(|&call| channel.cancel(call));
        }
        for owner in book.owners.iter_mut().filter_map(Option::take) {
            let cancelled = Status::new(Code::Cancelled, "the shared channel was stopped");
            book.ended.push(refused(owner, &cancelled));
        }
        channel.flush();
        book.hand_out(ports);
        ports.flush();
    }
}

/// Who waits for what.
pub(super) struct Book {
    pub(super) inbox: Arc<Inbox>,
    /// Calls that a member may have open.
    entries: usize,
    /// By the slot of the channel's call.
    owners: Box<[Option<Owner>]>,
    /// By the port's index.
    desks: Vec<Option<Desk>>,
    /// Orders of futures that wait for room in the channel.
    futures: VecDeque<Order>,
    /// Orders that wait, in all lists.
    waiting: usize,
    /// While orders wait: none has an earlier deadline.
    earliest: Nanos,
    /// The desk whose turn it is to start a waiting order.
    first: usize,
    /// Outcomes that the channel did not tell of, to be handed out at the end of the turn.
    ended: Vec<(Owner, Packet)>,
    /// Outcomes for which ports had no room.
    stuck: usize,
    /// Used again for each look into the inbox.
    fetched: Vec<Entry>,
    #[cfg(test)]
    pub(super) planted: Option<super::Planted>,
}

impl Book {
    /// When a turn is due though nothing happens.
    pub(super) fn next_deadline(&self) -> Nanos {
        if self.waiting > 0 { self.earliest } else { Nanos::MAX }
    }

    /// Whether something waits for room in the channel, which no descriptor tells of.
    pub(super) fn waits_for_room(&self) -> bool {
        self.waiting > 0
    }

    /// The channel tells how a call ended.
    #[inline]
    fn finish(&mut self, ports: &mut Ports, event: &Event<'_>) {
        let owner = self.owners[event.call.slot() as usize].take();
        let owner = owner.expect("the channel tells of calls that were started, once each");
        let outcome = packet::outcome(owner.tag(), &event.what, event.metadata());
        #[cfg(test)]
        let owner = self.misroute(ports, owner, &outcome);
        self.hand(ports, owner, outcome);
    }

    /// A member asks.
    #[inline]
    fn hear(&mut self, channel: &mut Channel, now: Nanos, port: PortId, packet: Packet) {
        let tag = packet.tag();
        match packet::ask(&packet) {
            Ask::Start(request) => {
                self.open_desk(port);
                let deadline = request.timeout.map_or(Nanos::MAX, |timeout| now.plus(timeout.into()));
                self.begin(
                    channel,
                    now,
                    Order { owner: Owner::Member(port, tag), request: packet, deadline },
                );
            }
            Ask::Cancel => self.cancel(channel, port, tag),
        }
    }

    fn desk(&mut self, port: PortId) -> Option<&mut Desk> {
        self.desks.get_mut(port.index())?.as_mut().filter(|desk| desk.port == port)
    }

    #[inline]
    fn open_desk(&mut self, port: PortId) {
        if self.desk(port).is_none() {
            let at = port.index();
            if self.desks.len() <= at {
                self.desks.resize_with(at + 1, || None);
            }
            assert!(self.desks[at].is_none(), "a port's desk is cleared before its place is given again");
            self.desks[at] = Some(Desk::new(port, self.entries));
        }
    }

    /// Starts a call, or lets it wait behind others.
    #[inline]
    fn begin(&mut self, channel: &mut Channel, now: Nanos, order: Order) {
        if self.waiting > 0 {
            return self.queue(order);
        }
        if let Some(order) = self.start(channel, now, order) {
            self.queue(order);
        }
    }

    /// Starts a call; the order again if there is no room.
    #[inline]
    fn start(&mut self, channel: &mut Channel, now: Nanos, order: Order) -> Option<Order> {
        let Ask::Start(request) = packet::ask(&order.request) else { panic!("an order is a request") };
        let timeout = (order.deadline != Nanos::MAX).then(|| order.deadline.since(now).into());
        let options = CallOptions { timeout, metadata: request.metadata, ..CallOptions::default() };
        match channel.start(request.method, &options, 0, request.body) {
            Ok(call) => {
                match &order.owner {
                    Owner::Member(port, tag) => {
                        let desk = self.desk(*port).expect("a member has a desk while it is there");
                        desk.calls[slot(*tag)] = Some(call);
                    }
                    Owner::Future(promise) => promise.started(call),
                }
                let before = self.owners[call.slot() as usize].replace(order.owner);
                assert!(before.is_none(), "the channel gives a slot again after its call has ended");
            }
            Err(StartError::Full) => return Some(order),
            Err(error) => self.ended.push(refused(order.owner, &Status::from(error))),
        }
        None
    }

    #[cold]
    fn queue(&mut self, order: Order) {
        if self.waiting == 0 {
            self.earliest = Nanos::MAX;
        }
        self.waiting += 1;
        self.earliest = self.earliest.min(order.deadline);
        match &order.owner {
            Owner::Member(port, _) => {
                let desk = self.desk(*port).expect("a member has a desk while it is there");
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
    fn start_waiting(&mut self, channel: &mut Channel, now: Nanos) -> usize {
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
    fn expire(&mut self, now: Nanos) -> usize {
        if now < self.earliest {
            return 0;
        }
        let Book { desks, futures, ended, .. } = self;
        let before = ended.len();
        let mut earliest = Nanos::MAX;
        for list in desks.iter_mut().flatten().map(|desk| &mut desk.waiting).chain([futures]) {
            for order in std::mem::take(list) {
                if order.deadline <= now {
                    let late = Status::new(Code::DeadlineExceeded, "no room for the call within its time");
                    ended.push(refused(order.owner, &late));
                } else {
                    earliest = earliest.min(order.deadline);
                    list.push_back(order);
                }
            }
        }
        self.earliest = earliest;
        let expired = self.ended.len() - before;
        self.waiting -= expired;
        expired
    }

    /// A member gives a call up.
    fn cancel(&mut self, channel: &mut Channel, port: PortId, tag: u32) {
        let Some(desk) = self.desk(port) else { return };
        if let Some(at) = desk.waiting.iter().position(|order| order.owner.is_member(port, tag)) {
            let order = desk.waiting.remove(at).expect("found just now");
            self.waiting -= 1;
            self.ended.push(refused(order.owner, &cancelled()));
        } else if let Some(call) = desk.calls[slot(tag)] {
            // The call may be over, and its slot another's.
            let owner = &self.owners[call.slot() as usize];
            if owner.as_ref().is_some_and(|owner| owner.is_member(port, tag)) {
                channel.cancel(call);
            }
        }
    }

    /// A future was dropped.
    fn cancel_future(&mut self, channel: &mut Channel, state: &Arc<State>) {
        let is_it = |owner: &Owner| matches!(owner, Owner::Future(promise) if promise.is_for(state));
        if self.owners[state.number().slot() as usize].as_ref().is_some_and(is_it) {
            channel.cancel(state.number());
        } else if let Some(at) = self.futures.iter().position(|order| is_it(&order.owner)) {
            self.futures.remove(at);
            self.waiting -= 1;
        }
    }

    /// Takes what futures ask for; how much.
    #[inline]
    fn take_futures(&mut self, channel: &mut Channel, now: Nanos) -> usize {
        let mut fetched = std::mem::take(&mut self.fetched);
        self.inbox.take(&mut fetched);
        let count = fetched.len();
        for entry in fetched.drain(..) {
            match entry {
                Entry::Start(promise, request) => {
                    let Ask::Start(asked) = packet::ask(&request) else { panic!("a future starts a call") };
                    let deadline = asked.timeout.map_or(Nanos::MAX, |timeout| now.plus(timeout.into()));
                    self.begin(channel, now, Order { owner: Owner::Future(promise), request, deadline });
                }
                Entry::Cancel(state) => self.cancel_future(channel, &state),
            }
        }
        self.fetched = fetched;
        count
    }

    /// A member is gone: nobody waits for its calls any more.
    #[cold]
    fn leave(&mut self, channel: &mut Channel, port: PortId) {
        if self.desk(port).is_none() {
            return;
        }
        let desk = self.desks[port.index()].take().expect("looked at just now");
        self.waiting -= desk.waiting.len();
        self.stuck -= desk.outcomes.len();
        for call in desk.calls.iter().flatten() {
            // Outcomes of these find nobody.
            if matches!(&self.owners[call.slot() as usize], Some(Owner::Member(own, _)) if *own == port) {
                channel.cancel(*call);
            }
        }
    }

    /// Hands out what the dispatcher itself has to tell; how much.
    #[inline]
    fn hand_out(&mut self, ports: &mut Ports) -> usize {
        let count = self.ended.len();
        while let Some((owner, outcome)) = self.ended.pop() {
            self.hand(ports, owner, outcome);
        }
        count
    }

    /// Hands an outcome to whom it belongs.
    #[inline]
    fn hand(&mut self, ports: &mut Ports, owner: Owner, outcome: Packet) {
        match owner {
            Owner::Future(promise) => promise.keep(outcome),
            Owner::Member(port, _) => {
                let Some(desk) = self.desk(port) else { return };
                if !desk.outcomes.is_empty() {
                    desk.outcomes.push_back(outcome);
                    self.stuck += 1;
                } else if let Err(SendError::Full(outcome)) = ports.try_send(port, outcome) {
                    desk.outcomes.push_back(outcome);
                    self.stuck += 1;
                }
            }
        }
    }

    /// Tries again what found no room in a port.
    #[cold]
    fn hand_out_late(&mut self, ports: &mut Ports) {
        for desk in self.desks.iter_mut().flatten() {
            while let Some(outcome) = desk.outcomes.pop_front() {
                self.stuck -= 1;
                if let Err(SendError::Full(outcome)) = ports.try_send(desk.port, outcome) {
                    desk.outcomes.push_front(outcome);
                    self.stuck += 1;
                    break;
                }
            }
        }
    }

    /// Plants a bug: the owner that an outcome is handed to.
    #[cfg(test)]
    fn misroute(&mut self, ports: &mut Ports, owner: Owner, outcome: &Packet) -> Owner {
        use super::Planted;
        match (self.planted, owner) {
            (Some(Planted::Twice), Owner::Member(port, tag)) => {
                let again = Packet::new(tag, &[outcome.bytes()]);
                self.hand(ports, Owner::Member(port, tag), again);
                Owner::Member(port, tag)
            }
            (Some(Planted::WrongMember), Owner::Member(port, tag)) => {
                let other = self.desks.iter().flatten().map(|desk| desk.port).find(|&other| other != port);
                Owner::Member(other.unwrap_or(port), tag)
            }
            (_, owner) => owner,
        }
    }
}

impl Drop for Book {
    /// However the dispatcher ends, a panic included: no future waits for ever.
    fn drop(&mut self) {
        drop(self.inbox.close());
    }
}

fn cancelled() -> Status {
    Status::new(Code::Cancelled, "the call was cancelled before it was sent")
}

fn refused(owner: Owner, status: &Status) -> (Owner, Packet) {
    let outcome = packet::failed(owner.tag(), status);
    (owner, outcome)
}
