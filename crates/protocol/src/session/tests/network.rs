//! A network that loses, delays, doubles and changes datagrams, from a seed.

use base::{Nanos, Prng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    Opener,
    Accepter,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Opener => Side::Accepter,
            Side::Accepter => Side::Opener,
        }
    }
}

/// What goes wrong, as probabilities per datagram and as times.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) lose: f64,
    pub(super) double: f64,
    /// Bits flipped or the end cut off.
    pub(super) change: f64,
    /// Kept back for up to `late_by`.
    pub(super) late: f64,
    pub(super) late_by: Nanos,
    /// Nothing reaches the side within the span.
    pub(super) dark: Vec<(Side, Nanos, Nanos)>,
}

/// When it arrives, which one it is, where, and its bytes.
type Travelling = (Nanos, u64, Side, Vec<u8>);

/// The datagrams on their way.
pub(super) struct Network {
    pub(super) faults: Faults,
    delay: Nanos,
    jitter: Nanos,
    prng: Prng,
    on_the_way: BinaryHeap<Reverse<Travelling>>,
    sent: u64,
}

impl Network {
    pub(super) fn new(seed: u64, faults: Faults, delay: Nanos, jitter: Nanos) -> Network {
        let prng = Prng::for_entity(seed, 0, 0x6e65);
        Network { faults, delay, jitter, prng, on_the_way: BinaryHeap::new(), sent: 0 }
    }

    pub(super) fn send(&mut self, now: Nanos, to: Side, datagram: &[u8]) {
        let dark =
            self.faults.dark.iter().any(|&(side, from, until)| side == to && (from..until).contains(&now));
        if dark || self.prng.chance(self.faults.lose) {
            return;
        }
        let copies = if self.prng.chance(self.faults.double) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = now.plus(self.delay).plus(Nanos(self.prng.below(self.jitter.0 + 1)));
            if self.prng.chance(self.faults.late) {
                at = at.plus(Nanos(self.prng.below(self.faults.late_by.0 + 1)));
            }
            let mut datagram = datagram.to_vec();
            if self.prng.chance(self.faults.change) {
                self.change(&mut datagram);
            }
            self.sent += 1;
            self.on_the_way.push(Reverse((at, self.sent, to, datagram)));
        }
    }

    fn change(&mut self, datagram: &mut Vec<u8>) {
        if self.prng.chance(0.3) {
            datagram.truncate(self.prng.below(datagram.len() as u64) as usize);
            return;
        }
        for _ in 0..1 + self.prng.below(3) {
            let bit = self.prng.below(8 * datagram.len() as u64) as usize;
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// When the next datagram arrives.
    pub(super) fn next_at(&self) -> Nanos {
        self.on_the_way.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    /// A datagram that has arrived.
    pub(super) fn arrive(&mut self, now: Nanos) -> Option<(Side, Vec<u8>)> {
        if self.next_at() > now {
            return None;
        }
        self.on_the_way.pop().map(|Reverse((_, _, to, datagram))| (to, datagram))
    }
}
