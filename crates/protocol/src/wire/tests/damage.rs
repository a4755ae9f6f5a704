//! What was changed, cut or put together wrongly is refused, and by its right name.

use super::inverse::message;
use super::*;
use fields::at;
use proptest::prelude::*;

proptest! {
    #[test]
    fn flipped_bits_are_found(
        message in message(), bits in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        // No sum covers a proof: its tag does, for whoever has the key.
        let message = Message { proof: None, ..message };
        let whole = bytes_of(&message);
        let mut bytes = whole.clone();
        bits.iter().map(|bit| bit.index(8 * whole.len())).for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
        let said = whole.len() - message.padding;
        match Packet::parse(&bytes) {
            Ok(packet) => {
                prop_assert_eq!(&bytes[..said], &whole[..said], "only padding may differ");
                prop_assert_eq!(packet.to_message(), message);
            }
            Err(_) => prop_assert_ne!(&bytes[..said], &whole[..said]),
        }
    }

    #[test]
    fn cut_packets_are_refused(message in message(), cut: prop::sample::Index) {
        let whole = bytes_of(&message);
        let cut = cut.index(whole.len());
        match Packet::parse(&whole[..cut]) {
            Ok(packet) => prop_assert_eq!(packet.padding() + whole.len() - cut, message.padding),
            Err(why) => {
                prop_assert!(cut < whole.len() - message.padding);
                prop_assert_eq!(why, if cut < HEADER { Malformed::Short } else { Malformed::Length });
            }
        }
    }
}

#[test]
fn every_one_bit_of_every_example_counts() {
    for (name, message) in examples() {
        let whole = bytes_of(&message);
        let said = length(message.key.len(), message.value.len());
        for bit in 0..8 * said {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::parse(&bytes).is_err(), "{name}, bit {bit}");
        }
    }
}

#[test]
fn every_two_bits_of_the_header_count() {
    let whole = bytes_of(&fill());
    for first in 8 * 24..8 * at::VALUE_LEN {
        for second in first + 1..8 * at::VALUE_LEN {
            let mut bytes = whole.clone();
            bytes[first / 8] ^= 1 << (first % 8);
            bytes[second / 8] ^= 1 << (second % 8);
            assert_eq!(Packet::parse(&bytes), Err(Malformed::Checksum), "bits {first} and {second}");
        }
    }
}

/// A box of the simulator's network once flipped a bit of the last word and the same bit of a checksum in which that word
/// counted once.
#[test]
fn a_bit_anywhere_and_a_bit_of_the_checksum_count() {
    let whole = bytes_of(&fill());
    let sum = 8 * at::CHECKSUM..8 * (at::CHECKSUM + 8);
    for first in sum.clone() {
        for second in (0..8 * (whole.len() - fill().padding)).filter(|bit| !sum.contains(bit)) {
            let mut bytes = whole.clone();
            bytes[first / 8] ^= 1 << (first % 8);
            bytes[second / 8] ^= 1 << (second % 8);
            assert!(Packet::parse(&bytes).is_err(), "bits {first} and {second}");
        }
    }
}

/// What `change` makes of a good packet, whose hash and sum are made good again.
fn refusal(change: impl FnOnce(&mut Vec<u8>)) -> Result<Message, Malformed> {
    let mut bytes = bytes_of(&expanded());
    change(&mut bytes);
    dress(&mut bytes);
    Packet::parse(&bytes).map(|packet| packet.to_message())
}

#[test]
fn each_contradiction_has_its_name() {
    assert_eq!(refusal(|_| ()), Ok(expanded()));
    assert_eq!(refusal(|bytes| bytes[at::OPCODE] = 0), Err(Malformed::Opcode(0)));
    assert_eq!(refusal(|bytes| bytes[at::OPCODE] = 0xc0), Err(Malformed::Opcode(0xc0)));
    assert_eq!(refusal(|bytes| bytes[at::FLAGS] = 0x81), Err(Malformed::Flags(0x81)));
    assert_eq!(refusal(|bytes| bytes[at::KEY_LEN] = 0), Err(Malformed::Key));
    assert_eq!(refusal(|bytes| bytes[at::OPCODE] = Verb::Noop.code()), Err(Malformed::Key));
    assert_eq!(refusal(|bytes| bytes[at::OPCODE] = Control::Heartbeat.code()), Err(Malformed::Key));
    assert_eq!(refusal(|bytes| bytes[HEADER + 7] = 1), Err(Malformed::Filler));
    assert_eq!(refusal(|bytes| bytes[at::KIND] = 9), Err(Malformed::Kind(9)));
    assert_eq!(refusal(|bytes| bytes[at::STATUS] = 99), Err(Malformed::Status(99)));
    assert_eq!(refusal(|bytes| bytes[at::PORT..at::PORT + 2].fill(0)), Err(Malformed::Origin));
    assert_eq!(refusal(|bytes| bytes[at::SHARER_BOXES] = 0), Err(Malformed::Sharers), "a gap");
    assert_eq!(refusal(|bytes| bytes[at::SHARER_BOXES + 2] = 1), Err(Malformed::Sharers), "a box twice");
    assert_eq!(
        refusal(|bytes| bytes[at::SHARER_TOKENS + 31] = 1),
        Err(Malformed::Sharers),
        "a token of nobody"
    );
    let too_long = (MAX_VALUE as u32 + 1).to_le_bytes();
    let claim = |bytes: &mut Vec<u8>| {
        bytes.resize(MAX_DATAGRAM, 0);
        bytes[at::VALUE_LEN..][..4].copy_from_slice(&too_long);
    };
    assert_eq!(refusal(claim), Err(Malformed::Length));
}

#[test]
fn what_is_not_ours_is_told_apart() {
    let mut bytes = bytes_of(&fill());
    assert!(!is_packet(&bytes[..HEADER - 1]));
    bytes[at::HASH] ^= 1;
    let sum = {
        bytes[at::CHECKSUM..][..8].fill(0);
        extend(0, &bytes).wrapping_mul(BASE)
    };
    bytes[at::CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Hash));
    bytes[at::PROTOCOL] = 2;
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Protocol(2)));
    bytes[at::MAGIC] = b'M';
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Magic));
    assert!(!is_packet(&bytes));
    assert_eq!(Packet::parse(b""), Err(Malformed::Short));
}
