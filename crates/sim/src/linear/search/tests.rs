//! Tests of the search: against all permutations of small histories, on a long one, and where it gives up.

use super::*;
use base::Prng;
use proptest::prelude::*;

/// A number that can be read, written, and added to.
struct Counter;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Do {
    Read,
    Write(u8),
    /// Answers what was there before.
    Add(u8),
    /// Adds one, or not, unseen.
    Maybe,
}

impl Spec for Counter {
    type State = u8;
    type Op = Do;
    type Ret = u8;

    fn initial(&self) -> u8 {
        0
    }

    fn apply(&self, &state: &u8, op: &Do, ret: Option<&u8>, next: &mut Vec<u8>) {
        let sees = |value: u8| ret.is_none_or(|&ret| ret == value);
        match *op {
            Do::Read if sees(state) => next.push(state),
            Do::Write(value) => next.push(value),
            Do::Add(value) if sees(state) => next.push(state.wrapping_add(value)),
            Do::Maybe => next.extend([state, state.wrapping_add(1)]),
            _ => {}
        }
    }

    fn only_looks(&self, op: &Do, _: Option<&u8>) -> bool {
        *op == Do::Read
    }
}

type Entries = Vec<Entry<Do, u8>>;

/// Every order of every choice of what took effect, tried.
fn by_force(entries: &Entries, state: u8, done: u32) -> bool {
    let is_done = |i: usize| done >> i & 1 == 1;
    if entries.iter().enumerate().all(|(i, e)| is_done(i) || e.returned.is_none()) {
        return true;
    }
    (0..entries.len()).filter(|&i| !is_done(i)).any(|i| {
        let entry = &entries[i];
        let mut others = (0..entries.len()).filter(|&j| !is_done(j) && j != i);
        let is_first = others.all(|j| entries[j].returned.is_none_or(|r| r >= entry.called));
        let mut next = Vec::new();
        Counter.apply(&state, &entry.op, entry.ret.as_ref(), &mut next);
        is_first
            && entry.after.is_none_or(is_done)
            && next.into_iter().any(|state| by_force(entries, state, done | 1 << i))
    })
}

fn small_history() -> impl Strategy<Value = Entries> {
    let op = prop_oneof![
        3 => Just(Do::Read),
        2 => (0u8..3).prop_map(Do::Write),
        2 => (1u8..3).prop_map(Do::Add),
        1 => Just(Do::Maybe)
    ];
    let entry = (op, 0u8..4, 0u64..12, 0u64..6, 0u8..6, any::<prop::sample::Index>());
    prop::collection::vec(entry, 1..7).prop_map(|list| {
        let count = list.len();
        let make = |(i, (op, ret, called, lasts, end, after)): (
            usize,
            (Do, u8, u64, u64, u8, prop::sample::Index),
        )| {
            let returned = (end > 0).then_some(called + lasts);
            let after = (end == 5).then(|| after.index(count)).filter(|&other| other < i);
            Entry { op, ret: returned.map(|_| ret), called, returned, after }
        };
        list.into_iter().enumerate().map(make).collect()
    })
}

/// The order that was found, done again.
fn certify(entries: &Entries, order: &[usize]) -> bool {
    let mut states = vec![0u8];
    for (place, &i) in order.iter().enumerate() {
        let mut next = Vec::new();
        states.iter().for_each(|s| Counter.apply(s, &entries[i].op, entries[i].ret.as_ref(), &mut next));
        let in_time =
            order[place + 1..].iter().all(|&j| entries[j].returned.is_none_or(|r| r >= entries[i].called));
        if next.is_empty()
            || !in_time
            || entries[i].after.is_some_and(|other| !order[..place].contains(&other))
        {
            return false;
        }
        states = next;
    }
    entries.iter().enumerate().all(|(i, e)| e.returned.is_none() || order.contains(&i))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn it_agrees_with_all_permutations(entries in small_history()) {
        match search(&Counter, &entries, usize::MAX) {
            Outcome::Linearizable(order) => {
                prop_assert!(by_force(&entries, 0, 0));
                prop_assert!(certify(&entries, &order), "{order:?}");
            }
            Outcome::Violation(stuck) => {
                prop_assert!(!by_force(&entries, 0, 0));
                // Up to the return it is stuck at there is no order; just before it there is.
                let end = (entries[stuck.at].returned.expect("it returns"), stuck.at);
                let until = |with_it: bool| -> Entries {
                    let mut list = entries.clone();
                    for (i, entry) in list.iter_mut().enumerate() {
                        let keeps = |r: u64| (r, i) < end || (with_it && i == stuck.at);
                        entry.returned = entry.returned.filter(|&r| keeps(r));
                        if entry.called > end.0 {
                            // It never happens.
                            (entry.op, entry.ret) = (Do::Read, Some(99));
                        }
                    }
                    list
                };
                prop_assert!(!by_force(&until(true), 0, 0));
                prop_assert!(by_force(&until(false), 0, 0));
            }
            Outcome::GaveUp { .. } => prop_assert!(false, "it had no bound"),
        }
    }
}

#[test]
fn a_long_history_of_many_clients_is_quick() {
    // A real counter, driven by 8 clients that overlap, and 10 that called once and never returned.
    let mut prng = Prng::new(3);
    let mut entries: Entries = Vec::new();
    let (mut value, mut now) = (0u8, 0u64);
    for i in 0..100 {
        entries.push(Entry { op: Do::Write(200 + i % 3), ret: None, called: 0, returned: None, after: None });
    }
    for _ in 0..5_000 {
        now += 10;
        let op = match prng.below(3) {
            0 => Do::Write(prng.below(100) as u8),
            1 => Do::Add(1),
            _ => Do::Read,
        };
        let before = value;
        match op {
            Do::Write(new) => value = new,
            Do::Add(n) => value = value.wrapping_add(n),
            Do::Read | Do::Maybe => {}
        }
        let (called, returned) = (now.saturating_sub(prng.below(40)), now + prng.below(40));
        entries.push(Entry { op, ret: Some(before), called, returned: Some(returned), after: None });
    }
    match search(&Counter, &entries, 2_000_000) {
        Outcome::Linearizable(order) => assert!(order.len() >= 5_000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_says_when_it_gave_up() {
    // Many blind writes at once, and then a value that none of them wrote.
    let mut entries: Entries = (0..40)
        .map(|i| Entry { op: Do::Write(i), ret: Some(0), called: 0, returned: Some(10), after: None })
        .collect();
    entries.push(Entry { op: Do::Read, ret: Some(99), called: 11, returned: Some(12), after: None });
    assert_eq!(search(&Counter, &entries, 1_000), Outcome::GaveUp { looked_at: 1_000 });
}
