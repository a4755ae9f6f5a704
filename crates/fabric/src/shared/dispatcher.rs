//! The dispatcher: requests of all members and futures into the channel, outcomes back to whoever asked. A value; whoever has the baton
//! ([`Hub`](super::hub::Hub)) drives it.
//!
//! Shape of a turn:
//! ```text
//! driver's letters, tray ── requests ──▶ channel;   no room: the member's desk, whence in turn
//! channel ── events ──▶ the driver's own buffer │ desks ──▶ mailboxes │ promises
//! ```
//! Invariants:
//! 1. An order (a request and its owner) is in one place: a desk's list, the futures' list, or the channel, whose `user` word of the call says whose
//!    it is. Its outcome is handed out where it leaves the last place.
//! 2. The channel gives one terminal event for each call, so each owner has one outcome. A desk knows which of its calls are open, and members
//!    check: a second one would name no call.
//! 3. While any order waits, new ones wait behind it, and desks have their turns one order each.
//! 4. No code of a user runs here: outcomes are handed out, and tasks woken, when the baton was put back.
//!
//! Cost: it moves bytes; messages are encoded and decoded by members.

use super::call::{Promise, State};
use super::desk::{Desk, FUTURE, Order, Owner, place, slot};
use super::letters::{self, Ask, Letters, Request};
use super::mailbox::Told;
use super::tray::{Entry, Tray};
use crate::channel::{CallId, CallOptions, Channel, Event, StartError};
use crate::port::Packet;
use crate::status::{Code, Status};
use base::clock::Clock;
use base::units::Nanos;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events that are taken in one go.
const BATCH: usize = 256;
/// How soon a full channel is tried again at the latest: room on a link is told by no descriptor.
const AGAIN: Nanos = Nanos::from_millis(1);

/// Where the driver takes outcomes that are its own.
pub(super) struct Mine<'a> {
    pub(super) key: u32,
    pub(super) outcomes: &'a mut Letters,
}

pub(super) struct Dispatcher {
    pub(super) channel: Channel,
    pub(super) book: Book,
    clock: Clock,
    /// The channel was armed and not disarmed since.
    armed: bool,
    /// How often the channel was polled.
    pub(super) polls: u64,
    /// Used again for each look into the tray.
    entries: Vec<Entry>,
    letters: Letters,
}

impl Dispatcher {
    pub(super) fn new(channel: Channel, tray: Arc<Tray>) -> Dispatcher {
        let book = Book {
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
        };
        let (entries, letters) = (Vec::new(), Letters::default());
        Dispatcher { channel, book, clock: Clock::shared(), armed: false, polls: 0, entries, letters }
    }

    /// Takes what members ask for.
    #[inline]
    pub(super) fn hear(&mut self, asked: &mut Letters) {
        while let Some(letter) = asked.pop() {
            self.book.hear(&mut self.channel, &self.clock, (letter.key, letter.tag), letter.bytes);
        }
    }

    /// Polls the channel, and lets orders that wait have the room that came; how much happened.
    #[inline]
    pub(super) fn turn(&mut self, mine: &mut Mine<'_>) -> usize {
        self.polls += 1;
        let Dispatcher { channel, book, .. } = self;
        let done = channel.poll(BATCH, |event| book.finish(&event, mine));
        if book.waiting == 0 { done } else { done + self.go_on() }
    }

    /// Ends orders whose time is over, and starts others as far as there is room; how many.
    #[cold]
    fn go_on(&mut self) -> usize {
        let now = self.clock.now();
        let done = self.book.expire(now) + self.book.start_waiting(&mut self.channel, now);
        if done > 0 {
            self.channel.flush();
        }
        done
    }

