//! Calm connections: sockets that are silent are watched together instead of being read one by one.
//!
//! Why: to read a socket is a system call also when nothing is there, and a turn that reads three silent ones takes longer than a
//! whole call over shared memory. To ask one epoll set for all of them takes one call, and need not be done in every turn.
//!
//! Shape:
//! ```text
//!         silent for CALM_AFTER, while the server works for others
//!  busy ────────────────────────────────────────────────────────────▶ calm
//!       ◀────────────────────────────────────────────────────────────
//!         readable · news from a shared socket · a time has come · something to send · a switch
//! ```
//! A busy connection is read in every turn. A calm one's link is armed, as it is for sleep, and its descriptor is in the set. The
//! listeners' descriptors are there too, always, and those of links that have not said Hello ([`greet`](super::greet)).
//! A *look* asks the set, and asks calm connections what their descriptors do not
//! show: their times, and [`Link::has_news`](crate::link::Link::has_news). Rings are always busy, since looking at one costs nothing.
//!
//! Invariants:
//! 1. Nothing that came over a socket waits longer than [`LOOK_EVERY`] and one turn before its connection is read: a server that works
//!    looks as often as that, one that has found no work for as long looks in every turn.
//! 2. The link of a calm connection is armed and left alone: whatever is sent over it, and whatever replaces it, takes the
//!    connection up, before the turn ends.
//! 3. A connection is calm only while others are worked for: the only client of a server is read in every turn.
//! 4. Calm connections stay so while the server sleeps: it sleeps on the set, and looks as soon as it is awake.
//! 5. What is in the set is taken out before its descriptor is closed.
//!
//! Sockets that many read: the listener of UDP reads its socket for all its sessions, and it is in the set; so a session of it needs no
//! place there, and is calm only as long as the listener is there.
//!
//! Errors: a descriptor that the system does not take into the set belongs to a connection that stays busy.
//!
//! Cost: a look is one system call and a test for each connection. Becoming calm and being taken up are one call each, so a
//! connection makes at most two in [`CALM_AFTER`].
//!
//! Tests: `tests/calm.rs` here, with a property that is invariant 1; `tests/idle.rs` of the crate, with real sockets.

use super::connection::{Connection, Phase};
use super::{Core, Server, find};
use crate::link::{Listener, SharedSocket};
use base::units::Nanos;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::mem::MaybeUninit;

/// How often a server with work looks. A call over a socket takes some 20 µs and more whatever the server does, so this at most
/// doubles the first one after a silence; and a look, 0.3 µs, is a hundredth of it.
pub(super) const LOOK_EVERY: Nanos = Nanos::from_micros(30);
/// A silence after which a connection is calm: several times what a client that makes one call after the other is silent.
pub(super) const CALM_AFTER: Nanos = Nanos::from_micros(200);
/// Descriptors that one look is told of. The kernel begins with others the next time.
const MOST: usize = 64;
/// In an event's data: a listener's place follows, and not a connection's number.
const LISTENER: u64 = 1 << 63;
/// In an event's data: the number of a link without a Hello follows.
const GREETING: u64 = 1 << 62;

type Room = [MaybeUninit<epoll::Event>; MOST];

/// The set, and when it is asked.
pub(super) struct Calm {
    set: OwnedFd,
    /// Descriptors in the set.
    watched: usize,
    /// Calm connections.
    connections: usize,
    /// Sockets that listeners in the set read for their links.
    shared: Vec<SharedSocket>,
    /// The next look of a server that works.
    look_at: Nanos,
    /// When the last turn that found something was, and whether it was the last of all.
    worked_at: Nanos,
    works: bool,
}

impl Calm {
    pub(super) fn new() -> io::Result<Calm> {
        Ok(Calm {
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            watched: 0,
            connections: 0,
            shared: Vec::new(),
            look_at: Nanos::ZERO,
            worked_at: Nanos::ZERO,
            works: false,
        })
    }

    /// Whether the server has had nothing to do for a while. However long a turn takes, one that found something was no pause.
    #[inline]
    pub(super) fn is_idle(&self, now: Nanos) -> bool {
        !self.works && now >= self.worked_at.plus(LOOK_EVERY)
    }

