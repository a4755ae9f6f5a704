//! Signs of life to the controllers, and what they answer: a configuration, and a lease.
//!
//! A lease counts from when the `Alive` was sent that it answers, and belongs to a configuration: with another one it has ended. Only reads
//! need one.
//!
//! Bounds: the last [`BEATS`] signs of life are remembered; a lease that answers an older one is over.

use super::Replica;
use super::down::Joining;
use crate::chain::{Config, Configuration, Image, Log, Message, NodeId, Out, Planted};
use crate::planted::Bugs;
use base::Nanos;
use std::collections::VecDeque;

/// Signs of life whose time is remembered.
const BEATS: usize = 16;

/// What was said to the controllers, and granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    beat: u64,
    sent: VecDeque<(u64, Nanos)>,
    next: Nanos,
    pub(super) grant: Grant,
}

/// What was granted in this configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    pub(super) until: Nanos,
    pub(super) settled: bool,
}

impl Lease {
    pub(super) fn new(now: Nanos) -> Lease {
        Lease { beat: 0, sent: VecDeque::new(), next: now, grant: Grant::default() }
    }

    /// The next sign of life is due now.
    pub(super) fn beat_now(&mut self, now: Nanos) {
        self.next = self.next.min(now);
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.next
    }

    /// Whether reads may be served.
    pub(super) fn runs(&self, now: Nanos, bugs: &impl Bugs<Planted>) -> bool {
        now < self.grant.until || bugs.has(Planted::ServeWithoutLease)
    }

    /// The lease that answers this sign of life ends then.
    fn end(&self, beat: u64, config: &Config) -> Nanos {
        let sent = self.sent.iter().find(|(sent, _)| *sent == beat);
        sent.map_or(Nanos::ZERO, |(_, at)| at.plus(config.lease))
    }
}

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Says that it lives, when it is time.
    pub(super) fn beat(&mut self, now: Nanos, out: &mut Out) {
        if now < self.lease.next {
            return;
        }
        self.lease.next = now.plus(self.config.heartbeat);
        self.lease.beat += 1;
        let beat = self.lease.beat;
        self.lease.sent.push_back((beat, now));
        if self.lease.sent.len() > BEATS {
            self.lease.sent.pop_front();
        }
        let joined = self.down.as_ref().filter(|down| down.joining == Joining::Joined);
        let (last, last_epoch) = self.log.last();
        let alive = Message::Alive {
            epoch: self.configuration.epoch,
            incarnation: self.incarnation,
            beat,
            last,
            last_epoch,
            committed: self.committed,
            durability: self.log.class(),
            born: self.born,
            whole: self.is_whole(),
            joined: joined.map(|down| down.replica),
            missing: self.gap(),
            stalled_ms: u32::try_from(self.stalled(now).0 / 1_000_000).unwrap_or(u32::MAX),
        };
        out.extend(self.controllers.iter().map(|number| (NodeId::Controller(*number), alive.clone())));
    }

    pub(super) fn hear_lead(
        &mut self,
        now: Nanos,
        configuration: Configuration,
        beat: u64,
        settled: bool,
        out: &mut Out,
    ) {
        let is_obeyed =
            configuration.epoch != self.configuration.epoch && self.bugs.has(Planted::ObeyStaleController);
        if configuration.epoch > self.configuration.epoch || is_obeyed {
            self.adopt(now, configuration, out);
        } else if configuration.epoch < self.configuration.epoch {
            self.stats.other_epoch += 1;
            return;
        }
        if self.seat.is_some() {
            let end = self.lease.end(beat, &self.config);
            let grant = &mut self.lease.grant;
            grant.until = grant.until.max(end);
            grant.settled |= settled;
        }
    }
}
