//! Invalidations that wait for answers: what a home does before a write, and a box before it answers for those below it.
//!
//! ```text
//! begin ──INVALIDATE to each──▶ waiting ──all answered, or every lease over──▶ ended, with its purpose
//!                                  │ ▲
//!                                  └─┘ sent again to who has not answered, after a time that doubles
//! ```
//!
//! Invariants: 1. a number is never used twice, incarnations included, so that a late or doubled answer counts for its own
//! round only; 2. while a round for a key runs, whoever runs it grants nothing of that key (its owner asks
//! [`Rounds::covers`]): else an answer given before such a grant would strike it off the record.
//!
//! Bounds: so many rounds at once as it is made for. Cost: a few steps in ordered trees.

use super::holders::Boxes;
use super::lease::runs;
use super::{NodeId, Out};
use crate::wire::{BoxId, Control, HomeId, KeyHash, Message, Opcode, Round, Version, key_hash};
use base::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be dropped: a key, with all others of its hash, or everything of a home.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Whose.
    pub home: HomeId,
    /// Empty: all.
    pub key: Vec<u8>,
}

impl Target {
    /// None: all.
    pub fn hash(&self) -> Option<KeyHash> {
        (!self.key.is_empty()).then(|| key_hash(&self.key))
    }

    /// What an INVALIDATE, or an answer to it, speaks of.
    pub fn of(message: &Message) -> Target {
        Target { home: message.header.home, key: message.key.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running<P> {
    target: Target,
    waiting: Boxes,
    until: Nanos,
    send_at: Nanos,
    timeout: Nanos,
    purpose: P,
}

/// A round that is over.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended<P> {
    /// What was dropped.
    pub target: Target,
    /// What it was for.
    pub purpose: P,
    /// Who has not answered: his lease is over.
    pub silent: Boxes,
}

/// The rounds of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rounds<P> {
    next: u64,
    /// From one number to the next.
    step: u64,
    running: BTreeMap<u64, Running<P>>,
    /// When to look at which round: one entry each.
    timers: BTreeSet<(Nanos, u64)>,
    /// None is all.
    targets: BTreeMap<Option<KeyHash>, u32>,
    capacity: usize,
    first_timeout: Nanos,
    longest_timeout: Nanos,
}

impl<P> Rounds<P> {
    /// For at most `capacity` at once, numbered from `first`.
    pub fn new(first: u64, capacity: usize, timeouts: (Nanos, Nanos)) -> Rounds<P> {
        Rounds {
            next: first,
            step: 1,
            running: BTreeMap::new(),
            timers: BTreeSet::new(),
            targets: BTreeMap::new(),
            capacity,
            first_timeout: timeouts.0,
            longest_timeout: timeouts.1,
        }
    }

    /// Numbered from `first` in steps: where several tables of one node give numbers.
    #[must_use]
    pub fn numbered(mut self, (first, step): (u64, u64)) -> Rounds<P> {
        (self.next, self.step) = (first, step);
        self
    }

    /// The number of the round that begins next.
    pub fn next_number(&self) -> Round {
        Round(self.next)
    }

    /// Whether another fits.
    pub fn has_room(&self) -> bool {
        self.running.len() < self.capacity
    }

    /// Asks `boxes`, whose leases end by `until`, to drop `target`.
    ///
    /// # Panics
    /// Without room.
    pub fn begin(&mut self, now: Nanos, target: Target, boxes: (Boxes, Nanos), purpose: P, out: &mut Out) {
        assert!(self.has_room(), "a round begins where there is room");
        let number = self.next;
        self.next += self.step;
        let (waiting, until) = boxes;
        let timeout = self.first_timeout;
        let send_at = now.plus(timeout);
        *self.targets.entry(target.hash()).or_default() += 1;
        self.timers.insert((send_at.min(until), number));
        let running = Running { target, waiting, until, send_at, timeout, purpose };
        send(number, &running, out);
        self.running.insert(number, running);
    }

    /// Whether a round for keys with this hash runs, or for all.
    pub fn covers(&self, hash: KeyHash) -> bool {
        self.targets.contains_key(&Some(hash)) || self.covers_all()
    }

    /// Whether a round for all keys runs.
    pub fn covers_all(&self) -> bool {
        self.targets.contains_key(&None)
    }

    /// The purpose of the round for just this, if one runs: to be joined, for what is to be asked cannot have grown since.
    pub fn purpose_mut(&mut self, target: &Target) -> Option<&mut P> {
        if !self.targets.contains_key(&target.hash()) {
            return None;
        }
        self.running
            .values_mut()
            .find(|running| running.target == *target)
            .map(|running| &mut running.purpose)
    }

    /// A round that waits for `from` and has this target, whatever its number.
    pub fn like(&self, target: &Target, from: BoxId) -> Option<Round> {
        let like = |r: &Running<P>| r.target == *target && r.waiting.contains(from);
        self.running.iter().find(|(_, running)| like(running)).map(|(number, _)| Round(*number))
    }

    /// `from` has answered. The round, if that was the last.
    pub fn answered(&mut self, number: Round, from: BoxId) -> Option<Ended<P>> {
        let running = self.running.get_mut(&number.0)?;
        running.waiting = running.waiting.without(Boxes::of(from)?);
        if running.waiting.is_empty() { self.end(number.0) } else { None }
    }

