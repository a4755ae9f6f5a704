//! Each failure of a replica, and what a deposed one can still do.

use super::serving::{add, config, get, id, kind, put, serving, token, value};
use super::world::{Disk, Fate, World, ms};
use crate::chain::message::Refusal;
use crate::chain::{Config, Lsn, NodeId, Planted, ReplicaId, SessionId, Transaction};
use base::Nanos;

/// Three serve, with an addition that is logged and not committed; and whose session it is.
fn under_way(planted: Option<Planted>) -> (World, SessionId) {
    with_under_way(planted, &add("n", 1))
}

/// The same of any transaction, the second of its session after an addition that is done.
pub(super) fn with_under_way(planted: Option<Planted>, transaction: &Transaction) -> (World, SessionId) {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &add("n", 1));
    // What the tail would say does not arrive.
    w.script(|from, _, message| {
        let is_held = kind!(Ack)(message) && from == NodeId::Replica(ReplicaId(3));
        if is_held { Fate::Lost } else { Fate::Arrives }
    });
    w.ask(7, 1, id(session, 2), transaction);
    w.run(ms(5));
    assert!(w.outcome(7, id(session, 2)).is_none());
    (w, session)
}

#[test]
fn a_head_dies_and_its_successor_goes_on_with_what_it_had() {
    head_dies(None).assert_well();
}

pub(super) fn head_dies(planted: Option<Planted>) -> World {
    let (mut w, session) = under_way(planted);
    w.crash(1, false);
    w.configure(&[2, 3], None);
    // The acknowledgements of the tail do not arrive yet: what was under way still is.
    w.run(ms(60));
    w.ask(7, 2, id(session, 2), &add("n", 1));
    w.ask(7, 2, id(session, 3), &add("n", 1));
    w.run(ms(5));
    if planted.is_none() {
        assert!(w.outcome(7, id(session, 2)).is_none());
        assert_eq!((w.view(2).under_way, w.view(2).waiting), (1, 2));
    }
    w.well();
    w.run(ms(700));
    if planted.is_none() {
        assert_eq!(w.outcome(7, id(session, 2)).expect("remembered").sums, [2]);
        assert_eq!(w.outcome(7, id(session, 3)).expect("done").sums, [3]);
    }
    w
}

#[test]
fn a_middle_dies_and_its_neighbours_agree() {
    let (mut w, session) = under_way(None);
    w.crash(2, false);
    w.well();
    w.configure(&[1, 3], None);
    w.run(ms(60));
    assert_eq!(w.outcome(7, id(session, 2)).expect("committed").copies, 2);
    w.assert_well();
}

#[test]
fn a_tail_dies_and_its_predecessor_commits_what_it_has() {
    let (mut w, session) = under_way(None);
    w.crash(3, false);
    w.well();
    w.configure(&[1, 2], None);
    w.run(ms(60));
    assert_eq!(w.outcome(7, id(session, 2)).expect("committed").sums, [2]);
    // The old tail may have granted reads until its lease was over.
    w.ask(8, 2, token(1), &get(&["n"]));
    w.run(ms(5));
    assert_eq!(w.clients.refusals.pop(), Some((8, token(1), Refusal::Busy)));
    w.run(ms(600));
    assert_eq!(value(&w.done(8, 2, token(1), &get(&["n"])).reads[0]), Some("2"));
    w.assert_well();
}

#[test]
fn two_die_at_once_and_the_last_one_goes_on_alone() {
    for survivor in 1..=3 {
        let (mut w, session) = under_way(None);
        (1..=3).filter(|id| *id != survivor).for_each(|id| w.crash(id, false));
        w.well();
        w.configure(&[survivor], None);
        w.run(ms(60));
        let outcome = w.done(7, survivor, id(session, 2), &add("n", 1));
        assert_eq!((&outcome.sums[..], outcome.copies), (&[2][..], 1));
        assert_eq!(w.done(7, survivor, id(session, 3), &add("n", 1)).sums, [3]);
        w.assert_well();
    }
}

#[test]
fn a_deposed_head_cannot_acknowledge() {
    deposed_head(None).assert_well();
}

