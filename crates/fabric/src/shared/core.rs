//! The fabric core: the thread that drives a dispatcher, and sleeps when neither the channel nor any member has anything for it.
//!
//! Invariant: it sleeps only after ports and channel are armed and the inbox was looked at once more. Their descriptors are in one poll.

use super::dispatcher::Dispatcher;
use crate::channel::sleep;
use base::clock::Clock;
use base::units::Nanos;
use ring::wait::WaitPolicy;

/// How soon a full channel is tried again at the latest: room on a link is told by no descriptor.
const AGAIN: Nanos = Nanos::from_millis(1);

/// Runs until the last handle is gone.
pub(super) fn run(mut dispatcher: Dispatcher, policy: WaitPolicy) {
    let clock = Clock::shared();
    let awake = policy.spin.max(1).saturating_add(policy.pause);
    let mut idle = 0u32;
    while !dispatcher.book.inbox.is_stopped() {
        if dispatcher.turn(clock.now()) > 0 {
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        if idle >= awake && policy.block {
            dispatcher.sleep(&clock);
            // Whatever woke it is found by one turn, or nothing is there.
            idle = awake - 1;
        } else if idle >= policy.spin {
            std::hint::spin_loop();
        }
    }
    dispatcher.stop();
}

impl Dispatcher {
    fn sleep(&mut self, clock: &Clock) {
        let over = self.channel.end().is_some();
        // A channel that is over has no descriptors, and tells nothing more.
        if self.ports.arm() {
            if (over || self.channel.arm()) && !self.has_news() {
                let now = clock.now();
                let until = self.deadline(now);
                let timeout = (until != Nanos::MAX).then(|| until.since(now).into());
                sleep(self.channel.descriptors().chain(self.ports.descriptor()), timeout);
            }
            self.channel.disarm();
            self.ports.disarm();
        }
    }

    fn has_news(&self) -> bool {
        self.book.inbox.has_news() || self.book.inbox.is_stopped()
    }

    /// Until when it may sleep.
    fn deadline(&self, now: Nanos) -> Nanos {
        let again = if self.book.waits_for_room() { now.plus(AGAIN) } else { Nanos::MAX };
        self.channel.next_deadline().min(self.book.next_deadline()).min(again)
    }
}
