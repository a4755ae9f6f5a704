//! `millrace chain` as its users run it: replicas as processes, killed, stopped, with damaged logs and failing disks.
//!
//! Ports are the system's choice. Nothing waits for a certain time: tests wait for lines and states, and fail after [`PATIENCE`]. Every write is an
//! addition under a session, sent again with its number until it has an outcome, so the sum says whether each was done exactly once.

mod chained;

use chained::{Members, PATIENCE, Up, Writer, chain, checksum, stderr, until_all_serve};
use protocol::chain::{Lsn, Transaction};
use serve::chain::status::ask;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tempfile::TempDir;

/// Small, so that a test is quick and its log fills.
const SMALL: [&str; 6] = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m"];

#[test]
fn any_replica_may_die_under_load_and_comes_back_the_same() {
    let up = Up::start(&[&SMALL[..], &["--restart", "--admin", "0"]].concat());
    until_all_serve(&up);
    let metrics = chained::get(&up.line("replica 1 of chain 1: metrics at "));
    assert!(metrics.contains("millrace_chain_is_head{chain=\"1\",replica=\"1\"} 1"), "{metrics}");
    let stop = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut writer = Writer::new(&up);
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                let outcome =
                    writer.execute(Transaction::new().add("sum", 1).put(format!("key {}", done % 50), "x"));
                done += 1;
                assert_eq!(outcome.sums, [done], "each is done once");
            }
            done
        });
        for id in [1, 2, 3] {
            up.kill(id);
            until_all_serve(&up);
        }
        stop.store(true, Ordering::Relaxed);
        load.join().expect("the load goes through")
    });
    assert!(checksum(&up, 3).contains("all 3 are the same"));
    let found = Writer::new(&up).execute(Transaction::new().get("sum").add("sum", 0)).reads;
    assert_eq!(found[0].as_ref().map(|found| found.value.clone()), Some(done.to_string().into_bytes()));
    up.end();
}

#[test]
fn what_was_acknowledged_outlives_all_processes_and_a_damaged_log_is_repaired() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    for number in 0..40 {
        writer.execute(Transaction::new().put(format!("key {number}"), format!("needle {number} of hay")));
    }
    let folder = up.end().expect("its own");
    let log = folder.path().join("2").join("log");
    let mut bytes = std::fs::read(&log).expect("the log of replica 2");
    let needle = b"needle 17 of hay";
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("it is logged as it is");
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).expect("the log can be written");

    let up = Up::again(folder, &SMALL);
    assert!(up.line("replica 2 of chain 1: ").contains("1 records damaged"), "{:?}", up.lines());
    until_all_serve(&up);
    for address in up.addresses() {
        // It answers when it has applied this one.
        let info = ask(&address, Some(Lsn(41))).expect("it lives");
        assert!(info.applied >= Lsn(41), "{info:?}");
    }
    assert!(checksum(&up, 3).contains("all 3 are the same"));
    let found = Writer::new(&up).execute(Transaction::new().get("key 17").put("other", "x")).reads;
    assert_eq!(found[0].as_ref().map(|found| &found.value[..]), Some(&needle[..]));
    up.end();
}

/// As disks that lie do in a power cut. It was cut off without a word, and the chain went on without what it had acknowledged.
#[test]
fn an_end_that_all_logs_lost_is_an_error_with_a_choice() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    let mut last = Lsn(0);
    for number in 0..20 {
        last = writer
            .execute(Transaction::new().put(format!("key {number}"), format!("needle {number} of hay")))
            .lsn;
    }
    let marked = |address| {
        let figures = ask(address, None).map(|info| info.figures).unwrap_or_default();
        figures.iter().any(|(name, lsn)| name == "log_marked_lsn" && *lsn >= last.0 as f64)
    };
    let (begun, addresses) = (Instant::now(), up.addresses());
    while !addresses.iter().all(marked) {
        assert!(begun.elapsed() < PATIENCE, "the logs are not marked");
        std::thread::yield_now();
    }
    let folder = up.end().expect("its own");
    for id in ["1", "2", "3"] {
        let log = folder.path().join(id).join("log");
        let mut bytes = std::fs::read(&log).expect("a log");
        let needle = b"needle 15 of hay";
        let at = bytes.windows(needle.len()).position(|window| window == needle).expect("it is logged");
        bytes[at..].fill(0);
        std::fs::write(&log, bytes).expect("the log can be written");
    }
    let up = Up::again(folder, &SMALL);
    let first = last.0 - 4;
    let says = format!("of transactions {first} to {} the log of replica", last.0);
    let begun = Instant::now();
    while !up.lines().iter().any(|line| line.contains(&says) && line.contains("--accept-data-loss")) {
        assert!(begun.elapsed() < PATIENCE, "nobody says {says:?}: {:?}", up.lines());
        std::thread::yield_now();
    }
    up.end();
}

