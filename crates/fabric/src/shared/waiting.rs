//! How a member waits: it drives as long as nobody else does, spinning; then it sleeps, on the links if nobody else does, or on its own bell.
//!
//! Invariants:
//! 1. A member marks itself asleep, then looks once more: into its mailbox, and whether it could drive. Whoever puts something into its mailbox
//!    rings afterwards (`ring::wait`).
//! 2. One that slept on the links and goes while others depend on it calls the standby, which takes the lead.

use super::dispatcher::Mine;
use super::member::Member;
use crate::channel::sleep;
use base::units::Nanos;
use ring::wait::{Outcome, WaitPolicy};
use rustix::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// How a member is going to sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Night {
    /// Not: something came.
    Awake,
    /// On the links, for all.
    Leads,
    /// On its bell; others drive, lead or watch.
    Follows,
}

impl Member {
    /// Publishes what was started and waits until a poll would find something, or what was refused may be tried again.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        if !self.backlog.is_empty() {
            return Outcome::Ready;
        }
        self.wait_for_letters(policy, timeout)
    }

    /// As [`Member::wait`], whatever waits in the backlog.
    pub(super) fn wait_for_letters(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        let now = self.hub.clock.now();
        let until = timeout.map_or(Nanos::MAX, |timeout| now.plus(timeout.into()));
        let sleepy = now.plus(policy.awake());
        let looks = LOOKS.min(policy.spin.max(1).saturating_add(policy.pause));
        let mut look = 0u32;
        loop {
            look = look.saturating_add(self.spin(looks, look >= policy.spin));
            if let Some(outcome) = self.found() {
                return outcome;
            }
            if self.hub.clock.now() >= sleepy {
                break;
            }
        }
        let mut led = false;
        let outcome = loop {
            let left = (until != Nanos::MAX).then(|| until.since(self.hub.clock.now()));
            if left == Some(Nanos::ZERO) {
                break Outcome::TimedOut;
            }
            if policy.block {
                led |= self.sleep(left.map(Duration::from));
            } else {
                self.spin(LOOKS, true);
            }
            if let Some(outcome) = self.found() {
                break outcome;
            }
        };
        if led {
            self.hand_over();
        }
        outcome
    }

    /// Why a wait is over, if it is.
    #[inline]
    fn found(&mut self) -> Option<Outcome> {
        // Before the last look into the mailbox.
        let closed = self.hub.is_closed();
        if !self.arrived.is_empty() || self.mailbox.take(&mut self.arrived) {
            return Some(Outcome::Ready);
        }
        closed.then(|| if self.in_flight() > 0 { Outcome::Ready } else { Outcome::PeerGone })
    }

    /// Drives, for so many looks at most, until something came for this member or others must be told; or looks once whether it can. How many looks.
    #[inline]
    fn spin(&mut self, looks: u32, pausing: bool) -> u32 {
        let Member { hub, written, arrived, told, key, .. } = self;
        let driven = hub.take_turn(told, |dispatcher| {
            dispatcher.hear(written);
            let mut look = 0;
            while look < looks {
                look += 1;
                dispatcher.turn(&mut Mine { key: *key, outcomes: arrived });
                if !arrived.is_empty() || dispatcher.has_to_tell() || hub.baton.has_news() {
                    break;
                }
                std::hint::spin_loop();
            }
            // A turn that finds nothing has published; one that found what is others' may not have, and this thread may sleep next.
            if arrived.is_empty() {
                dispatcher.channel.flush();
            }
            look
        });
        driven.unwrap_or_else(|| {
            self.leave_written();
            if pausing {
                std::hint::spin_loop();
            }
            1
        })
    }

    /// Sleeps until something came, the time is over, or there may be something to do; whether it led.
    fn sleep(&mut self, left: Option<Duration>) -> bool {
        self.hub.asleep.fetch_add(1, Ordering::Relaxed);
        // The fence of the arming stands between this and the look whether somebody drives: see `hand_over`.
        self.sleeper.arm();
        let night = if self.found().is_some() { Night::Awake } else { self.settle_down() };
        let bell = self.sleeper.descriptor().expect("the sleeper was made with an eventfd");
        #[cfg(test)]
        {
            self.hub.leads.fetch_add(u32::from(night == Night::Leads), Ordering::Relaxed);
            self.hub.nights.fetch_add(u32::from(night != Night::Awake), Ordering::Release);
        }
        match night {
            Night::Awake => {}
            Night::Leads => sleep([self.hub.links.as_fd(), bell], left),
            Night::Follows => sleep([bell], left),
        }
        self.sleeper.disarm();
        self.hub.asleep.fetch_sub(1, Ordering::Relaxed);
        let led = night == Night::Leads;
        if led {
            self.wake_up();
        }
        led
    }

    /// Drives a last time before it sleeps, if nobody else does, and finds out how.
    fn settle_down(&mut self) -> Night {
        let Member { hub, written, arrived, told, key, .. } = self;
        let night = hub.take_turn(told, |dispatcher| {
            dispatcher.hear(written);
            let done = dispatcher.turn(&mut Mine { key: *key, outcomes: arrived });
            if done > 0 {
                dispatcher.channel.flush();
                return Night::Awake;
            }
            if dispatcher.channel.end().is_some() || hub.baton.is_led() {
                // Whoever leads sleeps until something arrives; what was heard just now must leave before.
                dispatcher.channel.flush();
                return Night::Follows;
            }
            if dispatcher.arm(&hub.links) {
                hub.baton.lead();
                return Night::Leads;
            }
            Night::Awake
        });
        night.unwrap_or_else(|| {
            self.leave_written();
            Night::Follows
        })
    }

    /// Slept on the links: leads no longer, and drives if nobody else does.
    fn wake_up(&mut self) {
        let Member { hub, arrived, told, key, .. } = self;
        #[cfg(test)]
        if hub.silent.load(Ordering::Relaxed) {
            return;
        }
        hub.baton.end_lead();
        hub.take_turn(told, |dispatcher| {
            if !hub.baton.is_led() {
                dispatcher.disarm();
            }
            dispatcher.turn(&mut Mine { key: *key, outcomes: arrived })
        });
    }

    /// It led, and goes. Others that sleep saw that somebody led, or their mark is seen here (a fence between the two steps on each side).
    fn hand_over(&self) {
        if self.hub.is_needed() && !self.hub.baton.is_led() {
            #[cfg(test)]
            if self.hub.silent.load(Ordering::Relaxed) {
                return;
            }
            self.hub.baton.call_standby();
        }
    }
}
