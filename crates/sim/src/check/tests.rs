use super::*;
use crate::kv::{Compute, Expect, Item, Status, Value};
use crate::linear::Spec;
use base::Prng;
use proptest::prelude::*;

type Kvs = History<Op, Ret>;

fn set(text: &str) -> Op {
    Op::Set { value: Value::of(text.as_bytes()), ttl: None }
}

fn hit(text: &str) -> Ret {
    Ret::hit(text.as_bytes())
}

const OK: Ret = Ret::of(Status::Ok);
const MISS: Ret = Ret::of(Status::Miss);

/// When it was called, when it returned and with what, and what it was.
type Done = (u64, Option<(u64, Ret)>, Op);

/// Operations, each by a client of its own.
fn history(operations: Vec<Done>) -> Kvs {
    let mut moments = Vec::new();
    for (id, (called, returned, op)) in (0u64..).zip(operations) {
        moments.push((called, 0, id, Some(op), None));
        moments.extend(returned.map(|(at, ret)| (at, 1, id, None, Some(ret))));
    }
    moments.sort_by_key(|moment| (moment.0, moment.1, moment.2));
    let mut history = Kvs::new();
    for (at, _, id, op, ret) in moments {
        op.into_iter().for_each(|op| history.call(Picos(at), id as u32, id, b"k", op));
        ret.into_iter().for_each(|ret| history.returns(Picos(at), id, ret));
    }
    history
}

fn verdict(history: &Kvs) -> Report {
    check(history, &Rules::default())
}

#[track_caller]
fn good(operations: Vec<Done>) {
    let report = verdict(&history(operations));
    assert!(report.is_linearizable(), "{report:?}");
}

#[track_caller]
fn bad(operations: Vec<Done>, reason: &str) {
    let report = verdict(&history(operations));
    assert!(report.gave_up.is_empty() && report.violations.len() == 1, "{report:?}");
    let text = report.violations[0].to_string();
    assert!(text.contains(reason), "{text}");
}

#[test]
fn a_stale_read() {
    let answered = |ret: Ret| {
        vec![(0, Some((1, OK)), set("a")), (2, Some((3, OK)), set("b")), (4, Some((5, ret)), Op::Get)]
    };
    good(answered(hit("b")));
    bad(
        answered(hit("a")),
        "no order explains the return of\n  client 2, operation 2: Get called at 4 ps, returned Ok \"a\"",
    );
    bad(answered(MISS), "which met \"b\"");
}

#[test]
fn a_stale_read_by_version() {
    let read = |version, at| {
        vec![
            (0, Some((1, OK.versioned(1))), set("a")),
            (2, Some((3, OK.versioned(2))), set("b")),
            (at, Some((5, hit(if version == 1 { "a" } else { "b" }).versioned(version))), Op::Get),
        ]
    };
    good(read(2, 4));
    good(read(1, 2));
    bad(read(1, 4), "older version");
    bad(
        vec![(0, Some((1, OK.versioned(2))), set("a")), (2, Some((3, OK.versioned(1))), set("b"))],
        "no higher version",
    );
    bad(
        vec![(0, Some((9, OK.versioned(2))), set("a")), (2, Some((3, OK.versioned(2))), set("b"))],
        "same version",
    );
    bad(
        vec![(0, Some((9, OK.versioned(2))), set("a")), (2, Some((3, hit("b").versioned(2))), Op::Get)],
        "not",
    );
    bad(vec![(2, Some((3, hit("b").versioned(2))), Op::Get), (4, None, set("b"))], "no change has");
}