    /// Whether a look is due (invariant 1). Without calm connections an idle server is not in a hurry either: it reads them all.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.look_at || self.connections > 0 && self.is_idle(now)
    }

    /// A turn found something to do, or nothing.
    #[inline]
    pub(super) fn note(&mut self, done: usize, now: Nanos) {
        self.works = done > 0;
        if self.works {
            self.worked_at = now;
        }
    }

    /// The next turn looks.
    pub(super) fn look_soon(&mut self) {
        self.look_at = Nanos::ZERO;
    }

    /// Readable when something in it is.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Watches the listener at a place.
    pub(super) fn add_listener(&mut self, place: usize, listener: &dyn Listener) -> io::Result<()> {
        self.add(listener.descriptor(), LISTENER | place as u64)?;
        self.shared.extend(listener.shared_socket());
        Ok(())
    }

    /// Watches a link without a Hello.
    pub(super) fn add_greeting(&mut self, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        self.add(descriptor, GREETING | number)
    }

    /// No listener is watched any more; these were.
    pub(super) fn remove_listeners(&mut self, listeners: &[Box<dyn Listener>]) {
        listeners.iter().for_each(|listener| self.remove(listener.descriptor()));
        self.shared.clear();
    }

    fn add(&mut self, descriptor: BorrowedFd<'_>, data: u64) -> io::Result<()> {
        epoll::add(&self.set, descriptor, epoll::EventData::new_u64(data), epoll::EventFlags::IN)?;
        self.watched += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, descriptor: BorrowedFd<'_>) {
        epoll::delete(&self.set, descriptor).expect("what is taken out of the set is in it");
        self.watched -= 1;
    }

    /// Asks the set what is readable.
    fn ask<'room>(&mut self, now: Nanos, room: &'room mut Room) -> &'room [epoll::Event] {
        self.look_at = now.plus(LOOK_EVERY);
        if self.watched == 0 {
            return &[];
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Interrupted: the next look asks again.
        epoll::wait(&self.set, &mut room[..], Some(&at_once)).map_or(&[], |(events, _)| events)
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.connections, self.watched]
    }
}

impl Server {
    /// Takes up the calm connections that have something to do, accepts clients, and lets connections become calm.
    #[cold]
    pub(super) fn look(&mut self, now: Nanos) {
        let mut room: Room = [const { MaybeUninit::uninit() }; MOST];
        for event in self.calm.ask(now, &mut room) {
            let data = event.data.u64();
            if data & LISTENER != 0 {
                self.accept_clients((data & !LISTENER) as usize, now);
            } else if data & GREETING != 0 {
                self.call_greeting(data & !GREETING);
            } else if let Some(connection) = find(&mut self.connections, data) {
                connection.take_up(&mut self.calm, now);
            }
        }
        for place in 0..self.listeners.len() {
            if self.listeners[place].next_deadline() <= now {
                self.accept_clients(place, now);
            }
        }
        // After the listeners, who may have read something for a calm connection.
        let works = !self.calm.is_idle(now);
        for connection in &mut self.connections {
            if connection.is_calm() {
                if connection.is_called(&self.core, now) {
                    connection.take_up(&mut self.calm, now);
                }
            } else if works && connection.may_calm(&self.core, now) {
                connection.calm_down(&mut self.calm);
            }
        }
    }
}

impl Connection {
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.calm_until.is_some()
    }

    /// Whether something calls a calm connection that its descriptor does not show.
    fn is_called(&self, core: &Core, now: Nanos) -> bool {
        let time_has_come = self.calm_until.is_some_and(|until| until <= now) || self.limit(core).0 <= now;
        time_has_come || self.links.has_news()
    }

    /// Whether this turn did something to a calm connection.
    #[inline]
    pub(super) fn is_stirred(&self) -> bool {
        self.dirty || self.is_blocked() || self.over.is_some()
    }

    fn may_calm(&self, core: &Core, now: Nanos) -> bool {
        let silent = now >= self.heard.max(self.stirred).plus(CALM_AFTER);
        let has_work = self.is_stirred() || !self.kept.frames.is_empty() || self.must_wait(core);
        let at_ease = self.phase == Phase::Open && !self.links.is_switching() && !has_work;
        silent && at_ease && !self.transport().is_ring()
    }

    /// Becomes calm, unless its link has something after all or cannot be watched.
    fn calm_down(&mut self, calm: &mut Calm) {
        let shared = self.links.shared_socket();
        if shared.is_some_and(|socket| !calm.shared.contains(&socket)) || !self.links.arm() {
            return;
        }
        let descriptor = self.links.descriptors().next().expect("a connection has a link");
        if shared.is_none() && calm.add(descriptor, self.number).is_err() {
            return self.links.disarm();
        }
        calm.connections += 1;
        // It is nobody's to change while the link is left alone, but of what `has_news` tells.
        self.calm_until = Some(self.links.next_deadline());
    }

    /// Is busy from now on.
    #[cold]
    pub(super) fn take_up(&mut self, calm: &mut Calm, now: Nanos) {
        if self.calm_until.take().is_none() {
            return;
        }
        if self.links.shared_socket().is_none() {
            calm.remove(self.links.descriptors().next().expect("a connection has a link"));
        }
        calm.connections -= 1;
        self.links.disarm();
        self.stirred = now;
    }
}
