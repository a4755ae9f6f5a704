//! Ethernet headers.

use super::{Mac, set_u16, u16_at};

/// Bytes of a header without VLAN tag.
pub const HEADER: usize = 14;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;

/// Where to, from where, and what is in it; nothing of a frame without a whole header.
pub fn read(frame: &[u8]) -> Option<(Mac, Mac, u16)> {
    let head = frame.first_chunk::<HEADER>()?;
    let mac = |at: usize| Mac(head[at..at + 6].try_into().expect("six bytes"));
    Some((mac(0), mac(6), u16_at(head, 12)))
}

/// Writes the header at the frame's start.
pub fn write(frame: &mut [u8], dst: Mac, src: Mac, ethertype: u16) {
    frame[..6].copy_from_slice(&dst.0);
    frame[6..12].copy_from_slice(&src.0);
    set_u16(frame, 12, ethertype);
}
