//! The keys that a box owns, with what it did to them, until their home has it back.
//!
//! ```text
//!   serving ──half the lease over, all records used, or the home asks──▶ returning ──RETURN_ACK, or nobody can wait──▶ gone
//!    │   ▲
//!    ╰───┴─ lent to a faster tier and taken back, see [`super::lent`]
//! ```
//!
//! Invariants: 1. one entry per hash; 2. one timer per entry; 3. an entry that returns serves no more; 4. who asked for what is being
//! returned is answered when it is gone; 5. an entry that is lent is neither written, nor read, nor returned.
//!
//! Bounds: entries as it is made for, [`MOST_RECORDS`] records each, `MOST_ASKERS` askers. Cost: a few steps in ordered trees.

use super::super::NodeId;
use super::super::compute::Item;
use super::super::lease::runs;
use super::super::ownership::{Answer, MOST_RECORDS, Record, Returned, Told};
use super::super::rounds::Target;
use super::copies::Kept;
use super::lent::{Loan, change};
use crate::wire::{HomeId, KeyHash, Message, OpNumber, Round, Token, Verb, Version};
use base::Nanos;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Invalidations that wait for returns.
const MOST_ASKERS: usize = 256;

/// A key that is returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Returning {
    send_at: Nanos,
    timeout: Nanos,
}

/// A key that this box owns, or did until a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What is there. Its lease is the time for which it serves.
    pub kept: Kept,
    /// Whose key it is.
    pub home: HomeId,
    /// The grant.
    pub token: Token,
    /// Its home waits no longer for it.
    pub forget_at: Nanos,
    next: Version,
    told: Vec<Told>,
    records: BTreeMap<(Round, OpNumber), Answer>,
    returning: Option<Returning>,
    /// A faster tier has it: what is here is old.
    lent: bool,
}

impl Entry {
    /// As it was granted.
    pub fn new(
        kept: Kept,
        (home, token): (HomeId, Token),
        forget_at: Nanos,
        next: Version,
        told: Vec<Told>,
    ) -> Entry {
        let records = BTreeMap::new();
        Entry { kept, home, token, forget_at, next, told, records, returning: None, lent: false }
    }

    /// Does a write, or finds what it was answered. None where only the home can tell whether it was done.
    pub fn write(&mut self, verb: Verb, request: &Message) -> Option<Answer> {
        self.assert_here();
        let header = &request.header;
        let name = (header.round, header.operation);
        if let Some(answer) = self.records.get(&name) {
            return Some(*answer);
        }
        let is_its = |told: &&Told| (told.session, told.client) == (header.round, header.client);
        if !self.told.iter().find(is_its)?.is_new(header.operation) || self.is_full() {
            return None;
        }
        let answer = change(&mut self.kept, &mut self.next, verb, request);
        self.records.insert(name, answer);
        Some(answer)
    }

    /// Whether it can do no more.
    pub fn is_full(&self) -> bool {
        self.records.len() >= MOST_RECORDS
    }

    /// What is to be returned.
    pub fn returned(&self) -> Returned {
        self.assert_here();
        let record = |(&(session, operation), &answer): (&(Round, OpNumber), &Answer)| Record {
            session,
            operation,
            answer,
        };
        Returned { records: self.records.iter().map(record).collect(), value: self.kept.value.clone() }
    }

    /// What is there.
    pub fn item(&self) -> &Kept {
        self.assert_here();
        &self.kept
    }

    fn assert_here(&self) {
        assert!(!self.lent, "a lent key is taken back before it is touched");
    }

    /// The key as a faster tier may have it: what was done since the grant counts as begun.
    fn loan(&self) -> Loan {
        let mut told = self.told.clone();
        for told in &mut told {
            let its = (told.session, OpNumber(0))..=(told.session, OpNumber(u64::MAX));
            self.records.range(its).for_each(|((_, operation), _)| told.begin(*operation));
        }
        let room = MOST_RECORDS - self.records.len();
        Loan { kept: self.kept.clone(), next: self.next, told, room, done: Vec::new() }
    }

    fn is_meant(&self, target: &Target) -> bool {
        self.home == target.home && target.hash().is_none_or(|hash| hash == self.kept.hash)
    }

