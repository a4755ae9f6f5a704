//! Source NAT: packets from inside leave with the gateway's address and a port of their flow's; what comes back gets the host's again.
//!
//! ```text
//!  TCP flow   (none) ── SYN ──▶ opening ── a packet from outside ──▶ established ── FIN, RST ──▶ opening
//!  UDP, echo  (none) ── any ──▶ kept;      all: no packet for the class's time ──▶ (none)
//! ```
//! Invariants, beside those of `table`:
//! 1. Checksums are changed by what changed (RFC 1624), so a packet that was damaged before stays damaged: only a sender's sum says that a
//!    packet is whole.
//! 2. An ICMP error about a translated packet is translated with the packet that it quotes (RFC 5508), in both directions.
//! 3. Nothing from outside makes a flow.
//!
//! Ports: the host's own where it is free for that remote, else drawn (RFC 6056), [`TRIES`] times.
//!
//! Sources: RFC 3022, 4787, 5382, 5508. Not here: fragments (a later one has no port), protocols without ports, hairpins.

pub mod table;

use crate::net::{Meta, Net, Next, Reason, Stage};
use crate::packet::checksum::Change;
use crate::packet::{Ipv4, Proto, Transport, ethernet, icmp, transport};
use crate::registers::{Id, Registers};
use base::prng::Prng;
use std::net::Ipv4Addr;
use std::sync::Arc;
use table::{Class, Flows};

/// Ports that are drawn before a flow is refused.
pub const TRIES: usize = 128;
/// The lowest port that stands for a host.
const LOWEST: u16 = 1024;
const SECOND: u64 = 1_000_000_000;

/// The stage.
pub struct Nat {
    registers: Arc<Registers>,
    address: Ipv4Addr,
    flows: Flows,
    prng: Prng,
    /// A bug that tests must find.
    #[cfg(test)]
    planted: Option<Planted>,
}

/// Bugs that tests plant, and that must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// The addresses' change is not in the transport's checksum.
    OldChecksum,
    /// What comes from outside does not keep a flow.
    Forgetful,
    /// The table takes one flow more than it may.
    OneMore,
    /// A port stands for whoever used it last, whatever the remote.
    AnyRemote,
    /// A closed flow is kept as long as an open one.
    NeverClosed,
}

impl Nat {
    /// For a network; `seed` is where drawn ports come from.
    pub fn new(net: &Net, registers: Arc<Registers>, seed: u64) -> Nat {
        let address = net.nat.unwrap_or(Ipv4Addr::UNSPECIFIED);
        Nat {
            registers,
            address,
            flows: Flows::default(),
            prng: Prng::new(seed),
            #[cfg(test)]
            planted: None,
        }
    }

    #[cfg(test)]
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    #[cfg(not(test))]
    fn has(&self, _: Planted) -> bool {
        false
    }

    /// Flows there are.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Translates a packet in place: its source after it was routed, its destination before.
    pub fn handle(&mut self, meta: &mut Meta, frame: &mut [u8], now_ns: u64) -> Next {
        self.flows.expire(now_ns, self.kept_ns(), 2);
        let packet = frame.get_mut(ethernet::HEADER..).unwrap_or_default();
        if meta.has(Meta::ROUTED) {
            let after = if meta.has(Meta::SEAL) { Next::Stage(Stage::Crypto) } else { Next::Send };
            return self.outward(meta.has(Meta::LOCAL), packet, now_ns).map_or_else(Next::Drop, |()| after);
        }
        match self.inward(packet, now_ns) {
            Ok(true) => *meta = meta.with(Meta::TRANSLATED),
            Ok(false) => {}
            Err(reason) => return Next::Drop(reason),
        }
        Next::Stage(Stage::Route)
    }

    /// Ends what is over.
    pub fn tick(&mut self, now_ns: u64) {
        self.flows.expire(now_ns, self.kept_ns(), 1024);
    }

    fn kept_ns(&self) -> [u64; 4] {
        [Id::NatOpening, Id::NatTcp, Id::NatUdp, Id::NatEcho].map(|id| self.registers.read(id) * SECOND)
    }

    /// From inside to outside: the source is hidden.
    fn outward(&mut self, is_local: bool, packet: &mut [u8], now_ns: u64) -> Result<(), Reason> {
        let ip = Ipv4::parse(packet).map_err(|_| Reason::Malformed)?;
        if let Some(at) = icmp::quoted_at(packet, &ip) {
            return match self.quoted_outward(packet, &ip, at, is_local) {
                true => Ok(()),
                // What the gateway says of packets that were never translated.
                false if is_local => Ok(()),
                false => Err(Reason::NotTranslatable),
            };
        }
        if ip.is_fragment {
            return Err(Reason::Fragment);
        }
        let read = transport(packet, &ip).ok_or(Reason::NotTranslatable)?;
        let flow = read.flow;
        let is_reply = flow.proto == Proto::Echo && packet[ip.header] == 0;
        if is_reply || ip.len - ip.header < flow.proto.header() {
            return Err(Reason::NotTranslatable);
        }
        let number = match self.flows.by_inside(flow.proto, flow.src, flow.dst) {
            Some(number) => {
                let class = match self.has(Planted::NeverClosed) {
                    true => self.flows.flow(number).class,
                    false => next_class(self.flows.flow(number).class, &read, false),
                };
                self.flows.touch(number, class, now_ns);
                number
            }
            None => self.open(&read, now_ns)?,
        };
        let port = self.flows.flow(number).port;
        let mut change = Ipv4::set_address(packet, true, self.address);
        if self.has(Planted::OldChecksum) {
            change = Change::default();
        }
        flow.proto.set_port(&mut packet[ip.header..ip.len], true, port, change);
        Ok(())
    }