#[test]
fn a_lost_update() {
    let incr = || Op::Compute { how: Compute::Incr, by: 1, init: Some(1), ttl: None };
    let answers =
        |one: &str, other: &str| vec![(0, Some((5, hit(one))), incr()), (1, Some((6, hit(other))), incr())];
    good(answers("1", "2"));
    good(answers("2", "1"));
    bad(answers("1", "1"), "no order");
    let cas = |to: &str| Op::Cas { value: Value::of(to.as_bytes()), expect: Expect::Version(7), ttl: None };
    let swaps = |other: Ret| {
        vec![
            (0, Some((1, OK.versioned(7))), set("a")),
            (2, Some((5, OK.versioned(8))), cas("b")),
            (2, Some((6, other)), cas("c")),
        ]
    };
    good(swaps(Ret::of(Status::Exists)));
    bad(swaps(OK.versioned(9)), "no order");
}

#[test]
fn a_new_value_and_then_the_old() {
    let reads = |first: &str, second: &str| {
        vec![
            (0, Some((1, OK)), set("a")),
            (2, Some((20, OK)), set("b")),
            (3, Some((4, hit(first))), Op::Get),
            (5, Some((6, hit(second))), Op::Get),
        ]
    };
    good(reads("a", "b"));
    good(reads("b", "b"));
    bad(reads("b", "a"), "no order");
}

#[test]
fn a_write_without_an_answer_may_have_been_done_but_stays_done() {
    let reads = |first: Ret, second: Ret| {
        vec![(0, None, set("a")), (3, Some((4, first)), Op::Get), (5, Some((6, second)), Op::Get)]
    };
    good(reads(MISS, MISS));
    good(reads(MISS, hit("a")));
    good(reads(hit("a"), hit("a")));
    bad(reads(hit("a"), MISS), "no order");
    good(reads(hit("a").versioned(3), hit("a").versioned(3)));
    bad(reads(hit("a").versioned(3), hit("a").versioned(2)), "older");
    bad(reads(hit("a").versioned(3), hit("a").versioned(4)), "no order");
}

#[test]
fn expiry_is_exact_on_both_sides() {
    let rules = Rules { early: Picos(1), late: Picos(5), ..Rules::default() };
    // Set between 10 and 20 to live for 100: it may vanish from 109 on, and must have by 125.
    let read = |called, returned, ret: Ret| {
        let stored = Op::Set { value: Value::of(b"a"), ttl: Some(Picos(100)) };
        let list = vec![
            (10, Some((20, OK)), stored),
            (called, Some((returned, ret)), Op::Get),
            (1_000, Some((1_001, MISS)), Op::Delete),
        ];
        check(&history(list), &rules).is_linearizable()
    };
    assert!(!read(100, 108, MISS) && read(100, 109, MISS) && read(200, 300, MISS));
    assert!(read(100, 108, hit("a")) && read(125, 300, hit("a")) && !read(126, 300, hit("a")));
}

#[test]
fn what_replaces_an_item_replaces_its_deadline() {
    let stored = || Op::Set { value: Value::of(b"a"), ttl: Some(Picos(100)) };
    let then = |op: Op, late: Ret| {
        let list = vec![
            (10, Some((20, OK)), stored()),
            (30, Some((40, OK)), op),
            (500, Some((501, late)), Op::Get),
            (1_000, Some((1_001, MISS)), Op::Touch { ttl: None }),
            (1_002, Some((1_003, MISS)), Op::Get),
        ];
        verdict(&history(list))
    };
    assert!(!then(set("b"), hit("b")).is_linearizable(), "a miss at the end needs a reason");
    assert!(then(Op::Touch { ttl: Some(Picos(900)) }, hit("a")).is_linearizable());
    assert!(!then(Op::Touch { ttl: Some(Picos(900)) }, MISS).is_linearizable());
    assert!(!then(Op::Append { value: Value::of(b"x") }, hit("ax")).is_linearizable());
    assert!(then(Op::Append { value: Value::of(b"x") }, MISS).is_linearizable());
}

