//! Whole IPv4 packets, for what the gateway says itself and for tests.

use super::{Ipv4, Proto, Transport, checksum, set_u16};
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER: usize = 20;

/// Writes a header without options at the start of `packet`, which is as long as the packet; it may not be cut.
pub fn ipv4_header(packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, proto: u8, ttl: u8) {
    let len = packet.len() as u16;
    let head = &mut packet[..HEADER];
    head.fill(0);
    head[0] = 0x45;
    set_u16(head, 2, len);
    set_u16(head, 6, 0x4000);
    head[8..10].copy_from_slice(&[ttl, proto]);
    head[12..16].copy_from_slice(&src.octets());
    head[16..20].copy_from_slice(&dst.octets());
    let sum = checksum::of(head);
    set_u16(head, 10, sum);
}

/// A packet around `body`.
pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, ttl: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER + body.len()];
    packet[HEADER..].copy_from_slice(body);
    ipv4_header(&mut packet, src, dst, proto, ttl);
    packet
}

/// A UDP packet.
pub fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 8];
    set_u16(&mut body, 0, src.1);
    set_u16(&mut body, 2, dst.1);
    set_u16(&mut body, 4, (8 + payload.len()) as u16);
    body.extend_from_slice(payload);
    finish(ipv4(src.0, dst.0, 17, 64, &body), Proto::Udp)
}

/// A TCP packet with these flags.
pub fn tcp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 20];
    set_u16(&mut body, 0, src.1);
    set_u16(&mut body, 2, dst.1);
    body[12..14].copy_from_slice(&[0x50, flags]);
    body.extend_from_slice(payload);
    finish(ipv4(src.0, dst.0, 6, 64, &body), Proto::Tcp)
}

/// An ICMP echo request, or the reply to one.
pub fn echo(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    is_request: bool,
    (id, seq): (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut body = vec![if is_request { 8 } else { 0 }, 0, 0, 0, 0, 0, 0, 0];
    set_u16(&mut body, 4, id);
    set_u16(&mut body, 6, seq);
    body.extend_from_slice(payload);
    finish(ipv4(src, dst, 1, 64, &body), Proto::Echo)
}

fn finish(mut packet: Vec<u8>, proto: Proto) -> Vec<u8> {
    let ip = Ipv4::parse(&packet).expect("just built");
    Transport::fill_checksum(&mut packet, &ip, proto);
    packet
}
