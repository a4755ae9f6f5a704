//! The judge of histories of transactions by the order that the system itself says: its LSNs.
//!
//! 1. No two transactions that write have the same LSN.
//! 2. Real time: a transaction that writes has a higher LSN than everything that was answered before it was called. One that only reads says
//!    the state after which LSN it saw; nothing that it touches may have changed between that one and all that was answered before it was called.
//! 3. Replayed in the order of LSNs, every transaction answers what it was answered: what it read, with versions, what its additions came
//!    to, and whether and why it aborted.
//!
//! What keeps these is strictly serializable, in that order.
//!
//! **Transactions without an answer** may have been done, at an LSN that no other has, or not. First, a version that was read and that no
//! answered transaction has is the LSN of one that was not answered and writes what was read. Then, where replay does not find what was
//! answered, transactions that were not answered are tried at free LSNs. Where something had to be guessed and then nothing fits, the
//! verdict is *undecided*: what is called a violation is one. A simulation knows what was done, and says so ([`Settled`]).
//!
//! Cost: O(n log n), and a search of depth three at each place where something that was not answered is missed.

use super::effect::{Store, effect, number, undo, write};
use super::show::{asked, expected};
use super::{Asked, CLAIM, Change, Done, Found, History, Key, Ret, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// So many transactions that were not answered may be missed at one place.
const MOST_GUESSED: usize = 3;

/// What became of transactions of which their clients do not know, by number: done with this LSN, or never.
pub type Settled = BTreeMap<u64, Option<u64>>;

/// Judges a history.
pub fn check(history: &History, settled: &Settled) -> Verdict {
    let all: Vec<Asked<'_>> = history.operations().collect();
    let mut order = match Order::of(&all) {
        Ok(order) => order,
        Err(violation) => return Verdict::Violation(violation),
    };
    let result = order.settle(settled).and_then(|()| order.name_orphans()).and_then(|()| order.replay());
    match result {
        Ok(()) => Verdict::Good,
        Err(text) if order.guessed => Verdict::Undecided(text),
        Err(text) => Verdict::Violation(text),
    }
}

/// A moment of the replay, in the order in which they come at one LSN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// It is done.
    Write,
    /// It saw this.
    Read,
    /// What it saw must be so still.
    Still,
}

/// All that is known of where transactions are.
struct Order<'a> {
    all: &'a [Asked<'a>],
    /// For each: the highest place of all that was answered before it was called, and whose that is.
    floors: Vec<(u64, Option<usize>)>,
    /// By place and moment, those that are done there.
    steps: BTreeSet<(u64, Moment, usize)>,
    /// Which transaction has an LSN.
    owners: BTreeMap<u64, usize>,
    /// Not answered, and not known to have been done; by their calls.
    open: BTreeSet<usize>,
    /// Something was chosen that might have been otherwise.
    guessed: bool,
}

fn done<'a>(asked: &Asked<'a>) -> Option<&'a Done> {
    match asked.returned {
        Some((_, _, Ret::Done(done))) => Some(done),
        _ => None,
    }
}

