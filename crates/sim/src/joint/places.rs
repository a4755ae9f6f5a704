//! The places of operations in the order that the system itself says, by the versions that answers tell.
//!
//! Keys that transactions name together are in one system, and its versions are places in one order (LSNs). So, among those keys:
//! 1. What wrote has the place of its version, and no other has it.
//! 2. What wrote comes after all that was answered before it was called.
//! 3. What was seen, (key, version), was still so: by what only looked, at the first place that is neither before what it saw nor before what was answered
//!    before it was called; by what wrote, just before its own.
//!
//! A look has the first place that it can have, so if it breaks a rule there it would break one anywhere. A history that keeps these is strictly
//! serializable, as far as answers tell versions.

use super::{Asked, History, Name, Op, Ret};
use crate::check::Finding;
use crate::kv::{self, Expect, Status};
use crate::txn::{Change, Condition, Done, Txn};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What an answer tells of places.
struct Told<'a> {
    /// The place at which it wrote; none if it only looked.
    wrote: Option<u64>,
    /// Its keys that it wrote.
    written: Vec<&'a Name>,
    /// What it saw, with versions.
    saw: Vec<(&'a Name, u64)>,
    /// If it only looked: it has no earlier place.
    from: u64,
}

/// The first contradiction.
pub(super) fn contradiction(history: &History) -> Option<Finding> {
    let all: Vec<Asked<'_>> = history.operations().collect();
    let groups = Groups::of(&all);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, asked) in all.iter().enumerate() {
        if let Some(group) = groups.of_asked(asked) {
            members.entry(group).or_default().push(i);
        }
    }
    members.values().find_map(|group| Order { all: &all, group, told: HashMap::new() }.contradiction())
}

/// Keys that are named together, perhaps through others.
pub(super) struct Groups<'a> {
    parents: HashMap<&'a Name, &'a Name>,
    numbers: HashMap<&'a Name, usize>,
}

