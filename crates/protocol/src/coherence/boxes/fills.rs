//! Fills that a box waits for: only a reply with a living token makes a copy.
//!
//! A token dies when it is used, when its key is invalidated (so a reply that was under way then fills nothing), or when so
//! much time has passed that nothing good can come of it any more. Then its place is free.
//!
//! Shape: the hash chooses a set of eight places, so that killing a key's tokens looks at one set.
//!
//! Invariants: 1. tokens are unique for the life of the box, restarts included: 24 bits of incarnation, 40 of a count;
//! 2. never more than the places it was made with.

use crate::wire::{Incarnation, KeyHash, Token};
use base::Nanos;

const WAYS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Fill {
    hash: KeyHash,
    /// 0: the place is free.
    token: Token,
    asked: Nanos,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fills {
    places: Vec<Fill>,
    next: u64,
    patience: Nanos,
}

impl Fills {
    /// With at least `entries` places; a token is given up after `patience`.
    pub fn new(entries: usize, incarnation: Incarnation, patience: Nanos) -> Fills {
        let sets = entries.max(1).div_ceil(WAYS).next_power_of_two();
        let next = u64::from(incarnation.0) << 40 | 1;
        Fills { places: vec![Fill::default(); sets * WAYS], next, patience }
    }

    /// A token for a fill that is asked for now; none where all places are taken.
    pub fn begin(&mut self, hash: KeyHash, now: Nanos) -> Option<Token> {
        let (patience, token) = (self.patience, Token(self.next));
        let free = |fill: &&mut Fill| fill.token == Token(0) || now.since(fill.asked) >= patience;
        let place = self.set(hash).iter_mut().find(free)?;
        *place = Fill { hash, token, asked: now };
        self.next += 1;
        Some(token)
    }

    /// Uses a token up: when it was given, if it lives.
    pub fn take(&mut self, hash: KeyHash, token: Token) -> Option<Nanos> {
        let place = self
            .set(hash)
            .iter_mut()
            .find(|fill| fill.hash == hash && fill.token == token && token != Token(0))?;
        Some(std::mem::take(place).asked)
    }

    /// Kills the tokens of this hash.
    pub fn kill(&mut self, hash: KeyHash) {
        for place in self.set(hash) {
            if place.hash == hash {
                *place = Fill::default();
            }
        }
    }

    /// Kills all.
    pub fn kill_all(&mut self) {
        self.places.fill(Fill::default());
    }

    fn set(&mut self, hash: KeyHash) -> &mut [Fill] {
        let sets = self.places.len() / WAYS;
        // Not the bits that choose the set of copies: keys that crowd one should not crowd the other.
        let first = ((hash.0 >> 7) as usize & (sets - 1)) * WAYS;
        &mut self.places[first..first + WAYS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: KeyHash = KeyHash(77);

    #[test]
    fn a_token_is_good_once() {
        let mut fills = Fills::new(8, Incarnation(3), Nanos(100));
        let token = fills.begin(H, Nanos(5)).expect("room");
        assert_eq!(fills.take(H, Token(0)), None);
        assert_eq!(fills.take(H, token), Some(Nanos(5)));
        assert_eq!(fills.take(H, token), None);
    }

    #[test]
    fn an_invalidation_kills_all_tokens_of_the_key() {
        let mut fills = Fills::new(8, Incarnation(3), Nanos(100));
        let tokens = [0; 3].map(|_| fills.begin(H, Nanos(5)).expect("room"));
        let other = fills.begin(KeyHash(78), Nanos(5)).expect("room");
        fills.kill(H);
        assert!(tokens.iter().all(|token| fills.take(H, *token).is_none()));
        assert!(fills.take(KeyHash(78), other).is_some());
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let mut fills = Fills::new(8, Incarnation(3), Nanos(100));
        let first: Vec<_> = (0..8).map(|_| fills.begin(H, Nanos(5)).expect("room")).collect();
        assert_eq!(fills.begin(H, Nanos(104)), None);
        let late = fills.begin(H, Nanos(105)).expect("patience is over");
        assert!(first.iter().filter(|token| fills.take(H, **token).is_some()).count() == 7);
        assert!(fills.take(H, late).is_some());
    }

    #[test]
    fn incarnations_never_share_a_token() {
        let mut old = Fills::new(8, Incarnation(3), Nanos(100));
        let mut new = Fills::new(8, Incarnation(4), Nanos(100));
        let token = old.begin(H, Nanos(0)).expect("room");
        new.begin(H, Nanos(0));
        assert_eq!(new.take(H, token), None);
    }
}