impl<'a> Order<'a> {
    /// Rules 1 and 2, and the steps of what was answered.
    fn of(all: &'a [Asked<'a>]) -> Result<Order<'a>, String> {
        let mut order = Order {
            all,
            floors: vec![(0, None); all.len()],
            steps: BTreeSet::new(),
            owners: BTreeMap::new(),
            open: BTreeSet::new(),
            guessed: false,
        };
        let mut moments: Vec<(usize, usize)> = Vec::new();
        for (i, asked) in all.iter().enumerate() {
            moments.push((asked.called.1, i));
            moments.extend(asked.returned.map(|returned| (returned.1, i)));
        }
        moments.sort_unstable();
        let mut highest = (0, None);
        for (position, i) in moments {
            if position == all[i].called.1 {
                order.floors[i] = highest;
                if all[i].returned.is_none() && !all[i].op.only_reads() {
                    order.open.insert(i);
                }
            } else if let Some(place) = order.answered(i)? {
                highest = highest.max((place, Some(i)));
            }
        }
        Ok(order)
    }

    /// A transaction was answered: its place, by which all that is called from now on is after it.
    fn answered(&mut self, i: usize) -> Result<Option<u64>, String> {
        let Some(done) = done(&self.all[i]) else { return Ok(None) };
        let (floor, before) = self.floors[i];
        if self.all[i].op.only_reads() {
            let place = done.lsn.max(floor);
            self.steps.insert((done.lsn, Moment::Read, i));
            self.steps.insert((place, Moment::Still, i));
            return Ok(Some(place));
        }
        if done.lsn == 0 {
            return Err(self.list("a transaction has LSN 0, which is before all", &[i]));
        }
        if done.lsn <= floor {
            let those: Vec<usize> = before.into_iter().chain([i]).collect();
            return Err(
                self.list("a transaction has no higher LSN than was answered before it was called", &those)
            );
        }
        if let Some(other) = self.owners.insert(done.lsn, i) {
            return Err(self.list("two transactions have the same LSN", &[other, i]));
        }
        self.steps.insert((done.lsn, Moment::Write, i));
        Ok(Some(done.lsn))
    }

    fn list(&self, what: &str, those: &[usize]) -> String {
        those.iter().fold(what.to_string(), |text, &i| text + "\n  " + &asked(&self.all[i]))
    }

    /// A transaction that was not answered was done here.
    fn place(&mut self, i: usize, lsn: u64) {
        self.open.remove(&i);
        self.owners.insert(lsn, i);
        self.steps.insert((lsn, Moment::Write, i));
    }

    fn settle(&mut self, settled: &Settled) -> Result<(), String> {
        for i in self.open.clone() {
            match settled.get(&self.all[i].id) {
                None => {}
                Some(None) => drop(self.open.remove(&i)),
                Some(Some(lsn)) => match self.owners.get(lsn) {
                    Some(&other) => return Err(self.list("two transactions have the same LSN", &[other, i])),
                    None if *lsn <= self.floors[i].0 => {
                        return Err(self.list("a transaction was done before it was called", &[i]));
                    }
                    None => self.place(i, *lsn),
                },
            }
        }
        Ok(())
    }

    // ---- versions that no answered transaction has

    fn name_orphans(&mut self) -> Result<(), String> {
        let mut orphans: BTreeMap<u64, Vec<(&'a Key, &'a Found, usize)>> = BTreeMap::new();
        for (i, asked) in self.all.iter().enumerate() {
            let Some(done) = done(asked) else { continue };
            let found = asked.op.reads.iter().zip(&done.reads);
            for (key, found) in found.filter_map(|(key, found)| Some((key, found.as_ref()?))) {
                if !self.owners.contains_key(&found.version) {
                    orphans.entry(found.version).or_default().push((key, found, i));
                }
            }
        }
        for (version, seen) in orphans {
            let mut candidates = self.open.iter().copied().filter(|&i| self.could_be(i, version, &seen));
            let (first, other) = (candidates.next(), candidates.next());
            let Some(first) = first else {
                let text = format!("version {version} was read, which no transaction can have");
                return Err(self.list(&text, &[seen[0].2]));
            };
            self.guessed |= other.is_some();
            self.place(first, version);
        }
        Ok(())
    }

    /// Whether a transaction that was not answered may be the one that wrote all this.
    fn could_be(&self, i: usize, version: u64, seen: &[(&Key, &Found, usize)]) -> bool {
        let wrote = |key: &Key, found: &Found| match self.all[i].op.writes.iter().find(|(k, _)| k == key) {
            Some((_, Change::Put(value))) => *value == found.value,
            Some((_, Change::Add(_))) => number(&found.value).is_some(),
            Some((_, Change::Delete)) | None => false,
        };
        version > self.floors[i].0
            && seen
                .iter()
                .all(|&(key, found, reader)| wrote(key, found) && self.was_called_before_return(i, reader))
    }

    fn was_called_before_return(&self, i: usize, other: usize) -> bool {
        self.all[other].returned.is_none_or(|returned| self.all[i].called.1 < returned.1)
    }

    // ---- replay

    fn replay(&mut self) -> Result<(), String> {
        let mut at = Replay::default();
        let mut next = self.steps.first().copied();
        while let Some(step) = next {
            if !self.take(&mut at, step) {
                self.amend(&mut at, step)?;
            }
            next = self.steps.range(step..).nth(1).copied();
        }
        Ok(())
    }

    /// Takes a step; false, and nothing is done, if it does not fit.
    fn take(&self, at: &mut Replay, (place, moment, i): (u64, Moment, usize)) -> bool {
        let asked = &self.all[i];
        let done = done(asked);
        if moment == Moment::Still {
            let saw = done.map_or(0, |done| done.lsn);
            let claim = (asked.op.claim != 0).then_some(CLAIM);
            let mut keys = asked.op.keys().map(|key| &**key).chain(claim);
            if keys.any(|key| at.changed.get(key).is_some_and(|changed| *changed > saw)) {
                return false;
            }
        } else {
            let effect = effect(asked.op, &at.store, done);
            if done.is_some_and(|done| !effect.answers(done)) {
                return false;
            }
            let writes = effect.writes;
            // To delete what is not there changes nothing.
            let changes = writes.iter().filter(|(key, value)| value.is_some() || at.store.contains_key(key));
            at.changed.extend(changes.map(|(key, _)| (key.clone(), place)));
            write(&mut at.store, writes, Some(place));
        }
        at.touched.extend(asked.op.keys().map(|key| (key.clone(), place)));
        if asked.op.claim != 0 || !asked.op.only_reads() {
            at.touched.insert(CLAIM.into(), place);
        }
        true
    }

    /// A step does not fit: perhaps something was done before it that was not answered.
    fn amend(&mut self, at: &mut Replay, step: (u64, Moment, usize)) -> Result<(), String> {
        let asked = &self.all[step.2];
        let matters = |key: &Key| &**key == CLAIM || asked.op.keys().any(|other| other == key);
        let touches = |i: &usize| self.all[*i].op.written().any(matters);
        let suspects: Vec<usize> = self.open.iter().copied().filter(touches).collect();
        let mut guessed = Vec::new();
        if step.1 != Moment::Still && self.guess(at, step, &suspects, &mut guessed) {
            self.guessed = true;
            guessed.into_iter().for_each(|(i, lsn)| self.place(i, lsn));
            return Ok(());
        }
        self.guessed |= !suspects.is_empty();
        Err(self.explain(at, step))
    }

    /// Tries `suspects` in any order before the step; true when it then fits, and was taken.
    fn guess(
        &self,
        at: &mut Replay,
        step: (u64, Moment, usize),
        suspects: &[usize],
        guessed: &mut Vec<(usize, u64)>,
    ) -> bool {
        if guessed.len() == MOST_GUESSED {
            return false;
        }
        for &i in suspects {
            if guessed.iter().any(|(other, _)| *other == i) || !self.was_called_before_return(i, step.2) {
                continue;
            }
            let Some(lsn) = self.free_before(at, step, i, guessed) else { continue };
            let writes = effect(self.all[i].op, &at.store, None).writes;
            let keys: Vec<Key> = writes.iter().map(|(key, _)| key.clone()).collect();
            if keys.is_empty() {
                continue;
            }
            let before = write(&mut at.store, writes, Some(lsn));
            guessed.push((i, lsn));
            if self.take(at, step) || self.guess(at, step, suspects, guessed) {
                for key in keys {
                    let changed = at.changed.entry(key).or_default();
                    *changed = lsn.max(*changed);
                }
                return true;
            }
            guessed.pop();
            undo(&mut at.store, before);
        }
        false
    }

    /// The first LSN that nobody has, before the step and after all that touched the keys of transaction `i`.
    fn free_before(
        &self,
        at: &Replay,
        step: (u64, Moment, usize),
        i: usize,
        guessed: &[(usize, u64)],
    ) -> Option<u64> {
        let touched = self.all[i].op.keys().filter_map(|key| at.touched.get(key)).max();
        let after =
            self.floors[i].0.max(touched.copied().unwrap_or(0)).max(guessed.last().map_or(0, |last| last.1));
        let last = if step.1 == Moment::Write { step.0.saturating_sub(1) } else { step.0 };
        (after + 1..=last).find(|lsn| !self.owners.contains_key(lsn))
    }

    fn explain(&self, at: &Replay, (place, moment, i): (u64, Moment, usize)) -> String {
        let asked_for = &self.all[i];
        if moment == Moment::Still {
            let those: Vec<usize> = self.floors[i].1.into_iter().chain([i]).collect();
            let what =
                format!("a read of what is older than LSN {place}, which was answered before it was called");
            return self.list(&what, &those);
        }
        let should = expected(&effect(asked_for.op, &at.store, done(asked_for)));
        let what = format!("in the order of LSNs it would have answered: {should}");
        let writers = asked_for.op.keys().filter_map(|key| self.owners.get(at.changed.get(key)?).copied());
        let mut those: Vec<usize> = writers.filter(|other| *other != i).collect();
        those.sort_unstable();
        those.dedup();
        those.insert(0, i);
        let text = self.list(&what, &those[..1]);
        those[1..].iter().fold(text, |text, &i| text + "\n  after " + &asked(&self.all[i]))
    }
}

/// How far the replay is.
#[derive(Default)]
struct Replay {
    store: Store,
    /// The LSN at which each key changed last.
    changed: BTreeMap<Key, u64>,
    /// The last place of a step that touched it.
    touched: BTreeMap<Key, u64>,
}
