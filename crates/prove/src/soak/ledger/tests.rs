//! Planted faults must be found and named; an honest server, with clients that die anywhere, must never be accused.

use super::*;
use proptest::prelude::*;

const KEY: u32 = 5;

/// A ledger in which `ops` were done to [`KEY`] and acknowledged.
fn after(promise: Promise, ops: &[Op]) -> Ledger {
    let mut ledger = Ledger::new(promise, KEY, 1);
    let mut state = State::Absent;
    for &op in ops {
        ledger.attempt(KEY, op);
        ledger.answer(KEY, honest(&mut state, op)).expect("an honest answer");
    }
    ledger
}

/// What a right server does and says.
fn honest(state: &mut State, op: Op) -> Answer {
    let after = state.after(op);
    let here = *state != State::Absent;
    let answer = match op {
        Op::Set { .. } | Op::SetNumber(_) => Answer::Done,
        Op::Append { .. } | Op::Prepend { .. } if after.len() > MAX_VALUE => return Answer::TooLarge,
        Op::Append { .. } | Op::Prepend { .. } if !here => Answer::NotStored,
        _ if !here => Answer::NotFound,
        Op::WrongCas { .. } => Answer::Exists,
        Op::Add(_) | Op::Take(_) => match after {
            State::Number(n) => Answer::Number(n),
            _ => unreachable!("numbers stay numbers"),
        },
        _ => Answer::Done,
    };
    *state = after;
    answer
}

fn set(seq: u32, len: u32) -> Op {
    Op::Set { seq, len }
}

fn blob(parts: &[(u32, u32)]) -> Seen {
    State::Blob(parts.iter().map(|&(seq, len)| Part { seq, len }).collect()).seen()
}

fn kind(ledger: &mut Ledger, seen: Seen) -> Option<Kind> {
    ledger.observe(KEY, seen).err().map(|fault| fault.kind)
}

#[test]
fn planted_faults_are_found_and_named() {
    let two = [set(1, 40), set(2, 50)];
    let appended = [set(1, 40), Op::Append { seq: 2, len: 50 }, Op::Append { seq: 3, len: 60 }];
    let deleted = [set(1, 40), Op::Delete];
    let numbers = [Op::SetNumber(7), Op::Add(3)];
    for (ops, seen, want) in [
        (&two[..], Seen::Absent, Kind::Lost),
        (&two, blob(&[(1, 40)]), Kind::Stale),
        (&two, blob(&[(3, 40)]), Kind::Invented),
        (&two, blob(&[(2, 51)]), Kind::Torn),
        (&two, Seen::Damaged { at: 33, len: 50 }, Kind::Torn),
        (&appended, blob(&[(1, 40), (3, 60)]), Kind::Torn),
        (&appended, blob(&[(1, 40), (3, 60), (2, 50)]), Kind::Torn),
        (&appended, blob(&[(1, 40), (2, 50)]), Kind::Stale),
        (&deleted, blob(&[(1, 40)]), Kind::Resurrected),
        (&numbers, Seen::Number(7), Kind::Miscounted),
    ] {
        assert_eq!(kind(&mut after(Promise::Store, ops), seen), Some(want), "{seen:?} after {ops:?}");
        let in_a_cache = kind(&mut after(Promise::Cache, ops), seen);
        assert_eq!(in_a_cache, Some(want).filter(|_| seen != Seen::Absent), "{seen:?} in a cache");
    }
}

#[test]
fn answers_are_held_against_the_states_too() {
    let answer = |ops: &[Op], promise, op, answer| {
        let mut ledger = after(promise, ops);
        ledger.attempt(KEY, op);
        ledger.answer(KEY, answer).err().map(|fault| fault.kind)
    };
    let (one, append) = ([set(1, 40)], Op::Append { seq: 2, len: 50 });
    let wrong = Op::WrongCas { seq: 2, len: 50 };
    let numbers = [Op::SetNumber(7)];
    for (ops, op, said, want) in [
        (&one[..], Op::Delete, Answer::NotFound, Some(Kind::Lost)),
        (&one, append, Answer::NotStored, Some(Kind::Lost)),
        (&one, wrong, Answer::Done, Some(Kind::WrongAnswer)),
        (&one, set(2, 50), Answer::NotStored, Some(Kind::Lost)),
        (&one, set(2, 50), Answer::NoMemory, None),
        (&one, append, Answer::TooLarge, Some(Kind::WrongAnswer)),
        (&one, append, Answer::Odd, Some(Kind::WrongAnswer)),
        (&[], Op::Delete, Answer::Done, Some(Kind::Resurrected)),
        (&numbers, Op::Add(1), Answer::Number(9), Some(Kind::Miscounted)),
        (&numbers, Op::Take(9), Answer::Number(0), None),
    ] {
        assert_eq!(answer(ops, Promise::Store, op, said), want, "{said:?} to {op:?} after {ops:?}");
    }
    assert_eq!(answer(&one, Promise::Cache, Op::Delete, Answer::NotFound), None, "it was evicted");
    assert_eq!(answer(&one, Promise::Cache, set(2, 50), Answer::NoMemory), Some(Kind::Refused));
    for promise in [Promise::Store, Promise::Cache] {
        let longest = [set(1, MAX_VALUE as u32)];
        assert_eq!(answer(&longest, promise, append, Answer::TooLarge), None, "it would be too long");
    }
}

