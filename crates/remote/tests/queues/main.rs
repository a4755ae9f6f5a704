//! The conformance suite of queues: every point of the contract in `remote::queue`, for every way to an owner's memory.

mod peers;
mod rig;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use remote::{Access, Completion, Key, LendError, OpenError, Outcome, PostError, Queue, Region, Verb, Work};
use rig::{At, HANG, Kind, Owner, completions, run, taken, work};
use std::cell::Cell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs `check` on every kind, and names the kind that fails.
fn on_every_kind(check: impl Fn(Kind)) {
    for kind in Kind::all() {
        eprintln!("{kind:?}");
        check(kind);
    }
}

/// Longer than a piece and than a message of calls.
const LONG: usize = 200_000;

/// What a test does in one ring.
fn step(len: u64) -> impl Strategy<Value = (Verb, u64, usize)> {
    let long = prop_oneof![4 => 0..100usize, 1 => 0..LONG];
    let word = 0..len / 8;
    prop_oneof![
        (0..len, long.clone()).prop_map(|(at, len)| (Verb::Read, at, len)),
        (0..len, long).prop_map(|(at, len)| (Verb::Write, at, len)),
        (word.clone(), any::<u64>()).prop_map(|(at, new)| (
            Verb::CompareSwap { expected: 0, new },
            at * 8,
            8
        )),
        (word, any::<u64>()).prop_map(|(at, add)| (Verb::FetchAdd { add }, at * 8, 8)),
    ]
}

/// What memory does; what comes to local memory.
fn expected(memory: &mut [u8], (verb, at, len): (Verb, u64, usize), written: &[u8]) -> Vec<u8> {
    let span = at as usize..at as usize + len;
    let was = memory[span.clone()].to_vec();
    let word = || u64::from_ne_bytes(was[..8].try_into().expect("eight"));
    match verb {
        Verb::Read => {}
        Verb::Write => {
            memory[span].copy_from_slice(written);
            return written.to_vec();
        }
        Verb::CompareSwap { expected, new } if word() == expected => {
            memory[span].copy_from_slice(&new.to_ne_bytes())
        }
        Verb::CompareSwap { .. } => {}
        Verb::FetchAdd { add } => memory[span].copy_from_slice(&word().wrapping_add(add).to_ne_bytes()),
    }
    was
}

#[test]
fn works_do_to_memory_what_they_say() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let names = Cell::new(0);
        let steps = proptest::collection::vec((step(LONG as u64 * 2), any::<u8>()), 1..12);
        let mut runner = TestRunner::new(Config { cases: kind.times(24), ..Config::default() });
        let checked = runner.run(&proptest::collection::vec(steps, 1..4), |rings| {
            let len = LONG * 3;
            let name = names.get().to_string();
            names.set(names.get() + 1);
            let key = owner.lend(&name, len);
            let mut queue = owner.queue(16, 12 * LONG);
            prop_assert_eq!(
                queue.open(&name, Access::ALL).map(|info| (info.key, info.len)),
                Ok((key, len as u64))
            );
            let mut memory = vec![0; len];
            for steps in rings {
                let mut works = Vec::new();
                for (at, ((verb, offset, len), fill)) in steps.iter().enumerate() {
                    let local = (at * LONG) as u32;
                    let bytes: Vec<u8> = (0..*len).map(|byte| fill.wrapping_add(byte as u8)).collect();
                    queue.put(local, &bytes);
                    works.push(work(at as u64, *verb, (local, *len as u32), (key, *offset)));
                }
                let done = run(&mut *queue, &works);
                let all: Vec<_> = (0..works.len() as u64).map(|id| (id, Outcome::Done)).collect();
                prop_assert_eq!(done, all);
                for (at, (step, fill)) in steps.iter().enumerate() {
                    let bytes: Vec<u8> = (0..step.2).map(|byte| fill.wrapping_add(byte as u8)).collect();
                    let expected = expected(&mut memory, *step, &bytes);
                    prop_assert!(taken(&*queue, (at * LONG) as u32, step.2) == expected, "{:?}", step);
                }
            }
            owner.regions.revoke(key);
            Ok(())
        });
        checked.unwrap_or_else(|why| panic!("{kind:?}: {why}"));
    });
}

