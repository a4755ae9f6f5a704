//! An Ethernet switch: a pipeline that all packets go through, at the rate of its ports together.
//!
//! Discipline: packets enter in order of arrival, each for as long as its bytes take at the switch's whole bandwidth; parsing, matching and the
//! buffer in front of the outgoing port are latency after that. Queues before ports are those of the links: see [`super::Network`].
//!
//! Not modelled: the packet buffer's size (nothing is dropped), priorities, cut-through: a packet goes on when its last bit is there.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::transfer;
use base::Picos;

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// Its pipeline.
    pub at: ResourceId,
    bits: f64,
    latency: Picos,
}

impl Switch {
    /// A switch that forwards so many bits per second, each packet so long after it came.
    pub fn new(kernel: &mut Kernel, name: &str, bits: f64, latency: Picos) -> Switch {
        Switch { at: kernel.resource(name, 1), bits, latency }
    }

    /// A packet of so many bytes on the wire passes.
    pub fn pass(&self, wire_bytes: u64) -> Step {
        let service = Service::Fixed(transfer(wire_bytes, self.bits));
        Step::Use { at: self.at, service, units: 1, after: self.latency }
    }
}