#[test]
fn a_refused_write_leaves_the_old_value() {
    let mut ledger = after(Promise::Store, &[set(1, 40)]);
    ledger.attempt(KEY, set(2, 50));
    ledger.answer(KEY, Answer::NoMemory).expect("allowed");
    assert_eq!(kind(&mut ledger.clone(), blob(&[(2, 50)])), Some(Kind::Torn));
    assert_eq!(kind(&mut ledger.clone(), Seen::Absent), Some(Kind::Lost));
    assert_eq!(kind(&mut ledger, blob(&[(1, 40)])), None);
}

#[test]
fn a_write_cut_off_by_death_may_have_happened_but_not_come_and_go() {
    let mut ledger = after(Promise::Store, &[set(1, 40)]);
    ledger.attempt(KEY, set(2, 50));
    assert_eq!((ledger.pending(), ledger.newest()), (1, 2));
    ledger.orphan();
    assert_eq!(kind(&mut ledger.clone(), Seen::Absent), Some(Kind::Lost));
    assert_eq!(kind(&mut ledger.clone(), blob(&[(2, 50)])), None);
    assert_eq!(kind(&mut ledger, blob(&[(1, 40)])), None);
    assert_eq!(kind(&mut ledger, blob(&[(2, 50)])), Some(Kind::Torn), "it had not happened");
}

#[test]
fn what_a_cache_was_seen_to_miss_does_not_come_back() {
    let mut ledger = after(Promise::Cache, &[set(1, 40)]);
    assert_eq!(kind(&mut ledger, blob(&[(1, 40)])), None);
    assert_eq!(kind(&mut ledger, Seen::Absent), None);
    assert_eq!(kind(&mut ledger, blob(&[(1, 40)])), Some(Kind::Resurrected));
}

#[test]
fn one_fault_is_told_once() {
    let mut ledger = after(Promise::Store, &[set(1, 40)]);
    assert_eq!(kind(&mut ledger, Seen::Absent), Some(Kind::Lost));
    assert_eq!(kind(&mut ledger, Seen::Absent), None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A write; whether it happens, and whether the client lives to tell.
    Write(u8, u32, bool, bool),
    Read,
    Evict,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u8..6, 32u32..400_000, any::<bool>(), any::<bool>())
            .prop_map(|(what, len, happens, lives)| Step::Write(what, len, happens, lives)),
        3 => Just(Step::Read),
        1 => Just(Step::Evict),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn an_honest_server_is_never_accused(steps in steps(), counter: bool, cache: bool) {
        let promise = if cache { Promise::Cache } else { Promise::Store };
        let (mut ledger, mut state, mut seq) = (Ledger::new(promise, KEY, 1), State::Absent, 0);
        for step in steps {
            match step {
                Step::Read => prop_assert_eq!(ledger.observe(KEY, state.seen()), Ok(())),
                Step::Evict if cache => state = State::Absent,
                Step::Evict => {}
                Step::Write(what, len, happens, lives) => {
                    seq += 1;
                    let op = match (what, counter) {
                        (0, _) => Op::Delete,
                        (1 | 2, true) => Op::Add(u64::from(len)),
                        (3, true) => Op::Take(u64::from(len)),
                        (_, true) => Op::SetNumber(u64::from(len)),
                        (1, false) => Op::Append { seq, len },
                        (2, false) => Op::Prepend { seq, len },
                        (3, false) => Op::Cas { seq, len },
                        (4, false) => Op::WrongCas { seq, len },
                        (_, false) => Op::Set { seq, len },
                    };
                    ledger.attempt(KEY, op);
                    if lives {
                        prop_assert_eq!(ledger.answer(KEY, honest(&mut state, op)), Ok(()));
                    } else {
                        if happens {
                            honest(&mut state, op);
                        }
                        ledger.orphan();
                    }
                }
            }
        }
    }
}
