//! Packets as bytes: views that read and write the fields of Ethernet, ARP, IPv4, TCP, UDP and ICMP in place.
//!
//! Why views: a gateway changes a few fields of a packet and passes the rest on. What is read out is checked once,
//! by [`Ipv4::parse`] and [`transport`], and everything behind it indexes within lengths that were checked there.
//!
//! Bounds: nothing is allocated. Input from the wire never panics: `tests.rs` feeds noise and mutations,
//! `fuzz/fuzz_targets/gateway_frames.rs` more of them through the whole gateway.
//!
//! Sources: RFC 791, 792, 768, 793, 826, 1071, 1624.

pub mod arp;
pub mod build;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
mod ipv4;
mod transport;

pub use ipv4::{Ipv4, ParseError};
pub use transport::{Flow, Proto, Transport, transport};

use std::fmt;
use std::net::Ipv4Addr;

/// A hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the link.
    pub const BROADCAST: Mac = Mac([0xFF; 6]);

    /// Of six pairs of hexadecimal digits with colons.
    ///
    /// # Errors
    /// It is not one; the sentence says what one looks like.
    pub fn parse(text: &str) -> Result<Mac, String> {
        let wrong = || format!("{text:?} is no hardware address: 02:00:00:00:00:01 is one");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Mac(mac)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Two bytes at `at`, as the network has them.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes two bytes at `at`.
pub fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// An address at `at`.
pub fn ip_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

#[cfg(test)]
mod tests;