/// The head is cut off from all but its clients; another takes over.
pub(super) fn deposed_head(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    let other = w.open(8, 1);
    w.done(7, 1, id(session, 1), &add("n", 1));
    w.cut_off(&[1]);
    w.ask(7, 1, id(session, 2), &add("n", 1));
    w.run(ms(700));
    w.configure(&[2, 3], None);
    w.run(ms(60));
    w.done(8, 2, id(other, 1), &add("n", 10));
    w.ask(7, 1, id(session, 3), &add("m", 1));
    w.run(ms(200));
    if planted.is_none() {
        assert!(w.outcome(7, id(session, 2)).is_none() && w.outcome(7, id(session, 3)).is_none());
    }
    // What it sent before arrives now.
    w.well();
    w.run(ms(400));
    if planted.is_none() {
        assert!(w.view(1).part.is_none() && !w.view(1).is_head);
        let refused = (7, id(session, 2), Refusal::Elsewhere(Some(ReplicaId(2))));
        assert!(w.clients.refusals.contains(&refused), "{:?}", w.clients.refusals);
        assert_eq!(w.done(7, 2, id(session, 2), &add("n", 1)).sums, [12]);
    }
    w
}

#[test]
fn what_an_earlier_head_sent_is_not_taken() {
    late_append(None).assert_well();
}

/// Entries of the first head are long on their way; they arrive when its successor is head itself.
pub(super) fn late_append(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let (a, b) = (w.open(7, 1), w.open(8, 1));
    w.done(7, 1, id(a, 1), &add("n", 1));
    w.script(|from, to, message| {
        let is_late = kind!(Append)(message)
            && (from, to) == (NodeId::Replica(ReplicaId(1)), NodeId::Replica(ReplicaId(2)));
        if is_late { Fate::Late(ms(80)) } else { Fate::Arrives }
    });
    w.ask(7, 1, id(a, 2), &add("n", 1));
    w.run(ms(2));
    w.crash(1, false);
    w.configure(&[2, 3], None);
    w.script(|_, _, message| if kind!(Ack)(message) { Fate::Lost } else { Fate::Arrives });
    w.run(ms(90));
    // The late ones have come; nothing is acknowledged yet.
    w.ask(7, 2, id(a, 2), &add("n", 1));
    w.ask(8, 2, id(b, 1), &add("n", 1));
    w.run(ms(5));
    w.well();
    w.run(ms(400));
    w
}

#[test]
fn a_deposed_tail_serves_nothing_when_its_lease_is_over() {
    deposed_tail(None).assert_well();
}

/// The tail is cut off from all but its clients, long enough.
pub(super) fn deposed_tail(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &put("k", "old"));
    w.cut_off(&[3]);
    w.run(ms(600));
    w.configure(&[1, 2], None);
    w.run(ms(60));
    w.done(7, 1, id(session, 2), &put("k", "new"));
    w.ask(8, 3, token(1), &get(&["k"]));
    w.run(ms(5));
    w
}

#[test]
fn a_new_tail_serves_nothing_before_it_has_what_the_old_one_had() {
    unsettled(None).assert_well();
}

/// The tail has shown what its predecessor does not know to be committed, and dies; the predecessor is asked before it has agreed with the head.
pub(super) fn unsettled(planted: Option<Planted>) -> World {
    let (mut w, _) = under_way(planted);
    assert_eq!(value(&w.done(8, 3, token(1), &get(&["n"])).reads[0]), Some("2"));
    w.crash(3, false);
    w.script(|_, _, message| if kind!(Resume)(message) { Fate::Lost } else { Fate::Arrives });
    w.configure(&[1, 2], None);
    w.run(ms(60));
    w.ask(8, 2, token(2), &get(&["n"]));
    w.run(ms(5));
    assert_eq!(w.outcome(8, token(2)).is_some(), planted.is_some());
    w.well();
    w.run(ms(700));
    assert_eq!(value(&w.done(9, 2, token(3), &get(&["n"])).reads[0]), Some("2"));
    w
}

#[test]
fn what_was_answered_survives_any_power_cut() {
    for planted in [None, Some(Planted::AckBeforeLog)] {
        let w = power_cut(planted);
        assert_eq!(w.judge.violations.is_empty(), planted.is_none(), "{:?}", w.judge.violations);
    }
}