#[test]
fn a_flush_empties_each_key() {
    let flushed = |delay: Option<u64>, at, ret: Ret| {
        let mut history = Kvs::new();
        for (id, key) in [b"k", b"l"].into_iter().enumerate() {
            history.call(Picos(id as u64), 0, id as u64, key, set("a"));
            history.returns(Picos(id as u64), id as u64, OK);
        }
        history.call(Picos(10), 0, 7, b"", Op::Flush { delay: delay.map(Picos) });
        history.returns(Picos(20), 7, OK);
        for (id, key) in [b"k", b"l"].into_iter().enumerate() {
            history.call(Picos(at), 1, 10 + id as u64, key, Op::Get);
            history.returns(Picos(at), 10 + id as u64, ret.clone());
        }
        history.call(Picos(9_000), 1, 99, b"m", Op::Get);
        verdict(&history)
    };
    assert!(flushed(None, 30, MISS).is_linearizable());
    assert_eq!(flushed(None, 30, hit("a")).violations.len(), 2);
    assert!(flushed(Some(100), 30, hit("a")).is_linearizable());
    assert!(!flushed(Some(100), 30, MISS).is_linearizable());
    assert!(flushed(Some(100), 200, MISS).is_linearizable());
    assert!(!flushed(Some(100), 200, hit("a")).is_linearizable());
}

#[test]
fn eviction_is_no_excuse_unless_the_rules_say_so() {
    let list = || history(vec![(0, Some((1, OK)), set("a")), (2, Some((3, MISS)), Op::Get)]);
    assert!(!verdict(&list()).is_linearizable());
    assert!(check(&list(), &Rules { may_evict: true, ..Rules::default() }).is_linearizable());
    // What has been evicted does not come back.
    let back = history(vec![
        (0, Some((1, OK)), set("a")),
        (2, Some((3, MISS)), Op::Get),
        (4, Some((5, hit("a"))), Op::Get),
    ]);
    assert!(!check(&back, &Rules { may_evict: true, ..Rules::default() }).is_linearizable());
}

/// A store that does one operation at a time, driven by clients that overlap: its histories are linearizable.
fn truthful(seed: u64, count: u64, overlap: u64, with_versions: bool, unanswered: u64) -> Vec<Done> {
    let mut prng = Prng::new(seed);
    let meaning = Meaning::default();
    let (mut state, mut out) = (meaning.initial(), Vec::new());
    for i in 0..count {
        let value = Value::number(prng.below(4));
        let number = prng.below(4);
        let op = match prng.below(10) {
            0..4 => Op::Get,
            4..6 => Op::Set { value, ttl: None },
            6 => Op::Delete,
            7 => Op::Compute { how: Compute::Incr, by: number, init: None, ttl: None },
            8 => Op::CondPut { by: number, ttl: None },
            _ => Op::Add { value, ttl: None },
        };
        let at = 100 + 10 * i;
        // Whatever answer the meaning allows is true; with a value for reads, or the search has little to hold on to.
        let mut answers: Vec<Ret> =
            [Status::Ok, Status::Miss, Status::NotStored, Status::Error].map(Ret::of).into();
        if let Some(item) = &state.item {
            answers.insert(0, Ret { value: Some(item.value.clone()), ..OK });
        }
        let (answer, next) = answers
            .into_iter()
            .find_map(|answer| {
                let changes = !matches!(op, Op::Get);
                let version =
                    (with_versions && answer.status == Status::Ok).then(|| match (&state.item, changes) {
                        (Some(Item { version: Some(version), .. }), false) => *version,
                        _ => i + 1,
                    });
                let answer = Ret { version, ..answer };
                let answer = if matches!(op, Op::Get) { answer } else { Ret { value: None, ..answer } };
                let mut next = Vec::new();
                meaning.apply(&state, &Act::Client(op.clone(), 0), Some(&answer), &mut next);
                (!next.is_empty()).then(|| (answer, next.remove(0)))
            })
            .expect("one of all answers is true");
        state = next;
        let (called, returned) = (at.saturating_sub(prng.below(overlap)), at + prng.below(overlap));
        out.push((called, (prng.below(1_000) >= unanswered).then_some((returned, answer)), op));
    }
    out
}

