//! ICMP errors: those that a router sends, and the packets that such errors quote.
//!
//! Invariants: no error is about an error, a later fragment, or a packet from or to more than one host (RFC 1122, 3.2.2); an error quotes the
//! header and as much behind it as fits 576 bytes (RFC 1812, 4.3.2.3).

use super::{Ipv4, build, checksum, set_u16};
use std::net::Ipv4Addr;

/// Why a packet was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Its time to live is over.
    TimeExceeded,
    /// No route.
    NetUnreachable,
    /// Nobody answers for the address.
    HostUnreachable,
    /// Nobody listens there.
    PortUnreachable,
    /// Longer than the next link takes, which is so many bytes.
    FragmentationNeeded(u16),
}

impl Error {
    fn words(self) -> ([u8; 2], u16) {
        match self {
            Error::TimeExceeded => ([11, 0], 0),
            Error::NetUnreachable => ([3, 0], 0),
            Error::HostUnreachable => ([3, 1], 0),
            Error::PortUnreachable => ([3, 3], 0),
            Error::FragmentationNeeded(mtu) => ([3, 4], mtu),
        }
    }

    /// The packet from `from` that tells the sender of `about`; none where there may be none.
    pub fn packet(self, from: Ipv4Addr, about: &[u8]) -> Option<Vec<u8>> {
        let ip = Ipv4::parse_quoted(about).ok()?;
        let is_error = ip.proto == 1 && about.get(ip.header).is_none_or(|kind| is_error(*kind));
        if is_error || ip.is_later_fragment || !is_one_host(ip.src) || !is_one_host(ip.dst) {
            return None;
        }
        let quoted = &about[..about.len().min(ip.len).min(576 - build::HEADER - 8)];
        let (kind, mtu) = self.words();
        let mut body = vec![kind[0], kind[1], 0, 0, 0, 0, 0, 0];
        set_u16(&mut body, 6, mtu);
        body.extend_from_slice(quoted);
        let sum = checksum::of(&body);
        set_u16(&mut body, 2, sum);
        Some(build::ipv4(from, ip.src, 1, 64, &body))
    }
}

/// Whether an ICMP message of this type quotes a packet.
pub fn is_error(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// Whether it can be one host's address.
pub fn is_one_host(ip: Ipv4Addr) -> bool {
    !(ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_unspecified()
        || ip.is_loopback()
        || ip.octets()[0] >= 240)
}

/// Where the packet that an ICMP error quotes begins in `packet`; none where it quotes none.
pub fn quoted_at(packet: &[u8], ip: &Ipv4) -> Option<usize> {
    let body = packet.get(ip.header..ip.len.min(packet.len()))?;
    let quotes = ip.proto == 1 && !ip.is_later_fragment && body.len() >= 8 + 28 && is_error(body[0]);
    quotes.then_some(ip.header + 8)
}

/// Computes the checksum of an ICMP message anew.
pub fn fill_checksum(packet: &mut [u8], ip: &Ipv4) {
    let body = &mut packet[ip.header..ip.len];
    set_u16(body, 2, 0);
    let sum = checksum::of(body);
    set_u16(body, 2, sum);
}