/// Disks are slow; a client is answered; the power fails; all come back.
pub(super) fn power_cut(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.sync = ms(5);
    for sequence in 1..=3 {
        w.ask(7, 1, id(session, sequence), &add(&format!("k{sequence}"), 1));
        w.run(ms(3));
    }
    w.run_until(|w| w.outcome(7, id(session, 2)).is_some());
    (1..=3).for_each(|id| w.crash(id, false));
    (1..=3).for_each(|id| w.start(id));
    w.run(ms(60));
    assert!((1..=3).all(|id| w.view(id).whole && w.view(id).part.is_none()));
    w.configure(&[1, 2, 3], None);
    w.run(ms(100));
    for sequence in 1..=3 {
        w.done(7, 1, id(session, sequence), &add(&format!("k{sequence}"), 1));
    }
    w.judge_answers();
    w
}

/// The end of a log that decayed looks like one that was never whole; the other replicas still have what was answered.
#[test]
fn what_decayed_at_the_end_of_a_log_is_had_from_the_successor() {
    for decayed in [1, 2, 3] {
        let mut w = serving(3, None);
        let session = w.open(7, 1);
        (1..=5).for_each(|n| drop(w.done(7, 1, id(session, n), &add("n", 1))));
        let last = w.view(decayed).last;
        (1..=3).for_each(|id| w.crash(id, false));
        let log = &mut w.disks.get_mut(&decayed).expect("it is down").log;
        log.crash_after(Lsn(last.0 - 3));
        (1..=3).for_each(|id| w.start(id));
        w.run(ms(60));
        w.configure(&[1, 2, 3], None);
        w.run(ms(200));
        assert_eq!([1, 2, 3].map(|id| w.view(id).last >= last), [true; 3], "{decayed}");
        assert_eq!(w.done(7, 1, id(session, 6), &add("n", 1)).sums, [6]);
        w.judge_answers();
        w.assert_well();
    }
}

#[test]
fn a_disk_that_never_ends_stops_writes_and_no_reads() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &put("k", "v"));
    w.stuck_disks.insert(2);
    w.ask(7, 1, id(session, 2), &put("k", "w"));
    w.run(ms(800));
    assert!(w.outcome(7, id(session, 2)).is_none());
    assert_eq!((w.view(2).last, w.view(2).durable, w.view(3).last), (Lsn(3), Lsn(2), Lsn(2)));
    assert_eq!(value(&w.done(8, 3, token(1), &get(&["k"])).reads[0]), Some("v"));
    assert!(w.machine(1).stats().resent > 2);
    w.assert_well();
}

/// A mistake that is seen when the head's disk, or the middle's, is slower than what depends on it.
pub(super) fn slow_disk(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.stuck_disks.extend([1]);
    w.ask(7, 1, id(session, 1), &put("k", "v"));
    w.run(ms(20));
    w.crash(1, false);
    w.configure(&[2, 3], None);
    w.run(ms(60));
    w.start(1);
    w
}

/// A mistake that is seen when the head answers by itself, and dies.
pub(super) fn lonely_head(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.cut_off(&[1]);
    w.ask(7, 1, id(session, 1), &put("k", "v"));
    w.run(ms(20));
    w.crash(1, false);
    w.well();
    w.configure(&[2, 3], None);
    w.run(ms(60));
    w.judge_answers();
    w
}

#[test]
fn writes_go_on_without_a_controller_and_reads_end() {
    let mut w = serving(2, None);
    let session = w.open(7, 1);
    w.script(|_, to, _| if to == NodeId::Controller(1) { Fate::Lost } else { Fate::Arrives });
    w.run(Nanos::from_secs(1));
    w.done(7, 1, id(session, 1), &put("k", "v"));
    w.ask(8, 2, token(1), &get(&["k"]));
    w.run(ms(5));
    assert_eq!(w.clients.refusals.pop(), Some((8, token(1), Refusal::Elsewhere(None))));
}

#[test]
fn damage_is_repaired_from_a_neighbour_before_taking_part() {
    for damaged in 1..=3u16 {
        let mut w = serving(3, None);
        let session = w.open(7, 1);
        for sequence in 1..=4 {
            w.done(7, 1, id(session, sequence), &add("n", 1));
        }
        w.run(ms(5));
        (1..=3).for_each(|id| w.crash(id, false));
        w.disks.get_mut(&damaged).expect("down").log.damage(Lsn(3));
        let other = damaged % 3 + 1;
        w.disks.get_mut(&other).expect("down").log.damage(Lsn(4));
        w.start(damaged);
        w.run(ms(60));
        let view = w.view(damaged);
        assert!(!view.whole && view.missing == 1 && view.applied == Lsn(2), "{view:?}");
        (1..=3).for_each(|id| w.start(id));
        w.run(ms(100));
        assert!((1..=3).all(|id| w.view(id).whole), "both are repaired, from each other or from the third");
        w.configure(&[1, 2, 3], None);
        w.run(ms(100));
        assert_eq!(w.done(7, 1, id(session, 5), &add("n", 1)).sums, [5]);
        w.assert_well();
    }
}

