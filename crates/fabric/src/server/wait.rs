//! Waiting for something to do, and the loop for whoever has none.
//!
//! No wake-up is lost: everything is armed first, then looked at once more (a link's `arm` says whether it has something, the
//! queue of returns is asked again), and only then slept on. A connection that nothing is taken from is armed for room alone; a calm one
//! is armed already (see [`calm`](super::calm)).
//!
//! For a loop that also waits for other things: [`Server::arm`] before sleeping on [`Server::descriptors`] no longer than until
//! [`Server::next_deadline`], [`Server::disarm`] after. The descriptors are others after each poll.

use super::Server;
use super::greet::Greeting;
use crate::channel::Channel;
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
        self.wait_beside(policy, deadline, &mut [])
    }

    /// As [`Server::wait`], until something was done, or one of `channels` has something for its poll: for a service whose handlers call
    /// others. A loop polls the server and the channels; when none of them had anything to do it waits here for all of them. They
    /// are published before it sleeps.
    pub fn wait_beside(&mut self, policy: WaitPolicy, deadline: Nanos, channels: &mut [Channel]) -> Outcome {
        let outcome = self.wait_for_turn(policy, deadline, channels);
        self.publish_rest(Clock::shared().now());
        outcome
    }

    /// As [`Server::wait_beside`]; the next turn must come soon, since replies may wait for it.
    fn wait_for_turn(&mut self, policy: WaitPolicy, deadline: Nanos, channels: &mut [Channel]) -> Outcome {
        let clock = Clock::shared();
        let policy = self.policy(policy);
        let sleepy = clock.now().plus(policy.awake());
        let mut turns = 0u32;
        loop {
            let now = clock.now();
            if self.turn(now) > 0 || channels.iter_mut().any(Channel::is_ready) {
                return Outcome::Ready;
            }
            if now >= deadline {
                return Outcome::TimedOut;
            }
            turns = turns.saturating_add(1);
            if turns > policy.spin {
                std::hint::spin_loop();
            }
            if policy.block && clock.now() >= sleepy {
                self.sleep(now, deadline, channels);
            }
        }
    }

    /// Polls and waits until `stop` is set. The server can be used further then, to drain it for one.
    pub fn run(&mut self, policy: WaitPolicy, stop: &AtomicBool) {
        self.run_with(policy, stop, || {});
    }

    /// The same, and calls `each` before every turn, several times a second.
    pub fn run_with(&mut self, policy: WaitPolicy, stop: &AtomicBool, mut each: impl FnMut()) {
        let clock = Clock::shared();
        while !stop.load(Ordering::Relaxed) {
            each();
            self.wait_for_turn(policy, clock.now().plus(LOOK_AT_STOP), &mut []);
        }
        self.publish_rest(clock.now());
    }

    /// As [`Server::run_with`], and then answers what is under way: for the thread that has the server to its end.
    pub fn run_to_end(&mut self, policy: WaitPolicy, stop: &AtomicBool, mut each: impl FnMut()) {
        self.run_with(policy, stop, &mut each);
        let clock = Clock::shared();
        self.drain(clock.now());
        while !self.is_drained() {
            each();
            self.wait(policy, clock.now().plus(LOOK_AT_STOP));
        }
    }

    /// Sleeps until something may be there to do.
    fn sleep(&mut self, now: Nanos, deadline: Nanos, channels: &mut [Channel]) {
        self.publish_rest(now);
        channels.iter_mut().for_each(Channel::flush);
        let armed = self.arm();
        // All of them: one that is not armed would not wake us.
        if channels.iter_mut().fold(armed, |armed, channel| channel.arm() && armed) {
            let theirs = channels.iter().map(Channel::next_deadline).fold(Nanos::MAX, Nanos::min);
            let until = deadline.min(self.next_deadline()).min(theirs);
            // Errors mean the same as a wake-up: look again.
            let _ = self.sleep_armed(until.since(now), until == Nanos::MAX, channels);
        }
        self.disarm();
        channels.iter_mut().for_each(Channel::disarm);
    }

    /// Before sleeping on the descriptors, after a [`Server::poll`]: whether there is nothing to do. Whatever it says,
    /// [`Server::disarm`] comes next.
    pub fn arm(&mut self) -> bool {
        let Server { core, connections, greetings, .. } = self;
        let connections_idle = connections.iter_mut().all(|connection| match connection.must_wait(core) {
            _ if connection.is_calm() => !connection.links.has_news(),
            true => connection.links.arm_for_room(),
            false => connection.kept.frames.is_empty() && connection.links.arm(),
        });
        let mut alone = greetings.iter_mut().filter(|greeting| !greeting.is_watched());
        if !connections_idle || !alone.all(|greeting| greeting.link().arm()) {
            return false;
        }
        if core.places.as_mut().is_some_and(|places| !places.arm()) {
            return false;
        }
        self.sleeper.arm();
        !core.returns.is_pending() && core.fresh.is_empty()
    }

    /// After sleeping.
    pub fn disarm(&mut self) {
        self.calm.look_soon();
        let busy = self.connections.iter_mut().filter(|connection| !connection.is_calm());
        busy.for_each(|connection| connection.links.disarm());
        let alone = self.greetings.iter_mut().filter(|greeting| !greeting.is_watched());
        alone.for_each(|greeting| greeting.link().disarm());
        if let Some(places) = &mut self.core.places {
            places.disarm();
        }
        self.sleeper.disarm();
    }

    /// Readable when an armed server has something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = self.sleeper.descriptor().expect("made with an eventfd");
        let mut workers = Vec::new();
        if let Some(places) = &self.core.places {
            places.descriptors(&mut workers);
        }
        // The set stands for calm connections, listeners, and sockets without a Hello.
        let busy = self.connections.iter().filter(|connection| !connection.is_calm());
        let links = busy.flat_map(|connection| connection.links.descriptors());
        let alone = self.greetings.iter().filter(|greeting| !greeting.is_watched());
        let greetings = alone.map(Greeting::descriptor);
        links.chain(greetings).chain(workers).chain([own, self.calm.descriptor()])
    }

    fn sleep_armed(&self, span: Nanos, forever: bool, channels: &[Channel]) -> io::Result<()> {
        let beside = channels.iter().flat_map(Channel::descriptors);
        let all = self.descriptors().chain(beside);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let span =
            Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 };
        poll(&mut fds, (!forever).then_some(&span))?;
        Ok(())
    }
}
