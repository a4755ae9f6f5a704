//! IPv4 headers.

use super::{checksum, ip_at, set_u16, u16_at};
use std::fmt;
use std::net::Ipv4Addr;

/// What was read of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Bytes of the header, options with it.
    pub header: usize,
    /// Bytes of the packet, header with it: at most as many as there were.
    pub len: usize,
    /// May not be cut.
    pub dont_fragment: bool,
    /// It is a piece of a longer one.
    pub is_fragment: bool,
    /// It is a piece, and not the first.
    pub is_later_fragment: bool,
    /// Routers it may still pass, this one with them.
    pub ttl: u8,
    /// What is in it.
    pub proto: u8,
    /// From.
    pub src: Ipv4Addr,
    /// To.
    pub dst: Ipv4Addr,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Too short, another version, or lengths that contradict each other.
    Malformed,
    /// The header's checksum is wrong.
    Checksum,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Malformed => "this is no IPv4 packet",
            ParseError::Checksum => "the IPv4 header's checksum is wrong",
        })
    }
}

impl Ipv4 {
    /// Of bytes that begin with the header; there may be more behind the packet, as Ethernet pads short ones.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<Ipv4, ParseError> {
        let read = Ipv4::parse_quoted(bytes)?;
        if read.len > bytes.len() {
            return Err(ParseError::Malformed);
        }
        if checksum::of(&bytes[..read.header]) != 0 {
            return Err(ParseError::Checksum);
        }
        Ok(read)
    }

    /// Of the start of a packet that an ICMP error quotes: the packet may be longer than what is there, and its header's checksum is that
    /// of when it was
    /// sent.
    ///
    /// # Errors
    /// [`ParseError::Malformed`].
    pub fn parse_quoted(bytes: &[u8]) -> Result<Ipv4, ParseError> {
        let start = bytes.first_chunk::<20>().ok_or(ParseError::Malformed)?;
        let header = usize::from(start[0] & 0x0F) * 4;
        let len = usize::from(u16_at(start, 2));
        if start[0] >> 4 != 4 || header < 20 || len < header || bytes.len() < header {
            return Err(ParseError::Malformed);
        }
        let flags = u16_at(start, 6);
        Ok(Ipv4 {
            header,
            len,
            dont_fragment: flags & 0x4000 != 0,
            is_fragment: flags & 0x3FFF != 0,
            is_later_fragment: flags & 0x1FFF != 0,
            ttl: start[8],
            proto: start[9],
            src: ip_at(start, 12),
            dst: ip_at(start, 16),
        })
    }

    /// Takes one router off its way, and mends the checksum.
    pub fn decrement_ttl(packet: &mut [u8]) {
        let old = u16_at(packet, 8);
        let new = old.wrapping_sub(0x0100);
        set_u16(packet, 8, new);
        let sum = checksum::Change::default().word(old, new).apply(u16_at(packet, 10));
        set_u16(packet, 10, sum);
    }

    /// Puts another source or destination in, mends the header's checksum, and says what changed for those who sum it, too.
    pub fn set_address(packet: &mut [u8], is_source: bool, new: Ipv4Addr) -> checksum::Change {
        let at = if is_source { 12 } else { 16 };
        let change = checksum::Change::default().ip(ip_at(packet, at), new);
        packet[at..at + 4].copy_from_slice(&new.octets());
        let sum = change.apply(u16_at(packet, 10));
        set_u16(packet, 10, sum);
        change
    }
}