    fn deadline(&self) -> Nanos {
        self.returning.as_ref().map_or(self.kept.lease_end, |returning| returning.send_at.min(self.forget_at))
    }
}

/// An item that lives, whose end does not matter.
pub fn item_of(kept: &Kept) -> Item {
    Item {
        value: kept.value.clone(),
        flags: kept.flags,
        kind: kept.kind,
        version: kept.version,
        end: kept.life_end,
    }
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    entries: BTreeMap<KeyHash, Entry>,
    timers: BTreeSet<(Nanos, KeyHash)>,
    askers: VecDeque<(Target, NodeId, Round)>,
    capacity: usize,
}

impl Owned {
    /// For at most `capacity` keys.
    pub fn new(capacity: usize) -> Owned {
        Owned { entries: BTreeMap::new(), timers: BTreeSet::new(), askers: VecDeque::new(), capacity }
    }

    /// Whether a key with this hash may be taken.
    pub fn has_room_for(&self, hash: KeyHash) -> bool {
        self.entries.len() < self.capacity && !self.entries.contains_key(&hash)
    }

    /// A key is owned now.
    ///
    /// # Panics
    /// Without room.
    pub fn take(&mut self, entry: Entry) {
        let hash = entry.kept.hash;
        assert!(self.has_room_for(hash), "a key is taken where there is room");
        self.timers.insert((entry.deadline(), hash));
        self.entries.insert(hash, entry);
    }

    /// How many keys are here: owned, lent, or on their way home.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The time of all that serve is over at `now`: they are due, those that are lent too.
    pub fn end_all(&mut self, now: Nanos) {
        for (hash, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.returning.is_none()) {
            self.timers.remove(&(entry.deadline(), *hash));
            entry.kept.lease_end = entry.kept.lease_end.min(now);
            self.timers.insert((entry.deadline(), *hash));
        }
    }

