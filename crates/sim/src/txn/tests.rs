//! The judges held against each other, against all placements of small histories, and against every kind of damage.

mod claims;

use super::effect::{Store, effect, write};
use super::order::Settled;
use super::*;
use base::{Picos, Prng};
use proptest::prelude::*;

fn key(name: &str) -> Key {
    name.as_bytes().into()
}

fn text(text: &str) -> Value {
    Value::of(text.as_bytes())
}

/// A transaction of a history to be: when it was called, when it returned and with what, what it was.
#[derive(Clone, Debug)]
struct Sample {
    called: u64,
    returned: Option<(u64, Ret)>,
    txn: Txn,
    /// Where it was really done.
    done_at: Option<u64>,
}

impl Sample {
    fn done(&mut self) -> Option<&mut Done> {
        match &mut self.returned {
            Some((_, Ret::Done(done))) => Some(done),
            _ => None,
        }
    }
}

/// Each by a client of its own, with its place in the list as its number.
fn history(samples: &[Sample]) -> History {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        moments.push((sample.called, false, i));
        moments.extend(sample.returned.as_ref().map(|(at, _)| (*at, true, i)));
    }
    moments.sort_unstable();
    let mut history = History::new();
    for (at, is_return, i) in moments {
        match &samples[i].returned {
            Some((_, ret)) if is_return => history.returns(Picos(at), i as u64, ret.clone()),
            _ => history.call(Picos(at), i as u32, i as u64, b"", samples[i].txn.clone()),
        }
    }
    history
}

fn by_order(samples: &[Sample]) -> Verdict {
    order::check(&history(samples), &Settled::new())
}

fn by_search(samples: &[Sample]) -> Verdict {
    serial::check(&history(samples), 1 << 16)
}

/// What true clients of a true system see: transactions done one after another, each somewhere in its time.
fn truthful(seed: u64, count: usize, overlap: u64, unanswered_percent: u64) -> Vec<Sample> {
    let mut random = Prng::new(seed);
    let (mut store, mut lsn, mut samples) = (Store::new(), 0, Vec::new());
    for i in 0..count {
        let txn = draw(&mut random, i);
        let is_lost = random.below(100) < unanswered_percent;
        let never_done = is_lost && random.below(2) == 0;
        let effect = effect(&txn, &store, None);
        if !txn.only_reads() && !never_done {
            lsn += 1 + random.below(3) / 2 * random.below(3);
        }
        let found = |item: &effect::Item| Found {
            version: item.version.expect("it is known"),
            value: item.value.clone(),
        };
        let reads = effect.reads.iter().map(|item| item.map(found)).collect();
        let done = Done { lsn, abort: effect.abort, reads, sums: effect.sums };
        if !never_done {
            let writes = effect.writes;
            write(&mut store, writes, Some(lsn));
        }
        let at = 1_000 + 10 * i as u64;
        samples.push(Sample {
            called: at - random.below(overlap),
            returned: (!is_lost).then(|| (at + random.below(overlap), Ret::Done(done))),
            done_at: (!never_done && !txn.only_reads()).then_some(lsn),
            txn,
        });
    }
    samples
}

/// A transaction on three keys: values differ, numbers are small.
fn draw(random: &mut Prng, number: usize) -> Txn {
    let keys = ["a", "b", "c"].map(key);
    let mut txn = claims::draw(random);
    if !txn.writes.is_empty() {
        return txn;
    }
    for key in &keys {
        match random.below(8) {
            0 => txn.reads.push(key.clone()),
            1 => txn.writes.push((key.clone(), Change::Put(text(&format!("{}", 100 + number))))),
            2 => txn.writes.push((key.clone(), Change::Delete)),
            3 => txn.writes.push((key.clone(), Change::Add(1 + random.below(3) as i64))),
            4 => txn.conditions.push((key.clone(), Condition::Exists)),
            5 => txn.conditions.push((key.clone(), Condition::AtLeast(random.below(200) as i64))),
            _ => {}
        }
        if random.below(4) == 0 && !txn.reads.contains(key) {
            txn.reads.push(key.clone());
        }
    }
    if txn.keys().next().is_none() {
        txn.reads.push(keys[0].clone());
    }
    txn
}

