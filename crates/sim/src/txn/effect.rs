//! What a transaction does to a store: the one meaning that both judges share.
//!
//! A version that no answer told is not known ([`Item::version`] is `None`); then a precondition on it may hold or not, and what was
//! answered decides.

use super::{Abort, CLAIM, Change, Condition, Done, Found, Key, Txn};
use crate::kv::Value;
use std::collections::BTreeMap;

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The value.
    pub value: Value,
    /// The LSN of the transaction that wrote it, where that is known.
    pub version: Option<u64>,
}

/// All keys that are there.
pub type Store = BTreeMap<Key, Item>;

/// What a transaction does in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect<'a> {
    /// It writes nothing, because of this.
    pub abort: Option<Abort>,
    /// What its reads find.
    pub reads: Vec<Option<&'a Item>>,
    /// What its additions come to.
    pub sums: Vec<i64>,
    /// What it writes; `None` removes.
    pub writes: Vec<(Key, Option<Value>)>,
}

/// The number that a value is, if it is one.
pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::Digest { .. } => None,
    }
}

/// What `txn` does in `store`, when it answers `told`, or anything.
pub fn effect<'a>(txn: &Txn, store: &'a Store, told: Option<&Done>) -> Effect<'a> {
    let reads = txn.reads.iter().map(|key| store.get(key)).collect();
    let told_abort = told.and_then(|done| done.abort);
    if told_abort == Some(Abort::LongReply) {
        // How long a reply may be is the system's business.
        return Effect { abort: told_abort, reads: Vec::new(), sums: Vec::new(), writes: Vec::new() };
    }
    if !txn.is_allowed(claim_in(store)) {
        return Effect {
            abort: Some(Abort::Claimed),
            reads: Vec::new(),
            sums: Vec::new(),
            writes: Vec::new(),
        };
    }
    let nothing = |abort, reads| Effect { abort: Some(abort), reads, sums: Vec::new(), writes: Vec::new() };
    for (place, (key, condition)) in (0u32..).zip(&txn.conditions) {
        let abort = Abort::Condition(place);
        let fails = match holds(condition, store.get(key)) {
            Some(holds) => !holds,
            None => told_abort == Some(abort),
        };
        if fails {
            return nothing(abort, reads);
        }
    }
    let (mut sums, mut writes) = (Vec::new(), Vec::new());
    for (place, (key, change)) in (0u32..).zip(&txn.writes) {
        let value = match change {
            Change::Put(value) => Some(value.clone()),
            Change::Delete => None,
            Change::Add(by) => match add(store.get(key), *by) {
                Ok(sum) => {
                    sums.push(sum);
                    Some(Value::of(sum.to_string().as_bytes()))
                }
                Err(why) => return nothing(why(place), reads),
            },
        };
        writes.push((key.clone(), value));
    }
    match told_abort {
        // When there is room is the system's business.
        Some(Abort::NoRoom) if !txn.only_reads() => nothing(Abort::NoRoom, reads),
        _ => Effect { abort: None, reads, sums, writes },
    }
}

/// The number of the claim that counts; 0: none.
fn claim_in(store: &Store) -> u64 {
    let claim = store.get(CLAIM).and_then(|item| number(&item.value));
    claim.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// Whether a precondition holds; `None` where the version is not known.
fn holds(condition: &Condition, item: Option<&Item>) -> Option<bool> {
    Some(match (condition, item) {
        (Condition::Version(version), None) => *version == 0,
        (Condition::Version(version), Some(item)) => return item.version.map(|is| is == *version),
        (Condition::Exists, item) => item.is_some(),
        (Condition::Value(value), item) => item.is_some_and(|item| item.value == *value),
        (Condition::AtLeast(least), None) => *least <= 0,
        (Condition::AtLeast(least), Some(item)) => number(&item.value).is_some_and(|is| is >= *least),
    })
}

fn add(item: Option<&Item>, by: i64) -> Result<i64, fn(u32) -> Abort> {
    let before =
        item.map_or(Some(0), |item| number(&item.value)).ok_or(Abort::NotANumber as fn(u32) -> Abort)?;
    before.checked_add(by).ok_or(Abort::Overflow as fn(u32) -> Abort)
}

impl Effect<'_> {
    /// Whether this is what was answered. A version that is not known fits any.
    pub fn answers(&self, done: &Done) -> bool {
        let same = |item: &Option<&Item>, found: &Option<Found>| match (item, found) {
            (None, None) => true,
            (Some(item), Some(found)) => {
                item.value == found.value && item.version.is_none_or(|version| version == found.version)
            }
            _ => false,
        };
        self.abort == done.abort
            && self.sums == done.sums
            && self.reads.len() == done.reads.len()
            && self.reads.iter().zip(&done.reads).all(|(item, found)| same(item, found))
    }
}

