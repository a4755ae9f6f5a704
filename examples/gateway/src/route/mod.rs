//! L2 and L3: who a frame is for, where its packet goes next, and what the gateway says for itself (ARP, echo, errors).
//!
//! Invariants:
//! 1. A packet is changed only once its next neighbour is known: one that waits for ARP comes again as it was.
//! 2. A frame that is passed on has the neighbour's and the interface's hardware address, one router less to live, and a right header checksum.
//! 3. What comes from outside while NAT is on, and was not translated back, is for the gateway itself or ends here.
//! 4. A packet whose source is behind the tunnel came through it: nobody on a link gets past the seal by leaving it out. Nor does one with a source
//!    inside come from outside (RFC 3704).
//! 5. Errors are as RFC 1812 wants them, and at most [`ERRORS`] a second.
//!
//! Sources: RFC 826, 1122, 1191, 1812. Not here: IPv6, options (passed on as they are), cutting packets (RFC 1191's error instead,
//! whether or not the packet may be cut).

pub mod neighbours;
pub mod table;

use crate::net::{Link, Made, Meta, Net, Next, Out, Reason, Stage, Via, Zone};
use crate::packet::{Ipv4, Mac, ParseError, Proto, Transport, arp::Arp, ethernet, icmp, transport};
use neighbours::Neighbours;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// ICMP errors a second; a burst may be as long.
pub const ERRORS: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// The stage.
pub struct Route {
    net: Arc<Net>,
    neighbours: Neighbours,
    errors: u64,
    errors_since_ns: u64,
}

/// Where a packet leaves.
struct Way {
    interface: u8,
    hop: Ipv4Addr,
    mtu: usize,
    zone: Zone,
    seal: bool,
}

impl Route {
    /// For a network.
    pub fn new(net: Arc<Net>) -> Route {
        let mut neighbours = Neighbours::default();
        for &(interface, ip, mac) in &net.neighbours {
            neighbours.set((interface, ip), mac);
        }
        Route { net, neighbours, errors: ERRORS, errors_since_ns: 0 }
    }

    /// Passes a frame on, or not. What changes of it is in place.
    pub fn handle(&mut self, meta: &mut Meta, frame: &mut [u8], now_ns: u64, out: &mut Out) -> Next {
        match self.decide(meta, frame, now_ns, out) {
            Ok(next) => next,
            Err(reason) => Next::Drop(reason),
        }
    }

    fn decide(
        &mut self,
        meta: &mut Meta,
        frame: &mut [u8],
        now_ns: u64,
        out: &mut Out,
    ) -> Result<Next, Reason> {
        if !meta.has(Meta::LOCAL) && !meta.has(Meta::OPENED) {
            let (dst, _, ethertype) = ethernet::read(frame).ok_or(Reason::Malformed)?;
            let own = self.net.interfaces[usize::from(meta.interface)].mac;
            if dst != own && dst != Mac::BROADCAST {
                return Err(Reason::NotForUs);
            }
            match ethertype {
                ethernet::ARP => {
                    return self.handle_arp(meta.interface, &frame[ethernet::HEADER..], now_ns, out);
                }
                ethernet::IPV4 if dst == own => {}
                ethernet::IPV4 => return Err(Reason::NotForUs),
                _ => return Err(Reason::NotIpv4),
            }
        }
        let packet = frame.get_mut(ethernet::HEADER..).ok_or(Reason::Malformed)?;
        let ip = Ipv4::parse(packet).map_err(|error| match error {
            ParseError::Malformed => Reason::Malformed,
            ParseError::Checksum => Reason::BadChecksum,
        })?;
        // Ethernet pads short frames.
        meta.len = (ethernet::HEADER + ip.len) as u16;
        let packet = &mut packet[..ip.len];
        if !icmp::is_one_host(ip.src) || !icmp::is_one_host(ip.dst) {
            return Err(Reason::BadAddress);
        }
        if !meta.has(Meta::LOCAL) && self.is_elsewhere(*meta, ip.src) {
            return Err(Reason::Elsewhere);
        }
        if self.net.is_own(ip.dst) {
            return Ok(self.handle_own(*meta, packet, &ip, now_ns, out));
        }
        let is_local = meta.has(Meta::LOCAL);
        // A packet of ours that comes back is a loop, or forged.
        if !is_local && self.net.is_own(ip.src) {
            return Err(Reason::BadAddress);
        }
        self.forward(meta, frame, &ip, now_ns, out)
    }

