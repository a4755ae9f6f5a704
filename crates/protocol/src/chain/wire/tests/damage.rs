//! Bytes that are no message are refused, whatever is wrong with them.

use super::*;
use crate::chain::transaction::TRACE_CONTEXT_BYTES;

#[test]
fn a_bit_that_changed_on_the_way_is_seen() {
    for (name, message) in examples() {
        let good = bytes_of(&message);
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(parse(&bytes), Err(ParseError::Checksum | ParseError::Foreign)),
                "{name}, bit {bit}"
            );
        }
    }
}

fn is_traced(message: &Message) -> bool {
    match message {
        Message::Request { transaction, .. } => transaction.trace.0.is_some(),
        Message::Trace { context, .. } => context.0.is_some(),
        _ => false,
    }
}

#[test]
fn what_is_cut_short_or_too_long_is_no_message() {
    for (name, message) in examples() {
        let good = bytes_of(&message);
        for len in 0..good.len() {
            let mut bytes = good[..len].to_vec();
            assert_eq!(parse(&bytes), Err(ParseError::Foreign), "{name}, {len} bytes");
            dress(&mut bytes);
            let read = parse(&bytes);
            // Whoever leaves out which trace a message belongs to, and counts and sums what is left, has one that is not traced.
            let is_untraced = is_traced(&message) && len + TRACE_CONTEXT_BYTES == good.len();
            assert_eq!(read.is_ok(), is_untraced, "{name}, {len} bytes");
            assert!(
                is_untraced || matches!(read, Err(ParseError::Foreign | ParseError::Malformed)),
                "{name}, {len} bytes"
            );
        }
        let mut bytes = [&good[..], &[0]].concat();
        assert_eq!(parse(&bytes), Err(ParseError::Foreign), "{name}");
        dress(&mut bytes);
        assert_eq!(parse(&bytes), Err(ParseError::Malformed), "{name}");
    }
}

#[test]
fn codes_and_versions_that_are_unknown_are_said_to_be() {
    let mut bytes = bytes_of(&Message::Open { token: 1 });
    bytes[7] = 9;
    dress(&mut bytes);
    assert_eq!(parse(&bytes), Err(ParseError::Kind(9)));
    assert_eq!(parse(&configuration().to_bytes(CHAIN)), Err(ParseError::Kind(STORED_CONFIGURATION)));
    assert_eq!(Configuration::from_bytes(&bytes), Err(ParseError::Kind(9)));
    bytes[6] = VERSION + 1;
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(parse(&bytes), Err(ParseError::Version(VERSION + 1)));
}

#[test]
fn what_version_4_kept_is_read_and_what_it_says_is_not() {
    let of_version = |mut bytes: Vec<u8>, version: u8| {
        bytes[6] = version;
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    for (version, is_read) in [(3, false), (VERSION, true), (VERSION + 1, false)] {
        let kept = Configuration::from_bytes(&of_version(ordered().to_bytes(CHAIN), version));
        let expected = if is_read { Ok((CHAIN, ordered())) } else { Err(ParseError::Version(version)) };
        assert_eq!(kept, expected);
    }
    // Before version 5 nothing was said of slots: two bytes, and four for each range, at the end.
    let mut kept = ordered().to_bytes(CHAIN);
    kept.truncate(kept.len() - 2 - 4 * ordered().slots.ranges().len());
    let length = (kept.len() - HEADER) as u32;
    kept[12..16].copy_from_slice(&length.to_le_bytes());
    let all = Configuration { slots: Slots::default(), ..ordered() };
    assert_eq!(Configuration::from_bytes(&of_version(kept.clone(), 4)), Ok((CHAIN, all)));
    assert_eq!(Configuration::from_bytes(&of_version(kept, VERSION)), Err(ParseError::Malformed));
    let said = of_version(bytes_of(&Message::Open { token: 1 }), 4);
    assert_eq!(parse(&said), Err(ParseError::Version(4)));
}

/// A message whose fields are these.
fn with_fields(kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; HEADER][..], fields].concat();
    bytes[7] = kind;
    dress(&mut bytes);
    bytes
}

#[test]
fn numbers_that_would_overflow_are_refused() {
    let ask = |session: u128, sequence: u64| {
        parse(&with_fields(7, &[&session.to_le_bytes()[..], &sequence.to_le_bytes()].concat()))
    };
    assert!(ask(u128::MAX, MAX_NUMBER - 1).is_ok(), "nothing is added to a session");
    assert_eq!(ask(0, MAX_NUMBER), Err(ParseError::Malformed));
}

#[test]
fn counts_and_lengths_beyond_the_end_are_refused() {
    let entries = [&4u64.to_le_bytes()[..], &u16::MAX.to_le_bytes()].concat();
    assert_eq!(parse(&with_fields(16, &entries)), Err(ParseError::Malformed));
    let chunk = [&[0; 32][..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(parse(&with_fields(20, &chunk)), Err(ParseError::Malformed));
    assert_eq!(Entry::parse_payload(Lsn(1), Epoch(1), &[0xff; 34]), None);
    assert_eq!(Outcome::parse(&[0; 14]), None);
}

#[test]
fn what_is_longer_than_a_frame_is_refused() {
    let chunk =
        |len| Message::Chunk { epoch: Epoch(1), offset: 0, extent: 0, after: Lsn(1), bytes: vec![0; len] };
    let around = bytes_of(&chunk(0)).len();
    assert!(parse(&bytes_of(&chunk(MAX_MESSAGE - around))).is_ok());
    assert_eq!(parse(&bytes_of(&chunk(MAX_MESSAGE - around + 1))), Err(ParseError::Foreign));
}