/// A disk that could not read an entry once kept a chain from serving for good, where nobody else had it.
#[test]
fn what_can_be_read_again_is_not_missing_any_more() {
    let mut w = serving(1, None);
    let session = w.open(7, 1);
    for sequence in 1..=4 {
        w.done(7, 1, id(session, sequence), &add("n", 1));
    }
    w.crash(1, false);
    w.disks.get_mut(&1).expect("down").log.damage(Lsn(3));
    w.start(1);
    w.run(ms(60));
    assert!(!w.view(1).whole && w.view(1).missing == 1, "{:?}", w.view(1));
    w.machine(1).log_mut().mend(Lsn(3));
    w.run(ms(500));
    assert!(w.view(1).whole && w.view(1).missing == 0, "{:?}", w.view(1));
    w.configure(&[1], None);
    w.run(ms(100));
    assert_eq!(w.done(7, 1, id(session, 5), &add("n", 1)).sums, [5]);
    w.assert_well();
}

/// One lost its checkpoint, the other an entry: the log of the first has it.
#[test]
fn who_serves_nothing_more_still_has_a_log_to_repair_from() {
    let mut w = serving(2, None);
    let session = w.open(7, 1);
    (1..=4).for_each(|sequence| drop(w.done(7, 1, id(session, sequence), &add("n", 1))));
    w.run(ms(5));
    for id in [1, 2] {
        w.checkpoint(id);
        let applied = w.view(id).applied;
        w.machine(id).log_mut().forget_below(applied);
    }
    (5..=8).for_each(|sequence| drop(w.done(7, 1, id(session, sequence), &add("n", 1))));
    w.run(ms(5));
    let last = w.view(1).last;
    w.crash(1, false);
    w.crash(2, false);
    let empty = Disk::new(&w).image;
    w.disks.get_mut(&1).expect("down").image = empty;
    w.disks.get_mut(&2).expect("down").log.damage(Lsn(last.0 - 1));
    w.start(1);
    w.start(2);
    w.run(ms(100));
    assert!(!w.view(1).whole && w.view(2).whole, "{:?} {:?}", w.view(1), w.view(2));
    w.configure(&[2], Some(1));
    w.run(ms(500));
    assert_eq!(w.done(7, 2, id(session, 9), &add("n", 1)).sums, [9]);
    w.assert_well();
}

#[test]
fn a_damaged_entry_that_nobody_else_received_is_cut() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &add("n", 1));
    w.run(ms(5));
    w.script(|_, _, message| if kind!(Append)(message) { Fate::Lost } else { Fate::Arrives });
    w.ask(7, 1, id(session, 2), &add("n", 1));
    w.ask(7, 1, id(session, 3), &add("m", 1));
    w.run(ms(5));
    w.well();
    (1..=3).for_each(|id| w.crash(id, false));
    w.disks.get_mut(&1).expect("down").log.damage(Lsn(3));
    (1..=3).for_each(|id| w.start(id));
    w.run(ms(100));
    assert_eq!((w.view(1).last, w.view(1).whole), (Lsn(2), true));
    w.configure(&[1, 2, 3], None);
    w.run(ms(100));
    assert_eq!(w.done(7, 1, id(session, 2), &add("n", 1)).sums, [2]);
    w.assert_well();
}

#[test]
fn a_reset_chain_serves_with_what_is_left() {
    let mut w = World::new(Config { sessions: 8, ..config() }, 2, 0);
    w.configure(&[1], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &put("k", "v"));
    w.checkpoint(1);
    w.crash(1, false);
    // An operator accepts that the log is gone.
    let disk = w.disks.get_mut(&1).expect("down");
    crate::chain::Log::restart(&mut disk.log, Lsn::ZERO, crate::chain::Epoch(0));
    w.start(1);
    w.run(ms(60));
    assert!(!w.view(1).whole);
    w.configure(&[1], None);
    w.run(ms(700));
    assert_eq!(value(&w.done(8, 1, token(1), &get(&["k"])).reads[0]), Some("v"));
    w.done(7, 1, id(session, 2), &put("k", "w"));
}
