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

use super::book::Book;
use super::desk::Owner;
use super::letters::{self, Letters};
use super::mailbox::Told;
use super::tray::{Entry, Tray};
use crate::channel::Channel;
use crate::status::{Code, Status};
use base::clock::Clock;
use base::units::Nanos;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
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
        let book = Book::new(tray);
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
