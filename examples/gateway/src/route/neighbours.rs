//! Who has which hardware address on a link, found out by ARP.
//!
//! ```text
//!  unknown ── a packet for it ──▶ asked, once a second, three times ── answer ──▶ known ── 60 s without a word ──▶ unknown
//!                                      └── no answer: the packets that wait are given up
//! ```
//! Invariants: only who was asked for, or asks for us, is learnt, so that strangers cannot fill the table. A known neighbour is asked again
//! after 30 s, while packets still go to it.
//!
//! Bounds: [`MOST`] neighbours; [`HELD`] packets wait for each, the oldest are given up.

use crate::net::Made;
use crate::packet::Mac;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Neighbours, known or asked for.
pub const MOST: usize = 1024;
/// Packets that wait for one of them.
pub const HELD: usize = 4;
const SECOND: u64 = 1_000_000_000;
const TRIES: u32 = 3;
const FRESH: u64 = 30 * SECOND;
const STALE: u64 = 60 * SECOND;

/// An interface's number and an address there.
pub type Place = (u8, Ipv4Addr);

enum State {
    Static(Mac),
    Known { mac: Mac, seen_ns: u64, asked_ns: u64 },
    Asked { tries: u32, asked_ns: u64, held: Vec<Made> },
}

/// What is known of a neighbour that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// It is to be asked.
    pub ask: bool,
}

/// All of them.
#[derive(Default)]
pub struct Neighbours {
    known: HashMap<Place, State>,
}

impl Neighbours {
    /// One that is never asked for.
    pub fn set(&mut self, place: Place, mac: Mac) {
        self.known.insert(place, State::Static(mac));
    }

    /// Looks for a neighbour that a packet goes to.
    pub fn find(&mut self, place: Place, now_ns: u64) -> Found {
        match self.known.get_mut(&place) {
            Some(State::Static(mac)) => Found { mac: Some(*mac), ask: false },
            Some(State::Known { mac, seen_ns, asked_ns }) if now_ns < *seen_ns + STALE => {
                let ask = now_ns >= *seen_ns + FRESH && now_ns >= *asked_ns + SECOND;
                if ask {
                    *asked_ns = now_ns;
                }
                Found { mac: Some(*mac), ask }
            }
            Some(State::Asked { .. }) => Found { mac: None, ask: false },
            _ => Found { mac: None, ask: true },
        }
    }

    /// Keeps a packet until the neighbour answers: the packet that was given up for it, or `Err` where no neighbour more can be asked for.
    pub fn hold(&mut self, place: Place, now_ns: u64, packet: Made) -> Result<Option<Made>, Made> {
        if !matches!(self.known.get(&place), Some(State::Asked { .. })) {
            if self.known.len() >= MOST && !self.known.contains_key(&place) {
                return Err(packet);
            }
            self.known.insert(place, State::Asked { tries: 1, asked_ns: now_ns, held: Vec::new() });
        }
        let Some(State::Asked { held, .. }) = self.known.get_mut(&place) else { return Err(packet) };
        held.push(packet);
        Ok((held.len() > HELD).then(|| held.remove(0)))
    }

    /// A neighbour said who it is: the packets that waited for it. `is_for_us`: it asked for this gateway, and is learnt if there is room.
    pub fn learn(&mut self, place: Place, mac: Mac, is_for_us: bool, now_ns: u64) -> Vec<Made> {
        let is_new = !self.known.contains_key(&place);
        if (is_new && (!is_for_us || self.known.len() >= MOST))
            || matches!(self.known.get(&place), Some(State::Static(_)))
        {
            return Vec::new();
        }
        match self.known.insert(place, State::Known { mac, seen_ns: now_ns, asked_ns: now_ns }) {
            Some(State::Asked { held, .. }) => held,
            _ => Vec::new(),
        }
    }

    /// Whom to ask again, and the packets of those who did not answer.
    pub fn tick(&mut self, now_ns: u64) -> (Vec<Place>, Vec<Made>) {
        let (mut again, mut given_up) = (Vec::new(), Vec::new());
        self.known.retain(|place, state| match state {
            State::Static(_) => true,
            State::Known { seen_ns, .. } => now_ns < *seen_ns + STALE,
            State::Asked { asked_ns, .. } if now_ns < *asked_ns + SECOND => true,
            State::Asked { tries, asked_ns, held } => {
                (*tries, *asked_ns) = (*tries + 1, now_ns);
                if *tries > TRIES {
                    given_up.append(held);
                    return false;
                }
                again.push(*place);
                true
            }
        });
        (again, given_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (0, Ipv4Addr::new(10, 0, 0, 2));
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn packet(byte: u8) -> Made {
        Made::local(&[byte])
    }

    #[test]
    fn packets_wait_for_the_answer_and_no_longer_than_three_questions() {
        let mut all = Neighbours::default();
        assert_eq!(all.find(PLACE, 0), Found { mac: None, ask: true });
        for byte in 0..HELD as u8 {
            assert_eq!(all.hold(PLACE, 0, packet(byte)), Ok(None));
        }
        assert_eq!(all.hold(PLACE, 0, packet(9)), Ok(Some(packet(0))), "the oldest is given up");
        assert_eq!(all.find(PLACE, 1), Found { mac: None, ask: false });
        assert_eq!(all.tick(SECOND).0, [PLACE]);
        assert_eq!(all.tick(SECOND + 1), (vec![], vec![]));
        assert_eq!(all.learn(PLACE, MAC, false, SECOND + 2).len(), HELD);
        assert_eq!(all.find(PLACE, 2 * SECOND), Found { mac: Some(MAC), ask: false });
        assert_eq!(all.find(PLACE, 32 * SECOND), Found { mac: Some(MAC), ask: true });
        assert_eq!(all.find(PLACE, 32 * SECOND), Found { mac: Some(MAC), ask: false });
        assert_eq!(all.find(PLACE, 62 * SECOND), Found { mac: None, ask: true });
        assert_eq!(all.hold(PLACE, 62 * SECOND, packet(1)), Ok(None));
        assert_eq!(all.tick(63 * SECOND).0, [PLACE]);
        assert_eq!(all.tick(64 * SECOND).0, [PLACE]);
        assert_eq!(all.tick(65 * SECOND).1, [packet(1)]);
        assert_eq!(all.find(PLACE, 65 * SECOND), Found { mac: None, ask: true });
    }

    #[test]
    fn strangers_do_not_fill_the_table_and_a_static_neighbour_stays() {
        let mut all = Neighbours::default();
        for n in 0..2 * MOST as u32 {
            all.learn((0, Ipv4Addr::from(n)), MAC, false, 0);
        }
        assert!(all.known.is_empty());
        for n in 0..2 * MOST as u32 {
            all.learn((0, Ipv4Addr::from(n)), MAC, true, 0);
        }
        assert_eq!(all.known.len(), MOST);
        assert_eq!(all.hold((1, Ipv4Addr::LOCALHOST), 0, packet(1)), Err(packet(1)));
        all.set(PLACE, MAC);
        all.learn(PLACE, Mac::BROADCAST, true, 0);
        all.tick(1000 * SECOND);
        assert_eq!(all.find(PLACE, 1000 * SECOND), Found { mac: Some(MAC), ask: false });
    }
}
