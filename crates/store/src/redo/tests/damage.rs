//! Media that decay.

use super::{HEADER, ID, LEN, append, payload, reads_well};
use crate::redo::media::{Crashing, Media};
use crate::redo::{Judge, Log, ReplaceError, Replaced};
use base::Prng;
use proptest::prelude::*;

/// Where the ring begins.
const START: u64 = 8192;

/// A log of records of 40 bytes with their headers, 88 each, all synced one by one.
fn log_of(records: u64) -> Log<Crashing> {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    for _ in 0..records {
        append(&mut log, 40);
        log.sync().expect("no fault");
    }
    log
}

/// Flips a bit at `at` of record `lsn`.
fn corrupt(log: &mut Log<Crashing>, lsn: u64, at: u64) {
    log.media_mut().corrupt(START + (lsn - 1) * 88 + at, 1);
}

fn open(log: Log<Crashing>) -> (Log<Crashing>, crate::redo::Recovery) {
    Log::open(log.into_media(), ID, Judge::Proof).expect("a log")
}

#[test]
fn a_bad_record_with_a_later_one_is_reported_and_repaired_never_cut() {
    for at in [0, 9, 30, 60] {
        let mut log = log_of(6);
        corrupt(&mut log, 3, at);
        assert_eq!(log.read(3), None, "it is found by reading too");
        let (mut log, recovery) = open(log);
        assert_eq!((recovery.damaged, recovery.last, recovery.records), (vec![3], 6, 5));
        assert_eq!((log.read(3), log.damaged()), (None, vec![3]));
        assert_eq!(log.replace(2, 1, &payload(2, 40)), Err(ReplaceError::NotDamaged));
        assert_eq!(
            log.replace(3, 1, &payload(3, 39)),
            if at < HEADER as u64 { Ok(Replaced::Durable) } else { Err(ReplaceError::Misfit) }
        );
        if at >= HEADER as u64 {
            assert_eq!(log.replace(3, 1, &payload(3, 40)), Ok(Replaced::Durable));
        }
        let (log, recovery) = open(log);
        assert_eq!((recovery.damaged.len(), log.damaged().len(), recovery.records), (0, 0, 6));
    }
}

#[test]
fn what_decays_while_the_log_is_open_is_repaired_at_once() {
    let mut log = log_of(6);
    for at in [9, 60] {
        corrupt(&mut log, 3, at);
        assert_eq!(log.read(3), None);
        assert_eq!(log.replace(3, 1, &payload(3, 39)), Err(ReplaceError::Misfit));
        assert_eq!(log.replace(3, 2, &payload(3, 40)), Err(ReplaceError::Misfit));
        assert_eq!(log.replace(3, 1, &payload(3, 40)), Ok(Replaced::Durable));
        assert!(reads_well(&log, 3, 40) && reads_well(&log, 4, 40));
    }
    assert_eq!(log.replace(7, 1, &payload(7, 40)), Err(ReplaceError::NotDamaged));
    let (log, recovery) = open(log);
    assert_eq!((recovery.damaged.len(), recovery.records, log.last()), (0, 6, 6));
}

#[test]
fn neighbours_that_are_damaged_come_back_when_all_are_there() {
    let mut log = log_of(9);
    for lsn in [3, 4, 5] {
        corrupt(&mut log, lsn, 5);
    }
    let (mut log, recovery) = open(log);
    assert_eq!((recovery.damaged, log.last()), (vec![3, 4, 5], 9));
    assert_eq!(log.replace(5, 1, &payload(5, 40)), Ok(Replaced::Kept));
    assert_eq!(log.replace(3, 1, &payload(3, 40)), Ok(Replaced::Kept));
    assert_eq!(log.damaged(), [4]);
    assert!(reads_well(&log, 3, 40) && log.read(4).is_none());
    assert_eq!(log.replace(4, 1, &payload(4, 400)), Err(ReplaceError::Misfit));
    assert_eq!(log.damaged(), [3, 4, 5]);
    for lsn in [3, 4, 5] {
        log.replace(lsn, 1, &payload(lsn, 40)).expect("as it was");
    }
    let (log, _) = open(log);
    assert!((1..=9).all(|lsn| reads_well(&log, lsn, 40)) && log.damaged().is_empty());
}