/// Disks that all go back in time, a registry that is lost, and an operator who accepts it. Places in the log are given
/// again then, and with them the numbers of sessions were: a client from before was told the outcome of another's request,
/// and its own was never done.
#[test]
fn after_a_reset_nobody_is_told_the_outcome_of_another() {
    let mut members = Members::new();
    let put = |key: String| Transaction::new().put(key, "x");
    let copy = |from: &str, to: &str, members: &Members| {
        for id in 1..=3 {
            let (from, to) =
                (members.path(from).join(format!("{id}")), members.path(to).join(format!("{id}")));
            std::fs::create_dir_all(&to).expect("a folder");
            for file in std::fs::read_dir(from).expect("a folder") {
                let file = file.expect("a file");
                std::fs::copy(file.path(), to.join(file.file_name())).expect("it can be copied");
            }
        }
    };
    members.start_controller();
    members.start_replicas();
    let mut old = Writer::of(members.addresses());
    (0..10).for_each(|number| drop(old.execute(put(format!("early {number}")))));
    members.kill();
    copy("", "kept", &members);

    members.start_controller();
    members.start_replicas();
    let late = (0..10).map(|number| old.execute(put(format!("late {number}"))).lsn).last().expect("ten");
    members.kill();
    copy("kept", "", &members);
    for state in ["state", "state.2", "state.3"] {
        std::fs::remove_file(members.path(state)).expect("the controller has three copies");
    }

    members.start_replicas();
    let reset = members.reset();
    assert!(reset.status.success(), "{}", stderr(&reset));
    members.start_controller();
    let mut new = Writer::of(members.addresses());
    let mut last = Lsn(0);
    while last < Lsn(late.0 + 20) {
        last = new.execute(put("new".to_owned())).lsn;
    }
    assert!(old.is_refused(members.addresses(), put("never".to_owned())));
    let keys = ["never", "early 9", "late 9", "new"];
    let reads = keys.iter().fold(Transaction::new(), |all, key| all.get(*key));
    let there = new.execute(reads).reads.iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(there, [false, true, false, true], "{keys:?}");
}

#[test]
fn who_was_away_for_long_is_given_the_image() {
    let up = Up::start(&[&SMALL[..], &["--restart"]].concat());
    until_all_serve(&up);
    // It is neither dead nor alive: the controller goes on without it.
    up.signal(3, libc::SIGSTOP);
    let mut writer = Writer::new(&up);
    let value = vec![7u8; 60_000];
    // Twice the log.
    for number in 0..280 {
        writer.execute(Transaction::new().put(format!("key {}", number % 20), value.clone()));
    }
    up.kill(3);
    until_all_serve(&up);
    let third = up
        .addresses()
        .into_iter()
        .find_map(|address| ask(&address, None).ok().filter(|info| info.replica.0 == 3));
    let figures = third.expect("replica 3 serves").figures;
    let copied = figures.iter().find(|(name, _)| name == "images_copied_total").map(|(_, count)| *count);
    assert!(copied >= Some(1.0), "its log cannot have had everything: {figures:?}");
    assert!(checksum(&up, 3).contains("all 3 are the same"));
    up.end();
}

