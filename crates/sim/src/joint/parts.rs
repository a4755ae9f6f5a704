//! What transactions do to each of their keys, as operations on it, beside those of clients of keys.
//!
//! | of a transaction | on its key |
//! |---|---|
//! | a read that found nothing, also of one that aborted | a get that missed |
//! | a read that found something, of a key that cannot have expired or been flushed | a get that showed it |
//! | put, or add that came to something | a set; an add or cas if it was on the condition of that version and the key cannot have expired or been flushed |
//! | delete | a flush of this key: it is gone, whether it was there or not |
//!
//! All of these have the transaction's call and return, so one order explains them if one explains the transaction; that all have one moment is for
//! [`super::places`].

use super::{Asked, History, Name, Op, Ret};
use crate::history::What;
use crate::kv::{self, Expect, Status, Value};
use crate::txn::{Change, Condition, Done, Txn};
use base::Picos;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Numbers of operations beyond this are not kept.
const MOST_NUMBER: u64 = 1 << 40;

/// A history of keys.
pub(super) struct Parts {
    pub(super) history: crate::history::History<kv::Op, kv::Ret>,
    /// Keys to which something was added of which nobody knows what it came to.
    pub(super) unknown: BTreeSet<Name>,
}

/// An operation on one key.
struct Part {
    key: Name,
    op: kv::Op,
    ret: Option<kv::Ret>,
}

/// The history of keys alone: transactions are left out.
pub(super) fn of_keys(history: &History) -> crate::history::History<kv::Op, kv::Ret> {
    let mut only = crate::history::History::new();
    let mut calls = HashSet::new();
    for event in history.events() {
        match &event.what {
            What::Call { key, op: Op::Key(op) } => {
                calls.insert(event.id);
                only.call(event.at, event.client, event.id, key, op.clone());
            }
            What::Return { ret: Ret::Key(ret), .. } if calls.contains(&event.id) => {
                only.returns(event.at, event.id, ret.clone());
            }
            _ => {}
        }
    }
    only
}

/// All operations on each key.
pub(super) fn of(history: &History) -> Parts {
    let mortal = Mortal::of(history);
    let mut unknown = BTreeSet::new();
    // By their places: what is called or returns there. Numbers of operations are kept, and those of parts are not among them.
    let mut events: Vec<(usize, Picos, u32, u64, Moment)> = Vec::new();
    let highest = history.operations().map(|asked| asked.id).max().unwrap_or(0);
    let base = if highest < MOST_NUMBER { (highest + 1).next_power_of_two() } else { 1 << 40 };
    for (index, asked) in (0u64..).zip(history.operations()) {
        let number = if highest < MOST_NUMBER { asked.id } else { index };
        let parts = match asked.op {
            Op::Key(op) => vec![part_of_key(&asked, op)],
            Op::Txn(txn) => parts_of(txn, &asked, &mortal, &mut unknown),
        };
        for (nth, Part { key, op, ret }) in (0u64..).zip(parts) {
            let number = base * nth + number;
            let (called, returned) = (asked.called, asked.returned);
            events.push((called.1, called.0, asked.client, number, Moment::Call(key, op)));
            if let (Some((at, place, _)), Some(ret)) = (returned, ret) {
                events.push((place, at, asked.client, number, Moment::Return(ret)));
            }
        }
    }
    events.sort_by_key(|(place, ..)| *place);
    let mut all = crate::history::History::new();
    for (_, at, client, number, moment) in events {
        match moment {
            Moment::Call(key, op) => all.call(at, client, number, &key, op),
            Moment::Return(ret) => all.returns(at, number, ret),
        }
    }
    Parts { history: all, unknown }
}

enum Moment {
    Call(Name, kv::Op),
    Return(kv::Ret),
}

/// Keys that may have expired or been flushed.
struct Mortal<'a> {
    all: bool,
    keys: HashSet<&'a [u8]>,
}

impl<'a> Mortal<'a> {
    fn of(history: &'a History) -> Mortal<'a> {
        let mut mortal = Mortal { all: false, keys: HashSet::new() };
        for asked in history.operations() {
            let Op::Key(op) = asked.op else { continue };
            match op {
                kv::Op::Flush { .. } if asked.key.is_empty() => mortal.all = true,
                kv::Op::Flush { .. } => drop(mortal.keys.insert(asked.key)),
                op if op.ttl().is_some() => drop(mortal.keys.insert(asked.key)),
                _ => {}
            }
        }
        mortal
    }

    fn has(&self, key: &[u8]) -> bool {
        self.all || self.keys.contains(key)
    }
}

fn part_of_key(asked: &Asked<'_>, op: &kv::Op) -> Part {
    let ret = asked.returned.and_then(|(_, _, ret)| match ret {
        Ret::Key(ret) => Some(ret.clone()),
        // No answer of an operation on a key: as if there were none.
        Ret::Done(_) => None,
    });
    Part { key: Arc::clone(asked.key), op: op.clone(), ret }
}

fn parts_of(txn: &Txn, asked: &Asked<'_>, mortal: &Mortal<'_>, unknown: &mut BTreeSet<Name>) -> Vec<Part> {
    match asked.returned {
        Some((_, _, Ret::Done(done))) => parts_of_done(txn, done, mortal),
        Some((_, _, Ret::Key(_))) => Vec::new(),
        None => {
            let part = |(key, change): &(Name, Change)| {
                let op = match change {
                    Change::Put(value) => kv::Op::Set { value: value.clone(), ttl: None },
                    Change::Delete => kv::Op::Flush { delay: None },
                    Change::Add(_) => {
                        unknown.insert(Arc::clone(key));
                        return None;
                    }
                };
                Some(Part { key: Arc::clone(key), op, ret: None })
            };
            txn.writes.iter().filter_map(part).collect()
        }
    }
}

fn parts_of_done(txn: &Txn, done: &Done, mortal: &Mortal<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (key, found) in txn.reads.iter().zip(&done.reads) {
        let ret = match found {
            None => kv::Ret::of(Status::Miss),
            Some(_) if mortal.has(key) => continue,
            Some(found) => {
                kv::Ret { status: Status::Ok, value: Some(found.value.clone()), version: Some(found.version) }
            }
        };
        parts.push(Part { key: Arc::clone(key), op: kv::Op::Get, ret: Some(ret) });
    }
    if done.abort.is_some() {
        return parts;
    }
    let mut sums = done.sums.iter();
    for (key, change) in &txn.writes {
        let value = match change {
            Change::Put(value) => value.clone(),
            Change::Add(_) => {
                let Some(sum) = sums.next() else { continue };
                Value::of(sum.to_string().as_bytes())
            }
            Change::Delete => {
                let ret = Some(kv::Ret::of(Status::Ok).versioned(done.lsn));
                let op = kv::Op::Flush { delay: None };
                parts.push(Part { key: Arc::clone(key), op, ret });
                continue;
            }
        };
        let expected = txn.conditions.iter().find_map(|(of, condition)| match condition {
            Condition::Version(version) if of == key => Some(*version),
            _ => None,
        });
        let op = match expected {
            Some(0) => kv::Op::Add { value, ttl: None },
            Some(version) if !mortal.has(key) => {
                kv::Op::Cas { value, expect: Expect::Version(version), ttl: None }
            }
            _ => kv::Op::Set { value, ttl: None },
        };
        let ret = Some(kv::Ret::of(Status::Ok).versioned(done.lsn));
        parts.push(Part { key: Arc::clone(key), op, ret });
    }
    parts
}
