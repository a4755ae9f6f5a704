//! The hash of a key and the checksum of a packet: both made of 64-bit multiplications, because these are what eBPF has.
//!
//! **Checksum.** The packet as little-endian 32-bit words `w`, the checksum's own two as 0, is the polynomial
//! `h = h * P + w` modulo 2^64, and once more times P, so that the last word counts otherwise than the checksum itself.
//! Any change of bits in one word is found, for P is odd. Any two flipped bits are found: in
//! different positions of their words because 2^i·P^k and 2^j differ in their lowest bit; in the same position i < 32
//! because P^k = ±1 modulo 2^(64-i) is false for 0 < k < 2^31 when P is 5 modulo 8. This is why the words are of 32 bits
//! though the sum has 64. Other damage, and what changes a length and so the words that are summed, passes with a chance of
//! about 2^-64.
//!
//! Why not CRC-32C: eBPF has no instruction for it, and a table costs a load per byte. Why not the Internet's sum: it does
//! not see exchanged words. And a polynomial can be put together: a box in XDP stores with each entry the sum of its key and
//! value and P to their count of words, so that answering costs the header's 40 words, however long the value is.
//!
//! **Hash.** Over the same zero-filled 8-byte words in which the key lies in the packet. Two multiplications at the end,
//! because with one the last word's highest bits reach some bits of the hash always or never.
//!
//! Cost: see [`Packet`](super::Packet).

use super::{HEADER, KeyHash};

/// The base of the checksum's polynomial: 5 modulo 8.
pub const BASE: u64 = 0xd134_2543_de82_ef95;

/// Multiplies each word of a key.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Multiplies what came of all.
const FINISH: u64 = 0xd6e8_feb8_6659_fd93;

const LANES: usize = 8;
/// By how many words follow in a block: its words are summed side by side, for a multiplication takes longer than it blocks.
const POWERS: [u64; LANES] = {
    let mut powers = [0; LANES];
    let mut i = 0;
    while i < LANES {
        powers[i] = power(LANES - 1 - i);
        i += 1;
    }
    powers
};

/// The sum of these bytes after those whose sum is `before` (0: none).
///
/// # Panics
/// Where `bytes` are no multiple of 4.
#[inline]
pub fn extend(before: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty(), "a sum is of whole words");
    let (blocks, words) = words.as_chunks::<LANES>();
    let (pairs, words) = words.as_chunks::<2>();
    let sum = blocks.iter().fold(before, append);
    let sum = pairs.iter().fold(sum, append);
    words.iter().fold(sum, |sum, word| append(sum, &[*word]))
}

#[inline]
fn append<const N: usize>(sum: u64, words: &[[u8; 4]; N]) -> u64 {
    let mut part = sum.wrapping_mul(const { power(N) });
    for (word, power) in words.iter().zip(&POWERS[LANES - N..]) {
        part = part.wrapping_add(u64::from(u32::from_le_bytes(*word)).wrapping_mul(*power));
    }
    part
}

/// The sum of a header whose checksum, at this offset, counts as 0: one multiplication a word, none waits for another.
#[inline]
pub(super) fn of_header<const CHECKSUM: usize>(head: &[u8; HEADER]) -> u64 {
    const WORDS: usize = HEADER / 4;
    let weights = const {
        let mut weights = [0; WORDS];
        let mut i = 0;
        while i < WORDS {
            let counts = i < CHECKSUM / 4 || i >= CHECKSUM / 4 + 2;
            weights[i] = if counts { power(WORDS - 1 - i) } else { 0 };
            i += 1;
        }
        weights
    };
    let words = head.as_chunks::<4>().0.iter().zip(&weights);
    words.fold(0, |sum, (word, weight)| {
        u64::from(u32::from_le_bytes(*word)).wrapping_mul(*weight).wrapping_add(sum)
    })
}

/// [`BASE`] to the power of `words`: the sum of A then B is `sum(A) * power(words of B) + sum(B)`.
#[inline]
pub const fn power(mut words: usize) -> u64 {
    let (mut result, mut base) = (1u64, BASE);
    while words > 0 {
        if words & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        words >>= 1;
    }
    result
}

/// The hash under which tables, switches and the registration table know a key.
#[inline]
pub fn key_hash(key: &[u8]) -> KeyHash {
    let mut hash = (key.len() as u64).wrapping_mul(FINISH);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    hash = hash.wrapping_mul(FINISH);
    hash = (hash ^ hash >> 32).wrapping_mul(FINISH);
    KeyHash((hash >> 32) as u32)
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(SPREAD);
    product ^ product >> 32
}