    fn forward(
        &mut self,
        meta: &mut Meta,
        frame: &mut [u8],
        ip: &Ipv4,
        now_ns: u64,
        out: &mut Out,
    ) -> Result<Next, Reason> {
        let is_local = meta.has(Meta::LOCAL);
        let from = if is_local { Zone::Inside } else { self.net.zone_of(*meta) };
        let packet = &frame[ethernet::HEADER..ethernet::HEADER + ip.len];
        if !is_local && ip.ttl <= 1 {
            self.tell(icmp::Error::TimeExceeded, *meta, packet, now_ns, out);
            return Err(Reason::TtlExpired);
        }
        let Some(way) = self.way(ip.dst) else {
            self.tell(icmp::Error::NetUnreachable, *meta, packet, now_ns, out);
            return Err(Reason::NoRoute);
        };
        if self.net.nat.is_some()
            && from == Zone::Outside
            && way.zone == Zone::Inside
            && !meta.has(Meta::TRANSLATED)
        {
            return Err(Reason::NotTranslated);
        }
        if ip.len > way.mtu {
            self.tell(icmp::Error::FragmentationNeeded(way.mtu as u16), *meta, packet, now_ns, out);
            return Err(Reason::TooLong);
        }
        let found = self.neighbours.find((way.interface, way.hop), now_ns);
        if found.ask {
            out.made.push(self.question(way.interface, way.hop));
        }
        let Some(mac) = found.mac else {
            let waiting =
                Made { meta: *meta, is_ready: false, frame: frame[..usize::from(meta.len)].to_vec() };
            let held = self.neighbours.hold((way.interface, way.hop), now_ns, waiting);
            let given_up = held.map_err(|_| Reason::NeighboursFull)?;
            out.dropped.extend(given_up.map(|_| Reason::NeighboursFull));
            return Ok(Next::Taken);
        };
        ethernet::write(frame, mac, self.net.interfaces[usize::from(way.interface)].mac, ethernet::IPV4);
        if !is_local {
            Ipv4::decrement_ttl(&mut frame[ethernet::HEADER..]);
        }
        // An error of ours about a packet that NAT has put back quotes it as the outside knows it.
        let is_error = icmp::quoted_at(&frame[ethernet::HEADER..], ip).is_some();
        let translate = self.net.nat.is_some()
            && from == Zone::Inside
            && way.zone == Zone::Outside
            && (!is_local || is_error);
        *meta = Meta { interface: way.interface, ..meta.with(Meta::ROUTED) };
        if way.seal {
            *meta = meta.with(Meta::SEAL);
        }
        Ok(match (translate, way.seal) {
            (true, _) => Next::Stage(Stage::Nat),
            (false, true) => Next::Stage(Stage::Crypto),
            (false, false) => Next::Send,
        })
    }

    /// Whether a packet cannot have come that way: its source is behind the tunnel and it came without, or it is inside and came from outside.
    fn is_elsewhere(&self, meta: Meta, src: Ipv4Addr) -> bool {
        let came_outside = self.net.zone_of(meta) == Zone::Outside;
        match self.net.routes.find(src) {
            Some(Via::Tunnel) => !meta.has(Meta::OPENED),
            Some(Via::Interface(at, _)) => {
                came_outside && self.net.interfaces[usize::from(*at)].zone == Zone::Inside
            }
            None => false,
        }
    }

    /// Where packets for an address leave.
    fn way(&self, to: Ipv4Addr) -> Option<Way> {
        let (via, seal) = match (*self.net.routes.find(to)?, self.net.tunnel) {
            (Via::Tunnel, Some(link)) => (*self.net.routes.find(link.peer)?, Some(link)),
            (via, _) => (via, None),
        };
        // A tunnel within itself has no way.
        let Via::Interface(interface, router) = via else { return None };
        let carrier = &self.net.interfaces[usize::from(interface)];
        Some(Way {
            interface,
            hop: router.unwrap_or(seal.map_or(to, |link: Link| link.peer)),
            mtu: if seal.is_some() {
                carrier.mtu.saturating_sub(crate::tunnel::OVERHEAD)
            } else {
                carrier.mtu
            },
            zone: seal.map_or(carrier.zone, |link| link.zone),
            seal: seal.is_some(),
        })
    }