/// Does `writes` in `store`; returns what undoes them.
pub fn write(
    store: &mut Store,
    writes: Vec<(Key, Option<Value>)>,
    version: Option<u64>,
) -> Vec<(Key, Option<Item>)> {
    let put = |(key, value): (Key, Option<Value>)| {
        let before = match value {
            Some(value) => store.insert(key.clone(), Item { value, version }),
            None => store.remove(&key),
        };
        (key, before)
    };
    writes.into_iter().map(put).collect()
}

/// Takes back what [`write()`] did.
pub fn undo(store: &mut Store, before: Vec<(Key, Option<Item>)>) {
    for (key, item) in before {
        match item {
            Some(item) => drop(store.insert(key, item)),
            None => drop(store.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        name.as_bytes().into()
    }

    fn store() -> Store {
        let item = |(name, value): (&str, &str)| {
            (key(name), Item { value: Value::of(value.as_bytes()), version: Some(7) })
        };
        [("n", "5"), ("text", "x"), ("full", "9223372036854775807")].into_iter().map(item).collect()
    }

    fn abort(txn: &Txn) -> Option<Abort> {
        effect(txn, &store(), None).abort
    }

    #[test]
    fn preconditions_are_looked_at_in_order() {
        let on = |name: &str, condition| Txn { conditions: vec![(key(name), condition)], ..Txn::default() };
        for (condition, on_n, on_absent) in [
            (Condition::Version(7), true, false),
            (Condition::Version(0), false, true),
            (Condition::Exists, true, false),
            (Condition::Value(Value::of(b"5")), true, false),
            (Condition::AtLeast(5), true, false),
            (Condition::AtLeast(6), false, false),
            (Condition::AtLeast(0), true, true),
        ] {
            assert_eq!(abort(&on("n", condition.clone())).is_none(), on_n, "{condition:?}");
            assert_eq!(abort(&on("absent", condition.clone())).is_none(), on_absent, "{condition:?}");
        }
        assert!(abort(&on("text", Condition::AtLeast(i64::MIN))).is_some());
        let two = Txn {
            conditions: vec![(key("n"), Condition::Exists), (key("z"), Condition::Exists)],
            ..Txn::default()
        };
        assert_eq!(abort(&two), Some(Abort::Condition(1)));
    }

    #[test]
    fn additions_add_or_say_why_not() {
        let adds = |changes: &[(&str, i64)]| Txn {
            writes: changes.iter().map(|(name, by)| (key(name), Change::Add(*by))).collect(),
            ..Txn::default()
        };
        assert_eq!(abort(&adds(&[("n", 1), ("text", 1)])), Some(Abort::NotANumber(1)));
        assert_eq!(abort(&adds(&[("full", 1)])), Some(Abort::Overflow(0)));
        let store = store();
        let done = effect(&adds(&[("n", -6), ("absent", 3)]), &store, None);
        assert_eq!((done.abort, done.sums), (None, vec![-1, 3]));
        assert_eq!(done.writes[0].1, Some(Value::of(b"-1")));
    }

    #[test]
    fn what_is_written_can_be_taken_back() {
        let mut store = store();
        let before = store.clone();
        let writes = vec![(key("n"), None), (key("new"), Some(Value::of(b"v")))];
        let undone = write(&mut store, writes, Some(9));
        assert!(!store.contains_key(&key("n")) && store[&key("new")].version == Some(9));
        undo(&mut store, undone);
        assert_eq!(store, before);
    }
}
