//! What members, futures and the standby share: the dispatcher behind a baton, and how a driver comes and goes.
//!
//! Shape: whoever wants something of the dispatcher calls [`Hub::take_turn`]. If that is refused somebody drives, and what is left in the tray
//! ([`Hub::settle`]) is taken by that one. On its way out a driver takes what was left meanwhile, hands outcomes out, puts the baton back, and
//! only then wakes whom it has to.
//!
//! Who watches the links while nobody drives: the member or the standby that leads (`ring::baton`): it sleeps on `links`, an epoll set with
//! the descriptors of the channel's links, armed. It does not have the baton, so others drive meanwhile; the link stays armed then.
//!
//! Invariants:
//! 1. The standby looks every now and then whether somebody drives (`polls` moves), or somebody leads and the standby is called when that ends, or
//!    the standby itself leads.
//! 2. While the standby sleeps without looking, `until` is when it will look; a driver that leaves behind an earlier deadline calls it.
//! 3. A panic while somebody drives (a broken invariant of ours: users' code does not run then) ends the shared channel for all, and all are told.
//!
//! Ordering: `closed` is set (Release) after the last outcome is in its mailbox, and seen (Acquire) before the last look there. `until` and `polls` are
//! written with the baton (`until`: given up without), and hints to others.

use super::dispatcher::Dispatcher;
use super::mailbox::Told;
use super::tray::Tray;
use base::clock::Clock;
use base::units::Nanos;
use ring::baton::{Baton, Held};
use ring::wait::Waker;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(super) struct Hub {
    /// Nothing when the end has come.
    pub(super) baton: Baton<Option<Dispatcher>>,
    pub(super) tray: Arc<Tray>,
    pub(super) links: OwnedFd,
    pub(super) clock: Clock,
    /// Members that sleep.
    pub(super) asleep: AtomicU32,
    until: AtomicU64,
    polls: AtomicU64,
    stopped: AtomicBool,
    closed: AtomicBool,
    /// A planted bug: who led goes without a word.
    #[cfg(test)]
    pub(super) silent: AtomicBool,
    /// Sleeps of members that began, and those on the links among them.
    #[cfg(test)]
    pub(super) nights: AtomicU32,
    #[cfg(test)]
    pub(super) leads: AtomicU32,
}

impl Hub {
    pub(super) fn new(dispatcher: Dispatcher, tray: Arc<Tray>, standby: Waker) -> io::Result<Hub> {
        Ok(Hub {
            baton: Baton::new(Some(dispatcher), standby),
            tray,
            links: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            clock: Clock::shared(),
            asleep: AtomicU32::new(0),
            until: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            #[cfg(test)]
            silent: AtomicBool::new(false),
            #[cfg(test)]
            nights: AtomicU32::new(0),
            #[cfg(test)]
            leads: AtomicU32::new(0),
        })
    }

    /// Drives, if nobody else does and the end has not come.
    #[inline]
    pub(super) fn take_turn<R>(&self, told: &mut Told, step: impl FnOnce(&mut Dispatcher) -> R) -> Option<R> {
        let mut held = self.baton.try_take()?;
        let broken = Broken(self);
        // First what was left: it may be the caller's own, from before.
        if held.take_news()
            && let Some(dispatcher) = held.as_mut()
        {
            dispatcher.take_tray();
        }
        let result = held.as_mut().map(step);
        let calls = self.leave(held, told);
        std::mem::forget(broken);
        told.tell();
        if calls {
            self.baton.call_standby();
        }
        result
    }

    /// Takes what was left, hands outcomes out, puts the baton back; whether the standby would sleep too long.
    #[inline]
    fn leave<'a>(&'a self, mut held: Held<'a, Option<Dispatcher>>, told: &mut Told) -> bool {
        let mut calls = false;
        loop {
            let news = held.take_news();
            if let Some(dispatcher) = held.as_mut() {
                if news {
                    dispatcher.take_tray();
                }
                if dispatcher.has_to_tell() {
                    dispatcher.hand_out(told);
                }
                let until = self.until.load(Ordering::Relaxed);
                calls |= until > 0 && dispatcher.deadline().0 < until;
                self.polls.store(dispatcher.polls, Ordering::Relaxed);
            }
            match self.baton.leave(held) {
                Some(again) => held = again,
                None => return calls,
            }
        }
    }

    /// After something was left in the tray: it is taken by whoever drives, or here.
    pub(super) fn settle(&self, told: &mut Told) {
        self.baton.post();
        self.take_turn(told, |_| ());
    }

    #[cfg(test)]
    pub(super) fn plant(&self, bug: Option<super::Planted>) {
        self.silent.store(bug == Some(super::Planted::Silent), Ordering::Relaxed);
        while self.take_turn(&mut Told::default(), |dispatcher| dispatcher.book.planted = bug).is_none() {
            std::thread::yield_now();
        }
    }

    /// How often the channel was polled, by anybody.
    pub(super) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether somebody depends on others to drive.
    pub(super) fn is_needed(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0 || self.tray.open() > 0
    }

    /// For the standby, with the baton: it sleeps until then. ZERO: it looks now and then.
    pub(super) fn sleeps_until(&self, until: Nanos) {
        self.until.store(until.0, Ordering::Relaxed);
    }

    /// Asks the standby to end all.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.baton.call_standby();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// The end, by the standby: whoever waits is told.
    pub(super) fn close(&self) {
        let mut told = Told::default();
        let mut held = loop {
            match self.baton.try_take() {
                Some(held) => break held,
                None => std::thread::yield_now(),
            }
        };
        if let Some(mut dispatcher) = held.take() {
            dispatcher.stop(&mut told);
        }
        self.closed.store(true, Ordering::Release);
        drop(held);
        told.tell();
    }

    /// Whether the end has come.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// Dropped by a panic while somebody drives.
struct Broken<'a>(&'a Hub);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
