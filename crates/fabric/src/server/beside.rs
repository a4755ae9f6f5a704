//! A server and channels on one thread: for a service whose handlers call others.
//!
//! A loop polls the server and the channels; when none of them had anything to do it waits here for all of them. No wake-up is
//! lost, for the reason that none is in `wait`: everything is armed, then looked at once more, then slept on.

use super::Server;
use crate::channel::Channel;
use base::clock::Clock;
use base::units::Nanos;
use ring::wait::{Outcome, WaitPolicy};
use rustix::fd::BorrowedFd;

impl Server {
    /// As [`Server::wait`], until something was done, or one of `channels` has something for its poll. They are published first.
    pub fn wait_beside(&mut self, policy: WaitPolicy, deadline: Nanos, channels: &mut [Channel]) -> Outcome {
        let clock = Clock::shared();
        let policy = self.policy(policy);
        let awake = u64::from(policy.spin.max(1)) + u64::from(policy.pause);
        let mut looks = 0;
        loop {
            let now = clock.now();
            if self.poll(now) > 0 || channels.iter_mut().any(|channel| channel.is_ready()) {
                return Outcome::Ready;
            }
            if now >= deadline {
                return Outcome::TimedOut;
            }
            looks += 1;
            if looks > u64::from(policy.spin) {
                std::hint::spin_loop();
            }
            if looks >= awake && policy.block {
                self.sleep_beside(now, deadline, channels);
            }
        }
    }

    fn sleep_beside(&mut self, now: Nanos, deadline: Nanos, channels: &mut [Channel]) {
        channels.iter_mut().for_each(Channel::flush);
        let armed = self.arm();
        // All of them: one that is not armed would not wake us.
        if channels.iter_mut().fold(armed, |armed, channel| channel.arm() && armed) {
            let theirs = channels.iter().map(Channel::next_deadline).fold(Nanos::MAX, Nanos::min);
            let until = deadline.min(self.next_deadline()).min(theirs);
            let beside: Vec<BorrowedFd<'_>> = channels.iter().flat_map(Channel::descriptors).collect();
            // Errors mean the same as a wake-up: look again.
            let _ = self.sleep_armed(until.since(now), until == Nanos::MAX, &beside);
        }
        self.disarm();
        self.accept_at = Nanos::ZERO;
        channels.iter_mut().for_each(Channel::disarm);
    }
}