    fn open(&mut self, read: &Transport, now_ns: u64) -> Result<u32, Reason> {
        let flow = read.flow;
        if self.flows.len() >= self.registers.size(Id::NatFlows) {
            self.flows.expire(now_ns, self.kept_ns(), 1024);
        }
        if self.flows.len() >= self.registers.size(Id::NatFlows) + usize::from(self.has(Planted::OneMore)) {
            return Err(Reason::NatFull);
        }
        let class = match flow.proto {
            Proto::Tcp => Class::Opening,
            Proto::Udp => Class::Udp,
            Proto::Echo => Class::Echo,
        };
        let remote = flow.dst;
        let is_free =
            |flows: &Flows, port: u16| port >= LOWEST && flows.by_outside(flow.proto, port, remote).is_none();
        let mut port = flow.src.1;
        let mut tries = 0;
        while !is_free(&self.flows, port) {
            if tries == TRIES {
                return Err(Reason::NoPort);
            }
            port = LOWEST + self.prng.below(u64::from(u16::MAX - LOWEST) + 1) as u16;
            tries += 1;
        }
        Ok(self.flows.add(flow.proto, flow.src, remote, port, class, now_ns))
    }

    /// From outside: whether the packet was of a flow, and has its host's address now.
    fn inward(&mut self, packet: &mut [u8], now_ns: u64) -> Result<bool, Reason> {
        // What is no packet is for the next stage to say.
        let Ok(ip) = Ipv4::parse(packet) else { return Ok(false) };
        if ip.dst != self.address {
            return Ok(false);
        }
        if let Some(at) = icmp::quoted_at(packet, &ip) {
            return Ok(self.quoted_inward(packet, &ip, at));
        }
        if ip.is_fragment {
            return Err(Reason::Fragment);
        }
        let Some(read) = transport(packet, &ip) else { return Ok(false) };
        let flow = read.flow;
        let found = match self.has(Planted::AnyRemote) {
            true => self.flows.by_port(flow.proto, flow.dst.1),
            false => self.flows.by_outside(flow.proto, flow.dst.1, flow.src),
        };
        let Some(number) = found.filter(|_| ip.len - ip.header >= flow.proto.header()) else {
            return Ok(false);
        };
        let inside = self.flows.flow(number).inside;
        let class = next_class(self.flows.flow(number).class, &read, true);
        if !self.has(Planted::Forgetful) {
            self.flows.touch(number, class, now_ns);
        }
        let change = Ipv4::set_address(packet, false, inside.0);
        flow.proto.set_port(&mut packet[ip.header..ip.len], false, inside.1, change);
        Ok(true)
    }

    /// An error from inside, or of the gateway's, about a packet that was translated back: the outside knows the other address.
    fn quoted_outward(&mut self, packet: &mut [u8], ip: &Ipv4, at: usize, is_local: bool) -> bool {
        let Some((quoted, read)) = quotation(packet, ip, at) else { return false };
        let flow = read.flow;
        let Some(number) = self.flows.by_inside(flow.proto, flow.dst, flow.src) else { return false };
        let port = self.flows.flow(number).port;
        put_into_quotation(&mut packet[at..ip.len], &quoted, flow.proto, false, (self.address, port));
        if !is_local {
            Ipv4::set_address(packet, true, self.address);
        }
        icmp::fill_checksum(packet, ip);
        true
    }

    /// An error from outside about a packet that was translated: it is for the host that sent it.
    fn quoted_inward(&mut self, packet: &mut [u8], ip: &Ipv4, at: usize) -> bool {
        let Some((quoted, read)) = quotation(packet, ip, at) else { return false };
        let flow = read.flow;
        if flow.src.0 != self.address {
            return false;
        }
        let Some(number) = self.flows.by_outside(flow.proto, flow.src.1, flow.dst) else { return false };
        let inside = self.flows.flow(number).inside;
        put_into_quotation(&mut packet[at..ip.len], &quoted, flow.proto, true, inside);
        Ipv4::set_address(packet, false, inside.0);
        icmp::fill_checksum(packet, ip);
        true
    }

    /// Holds what must hold.
    #[cfg(test)]
    pub fn check(&self) {
        self.flows.check();
    }
}

/// The packet that an error quotes, if the error itself is whole.
fn quotation(packet: &[u8], ip: &Ipv4, at: usize) -> Option<(Ipv4, Transport)> {
    // The sum is computed anew afterwards: damage must not be covered by that.
    if crate::packet::checksum::of(&packet[ip.header..ip.len]) != 0 {
        return None;
    }
    let bytes = &packet[at..ip.len];
    let quoted = Ipv4::parse_quoted(bytes).ok()?;
    Some((quoted, transport(bytes, &quoted)?))
}

fn put_into_quotation(bytes: &mut [u8], quoted: &Ipv4, proto: Proto, is_source: bool, end: table::End) {
    let change: Change = Ipv4::set_address(bytes, is_source, end.0);
    let end_at = quoted.len.min(bytes.len());
    proto.set_port(&mut bytes[quoted.header..end_at], is_source, end.1, change);
}

fn next_class(class: Class, read: &Transport, is_from_outside: bool) -> Class {
    match class {
        Class::Opening | Class::Established if read.fin || read.rst || read.syn && !is_from_outside => {
            Class::Opening
        }
        // A flow that was closed stays so until it is over, or opened again.
        Class::Opening if is_from_outside && read.syn => Class::Established,
        other => other,
    }
}

#[cfg(test)]
mod tests;
