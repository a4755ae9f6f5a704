//! The loop of a core's thread: pass after pass while there is work, else awake for a while, then housekeeping, then asleep.
//!
//! ```text
//!  edge ── doorbell, OnCore::announce ──▶ ┌────────┐ scan, pass, flush ── wake ──▶ those of the services that answered
//!                                         │ engine │
//!                                         └────────┘ nothing to do: spin, pause, housekeeping, sleep until a task is due
//! ```
//! Both sides wait by [`ring::wait`]: who publishes (a doorbell, a reply, room for replies) wakes the other side afterwards, who sleeps marks itself and
//! looks once more before it does, so no wake-up is lost. A wake-up costs a system call only when the other side sleeps.
//!
//! How long it stays awake: as long as that service wants which wants it longest, of those that need the thread now. Where none does it sleeps, and leaves
//! the lock alone.

use super::engine_core::{EngineCore, Member};
use base::{Clock, Nanos};
use engine::{Core, Progress};
use ring::wait::{Outcome, Sleeper, WaitPolicy};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest sleep.
const NAP: Nanos = Nanos::from_millis(250);
/// A task that is due sooner than this is not slept for: a sleep takes about as long.
const AWAKE: Nanos = Nanos::from_micros(100);
/// Housekeeping steps of a service per idle moment.
pub(super) const IDLE_STEPS: usize = 256;

/// The services of a core, as its thread saw them last.
#[derive(Default)]
pub struct Members {
    all: Vec<Arc<Member>>,
    changes: u64,
}

/// Drives the engine of `core` until it is told to stop.
pub(super) fn run<C: Core>(core: &EngineCore<C>, mut sleeper: Sleeper) {
    let mut members = Members::default();
    loop {
        let rooms = core.rooms.load(Ordering::Acquire);
        let progress = members.pass(core);
        if progress.answered > 0 {
            continue;
        }
        if core.stop.load(Ordering::Acquire) {
            return;
        }
        let rooms = (progress.blocked > 0).then_some(rooms);
        let [awake, then] = members.policies();
        if members.wait(core, &mut sleeper, (awake, Nanos::ZERO), rooms) == Outcome::Ready {
            continue;
        }
        if !(members.need() && core.after_guests().engine.idle(IDLE_STEPS)) {
            members.wait(core, &mut sleeper, (then, NAP), rooms);
        }
    }
}

impl Members {
    /// A pass, if any needs the thread; whoever waits for what it answered is woken.
    pub(super) fn pass<C: Core>(&mut self, core: &EngineCore<C>) -> Progress {
        core.beat.turn();
        self.look(core);
        let pass = || core.after_guests().engine.pass();
        let progress = if self.need() { fabric::server::gather(pass) } else { Progress::default() };
        if progress.answered > 0 {
            self.wake(progress.services);
        }
        progress
    }

    /// Sees who came and who went.
    fn look<C: Core>(&mut self, core: &EngineCore<C>) {
        let changes = core.changes.load(Ordering::Acquire);
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.all.clone_from(&core.after_guests().members);
        }
    }

    /// Whether any needs the thread.
    pub(super) fn need(&self) -> bool {
        self.all.iter().any(|member| member.is_led())
    }

    /// Wakes who waits for replies of these services.
    fn wake(&self, services: u16) {
        let answered = self.all.iter().filter(|member| member.bit & services != 0);
        answered.flat_map(|member| &member.waiting).for_each(|waker| _ = waker.wake());
    }

    /// How it stays awake, and how it sleeps when that brought nothing.
    fn policies(&self) -> [WaitPolicy; 2] {
        let led = self.all.iter().filter(|member| member.is_led());
        let all = led.map(|member| (member.policies)());
        all.reduce(|[a, b], [c, d]| [a.longest(c), b.longest(d)]).unwrap_or([WaitPolicy::BLOCK; 2])
    }

    /// Waits for `time` at most: for work, for the moment at which a task is due, for room since `rooms` was read if a port is blocked, for a service
    /// that comes or goes, or for the end.
    fn wait<C: Core>(
        &self,
        core: &EngineCore<C>,
        sleeper: &mut Sleeper,
        (mut policy, mut time): (WaitPolicy, Nanos),
        rooms: Option<u64>,
    ) -> Outcome {
        let clock = Clock::shared();
        let due = if self.need() { core.after_guests().engine.next_deadline() } else { Nanos::MAX };
        if due != Nanos::MAX {
            let left = due.since(clock.now());
            policy.block &= left > AWAKE;
            time = time.min(left);
        }
        sleeper.wait_until(policy, Some(Duration::from_nanos(time.0)), || {
            core.beat.turn();
            rooms.is_some_and(|rooms| core.rooms.load(Ordering::Acquire) != rooms)
                || core.stop.load(Ordering::Acquire)
                || core.changes.load(Ordering::Acquire) != self.changes
                || (self.need() && core.after_guests().engine.has_work())
                || (due != Nanos::MAX && clock.now() >= due)
        })
    }
}
