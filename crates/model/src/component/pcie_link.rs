//! A PCI Express link in a kernel: both directions, with the bytes and packets of [`crate::pcie`].
//!
//! Discipline: each direction serves transfers in order of arrival, for as long as their bytes take, or their packets at the rate at which the
//! ports take packets, whichever is longer. Posted writes wait for nothing; who reads waits for the completions, which the other
//! direction carries. Latency is that of the link and of the port behind it.
//!
//! Not modelled: flow-control credits of single packets (a whole transfer takes the link at once; bound what is outstanding with
//! [`crate::Step::Take`]), reordering of completions.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::pcie::{Link, Load};
use crate::platform::transfer;
use base::Picos;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// From the device to the host, the memory, the completer of the device's requests.
    Host,
    /// To the device.
    Device,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieLink {
    /// What it is like.
    pub link: Link,
    /// Its resource towards the host.
    pub to_host: ResourceId,
    /// And towards the device.
    pub to_device: ResourceId,
    /// Bits per second that packets may take in a direction.
    pub bits: f64,
    /// A packet takes a port at least so long.
    pub per_packet: Picos,
    /// From the last bit sent to the packet behind the next port.
    pub latency: Picos,
}

impl PcieLink {
    /// A link.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        link: Link,
        (per_packet, latency): (Picos, Picos),
    ) -> PcieLink {
        let to_host = kernel.resource(&format!("{name} to host"), 1);
        let to_device = kernel.resource(&format!("{name} to device"), 1);
        PcieLink { link, to_host, to_device, bits: link.bits(), per_packet, latency }
    }

    /// The same with this share of the lanes' bits left to packets, where it is known better than [`crate::pcie::Generation::usable`] has it.
    #[must_use]
    pub fn usable(mut self, share: f64) -> PcieLink {
        self.bits = self.link.generation.lane_bits() as f64 * f64::from(self.link.lanes) * share;
        self
    }

    /// This load in that direction. Its units are packets, as a hardware counter has them.
    pub fn carry(&self, load: Load, towards: Towards) -> Step {
        let at = if towards == Towards::Host { self.to_host } else { self.to_device };
        let bytes = transfer(load.bytes, self.bits);
        let packets = Picos(self.per_packet.0 * load.packets);
        Step::Use {
            at,
            service: Service::Fixed(bytes.max(packets)),
            units: load.packets,
            after: self.latency,
        }
    }
}
