//! A full-duplex network link, or a path of them whose narrowest counts.
//!
//! Discipline: each direction serves messages in order of arrival; a message takes the link as long as its bytes and the headers of its packets do.
//! Propagation and switches are latency after that, during which the link is free.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::transfer;
use base::Picos;

/// A link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The direction to the server.
    pub forth: ResourceId,
    /// And back.
    pub back: ResourceId,
    /// Bits per second of each direction.
    pub bits: f64,
    /// Payload of a packet.
    pub mtu: u64,
    /// Bytes around the payload of each.
    pub overhead: u64,
    /// From the last bit sent to the last bit there.
    pub latency: Picos,
}

impl Network {
    /// A link of so many bits per second.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        bits: f64,
        (mtu, overhead): (u64, u64),
        latency: Picos,
    ) -> Network {
        Network::side_by_side(kernel, name, (bits, 1), (mtu, overhead), latency)
    }

    /// Several links of so many bits per second each: a message takes whichever is free.
    pub fn side_by_side(
        kernel: &mut Kernel,
        name: &str,
        (bits, count): (f64, u64),
        (mtu, overhead): (u64, u64),
        latency: Picos,
    ) -> Network {
        let forth = kernel.resource(&format!("{name} forth"), count as usize);
        let back = kernel.resource(&format!("{name} back"), count as usize);
        Network { forth, back, bits, mtu, overhead, latency }
    }

    /// Packets of a message of `bytes`: at least one.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mtu).max(1)
    }

    /// Bytes of it on the wire.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + self.packets(bytes) * self.overhead
    }

    /// A message to the server.
    pub fn send(&self, bytes: u64) -> Step {
        self.carry(self.forth, bytes)
    }

    /// A message back.
    pub fn reply(&self, bytes: u64) -> Step {
        self.carry(self.back, bytes)
    }

    fn carry(&self, at: ResourceId, bytes: u64) -> Step {
        let wire = self.wire_bytes(bytes);
        Step::Use { at, service: Service::Fixed(transfer(wire, self.bits)), units: wire, after: self.latency }
    }
}
