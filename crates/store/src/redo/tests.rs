//! Tests of the log as its users see it. `model` has random use with a power cut at every operation.

mod damage;
mod media;
mod model;

use super::media::{Crashing, Fault, Media, Memory};
use super::superblock::Superblock;
use super::{HEADER, Judge, Log, MIN_MEDIUM, OpenError, Refused};
use base::Prng;

const ID: u64 = 0xABCD;

/// A ring of 4096 bytes.
const LEN: usize = MIN_MEDIUM as usize;

fn payload(lsn: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Prng::new(lsn).fill(&mut bytes);
    bytes
}

fn append(log: &mut Log<impl Media>, len: usize) -> u64 {
    let lsn = log.last() + 1;
    let payload = payload(lsn, len);
    let (head, tail) = payload.split_at(len / 2);
    log.append(lsn, 1, &[head, tail]).expect("room");
    lsn
}

fn reads_well(log: &Log<impl Media>, lsn: u64, len: usize) -> bool {
    log.read(lsn).is_some_and(|record| (record.epoch, record.payload) == (1, payload(lsn, len)))
}

#[test]
fn what_is_synced_is_found_again() {
    let mut log = Log::create(Memory::new(LEN), ID).expect("large enough");
    assert_eq!((log.first(), log.last(), log.durable(), log.needs_sync()), (1, 0, 0, false));
    for len in [0, 1, 7, 8, 9, 100] {
        let lsn = append(&mut log, len);
        assert!(reads_well(&log, lsn, len), "from the buffer");
    }
    assert_eq!((log.last(), log.durable()), (6, 0));
    assert_eq!(log.sync(), Ok(6));
    let life = log.incarnation();
    let (log, recovery) = Log::open(log.into_media(), ID, Judge::Proof).expect("a log");
    assert_eq!((recovery.first, recovery.last, recovery.records, recovery.bytes), (1, 6, 6, 125));
    assert_eq!((recovery.damaged.len(), recovery.torn_bytes), (0, 0));
    assert!(log.incarnation() > life && log.durable() == 6 && log.last_epoch() == 1);
    for (lsn, len) in (1..).zip([0, 1, 7, 8, 9, 100]) {
        assert!(reads_well(&log, lsn, len), "{lsn} from the medium");
    }
    assert_eq!((log.read(0), log.read(7)), (None, None));
}

#[test]
fn one_write_and_one_persist_serve_all_that_was_appended() {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    let before = (log.media().operations(), log.counters());
    (0..10).for_each(|_| {
        append(&mut log, 16);
    });
    log.sync().expect("no fault");
    assert_eq!(log.media().operations() - before.0, 2);
    let counters = log.counters();
    assert_eq!(counters.persists - before.1.persists, 1);
    assert_eq!((counters.records, counters.payload_bytes), (10, 160));
    assert_eq!(counters.written_bytes - before.1.written_bytes, 10 * (HEADER as u64 + 16));
}

#[test]
fn more_is_appended_while_some_is_under_way() {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    assert_eq!(log.begin_sync(), Ok(false));
    append(&mut log, 10);
    assert_eq!(log.begin_sync(), Ok(true));
    append(&mut log, 11);
    assert_eq!((log.begin_sync(), log.durable()), (Ok(true), 0));
    assert!(log.sync_is_done() && reads_well(&log, 1, 10) && reads_well(&log, 2, 11));
    assert_eq!(log.end_sync(), Ok(1));
    assert_eq!((log.end_sync(), log.needs_sync()), (Ok(1), true));
    assert_eq!(log.sync(), Ok(2));
}

#[test]
fn the_ring_goes_round_for_ever() {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    let mut prng = Prng::new(1);
    let len = |lsn: u64| (lsn * 37 % 300) as usize;
    for _ in 0..2000 {
        let lsn = log.last() + 1;
        while log.append(lsn, 1, &[&payload(lsn, len(lsn))]) == Err(Refused::Full) {
            log.release(log.durable().saturating_sub(3));
            (0..2).for_each(|_| assert!(log.sync().is_ok()));
        }
        if prng.below(3) == 0 {
            log.sync().expect("no fault");
        }
        if prng.below(20) == 0 {
            let durable = log.durable();
            let medium = log.into_media().crash(&mut prng);
            let recovery;
            (log, recovery) = Log::open(medium, ID, Judge::Proof).expect("a log");
            assert!(log.last() >= durable && recovery.damaged.is_empty());
        }
        assert!((log.first()..=log.last()).all(|lsn| reads_well(&log, lsn, len(lsn))));
    }
    assert!(log.last() > 1000);
}