#[test]
fn nothing_is_done_before_the_ring_and_what_is_not_told_is_done_before_what_is() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let key = owner.lend("words", 4096);
        let lent = owner.regions.get(key).expect("lent");
        let mut queue = owner.queue(8, 64);
        queue.open("words", Access::ALL).expect("it is lent");
        queue.put(0, b"written!");
        let quiet = |work: Work| Work { is_signaled: false, ..work };
        let write = work(1, Verb::Write, (0, 8), (key, 100));
        queue.post(quiet(write)).expect("posted");
        queue.post(quiet(work(2, Verb::FetchAdd { add: 5 }, (8, 8), (key, 8)))).expect("posted");
        queue.post(work(3, Verb::Read, (16, 8), (key, 100))).expect("posted");
        let mut seen = [0; 8];
        lent.region.read(100, &mut seen).expect("inside");
        assert_eq!(seen, [0; 8], "before the ring");
        assert_eq!(queue.poll(&mut Vec::new()), 0);
        queue.ring();
        assert_eq!(completions(&mut *queue, 1), [Completion { id: 3, outcome: Outcome::Done }]);
        assert_eq!(taken(&*queue, 16, 8), b"written!");
        lent.region.read(8, &mut seen).expect("inside");
        assert_eq!(u64::from_ne_bytes(seen), 5);
    });
}

/// Works that must be denied, each alone, in a region of 1,000 bytes that is lent for this.
fn denied(key: Key) -> Vec<(&'static str, Access, Work)> {
    let add = Verb::FetchAdd { add: 1 };
    let swap = Verb::CompareSwap { expected: 0, new: 1 };
    let other = Key(key.0 ^ 1);
    let all = Access::ALL;
    vec![
        ("another key", all, work(7, Verb::Read, (0, 8), (other, 0))),
        ("a byte beyond the end", all, work(7, Verb::Read, (0, 9), (key, 992))),
        ("far beyond", all, work(7, Verb::Write, (0, 8), (key, u64::MAX - 3))),
        ("nothing, beyond the end", all, work(7, Verb::Read, (0, 0), (key, 1001))),
        ("a long one of which the end is beyond", all, work(7, Verb::Write, (0, 100_000), (key, 0))),
        ("no word", all, work(7, add, (0, 8), (key, 4))),
        ("no word either", all, work(7, swap, (0, 8), (key, 1))),
        ("a word beyond", all, work(7, swap, (0, 8), (key, 1000))),
        ("a write of what is read", Access::READ, work(7, Verb::Write, (0, 8), (key, 0))),
        ("an atomic of what is read", Access::READ, work(7, add, (0, 8), (key, 0))),
        (
            "an atomic of what is read and written",
            Access::READ | Access::WRITE,
            work(7, swap, (0, 8), (key, 0)),
        ),
        ("a read of what is written", Access::WRITE, work(7, Verb::Read, (0, 8), (key, 0))),
    ]
}

#[test]
fn what_may_not_be_is_denied_breaks_the_queue_and_changes_nothing() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let mut bystander = owner.queue(4, 64);
        owner.lend("other", 64);
        let other = bystander.open("other", Access::ALL).expect("lent").key;
        for at in 0..denied(Key(0)).len() {
            let access = denied(Key(0))[at].1;
            let key = owner.lend_for(&at.to_string(), 1000, access);
            let (what, _, refused) = denied(key).swap_remove(at);
            let mut queue = owner.queue(8, 100_000);
            queue.open(&at.to_string(), access).expect("lent for that");
            queue.put(0, &[0xAA; 100_000]);
            let before = match access.has(Access::WRITE) {
                true => work(6, Verb::Write, (0, 8), (key, 504)),
                false => work(6, Verb::Read, (0, 0), (key, 504)),
            };
            let after = work(8, before.verb, (0, before.local.len), (key, 600));
            let quiet = Work { is_signaled: false, ..refused };
            let done = run(&mut *queue, &[before, quiet, after]);
            let wanted = [(6, Outcome::Done), (7, Outcome::Denied), (8, Outcome::Flushed)];
            assert_eq!(done, wanted, "{what}");
            assert_eq!(queue.post(after), Err(PostError::Broken), "{what}");
            let lent = owner.regions.get(key).expect("lent");
            let mut bytes = vec![0; 1000];
            lent.region.read(0, &mut bytes).expect("inside");
            if before.verb == Verb::Write {
                assert_eq!(bytes[504..512], [0xAA; 8], "{what}");
                bytes[504..512].fill(0);
            }
            assert!(bytes.iter().all(|byte| *byte == 0), "{what}");
            assert_eq!(
                run(&mut *bystander, &[work(1, Verb::Read, (0, 8), (other, 0))]),
                [(1, Outcome::Done)]
            );
        }
    });
}

