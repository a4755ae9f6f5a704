//! Interfaces between a core and the NIC: how a request gets from the core's store to the NIC's pipeline.
//!
//! | interface | core | bus |
//! |---|---|---|
//! | MMIO | two stores of 32 B into the device, each waited for | the line is pushed; nothing is read |
//! | doorbell | line to memory; for each batch a fence and a store into the device, and a look at what is free again | the NIC is told, then reads the batch |
//! | UPI | line to memory; for each batch a look at what is free again | the store invalidates the NIC's copy, and the NIC reads the batch |
//! | UPI direct | the same | a poll of the processor's cache, always under way, finds the line |
//!
//! Towards the core all are alike: the NIC writes, the core polls its own memory.

use std::fmt;

/// How the NIC learns of a request and gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The core stores it into the device.
    Mmio,
    /// A doorbell, then DMA.
    Doorbell,
    /// Over the coherent interconnect, polling the NIC's own cache.
    Upi,
    /// The same, polling the processor's.
    UpiDirect,
}

impl Mode {
    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Mmio => "MMIO",
            Mode::Doorbell => "doorbell",
            Mode::Upi => "UPI",
            Mode::UpiDirect => "UPI direct",
        }
    }

    /// Whether lines travel over the coherent interconnect; else over PCIe.
    pub const fn coherent(self) -> bool {
        matches!(self, Mode::Upi | Mode::UpiDirect)
    }
}

/// A mode and so many requests for each doorbell, or each look of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface {
    /// How.
    pub mode: Mode,
    /// Requests that go together; the first ones wait for the last. MMIO has batches of one.
    pub batch: u64,
}

impl Interface {
    /// The direct one: every request by itself.
    pub const MMIO: Interface = Interface { mode: Mode::Mmio, batch: 1 };

    /// Doorbells for batches.
    pub const fn doorbell(batch: u64) -> Interface {
        Interface { mode: Mode::Doorbell, batch }
    }

    /// The coherent one.
    pub const fn upi(batch: u64) -> Interface {
        Interface { mode: Mode::Upi, batch }
    }

    /// The coherent one with direct polling.
    pub const fn upi_direct(batch: u64) -> Interface {
        Interface { mode: Mode::UpiDirect, batch }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Mode::Mmio => f.write_str(self.mode.name()),
            mode => write!(f, "{} B={}", mode.name(), self.batch),
        }
    }
}
