use super::*;
use crate::kv::{Status, Value};
use crate::txn::{Abort, Change, Condition, Found};
use base::Picos;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key(name: &str) -> Name {
    name.as_bytes().into()
}

fn put(pairs: &[(&str, &str)]) -> Op {
    let write = |(name, value): &(&str, &str)| (key(name), Change::Put(Value::of(value.as_bytes())));
    Op::Txn(Txn { writes: pairs.iter().map(write).collect(), ..Txn::default() })
}

fn get() -> Op {
    Op::Key(kv::Op::Get)
}

fn set(value: &str) -> Op {
    Op::Key(kv::Op::Set { value: Value::of(value.as_bytes()), ttl: None })
}

fn done(lsn: u64) -> Ret {
    Ret::Done(Done { lsn, abort: None, reads: vec![], sums: vec![] })
}

fn ok(version: u64) -> Ret {
    Ret::Key(kv::Ret::of(Status::Ok).versioned(version))
}

fn hit(value: &str, version: u64) -> Ret {
    Ret::Key(kv::Ret::hit(value.as_bytes()).versioned(version))
}

/// Each a client, when it is called, and when and how it returns.
type Line = (u64, &'static str, Op, Option<(u64, Ret)>);

fn history(lines: &[Line]) -> History {
    let mut moments = Vec::new();
    for (id, (called, name, op, returned)) in (1u64..).zip(lines) {
        moments.push((*called, id, Some((name, op)), None));
        if let Some((at, ret)) = returned {
            moments.push((*at, id, None, Some(ret)));
        }
    }
    moments.sort_by_key(|moment| moment.0);
    let mut history = History::new();
    for (at, id, call, ret) in moments {
        match (call, ret) {
            (Some((name, op)), _) => history.call(Picos(at), id as u32, id, name.as_bytes(), op.clone()),
            (_, Some(ret)) => history.returns(Picos(at), id, ret.clone()),
            _ => unreachable!("it is one of the two"),
        }
    }
    history
}

fn wrong(lines: &[Line]) -> Option<String> {
    let report = check(&history(lines), &Rules::default());
    assert_eq!(report.gave_up, []);
    report.violations.first().map(ToString::to_string)
}

/// Two keys that are one, as long as nobody looks between.
fn both(of_b: (&str, u64)) -> Vec<Line> {
    vec![
        (1, "a", set("old"), Some((2, ok(1)))),
        (3, "b", set("old"), Some((4, ok(2)))),
        (10, "", put(&[("a", "new"), ("b", "new")]), Some((90, done(3)))),
        (20, "a", get(), Some((30, hit("new", 3)))),
        (40, "b", get(), Some((50, hit(of_b.0, of_b.1)))),
    ]
}

#[test]
fn half_of_a_transaction_is_seen_by_nobody() {
    assert_eq!(wrong(&both(("new", 3))), None);
    // Each key for itself is right: the transaction may be done between the two reads of either.
    let text = wrong(&both(("old", 2))).expect("a was new before b was old");
    assert!(text.contains("what was seen of \"b\" was no more at place 3"), "{text}");
}

#[test]
fn a_read_that_is_called_before_may_see_what_was() {
    let mut lines = both(("old", 2));
    lines[4].0 = 25;
    assert_eq!(wrong(&lines), None);
}

#[test]
fn transactions_that_look_see_one_moment() {
    let look = |a: u64, b: u64| {
        let found = |version: u64| {
            let value = if version == 3 { "new" } else { "old" };
            Some(Found { version, value: Value::of(value.as_bytes()) })
        };
        let op = Op::Txn(Txn { reads: vec![key("a"), key("b")], ..Txn::default() });
        let ret = Ret::Done(Done { lsn: 3, abort: None, reads: vec![found(a), found(b)], sums: vec![] });
        let mut lines = both(("new", 3));
        lines.push((60, "", op, Some((70, ret))));
        wrong(&lines)
    };
    assert_eq!(look(3, 3), None);
    assert!(look(3, 2).is_some() && look(1, 2).is_some());
}

#[test]
fn what_wrote_has_its_place_alone_and_after_what_was_answered() {
    let twice =
        [(1, "", put(&[("a", "1"), ("b", "1")]), Some((2, done(5)))), (3, "b", set("2"), Some((4, ok(5))))];
    assert!(wrong(&twice).is_some());
    let before = [
        (1, "", put(&[("a", "1"), ("b", "1")]), Some((2, done(5)))),
        (3, "", put(&[("b", "2"), ("c", "2")]), Some((4, done(6)))),
        (5, "a", set("3"), Some((6, ok(4)))),
    ];
    assert!(wrong(&before).is_some());
    let unconnected =
        [(1, "", put(&[("a", "1"), ("b", "1")]), Some((2, done(5)))), (5, "c", set("3"), Some((6, ok(4))))];
    assert_eq!(wrong(&unconnected), None, "another chain may count for itself");
}

#[test]
fn what_was_seen_by_a_condition_is_still_so() {
    let swap = |version| {
        let conditions = vec![(key("a"), Condition::Version(version))];
        let writes = vec![(key("b"), Change::Put(Value::of(b"1")))];
        Op::Txn(Txn { conditions, writes, ..Txn::default() })
    };
    let lines = |version| {
        [
            (1, "a", set("1"), Some((2, ok(1)))),
            (3, "a", set("2"), Some((4, ok(2)))),
            (5, "", swap(version), Some((6, done(3)))),
        ]
    };
    assert_eq!(wrong(&lines(2)), None);
    assert!(wrong(&lines(1)).is_some());
}

#[test]
fn each_key_is_linearizable_with_what_transactions_do_to_it() {
    let miss = || Ret::Key(kv::Ret::of(Status::Miss));
    let delete = Op::Txn(Txn { writes: vec![(key("a"), Change::Delete)], ..Txn::default() });
    let lines = |seen: Ret| {
        [
            (1, "a", set("1"), Some((2, ok(1)))),
            (3, "", delete.clone(), Some((4, done(2)))),
            (5, "a", get(), Some((6, seen))),
        ]
    };
    assert_eq!(wrong(&lines(miss())), None);
    assert!(wrong(&lines(hit("1", 1))).is_some());
    let found_nothing = |ret: Option<Found>| {
        let op = Op::Txn(Txn { reads: vec![key("a")], ..Txn::default() });
        let ret = Ret::Done(Done { lsn: 1, abort: None, reads: vec![ret], sums: vec![] });
        wrong(&[(1, "a", set("1"), Some((2, ok(1)))), (3, "", op, Some((4, ret)))])
    };
    assert!(found_nothing(None).is_some());
    assert_eq!(found_nothing(Some(Found { version: 1, value: Value::of(b"1") })), None);
}

#[test]
fn what_has_expired_or_was_flushed_is_there_for_transactions() {
    let look = Op::Txn(Txn { reads: vec![key("a"), key("b")], ..Txn::default() });
    let found = Found { version: 1, value: Value::of(b"1") };
    let ret = Ret::Done(Done { lsn: 1, abort: None, reads: vec![Some(found), None], sums: vec![] });
    let flush = Op::Key(kv::Op::Flush { delay: None });
    let flushed = [
        (1, "a", set("1"), Some((2, ok(1)))),
        (3, "", flush, Some((4, Ret::Key(kv::Ret::of(Status::Ok))))),
        (5, "", look, Some((6, ret))),
        (7, "a", get(), Some((8, Ret::Key(kv::Ret::of(Status::Miss))))),
    ];
    assert_eq!(wrong(&flushed), None);
}

#[test]
fn what_aborts_or_is_refused_changes_nothing() {
    for ret in [
        Ret::Done(Done { lsn: 1, abort: Some(Abort::Claimed), reads: vec![], sums: vec![] }),
        Ret::Key(kv::Ret::of(Status::Error)),
    ] {
        let lines = |value, version| {
            [
                (1, "a", set("1"), Some((2, ok(1)))),
                (3, "", put(&[("a", "2")]), Some((4, ret.clone()))),
                (5, "a", get(), Some((6, hit(value, version)))),
            ]
        };
        assert_eq!(wrong(&lines("1", 1)), None);
        assert!(wrong(&lines("2", 2)).is_some());
    }
}

#[test]
fn what_was_not_answered_may_have_been_done_and_additions_to_keys_of_others_are_not_decided() {
    let lines = |op: Op| {
        [(1, "a", set("1"), Some((2, ok(1)))), (3, "", op, None), (5, "a", get(), Some((6, hit("2", 2))))]
    };
    assert_eq!(wrong(&lines(put(&[("a", "2"), ("b", "2")]))), None);
    let report = check(&history(&lines(add("a", 1))), &Rules::default());
    assert!(report.violations.is_empty() && report.gave_up.len() == 1);
    // Two reads that contradict each other are not decided either, as long as one who adds was not answered.
    assert_eq!(report.good, 0);
}

fn add(name: &str, by: i64) -> Op {
    Op::Txn(Txn { writes: vec![(key(name), Change::Add(by))], ..Txn::default() })
}

fn sum(lsn: u64, sum: i64) -> Ret {
    Ret::Done(Done { lsn, abort: None, reads: vec![], sums: vec![sum] })
}

#[test]
fn additions_to_keys_of_transactions_alone_are_replayed() {
    // Beside a key of all, which the transaction names, too.
    let lines = |of: i64, third: i64| {
        let mut both = add("n", 5);
        if let Op::Txn(txn) = &mut both {
            txn.writes.push((key("a"), Change::Put(Value::of(b"2"))));
        }
        vec![
            (1, "a", set("1"), Some((2, ok(1)))),
            (3, "", both, Some((4, sum(2, of)))),
            (5, "", add("n", 7), None),
            (7, "", add("n", 1), Some((8, sum(5, third)))),
            (9, "a", get(), Some((10, hit("2", 2)))),
        ]
    };
    // The one that was not answered was done, or not.
    for sum in [6, 13] {
        let report = check(&history(&lines(5, sum)), &Rules::default());
        assert!(report.is_linearizable() && report.good == 2, "{report:?}");
    }
    let report = check(&history(&lines(5, 7)), &Rules::default());
    assert!(!report.is_linearizable(), "no order makes it 7");
    // What an addition came to is judged also where nobody reads it.
    let all = lines(4, 5);
    let answered: Vec<Line> = all.into_iter().filter(|line| line.3.is_some()).collect();
    let report = check(&history(&answered), &Rules::default());
    assert!(!report.violations.is_empty(), "{report:?}");
    // After a flush of all nothing is replayed.
    let mut flushed = lines(5, 6);
    let flush = Op::Key(kv::Op::Flush { delay: None });
    flushed.push((11, "", flush, Some((12, Ret::Key(kv::Ret::of(Status::Ok))))));
    let report = check(&history(&flushed), &Rules::default());
    assert!(report.violations.is_empty() && !report.gave_up.is_empty(), "{report:?}");
}

#[test]
fn what_two_recorders_have_is_one_history() {
    let (mut keys, mut transactions) = (history::History::new(), txn::History::new());
    let written = kv::Op::Set { value: Value::of(b"1"), ttl: None };
    keys.call(Picos(1), 0, 1, b"a", written);
    keys.returns(Picos(3), 1, kv::Ret::of(Status::Ok).versioned(1));
    let Op::Txn(swap) = put(&[("a", "2")]) else { unreachable!("it is one") };
    transactions.call(Picos(3), 1, 2, b"", swap.clone());
    transactions.returns(
        Picos(4),
        2,
        txn::Ret::Done(Done { lsn: 2, abort: None, reads: vec![], sums: vec![] }),
    );
    transactions.call(Picos(5), 1, 3, b"", swap);
    transactions.returns(Picos(6), 3, txn::Ret::Refused);
    let merged = merge(&keys, &transactions);
    // At one moment the call is first.
    let ids: Vec<_> = merged.events().iter().map(|event| event.id).collect();
    assert_eq!(ids, [1, 2, 1, 2, 3, 3]);
    assert!(of_transactions(&merged) == transactions && of_keys(&merged) == keys);
    assert!(check(&merged, &Rules::default()).is_linearizable());
}

#[test]
fn files_have_both_and_are_read_as_they_were_written() {
    let mut lines = both(("new", 3));
    lines.push((60, "", put(&[("a", "x")]), Some((61, Ret::Key(kv::Ret::of(Status::Error))))));
    let written = history(&lines);
    let mut file = Vec::new();
    written.write(&mut file).expect("memory takes it");
    let read = History::read(&mut file.as_slice()).expect("what was written");
    assert!(read == written);
    assert_eq!((kinds(&read), of_keys(&read).operations().count()), ((true, true), 4));
    assert_eq!(of_transactions(&read).operations().count(), 2);
}

/// The smallest system: one operation after the other, each with a place of its own if it writes.
#[derive(Default)]
struct Model {
    items: BTreeMap<&'static str, (u64, String)>,
    last: u64,
}

const KEYS: [&str; 3] = ["a", "b", "c"];

impl Model {
    /// An operation of this kind on these keys: for which key it is, what it is, and what it answers.
    fn act(&mut self, kind: u8, (one, other): (usize, usize)) -> (&'static str, Op, Ret) {
        let (name, second) = (KEYS[one], KEYS[other]);
        self.last += 1;
        let (lsn, value) = (self.last, format!("{}", self.last));
        let found = |model: &Model, name: &str| {
            let item = model.items.get(name);
            item.map(|(version, value)| Found { version: *version, value: Value::of(value.as_bytes()) })
        };
        let names: Vec<&'static str> = if name == second { vec![name] } else { vec![name, second] };
        let reads: Vec<Option<Found>> = names.iter().map(|name| found(self, name)).collect();
        let answer = |abort, lsn| Ret::Done(Done { lsn, abort, reads: reads.clone(), sums: vec![] });
        let version = self.items.get(name).map_or(0, |item| item.0);
        let mut txn = Txn { reads: names.iter().map(|name| key(name)).collect(), ..Txn::default() };
        match kind {
            0 => match self.items.get(name) {
                Some((version, value)) => (name, get(), hit(value, *version)),
                None => (name, get(), Ret::Key(kv::Ret::of(Status::Miss))),
            },
            1 => {
                self.items.insert(name, (lsn, value.clone()));
                (name, set(&value), ok(lsn))
            }
            2 => match self.items.remove(name) {
                Some(_) => (name, Op::Key(kv::Op::Delete), ok(lsn)),
                None => (name, Op::Key(kv::Op::Delete), Ret::Key(kv::Ret::of(Status::Miss))),
            },
            3 => ("", Op::Txn(txn), answer(None, lsn - 1)),
            4 => {
                txn.conditions = vec![(key(name), Condition::Version(version + 1))];
                txn.writes = vec![(key(name), Change::Delete)];
                ("", Op::Txn(txn), answer(Some(Abort::Condition(0)), lsn))
            }
            5 => {
                txn.conditions = vec![(key(name), Condition::Version(version))];
                txn.writes = vec![(key(name), Change::Delete)];
                self.items.remove(name);
                ("", Op::Txn(txn), answer(None, lsn))
            }
            _ => {
                txn.conditions = vec![(key(name), Condition::Version(version))];
                let put = |name: &&str| (key(name), Change::Put(Value::of(value.as_bytes())));
                txn.writes = names.iter().map(put).collect();
                for name in &names {
                    self.items.insert(name, (lsn, value.clone()));
                }
                ("", Op::Txn(txn), answer(None, lsn))
            }
        }
    }
}

proptest! {
    /// Whatever is done one after the other, and seen as if it took longer, is right.
    #[test]
    fn what_one_order_explains_is_right(
        steps in prop::collection::vec((0u8..8, (0usize..3, 0usize..3), 0u64..40, 0u64..40), 1..40)
    ) {
        let mut model = Model::default();
        let lines: Vec<Line> = (1u64..).zip(steps).map(|(at, (kind, keys, before, after))| {
            let (name, op, ret) = model.act(kind, keys);
            // Moments differ: those of calls are even, of returns odd.
            let (called, returned) = ((1_000 * at).saturating_sub(100 * before), 1_000 * at + 100 * after);
            (100 * called + 2 * at, name, op, Some((100 * returned + 2 * at + 1, ret)))
        }).collect();
        prop_assert_eq!(wrong(&lines), None);
    }
}
