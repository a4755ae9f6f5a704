//! The hash of a key and the checksum of a packet: both made of 64-bit multiplications, because these are what eBPF has.
//!
//! **Checksum.** The packet as little-endian 32-bit words `w`, the checksum's own two as 0, is the polynomial
//! `h = h * P + w` modulo 2^64. Any change of bits in one word is found, for P is odd. Any two flipped bits are found: in
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

use super::KeyHash;

/// The base of the checksum's polynomial: 5 modulo 8.
pub const BASE: u64 = 0xd134_2543_de82_ef95;

/// Multiplies each word of a key.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Multiplies what came of all.
const FINISH: u64 = 0xd6e8_feb8_6659_fd93;

const BASE_2: u64 = BASE.wrapping_mul(BASE);
const BASE_4: u64 = BASE_2.wrapping_mul(BASE_2);
const POWERS: [u64; 8] = {
    let mut powers = [1u64; 8];
    let mut i = 7;
    while i > 0 {
        powers[i - 1] = powers[i].wrapping_mul(BASE);
        i -= 1;
    }
    powers
};

/// The sum of these bytes after those whose sum is `before` (0: none). `bytes` must be a multiple of 4.
#[inline]
pub fn extend(before: u64, bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len().is_multiple_of(4), "whole words");
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sum = before;
    for block in blocks {
        let mut part = 0u64;
        for (word, power) in block.as_chunks::<4>().0.iter().zip(POWERS) {
            part = part.wrapping_add(u64::from(u32::from_le_bytes(*word)).wrapping_mul(power));
        }
        sum = sum.wrapping_mul(BASE_4.wrapping_mul(BASE_4)).wrapping_add(part);
    }
    for word in rest.as_chunks::<4>().0 {
        sum = sum.wrapping_mul(BASE).wrapping_add(u64::from(u32::from_le_bytes(*word)));
    }
    sum
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
