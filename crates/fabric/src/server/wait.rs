//! Waiting for something to do, and the loop for whoever has none.
//!
//! No wake-up is lost: everything is armed first, then looked at once more (a link's `arm` says whether it has something, the
//! queue of returns is asked again), and only then slept on. A connection that nothing is taken from is armed for room alone.

use super::Server;
use base::clock::Clock;
use base::units::Nanos;
use ring::wait::{Outcome, WaitPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long [`Server::run`] sleeps at most before it looks at its stop flag.
const LOOK_AT_STOP: Nanos = Nanos::from_millis(100);

impl Server {
    /// Polls until something was done, as the policy says, or until `deadline` on the process's [`Clock`].
    pub fn wait(&mut self, policy: WaitPolicy, deadline: Nanos) -> Outcome {
        let outcome = self.wait_for_turn(policy, deadline);
        self.publish_rest(Clock::shared().now());
        outcome
    }

    /// As [`Server::wait`]; the next turn must come soon, since replies may wait for it.
    fn wait_for_turn(&mut self, policy: WaitPolicy, deadline: Nanos) -> Outcome {
        let clock = Clock::shared();
        let policy = self.policy(policy);
        let awake = u64::from(policy.spin.max(1)) + u64::from(policy.pause);
        let mut looks = 0;
        loop {
            let now = clock.now();
            if self.turn(now) > 0 {
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
                self.sleep(now, deadline);
            }
        }
    }

    /// Polls and waits until `stop` is set. The server can be used further then, to drain it for one.
    pub fn run(&mut self, policy: WaitPolicy, stop: &AtomicBool) {
        let clock = Clock::shared();
        while !stop.load(Ordering::Relaxed) {
            self.wait_for_turn(policy, clock.now().plus(LOOK_AT_STOP));
        }
        self.publish_rest(clock.now());
    }

    /// Sleeps until something may be there to do.
    fn sleep(&mut self, now: Nanos, deadline: Nanos) {
        self.publish_rest(now);
        if self.arm() {
            let until = deadline.min(self.next_deadline());
            // Errors mean the same as a wake-up: look again.
            let _ = self.sleep_armed(until.since(now), until == Nanos::MAX, &[]);
        }
        self.disarm();
        self.accept_at = Nanos::ZERO;
    }

    /// Arms everything; false if there is something to do.
    pub(super) fn arm(&mut self) -> bool {
        let Server { core, connections, greetings, .. } = self;
        let connections_idle = connections.iter_mut().all(|connection| match connection.must_wait(core) {
            true => connection.links.arm_for_room(),
            false => connection.kept.frames.is_empty() && connection.links.arm(),
        });
        if !connections_idle || !greetings.iter_mut().all(|greeting| greeting.link().arm()) {
            return false;
        }
        if core.executor.as_mut().is_some_and(|executor| !executor.arm()) {
            return false;
        }
        self.sleeper.arm();
        !core.returns.is_pending() && core.fresh.is_empty()
    }

    pub(super) fn disarm(&mut self) {
        self.connections.iter_mut().for_each(|connection| connection.links.disarm());
        self.greetings.iter_mut().for_each(|greeting| greeting.link().disarm());
        if let Some(executor) = &mut self.core.executor {
            executor.disarm();
        }
        self.sleeper.disarm();
    }

    pub(super) fn sleep_armed(
        &mut self,
        span: Nanos,
        forever: bool,
        beside: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let own = self.sleeper.descriptor().expect("made with an eventfd");
        let mut workers = Vec::new();
        if let Some(executor) = &self.core.executor {
            executor.descriptors(&mut workers);
        }
        let links = self.connections.iter().flat_map(|connection| connection.links.descriptors());
        let greetings =
            self.greetings.iter_mut().map(|greeting| &*greeting.link()).map(|link| link.descriptor());
        let listeners = self.listeners.iter().map(|listener| listener.descriptor());
        let all =
            links.chain(greetings).chain(listeners).chain(workers).chain([own]).chain(beside.iter().copied());
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let span =
            Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 };
        poll(&mut fds, (!forever).then_some(&span))?;
        Ok(())
    }
}
