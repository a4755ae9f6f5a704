//! The network as a gateway sees it, and what travels beside a packet from stage to stage.
//!
//! ```text
//!  from inside    route ──▶ NAT ──▶ crypto (seal)      ▶ interface
//!  from outside   crypto (open) ──▶ NAT ──▶ route      ▶ interface
//! ```
//! A *zone* is a side of NAT: interfaces are inside or outside, and so is the tunnel, which is an interface that others carry. A packet that comes
//! from outside is translated back before it is routed; one that goes from inside to outside is translated after. What comes on an interface
//! that carries the tunnel is looked at by the crypto stage first, which opens what is the tunnel's and passes on the rest.

use crate::packet::{Mac, ethernet};
use crate::route::table::{Prefix, Table};
use std::fmt;
use std::net::Ipv4Addr;

/// A function of the gateway, which is on the host or on the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// L2 and L3: neighbours, routes, time to live, errors.
    Route = 0,
    /// Source translation and back.
    Nat = 1,
    /// Sealing for the tunnel, and opening.
    Crypto = 2,
}

impl Stage {
    /// All of them, by number.
    pub const ALL: [Stage; 3] = [Stage::Route, Stage::Nat, Stage::Crypto];

    /// As config files and tables name it.
    pub fn name(self) -> &'static str {
        ["route", "nat", "crypto"][self as usize]
    }
}

/// A side of NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Whose addresses are hidden.
    Inside,
    /// Who sees the gateway's.
    Outside,
}

/// An interface of the gateway.
#[derive(Clone, Debug)]
pub struct Interface {
    /// As the system names it.
    pub name: String,
    /// Its hardware address.
    pub mac: Mac,
    /// The gateway's address there.
    pub address: Ipv4Addr,
    /// The network that is on the link.
    pub network: Prefix,
    /// Bytes of the longest packet.
    pub mtu: usize,
    /// Its side.
    pub zone: Zone,
}

/// The tunnel, as a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The interface that carries it, by number.
    pub interface: u8,
    /// The other gateway.
    pub peer: Ipv4Addr,
    /// The UDP port of both.
    pub port: u16,
    /// The gateway's address in it: what errors come from, and NAT's if no other is named.
    pub address: Ipv4Addr,
    /// Its side.
    pub zone: Zone,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// To an interface: to the neighbour itself, or by a router there.
    Interface(u8, Option<Ipv4Addr>),
    /// Through the tunnel.
    Tunnel,
}

/// All that does not change while a gateway runs.
#[derive(Debug)]
pub struct Net {
    /// Up to 255 of them.
    pub interfaces: Vec<Interface>,
    /// If there is one.
    pub tunnel: Option<Link>,
    /// Where to, by destination: the networks of the interfaces are in it.
    pub routes: Table<Via>,
    /// NAT's address, where it is on.
    pub nat: Option<Ipv4Addr>,
    /// Neighbours that are not asked for: interface, address, hardware address.
    pub neighbours: Vec<(u8, Ipv4Addr, Mac)>,
}

impl Net {
    /// Whether the gateway itself is meant.
    pub fn is_own(&self, ip: Ipv4Addr) -> bool {
        let tunnel = self.tunnel.is_some_and(|link| link.address == ip);
        tunnel || self.nat == Some(ip) || self.interfaces.iter().any(|interface| interface.address == ip)
    }

    /// The stage that sees a frame first, and what travels beside it.
    pub fn arrival(&self, interface: u8) -> Meta {
        let meta = Meta { interface, ..Meta::default() };
        let is_carrier = self.tunnel.is_some_and(|link| link.interface == interface);
        Meta { stage: if is_carrier { Stage::Crypto } else { self.after_crypto(meta) }, ..meta }
    }

    /// The stage after the one that opens: NAT's for what comes from outside.
    pub fn after_crypto(&self, meta: Meta) -> Stage {
        if self.nat.is_some() && self.zone_of(meta) == Zone::Outside { Stage::Nat } else { Stage::Route }
    }

    /// The side that a packet came from.
    pub fn zone_of(&self, meta: Meta) -> Zone {
        match self.tunnel {
            Some(link) if meta.has(Meta::OPENED) => link.zone,
            _ => self.interfaces[usize::from(meta.interface)].zone,
        }
    }

