//! How much a client pads its GETs, so that a box's XDP program can write the reply over the request.
//!
//! A frame can grow by some 200 bytes in the driver, no more; a longer reply fits only a request that was as long already. So the client
//! remembers how long values were, key by key, and sends that many bytes after the key. Where no such box answers they are wasted, which an
//! account bounds: what a reply from a box filled is paid back with a share on top, the rest is lost.
//!
//! ```text
//!  padded bytes over the client's life  ≤  CREDIT + DRIP · GETs + useful bytes · (1 + coherence.pad_waste / 100)
//! ```
//!
//! Bounds: `PLACES` keys, by their hashes. Of two that share a place the one that boxes answer stays: a key that comes from its home needs a second
//! reply to push it out, else the many keys that no box has would push out the few that boxes have.
//! Cost: one look at a place for each GET and each reply.

use protocol::coherence::NodeId;
use protocol::wire::{Flags, KeyHash, Message, Opcode, Status, Verb, padded};

/// Keys that are remembered, a power of two.
const PLACES: usize = 1 << 15;
/// Bytes by which a reply may be longer than its request without padding. Drivers give some more; this is what is sure.
const GROWTH: usize = 184;
/// Bytes that may be wasted before any was useful.
const CREDIT: u64 = 64 << 10;
/// Bytes that a GET adds to what may be wasted, so that padding is tried again now and then.
const DRIP: u64 = 8;

/// What a client remembers.
#[derive(Clone, Debug)]
pub struct Padding {
    places: Box<[Place]>,
    /// Bytes that may be wasted.
    credit: u64,
    /// In a hundred of the useful ones.
    waste: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: KeyHash,
    /// Of the key's value with its filler, when it was last seen; 0: not worth padding.
    expected: u16,
    /// Of the last request.
    sent: u16,
    /// A box answered for it, and no other key has claimed the place since.
    stays: bool,
}

impl Padding {
    /// `waste`: bytes in vain for a hundred useful ones; 0: nothing is padded.
    pub fn new(waste: u64) -> Padding {
        Padding { places: vec![Place::default(); PLACES].into(), credit: CREDIT, waste }
    }

    /// Pads what is about to be sent, if it is a GET to a box whose reply would not fit otherwise.
    pub fn pad(&mut self, to: NodeId, request: &mut Message) {
        let plain =
            request.header.opcode == Opcode::Request(Verb::Get) && request.header.flags == Flags::NONE;
        if self.waste == 0 || !plain || !matches!(to, NodeId::Box(_)) {
            return;
        }
        self.credit = (self.credit + DRIP).min(CREDIT);
        let hash = request.hash();
        let place = &mut self.places[hash.0 as usize % PLACES];
        if place.hash != hash {
            return;
        }
        let affordable = u64::from(place.expected) <= self.credit;
        place.sent = if affordable { place.expected } else { 0 };
        self.credit -= u64::from(place.sent);
        request.padding = usize::from(place.sent);
    }

    /// Learns from what came.
    pub fn hear(&mut self, reply: &Message) {
        if self.waste == 0 || reply.header.opcode != Opcode::Reply(Verb::Get) {
            return;
        }
        let hash = reply.hash();
        let place = &mut self.places[hash.0 as usize % PLACES];
        let bytes = padded(reply.value.len());
        let from_box = reply.header.flags.contains(Flags::FROM_BOX);
        if place.hash == hash && from_box {
            let useful = bytes.min(usize::from(place.sent)) as u64;
            self.credit = (self.credit + useful + useful * self.waste / 100).min(CREDIT);
        }
        if place.hash != hash && place.stays && !from_box {
            place.stays = false;
            return;
        }
        let fits = reply.header.status == Status::Ok && (GROWTH + 1..=xdp::MAX_VALUE).contains(&bytes);
        *place = Place { hash, expected: if fits { bytes as u16 } else { 0 }, sent: 0, stays: from_box };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::{BoxId, HomeId};

    const TO: NodeId = NodeId::Box(BoxId(1));

    /// What a GET is padded by; it is answered with so many bytes.
    fn ask(padding: &mut Padding, key: &[u8], bytes: usize, from_box: bool) -> usize {
        let mut request = Message::request(Verb::Get, key);
        padding.pad(TO, &mut request);
        let mut reply = request.reply(Status::Ok);
        reply.value = vec![1; bytes];
        if from_box {
            reply.header.flags = Flags::FROM_BOX;
        }
        padding.hear(&reply);
        request.padding
    }

    #[test]
    fn it_learns_how_long_a_value_is() {
        let mut padding = Padding::new(100);
        let sizes = [(1000, 0), (1000, 1000), (517, 1000), (517, 520), (100, 520), (1025, 0), (1000, 0)];
        for (bytes, padded) in sizes {
            assert_eq!(ask(&mut padding, b"key", bytes, true), padded);
        }
        assert_eq!(ask(&mut padding, b"another", 1000, true), 0);
    }

    #[test]
    fn a_key_that_boxes_answer_is_not_pushed_out_by_one_that_they_do_not() {
        let mut padding = Padding::new(100);
        let at = |i: u32| Message::request(Verb::Get, &i.to_le_bytes()).hash().0 as usize % PLACES;
        let other = (1..).find(|i| at(*i) == at(0)).expect("some key shares the place");
        ask(&mut padding, &0u32.to_le_bytes(), 1000, true);
        ask(&mut padding, &other.to_le_bytes(), 1000, false);
        assert_eq!(ask(&mut padding, &0u32.to_le_bytes(), 1000, true), 1000, "one reply does not claim it");
        ask(&mut padding, &other.to_le_bytes(), 1000, false);
        ask(&mut padding, &other.to_le_bytes(), 1000, false);
        assert_eq!(ask(&mut padding, &0u32.to_le_bytes(), 1000, true), 0, "two do");
    }

    #[test]
    fn only_plain_gets_to_boxes_are_padded() {
        let mut padding = Padding::new(100);
        ask(&mut padding, b"key", 1000, true);
        let mut to_home = Message::request(Verb::Get, b"key");
        padding.pad(NodeId::Home(HomeId(1)), &mut to_home);
        let mut again = Message::request(Verb::Get, b"key");
        again.header.flags = Flags::NO_CACHE;
        padding.pad(TO, &mut again);
        let mut write = Message::request(Verb::Set, b"key");
        padding.pad(TO, &mut write);
        assert_eq!([to_home.padding, again.padding, write.padding], [0; 3]);
        assert_eq!(ask(&mut padding, b"key", 1000, true), 1000);
    }

    #[test]
    fn what_is_wasted_is_bounded_by_what_is_useful() {
        for waste in [0, 10, 100, 1000] {
            let mut padding = Padding::new(waste);
            let (mut useful, mut wasted) = (0, 0);
            for i in 0..100_000u64 {
                // One in ten is answered by a box; the other keys never are.
                let from_box = i % 10 == 0;
                let sent = ask(&mut padding, &[from_box.into()], 1000, from_box) as u64;
                *(if from_box { &mut useful } else { &mut wasted }) += sent;
            }
            assert!(wasted <= CREDIT + DRIP * 100_000 + useful * waste / 100, "{waste}: {wasted}, {useful}");
            assert_eq!(useful > 0, waste > 0);
            assert!(waste < 1000 || wasted > useful * 8, "what is allowed is used");
        }
    }
}