impl<'a> Groups<'a> {
    pub(super) fn of(all: &[Asked<'a>]) -> Groups<'a> {
        let mut groups = Groups { parents: HashMap::new(), numbers: HashMap::new() };
        for asked in all {
            let Op::Txn(txn) = asked.op else { continue };
            let mut keys = txn.keys();
            let Some(first) = keys.next() else { continue };
            groups.parents.entry(first).or_insert(first);
            for key in keys {
                groups.parents.entry(key).or_insert(key);
                let (one, other) = (groups.root(first), groups.root(key));
                groups.parents.insert(one.max(other), one.min(other));
            }
        }
        let keys: Vec<&'a Name> = groups.parents.keys().copied().collect();
        let roots: BTreeSet<&'a Name> = keys.iter().map(|key| groups.root(key)).collect();
        groups.numbers = roots.into_iter().zip(0..).collect();
        groups
    }

    fn root(&self, mut key: &'a Name) -> &'a Name {
        while self.parents[key] != key {
            key = self.parents[key];
        }
        key
    }

    fn of_key(&self, key: &Name) -> Option<usize> {
        let (key, _) = self.parents.get_key_value(key)?;
        self.numbers.get(self.root(key)).copied()
    }

    pub(super) fn of_asked(&self, asked: &Asked<'_>) -> Option<usize> {
        match asked.op {
            Op::Key(_) => self.of_key(asked.key),
            Op::Txn(txn) => self.of_key(txn.keys().next()?),
        }
    }
}

/// The operations of one group.
struct Order<'h, 'a> {
    all: &'h [Asked<'a>],
    group: &'h [usize],
    told: HashMap<usize, Told<'a>>,
}

impl<'a> Order<'_, 'a> {
    fn contradiction(mut self) -> Option<Finding> {
        for &i in self.group {
            if let Some(told) = told(&self.all[i]) {
                self.told.insert(i, told);
            }
        }
        let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
        let mut writes: HashMap<&'a Name, BTreeMap<u64, usize>> = HashMap::new();
        for &i in self.group {
            let Some(told) = self.told.get(&i) else { continue };
            let Some(place) = told.wrote else { continue };
            if let Some(other) = writers.insert(place, i) {
                return Some(self.finding("two that wrote have the same place in the order", &[other, i], i));
            }
            for key in &told.written {
                writes.entry(key).or_default().insert(place, i);
            }
        }
        let mut moments: Vec<(usize, usize)> = Vec::new();
        for &i in self.told.keys() {
            let returned = self.all[i].returned.expect("what is told was answered").1;
            moments.extend([(self.all[i].called.1, i), (returned, i)]);
        }
        moments.sort_unstable();
        let mut floors: HashMap<usize, (u64, Option<usize>)> = HashMap::new();
        let mut highest: (u64, Option<usize>) = (0, None);
        for (position, i) in moments {
            if position == self.all[i].called.1 {
                floors.insert(i, highest);
                continue;
            }
            match self.place(i, floors[&i], &writes) {
                Ok(place) => highest = highest.max((place, Some(i))),
                Err(finding) => return Some(finding),
            }
        }
        None
    }

    /// The place of one that returns.
    fn place(
        &self,
        i: usize,
        (floor, before): (u64, Option<usize>),
        writes: &HashMap<&'a Name, BTreeMap<u64, usize>>,
    ) -> Result<u64, Finding> {
        let Told { wrote, saw, from, .. } = &self.told[&i];
        let others = |more: usize| before.into_iter().chain([more]).collect::<Vec<_>>();
        let seen = saw.iter().map(|(_, version)| *version).max().unwrap_or(0);
        let place = match *wrote {
            Some(place) if place <= floor => {
                let what = "what wrote is not after what was answered before it was called";
                return Err(self.finding(what, &others(i), i));
            }
            Some(place) => place,
            None => seen.max(*from).max(floor),
        };
        for (key, version) in saw {
            // What it wrote itself it has not seen.
            let last = if wrote.is_some() { place.saturating_sub(1) } else { place };
            let Some(of_key) = writes.get(key).filter(|_| *version < last) else { continue };
            if let Some((_, &writer)) = of_key.range(version + 1..=last).next() {
                let what = format!(
                    "what was seen of \"{}\" was no more at place {place}, where it must have been",
                    key.escape_ascii()
                );
                let mut those = vec![writer];
                those.extend(before.filter(|other| *other != writer));
                those.push(i);
                return Err(self.finding(&what, &those, i));
            }
        }
        Ok(place)
    }

    fn finding(&self, what: &str, those: &[usize], about: usize) -> Finding {
        let text = those.iter().fold(what.to_owned(), |text, &i| text + "\n  " + &show(&self.all[i]));
        let key = match self.all[about].op {
            Op::Key(_) => self.all[about].key.to_vec(),
            Op::Txn(txn) => txn.keys().next().map_or_else(Vec::new, |key| key.to_vec()),
        };
        Finding { key, text }
    }
}

/// One operation in a line.
fn show(asked: &Asked<'_>) -> String {
    let Asked { client, id, key, op, called, returned } = asked;
    let op = match op {
        Op::Key(op) => format!("{op:?} \"{}\"", key.escape_ascii()),
        Op::Txn(txn) => format!("[{txn}]"),
    };
    let end = match returned {
        None => "never returned".to_owned(),
        Some((at, _, Ret::Key(ret))) => format!("returned {ret:?} at {} ps", at.0),
        Some((at, _, Ret::Done(done))) => format!("returned {done} at {} ps", at.0),
    };
    format!("client {client}, operation {id}: {op} called at {} ps, {end}", called.0.0)
}

fn told<'a>(asked: &Asked<'a>) -> Option<Told<'a>> {
    match (asked.op, asked.returned?.2) {
        (Op::Key(op), Ret::Key(ret)) => told_of_key(asked.key, op, ret),
        (Op::Txn(txn), Ret::Done(done)) => Some(told_of_txn(txn, done)),
        _ => None,
    }
}

fn told_of_key<'a>(key: &'a Name, op: &kv::Op, ret: &kv::Ret) -> Option<Told<'a>> {
    let version = ret.version.filter(|_| ret.status == Status::Ok)?;
    let looked = Told { wrote: None, written: Vec::new(), saw: vec![(key, version)], from: 0 };
    let wrote = || Told { wrote: Some(version), written: vec![key], saw: Vec::new(), from: 0 };
    match op {
        // It changes the deadline, not the version.
        kv::Op::Get | kv::Op::Touch { .. } => Some(looked),
        kv::Op::Flush { .. } => None,
        kv::Op::Cas { expect: Expect::Version(expected), .. } => {
            Some(Told { saw: vec![(key, *expected)], ..wrote() })
        }
        _ => Some(wrote()),
    }
}

fn told_of_txn<'a>(txn: &'a Txn, done: &Done) -> Told<'a> {
    let found = txn.reads.iter().zip(&done.reads);
    let mut saw: Vec<_> = found.filter_map(|(key, found)| Some((key, found.as_ref()?.version))).collect();
    if txn.only_reads() || done.abort.is_some() {
        return Told { wrote: None, written: Vec::new(), saw, from: done.lsn };
    }
    saw.extend(txn.conditions.iter().filter_map(|(key, condition)| match condition {
        Condition::Version(version) if *version > 0 => Some((key, *version)),
        _ => None,
    }));
    // To delete what is not there changes nothing; whether it was there is not told.
    let changes = |(key, change): &'a (Name, Change)| {
        let was_seen = || saw.iter().any(|(seen, _)| *seen == key);
        (*change != Change::Delete || was_seen()).then_some(key)
    };
    let written = txn.writes.iter().filter_map(changes).collect();
    Told { wrote: Some(done.lsn), written, saw, from: 0 }
}
