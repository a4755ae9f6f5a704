//! Damaged messages: both refuse or both accept, but for the differences below; never a panic; memory within the limits.
//!
//! | we accept, prost-reflect refuses | why |
//! |---|---|
//! | a known field of another wire type | an unknown field, says protobuf |
//! | proto2 strings that are not UTF-8 | not checked in proto2 |
//! | a tenth byte of a varint above 1 | bits beyond the 64th are dropped, as C++ does |
//! | a fifth byte of a tag above 15 | bits beyond the 32nd are dropped, as C++ does |
//!
//! | we refuse, prost-reflect accepts | why |
//! |---|---|
//! | a missing required field | prost does not know of them |
//! | more memory than the limits allow | prost has no such limit |
//! | a tag of more than five bytes | as C++ does |
//!
//! prost-reflect takes any wire type for a map's entry and reads on somewhere: verdicts on schemas with maps say nothing.

use crate::Case;
use crate::wire::{Piece, Side, render};
use base::prng::{Prng, mix64};
use codec::decode::{Fault, Limits};

/// Damaged forms of one message, besides the truncations.
const DAMAGES: usize = 24;
/// A message up to this long is cut at every offset, a longer one at as many chosen ones.
const CUTS: usize = 160;

/// All damages of one message.
pub fn check(case: &Case, pieces: &[Piece]) -> Result<(), String> {
    let bytes = render(pieces, Side::Ours);
    let seed = bytes.iter().fold(0, |hash, &byte| mix64(hash ^ u64::from(byte)));
    let mut prng = Prng::new(seed);
    let cuts = bytes.len().min(CUTS);
    for cut in 0..cuts {
        let at = if bytes.len() <= CUTS { cut } else { prng.below(bytes.len() as u64) as usize };
        compare(case, &bytes[..at]).map_err(|why| format!("cut at {at}: {why}"))?;
    }
    for _ in 0..DAMAGES {
        let mut damaged = bytes.clone();
        for _ in 0..1 + prng.below(3) {
            damage(&mut damaged, &mut prng);
        }
        compare(case, &damaged).map_err(|why| format!("damaged to {damaged:02x?}: {why}"))?;
    }
    Ok(())
}

/// One random change. Lengths, tags, end-group tags and text are all bytes, so changing bytes reaches them all.
fn damage(bytes: &mut Vec<u8>, prng: &mut Prng) {
    if bytes.is_empty() {
        bytes.push(prng.next_u64() as u8);
    }
    let at = prng.below(bytes.len() as u64) as usize;
    let to = (at + 1 + prng.below(12) as usize).min(bytes.len());
    match prng.below(8) {
        0 => bytes[at] ^= 1 << prng.below(8),
        1 => bytes[at] = prng.next_u64() as u8,
        2 => bytes[at] = [0, 0x7f, 0x80, 0xff][prng.below(4) as usize],
        3 => bytes[at] = bytes[at].wrapping_add(1),
        4 => bytes.insert(at, [0x80, 0xff, 0x0b, 0x0c, 0][prng.below(5) as usize]),
        5 => drop(bytes.drain(at..to)),
        6 => bytes.extend_from_within(at..to),
        _ => {
            let run = bytes[at..to].to_vec();
            let into = prng.below(bytes.len() as u64) as usize;
            drop(bytes.splice(into..into, run));
        }
    }
}

fn compare(case: &Case, bytes: &[u8]) -> Result<(), String> {
    let theirs = case.oracle.decode(&case.oracle.class("t.M0"), bytes);
    match (case.ours.check(bytes, Limits::default())?, theirs) {
        _ if case.schema.maps => Ok(()),
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => Ok(()),
        (Ok(_), Err(why)) => {
            let excused = why.contains("(expected")
                || why.contains("not UTF-8") && !case.schema.proto3
                || why.contains("invalid varint") && has_long_varint(bytes, 9, 2)
                || why.contains("invalid key value") && has_long_varint(bytes, 4, 16);
            if excused { Ok(()) } else { Err(format!("we accept it, they say: {why}")) }
        }
        (Err(error), Ok(_)) => {
            let excused =
                error.fault == Fault::Required || error.fault == Fault::Tag && has_long_varint(bytes, 5, 0);
            if excused { Ok(()) } else { Err(format!("they accept it, we say: {error}")) }
        }
    }
}

/// True if somewhere `before` bytes that go on are followed by one that is at least `last`.
fn has_long_varint(bytes: &[u8], before: usize, last: u8) -> bool {
    bytes.windows(before + 1).any(|run| run[..before].iter().all(|&byte| byte >= 0x80) && run[before] >= last)
}