#[test]
fn a_queue_is_as_deep_and_as_wide_as_it_says() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let key = owner.lend("words", 64);
        let mut queue = owner.queue(3, 20);
        assert_eq!(queue.local_len(), 20);
        queue.open("words", Access::ALL).expect("lent");
        let read = |id, local| work(id, Verb::Read, local, (key, 0));
        for wrong in [(20, 1), (0, 21), (u32::MAX, 1), (13, 8)] {
            assert_eq!(queue.post(read(0, wrong)), Err(PostError::Local), "{wrong:?}");
        }
        let add = work(0, Verb::FetchAdd { add: 1 }, (0, 4), (key, 0));
        assert_eq!(queue.post(add), Err(PostError::Local), "an atomic has eight bytes");
        for round in 0..10 {
            (0..3).for_each(|id| queue.post(read(round + id, (0, 20))).expect("room"));
            assert_eq!(queue.post(read(9, (0, 8))), Err(PostError::Full));
            queue.ring();
            let mut done = completions(&mut *queue, 3);
            assert_eq!(done.remove(0).id, round);
        }
    });
}

#[test]
fn regions_are_opened_by_name_for_what_they_are_lent_for() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let key = owner.lend_for("table", 123, Access::READ);
        let mut queue = owner.queue(4, 64);
        assert_eq!(queue.open("tables", Access::READ), Err(OpenError::NotFound));
        assert_eq!(queue.open("", Access::READ), Err(OpenError::NotFound));
        assert_eq!(queue.open(&"x".repeat(300), Access::READ), Err(OpenError::NotFound));
        assert_eq!(queue.open("table", Access::READ | Access::WRITE), Err(OpenError::Denied));
        assert_eq!(queue.open("table", Access::ATOMIC), Err(OpenError::Denied));
        let info = queue.open("table", Access::READ).expect("lent for that");
        assert_eq!((info.key, info.len, info.is_persistent), (key, 123, false));
        assert_eq!(run(&mut *queue, &[work(1, Verb::Read, (0, 8), (key, 115))]), [(1, Outcome::Done)]);
        let again = Region::create(8, true).expect("memory");
        assert_eq!(owner.regions.lend("table", again, Access::ALL), Err(LendError::Taken));
        let sealed = Region::create(8, false).expect("memory");
        assert_eq!(owner.regions.lend("sealed", sealed, Access::WRITE), Err(LendError::ReadOnly));
    });
}

#[test]
fn what_is_taken_back_is_denied_and_its_name_is_free() {
    on_every_kind(|kind| {
        let owner = Owner::start(kind);
        let key = owner.lend("table", 4096);
        let lent = owner.regions.get(key).expect("lent");
        lent.region.write(0, b"a secret").expect("inside");
        let mut queue = owner.queue(4, 64);
        queue.open("table", Access::ALL).expect("lent");
        assert_eq!(run(&mut *queue, &[work(1, Verb::Read, (0, 8), (key, 0))]), [(1, Outcome::Done)]);
        assert!(owner.regions.revoke(key) && !owner.regions.revoke(key));
        assert_eq!(run(&mut *queue, &[work(2, Verb::Read, (8, 8), (key, 0))]), [(2, Outcome::Denied)]);
        assert!(taken(&*queue, 8, 8) != b"a secret");
        let mut next = owner.queue(4, 64);
        assert_eq!(next.open("table", Access::READ), Err(OpenError::NotFound));
        let another = owner.lend("table", 64);
        assert_ne!(another, key);
        assert_eq!(next.open("table", Access::READ).map(|info| info.len), Ok(64));
        let old = run(&mut *next, &[work(3, Verb::Write, (0, 8), (key, 0))]);
        assert_eq!(old, [(3, Outcome::Denied)], "the old key is nobody's");
    });
}

#[test]
fn words_are_whole_beside_writers_and_atomics_lose_nothing() {
    on_every_kind(|kind| {
        let rounds = u64::from(kind.times(500));
        let owner = Owner::start(kind);
        let key = owner.lend("shared", 4096);
        let (at, is_over) = (owner.at(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // One writes records of 64 bytes whose words are all the same, …
            scope.spawn(|| {
                let mut queue = at.queue(4, 64);
                queue.open("shared", Access::ALL).expect("lent");
                let mut round = 0u64;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    queue.put(0, &round.to_ne_bytes().repeat(8));
                    assert_eq!(
                        run(&mut *queue, &[work(1, Verb::Write, (0, 64), (key, 64))])[0].1,
                        Outcome::Done
                    );
                }
            });
            // … two count, and one of them reads.
            let counters: Vec<_> = (0..2)
                .map(|reader| {
                    let at = &at;
                    scope.spawn(move || {
                        let mut queue = at.queue(4, 128);
                        queue.open("shared", Access::ALL).expect("lent");
                        let mut last = [0u64; 8];
                        for round in 0..rounds {
                            let add = work(round, Verb::FetchAdd { add: 1 }, (64, 8), (key, 0));
                            let read = work(round, Verb::Read, (0, 64), (key, 64));
                            let done = run(&mut *queue, &[add, read]);
                            assert_eq!(done[1].1, Outcome::Done);
                            if reader == 0 {
                                continue;
                            }
                            let record = taken(&*queue, 0, 64);
                            for (word, last) in record.as_chunks().0.iter().zip(&mut last) {
                                let word = u64::from_ne_bytes(*word);
                                assert!(
                                    word >= *last && word < 1 << 40,
                                    "{kind:?}: a word that nobody wrote: {word:#x}"
                                );
                                *last = word;
                            }
                        }
                    })
                })
                .collect();
            counters.into_iter().for_each(|counter| counter.join().expect("it counted"));
            is_over.store(true, Ordering::Relaxed);
        });
        let lent = owner.regions.get(key).expect("lent");
        assert_eq!(lent.region.fetch_add(0, 0), Ok(2 * rounds));
    });
}

