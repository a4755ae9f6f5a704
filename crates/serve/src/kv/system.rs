//! What edges run on: the machine that runs this program, or the simulator in its place ([`super::by_hand`]).
//!
//! Why a parameter of an edge, as a core is one of the engine: the same edge then runs on sockets and threads, and in virtual time, one step after the other,
//! as a seed says. On the machine each call is the clock's, the sleeper's or the socket's own, and no mistake is left in the program.

use super::edge::planted::Planted;
use crate::memcached::socket::Socket;
use base::{Clock, Nanos};
use engine::{Core, CycleCore};
use ring::wait::{Outcome, Sleeper, WaitPolicy};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// See the head of the file.
pub(crate) trait System: 'static {
    /// What tells its engine the time.
    type Core: Core;

    /// Now, by the clock of the engine's core.
    fn now(&self) -> Nanos;

    /// The stream of a client that was accepted.
    fn socket(&self, accepted: OwnedFd) -> Socket;

    /// Whether the edge may try to run the engine: nobody is known to have it.
    fn may_pass(&self) -> bool;

    /// Lets others go on, who have the engine; it is the `passes`th time in a row.
    fn pause(&self, passes: u32);

    /// Waits until `condition` holds, as [`Sleeper::wait_until`] does.
    fn wait(
        &self,
        sleeper: &mut Sleeper,
        how: (WaitPolicy, Option<Duration>),
        condition: impl FnMut() -> bool,
    ) -> Outcome;

    /// Whether an edge makes this mistake.
    fn has(&self, planted: Planted) -> bool;
}

/// The machine that runs this program.
pub(crate) struct Machine(Clock);

impl Default for Machine {
    fn default() -> Machine {
        Machine(Clock::shared())
    }
}

impl System for Machine {
    type Core = CycleCore;

    #[inline(always)]
    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn socket(&self, accepted: OwnedFd) -> Socket {
        Socket::plain(accepted)
    }

    #[inline(always)]
    fn may_pass(&self) -> bool {
        true
    }

    #[inline(always)]
    fn pause(&self, passes: u32) {
        // Who has the engine may have lost its processor: let it have ours.
        match passes {
            65.. => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }

    #[inline(always)]
    fn wait(
        &self,
        sleeper: &mut Sleeper,
        (policy, timeout): (WaitPolicy, Option<Duration>),
        condition: impl FnMut() -> bool,
    ) -> Outcome {
        sleeper.wait_until(policy, timeout, condition)
    }

    #[inline(always)]
    fn has(&self, _planted: Planted) -> bool {
        false
    }
}