/// Every place for every transaction that was not answered, tried, with the rules written down plainly.
fn by_force(samples: &[Sample], places: &mut Vec<(usize, u64)>, from: usize) -> bool {
    let open = |i: &usize| samples[*i].returned.is_none() && !samples[*i].txn.only_reads();
    let Some(i) = (from..samples.len()).find(open) else { return keeps_the_rules(samples, places) };
    if by_force(samples, places, i + 1) {
        return true;
    }
    let highest = samples.iter().filter_map(|s| lsn_of(s, None)).max().unwrap_or(0);
    (1..=highest).any(|lsn| {
        places.push((i, lsn));
        let fits = by_force(samples, places, i + 1);
        places.pop();
        fits
    })
}

fn lsn_of(sample: &Sample, placed: Option<u64>) -> Option<u64> {
    match &sample.returned {
        Some((_, Ret::Done(done))) => Some(done.lsn),
        _ => placed,
    }
}

fn keeps_the_rules(samples: &[Sample], places: &[(usize, u64)]) -> bool {
    let placed = |i: usize| places.iter().find(|place| place.0 == i).map(|place| place.1);
    let lsn = |i: usize| lsn_of(&samples[i], placed(i));
    let is_writer = |i: &usize| !samples[*i].txn.only_reads();
    let mut writers: Vec<(u64, usize)> =
        (0..samples.len()).filter(is_writer).filter_map(|i| Some((lsn(i)?, i))).collect();
    writers.sort_unstable();
    if writers.first().is_some_and(|first| first.0 == 0)
        || writers.windows(2).any(|pair| pair[0].0 == pair[1].0)
    {
        return false;
    }
    // What each key was changed by, and the store after each LSN.
    let (mut store, mut changed, mut stores) = (Store::new(), Vec::new(), vec![(0, Store::new())]);
    for &(lsn, i) in &writers {
        let told = match &samples[i].returned {
            Some((_, Ret::Done(done))) => Some(done),
            _ => None,
        };
        let effect = effect(&samples[i].txn, &store, told);
        if told.is_some_and(|done| !effect.answers(done)) {
            return false;
        }
        let writes = effect.writes;
        let changes = writes.iter().filter(|(key, value)| value.is_some() || store.contains_key(key));
        changed.extend(changes.map(|(key, _)| (key.clone(), lsn)));
        write(&mut store, writes, Some(lsn));
        stores.push((lsn, store.clone()));
    }
    // In the order of returns, so that places of readers are known when they are needed.
    let mut in_order: Vec<usize> = (0..samples.len()).filter(|&i| lsn(i).is_some()).collect();
    in_order.sort_by_key(|&i| samples[i].returned.as_ref().map_or(u64::MAX, |returned| returned.0));
    let mut place = vec![0; samples.len()];
    for &i in &in_order {
        let lsn = lsn(i).expect("only those that have one");
        // At one time a call counts as before a return.
        let before = |&&j: &&usize| {
            samples[j].returned.as_ref().is_some_and(|returned| returned.0 < samples[i].called)
        };
        let floor = in_order.iter().filter(before).map(|&j| place[j]).max().unwrap_or(0);
        place[i] = lsn.max(floor);
        if is_writer(&i) {
            if lsn <= floor {
                return false;
            }
            continue;
        }
        let (_, seen) = stores.iter().rev().find(|(at, _)| *at <= lsn).expect("there is one before all");
        let Some((_, Ret::Done(done))) = &samples[i].returned else { return false };
        let is_stale = changed.iter().any(|(key, at)| {
            (lsn + 1..=place[i]).contains(at)
                && (samples[i].txn.keys().any(|k| k == key) || (samples[i].txn.claim != 0 && **key == *CLAIM))
        });
        if is_stale || !effect(&samples[i].txn, seen, Some(done)).answers(done) {
            return false;
        }
    }
    true
}

/// Ways to be wrong.
const DAMAGES: usize = 9;

