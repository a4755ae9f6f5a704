//! The one queue of all workers: [`ring::spmc`] with a limit of bytes beyond its slots.

use crate::port::Packet;
use crate::port::weight::Weight;
use ring::Full;
use ring::spmc::{Consumer, Producer, spmc};

/// The front's end.
pub(super) struct Sender {
    queue: Producer<Packet>,
    weight: Weight,
}

/// A worker's end.
#[derive(Clone)]
pub(super) struct Receiver {
    queue: Consumer<Packet>,
    weight: Weight,
}

/// A queue of at least so many entries.
pub(super) fn queue(entries: u32, boxed_bytes: usize) -> (Sender, Receiver) {
    let (send, receive) = spmc(entries.clamp(2, ring::spsc::MAX_CAPACITY).next_power_of_two());
    let weight = Weight::new(boxed_bytes);
    (Sender { queue: send, weight: weight.clone() }, Receiver { queue: receive, weight })
}

impl Sender {
    #[inline]
    pub(super) fn push(&mut self, packet: Packet) -> Result<(), Full<Packet>> {
        let bytes = packet.boxed_bytes();
        if !self.weight.fits(bytes) {
            return Err(Full(packet));
        }
        self.weight.add(bytes);
        self.queue.try_push(packet).inspect_err(|_| self.weight.subtract(bytes))
    }
}

impl Receiver {
    #[inline]
    pub(super) fn pop(&self) -> Option<Packet> {
        self.queue.try_pop().inspect(|packet| self.weight.subtract(packet.boxed_bytes()))
    }

    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.queue.is_ready()
    }
}
