//! What a transfer costs a PCI Express link in bytes and packets, each direction by itself.
//!
//! | transaction | to the completer | to the requester |
//! |---|---|---|
//! | memory write (posted) | ⌈n / MPS⌉ TLPs with n bytes | – |
//! | memory read | ⌈n / MRRS⌉ requests | ⌈n / RCB or MPS⌉ completions with n bytes |
//!
//! Bytes of a TLP on the wire: 2 framing, 6 data link layer (sequence, LCRC), header 12 or 16 (64-bit addresses: 16; completions: 12). ACK and
//! flow-control packets take a share of the link; see [`Generation::usable`].
//!
//! Sources: PCI Express Base Specification 3.0, §2.2, §3.5; Neugebauer et al., "Understanding PCIe performance for end host networking"
//! (SIGCOMM 2018), §3, whose numbers the tests pin.

use base::Bytes;

/// Framing and data link layer around each TLP.
const LINK_LAYER: u64 = 8;
/// Header of a request with a 64-bit address.
const REQUEST_HEADER: u64 = 16;
/// Header of a completion.
const COMPLETION_HEADER: u64 = 12;

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its speed.
    pub generation: Generation,
    /// Its width.
    pub lanes: u32,
    /// Maximum payload size of a TLP: the "PCIe MTU".
    pub max_payload: Bytes,
    /// Maximum size that one read may ask for.
    pub max_read_request: Bytes,
    /// Payload of a completion: a read completion boundary, at most the maximum payload.
    pub completion: Bytes,
}

/// Speeds with 128b/130b coding, and the two with 8b/10b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2.5 GT/s.
    One,
    /// 5 GT/s.
    Two,
    /// 8 GT/s.
    Three,
    /// 16 GT/s.
    Four,
    /// 32 GT/s.
    Five,
}

impl Generation {
    /// By its number: what is before or after those that machines here have is taken for the nearest of these.
    pub const fn numbered(number: u64) -> Generation {
        match number {
            ..=1 => Generation::One,
            2 => Generation::Two,
            3 => Generation::Three,
            4 => Generation::Four,
            _ => Generation::Five,
        }
    }

    /// Bits per second and lane, the coding taken off.
    pub const fn lane_bits(self) -> u64 {
        match self {
            Generation::One => 2_000_000_000,
            Generation::Two => 4_000_000_000,
            Generation::Three => 7_876_923_077,
            Generation::Four => 15_753_846_154,
            Generation::Five => 31_507_692_308,
        }
    }

    /// The share of it that is left to TLPs when ACKs and credit updates are sent as often as the specification recommends, for a maximum
    /// payload of 256 bytes or more (pcie-bench: 1 − 8/… per direction; about 8 % at ×8 gen 3).
    pub const fn usable(self) -> f64 {
        0.92
    }
}

/// What a transfer puts on a direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// TLPs.
    pub packets: u64,
    /// Bytes, with all headers.
    pub bytes: u64,
}

impl Load {
    /// Both.
    #[must_use]
    pub const fn and(self, other: Load) -> Load {
        Load { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Both directions of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// From the requester to the completer.
    pub forth: Load,
    /// Back.
    pub back: Load,
}

const fn pieces(bytes: u64, most: u64) -> u64 {
    bytes.div_ceil(most)
}

impl Link {
    /// Bits per second that TLPs may take in a direction.
    pub fn bits(&self) -> f64 {
        self.generation.lane_bits() as f64 * f64::from(self.lanes) * self.generation.usable()
    }

    /// A posted write of `bytes`. One of none is a packet without payload.
    pub fn write(&self, bytes: u64) -> Transfer {
        let packets = pieces(bytes, self.max_payload.0).max(1);
        let forth = Load { packets, bytes: bytes + packets * (LINK_LAYER + REQUEST_HEADER) };
        Transfer { forth, back: Load::default() }
    }

    /// A read of `bytes`.
    pub fn read(&self, bytes: u64) -> Transfer {
        let requests = pieces(bytes, self.max_read_request.0).max(1);
        let completions = pieces(bytes, self.completion.0.min(self.max_payload.0)).max(1);
        Transfer {
            forth: Load { packets: requests, bytes: requests * (LINK_LAYER + REQUEST_HEADER) },
            back: Load {
                packets: completions,
                bytes: bytes + completions * (LINK_LAYER + COMPLETION_HEADER),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The testbed of the SIGCOMM 2018 paper: gen 3 ×8, MPS 256, MRRS 512, RCB 64 (completions of 256 on that host).
    const BENCH: Link = Link {
        generation: Generation::Three,
        lanes: 8,
        max_payload: Bytes(256),
        max_read_request: Bytes(512),
        completion: Bytes(256),
    };

    #[test]
    fn bytes_on_the_wire_are_those_of_the_specification() {
        // A 64-byte write: 64 + 24; a 1024-byte read: two requests, four completions.
        assert_eq!(BENCH.write(64).forth, Load { packets: 1, bytes: 88 });
        let read = BENCH.read(1024);
        assert_eq!(read.forth, Load { packets: 2, bytes: 48 });
        assert_eq!(read.back, Load { packets: 4, bytes: 1024 + 80 });
        assert_eq!(BENCH.write(0).forth.packets, 1);
        // "62.96 Gb/s at the physical layer … around 57.88 Gb/s" (§3).
        let raw = BENCH.generation.lane_bits() * 8;
        assert!((raw as f64 / 1e9 - 63.0).abs() < 0.1);
        assert!((BENCH.bits() / 1e9 - 57.9).abs() < 0.2, "{}", BENCH.bits());
    }

    #[test]
    fn packets_of_the_path_study() {
        // OSDI 2023, Table 4: ⌈N / 512⌉ towards the host, ⌈N / 128⌉ towards the SoC.
        let host = Link { max_payload: Bytes(512), completion: Bytes(512), ..BENCH };
        let soc = Link { max_payload: Bytes(128), completion: Bytes(128), ..BENCH };
        for n in [1u64, 64, 128, 129, 4096, 1_000_000] {
            assert_eq!(
                (host.write(n).forth.packets, soc.write(n).forth.packets),
                (n.div_ceil(512), n.div_ceil(128))
            );
            assert_eq!(
                (host.read(n).back.packets, soc.read(n).back.packets),
                (n.div_ceil(512), n.div_ceil(128))
            );
        }
    }

    proptest! {
        #[test]
        fn payload_is_conserved_and_more_costs_more(n in 0u64..1 << 24, more in 0u64..10_000) {
            for transfer in [Link::write, Link::read] {
                let (a, b) = (transfer(&BENCH, n), transfer(&BENCH, n + more));
                let (least, most) = (a.forth.and(a.back), b.forth.and(b.back));
                prop_assert!(least.bytes >= n && most.bytes >= least.bytes && most.packets >= least.packets);
            }
        }
    }
}
