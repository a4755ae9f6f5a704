//! What may be chosen: once ([`Options`]), and while the program runs ([`Live`]).

use crate::entries::buckets_for;
use crate::layout::Config;
use crate::object::Sizes;
use protocol::wire::Epoch;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a socket buffer. On veth the peer interface needs a program too:
    /// [`Pass`](crate::Pass).
    Native,
    /// After the driver: on any interface, at the cost of a socket buffer for each frame. On veth the reply keeps the request's mark that a
    /// checksum is still to be filled in: where a peer sends it on to a wire, its transmit checksum offload must be off.
    Generic,
}

impl Mode {
    /// As link flags.
    pub(crate) fn flags(self) -> u32 {
        match self {
            Mode::Native => 1 << 2,
            Mode::Generic => 1 << 1,
        }
    }
}

/// Registers that the program reads for each frame. One at a time changes atomically, not all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Off: every frame is passed on.
    pub enabled: bool,
    /// The box's UDP port.
    pub port: u16,
    /// The box's address; none: whatever the frame's destination is.
    pub address: Option<Ipv4Addr>,
    /// Of the registration table: replies say it.
    pub epoch: Epoch,
    /// One datagram in so many is timed (rounded up to a power of two); 0: none.
    pub sample: u32,
    /// A client's request of a key that is not here goes up to the user tier when the key was seen so often lately, this time included; before
    /// that it is sent on to its home, if the kernel knows a way. 0 and 1: all go up.
    pub filter: u8,
    /// Bytes by which a reply may be longer than its request. The head of a frame can grow by about 200.
    pub max_growth: u32,
}

impl Live {
    /// For a box at this port.
    pub fn new(port: u16) -> Live {
        Live {
            enabled: true,
            port,
            address: None,
            epoch: Epoch::default(),
            sample: 64,
            filter: 0,
            max_growth: Live::MAX_GROWTH,
        }
    }

    /// What veth gives in both modes.
    pub const MAX_GROWTH: u32 = 208;

    pub(crate) fn write(&self, config: &Config) {
        config.port.store(u32::from(self.port), Relaxed);
        config.address.store(self.address.map_or(0, |address| u32::from_le_bytes(address.octets())), Relaxed);
        config.epoch.store(self.epoch.0, Relaxed);
        let sample = if self.sample == 0 { 0 } else { self.sample.min(1 << 31).next_power_of_two() };
        config.sample.store(sample, Relaxed);
        config.max_growth.store(self.max_growth, Relaxed);
        config.filter.store(u32::from(self.filter), Relaxed);
        config.enabled.store(u32::from(self.enabled), Relaxed);
    }
}

/// What is fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries; rounded up to a power of two.
    pub capacity: usize,
    /// Keys that the box owns and may lend to the program; at least one.
    pub owned: usize,
    /// Whether the entries of an earlier box's program on the interface are kept. They may be where this process will answer for
    /// their invalidation as that one would have; a box that starts anew (another incarnation) is empty.
    pub adopt: bool,
    /// To begin with.
    pub live: Live,
}

impl Options {
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes { buckets: buckets_for(self.capacity), owned: self.owned.max(1) }
    }

    /// For a box at this port, with 4096 entries, of which 64 may be owned.
    pub fn new(port: u16) -> Options {
        Options { capacity: 4096, owned: 64, adopt: false, live: Live::new(port) }
    }
}