#[test]
fn what_was_durable_when_the_log_was_opened_is_damaged_even_at_its_end() {
    let (mut log, _) = open(log_of(6));
    for lsn in [5, 6] {
        corrupt(&mut log, lsn, 3);
    }
    let (mut log, recovery) = open(log);
    assert_eq!((recovery.damaged, recovery.last, log.last_epoch()), (vec![5, 6], 6, 1));
    append(&mut log, 40);
    log.sync().expect("no fault");
    for lsn in [5, 6] {
        log.replace(lsn, 1, &payload(lsn, 40)).expect("as it was");
    }
    let (log, _) = open(log);
    assert!((1..=7).all(|lsn| reads_well(&log, lsn, 40)));
}

#[test]
fn damage_can_be_cut_off_or_released() {
    let damaged = || {
        let mut log = log_of(9);
        for lsn in [3, 4, 5] {
            corrupt(&mut log, lsn, 5);
        }
        open(log).0
    };
    let mut log = damaged();
    log.cut(4).expect("no fault");
    assert_eq!((log.last(), log.damaged()), (4, vec![3, 4]));
    append(&mut log, 8);
    log.sync().expect("no fault");
    let (mut log, recovery) = open(log);
    assert_eq!((recovery.damaged, recovery.last), (vec![3, 4], 5));
    for lsn in [3, 4] {
        log.replace(lsn, 1, &payload(lsn, 40)).expect("a filler takes the place of the third");
    }
    let (log, recovery) = open(log);
    assert!(
        recovery.damaged.is_empty() && (1..=4).all(|lsn| reads_well(&log, lsn, 40)) && reads_well(&log, 5, 8)
    );

    let mut log = damaged();
    log.release(5);
    assert_eq!((log.first(), log.damaged()), (5, vec![5]));
    (0..2).for_each(|_| assert!(log.sync().is_ok()));
    let (mut log, recovery) = open(log);
    assert_eq!((recovery.first, recovery.damaged), (5, vec![5]));
    log.release(6);
    assert_eq!(log.damaged(), []);
    assert!((6..=9).all(|lsn| reads_well(&log, lsn, 40)));
}

#[test]
fn the_end_of_a_batch_that_was_not_durable_is_cut() {
    let mut log = log_of(3);
    (0..4).for_each(|_| {
        append(&mut log, 40);
    });
    log.begin_sync().expect("no fault");
    // Record 5 did not reach the medium, 6 and 7 did.
    corrupt(&mut log, 5, 20);
    let (log, recovery) = open(log);
    assert_eq!((log.last(), recovery.proven, recovery.torn_records, recovery.torn_bytes), (4, 3, 2, 3 * 88));
    let (log, recovery) = open(log);
    assert_eq!((log.last(), recovery.torn_bytes), (4, 0), "they are void now");
}

#[test]
fn either_superblock_may_be_lost() {
    for place in [0, 4096] {
        let mut log = log_of(9);
        log.cut(7).expect("no fault");
        log.release(4);
        (0..2).for_each(|_| assert!(log.sync().is_ok()));
        append(&mut log, 40);
        log.sync().expect("no fault");
        log.media_mut().corrupt(place + 10, 4);
        let (log, recovery) = open(log);
        assert_eq!((recovery.first, recovery.last, recovery.damaged.len()), (4, 8, 0), "{place}");
        assert!((4..=8).all(|lsn| reads_well(&log, lsn, 40)));
    }
}

/// Disks that lie lose the same end of all logs. Without a mark that looks as if it had never been there.
#[test]
fn what_is_lost_at_the_end_is_damage_up_to_the_mark_and_torn_beyond() {
    for marked in [false, true] {
        let mut log = log_of(9);
        if marked {
            log.mark();
            assert!(log.needs_sync());
            log.sync().expect("no fault");
            log.mark();
            assert!(!log.needs_sync() && log.marked() == 9, "it is said once");
        }
        append(&mut log, 40);
        log.sync().expect("no fault");
        let at = START + 6 * 88;
        log.media_mut().write_at(at, &[0; 4 * 88]).expect("no fault");
        log.media_mut().persist(&[at..at + 4 * 88]).expect("no fault");
        let (_, recovery) = open(log);
        let expected = if marked { (vec![7, 8, 9], 9) } else { (vec![], 6) };
        assert_eq!((recovery.damaged, recovery.last), expected);
    }
}