    /// Bytes of the longest packet through the tunnel.
    pub fn tunnel_mtu(&self) -> usize {
        let carrier = self.tunnel.map_or(0, |link| self.interfaces[usize::from(link.interface)].mtu);
        carrier.saturating_sub(crate::tunnel::OVERHEAD)
    }
}

/// What travels beside a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Bytes before the frame in its slot.
    pub start: u16,
    /// Bytes of the frame.
    pub len: u16,
    /// The stage that is next.
    pub stage: Stage,
    /// Where it came from; once it is routed, where it goes to.
    pub interface: u8,
    /// What is known of it: see the constants.
    pub flags: u8,
}

impl Default for Meta {
    fn default() -> Meta {
        Meta { start: 0, len: 0, stage: Stage::Route, interface: 0, flags: 0 }
    }
}

impl Meta {
    /// Bytes of it that cross with a packet: a slot's number and time with it.
    pub const BYTES: usize = 32;
    /// The gateway itself says it.
    pub const LOCAL: u8 = 1;
    /// It came through the tunnel.
    pub const OPENED: u8 = 2;
    /// It goes through the tunnel.
    pub const SEAL: u8 = 4;
    /// NAT has put the inside address back.
    pub const TRANSLATED: u8 = 8;
    /// It is routed: its interface is the one that it leaves by.
    pub const ROUTED: u8 = 16;

    /// Whether a flag is set.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// With a flag set.
    #[must_use]
    pub fn with(self, flag: u8) -> Meta {
        Meta { flags: self.flags | flag, ..self }
    }

    /// Where the frame lies in its slot.
    pub fn range(self) -> std::ops::Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// What becomes of a packet after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another stage.
    Stage(Stage),
    /// It leaves by its interface.
    Send,
    /// It was for the gateway itself, or is kept until a neighbour answers.
    Taken,
    /// It ends here.
    Drop(Reason),
}

/// A frame that a stage made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Whence it goes on: its stage is the next. None: it leaves at once.
    pub meta: Meta,
    /// It is ready for its interface.
    pub is_ready: bool,
    /// The frame.
    pub frame: Vec<u8>,
}

impl Made {
    /// A packet of the gateway's own, to be routed.
    pub fn local(packet: &[u8]) -> Made {
        let mut frame = vec![0; ethernet::HEADER];
        frame.extend_from_slice(packet);
        let meta = Meta { len: frame.len() as u16, ..Meta::default() }.with(Meta::LOCAL);
        Made { meta, is_ready: false, frame }
    }

    /// A frame that leaves by this interface.
    pub fn ready(interface: u8, frame: Vec<u8>) -> Made {
        Made { meta: Meta { len: frame.len() as u16, interface, ..Meta::default() }, is_ready: true, frame }
    }
}

/// What a stage says besides what becomes of a packet.
#[derive(Debug, Default)]
pub struct Out {
    /// Frames that it made.
    pub made: Vec<Made>,
    /// Packets that it had kept and gave up.
    pub dropped: Vec<Reason>,
}

macro_rules! reasons {
    ($($id:ident $text:literal,)*) => {
        /// Why a packet ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // each carries its text
        pub enum Reason { $($id),* }

        impl Reason {
            /// All of them, by number.
            pub const ALL: &'static [Reason] = &[$(Reason::$id),*];

            /// As tables say it.
            pub fn text(self) -> &'static str {
                match self { $(Reason::$id => $text),* }
            }
        }
    };
}

reasons! {
    Malformed "malformed",
    BadChecksum "bad header checksum",
    NotForUs "not for this gateway",
    NotIpv4 "not IPv4",
    BadAddress "address of no one host",
    Elsewhere "source belongs to another side",
    TtlExpired "time to live over",
    NoRoute "no route",
    TooLong "longer than the next link takes",
    NoNeighbour "no neighbour answered",
    NeighboursFull "too many wait for neighbours",
    NotTranslated "from outside, of no flow",
    Fragment "fragment before NAT",
    NotTranslatable "protocol that NAT does not know",
    NatFull "NAT's table is full",
    NoPort "no port left for the flow",
    NoSession "no session with the other gateway",
    Replay "sequence number seen or too old",
    NotSealed "not sealed with our key",
    UnitLost "compute unit lost in the middle",
    NotSent "interface did not take it",
    Busy "too many on their way",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
