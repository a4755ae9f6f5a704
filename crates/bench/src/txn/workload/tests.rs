//! Key counts are those of the sources, and everything is a transaction.

use super::*;
use protocol::chain::Lsn;

fn workload(kind: Kind) -> Workload {
    Workload { kind, keys: 2000, value: 64 }
}

/// Keys that are read and written by `count` tasks; for those with a reconnaissance, of the transaction after it.
fn counts(kind: Kind, count: usize) -> Vec<(usize, usize)> {
    let mut tasks = workload(kind).tasks(7);
    let mut one = || match tasks.next_task() {
        Task::Once(transaction) => transaction,
        Task::Looked { look, then } => {
            assert!(look.only_reads() && look.check().is_ok());
            let found = look.reads.iter().map(|_| Some(Found { version: Lsn(3), value: b"12".to_vec() }));
            then(&found.collect::<Vec<_>>())
        }
    };
    let check = |transaction: Transaction| {
        assert_eq!(transaction.check(), Ok(()), "{transaction:?}");
        (transaction.reads.len(), transaction.writes.len())
    };
    (0..count).map(|_| check(one())).collect()
}

#[test]
fn the_published_ones_read_and_write_what_their_names_say() {
    assert!(counts(Kind::Write, 50).iter().all(|counted| *counted == (0, 1)));
    assert!(counts(Kind::ReadWrite, 50).iter().all(|counted| *counted == (4, 2)));
    assert!(counts(Kind::YcsbT, 50).iter().all(|counted| *counted == (4, 4)));
}

#[test]
fn mixes_are_those_of_their_sources() {
    let share = |counted: &[(usize, usize)], of: (usize, usize)| {
        counted.iter().filter(|found| **found == of).count() as f64 / counted.len() as f64
    };
    let bank = counts(Kind::SmallBank, 20_000);
    for (of, expected) in [((0, 3), 0.15), ((2, 0), 0.15), ((0, 1), 0.45), ((0, 2), 0.25)] {
        assert!((share(&bank, of) - expected).abs() < 0.02, "{of:?}");
    }
    let tatp = counts(Kind::Tatp, 20_000);
    assert!((share(&tatp, (1, 0)) - 0.70).abs() < 0.02);
    assert!((share(&tatp, (1, 1)) - 0.16).abs() < 0.02);
    let orders = counts(Kind::Tpcc, 5_000);
    let new_orders: Vec<_> = orders.iter().filter(|counted| **counted != (0, 4)).collect();
    assert!((new_orders.len() as f64 / orders.len() as f64 - 45.0 / 88.0).abs() < 0.03);
    for (reads, writes) in new_orders {
        let lines = reads - 2;
        assert!((1..=15).contains(&lines) && *writes == 4 + 2 * lines);
    }
}

#[test]
fn what_is_preloaded_is_what_is_read() {
    for kind in [Kind::Write, Kind::ReadWrite, Kind::SmallBank, Kind::YcsbT, Kind::Tpcc] {
        let workload = Workload { keys: 500, ..workload(kind) };
        let mut there = std::collections::BTreeSet::new();
        for transaction in workload.preload() {
            assert_eq!(transaction.check(), Ok(()));
            there.extend(transaction.writes.into_iter().map(|(key, _)| key));
        }
        let mut tasks = workload.tasks(3);
        for _ in 0..200 {
            let reads = match tasks.next_task() {
                Task::Once(transaction) => transaction.reads,
                Task::Looked { look, .. } => look.reads,
            };
            for key in reads {
                assert!(there.contains(&key), "{kind}: {}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn a_stream_is_its_seeds() {
    let first = |seed| match workload(Kind::ReadWrite).tasks(seed).next_task() {
        Task::Once(transaction) => transaction,
        Task::Looked { look, .. } => look,
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}
