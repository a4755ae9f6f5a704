//! The Internet checksum: over bytes, and after a change of a few of them.
//!
//! Invariant: [`Change`] leaves a checksum as a full computation over the changed bytes would; a test holds it against that. RFC
//! 1624's form is used, since that of RFC 1141 gives 0xFFFF where 0 is right.
//!
//! Sources: RFC 1071, RFC 1624 (equation 3).

use std::net::Ipv4Addr;

/// The sum of 16-bit words, not folded. A last odd byte counts as the high half of a word.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// The checksum of a sum.
pub fn finish(sum: u64) -> u16 {
    !fold(sum)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of bytes in which the checksum's own field is 0; 0 for bytes that carry a right one.
pub fn of(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The sum of TCP's and UDP's pseudo-header.
pub fn pseudo(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, len: usize) -> u64 {
    sum(&src.octets()) + sum(&dst.octets()) + u64::from(proto) + len as u64
}

/// What changed: old words away, new words in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change(u64);

impl Change {
    /// One word was `old` and is `new`.
    #[must_use]
    pub fn word(self, old: u16, new: u16) -> Change {
        Change(self.0 + u64::from(!old) + u64::from(new))
    }

    /// An address was `old` and is `new`.
    #[must_use]
    pub fn ip(self, old: Ipv4Addr, new: Ipv4Addr) -> Change {
        let ([a, b, c, d], [e, f, g, h]) = (old.octets(), new.octets());
        let half = |a, b| u16::from_be_bytes([a, b]);
        self.word(half(a, b), half(e, f)).word(half(c, d), half(g, h))
    }

    /// The checksum after the change.
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(u64::from(!checksum) + self.0)
    }
}
