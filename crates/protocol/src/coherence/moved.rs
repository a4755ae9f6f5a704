//! Homes that are at another address than the file says: a part of the registration table, by order of an operator.
//!
//! ```text
//!  order ──▶ controller: (home, address, epoch of its next table) ──▶ TABLE ──▶ boxes ──▶ their books ([`super::book`])
//!                             ▲                                                   │
//!                             ╰────────── what it does not know of ◀── HEARTBEAT_ACK
//! ```
//! A home's slots stay its own, and so does its id; its *place* is another. Whoever was told of two places of one home goes by the one of the higher epoch, in
//! whatever order he hears of them.
//!
//! Shape on the wire, before whatever else the value says (kind [`Kind::Homes`]; with another kind no home has moved): how many there are (2 bytes), six of 0;
//! for each, numbers little-endian: home (2), port (2), epoch (4), address (16; of IPv4 the mapped one).
//!
//! Invariants: 1. homes rise, and are of the layout, so that there are no more than these; 2. nobody's addresses are refused: a port of 0, an unspecified
//! address; 3. reading and writing are inverse to each other; 4. an epoch never falls ([`Moved::learn`]).
//!
//! Bounds: the homes of the layout.

use super::table::Layout;
use crate::wire::{Epoch, HomeId, Kind, Message};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Where a home is, and since which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// By which the others reach it.
    pub address: SocketAddr,
    /// Of the first table that said so; higher than that of any place where it was before.
    pub epoch: Epoch,
}

impl Place {
    /// There, since this table. None where nobody can be there.
    pub fn new(address: SocketAddr, epoch: Epoch) -> Option<Place> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let is_nobodys = address.port() == 0 || address.ip().is_unspecified();
        (!is_nobodys).then_some(Place { address, epoch })
    }
}

/// The homes that have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moved(BTreeMap<HomeId, Place>);

impl Moved {
    /// Bytes of the count on the wire.
    pub(crate) const HEAD: usize = 8;
    /// Bytes of a home on the wire.
    pub(crate) const BYTES: usize = 24;

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = (HomeId, Place)> + '_ {
        self.0.iter().map(|(home, place)| (*home, *place))
    }

    /// Where this one is, if it has moved.
    pub fn of(&self, home: HomeId) -> Option<Place> {
        self.0.get(&home).copied()
    }

    /// The highest epoch of all; 0 of none.
    pub fn newest(&self) -> Epoch {
        self.0.values().map(|place| place.epoch).max().unwrap_or_default()
    }

    /// A home is there, if that is news; whether it is.
    pub fn insert(&mut self, home: HomeId, place: Place) -> bool {
        let is_new = self.of(home).is_none_or(|known| known.epoch < place.epoch);
        if is_new {
            self.0.insert(home, place);
        }
        is_new
    }

    /// Takes from `other` what is news; whether anything is.
    pub fn learn(&mut self, other: &Moved) -> bool {
        other.iter().fold(false, |news, (home, place)| self.insert(home, place) || news)
    }

    /// As [`Moved::learn`], of what others have, too: they keep what they have. It stays the same value where nothing is news.
    pub fn learn_into(shared: &mut Arc<Moved>, told: &Moved) -> bool {
        let is_news =
            told.iter().any(|(home, place)| shared.of(home).is_none_or(|old| old.epoch < place.epoch));
        is_news && Arc::make_mut(shared).learn(told)
    }

    /// Has a message say this before what its value says. Where no home has moved the message stays as it is.
    pub fn tell(&self, message: &mut Message) {
        if self.is_empty() {
            return;
        }
        message.header.kind = Kind::Homes;
        let mut value = self.to_bytes();
        value.append(&mut message.value);
        message.value = value;
    }

    /// What a message says of the homes of a layout, and the rest of its value; none where it makes no sense.
    pub fn told<'a>(message: &'a Message, layout: &Layout) -> Option<(Moved, &'a [u8])> {
        match message.header.kind {
            Kind::Homes => Moved::split(&message.value, layout),
            _ => Some((Moved::default(), &message.value)),
        }
    }

    /// As messages carry them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = u16::try_from(self.0.len()).expect("ids are of 16 bits, and 0 is none's");
        let mut bytes = Vec::with_capacity(Moved::HEAD + self.0.len() * Moved::BYTES);
        bytes.extend(count.to_le_bytes());
        bytes.extend([0; Moved::HEAD - 2]);
        for (home, Place { address, epoch }) in self.iter() {
            bytes.extend(home.0.to_le_bytes());
            bytes.extend(address.port().to_le_bytes());
            bytes.extend(epoch.0.to_le_bytes());
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend(ip.octets());
        }
        bytes
    }

    /// What [`Moved::to_bytes`] wrote of the homes of this layout, and what follows it; none where it is anything else.
    pub fn split<'a>(bytes: &'a [u8], layout: &Layout) -> Option<(Moved, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<{ Moved::HEAD }>()?;
        let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let is_zero = head[2..].iter().all(|byte| *byte == 0);
        let (places, rest) = rest.split_at_checked(count * Moved::BYTES).filter(|_| is_zero)?;
        let (chunks, _) = places.as_chunks::<{ Moved::BYTES }>();
        let mut moved = Moved::default();
        for chunk in chunks {
            let two = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
            let home = HomeId(two(0));
            let epoch = Epoch(u32::from_le_bytes(*chunk[4..].first_chunk()?));
            let ip = Ipv6Addr::from(*chunk.last_chunk::<16>()?).to_canonical();
            let place = Place::new(SocketAddr::new(ip, two(2)), epoch)?;
            let rises = moved.0.last_key_value().is_none_or(|(last, _)| *last < home);
            if !rises || !layout.has_home(home) {
                return None;
            }
            moved.0.insert(home, place);
        }
        Some((moved, rest))
    }
}

