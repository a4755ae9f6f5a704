//! TCP, UDP and ICMP echo: the two numbers that name a flow, and where checksums are.

use super::{Ipv4, checksum, set_u16, u16_at};
use std::net::Ipv4Addr;

/// What NAT knows to translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proto {
    /// Ports.
    Tcp,
    /// Ports.
    Udp,
    /// Echo requests and replies: the identifier is the port of whoever asks.
    Echo,
}

/// A packet's place in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Of what.
    pub proto: Proto,
    /// From.
    pub src: (Ipv4Addr, u16),
    /// To.
    pub dst: (Ipv4Addr, u16),
}

/// What was read of a transport's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Its flow. An echo request has its identifier as source port, a reply as destination port; the other is 0.
    pub flow: Flow,
    /// Of TCP.
    pub syn: bool,
    /// Of TCP.
    pub fin: bool,
    /// Of TCP.
    pub rst: bool,
}

/// Reads the header behind that of `ip`; none for other protocols, for ICMP that is no echo, and for headers that are not whole. `packet` may end
/// after eight bytes of it where an ICMP error quotes it: TCP's flags are then not known.
pub fn transport(packet: &[u8], ip: &Ipv4) -> Option<Transport> {
    let body = packet.get(ip.header..ip.len.min(packet.len()))?;
    if body.len() < 8 || ip.is_later_fragment {
        return None;
    }
    let ports = (u16_at(body, 0), u16_at(body, 2));
    let of = |proto, src, dst| Flow { proto, src: (ip.src, src), dst: (ip.dst, dst) };
    let plain = |flow| Transport { flow, syn: false, fin: false, rst: false };
    match ip.proto {
        6 => {
            let flags = body.get(13).copied().unwrap_or(0);
            let flow = of(Proto::Tcp, ports.0, ports.1);
            Some(Transport { flow, syn: flags & 2 != 0, fin: flags & 1 != 0, rst: flags & 4 != 0 })
        }
        17 => Some(plain(of(Proto::Udp, ports.0, ports.1))),
        1 => match body[0] {
            8 => Some(plain(of(Proto::Echo, u16_at(body, 4), 0))),
            0 => Some(plain(of(Proto::Echo, 0, u16_at(body, 4)))),
            _ => None,
        },
        _ => None,
    }
}

impl Proto {
    /// Where in the transport's header the port of a source or a destination is.
    fn port_at(self, is_source: bool) -> usize {
        match self {
            Proto::Echo => 4,
            _ if is_source => 0,
            _ => 2,
        }
    }

    /// Where in the transport's header the checksum is.
    fn checksum_at(self) -> usize {
        match self {
            Proto::Tcp => 16,
            Proto::Udp => 6,
            Proto::Echo => 2,
        }
    }

    /// The least bytes of a whole header.
    pub fn header(self) -> usize {
        if self == Proto::Tcp { 20 } else { 8 }
    }

    /// Puts another port in, and mends the checksum, where it is there, by this and by `change` of the addresses.
    ///
    /// `body` begins with the transport's header, eight bytes of it at least.
    pub fn set_port(self, body: &mut [u8], is_source: bool, port: u16, change: checksum::Change) {
        let at = self.port_at(is_source);
        // ICMP sums no addresses.
        let change = if self == Proto::Echo { checksum::Change::default() } else { change };
        let change = change.word(u16_at(body, at), port);
        set_u16(body, at, port);
        let sum_at = self.checksum_at();
        if body.len() < sum_at + 2 {
            return;
        }
        let old = u16_at(body, sum_at);
        // UDP without a checksum stays without; one that comes out as 0 is sent as all ones.
        match (self, change.apply(old)) {
            (Proto::Udp, _) if old == 0 => {}
            (Proto::Udp, 0) => set_u16(body, sum_at, 0xFFFF),
            (_, new) => set_u16(body, sum_at, new),
        }
    }
}

impl Transport {
    /// Computes the checksum of a whole packet anew: for packets whose sender left it to hardware, and for tests. True if it was right.
    pub fn fill_checksum(packet: &mut [u8], ip: &Ipv4, proto: Proto) -> bool {
        let body = &mut packet[ip.header..ip.len];
        let at = proto.checksum_at();
        let old = u16_at(body, at);
        set_u16(body, at, 0);
        let pseudo = match proto {
            Proto::Echo => 0,
            _ => checksum::pseudo(ip.src, ip.dst, ip.proto, body.len()),
        };
        let sum = match checksum::finish(pseudo + checksum::sum(body)) {
            0 if proto == Proto::Udp => 0xFFFF,
            sum => sum,
        };
        set_u16(body, at, sum);
        sum == old || (proto == Proto::Udp && old == 0)
    }
}
