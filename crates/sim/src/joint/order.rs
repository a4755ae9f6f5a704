//! The keys that only transactions name, replayed in the order that the system says, as [`crate::txn::order`] does: what additions came to is judged here, and
//! so are keys to which one that was not answered adds.
//!
//! Keys that are named together are in one system, and have one order; each such group is judged for itself, by what its transactions do to those keys.
//! What they do to others, what they expect of them and under which claim they act is left out: what became of those that were answered is known, and those
//! that were not may have been done. Nothing is judged where items go without being asked to: after a flush of all keys, and in systems that evict.

use super::places::Groups;
use super::{Asked, History, Name, Op, Ret};
use crate::check::Finding;
use crate::txn::order::{self, Settled};
use crate::txn::{self, CLAIM, Change, Done, Txn, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What the replay of all groups says.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) violations: Vec<Finding>,
    pub(super) undecided: Vec<Finding>,
    /// Keys that are right.
    pub(super) good: BTreeSet<Name>,
}

/// Judges the groups of a history.
pub(super) fn replay(history: &History) -> Replayed {
    let all: Vec<Asked<'_>> = history.operations().collect();
    let mut named: HashSet<&[u8]> = HashSet::from([CLAIM]);
    for asked in all.iter().filter(|asked| matches!(asked.op, Op::Key(_))) {
        // An operation that names no key is a flush of all.
        if asked.key.is_empty() {
            return Replayed::default();
        }
        named.insert(asked.key);
    }
    let groups = Groups::of(&all);
    let mut members: BTreeMap<usize, Group<'_>> = BTreeMap::new();
    for asked in &all {
        let (Op::Txn(txn), Some(group)) = (asked.op, groups.of_asked(asked)) else { continue };
        let group = members.entry(group).or_default();
        group.keys.extend(txn.keys().filter(|key| !named.contains(&***key)));
        let Some((txn, ret)) = cut(txn, asked, &|key| !named.contains(&**key)) else { continue };
        group.moments.push((asked.called.1, asked.id, Moment::Call(txn)));
        if let (Some((_, place, _)), Some(ret)) = (asked.returned, ret) {
            group.moments.push((place, asked.id, Moment::Return(ret)));
        }
    }
    let mut replayed = Replayed::default();
    for Group { keys, mut moments } in members.into_values() {
        moments.sort_by_key(|moment| moment.0);
        let mut of_group = txn::History::new();
        for (place, id, moment) in moments {
            let (at, client) = (history.events()[place].at, history.events()[place].client);
            match moment {
                Moment::Call(txn) => of_group.call(at, client, id, b"", txn),
                Moment::Return(ret) => of_group.returns(at, id, ret),
            }
        }
        let finding = |text| {
            let key = keys.first().map_or_else(Vec::new, |key| key.to_vec());
            Finding { key, text }
        };
        match order::check(&of_group, &Settled::new()) {
            Verdict::Good => replayed.good.extend(keys.into_iter().cloned()),
            Verdict::Violation(text) => replayed.violations.push(finding(text)),
            Verdict::Undecided(text) => replayed.undecided.push(finding(text)),
        }
    }
    replayed
}

/// What is to be replayed together.
#[derive(Default)]
struct Group<'a> {
    keys: BTreeSet<&'a Name>,
    /// By their places in the history, with the operation's number.
    moments: Vec<(usize, u64, Moment)>,
}

enum Moment {
    Call(Txn),
    Return(txn::Ret),
}

/// A transaction and its answer as far as they are about these keys; none if they are not.
fn cut(txn: &Txn, asked: &Asked<'_>, keeps: &dyn Fn(&Name) -> bool) -> Option<(Txn, Option<txn::Ret>)> {
    let mut only = Txn {
        conditions: txn.conditions.iter().filter(|(key, _)| keeps(key)).cloned().collect(),
        reads: txn.reads.iter().filter(|key| keeps(key)).map(Arc::clone).collect(),
        writes: txn.writes.iter().filter(|(key, _)| keeps(key)).cloned().collect(),
        claim: 0,
    };
    let ret = match asked.returned {
        None => None,
        Some((_, _, Ret::Key(_))) => Some(txn::Ret::Refused),
        Some((_, _, Ret::Done(done))) => {
            let is_aborted = done.abort.is_some();
            if is_aborted {
                // All that is left of it is what it saw, if that was said.
                (only.conditions, only.writes) = (Vec::new(), Vec::new());
            }
            if done.reads.len() != txn.reads.len() {
                return None;
            }
            let reads = txn.reads.iter().zip(&done.reads).filter(|(key, _)| keeps(key));
            let adds = txn.writes.iter().filter(|(_, change)| matches!(change, Change::Add(_)));
            let sums = adds.zip(&done.sums).filter(|((key, _), _)| keeps(key) && !is_aborted);
            Some(txn::Ret::Done(Done {
                lsn: done.lsn,
                abort: None,
                reads: reads.map(|(_, found)| found.clone()).collect(),
                sums: sums.map(|(_, sum)| *sum).collect(),
            }))
        }
    };
    let is_about_them = only.keys().next().is_some();
    is_about_them.then_some((only, ret))
}
