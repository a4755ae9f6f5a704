//! What the numbers of a packet are called, so that no two of them can be mistaken for each other.

use base::Nanos;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

numbers! {
    /// What a client matches a reply to its request by. Reused soon: [`ClientId`] and [`OpNumber`] name an operation for good.
    RequestId(u16);
    /// A key's hash, [`key_hash`](super::key_hash).
    KeyHash(u32);
    /// The home's number for a write: higher than of every earlier write to the key; memcached's cas. 0: none.
    Version(u64);
    /// Given by a box to a fill that it waits for; never used twice in an incarnation. A reply without it fills nothing.
    Token(u64);
    /// Of the registration table; the controller counts up.
    Epoch(u32);
    /// A box. 0 is none.
    BoxId(u16);
    /// A home.
    HomeId(u16);
    /// Drawn at random by a box when it starts: what it said in an earlier life is void.
    Incarnation(u32);
    /// A client, for as long as it lives: drawn at random. 0: nobody who would need his operations told apart.
    ClientId(u64);
    /// A client's operation, counted from 1. A retransmitted operation keeps its number. 0: none.
    OpNumber(u64);
    /// Of an invalidation, a lease, a heartbeat: an answer returns it.
    Round(u64);
}

impl BoxId {
    /// No box.
    pub const NONE: BoxId = BoxId(0);
}

/// Time that an item, or a lease, has left.
///
/// Times travel as what remains, for clocks of machines differ. What remains is counted from before it was said: who
/// keeps an item counts from the moment at which it *asked* (gave the token), never from when the answer came. So a copy
/// dies before its original, however long the answer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// For ever.
    pub const NEVER: Ttl = Ttl(u64::MAX);
    /// As long as what was there before; where nothing was, for ever.
    pub const KEPT: Ttl = Ttl(u64::MAX - 1);

    /// So long; [`Nanos::MAX`] is for ever.
    pub const fn new(left: Nanos) -> Ttl {
        Ttl(left.0)
    }

    /// What is left at `now` of something that ends at `end` on the same clock; [`Nanos::MAX`] is never.
    pub fn until(end: Nanos, now: Nanos) -> Ttl {
        if end == Nanos::MAX { Ttl::NEVER } else { Ttl(end.0.saturating_sub(now.0)) }
    }

    /// As it travels; all ones for ever.
    pub const fn nanos(self) -> Nanos {
        Nanos(self.0)
    }
}

impl Default for Ttl {
    fn default() -> Ttl {
        Ttl::NEVER
    }
}

/// The original client's address, put into a packet by the first box: an IPv4 address is mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    address: Ipv6Addr,
    port: u16,
    /// Bytes that he may be answered with. It travels in the [`Proof`](super::Proof) of whoever sends the packet on.
    pub room: u32,
}

impl Origin {
    /// The room of one who has proven who he is: as much as there is.
    pub const PROVEN: u32 = u32::MAX;

    /// None where the port is 0, from which nobody sends. It may be answered with nothing yet.
    pub fn new(from: SocketAddr) -> Option<Origin> {
        let address = match from.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Origin::from_parts(address, from.port())
    }

    pub(super) fn from_parts(address: Ipv6Addr, port: u16) -> Option<Origin> {
        (port != 0).then_some(Origin { address, port, room: 0 })
    }

    /// The same, to be answered with at most so many bytes.
    #[must_use]
    pub const fn with_room(self, room: u32) -> Origin {
        Origin { room, ..self }
    }

    /// Where to send the reply.
    pub fn socket_addr(self) -> SocketAddr {
        SocketAddr::new(self.address.to_canonical(), self.port)
    }

    pub(super) fn address(self) -> Ipv6Addr {
        self.address
    }

    pub(super) fn port(self) -> u16 {
        self.port
    }
}

/// A box that waits for a fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharer {
    /// Which box.
    pub at: BoxId,
    /// Of its pending fill.
    pub token: Token,
}

/// The boxes on a request's way that would keep the reply, from the client's side on. The home records them and returns them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Sharers {
    places: [Sharer; Sharers::MAX],
}

impl Sharers {
    /// Places in a packet. A box that finds none free sends the request on and keeps nothing.
    pub const MAX: usize = 4;

    /// Enters a box, or its newer token. False where no place is free.
    ///
    /// # Panics
    /// For [`BoxId::NONE`].
    pub fn push(&mut self, at: BoxId, token: Token) -> bool {
        assert!(at != BoxId::NONE, "a box has an id");
        let place = self.places.iter_mut().find(|place| place.at == at || place.at == BoxId::NONE);
        place.map(|place| *place = Sharer { at, token }).is_some()
    }

    /// The token of this box, if it is among them.
    pub fn token_of(&self, at: BoxId) -> Option<Token> {
        self.iter().find(|sharer| sharer.at == at).map(|sharer| sharer.token)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Sharer> + '_ {
        self.places.iter().copied().take_while(|place| place.at != BoxId::NONE)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether nobody would keep it.
    pub fn is_empty(&self) -> bool {
        self.places[0].at == BoxId::NONE
    }

    /// None where there are gaps, remains in free places or a box twice.
    pub(super) fn from_places(places: [Sharer; Sharers::MAX]) -> Option<Sharers> {
        let used = places.iter().take_while(|place| place.at != BoxId::NONE).count();
        let clean = places[used..].iter().all(|place| *place == Sharer::default());
        let once = (1..used).all(|i| places[..i].iter().all(|earlier| earlier.at != places[i].at));
        (clean && once).then_some(Sharers { places })
    }

    pub(super) fn places(&self) -> &[Sharer; Sharers::MAX] {
        &self.places
    }
}

impl fmt::Debug for Sharers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