#[test]
fn a_cut_is_in_both_superblocks() {
    for place in [0, 4096] {
        let mut log = log_of(9);
        log.cut(7).expect("no fault");
        log.sync().expect("no fault");
        log.media_mut().corrupt(place + 10, 4);
        let (log, recovery) = open(log);
        assert_eq!((recovery.last, recovery.damaged.len(), log.last()), (7, 0, 7), "{place}");
    }
}

#[test]
fn what_was_cut_off_does_not_stand_in_for_what_decayed() {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    (0..9).for_each(|_| {
        append(&mut log, 80);
    });
    log.sync().expect("no fault");
    log.cut(5).expect("no fault");
    // Shorter ones follow, so that the old seventh is whole behind the new one.
    (0..2).for_each(|_| {
        append(&mut log, 0);
    });
    log.sync().expect("no fault");
    let (mut log, _) = open(log);
    log.media_mut().corrupt(START + 5 * 128 + 48 + 9, 1);
    let (_, recovery) = open(log);
    assert_eq!((recovery.last, recovery.damaged), (7, vec![7]));
}

#[test]
fn the_planted_mistake_loses_what_was_durable() {
    let mut log = log_of(6);
    corrupt(&mut log, 3, 60);
    let (log, recovery) = Log::open(log.into_media(), ID, Judge::FirstBad).expect("a log");
    assert_eq!((log.last(), recovery.damaged.len(), recovery.torn_records), (2, 0, 3));
}

/// Whether a log in which one byte of a durable record decayed says of each of its records what it is, or that it is damaged.
fn survives_decay(
    judge: Judge,
    lens: &[usize],
    batch: usize,
    at: u64,
    flipped: u8,
) -> Result<(), TestCaseError> {
    let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
    for (number, len) in lens.iter().enumerate() {
        append(&mut log, *len);
        if number % batch == 0 {
            log.sync().expect("no fault");
        }
    }
    log.sync().expect("no fault");
    // The last batch is proven by the opening.
    let (mut log, _) = open(log);
    let used = log.capacity() - log.room();
    log.media_mut().corrupt(START + at % used, flipped);
    let (mut log, recovery) = Log::open(log.into_media(), ID, judge).expect("a log");
    prop_assert_eq!(recovery.last, lens.len() as u64);
    for (lsn, len) in (1..).zip(lens) {
        prop_assert!(recovery.damaged.contains(&lsn) || reads_well(&log, lsn, *len));
    }
    for lsn in recovery.damaged {
        let len = lens[lsn as usize - 1];
        prop_assert_eq!(log.replace(lsn, 1, &payload(lsn, len)), Ok(Replaced::Durable));
    }
    let medium = log.into_media().crash(&mut Prng::new(at));
    let (log, recovery) = Log::open(medium, ID, judge).expect("a log");
    prop_assert_eq!(recovery.damaged, Vec::<u64>::new());
    prop_assert!((1..).zip(lens).all(|(lsn, len)| reads_well(&log, lsn, *len)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decay_is_always_told_and_repaired(
        lens in prop::collection::vec(0..200usize, 2..14), batch in 1..5usize, at: u64, flipped in 1..=255u8,
    ) {
        survives_decay(Judge::Proof, &lens, batch, at, flipped)?;
    }

    #[test]
    fn any_bytes_are_opened_or_refused(seed: u64, changes in prop::collection::vec((0..LEN as u64, any::<u8>()), 0..40)) {
        let mut log = Log::create(Crashing::new(LEN), ID).expect("large enough");
        let mut prng = Prng::new(seed);
        for _ in 0..prng.below(20) {
            append(&mut log, prng.below(150) as usize);
            log.sync().expect("no fault");
        }
        changes.iter().for_each(|(at, flipped)| log.media_mut().corrupt(*at, *flipped));
        if let Ok((mut log, _)) = Log::open(log.into_media(), ID, Judge::Proof) {
            (log.first()..=log.last()).for_each(|lsn| drop(log.read(lsn)));
            log.append(log.last() + 1, 1, &[b"on it goes"]).ok();
            log.sync().expect("no fault");
            let (last, medium) = (log.last(), log.into_media());
            prop_assert_eq!(medium.len(), LEN as u64);
            let (_, recovery) = Log::open(medium, ID, Judge::Proof).expect("it was one before");
            prop_assert_eq!(recovery.last, last);
        }
    }
}

#[test]
fn the_property_finds_the_planted_mistake() {
    let found = (0..20).any(|at| survives_decay(Judge::FirstBad, &[10; 8], 1, at * 37, 1).is_err());
    assert!(found);
}
