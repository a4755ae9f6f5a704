//! Waiting until a poll would find something: spin, pause, then sleep on the links' descriptors.
//!
//! For an epoll of one's own: put [`Channel::descriptors`] into it, [`Channel::arm`] before sleeping no longer than until
//! [`Channel::next_deadline`], [`Channel::disarm`] after. The descriptors change when the transport is switched.

use super::Channel;
use crate::connection::switch::Links;
use base::units::Nanos;
use ring::wait::{Outcome, WaitPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::Duration;

/// Looks between two looks at the clock, while pausing.
const LOOKS: u32 = 16;

impl Channel {
    /// Publishes what was started and waits until a poll would find something, for `timeout` at most (`None`: without end).
    ///
    /// Ready may be early: what came need not be an event.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        if !self.backlog.is_empty() {
            return Outcome::Ready;
        }
        self.wait_for_frames(policy, timeout)
    }

    /// As [`Channel::wait`], whatever waits in the backlog.
    pub(super) fn wait_for_frames(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        self.follow();
        let policy = if self.registers.is_some() { self.policy } else { policy };
        let mut now = self.time.now();
        self.core.publish(now);
        let until = timeout.map_or(Nanos::MAX, |timeout| now.plus(Nanos::from(timeout)));
        let sleepy = now.plus(policy.awake());
        for look in 0..policy.spin.max(1).saturating_add(policy.pause) {
            if look >= policy.spin {
                std::hint::spin_loop();
            }
            if look % LOOKS == LOOKS - 1 {
                now = self.time.now();
                self.core.publish(now);
                if now >= sleepy {
                    break;
                }
            }
            if self.look(now) || self.core.wheel.next() <= now {
                return Outcome::Ready;
            }
        }
        loop {
            now = self.time.now();
            self.core.publish(now);
            if self.look(now) || self.core.wheel.next() <= now {
                return Outcome::Ready;
            }
            if self.end().is_some() {
                return Outcome::PeerGone;
            }
            if now >= until {
                return Outcome::TimedOut;
            }
            if !policy.block {
                (0..LOOKS).for_each(|_| std::hint::spin_loop());
                continue;
            }
            if self.arm_links() {
                let left = until.min(self.core.next_deadline()).since(now);
                let left = if until == Nanos::MAX && left.0 > u64::MAX / 2 { None } else { Some(left) };
                sleep(self.descriptors(), left.map(Duration::from));
            }
            self.disarm();
        }
    }

    /// Before sleeping on the descriptors: whether there is nothing to do. Publish before ([`Channel::flush`]).
    pub fn arm(&mut self) -> bool {
        if !self.backlog.is_empty() {
            return false;
        }
        self.arm_links()
    }

    fn arm_links(&mut self) -> bool {
        if self.has_something() || self.end().is_some() {
            return false;
        }
        let opened = self.core.switching.opening().is_none_or(|opening| opening.arm());
        let armed = opened && self.core.links.as_mut().is_some_and(Links::arm);
        if !armed {
            self.disarm();
        }
        armed
    }

    /// After sleeping.
    pub fn disarm(&mut self) {
        if let Some(links) = &mut self.core.links {
            links.disarm();
        }
        if let Some(opening) = self.core.switching.opening() {
            opening.disarm();
        }
    }

    /// Readable when an armed channel has something to do: one, or up to three while the transport is switched.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let links = self.core.links.iter().flat_map(Links::descriptors);
        links.chain(self.core.switching.descriptor())
    }

    /// When [`Channel::poll`] is to be called though nothing arrives; [`Nanos::MAX`] for never.
    pub fn next_deadline(&self) -> Nanos {
        if self.has_something() || !self.backlog.is_empty() { Nanos::ZERO } else { self.core.next_deadline() }
    }
}

/// Sleeps until one of the descriptors is readable, for `timeout` at most.
pub(crate) fn sleep<'a>(descriptors: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) {
    let mut fds: Vec<PollFd<'a>> =
        descriptors.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = timeout.map(|span| Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    });
    // Every result means the same to the caller: look again.
    let _ = poll(&mut fds, timeout.as_ref());
}
