//! The fingerprint of a run: a 64-bit number that two runs share only if the same events happened in the same order.
//!
//! It takes numbers and bytes of stated width, never an address or a `usize`, so that it is the same on every machine. Feed it
//! every event that is handled: a run that differs anywhere then differs in the end, and comparing fingerprints after n events
//! finds where.
//!
//! Each word goes through SplitMix64's mixing, a bijection, so what once differed stays different until some later word happens to
//! undo it: one chance in 2⁶⁴ per word. It is no protection against people.
//!
//! Cost: 2–3 ns per word; an event is three.

use crate::queue::Event;
use base::prng::mix64;
use std::fmt;

/// A running hash of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a run in which nothing happened.
    pub const fn new() -> Fingerprint {
        Fingerprint(0)
    }

    /// The one whose [`Fingerprint::value`] this is.
    pub const fn from_value(value: u64) -> Fingerprint {
        Fingerprint(value)
    }

    /// One number happened.
    #[inline]
    pub const fn number(&mut self, word: u64) {
        self.0 = mix64(self.0 ^ word);
    }

    /// These bytes happened, as one: their length is part of it.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }

    /// An event was handled; `kind` says what sort it was.
    #[inline]
    pub fn event<E>(&mut self, event: &Event<E>, kind: u32) {
        self.number(event.at.0);
        self.number(event.sequence);
        self.number(u64::from(event.source) << 32 | u64::from(kind));
    }

    /// The fingerprint so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Picos;

    #[test]
    fn it_is_part_of_the_contract() {
        let mut print = Fingerprint::new();
        print.event(&Event { at: Picos(12), source: 3, sequence: 4, what: () }, 5);
        print.bytes(b"nine bytes");
        assert_eq!(print.to_string(), "981e7aac1db60f1e");
    }

    #[test]
    fn order_and_lengths_matter() {
        let of = |feed: &dyn Fn(&mut Fingerprint)| {
            let mut print = Fingerprint::new();
            feed(&mut print);
            print.value()
        };
        let prints = [
            of(&|_| {}),
            of(&|p| p.bytes(b"")),
            of(&|p| p.bytes(b"\0")),
            of(&|p| p.bytes(b"ab")),
            of(&|p| (p.bytes(b"a"), p.bytes(b"b")).1),
            of(&|p| (p.number(1), p.number(2)).1),
            of(&|p| (p.number(2), p.number(1)).1),
        ];
        for (i, print) in prints.iter().enumerate() {
            assert!(!prints[..i].contains(print), "{i}");
        }
    }
}
