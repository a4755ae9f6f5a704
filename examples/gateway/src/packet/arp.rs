//! ARP for IPv4 over Ethernet: who has an address, and who says so.

use super::{Mac, ethernet, ip_at, set_u16, u16_at};
use std::net::Ipv4Addr;

/// Bytes of a message.
const LEN: usize = 28;

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// It asks; an answer otherwise.
    pub asks: bool,
    /// Who sent it.
    pub from: (Ipv4Addr, Mac),
    /// Whom it is about, or who asked.
    pub to: (Ipv4Addr, Mac),
}

impl Arp {
    /// Of what follows an Ethernet header; none for other networks, other operations, and less than a message.
    pub fn parse(bytes: &[u8]) -> Option<Arp> {
        let bytes = bytes.first_chunk::<LEN>()?;
        let mac = |at: usize| Mac(bytes[at..at + 6].try_into().expect("six bytes"));
        let is_known = u16_at(bytes, 0) == 1 && u16_at(bytes, 2) == ethernet::IPV4 && bytes[4..6] == [6, 4];
        let asks = match u16_at(bytes, 6) {
            1 => true,
            2 => false,
            _ => return None,
        };
        is_known.then(|| Arp { asks, from: (ip_at(bytes, 14), mac(8)), to: (ip_at(bytes, 24), mac(18)) })
    }

    /// A whole frame, to `dst`.
    pub fn frame(&self, dst: Mac) -> Vec<u8> {
        let mut frame = vec![0; ethernet::HEADER + LEN];
        ethernet::write(&mut frame, dst, self.from.1, ethernet::ARP);
        let body = &mut frame[ethernet::HEADER..];
        set_u16(body, 0, 1);
        set_u16(body, 2, ethernet::IPV4);
        body[4..6].copy_from_slice(&[6, 4]);
        set_u16(body, 6, if self.asks { 1 } else { 2 });
        for (at, (ip, mac)) in [(8, self.from), (18, self.to)] {
            body[at..at + 6].copy_from_slice(&mac.0);
            body[at + 6..at + 10].copy_from_slice(&ip.octets());
        }
        frame
    }
}