#[test]
fn an_owner_that_ends_is_noticed() {
    on_every_kind(|kind| {
        let mut owner = Owner::start(kind);
        let key = owner.lend("table", 64);
        let mut queue = owner.queue(4, 64);
        queue.open("table", Access::ALL).expect("lent");
        assert_eq!(run(&mut *queue, &[work(1, Verb::Read, (0, 8), (key, 0))]), [(1, Outcome::Done)]);
        owner.end();
        gone(&mut *queue, key);
        assert!(matches!(queue.open("table", Access::READ), Err(OpenError::Unreachable(_))));
    });
}

/// Works fail sooner or later, and then nothing is posted.
fn gone(queue: &mut dyn Queue, key: Key) {
    let (began, mut done) = (Instant::now(), Vec::new());
    let mut id = 10;
    loop {
        let (first, second) =
            (work(id, Verb::Read, (0, 8), (key, 0)), work(id + 1, Verb::Read, (8, 8), (key, 8)));
        let posted = queue.post(first).is_ok() && queue.post(second).is_ok();
        queue.ring();
        while queue.poll(&mut done) > 0 || (posted && done.len() < 2 && began.elapsed() < HANG) {
            queue.wait(Duration::from_millis(10));
        }
        let outcomes: Vec<_> = done.drain(..).map(|done| done.outcome).collect();
        match &outcomes[..] {
            [Outcome::Done, Outcome::Done] => {}
            [] | [Outcome::Unreachable | Outcome::Flushed, Outcome::Flushed] => break,
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() < HANG, "nobody noticed");
        id += 2;
    }
    assert_eq!(queue.post(work(1, Verb::Read, (0, 8), (key, 0))), Err(PostError::Broken));
}

#[test]
fn a_peer_that_does_not_read_its_answers_keeps_nobody_waiting() {
    let owner = Owner::start(Kind::Shm);
    owner.lend("table", 64);
    let At::Path(path) = owner.at() else { unreachable!("it is over shared memory") };
    let mut hostile = UnixStream::connect(path).expect("an owner");
    hostile.set_write_timeout(Some(HANG)).expect("a socket");
    // More than any buffer holds of answers: the owner closes it on the way.
    let asked = b"\x05\x01table".repeat(64);
    let closed = (0..100_000).find(|_| hostile.write_all(&asked).is_err());
    assert!(closed.is_some(), "it was not closed");
    owner.queue(4, 64).open("table", Access::READ).expect("others are served");
}

#[test]
fn a_region_in_a_file_is_written_by_its_owner_and_outlasts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let mut owner = Owner::start(Kind::CallsTcp);
    let region = Region::open_file(&path, 1000).expect("made");
    let key = owner.regions.lend("log", region, Access::ALL).expect("a new name");
    let mut queue = owner.queue(4, 64);
    let info = queue.open("log", Access::ALL).expect("lent");
    assert!(info.is_persistent && info.key == key);
    queue.put(0, b"appended");
    assert_eq!(run(&mut *queue, &[work(1, Verb::Write, (0, 8), (key, 992))]), [(1, Outcome::Done)]);
    owner.end();
    assert!(owner.regions.revoke(key));
    let again = Region::open_file(&path, 1000).expect("its owner let go of it");
    let mut bytes = [0; 8];
    again.read(992, &mut bytes).expect("inside");
    assert_eq!(&bytes, b"appended");
    // Not over shared memory: a file can shrink.
    let near = Owner::start(Kind::Shm);
    near.regions.lend("log", again, Access::ALL).expect("a new name");
    assert_eq!(near.queue(4, 64).open("log", Access::READ), Err(OpenError::Denied));
}