    /// Whether there is an entry of this hash, serving or not.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.entries.contains_key(&hash)
    }

    /// The entry of `key`, if it serves at `now`.
    pub fn serving(&self, hash: KeyHash, key: &[u8], now: Nanos) -> Option<&Entry> {
        let serves = |entry: &&Entry| {
            entry.kept.key == key && entry.returning.is_none() && runs(entry.kept.lease_end, now)
        };
        self.entries.get(&hash).filter(serves)
    }

    /// The same, to be written to.
    pub fn serving_mut(&mut self, hash: KeyHash, key: &[u8], now: Nanos) -> Option<&mut Entry> {
        self.serving(hash, key, now)?;
        self.entries.get_mut(&hash)
    }

    /// A key as it may be lent; none where it does not serve, or is lent, or can do no more. `serves_on`: its end is not looked at.
    pub fn loan(&mut self, hash: KeyHash, key: &[u8], now: Nanos, serves_on: bool) -> Option<Loan> {
        let entry = self.serving(hash, key, now).filter(|entry| !entry.lent && !entry.is_full())?;
        let mut loan = entry.loan();
        if serves_on {
            self.timers.remove(&(entry.deadline(), hash));
            let entry = self.entries.get_mut(&hash).expect("it serves");
            entry.kept.lease_end = Nanos::MAX;
            self.timers.insert((entry.deadline(), hash));
            loan.kept.lease_end = Nanos::MAX;
        }
        Some(loan)
    }

    /// A faster tier has it.
    pub fn lent(&mut self, hash: KeyHash) {
        self.entries.get_mut(&hash).expect("what is lent is owned").lent = true;
    }

    /// Whether a faster tier has it.
    pub fn is_lent(&self, hash: KeyHash) -> bool {
        self.entries.get(&hash).is_some_and(|entry| entry.lent)
    }

    /// Lent keys whose time is over.
    pub fn lent_due(&self, now: Nanos) -> Vec<KeyHash> {
        let due = self.timers.iter().take_while(|(when, _)| !runs(*when, now));
        due.map(|(_, hash)| *hash).filter(|hash| self.is_lent(*hash)).collect()
    }

    /// Lent keys of a home.
    pub fn lent_of(&self, home: HomeId) -> Vec<KeyHash> {
        let lent = self.entries.values().filter(|entry| entry.lent && entry.home == home);
        lent.map(|entry| entry.kept.hash).collect()
    }

    /// It is here again, as the tier left it.
    pub fn taken_back(&mut self, hash: KeyHash, loan: Loan) {
        let entry = self.entries.get_mut(&hash).expect("what is lent is owned");
        entry.lent = false;
        let Kept { value, flags, kind, version, .. } = loan.kept;
        let kept = &mut entry.kept;
        (kept.value, kept.flags, kept.kind, kept.version) = (value, flags, kind, version);
        entry.next = loan.next;
        let records = loan.done.into_iter();
        entry.records.extend(records.map(|record| ((record.session, record.operation), record.answer)));
    }

    /// Those that `target` means and that are not being returned.
    pub fn kept_of(&self, target: &Target) -> Vec<KeyHash> {
        let meant = |entry: &&Entry| entry.returning.is_none() && entry.is_meant(target);
        match target.hash() {
            Some(hash) => self.entries.get(&hash).filter(meant).map(|_| hash).into_iter().collect(),
            None => self.entries.values().filter(meant).map(|entry| entry.kept.hash).collect(),
        }
    }

    /// It serves no more, and is returned: what is to be sent. Asked again, that is later sent again after twice the time.
    pub fn give_back(
        &mut self,
        hash: KeyHash,
        now: Nanos,
        (first, longest): (Nanos, Nanos),
    ) -> Option<&Entry> {
        let entry = self.entries.get_mut(&hash)?;
        self.timers.remove(&(entry.deadline(), hash));
        let timeout = match &entry.returning {
            Some(returning) => Nanos(returning.timeout.0.saturating_mul(2)).min(longest),
            None => first,
        };
        entry.returning = Some(Returning { send_at: now.plus(timeout), timeout });
        self.timers.insert((entry.deadline(), hash));
        Some(entry)
    }

    /// The home has it, if it is what is being returned.
    pub fn acknowledged(&mut self, hash: KeyHash, round: Round) {
        let is_it = |entry: &Entry| entry.returning.is_some() && entry.token.0 == round.0;
        if self.entries.get(&hash).is_some_and(is_it) {
            self.forget(hash);
        }
    }

    /// Forgets an entry.
    pub fn forget(&mut self, hash: KeyHash) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.timers.remove(&(entry.deadline(), hash));
        }
    }

    /// An entry whose time has come, one per call; whoever asks does something about it.
    pub fn due(&self, now: Nanos) -> Option<&Entry> {
        let (_, hash) = self.timers.first().filter(|(when, _)| !runs(*when, now))?;
        self.entries.get(hash)
    }

    /// When [`Owned::due`] has something.
    pub fn next_deadline(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(when, _)| *when)
    }

    /// Whether something that `target` means is here yet.
    pub fn covers(&self, target: &Target) -> bool {
        match target.hash() {
            Some(hash) => self.entries.get(&hash).is_some_and(|entry| entry.is_meant(target)),
            None => self.entries.values().any(|entry| entry.is_meant(target)),
        }
    }

    /// Somebody asked for what is being returned. Beyond the bound he is not answered: he asks again.
    pub fn wait(&mut self, target: Target, asker: NodeId, round: Round) {
        let waits = (target, asker, round);
        if self.askers.len() < MOST_ASKERS && !self.askers.contains(&waits) {
            self.askers.push_back(waits);
        }
    }

    /// Askers whose keys are gone.
    pub fn answerable(&mut self) -> Vec<(Target, NodeId, Round)> {
        let askers = std::mem::take(&mut self.askers);
        let (waiting, ready) = askers.into_iter().partition(|(target, ..)| self.covers(target));
        self.askers = waiting;
        Vec::from(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ClientId, Kind, Status};

    const CLIENT: ClientId = ClientId(9);
    const SESSION: Round = Round(4);
    const TIMES: (Nanos, Nanos) = (Nanos(5), Nanos(8));

    fn entry(hash: u32) -> Entry {
        let kept = Kept {
            hash: KeyHash(hash),
            key: vec![hash as u8],
            value: b"10".to_vec(),
            flags: 0,
            kind: Kind::Number,
            version: Version(3),
            lease_end: Nanos(50),
            life_end: Nanos::MAX,
        };
        let told = Told::new(SESSION, CLIENT, OpNumber(6), |n| n != 5);
        Entry::new(kept, (HomeId(1), Token(7)), Nanos(101), Version(1000), vec![told])
    }

    fn incr(operation: u64) -> Message {
        let mut message = Message::request(Verb::Incr, b"k");
        let header = &mut message.header;
        (header.round, header.client, header.operation, header.operand) =
            (SESSION, CLIENT, OpNumber(operation), 1);
        message
    }

    #[test]
    fn it_does_what_is_new_once_and_nothing_else() {
        let mut entry = entry(1);
        let answer = |number, version| Some(Answer { status: Status::Ok, version: Version(version), number });
        assert_eq!(entry.write(Verb::Incr, &incr(5)), answer(11, 1000));
        assert_eq!(entry.write(Verb::Incr, &incr(6)), None, "the home began it");
        assert_eq!(entry.write(Verb::Incr, &incr(7)), answer(12, 1001));
        assert_eq!(entry.write(Verb::Incr, &incr(5)), answer(11, 1000), "again");
        // What changes nothing has the version of what is there, and is remembered all the same.
        assert_eq!(entry.write(Verb::Max, &incr(8)), answer(12, 1001));
        let mut other = incr(9);
        other.header.client = ClientId(1);
        assert_eq!(entry.write(Verb::Incr, &other), None);
        other.header.round = Round(5);
        assert_eq!(entry.write(Verb::Incr, &other), None);
        assert_eq!(entry.returned().records.len(), 3);
        for n in 9..2000 {
            entry.write(Verb::Incr, &incr(n));
        }
        assert!(entry.is_full() && entry.records.len() == MOST_RECORDS);
        assert_eq!(entry.write(Verb::Incr, &incr(8)), answer(12, 1001));
    }

    #[test]
    fn it_serves_until_its_end_and_is_returned_until_that_is_acknowledged() {
        let mut owned = Owned::new(2);
        owned.take(entry(1));
        assert!(!owned.has_room_for(KeyHash(1)) && owned.has_room_for(KeyHash(2)));
        assert!(owned.serving(KeyHash(1), &[1], Nanos(49)).is_some());
        assert!(owned.serving(KeyHash(1), &[2], Nanos(49)).is_none(), "another key with this hash");
        assert!(owned.serving(KeyHash(1), &[1], Nanos(50)).is_none());
        assert!(owned.due(Nanos(49)).is_none() && owned.due(Nanos(50)).is_some());
        owned.give_back(KeyHash(1), Nanos(10), TIMES);
        assert!(owned.serving(KeyHash(1), &[1], Nanos(11)).is_none());
        assert_eq!(owned.next_deadline(), Nanos(15));
        for (now, next) in [(15, 23), (95, 101)] {
            owned.give_back(KeyHash(1), Nanos(now), TIMES);
            assert_eq!((owned.next_deadline(), owned.timers.len()), (Nanos(next), 1));
        }
        owned.acknowledged(KeyHash(1), Round(8));
        assert!(owned.contains(KeyHash(1)), "another grant");
        owned.acknowledged(KeyHash(1), Round(7));
        assert_eq!((owned.contains(KeyHash(1)), owned.next_deadline()), (false, Nanos::MAX));
    }

    #[test]
    fn who_asked_is_answered_when_all_that_he_means_is_gone() {
        let mut owned = Owned::new(2);
        let all = |home| Target { home: HomeId(home), key: vec![] };
        owned.take(entry(1));
        owned.take(entry(2));
        assert_eq!(owned.kept_of(&all(1)), [KeyHash(1), KeyHash(2)]);
        assert!(owned.kept_of(&all(2)).is_empty() && owned.covers(&all(1)) && !owned.covers(&all(2)));
        for _ in 0..2 {
            owned.wait(all(1), NodeId::Home(HomeId(1)), Round(3));
        }
        owned.forget(KeyHash(1));
        assert!(owned.answerable().is_empty());
        owned.forget(KeyHash(2));
        assert_eq!((owned.answerable().len(), owned.answerable().len()), (1, 0));
    }
}