#[test]
fn a_full_log_takes_nothing_until_there_is_room_on_both_superblocks() {
    let mut log = Log::create(Memory::new(LEN), ID).expect("large enough");
    (0..64).for_each(|_| {
        append(&mut log, 16);
    });
    assert_eq!((log.room(), log.append(65, 1, &[])), (0, Err(Refused::Full)));
    log.release(33);
    assert_eq!(log.first(), 1, "what is not durable stays");
    log.sync().expect("no fault");
    log.release(33);
    assert_eq!((log.first(), log.room()), (33, 0));
    log.sync().expect("no fault");
    assert_eq!((log.room(), log.needs_sync()), (0, true));
    log.sync().expect("no fault");
    assert_eq!((log.room(), log.needs_sync()), (2048, false));
    assert_eq!(log.append(65, 1, &[&[0; 4096]]), Err(Refused::Full), "more than ever fits");
    append(&mut log, 16);
    log.release(1000);
    assert_eq!((log.first(), log.epoch(64)), (65, Some(1)));
}

#[test]
fn a_restart_begins_anywhere() {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    (0..5).for_each(|_| {
        append(&mut log, 100);
    });
    log.sync().expect("no fault");
    for lsn in [1000, 2] {
        log.restart(lsn, 7).expect("no fault");
        assert_eq!((log.first(), log.last(), log.last_epoch(), log.durable()), (lsn + 1, lsn, 7, lsn));
        append(&mut log, 40);
        log.sync().expect("no fault");
        let medium = log.into_media().crash(&mut Prng::new(1));
        log = Log::open(medium, ID, Judge::Proof).expect("a log").0;
        assert_eq!((log.first(), log.last(), log.epoch(lsn)), (lsn + 1, lsn + 1, Some(7)));
        assert!(reads_well(&log, lsn + 1, 40));
    }
}

#[test]
fn after_an_error_it_is_broken_for_good_and_says_so() {
    for (operation, fault) in [(0, Fault::Full), (0, Fault::Error), (1, Fault::Error)] {
        let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
        append(&mut log, 10);
        let next = log.media().operations() + operation;
        log.media_mut().inject(next, fault);
        let broken = log.sync().expect_err("the medium failed");
        assert_eq!(log.sync(), Err(broken.clone()), "the medium works again, but nobody asks it");
        assert_eq!((log.begin_sync(), log.cut(0)), (Err(broken.clone()), Err(broken.clone())));
        assert_eq!(log.append(2, 1, &[]), Err(Refused::Broken(broken.clone())));
        assert_eq!((log.durable(), log.broken()), (0, Some(&broken)));
        assert!(broken.to_string().contains("takes nothing more"), "{broken}");
    }
}

#[test]
fn a_log_that_has_counted_to_its_end_says_so_and_stays_as_it_is() {
    let mut medium = Log::create(Memory::new(LEN), ID).expect("large enough").into_media();
    let newest = Superblock::read(&medium).expect("memory does not fail")[0];
    let last = Superblock { generation: (1 << 31) - 1, number: newest.number + 1, ..newest };
    medium.write_at(last.offset(), &last.emit()).expect("inside");
    let Err(OpenError::Media(error)) = Log::open(medium.clone(), ID, Judge::Proof) else {
        panic!("its next superblock would be none")
    };
    assert!(error.to_string().contains("counted to its end"), "{error}");
    assert_eq!(Superblock::read(&medium).expect("memory does not fail")[0], last);
}

#[test]
fn logs_of_others_and_what_is_none_are_refused() {
    assert!(matches!(Log::create(Memory::new(100), ID), Err(OpenError::TooSmall(100))));
    assert!(matches!(Log::open(Memory::new(LEN), ID, Judge::Proof), Err(OpenError::NoLog)));
    let log = Log::create(Memory::new(LEN), ID).expect("large enough");
    let medium = log.into_media();
    assert!(matches!(Log::open(medium.clone(), 5, Judge::Proof), Err(OpenError::Foreign(ID))));
    let mut longer = Memory::new(LEN + 8);
    let mut bytes = vec![0; LEN];
    medium.read_at(0, &mut bytes).expect("all of it");
    longer.write_at(0, &bytes).expect("inside");
    assert!(matches!(Log::open(longer, ID, Judge::Proof), Err(OpenError::Resized(4096))));
}

#[test]
fn a_new_log_over_an_old_one_is_empty_and_a_later_life() {
    let mut log = Log::create(Memory::new(LEN), ID).expect("large enough");
    append(&mut log, 10);
    log.sync().expect("no fault");
    let life = log.incarnation();
    let log = Log::create(log.into_media(), ID).expect("large enough");
    assert!(log.incarnation() > life);
    let (log, recovery) = Log::open(log.into_media(), ID, Judge::Proof).expect("a log");
    assert_eq!((log.last(), recovery.torn_bytes), (0, 0));
}
