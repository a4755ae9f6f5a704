//! How much a client pads its GETs, so that a box's XDP program can write the reply over the request: nobody is answered with more bytes than
//! he sent, unless the request is sealed, and what is sealed the program leaves to the box.
//!
//! Every GET has room for a small value, which costs less than to be asked again. Of longer ones the client remembers how long they were, key by
//! key, and sends that many bytes after the key. Where no such box answers they are wasted, which an account bounds: what a reply from a box
//! filled is paid back with a share on top, the rest is lost. What is too long for the program, or the account, is asked for with a sealed request.
//!
//! ```text
//!  bytes of padding beyond 184 over the client's life  ≤  CREDIT + DRIP · GETs + useful bytes · (1 + coherence.pad_waste / 100)
//! ```
//!
//! Bounds: `PLACES` keys, by their hashes. Of two that share a place the one that boxes answer stays: a key that comes from its home needs a second
//! reply to push it out, else the many keys that no box has would push out the few that boxes have.
//! Cost: one look at a place for each GET and each reply.

use protocol::coherence::NodeId;
use protocol::wire::{Flags, KeyHash, MAX_FAST_VALUE, Message, Opcode, Status, Verb, padded};

/// Keys that are remembered, a power of two.
const PLACES: usize = 1 << 15;
/// Bytes of padding that every GET to a box has.
const SMALL: usize = 184;
/// Bytes of padding of what is tried at a box: the reply may be a number.
const NUMBER: usize = 24;
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
    /// It was longer than what is padded for.
    is_long: bool,
    /// A box answered for it, and no other key has claimed the place since.
    stays: bool,
}

impl Padding {
    /// `waste`: bytes in vain for a hundred useful ones; 0: nothing is padded.
    pub fn new(waste: u64) -> Padding {
        Padding { places: vec![Place::default(); PLACES].into(), credit: CREDIT, waste }
    }

    /// Pads what is about to be sent, if it may go without a seal: a read at a box, whose reply fits as far as is known. False: it is to be
    /// sealed, and is not padded.
    pub fn pad(&mut self, to: NodeId, request: &mut Message) -> bool {
        let Opcode::Request(verb) = request.header.opcode else { return false };
        // One that has room already was answered that its reply is long.
        if !matches!(to, NodeId::Box(_)) || request.padding > 0 {
            return false;
        }
        match request.header.flags {
            Flags::TRY => request.padding = NUMBER,
            Flags::NONE if verb == Verb::Get => match self.expected(request.hash()) {
                Some(bytes) => request.padding = bytes.max(SMALL),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Bytes of padding for a GET of such a key; none where they would be too many.
    fn expected(&mut self, hash: KeyHash) -> Option<usize> {
        self.credit = (self.credit + DRIP).min(CREDIT);
        let place = &mut self.places[hash.0 as usize % PLACES];
        if place.hash != hash {
            return Some(0);
        }
        let affordable = self.waste > 0 && u64::from(place.expected) <= self.credit;
        place.sent = if affordable { place.expected } else { 0 };
        self.credit -= u64::from(place.sent);
        (place.sent == place.expected && !place.is_long).then_some(place.sent.into())
    }

    /// Learns from what came.
    pub fn hear(&mut self, reply: &Message) {
        let is_get = reply.header.opcode == Opcode::Reply(Verb::Get);
        if !is_get || reply.header.status == Status::Pad {
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
        let fits = reply.header.status == Status::Ok && (SMALL + 1..=MAX_FAST_VALUE).contains(&bytes);
        let (expected, is_long) = (if fits { bytes as u16 } else { 0 }, bytes > MAX_FAST_VALUE);
        *place = Place { hash, expected, sent: 0, is_long, stays: from_box };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::{BoxId, HomeId};

    const TO: NodeId = NodeId::Box(BoxId(1));

    /// What a GET is padded by, beyond what all are; it is answered with so many bytes.
    fn ask(padding: &mut Padding, key: &[u8], bytes: usize, from_box: bool) -> usize {
        let mut request = Message::request(Verb::Get, key);
        let _is_plain = padding.pad(TO, &mut request);
        let mut reply = request.reply(Status::Ok);
        reply.value = vec![1; bytes];
        if from_box {
            reply.header.flags = Flags::FROM_BOX;
        }
        padding.hear(&reply);
        if request.padding == SMALL { 0 } else { request.padding }
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
        assert!(!padding.pad(NodeId::Home(HomeId(1)), &mut to_home));
        let mut again = Message::request(Verb::Get, b"key");
        again.header.flags = Flags::NO_CACHE;
        assert!(!padding.pad(TO, &mut again));
        let mut write = Message::request(Verb::Set, b"key");
        assert!(!padding.pad(TO, &mut write));
        assert_eq!([to_home.padding, again.padding, write.padding], [0; 3]);
        let mut tried = Message::request(Verb::Add, b"key");
        tried.header.flags = Flags::TRY;
        assert!(padding.pad(TO, &mut tried) && tried.padding == NUMBER);
        let mut told = Message { padding: 1200, ..Message::request(Verb::Get, b"other") };
        assert!(!padding.pad(TO, &mut told), "it is to be sealed");
        ask(&mut padding, b"long", 5000, true);
        assert!(!padding.pad(TO, &mut Message::request(Verb::Get, b"long")), "so is this");
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