    /// Takes what was left in the tray, and publishes it: whoever left it may be gone or asleep.
    pub(super) fn take_tray(&mut self) {
        let (mut entries, mut asked) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.letters));
        self.book.tray.take(&mut entries, &mut asked);
        let mut left = Vec::new();
        for entry in entries.drain(..) {
            match entry {
                Entry::Join(desk) => self.book.join(*desk),
                Entry::Leave(key) => left.push(key),
                Entry::Start(promise, request) => {
                    self.book.begin(&mut self.channel, &self.clock, Owner::Future(promise), request);
                }
                Entry::Cancel(state) => self.book.cancel_future(&mut self.channel, &state),
            }
        }
        while let Some(letter) = asked.pop() {
            self.book.heard(&letter);
            self.book.hear(&mut self.channel, &self.clock, (letter.key, letter.tag), letter.bytes);
        }
        left.into_iter().for_each(|key| self.book.leave(&mut self.channel, key));
        (self.entries, self.letters) = (entries, asked);
        self.channel.flush();
    }

    /// Puts outcomes into mailboxes; who is to be woken.
    #[inline]
    pub(super) fn hand_out(&mut self, told: &mut Told) {
        let Book { desks, touched, tasks, .. } = &mut self.book;
        for at in touched.drain(..) {
            // Touched, and gone since: nobody waits for it.
            let Some(desk) = &mut desks[at] else { continue };
            if !desk.outcomes.is_empty() {
                desk.mailbox.put(&mut desk.outcomes);
                told.members.push(Arc::clone(&desk.mailbox));
            }
        }
        told.tasks.append(tasks);
    }

    /// Whether outcomes wait for [`Dispatcher::hand_out`].
    #[inline]
    pub(super) fn has_to_tell(&self) -> bool {
        !self.book.touched.is_empty() || !self.book.tasks.is_empty()
    }

    /// Before its caller sleeps on `links`: false if there is something to do.
    pub(super) fn arm(&mut self, links: &OwnedFd) -> bool {
        self.disarm();
        self.channel.flush();
        if !self.channel.arm() {
            return false;
        }
        self.armed = true;
        let mut watched = true;
        for link in self.channel.descriptors() {
            let added = epoll::add(links, link, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            // Known from the last time. A link that is gone has left by itself.
            watched &= matches!(added, Ok(()) | Err(Errno::EXIST));
        }
        watched
    }

    /// After somebody slept on the links.
    pub(super) fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.channel.disarm();
        }
    }

    /// By when a turn is due though nothing happens.
    pub(super) fn deadline(&self) -> Nanos {
        let again = if self.book.waiting > 0 { self.clock.now().plus(AGAIN) } else { Nanos::MAX };
        self.channel.next_deadline().min(self.book.earliest()).min(again)
    }

    /// The end: futures whose call is open are told, and who they are.
    pub(super) fn stop(&mut self, told: &mut Told) {
        let book = &mut self.book;
        for entry in book.tray.close() {
            if let Entry::Start(promise, _) = entry {
                told.tasks.extend(promise.keep(letters::failed(&super::call::stopped())));
            }
        }
        for order in book.futures.drain(..) {
            let Owner::Future(promise) = order.owner else { continue };
            told.tasks.extend(promise.keep(letters::failed(&super::call::stopped())));
        }
        for (promise, _) in book.started.iter_mut().filter_map(Option::take) {
            let cancelled = Status::new(Code::Cancelled, "the shared channel was stopped");
            told.tasks.extend(promise.keep(letters::failed(&cancelled)));
        }
        self.hand_out(told);
        told.members.extend(self.book.desks.iter().flatten().map(|desk| Arc::clone(&desk.mailbox)));
    }
}

/// Who waits for what.
pub(super) struct Book {
    pub(super) tray: Arc<Tray>,
    /// Futures' calls in the channel, and places that are free.
    started: Vec<Option<(Promise, CallId)>>,
    free: Vec<u32>,
    /// By the place of the member's key.
    desks: Vec<Option<Desk>>,
    /// Orders of futures that wait for room in the channel.
    futures: VecDeque<Order>,
    /// Orders that wait, in all lists.
    waiting: usize,
    /// While orders wait: none has an earlier deadline.
    earliest: Nanos,
    /// The list whose turn it is to start a waiting order.
    first: usize,
    /// Places of desks that have outcomes.
    touched: Vec<usize>,
    /// Tasks to wake.
    tasks: Vec<std::task::Waker>,
    #[cfg(test)]
    pub(super) planted: Option<super::Planted>,
}

impl Book {
    fn earliest(&self) -> Nanos {
        if self.waiting > 0 { self.earliest } else { Nanos::MAX }
    }

    /// The channel tells how a call ended.
    #[inline]
    fn finish(&mut self, event: &Event<'_>, mine: &mut Mine<'_>) {
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
    fn heard(&mut self, letter: &letters::Letter<'_>) {
        if let Some(desk) = desk(&mut self.desks, letter.key) {
            desk.started(letter.size());
        }
    }

    /// A member asks.
    #[inline]
    fn hear(&mut self, channel: &mut Channel, clock: &Clock, (key, tag): (u32, u32), bytes: &[u8]) {
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

    fn join(&mut self, desk: Desk) {
        let at = place(desk.key);
        if self.desks.len() <= at {
            self.desks.resize_with(at + 1, || None);
        }
        assert!(self.desks[at].is_none(), "a desk is cleared before its place is given again");
        self.desks[at] = Some(desk);
    }

    /// Starts a call, or lets it wait behind others.
    fn begin(&mut self, channel: &mut Channel, clock: &Clock, owner: Owner, request: Packet) {
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
    fn cancel_future(&mut self, channel: &mut Channel, state: &Arc<State>) {
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
    fn leave(&mut self, channel: &mut Channel, key: u32) {
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