#[test]
fn a_log_that_cannot_be_written_stops_its_replica_and_nothing_else() {
    let up = Up::start(&SMALL);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    writer.execute(Transaction::new().add("sum", 1));
    // From now on every write beyond the first page of a file fails, as on a disk that is full.
    up.limit_files(2, 4096);
    for sum in 2..20 {
        assert_eq!(writer.execute(Transaction::new().add("sum", 1)).sums, [sum]);
    }
    assert!(up.line("replica 2 ended: ").contains("exit status: 4"), "{:?}", up.lines());
    assert!(checksum(&up, 2).contains("all 2 are the same"));
    up.end();
}

/// Each write of each log takes longer than a lease: replicas say that they live all the same, and nobody is left out.
#[test]
fn a_disk_that_is_slower_than_the_lease_costs_nobody_its_place() {
    let slow = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--media", "emulated:700000000"];
    let up = Up::start(&slow);
    until_all_serve(&up);
    let epochs = || -> Vec<_> {
        up.addresses()
            .iter()
            .map(|address| ask(address, None).expect("it answers while it writes").epoch)
            .collect()
    };
    let before = epochs();
    let mut writer = Writer::patient(&up, PATIENCE / 3);
    for sum in 1..4 {
        assert_eq!(writer.execute(Transaction::new().add("sum", 1)).sums, [sum]);
    }
    assert_eq!(epochs(), before, "{:?}", up.lines());
    assert!(up.lines().iter().any(|line| line.contains("is slow, and alive")), "{:?}", up.lines());
    up.end();
}

#[test]
fn wrong_flags_give_sentences() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let data = folder.path().join("1").display().to_string();
    let keyed = |more: &[&str]| {
        let usual =
            ["replica", "--id", "1", "--listen", "tcp:127.0.0.1:0", "--controllers", "tcp:127.0.0.1:1"];
        chain(&[&usual[..], more].concat())
    };
    let replica = |more: &[&str]| keyed(&[&["--no-key"], more].concat());
    let unnamed = keyed(&["--peers", "1=tcp:127.0.0.1:0", "--media", "memory"]);
    assert_eq!(unnamed.status.code(), Some(1));
    assert!(stderr(&unnamed).contains("name its key with --key FILE"), "{}", stderr(&unnamed));
    for (more, code, says) in [
        (&["--peers", "1=tcp:127.0.0.1:0"][..], 1, "say where with --data DIR"),
        (&["--peers", "2=tcp:127.0.0.1:0", "--media", "memory"], 1, "names replicas 2, and not 1"),
        (&["--peers", "1=unix:/a,1=unix:/b", "--media", "memory"], 1, "replica 1 of --peers is named twice"),
        (&["--peers", "1=tcp:127.0.0.1:0,2=tcp:10.9.8.7:1", "--media", "memory"], 1, "--no-key"),
        (&["--peers", "tcp:127.0.0.1:0"], 2, "write NUMBER=ADDRESS"),
        (&["--peers", "1=http://x"], 2, "no address"),
        (&["--peers", "1=tcp:127.0.0.1:0", "--media", "floppy"], 2, "is no medium"),
        (
            &["--peers", "1=tcp:127.0.0.1:0", "--set", "chain.windw=3"],
            1,
            "`millrace registers --chain` lists them",
        ),
        (&["--peers", "1=tcp:127.0.0.1:0", "--set", "chain.lease=60000"], 1, "three heartbeats"),
        (&["--peers", "1=tcp:127.0.0.1:0", "--data", &data, "--log-size", "64k"], 1, "--log-size"),
        (&["--peers", "1=tcp:127.0.0.1:0", "--data", "/proc/none"], 1, "cannot use /proc/none"),
    ] {
        let output = replica(more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{more:?}: {}", stderr(&output));
    }
    let nobody = chain(&["status", "--connect", "tcp:127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(5));
    assert!(stderr(&nobody).contains("no replica answers at tcp:127.0.0.1:1"), "{}", stderr(&nobody));
    let none = chain(&["up", "--media", "file", "--port", "0"]);
    assert!(stderr(&none).contains("say where with --data DIR"), "{}", stderr(&none));
    let _ = std::fs::remove_dir_all(folder);
}
