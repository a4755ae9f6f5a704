//! A chain of three replicas whose network or disks fail. Each write is an addition that is sent again with its number until its outcome is known, so
//! the sum says whether each was done exactly once; and it is still there when all processes have ended.

use crate::chained::{Up, Writer, checksum, until_all_serve};
use crate::program::{control, environment};
use crate::{for_seeds, found, rough};
use faults::{CLOCKS, Kind, Lie, ONLY, Rates};
use protocol::chain::Transaction;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use tempfile::TempDir;

const WRITES: u64 = 60;

/// Disks that are full now and then, broken, and slow; and lives that begin before the one before, by the wall clock.
const DISKS: Rates<'static> = &[
    (Kind::NoSpace, 40),
    (Kind::Broken, 40),
    (Kind::Slow, 300),
    (Kind::Short, 300),
    (Kind::Interrupted, 300),
    (Kind::WallStep, 5000),
];

/// Datagrams that are lost, where the links are datagrams.
const WEATHER: Rates<'static> = &[
    (Kind::Lost, 300),
    (Kind::NoBuffers, 100),
    (Kind::Again, 300),
    (Kind::Short, 300),
    (Kind::Interrupted, 300),
];

fn scenario(seed: u64, links: &str, rates: Rates<'_>, lie: Lie) -> Result<String, String> {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let control = control(folder.path(), seed);
    let mut variables = environment(&control);
    // Not the program that starts the replicas: it would start them without a handler.
    variables.push((ONLY, "replica".into()));
    let jumps = rates.iter().any(|(kind, _)| *kind == Kind::CounterJump);
    if jumps || rates.iter().any(|(kind, _)| *kind == Kind::WallStep) {
        variables.push((CLOCKS, "1".into()));
    }
    let words = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--restart", "--links", links];
    let run = || {
        let up = Up::within(folder.path(), &words, &variables);
        until_all_serve(&up);
        if jumps {
            // Each may keep a chain from serving for as long as it jumps.
            control.budget.store(6, Ordering::Relaxed);
        }
        control.arm(rates, lie);
        let mut writer = Writer::new(&up);
        for sum in 1..=WRITES {
            let outcome = writer
                .execute(Transaction::new().add("sum", 1).put(format!("key {}", sum % 7), vec![7; 900]));
            assert_eq!(outcome.sums, [i64::try_from(sum).expect("few")], "each is done once");
        }
        control.disarm();
        until_all_serve(&up);
        assert!(checksum(&up, 3).contains("all 3 are the same"));
        // A life without faults, of what was left behind.
        up.end();
        let up = Up::within(folder.path(), &words, &[]);
        for id in 1..=3 {
            let found = up.line(&format!("replica {id} of chain 1: "));
            assert!(found.contains(" 0 records damaged"), "what was said to be in the log is not: {found}");
        }
        until_all_serve(&up);
        let outcome = Writer::new(&up).execute(Transaction::new().add("sum", 0));
        assert_eq!(outcome.sums, [i64::try_from(WRITES).expect("few")], "all that was acknowledged is there");
        assert!(checksum(&up, 3).contains("all 3 are the same"));
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => Ok(control.summary()),
        Err(why) => {
            let text = why.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            let log = control.log();
            let last = &log[log.len().saturating_sub(30)..];
            Err(format!("{text}\n{}\nthe last faults: {last:?}", control.summary()))
        }
    }
}

/// Streams between the replicas with odd seeds, datagrams or rings with even ones.
fn links(seed: u64) -> &'static str {
    ["tcp", "udp", "unix", "shm"][(seed % 4) as usize]
}

#[test]
fn a_chain_goes_on_while_connections_are_reset_and_datagrams_lost() {
    for_seeds(3, |seed| {
        let links = links(seed);
        scenario(seed, links, if links == "udp" { WEATHER } else { rough() }, Lie::No)
    });
}

#[test]
fn a_chain_loses_nothing_when_disks_are_full_broken_or_slow() {
    for_seeds(3, |seed| scenario(seed, links(seed), DISKS, Lie::No));
}

/// Nobody is answered wrongly because a clock jumps; what waits for a time may wait longer, or less.
const CLOCKS_JUMP: Rates<'static> = &[(Kind::CounterJump, 20), (Kind::CounterBack, 20)];

#[test]
fn a_chain_goes_on_while_clocks_jump() {
    for_seeds(3, |seed| scenario(seed, links(seed), CLOCKS_JUMP, Lie::No));
}

/// A clock that is set back between a replica's first look at it and its first turn: it would wait for that time to come again, for days.
#[test]
fn a_chain_starts_while_clocks_jump() {
    for_seeds(3, |seed| {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let control = control(folder.path(), seed);
        let mut variables = environment(&control);
        variables.extend([(ONLY, "replica".into()), (CLOCKS, "1".into())]);
        // All of them in the first milliseconds of processes, which look at clocks some thousand times then.
        control.budget.store(12, Ordering::Relaxed);
        control.arm(&[(Kind::CounterJump, 1000), (Kind::CounterBack, 1000)], Lie::No);
        let words = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--restart"];
        let up = Up::within(folder.path(), &words, &variables);
        until_all_serve(&up);
        control.disarm();
        let outcome = Writer::new(&up).execute(Transaction::new().add("sum", 1));
        assert_eq!(outcome.sums, [1], "it serves");
        Ok(control.summary())
    });
}

#[test]
fn a_log_write_that_failed_and_is_acknowledged_is_found() {
    found(Lie::NoSpaceTakenForWritten, |seed, lie| scenario(seed, "shm", &[(Kind::NoSpace, 5000)], lie));
}
