//! A memory: channels, and banks in each.
//!
//! Discipline: each bank serves in order of arrival; the operation's argument (a line or bucket number) chooses the bank, addresses being
//! interleaved over channels and banks. So requests to a small range of addresses meet in few banks, which is why close addresses are slow
//! on a memory with one channel (Wei et al., OSDI 2023, §3.2, Advice #1). A channel's bandwidth is shared by its banks.
//!
//! Not modelled: rows that are open, refresh, reordering by the controller: an access has one service time, that of a closed row in a
//! random stream.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::transfer;
use base::Picos;

/// A memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    banks: ResourceId,
    count: u32,
    channels: ResourceId,
    channel_count: u32,
    /// A bank is busy so long with an access.
    cycle: Picos,
    /// From request to data, beside the bank's and the channel's time.
    latency: Picos,
    /// Of one channel.
    bits: f64,
}

impl Memory {
    /// `channels` of `banks` each.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        (channels, banks): (u64, u64),
        (cycle, latency): (Picos, Picos),
        bits_per_channel: f64,
    ) -> Memory {
        let count = (channels * banks) as u32;
        Memory {
            banks: kernel.resources(&format!("{name} bank"), count),
            count,
            channels: kernel.resources(&format!("{name} channel"), channels as u32),
            channel_count: channels as u32,
            cycle,
            latency,
            bits: bits_per_channel,
        }
    }

    /// An access to `bytes` at the line that the operation's argument names.
    pub fn access(&self, bytes: u64) -> [Step; 2] {
        self.access_of(self.cycle, bytes)
    }

    /// The same where the bank is busy so long: a write with its recovery.
    pub fn access_of(&self, cycle: Picos, bytes: u64) -> [Step; 2] {
        let cycle = Service::Fixed(cycle);
        let carry = Service::Fixed(transfer(bytes, self.bits));
        [
            Step::Pick {
                first: self.banks,
                count: self.count,
                service: cycle,
                units: 1,
                after: self.latency,
            },
            Step::Pick {
                first: self.channels,
                count: self.channel_count,
                service: carry,
                units: bytes,
                after: Picos::ZERO,
            },
        ]
    }

    /// `bytes` that lie together over all channels, in the time of their bandwidth alone: its part of one channel, for [`Step::Each`] of
    /// [`Memory::channels`].
    pub fn stream(&self, bytes: u64) -> Step {
        let part = bytes.div_ceil(u64::from(self.channel_count));
        let service = Service::Fixed(transfer(part, self.bits));
        let (first, count) = (self.channels, self.channel_count);
        Step::Pick { first, count, service, units: part, after: Picos::ZERO }
    }

    /// All its channels.
    pub fn channels(&self) -> u32 {
        self.channel_count
    }

    /// An access that meets nobody takes so long, beside the channel's time.
    pub fn latency(&self) -> Picos {
        self.cycle.plus(self.latency)
    }

    /// Bytes per second of all channels.
    pub fn bandwidth(&self) -> f64 {
        self.bits / 8.0 * f64::from(self.channel_count)
    }

    /// All its banks.
    pub fn banks(&self) -> u32 {
        self.count
    }
}
