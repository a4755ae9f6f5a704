//! Fills that a box waits for: only a reply with a living token makes a copy.
//!
//! A token dies when it is used, when its key is invalidated (so a reply that was under way then fills nothing), or when so
//! much time has passed that nothing good can come of it any more. Then its place is free.
//!
//! A token that asks for ownership outlives its key's invalidation, which may well be for the write that asks. It remembers the
//! home's round, and that it is good only for what the home gave after that; grants of ownership say so, replies to reads do not.
//!
//! Shape: the hash chooses a set of eight places, so that killing a key's tokens looks at one set.
//!
//! Invariants: 1. tokens are unique for the life of the box, restarts included: 24 bits of incarnation, 40 of a count;
//! 2. never more than the places it was made with.

use super::shards::Shard;
use crate::wire::{Incarnation, KeyHash, Round, Token};
use base::Nanos;

const WAYS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Fill {
    hash: KeyHash,
    /// 0: the place is free.
    token: Token,
    asked: Nanos,
    /// For ownership: not given before this round.
    after: Option<Round>,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fills {
    places: Vec<Fill>,
    next: u64,
    /// From one token to the next.
    step: u64,
    patience: Nanos,
}

impl Fills {
    /// With at least `entries` places; a token is given up after `patience`.
    pub fn new(entries: usize, incarnation: Incarnation, patience: Nanos) -> Fills {
        let sets = entries.max(1).div_ceil(WAYS).next_power_of_two();
        let next = u64::from(incarnation.0) << 40 | 1;
        Fills { places: vec![Fill::default(); sets * WAYS], next, step: 1, patience }
    }

    /// The same as the table of one shard: no two of a box give the same token.
    #[must_use]
    pub fn of_shard(mut self, shard: Shard) -> Fills {
        (self.next, self.step) = shard.numbers(self.next);
        self
    }

    /// A token for a fill that is asked for now; none where all places are taken.
    pub fn begin(&mut self, hash: KeyHash, now: Nanos) -> Option<Token> {
        self.enter(Fill { hash, asked: now, token: Token(0), after: None })
    }

    /// The same for a key that is to be owned.
    pub fn begin_to_own(&mut self, hash: KeyHash, now: Nanos) -> Option<Token> {
        self.enter(Fill { hash, asked: now, token: Token(0), after: Some(Round(0)) })
    }

    fn enter(&mut self, fill: Fill) -> Option<Token> {
        let (hash, now) = (fill.hash, fill.asked);
        let (patience, token) = (self.patience, Token(self.next));
        let free = |fill: &&mut Fill| fill.token == Token(0) || now.since(fill.asked) >= patience;
        let place = self.set(hash).iter_mut().find(free)?;
        *place = Fill { token, ..fill };
        self.next += self.step;
        Some(token)
    }

    /// Uses a token up: when it was given, if it lives and is for a copy.
    pub fn take(&mut self, hash: KeyHash, token: Token) -> Option<Nanos> {
        let fill = self.take_any(hash, token)?;
        fill.after.is_none().then_some(fill.asked)
    }

    /// Uses a token up: when it was given, if it lives, is for ownership, and is good for what was given before round `before`.
    pub fn take_to_own(&mut self, hash: KeyHash, token: Token, before: Round) -> Option<Nanos> {
        let fill = self.take_any(hash, token)?;
        (fill.after? < before).then_some(fill.asked)
    }

    fn take_any(&mut self, hash: KeyHash, token: Token) -> Option<Fill> {
        let place = self
            .set(hash)
            .iter_mut()
            .find(|fill| fill.hash == hash && fill.token == token && token != Token(0))?;
        Some(std::mem::take(place))
    }

    /// Kills the tokens of this hash. Those for ownership only for what was given before a round of the home, if `by` names one.
    pub fn kill(&mut self, hash: KeyHash, by: Option<Round>) {
        for place in self.set(hash).iter_mut().filter(|place| place.hash == hash) {
            match (&mut place.after, by) {
                (Some(after), Some(by)) => *after = by.max(*after),
                _ => *place = Fill::default(),
            }
        }
    }

    /// Kills those whose hash is `meant`.
    pub fn kill_where(&mut self, meant: impl Fn(KeyHash) -> bool) {
        for place in self.places.iter_mut().filter(|place| meant(place.hash)) {
            *place = Fill::default();
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
        fills.kill(H, Some(Round(1)));
        assert!(tokens.iter().all(|token| fills.take(H, *token).is_none()));
        assert!(fills.take(KeyHash(78), other).is_some());
    }

    #[test]
    fn a_token_for_ownership_is_good_for_what_was_given_after_the_last_round() {
        let mut fills = Fills::new(8, Incarnation(3), Nanos(100));
        for (round, before, lives) in [(5, 6, true), (5, 5, false), (7, 6, false)] {
            let token = fills.begin_to_own(H, Nanos(9)).expect("room");
            fills.kill(H, Some(Round(round)));
            fills.kill(H, Some(Round(4)));
            assert_eq!(
                fills.take_to_own(H, token, Round(before)),
                lives.then_some(Nanos(9)),
                "{round} {before}"
            );
            assert_eq!(fills.take_to_own(H, token, Round(99)), None, "once");
        }
        // Neither is taken for the other, and a round of another box kills both.
        let (own, copy) =
            (fills.begin_to_own(H, Nanos(9)).expect("room"), fills.begin(H, Nanos(9)).expect("room"));
        assert_eq!((fills.take(H, own), fills.take_to_own(H, copy, Round(99))), (None, None));
        let own = fills.begin_to_own(H, Nanos(9)).expect("room");
        fills.kill(H, None);
        assert_eq!(fills.take_to_own(H, own, Round(99)), None);
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
