//! The packets on their way: what each carries, which arrived, which must be taken for lost.
//!
//! Invariants: packets are numbered without gaps, so a number is an index; the front packet is flying (what is
//! acknowledged or lost at the front is gone at once). A fragment is carried by at most one flying packet.
//!
//! Loss: a packet is lost when one sent three later, or a good round trip later, was acknowledged; or, when no answer
//! comes at all, the oldest two are, whose content then asks for one. A packet once lost stays so: an acknowledgement
//! that comes later changes nothing (what it carried arrives twice, and the receiver drops that).
//!
//! Cost: constant per packet, and per acknowledgement the packets it names above a hole.
//!
//! Source: RFC 9002, 6.1 and 6.2.

use super::rtt::Rtt;
use super::wire::Acks;
use base::units::Nanos;
use std::collections::VecDeque;

/// A packet is lost when one so much later was acknowledged.
const REORDERING: u64 = 3;

/// What a packet carries: fragments `first .. first + count`, counted since the session began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) bytes: u32,
    pub(super) sent_at: Nanos,
    flying: bool,
}

/// The packets since the oldest flying one.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    packets: VecDeque<Packet>,
    /// The front packet's number.
    floor: u64,
    /// Of flying packets.
    pub(super) bytes: usize,
    /// One more than the highest acknowledged number.
    acknowledged: u64,
    /// When the oldest flying packet below that is lost.
    loss_at: Option<Nanos>,
    last_sent_at: Nanos,
}

impl Flight {
    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.floor + self.packets.len() as u64
    }

    /// No acknowledgement below is of interest.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Packets between the oldest flying and the newest.
    pub(super) fn span(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// When the newest packet was sent.
    pub(super) fn last_sent_at(&self) -> Nanos {
        self.last_sent_at
    }

    /// Packet [`Flight::next`] was sent.
    pub(super) fn sent(&mut self, now: Nanos, first: u64, count: u32, bytes: usize) {
        self.packets.push_back(Packet { first, count, bytes: bytes as u32, sent_at: now, flying: true });
        self.bytes += bytes;
        self.last_sent_at = now;
    }

    /// Takes the packets that `acks` names out of the flight and gives each to `arrived`. Returns when the newest was sent, if
    /// that one was among them.
    ///
    /// # Errors
    /// `NeverSent`: an acknowledgement of a packet that was not sent.
    pub(super) fn acknowledge(
        &mut self,
        acks: &Acks,
        mut arrived: impl FnMut(&Packet),
    ) -> Result<Option<Nanos>, NeverSent> {
        if acks.next > self.next() {
            return Err(NeverSent);
        }
        let mut newest = None;
        for (start, end) in acks.ranges() {
            if end <= self.floor {
                break;
            }
            for number in (start.max(self.floor)..end).rev() {
                let packet = &mut self.packets[(number - self.floor) as usize];
                if packet.flying {
                    packet.flying = false;
                    self.bytes -= packet.bytes as usize;
                    if number + 1 == acks.next {
                        newest = Some(packet.sent_at);
                    }
                    arrived(packet);
                }
            }
            self.acknowledged = self.acknowledged.max(end);
        }
        self.trim();
        Ok(newest)
    }

    /// Takes the lost packets out of the flight and gives each to `lost`.
    pub(super) fn detect_losses(&mut self, now: Nanos, rtt: &Rtt, mut lost: impl FnMut(&Packet)) {
        self.loss_at = None;
        let delay = rtt.loss_delay();
        let below = self.acknowledged.saturating_sub(self.floor) as usize;
        for i in 0..below.min(self.packets.len()) {
            let packet = &mut self.packets[i];
            if !packet.flying {
                continue;
            }
            let number = self.floor + i as u64;
            if self.acknowledged > number + REORDERING || packet.sent_at.plus(delay) <= now {
                packet.flying = false;
                self.bytes -= packet.bytes as usize;
                lost(packet);
            } else {
                self.loss_at = Some(packet.sent_at.plus(delay));
                break;
            }
        }
        self.trim();
    }

    /// When [`Flight::detect_losses`] finds the next one, without another acknowledgement.
    pub(super) fn loss_at(&self) -> Nanos {
        self.loss_at.unwrap_or(Nanos::MAX)
    }

    /// Takes the oldest flying packet for lost.
    pub(super) fn give_up_oldest(&mut self) -> Option<Packet> {
        let packet = *self.packets.front()?;
        self.packets.pop_front();
        self.floor += 1;
        self.bytes -= packet.bytes as usize;
        self.trim();
        Some(packet)
    }

    fn trim(&mut self) {
        while self.packets.front().is_some_and(|p| !p.flying) {
            self.packets.pop_front();
            self.floor += 1;
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.packets.capacity() * size_of::<Packet>()
    }
}

/// An acknowledgement names a packet that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeverSent;

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(packets: u64) -> Flight {
        let mut flight = Flight::default();
        for i in 0..packets {
            flight.sent(Nanos(i), i, 1, 100);
        }
        flight
    }

    fn acks(next: u64, runs: &[(u16, u16)]) -> Acks {
        let mut acks = Acks::below(next);
        runs.iter().for_each(|&(received, missing)| assert!(acks.push(received, missing)));
        acks
    }

    fn losses(flight: &mut Flight, now: Nanos) -> Vec<u64> {
        let mut lost = Vec::new();
        flight.detect_losses(now, &Rtt::new(Nanos(800_000)), |p| lost.push(p.first));
        lost
    }

    #[test]
    fn three_later_packets_make_a_loss() {
        let mut flight = flight(6);
        let mut arrived = Vec::new();
        let newest = flight.acknowledge(&acks(4, &[(2, 1), (1, 0)]), |p| arrived.push(p.first));
        assert_eq!((newest, arrived), (Ok(Some(Nanos(3))), vec![3, 2, 0]));
        assert_eq!((flight.floor(), flight.bytes), (1, 300));
        assert_eq!(losses(&mut flight, Nanos(10)), [0; 0], "1 is two behind");
        assert_eq!(flight.loss_at(), Nanos(900_001));
        assert_eq!(flight.acknowledge(&acks(5, &[(1, 0)]), |_| {}), Ok(Some(Nanos(4))));
        assert_eq!(losses(&mut flight, Nanos(10)), [1]);
        assert_eq!((flight.floor(), flight.span(), flight.loss_at()), (5, 1, Nanos::MAX));
    }

    #[test]
    fn time_makes_a_loss_too() {
        let mut flight = flight(3);
        assert_eq!(flight.acknowledge(&acks(2, &[(1, 0)]), |_| {}), Ok(Some(Nanos(1))));
        assert_eq!(losses(&mut flight, Nanos(899_999)), [0; 0]);
        assert_eq!(losses(&mut flight, Nanos(900_000)), [0]);
        assert_eq!((flight.floor(), flight.bytes), (2, 100));
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        assert_eq!(flight(2).acknowledge(&acks(3, &[(1, 0)]), |_| {}), Err(NeverSent));
    }

    #[test]
    fn late_acknowledgements_change_nothing() {
        let mut flight = flight(2);
        assert_eq!(flight.give_up_oldest().map(|p| p.first), Some(0));
        assert_eq!(flight.acknowledge(&acks(1, &[(1, 0)]), |_| panic!("it is lost")), Ok(None));
        assert_eq!(flight.give_up_oldest().map(|p| p.first), Some(1));
        assert!(flight.is_empty() && flight.bytes == 0 && flight.give_up_oldest().is_none());
        assert_eq!(flight.next(), 2);
    }
}