/// Damages one answer; false where there was nothing of that kind to damage.
fn damage(samples: &mut [Sample], kind: usize, victim: usize) -> bool {
    let other = samples.iter_mut().filter_map(|s| s.done().cloned()).next_back();
    let found = samples.iter_mut().find_map(|s| s.done()?.reads.iter().flatten().next().cloned());
    let reads_only = samples[victim].txn.only_reads();
    let Some(done) = samples[victim].done() else { return false };
    match kind {
        // A sum is wrong.
        0 => done.sums.first_mut().map(|sum| *sum += 1).is_some(),
        // A value is wrong.
        1 => done.reads.iter_mut().flatten().next().map(|found| found.value = text("900")).is_some(),
        // A version is wrong.
        2 => done.reads.iter_mut().flatten().next().map(|found| found.version += 1).is_some(),
        // What is there is not found.
        3 => done.reads.iter_mut().find(|found| found.is_some()).map(|found| *found = None).is_some(),
        // What was read earlier, or is not there any more, is found.
        4 => match (done.reads.first_mut(), found) {
            (Some(first), Some(old)) if *first != Some(old.clone()) => {
                *first = Some(old);
                true
            }
            _ => false,
        },
        // It says that it aborted.
        5 if done.abort.is_none() && !reads_only => {
            (done.abort, done.sums) = (Some(Abort::Condition(0)), Vec::new());
            true
        }
        // It says that it did not abort.
        6 => done.abort.take().is_some(),
        // Its place is another's.
        7 if !reads_only => other.map(|other| done.lsn = other.lsn).is_some(),
        // Its place is later than all.
        8 if !reads_only => {
            done.lsn += 1_000;
            true
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_histories_agree_with_all_placements(
        seed: u64, count in 1usize..8, overlap in 1u64..60, unanswered in 0u64..40, kind in 0..DAMAGES + 1, victim: prop::sample::Index,
    ) {
        let mut samples = truthful(seed, count, overlap, unanswered);
        // All placements are tried.
        prop_assume!(samples.iter().filter(|sample| sample.returned.is_none()).count() <= 3);
        let victim = victim.index(samples.len());
        let is_damaged = damage(&mut samples, kind, victim);
        let (order, search) = (by_order(&samples), by_search(&samples));
        let is_right = by_force(&samples, &mut Vec::new(), 0);
        match &order {
            Verdict::Good => prop_assert!(is_right, "{samples:?}"),
            Verdict::Violation(text) => prop_assert!(!is_right, "{text}\n{samples:?}"),
            Verdict::Undecided(_) => prop_assert!(unanswered > 0),
        }
        if is_right {
            prop_assert!(search == Verdict::Good, "{search:?}");
        }
        if !is_damaged {
            prop_assert!(is_right, "{samples:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn true_histories_are_good(seed: u64, overlap in 1u64..60, unanswered in 0u64..20) {
        let samples = truthful(seed, 150, overlap, unanswered);
        let settled = (0u64..).zip(&samples).map(|(i, sample)| (i, sample.done_at)).collect();
        prop_assert_eq!(order::check(&history(&samples), &settled), Verdict::Good);
        let unsettled = by_order(&samples);
        prop_assert!(!matches!(unsettled, Verdict::Violation(_)), "{:?}", unsettled);
    }

    #[test]
    fn without_overlap_both_judges_find_the_same_damage(seed: u64, kind in 0usize..7, victim: prop::sample::Index) {
        let mut samples = truthful(seed, 40, 1, 0);
        let victim = victim.index(samples.len());
        prop_assume!(damage(&mut samples, kind, victim));
        let (order, search) = (by_order(&samples), by_search(&samples));
        prop_assert_eq!(order == Verdict::Good, search == Verdict::Good, "{:?} {:?}", order, search);
    }

    #[test]
    fn histories_of_transactions_round_trip(seed: u64, count in 1usize..20) {
        let mut samples = truthful(seed, count, 50, 20);
        samples[0].returned = Some((2_000, Ret::Refused));
        let history = history(&samples);
        let mut file = Vec::new();
        history.write(&mut file).expect("memory has room");
        prop_assert!(History::read(&mut file.as_slice()).expect("it was written so") == history);
    }
}

#[test]
fn every_kind_of_damage_is_found() {
    for kind in 0..DAMAGES {
        let mut found = 0;
        for seed in 0..200 {
            let mut samples = truthful(seed, 30, 20, 0);
            if damage(&mut samples, kind, 10 + seed as usize % 10) {
                found += usize::from(matches!(by_order(&samples), Verdict::Violation(_)));
            }
        }
        assert!(found > 10, "damage {kind} was found {found} times");
    }
}

#[test]
fn what_was_not_answered_is_seldom_in_the_way() {
    let undecided = |seed| matches!(by_order(&truthful(seed, 60, 40, 5)), Verdict::Undecided(_));
    let count = (0..400).filter(|&seed| undecided(seed)).count();
    // Three of sixty on three keys, of which half delete or add, without a trace but in what came later.
    assert!(count < 50, "{count} of 400");
}

// ---- scenarios

fn txn(text: &str) -> Txn {
    let mut txn = Txn::default();
    for part in text.split("; ") {
        let words: Vec<&str> = part.split(' ').collect();
        match words[..] {
            ["get", k] => txn.reads.push(key(k)),
            ["put", k, v] => txn.writes.push((key(k), Change::Put(self::text(v)))),
            ["add", k, by] => txn.writes.push((key(k), Change::Add(by.parse().expect("a number")))),
            ["delete", k] => txn.writes.push((key(k), Change::Delete)),
            _ => panic!("{part}"),
        }
    }
    txn
}

fn sample(
    called: u64,
    returned: u64,
    what: &str,
    lsn: u64,
    reads: &[Option<(u64, &str)>],
    sums: &[i64],
) -> Sample {
    let reads = reads
        .iter()
        .map(|found| found.map(|(version, value)| Found { version, value: text(value) }))
        .collect();
    let done = Done { lsn, abort: None, reads, sums: sums.to_vec() };
    Sample { called, returned: Some((returned, Ret::Done(done))), txn: txn(what), done_at: Some(lsn) }
}

fn unanswered(called: u64, what: &str) -> Sample {
    Sample { called, returned: None, txn: txn(what), done_at: None }
}

#[track_caller]
fn good(samples: &[Sample]) {
    assert_eq!((by_order(samples), by_search(samples)), (Verdict::Good, Verdict::Good));
}

#[track_caller]
fn bad(samples: &[Sample], reason: &str) {
    match by_order(samples) {
        Verdict::Violation(text) => assert!(text.contains(reason), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(by_search(samples), Verdict::Violation(_)), "the search finds it too");
}

#[test]
fn half_of_a_transaction_is_seen() {
    let write = || sample(0, 9, "put a 1; put b 1", 5, &[], &[]);
    good(&[write(), sample(2, 4, "get a; get b", 5, &[Some((5, "1")), Some((5, "1"))], &[])]);
    good(&[write(), sample(2, 4, "get a; get b", 3, &[None, None], &[])]);
    bad(&[write(), sample(2, 4, "get a; get b", 5, &[Some((5, "1")), None], &[])], "would have answered");
}

#[test]
fn an_addition_is_done_twice() {
    let adds = |second| [sample(0, 1, "add n 5", 1, &[], &[5]), sample(2, 3, "add n 5", 2, &[], &[second])];
    good(&adds(10));
    bad(&adds(15), "sums [10]");
}

#[test]
fn a_read_at_a_replica_that_lags() {
    let writes = [sample(0, 1, "put a 1", 1, &[], &[]), sample(2, 3, "put b 1", 2, &[], &[])];
    let read = |what: &str, found| {
        let mut samples = writes.to_vec();
        samples.push(sample(4, 5, what, 1, &[found], &[]));
        samples
    };
    // It has not heard of LSN 2, which does not concern this key; and which does.
    good(&read("get a", Some((1, "1"))));
    bad(&read("get b", None), "older than LSN 2");
}

#[test]
fn to_delete_what_is_not_there_changes_nothing() {
    let delete = sample(0, 1, "delete a; put b 1", 2, &[], &[]);
    good(&[delete.clone(), sample(4, 5, "get a", 1, &[None], &[])]);
    bad(&[delete, sample(4, 5, "get b", 1, &[None], &[])], "older than LSN 2");
}

#[test]
fn an_acknowledged_write_is_lost() {
    let read = |found| [sample(0, 1, "put a 1", 1, &[], &[]), sample(2, 3, "get a", 2, &[found], &[])];
    good(&read(Some((1, "1"))));
    bad(&read(None), "read \"1\" of 1");
}

#[test]
fn what_was_not_answered_is_placed_by_what_others_saw() {
    let seen = |found| [unanswered(0, "put a 1; put b 1"), sample(2, 3, "get a", 7, &[found], &[])];
    good(&seen(None));
    good(&seen(Some((6, "1"))));
    bad(&seen(Some((6, "2"))), "no transaction can have");
    // A sum tells of an addition that nobody answered, an absent key of a deletion.
    let summed = |sum| {
        [
            sample(0, 1, "add n 1", 1, &[], &[1]),
            unanswered(2, "add n 10"),
            sample(3, 4, "add n 1", 3, &[], &[sum]),
        ]
    };
    good(&summed(2));
    good(&summed(12));
    bad_or_undecided(&summed(22));
    good(&[
        sample(0, 1, "put a 1", 1, &[], &[]),
        unanswered(2, "delete a"),
        sample(3, 4, "get a", 2, &[None], &[]),
    ]);
    // No LSN is left for it.
    bad_or_undecided(&[
        sample(0, 1, "put a 1", 1, &[], &[]),
        unanswered(2, "delete a"),
        sample(3, 4, "get a", 1, &[None], &[]),
    ]);
}

#[track_caller]
fn bad_or_undecided(samples: &[Sample]) {
    assert_ne!(by_order(samples), Verdict::Good);
}

#[test]
fn two_have_one_place_and_time_goes_back() {
    let two = |lsn| [sample(0, 9, "put a 1", 5, &[], &[]), sample(1, 8, "put b 1", lsn, &[], &[])];
    good(&two(6));
    let violation = |samples: &[Sample], reason: &str| match by_order(samples) {
        Verdict::Violation(text) => assert!(text.contains(reason), "{text}"),
        other => panic!("{other:?}"),
    };
    violation(&two(5), "the same LSN");
    violation(&two(0), "LSN 0");
    violation(&[sample(0, 1, "put a 1", 5, &[], &[]), sample(2, 3, "put b 1", 4, &[], &[])], "no higher LSN");
}

#[test]
fn files_that_make_no_sense_are_refused() {
    let call = |ops: &str| {
        let line = format!(r#"{{"t":1,"e":"call","c":1,"id":7,"op":"txn","k":"","a":{{"ops":{ops}}}}}"#);
        History::read(&mut line.as_bytes())
            .map(|history| history.events().len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        call(r#"[{"op":"if","k":"a","least":-4},{"op":"get","k":"a"},{"op":"add","k":"a","by":-1}]"#),
        Ok(1)
    );
    for (ops, reason) in [
        ("[]", "empty"),
        (r#"[{"op":"get"}]"#, "\"k\" is missing"),
        (r#"[{"op":"put","k":"a"}]"#, "\"v\" is missing"),
        (r#"[{"op":"got","k":"a"}]"#, "no part"),
        (r#"[{"op":"if","k":"a"}]"#, "one of"),
        (r#"[{"op":"add","k":"a","by":1},{"op":"delete","k":"a"}]"#, "twice"),
        (r#"[7]"#, "no object"),
    ] {
        let error = call(ops).expect_err(ops);
        assert!(error.contains(reason), "{error}");
    }
    let get = r#"{"t":1,"e":"call","c":1,"id":7,"op":"get","k":"a","a":{}}"#;
    assert!(History::read(&mut get.as_bytes()).is_err());
}
