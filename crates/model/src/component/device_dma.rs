//! A device's DMA engine on its PCIe link: one transaction after the other, each way.
//!
//! Discipline: each direction serves transactions in order of arrival. One takes the engine as long as its bytes take the link or, if it is small,
//! as long as the engine needs to form one: the rate of transactions, which limits who writes field by field. Writes are posted: the engine is
//! free when the bytes are gone, and they are there half a round trip later. Reads take a round trip and then their bytes.
//!
//! Not modelled: single packets and credits (see [`crate::component::PcieLink`]); the bandwidth is that of payload, as measured.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceDma {
    /// Writes to the host; units are transactions.
    pub to_host: ResourceId,
    /// Reads from the host; units are transactions.
    pub to_device: ResourceId,
    /// The least time of a transaction.
    pub per_transaction: Picos,
    /// From a read's request to its first byte.
    pub round_trip: Picos,
    bits: f64,
}

impl DeviceDma {
    /// From the numbers `transaction`, `latency` and `bandwidth` of a platform's table.
    ///
    /// # Errors
    /// One is missing.
    pub fn load(kernel: &mut Kernel, platform: &Platform, table: &str) -> Result<DeviceDma, LoadError> {
        Ok(DeviceDma {
            to_host: kernel.resource(&format!("{table} to host"), 1),
            to_device: kernel.resource(&format!("{table} to device"), 1),
            per_transaction: platform.span(&format!("{table}.transaction"))?,
            round_trip: platform.span(&format!("{table}.latency"))?,
            bits: platform.bandwidth(&format!("{table}.bandwidth"))?,
        })
    }

    /// How long a transaction of `bytes` takes the engine.
    pub fn span(&self, bytes: u64) -> Picos {
        transfer(bytes, self.bits).max(self.per_transaction)
    }

    /// One way.
    pub fn one_way(&self) -> Picos {
        Picos(self.round_trip.0 / 2)
    }

    /// A posted write; see [`DeviceDma::one_way`] for when it is there.
    pub fn write(&self, bytes: u64) -> Step {
        self.transaction(self.to_host, bytes, Picos::ZERO)
    }

    /// A read: goes on when the bytes are here.
    pub fn read(&self, bytes: u64) -> Step {
        self.transaction(self.to_device, bytes, self.round_trip)
    }

    /// Bytes of reads whose round trips are accounted for elsewhere.
    pub fn stream_in(&self, bytes: u64) -> Step {
        self.transaction(self.to_device, bytes, Picos::ZERO)
    }

    fn transaction(&self, at: ResourceId, bytes: u64, after: Picos) -> Step {
        Step::Use { at, service: Service::Fixed(self.span(bytes)), units: 1, after }
    }
}