    /// Rounds whose leases are over, one per call; asks again where it is time to.
    pub fn overdue(&mut self, now: Nanos, out: &mut Out) -> Option<Ended<P>> {
        while let Some(&(when, number)) = self.timers.first()
            && !runs(when, now)
        {
            let running = self.running.get_mut(&number).expect("a timer belongs to a round");
            if !runs(running.until, now) {
                return self.end(number);
            }
            self.timers.remove(&(when, number));
            running.timeout = Nanos(running.timeout.0.saturating_mul(2)).min(self.longest_timeout);
            running.send_at = now.plus(running.timeout);
            self.timers.insert((running.send_at.min(running.until), number));
            send(number, running, out);
        }
        None
    }

    /// Ends the round for which this is the purpose: whom it waits for has said by other means that he has nothing.
    pub fn end_where(&mut self, is_it: impl Fn(&P) -> bool) -> Option<Ended<P>> {
        let number = *self.running.iter().find(|(_, running)| is_it(&running.purpose))?.0;
        self.end(number)
    }

    /// Ends one as if its leases were over: what is planted does this.
    pub fn give_up(&mut self) -> Option<Ended<P>> {
        let number = *self.running.first_key_value()?.0;
        self.end(number)
    }

    /// When [`Rounds::overdue`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(when, _)| *when)
    }

    fn end(&mut self, number: u64) -> Option<Ended<P>> {
        let running = self.running.remove(&number)?;
        self.timers.remove(&(running.send_at.min(running.until), number));
        let hash = running.target.hash();
        let count = self.targets.get_mut(&hash).expect("a round counts its target");
        *count -= 1;
        if *count == 0 {
            self.targets.remove(&hash);
        }
        Some(Ended { target: running.target, purpose: running.purpose, silent: running.waiting })
    }
}

fn send<P>(number: u64, running: &Running<P>, out: &mut Out) {
    for id in running.waiting.iter() {
        let mut message = Message::new(Opcode::Control(Control::Invalidate), &running.target.key);
        message.header.round = Round(number);
        message.header.at = id;
        message.header.home = running.target.home;
        // Whatever the version: a copy that is newer costs a fetch.
        message.header.version = Version(u64::MAX);
        out.push((NodeId::Box(id), message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rounds() -> Rounds<u8> {
        Rounds::new(100, 2, (Nanos(MS), Nanos(2 * MS)))
    }

    #[test]
    fn it_ends_when_all_have_answered_this_round() {
        let (mut rounds, mut out) = (rounds(), Vec::new());
        let target = Target { home: HomeId(1), key: b"k".to_vec() };
        rounds.begin(Nanos(0), target.clone(), (Boxes(0b11), Nanos(9 * MS)), 7, &mut out);
        assert_eq!(out.len(), 2);
        assert!(rounds.covers(target.hash().expect("a key")) && !rounds.covers(KeyHash(1)));
        assert_eq!(rounds.answered(Round(99), BoxId(1)), None);
        assert_eq!(rounds.answered(Round(100), BoxId(1)), None);
        assert_eq!(rounds.answered(Round(100), BoxId(1)), None);
        assert_eq!(rounds.answered(Round(100), BoxId(70)), None);
        assert_eq!(rounds.like(&target, BoxId(2)), Some(Round(100)));
        assert_eq!(rounds.purpose_mut(&target), Some(&mut 7));
        let ended = Ended { target: target.clone(), purpose: 7, silent: Boxes(0) };
        assert_eq!(rounds.answered(Round(100), BoxId(2)), Some(ended));
        assert!(!rounds.covers(target.hash().expect("a key")));
        assert_eq!(rounds.next_deadline(), Nanos::MAX);
    }

    #[test]
    fn it_ends_when_its_owner_knows_better() {
        let (mut rounds, mut out) = (rounds(), Vec::new());
        let target = Target { home: HomeId(1), key: b"k".to_vec() };
        rounds.begin(Nanos(0), target.clone(), (Boxes(0b1), Nanos(9 * MS)), 7, &mut out);
        assert_eq!(rounds.end_where(|purpose| *purpose == 8), None);
        assert_eq!(rounds.end_where(|purpose| *purpose == 7).map(|ended| ended.silent), Some(Boxes(0b1)));
        assert_eq!((rounds.answered(Round(100), BoxId(1)), rounds.next_deadline()), (None, Nanos::MAX));
    }

    #[test]
    fn it_asks_again_and_gives_up_when_the_leases_end() {
        let (mut rounds, mut out) = (rounds(), Vec::new());
        rounds.begin(
            Nanos(0),
            Target { home: HomeId(1), key: vec![] },
            (Boxes(0b101), Nanos(4 * MS)),
            7,
            &mut out,
        );
        assert!(rounds.covers(KeyHash(5)));
        rounds.answered(Round(100), BoxId(3));
        out.clear();
        let mut sent = Vec::new();
        for at in [1, 2, 3, 4] {
            let ended = rounds.overdue(Nanos(at * MS), &mut out);
            assert_eq!(ended.map(|ended| ended.silent), (at == 4).then_some(Boxes(0b001)));
            sent.push(out.len());
        }
        assert_eq!(sent, [1, 1, 2, 2]);
        assert_eq!(out[0].0, NodeId::Box(BoxId(1)));
    }
}