impl FromIterator<(HomeId, Place)> for Moved {
    /// Of two places of one home, that of the higher epoch.
    fn from_iter<T: IntoIterator<Item = (HomeId, Place)>>(places: T) -> Moved {
        let mut moved = Moved::default();
        for (home, place) in places {
            moved.insert(home, place);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Control, Opcode};
    use proptest::prelude::*;

    fn place(port: u16, epoch: u32) -> Place {
        Place::new(SocketAddr::from(([10, 0, 0, 1], port)), Epoch(epoch)).expect("somebody's")
    }

    fn layout(homes: u16) -> Layout {
        Layout::two_levels(1, 0, homes, 8).expect("a layout")
    }

    #[test]
    fn the_higher_epoch_counts_in_whatever_order() {
        let [old, new] = [place(1, 5), place(2, 9)].map(|place| Moved::from_iter([(HomeId(1), place)]));
        for order in [[&old, &new], [&new, &old]] {
            let mut moved = Moved::default();
            order.iter().for_each(|one| {
                moved.learn(one);
            });
            assert_eq!((&moved, moved.newest()), (&new, Epoch(9)));
            assert!(!moved.learn(&old) && !moved.learn(&new), "nothing of it is news");
        }
        assert_eq!(Moved::default().newest(), Epoch(0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let two = Moved::from_iter([(HomeId(1), place(1, 5)), (HomeId(2), place(2, 6))]);
        let good = two.to_bytes();
        assert_eq!(good.len(), 8 + 2 * 24);
        assert_eq!(Moved::split(&good, &layout(2)), Some((two, &[][..])));
        assert_eq!(Moved::split(&good, &layout(1)), None, "there is no home 2");
        let with = |at: usize, bytes: &[u8]| {
            let mut bad = good.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            bad
        };
        for (why, bad) in [
            ("shorter than its count", good[..good.len() - 1].to_vec()),
            ("no count", good[..7].to_vec()),
            ("a filler that is not 0", with(2, &[1])),
            ("homes that fall", with(8, &[2])),
            ("a port of nobody", with(10, &[0, 0])),
            ("an address of nobody", with(8 + 8, &[0; 16])),
        ] {
            assert_eq!(Moved::split(&bad, &layout(2)), None, "{why}");
        }
    }

    #[test]
    fn a_message_says_it_before_what_else_it_says() {
        let moved = Moved::from_iter([(HomeId(1), place(7, 3))]);
        let mut message = Message::new(Opcode::Control(Control::Table), &[]);
        message.value = b"rest".to_vec();
        let plain = message.clone();
        Moved::default().tell(&mut message);
        assert_eq!(message, plain, "no home has moved: as ever");
        assert_eq!(Moved::told(&message, &layout(1)), Some((Moved::default(), &b"rest"[..])));
        moved.tell(&mut message);
        assert_eq!(Moved::told(&message, &layout(1)), Some((moved, &b"rest"[..])));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            places in prop::collection::btree_map(1u16..20, (any::<[u8; 16]>(), 1u16.., any::<u32>()), 0..20),
            rest in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let places = places.into_iter().filter_map(|(home, (ip, port, epoch))| {
                Some((HomeId(home), Place::new((ip, port).into(), Epoch(epoch))?))
            });
            let moved: Moved = places.collect();
            let bytes = [moved.to_bytes(), rest.clone()].concat();
            prop_assert_eq!(Moved::split(&bytes, &layout(19)), Some((moved, &rest[..])));
        }

        #[test]
        fn bytes_are_places_or_refused(count in 0u8..3, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&[count, 0, 0, 0, 0, 0, 0, 0], &bytes[..]].concat();
            if let Some((moved, rest)) = Moved::split(&bytes, &layout(1000)) {
                prop_assert_eq!([&moved.to_bytes(), rest].concat(), bytes);
            }
        }
    }
}