    fn handle_arp(
        &mut self,
        interface: u8,
        bytes: &[u8],
        now_ns: u64,
        out: &mut Out,
    ) -> Result<Next, Reason> {
        let arp = Arp::parse(bytes).ok_or(Reason::Malformed)?;
        let own = &self.net.interfaces[usize::from(interface)];
        let is_nat = self.net.nat == Some(arp.to.0) && own.zone == Zone::Outside;
        let is_for_us = arp.to.0 == own.address || is_nat;
        if !own.network.has(arp.from.0) || !icmp::is_one_host(arp.from.0) || self.net.is_own(arp.from.0) {
            return Err(Reason::BadAddress);
        }
        out.made.extend(self.neighbours.learn((interface, arp.from.0), arp.from.1, is_for_us, now_ns));
        if arp.asks && is_for_us {
            let answer = Arp { asks: false, from: (arp.to.0, own.mac), to: arp.from };
            out.made.push(Made::ready(interface, answer.frame(arp.from.1)));
        }
        Ok(Next::Taken)
    }

    fn question(&self, interface: u8, about: Ipv4Addr) -> Made {
        let own = &self.net.interfaces[usize::from(interface)];
        let question = Arp { asks: true, from: (own.address, own.mac), to: (about, Mac([0; 6])) };
        Made::ready(interface, question.frame(Mac::BROADCAST))
    }

    /// A packet for the gateway itself: it answers echo, and says that there is nothing else.
    fn handle_own(&mut self, meta: Meta, packet: &mut [u8], ip: &Ipv4, now_ns: u64, out: &mut Out) -> Next {
        let is_echo = ip.proto == 1 && !ip.is_fragment && packet.get(ip.header) == Some(&8);
        let echo = is_echo.then(|| transport(packet, ip)).flatten();
        if echo.is_some() {
            let (src, dst) = (ip.src, ip.dst);
            Ipv4::set_address(packet, true, dst);
            Ipv4::set_address(packet, false, src);
            packet[ip.header] = 0;
            let Ok(answer) = Ipv4::parse(packet) else { return Next::Drop(Reason::Malformed) };
            Transport::fill_checksum(packet, &answer, Proto::Echo);
            out.made.push(Made::local(packet));
            return Next::Taken;
        }
        if ip.proto == 17 {
            self.tell(icmp::Error::PortUnreachable, meta, packet, now_ns, out);
        }
        Next::Drop(Reason::NotForUs)
    }

    /// Tells the sender of a packet what is wrong with it.
    fn tell(&mut self, error: icmp::Error, meta: Meta, about: &[u8], now_ns: u64, out: &mut Out) {
        if meta.has(Meta::LOCAL) {
            return;
        }
        let fresh = now_ns.saturating_sub(self.errors_since_ns).saturating_mul(ERRORS) / SECOND;
        if fresh > 0 {
            self.errors = (self.errors + fresh).min(ERRORS);
            self.errors_since_ns = now_ns;
        }
        let from = match self.net.tunnel {
            Some(link) if meta.has(Meta::OPENED) => link.address,
            _ => self.net.interfaces[usize::from(meta.interface)].address,
        };
        if self.errors > 0
            && let Some(packet) = error.packet(from, about)
        {
            self.errors -= 1;
            out.made.push(Made::local(&packet));
        }
    }

    /// What is due: questions again, and errors for packets whose neighbour did not answer.
    pub fn tick(&mut self, now_ns: u64, out: &mut Out) {
        let (again, given_up) = self.neighbours.tick(now_ns);
        for (interface, ip) in again {
            out.made.push(self.question(interface, ip));
        }
        for Made { meta, frame, .. } in given_up {
            out.dropped.push(Reason::NoNeighbour);
            self.tell(icmp::Error::HostUnreachable, meta, &frame[ethernet::HEADER..], now_ns, out);
        }
    }
}

#[cfg(test)]
mod tests;
