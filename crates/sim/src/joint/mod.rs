//! Histories in which clients of keys and clients of transactions act on the same items, and their judge: is all of it strictly serializable, an operation
//! on one key being a transaction of one?
//!
//! Three looks, which a history must all bear:
//! 1. *Keys* (`parts`): each key is linearizable ([`crate::check`]), where what a transaction does to a key is an operation on it, with the
//!    transaction's call and return. Expiry, flushes and what is not known are judged here.
//! 2. *Places* (`places`): where one transaction names two keys, all versions of both come from one order, the system's. In that order every
//!    operation that tells a version has one place, for all of its keys, and what was answered before another was called comes first. This is what tells that
//!    half of a transaction was seen before the other half.
//!
//! 3. *Order* (`order`): keys that only transactions name are replayed in that order, what additions came to included.
//!
//! What a violation shows: the operations that contradict each other. What no look sees: operations that tell no version (a miss, a delete that does not say
//! which) have a place in their key's order, and none among those of other keys.
//!
//! Transactions see what memcached's clients do not, what has expired or was flushed until it is removed (`docs/durability.md`): what one reads of a key that
//! may have expired is held to the places alone.
//!
//! Cost: O(n log n), and the searches of the keys.

mod order;
mod parts;
mod places;
#[cfg(test)]
mod tests;

use crate::check::{self, Report, Rules};
use crate::history::{self, Answer, Call, What};
use crate::kv;
use crate::txn::{self, Done, Txn};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::sync::Arc;

/// What clients of keys and of transactions asked and were answered.
pub type History = history::History<Op, Ret>;

type Asked<'a> = history::Operation<'a, Op, Ret>;
type Name = Arc<[u8]>;

/// What is asked: of the key that the history names, or of those that the transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// An operation on a key.
    Key(kv::Op),
    /// A transaction.
    Txn(Txn),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ret {
    /// To an operation on a key; to a transaction only that it was refused ([`kv::Status::Error`]): it is certain that it was not done.
    Key(kv::Ret),
    /// To a transaction.
    Done(Done),
}

impl Call for Op {
    fn name(&self) -> &'static str {
        match self {
            Op::Key(op) => op.name(),
            Op::Txn(txn) => txn.name(),
        }
    }

    fn args(&self) -> Map<String, Json> {
        match self {
            Op::Key(op) => op.args(),
            Op::Txn(txn) => txn.args(),
        }
    }

    fn read(name: &str, args: &Map<String, Json>) -> Result<Op, String> {
        match name == txn::json::NAME {
            true => Txn::read(name, args).map(Op::Txn),
            false => kv::Op::read(name, args).map(Op::Key),
        }
    }
}

impl Answer for Ret {
    fn fields(&self) -> Map<String, Json> {
        match self {
            Ret::Key(ret) => ret.fields(),
            Ret::Done(done) => txn::Ret::Done(done.clone()).fields(),
        }
    }

    /// Only what became of a transaction has an LSN.
    fn read(fields: &Map<String, Json>) -> Result<Ret, String> {
        if !fields.contains_key("lsn") {
            return kv::Ret::read(fields).map(Ret::Key);
        }
        match txn::Ret::read(fields)? {
            txn::Ret::Done(done) => Ok(Ret::Done(done)),
            txn::Ret::Refused => Ok(Ret::Key(kv::Ret::of(kv::Status::Error))),
        }
    }
}

/// Which kinds of operations a history has: on keys, and transactions.
pub fn kinds(history: &History) -> (bool, bool) {
    let is_txn = |asked: Asked<'_>| matches!(asked.op, Op::Txn(_));
    (history.operations().any(|asked| !is_txn(asked)), history.operations().any(is_txn))
}

/// The operations on keys of a history alone.
pub fn of_keys(history: &History) -> history::History<kv::Op, kv::Ret> {
    parts::of_keys(history)
}

/// The transactions of a history alone.
pub fn of_transactions(history: &History) -> txn::History {
    let mut only = txn::History::new();
    let mut calls = HashSet::new();
    for event in history.events() {
        match &event.what {
            What::Call { key, op: Op::Txn(txn) } => {
                calls.insert(event.id);
                only.call(event.at, event.client, event.id, key, txn.clone());
            }
            What::Return { ret, .. } if calls.contains(&event.id) => {
                let ret = match ret {
                    Ret::Done(done) => txn::Ret::Done(done.clone()),
                    Ret::Key(_) => txn::Ret::Refused,
                };
                only.returns(event.at, event.id, ret);
            }
            _ => {}
        }
    }
    only
}

/// What clients of keys and of transactions saw at the same time, as one history: calls come first at one moment, so nothing is ordered that was not.
///
/// # Panics
/// When operations of both have the same number.
pub fn merge(keys: &history::History<kv::Op, kv::Ret>, transactions: &txn::History) -> History {
    let mut merged = History::new();
    let mut keys = keys.events().iter().peekable();
    let mut transactions = transactions.events().iter().peekable();
    loop {
        let is_key = match (keys.peek(), transactions.peek()) {
            (None, None) => return merged,
            (Some(key), Some(txn)) => {
                let is_return =
                    (matches!(key.what, What::Return { .. }), matches!(txn.what, What::Return { .. }));
                (key.at, is_return.0) <= (txn.at, is_return.1)
            }
            (key, _) => key.is_some(),
        };
        if is_key {
            let event = keys.next().expect("it was looked at");
            match &event.what {
                What::Call { key, op } => {
                    merged.call(event.at, event.client, event.id, key, Op::Key(op.clone()));
                }
                What::Return { ret, .. } => merged.returns(event.at, event.id, Ret::Key(ret.clone())),
            }
            continue;
        }
        let event = transactions.next().expect("it was looked at");
        match &event.what {
            What::Call { key, op } => merged.call(event.at, event.client, event.id, key, Op::Txn(op.clone())),
            What::Return { ret: txn::Ret::Done(done), .. } => {
                merged.returns(event.at, event.id, Ret::Done(done.clone()));
            }
            What::Return { ret: txn::Ret::Refused, .. } => {
                merged.returns(event.at, event.id, Ret::Key(kv::Ret::of(kv::Status::Error)));
            }
        }
    }
}

/// Judges a history: keys, each as [`check::check`] does, the places of all, and the replay of what is of transactions alone.
pub fn check(history: &History, rules: &Rules) -> Report {
    let wrong = places::contradiction(history);
    let mut parts = parts::of(history);
    let replayed = if rules.may_evict { order::Replayed::default() } else { order::replay(history) };
    let mut report = check::check(&parts.history, rules);
    // Of these the keys alone know too little, whatever they say.
    let is_known = |finding: &check::Finding| !parts.unknown.iter().any(|key| **key == *finding.key);
    let found = report.violations.len() + report.gave_up.len();
    report.violations.retain(is_known);
    report.gave_up.retain(is_known);
    report.good += found - report.violations.len() - report.gave_up.len();
    parts.unknown.retain(|key| !replayed.good.contains(key));
    report.good = report.good.saturating_sub(parts.unknown.len());
    report.violations.splice(0..0, wrong.into_iter().chain(replayed.violations));
    let not_decided = |key: &Name| check::Finding {
        key: key.to_vec(),
        text: "a transaction that adds to it was not answered: what it became is not known".to_owned(),
    };
    report.gave_up.extend(parts.unknown.iter().map(not_decided));
    report.gave_up.extend(replayed.undecided);
    report
}
