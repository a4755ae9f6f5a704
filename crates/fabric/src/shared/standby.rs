//! The standby: the thread that drives when no member does, for futures, deadlines and the peer, and sleeps otherwise.
//!
//! ```text
//!           nothing to do                      a link, a deadline, a call
//!   drive ───────────────▶ lead: sleep on the links ──────────────┐
//!     ▲ │ somebody else drives                                    │
//!     │ └─────▶ watch: look now and then ◀────────────────────────┘ (and drive once)
//!     └─────────  │  nobody drives any more        a member leads: rest until that ends
//! ```
//! Invariant: it sleeps without a limit only while it leads itself, or a member does. See [`Hub`].
//!
//! Cost: while members drive, a timer every [`LAZY`] or [`CLOSE`]; when nothing happens, nothing.

use super::desk::FUTURE;
use super::dispatcher::Mine;
use super::hub::Hub;
use super::letters::Letters;
use super::mailbox::Told;
use crate::channel::sleep;
use base::units::Nanos;
use ring::wait::{Sleeper, WaitPolicy};
use rustix::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether somebody drives, while nobody depends on that.
const LAZY: Duration = Duration::from_millis(1);
/// While somebody does.
const CLOSE: Duration = Duration::from_micros(100);

pub(super) struct Standby {
    pub(super) hub: Arc<Hub>,
    pub(super) sleeper: Sleeper,
    pub(super) policy: WaitPolicy,
    pub(super) told: Told,
}

/// What driving came to.
enum Driven {
    /// There is nothing to do.
    Idle,
    /// Somebody else drives.
    Others,
}

impl Standby {
    /// Runs until the last handle is gone.
    pub(super) fn run(mut self) {
        while !self.hub.is_stopped() {
            match self.drive() {
                Driven::Idle => self.lead(),
                Driven::Others => self.watch(),
            }
        }
        self.hub.close();
    }

    /// Drives until there is nothing to do, or somebody else does.
    fn drive(&mut self) -> Driven {
        let Standby { hub, policy, told, .. } = self;
        // Nothing is ever its own.
        let mut none = Letters::default();
        // Members look for themselves while they are awake; tasks cannot.
        let awake = if hub.tray.open() > 0 { policy.awake() } else { Nanos::ZERO };
        let (mut idle, mut polls, mut busy) = (0u32, None, hub.clock.now());
        while !hub.is_stopped() {
            let turn = hub.take_turn(told, |dispatcher| {
                let before = dispatcher.polls;
                if !hub.baton.is_led() {
                    dispatcher.disarm();
                }
                (before, dispatcher.turn(&mut Mine { key: FUTURE, outcomes: &mut none }))
            });
            let Some((before, done)) = turn else { return Driven::Others };
            if polls.is_some_and(|polls| polls != before) {
                return Driven::Others;
            }
            polls = Some(before + 1);
            let now = hub.clock.now();
            if done > 0 {
                (idle, busy) = (0, now);
                continue;
            }
            if now.since(busy) >= awake && policy.block {
                break;
            }
            idle = idle.saturating_add(1);
            if idle > policy.spin {
                std::hint::spin_loop();
            }
        }
        Driven::Idle
    }

    /// Sleeps on the links, if nobody else does.
    fn lead(&mut self) {
        let Standby { hub, sleeper, told, .. } = self;
        sleeper.arm();
        let until = hub.take_turn(told, |dispatcher| {
            let over = dispatcher.channel.end().is_some();
            let leads = !hub.baton.is_led() && (over || dispatcher.arm(&hub.links));
            leads.then(|| {
                let until = dispatcher.deadline();
                hub.sleeps_until(until);
                hub.baton.lead();
                until
            })
        });
        match until.flatten() {
            Some(until) => {
                if !hub.baton.take_call() {
                    sleep([hub.links.as_fd(), bell(sleeper)], left(hub, until));
                }
                sleeper.disarm();
                hub.baton.end_lead();
                hub.sleeps_until(Nanos::ZERO);
            }
            None => {
                sleeper.disarm();
                self.watch();
            }
        }
    }

    /// Looks now and then, until it is called or nobody drives any more.
    fn watch(&mut self) {
        let Standby { hub, sleeper, told, .. } = self;
        let mut polls = hub.polls();
        loop {
            let span = if hub.is_needed() { CLOSE } else { LAZY };
            sleeper.wait_until(WaitPolicy::BLOCK, Some(span), || hub.baton.is_called());
            if hub.baton.take_call() {
                return;
            }
            if hub.polls() == polls && !(hub.baton.is_led() && rest(hub, sleeper, told)) {
                return;
            }
            polls = hub.polls();
        }
    }
}

/// Sleeps as long as a member leads; false if a turn is due before that ends.
fn rest(hub: &Hub, sleeper: &mut Sleeper, told: &mut Told) -> bool {
    let until = hub.take_turn(told, |dispatcher| {
        let until = dispatcher.deadline();
        hub.sleeps_until(until);
        until
    });
    let Some(until) = until else { return true };
    if hub.baton.rest() {
        sleeper.wait_until(WaitPolicy::BLOCK, left(hub, until), || hub.baton.is_called());
        hub.baton.rise();
    }
    hub.sleeps_until(Nanos::ZERO);
    hub.baton.take_call() && !hub.is_stopped()
}

fn bell(sleeper: &Sleeper) -> rustix::fd::BorrowedFd<'_> {
    sleeper.descriptor().expect("the sleeper was made with an eventfd")
}

/// How long it is until then; nothing for never.
fn left(hub: &Hub, until: Nanos) -> Option<Duration> {
    (until != Nanos::MAX).then(|| until.since(hub.clock.now()).into())
}