/// Every order of every choice of what took effect, tried.
fn by_force(entries: &[Entry<Act, Ret>], state: &State, done: u32) -> bool {
    let is_done = |i: usize| done >> i & 1 == 1;
    if (0..entries.len()).all(|i| is_done(i) || entries[i].returned.is_none()) {
        return true;
    }
    (0..entries.len()).filter(|&i| !is_done(i)).any(|i| {
        let mut others = (0..entries.len()).filter(|&j| !is_done(j) && j != i);
        let is_first = others.all(|j| entries[j].returned.is_none_or(|r| r >= entries[i].called));
        let mut next = Vec::new();
        Meaning::default().apply(state, &entries[i].op, entries[i].ret.as_ref(), &mut next);
        let is_free = entries[i].after.is_none_or(is_done);
        is_first && is_free && next.into_iter().any(|state| by_force(entries, &state, done | 1 << i))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn small_histories_agree_with_all_permutations(
        seed: u64, count in 2u64..8, overlap in 1u64..60, with_versions: bool, mutation in 0u8..5, victim: prop::sample::Index,
        other: prop::sample::Index,
    ) {
        let mut list = truthful(seed, count, overlap, with_versions, 100);
        list.truncate(if mutation == 4 { 5 } else { 8 });
        let (victim, other) = (victim.index(list.len()), other.index(list.len()));
        let ret_of = |list: &Vec<Done>, i: usize| list[i].1.as_ref().map(|r: &(u64, Ret)| r.1.clone());
        let (one, two) = (ret_of(&list, victim), ret_of(&list, other));
        match (mutation, one, two) {
            // An effect that nobody had.
            (1, ..) => drop(list.remove(victim)),
            // Answers change places.
            (2, Some(one), Some(two)) => {
                list[victim].1.as_mut().expect("it returned").1 = two;
                list[other].1.as_mut().expect("it returned").1 = one;
            }
            // What was stored had an end, which nobody heeded: at times nobody could tell.
            (4, ..) => for (i, (_, _, op)) in list.iter_mut().take(5).enumerate() {
                if let Op::Set { ttl, .. } | Op::Add { ttl, .. } = op {
                    *ttl = Some(Picos(seed >> i & 63));
                }
            },
            // An answer comes again: a stale read.
            (3, Some(_), Some(two)) => list[victim].1.as_mut().expect("it returned").1 = two,
            _ => {}
        }
        let history = history(list);
        let report = verdict(&history);
        let operations: Vec<Kv<'_>> = history.operations().collect();
        let entries = Windows::of(&history).entries(&operations, &Rules::default());
        prop_assert!(report.gave_up.is_empty());
        prop_assert_eq!(report.is_linearizable(), operations.is_empty() || by_force(&entries, &State::default(), 0), "{:?}", report);
        if mutation == 0 {
            prop_assert!(report.is_linearizable());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn true_histories_are_good(seed: u64, overlap in 1u64..60, with_versions: bool) {
        let report = verdict(&history(truthful(seed, 200, overlap, with_versions, 20)));
        prop_assert!(report.is_linearizable(), "{:?}", report);
    }
}

#[test]
fn hundreds_at_once_are_quick_when_answers_tell_versions() {
    let list = truthful(5, 10_000, 3_000, true, 5);
    let report = verdict(&history(list.clone()));
    assert!(report.is_linearizable(), "{report:?}");
    // And with a stale read planted: an old version, long after.
    let mut list = list;
    let old = list[100..]
        .iter()
        .find_map(|o| match o {
            (_, Some((_, ret)), Op::Get) if ret.version.is_some() => Some(ret.clone()),
            _ => None,
        })
        .expect("something was read");
    list.push((500_000, Some((500_001, old)), Op::Get));
    let report = verdict(&history(list));
    assert_eq!(report.violations.len(), 1);
    assert!(report.violations[0].text.contains("older version"), "{}", report.violations[0]);
}
