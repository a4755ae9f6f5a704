//! The judge of histories of transactions that believes no LSN: is there any order of them that explains every answer, in which one that
//! returned before another was called comes first?
//!
//! Transactions that share no key, not even through others, concern different objects, so each set of connected keys is searched for
//! itself ([`crate::linear::search`]). LSNs are a guess at the order, and names by which versions are known; nothing else is taken from them but
//! that versions of a key rise.
//!
//! The search is bounded, and exponential at worst: an oracle for small histories.

use super::effect::{Effect, Item, Store, effect, write};
use super::show::asked;
use super::{Asked, CLAIM, Done, History, Key, Ret, Txn, Verdict};
use crate::linear::{Entry, Outcome, Spec, search};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Judges a history, with at most so many configurations for each set of connected keys.
pub fn check(history: &History, most_configurations: usize) -> Verdict {
    let mut undecided = None;
    for part in parts(history) {
        let entries: Vec<Entry<&Txn, &Done>> = part.iter().map(entry).collect();
        match search(&Meaning(PhantomData), &entries, most_configurations) {
            Outcome::Linearizable(_) => {}
            Outcome::Violation(stuck) => return Verdict::Violation(explain(&part, stuck.at)),
            Outcome::GaveUp { looked_at } => {
                undecided =
                    Some(format!("gave up after {looked_at} configurations of {} transactions", part.len()));
            }
        }
    }
    undecided.map_or(Verdict::Good, Verdict::Undecided)
}

/// Transactions that were not refused, apart where they share no keys, in the order of their calls.
fn parts(history: &History) -> Vec<Vec<Asked<'_>>> {
    let all: Vec<Asked<'_>> =
        history.operations().filter(|asked| !matches!(asked.returned, Some((_, _, Ret::Refused)))).collect();
    // A forest over transactions: whose key is first seen with which.
    let mut parents: Vec<usize> = (0..all.len()).collect();
    let mut first: BTreeMap<&[u8], usize> = BTreeMap::new();
    // Where there are claims, all that writes depends on which one counts.
    let claims = all.iter().any(|asked| asked.op.claim != 0 || asked.op.written().any(|key| &**key == CLAIM));
    for (i, asked) in all.iter().enumerate() {
        let claim = (asked.op.claim != 0 || claims && !asked.op.only_reads()).then_some(CLAIM);
        for key in asked.op.keys().map(|key| &**key).chain(claim) {
            let other = *first.entry(key).or_insert(i);
            let (one, other) = (root(&mut parents, i), root(&mut parents, other));
            parents[one.max(other)] = one.min(other);
        }
    }
    let mut parts: BTreeMap<usize, Vec<Asked<'_>>> = BTreeMap::new();
    for (i, asked) in all.into_iter().enumerate() {
        parts.entry(root(&mut parents, i)).or_default().push(asked);
    }
    parts.into_values().collect()
}

fn root(parents: &mut [usize], mut of: usize) -> usize {
    while parents[of] != of {
        parents[of] = parents[parents[of]];
        of = parents[of];
    }
    of
}

fn entry<'a>(asked: &Asked<'a>) -> Entry<&'a Txn, &'a Done> {
    let position = |place: usize| place as u64;
    let returned = asked.returned.and_then(|(_, place, ret)| match ret {
        Ret::Done(done) => Some((place, done)),
        Ret::Refused => None,
    });
    Entry {
        op: asked.op,
        ret: returned.map(|returned| returned.1),
        called: position(asked.called.1),
        returned: returned.map(|returned| position(returned.0)),
        after: None,
    }
}

fn explain(part: &[Asked<'_>], at: usize) -> String {
    const SHOWN: usize = 16;
    let text = format!("no order explains the return of\n  {}\nafter, or beside:", asked(&part[at]));
    let end = part[at].returned.map_or(usize::MAX, |returned| returned.1);
    let before: Vec<&Asked<'_>> = part
        .iter()
        .enumerate()
        .filter(|(i, other)| *i != at && other.called.1 < end)
        .map(|(_, o)| o)
        .collect();
    before[before.len().saturating_sub(SHOWN)..]
        .iter()
        .fold(text, |text, other| text + "\n  " + &asked(other))
}

/// Transactions on the keys that are connected.
struct Meaning<'a>(PhantomData<&'a ()>);

/// What the keys are, and the highest version that each is known to have had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    store: Store,
    newest: BTreeMap<Key, u64>,
}

impl<'a> Spec for Meaning<'a> {
    type State = State;
    type Op = &'a Txn;
    type Ret = &'a Done;

    fn initial(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, txn: &&'a Txn, told: Option<&&'a Done>, next: &mut Vec<State>) {
        let effect = effect(txn, &state.store, told.copied());
        match told {
            Some(done) => next.extend(state.after(txn, effect, done)),
            // Nobody saw the answer: only what changes something matters.
            None if effect.writes.is_empty() => {}
            None => {
                let mut after = state.clone();
                let writes = effect.writes;
                write(&mut after.store, writes, None);
                next.push(after);
            }
        }
    }

    fn only_looks(&self, txn: &&'a Txn, told: Option<&&'a Done>) -> bool {
        txn.only_reads() || told.is_some_and(|done| done.abort.is_some())
    }

    fn guess(&self, txn: &&'a Txn, told: Option<&&'a Done>) -> u64 {
        told.map_or(u64::MAX, |done| done.lsn.saturating_mul(2) | u64::from(txn.only_reads()))
    }

    /// A version that was followed by a higher one is never read again.
    fn is_lost(&self, state: &State, txn: &&'a Txn, done: &&'a Done) -> bool {
        let found = txn.reads.iter().zip(&done.reads).filter_map(|(key, found)| Some((key, found.as_ref()?)));
        let mut newest = found.map(|(key, found)| (state.newest.get(key), found.version));
        newest.any(|(newest, version)| newest.is_some_and(|newest| *newest > version))
    }
}

impl State {
    /// What it becomes by a transaction that was answered `done`; `None` if it cannot be answered that.
    fn after(&self, txn: &Txn, effect: Effect<'_>, done: &Done) -> Option<State> {
        if !effect.answers(done) {
            return None;
        }
        let writes = effect.writes;
        let mut state = self.clone();
        for (key, found) in txn.reads.iter().zip(&done.reads) {
            let Some(found) = found else { continue };
            state.rise(key, found.version, false)?;
            state
                .store
                .insert(key.clone(), Item { value: found.value.clone(), version: Some(found.version) });
        }
        for (key, _) in &writes {
            state.rise(key, done.lsn, true)?;
        }
        write(&mut state.store, writes, Some(done.lsn));
        Some(state)
    }

    /// A key has this version now.
    fn rise(&mut self, key: &Key, version: u64, is_new: bool) -> Option<()> {
        let newest = self.newest.entry(key.clone()).or_default();
        let rises = if is_new { version > *newest } else { version >= *newest };
        *newest = version;
        rises.then_some(())
    }
}
