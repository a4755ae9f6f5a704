//! The two ends of one direction of a port: the ring in the port's mode, and the count of bytes beyond its slots.
//!
//! Invariant: what [`Sender::push`] took is visible at the latest after [`Sender::publish`].

use super::bells::Bell;
use super::mode::{Mode, PortOptions};
use super::packet::Packet;
use super::weight::Weight;
use ring::Full;
use ring::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce, hybrid, index, slot};

/// The sending end.
pub(super) struct Sender {
    ring: SendRing,
    weight: Weight,
}

enum SendRing {
    Inline(slot::Producer<Packet>),
    Doorbell { ring: index::Producer<Packet>, bell: Bell, batch: u32, unrung: u32 },
    Coherent(hybrid::Producer<Packet>),
}

/// The receiving end.
pub(super) struct Receiver {
    ring: ReceiveRing,
    weight: Weight,
}

enum ReceiveRing {
    /// Entries tell by themselves; written singly or in bursts.
    Entries(slot::Consumer<Packet>),
    Doorbell {
        ring: index::Consumer<Packet>,
    },
}

/// Both ends of a ring. A mode with a doorbell needs one.
pub(super) fn ends(options: &PortOptions, bell: Option<Bell>) -> (Sender, Receiver) {
    let capacity = options.capacity();
    let weight = Weight::new(options.boxed_bytes);
    let (send, receive) = match (options.mode, bell) {
        (Mode::Doorbell { batch }, Some(bell)) => {
            let (send, ring) = Index::heap(capacity);
            let send = SendRing::Doorbell { ring: send, bell, batch: batch.max(1), unrung: 0 };
            (send, ReceiveRing::Doorbell { ring })
        }
        (Mode::Inline, _) => {
            let (send, receive) = InSlot::heap(capacity);
            (SendRing::Inline(send), ReceiveRing::Entries(receive))
        }
        (Mode::Coherent | Mode::Doorbell { .. }, _) => {
            let (send, receive) = Hybrid::heap(capacity);
            (SendRing::Coherent(send), ReceiveRing::Entries(receive))
        }
    };
    (Sender { ring: send, weight: weight.clone() }, Receiver { ring: receive, weight })
}

impl Sender {
    /// Takes a packet; whether a doorbell was rung for it. On [`Full`] everything before is published.
    #[inline]
    pub(super) fn push(&mut self, packet: Packet) -> Result<bool, Full<Packet>> {
        let bytes = packet.boxed_bytes();
        if !self.weight.fits(bytes) {
            self.publish();
            return Err(Full(packet));
        }
        self.weight.add(bytes);
        let taken = match &mut self.ring {
            SendRing::Inline(ring) => ring.try_push(packet),
            SendRing::Doorbell { ring, .. } => ring.try_push(packet),
            SendRing::Coherent(ring) => ring.try_push(packet),
        };
        match taken {
            Ok(()) => Ok(self.count_for_bell()),
            Err(full) => {
                self.weight.subtract(bytes);
                self.publish();
                Err(full)
            }
        }
    }

    #[inline]
    fn count_for_bell(&mut self) -> bool {
        let SendRing::Doorbell { batch, unrung, .. } = &mut self.ring else { return false };
        *unrung += 1;
        *unrung >= *batch && self.publish()
    }

    /// Shows what was taken; whether a doorbell was rung.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        match &mut self.ring {
            SendRing::Inline(_) => false,
            SendRing::Coherent(ring) => {
                ring.publish();
                false
            }
            SendRing::Doorbell { ring, bell, unrung, .. } => {
                let rung = *unrung > 0;
                if rung {
                    ring.publish();
                    bell.ring(*unrung);
                    *unrung = 0;
                }
                rung
            }
        }
    }

    /// Whether a packet with so many boxed bytes would be taken now.
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        self.weight.fits(bytes) && self.free() > 0
    }

    fn free(&mut self) -> u32 {
        match &mut self.ring {
            SendRing::Inline(ring) => ring.free(),
            SendRing::Doorbell { ring, .. } => ring.free(),
            SendRing::Coherent(ring) => ring.free(),
        }
    }

    pub(super) fn entries(&self) -> u32 {
        match &self.ring {
            SendRing::Inline(ring) => ring.capacity(),
            SendRing::Doorbell { ring, .. } => ring.capacity(),
            SendRing::Coherent(ring) => ring.capacity(),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match self.ring {
            SendRing::Inline(_) => Mode::Inline,
            SendRing::Doorbell { batch, .. } => Mode::Doorbell { batch },
            SendRing::Coherent(_) => Mode::Coherent,
        }
    }

    /// Entries per ring of a doorbell; nothing in other modes.
    pub(super) fn set_batch(&mut self, new: u32) {
        if let SendRing::Doorbell { batch, .. } = &mut self.ring {
            *batch = new.max(1);
        }
    }
}

impl Receiver {
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = match &mut self.ring {
            ReceiveRing::Entries(ring) => ring.try_pop(),
            ReceiveRing::Doorbell { ring, .. } => ring.try_pop(),
        }?;
        self.weight.subtract(packet.boxed_bytes());
        Some(packet)
    }

    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        match &mut self.ring {
            ReceiveRing::Entries(ring) => ring.is_ready(),
            ReceiveRing::Doorbell { ring, .. } => ring.is_ready(),
        }
    }

    /// Whether its entries are found by looking at them, rather than by a doorbell.
    #[inline]
    pub(super) fn tells_by_entries(&self) -> bool {
        matches!(self.ring, ReceiveRing::Entries(_))
    }

    pub(super) fn next_word(&self) -> *const std::sync::atomic::AtomicU32 {
        match &self.ring {
            ReceiveRing::Entries(ring) => ring.next_word(),
            ReceiveRing::Doorbell { ring, .. } => ring.next_word(),
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        match &self.ring {
            ReceiveRing::Entries(ring) => ring.is_abandoned(),
            ReceiveRing::Doorbell { ring, .. } => ring.is_abandoned(),
        }
    }
}
