//! Frames, and what the tests that need root share.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod checks;
pub mod filter;
pub mod namespace;
pub mod own;

use protocol::wire::{Message, Verb};

pub const PORT: u16 = 7311;
pub const BOX: [u8; 4] = [10, 77, 0, 2];

/// True, after a line that says so, where this machine lets us have no XDP. `MILLRACE_REQUIRE_XDP=1` makes that a failure.
pub fn skipped<T>(what: &str, result: &Result<T, xdp::LoadError>) -> bool {
    let Err(error) = result else { return false };
    let unavailable = matches!(
        error,
        xdp::LoadError::Permission
            | xdp::LoadError::NoBpf
            | xdp::LoadError::Architecture
            | xdp::LoadError::KernelTooOld(_)
    );
    assert!(unavailable, "{what}: {error}");
    skip(what, &error.to_string());
    true
}

/// Says that a test does not run here.
pub fn skip(what: &str, why: &str) {
    assert!(std::env::var_os("MILLRACE_REQUIRE_XDP").is_none(), "{what} must run here, but: {why}");
    // Not eprintln: the test harness would swallow it.
    use std::io::Write;
    writeln!(std::io::stderr(), "SKIPPED {what}: {why}").expect("stderr takes a line");
}

/// A GET with room for a reply that is `padding` longer.
pub fn get(key: &[u8], padding: usize) -> Message {
    Message { padding, ..Message::request(Verb::Get, key) }
}

/// An Ethernet frame to the box with this payload.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    with_link(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00], payload)
}

/// The same in a VLAN.
pub fn tagged(payload: &[u8]) -> Vec<u8> {
    with_link(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0x00, 0x20, 0x05, 0x08, 0x00], payload)
}

fn with_link(link: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0x10, 0, 0, 0xab, 0xcd, 0x40, 0, 61, 17, 0, 0, 10, 77, 0, 1];
    ip.extend(BOX);
    ip.extend(40_001u16.to_be_bytes());
    ip.extend(PORT.to_be_bytes());
    ip.extend(((8 + payload.len()) as u16).to_be_bytes());
    ip.extend([0x12, 0x34]);
    let total = (ip.len() + payload.len()) as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let mut frame = [link, &ip, payload].concat();
    checksum(&mut frame[link.len()..]);
    frame
}

/// Frames to the box by IPv6, alone and in a VLAN.
pub fn ipv6(payload: &[u8]) -> [Vec<u8>; 2] {
    let length = ((8 + payload.len()) as u16).to_be_bytes();
    let mut ip = vec![0x60, 0, 0, 0, length[0], length[1], 17, 64];
    ip.extend([[0xfd; 16], [0xfd; 16]].concat());
    ip.extend(40_001u16.to_be_bytes());
    ip.extend(PORT.to_be_bytes());
    ip.extend(length);
    ip.extend([0x12, 0x34]);
    let link = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [&[0x86, 0xdd][..], &[0x81, 0x00, 0x20, 0x05, 0x86, 0xdd]]
        .map(|protocol| [&link[..], protocol, &ip, payload].concat())
}

/// Makes an IP header's checksum right.
pub fn checksum(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let mut sum: u32 = ip[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

pub fn bytes(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}
