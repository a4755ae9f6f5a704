//! Replicas that come back or are new: by the log, by a copy of the image, while the chain serves.

use super::serving::{add, config, id, kind, put, serving};
use super::world::{Disk, Fate, World, ms};
use crate::chain::log::memory::Memory;
use crate::chain::{Config, Image, Log, Lsn, Message, NodeId, Part, Planted, ReplicaId, SessionId};
use std::cell::Cell;
use std::rc::Rc;

/// Writes `n` more.
fn write(w: &mut World, head: u16, session: SessionId, n: u64) {
    for _ in 0..n {
        let sequence = w.clients.asked.keys().filter(|(_, id)| id.session == session).count() as u64 + 1;
        w.done(7, head, id(session, sequence), &add(&format!("k{}", sequence % 12), 1));
    }
}

/// Asserts that the replica has joined, lets it serve, and compares.
fn joins(w: &mut World, joining: u16, before: u16, then: &[u16]) {
    let joined = w.run_until(|w| w.view(before).successor_joined);
    assert!(joined, "{:?} {:?}", w.view(before), w.view(joining));
    w.configure(then, None);
    w.run(ms(100));
    let (a, b) = (w.view(before), w.view(joining));
    assert_eq!((a.applied, b.part, b.whole), (b.applied, Some(Part::Serving), true), "{a:?} {b:?}");
    assert_eq!(w.machine(before).image().digest(), w.machine(joining).image().digest());
}

#[test]
fn a_replica_that_was_away_shortly_is_given_what_it_lacks() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 5);
    w.crash(2, true);
    w.configure(&[1, 3], None);
    write(&mut w, 1, session, 20);
    w.start(2);
    w.configure(&[1, 3], Some(2));
    write(&mut w, 1, session, 5);
    joins(&mut w, 2, 3, &[1, 3, 2]);
    assert_eq!(w.machine(2).stats().copied, 0);
    write(&mut w, 1, session, 5);
    w.assert_well();
}

#[test]
fn a_new_replica_is_given_the_image_while_the_chain_serves() {
    copied(None).assert_well();
}

/// The log begins after a checkpoint: whoever is new needs the image. Writes go on meanwhile, and chunks come late.
pub(super) fn copied(planted: Option<Planted>) -> World {
    let mut w = serving(2, planted);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 20);
    w.checkpoint(1);
    w.checkpoint(2);
    w.crash(1, false);
    w.configure(&[2], None);
    w.run(ms(60));
    w.disks.remove(&1);
    w.disks.insert(1, Disk::new(&w));
    w.start(1);
    w.script(|_, _, message| if kind!(Chunk)(message) { Fate::Late(ms(2)) } else { Fate::Arrives });
    w.configure(&[2], Some(1));
    write(&mut w, 2, session, 30);
    if planted.is_some() {
        w.run_until(|w| w.view(2).successor_joined);
        w.configure(&[2, 1], None);
        w.run(ms(300));
        return w;
    }
    joins(&mut w, 1, 2, &[2, 1]);
    assert_eq!(w.machine(1).stats().copied, 1);
    write(&mut w, 2, session, 5);
    w
}

#[test]
fn chunks_may_be_lost_doubled_and_late() {
    let mut w = serving(1, None);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 20);
    w.checkpoint(1);
    w.disks.insert(2, Disk::new(&w));
    w.start(2);
    let mut n = 0;
    w.script(move |_, _, message| {
        n += 1;
        match (kind!(Chunk)(message) || kind!(ChunkAck)(message) || kind!(Append)(message), n % 5) {
            (true, 0) => Fate::Lost,
            (true, 1) => Fate::Late(ms(7)),
            (true, 2) => Fate::Twice(ms(3)),
            _ => Fate::Arrives,
        }
    });
    w.configure(&[1], Some(2));
    write(&mut w, 1, session, 40);
    joins(&mut w, 2, 1, &[1, 2]);
    w.assert_well();
}

#[test]
fn a_crash_while_the_image_is_copied_leaves_nothing() {
    for unsaved in [false, true] {
        let mut w = serving(1, None);
        let session = w.open(7, 1);
        write(&mut w, 1, session, 20);
        w.checkpoint(1);
        w.disks.insert(2, Disk::new(&w));
        w.start(2);
        w.no_checkpoints.insert(2);
        if !unsaved {
            w.script(|_, _, message| if kind!(Chunk)(message) { Fate::Late(ms(30)) } else { Fate::Arrives });
        }
        w.configure(&[1], Some(2));
        let half = w.run_until(|w| if unsaved { w.view(2).unsaved } else { w.view(2).copying });
        assert!(half);
        write(&mut w, 1, session, 5);
        w.run(ms(10));
        assert!(!w.view(1).successor_joined, "it counts for nothing before its image is durable");
        w.restart(2);
        assert!(!w.view(2).whole, "{:?}", w.view(2));
        w.no_checkpoints.clear();
        w.well();
        w.configure(&[1], Some(2));
        joins(&mut w, 2, 1, &[1, 2]);
        w.assert_well();
    }
}

#[test]
fn what_a_head_logged_alone_is_cut_when_it_comes_back() {
    stale_suffix(None).assert_well();
}

/// A head logs what nobody else receives, is away, and comes back before anything else is written.
pub(super) fn stale_suffix(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    let other = w.open(8, 1);
    write(&mut w, 1, session, 3);
    w.script(|_, _, message| if kind!(Append)(message) { Fate::Lost } else { Fate::Arrives });
    w.ask(7, 1, id(session, 4), &put("stale", "x"));
    w.run(ms(5));
    w.crash(1, false);
    w.well();
    w.configure(&[2, 3], None);
    w.start(1);
    w.run(ms(60));
    w.configure(&[2, 3], Some(1));
    w.run(ms(60));
    w.done(8, 2, id(other, 1), &put("k", "v"));
    w.run_until(|w| w.view(3).successor_joined);
    w.configure(&[2, 3, 1], None);
    w.run(ms(60));
    w.ask(8, 2, id(other, 2), &put("k", "w"));
    w.run(ms(60));
    if planted.is_none() {
        assert_eq!(w.machine(1).log().read(Lsn(6)), w.machine(2).log().read(Lsn(6)));
    }
    w
}

#[test]
fn one_that_syncs_counts_for_nothing_until_it_has_everything() {
    hasty(None).assert_well();
}

/// One joins, is sent nothing of the log, and is then the only one.
pub(super) fn hasty(planted: Option<Planted>) -> World {
    let mut w = serving(2, planted);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 5);
    w.crash(2, false);
    w.configure(&[1], None);
    write(&mut w, 1, session, 5);
    w.start(2);
    w.script(|_, to, message| {
        let is_lost = kind!(Append)(message) && to == NodeId::Replica(ReplicaId(2));
        if is_lost { Fate::Lost } else { Fate::Arrives }
    });
    w.configure(&[1], Some(2));
    w.run(ms(100));
    if w.view(1).successor_joined {
        w.configure(&[1, 2], None);
        w.run(ms(5));
    }
    w
}

#[test]
fn one_that_never_connects_holds_nobody_up() {
    let mut w = serving(1, None);
    let session = w.open(7, 1);
    w.disks.insert(2, Disk::new(&w));
    w.start(2);
    w.cut_off(&[2]);
    w.configure(&[1], Some(2));
    write(&mut w, 1, session, 5);
    assert!(!w.view(1).successor_joined && !w.view(1).successor_connected);
    w.configure(&[1], None);
    write(&mut w, 1, session, 5);
    w.assert_well();
}

#[test]
fn one_that_has_joined_is_waited_for_until_it_is_removed() {
    let mut w = serving(2, None);
    let session = w.open(7, 1);
    w.crash(2, false);
    w.configure(&[1], None);
    w.start(2);
    w.configure(&[1], Some(2));
    assert!(w.run_until(|w| w.view(1).successor_joined));
    w.stuck_disks.insert(2);
    w.ask(7, 1, id(session, 1), &put("k", "v"));
    w.run(ms(100));
    assert!(w.outcome(7, id(session, 1)).is_none());
    w.configure(&[1], None);
    w.run(ms(20));
    assert_eq!(w.outcome(7, id(session, 1)).expect("alone again").copies, 1);
    w.assert_well();
}

#[test]
fn a_log_that_forgets_too_early_makes_the_copy_begin_anew() {
    let mut w = World::with_log(config(), 2, 0, 64);
    w.configure(&[1], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    write(&mut w, 1, session, 20);
    w.checkpoint(1);
    w.script(|_, _, message| if kind!(Append)(message) { Fate::Lost } else { Fate::Arrives });
    w.configure(&[1], Some(2));
    write(&mut w, 1, session, 30);
    // A driver that does not care for what is needed.
    let applied = w.view(1).applied;
    w.machine(1).log_mut().forget_below(applied);
    w.well();
    write(&mut w, 1, session, 10);
    joins(&mut w, 2, 1, &[1, 2]);
    assert!(w.machine(2).stats().copied >= 1);
    w.assert_well();
}

/// The log of a replica that copies is full before it has what the newest chunk needs; then nobody writes any more.
#[test]
fn a_log_that_is_full_before_the_copy_ends_makes_it_begin_anew() {
    let mut w = serving(1, None);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 20);
    w.checkpoint(1);
    let mut disk = Disk::new(&w);
    disk.log = Memory::new(w.class, 8);
    w.disks.insert(2, disk);
    w.start(2);
    w.script(|_, _, message| if kind!(Chunk)(message) { Fate::Late(ms(2)) } else { Fate::Arrives });
    w.configure(&[1], Some(2));
    write(&mut w, 1, session, 30);
    w.run_until(|w| w.running[&2].stats().full > 0);
    w.well();
    joins(&mut w, 2, 1, &[1, 2]);
    w.assert_well();
}

/// As before, and the word of it is lost, but not the first chunk: that one looks like another of the copy before.
#[test]
fn a_later_copy_that_was_not_heard_of_is_offered_again() {
    let mut w = serving(1, None);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 20);
    w.checkpoint(1);
    let mut disk = Disk::new(&w);
    disk.log = Memory::new(w.class, 8);
    w.disks.insert(2, disk);
    w.start(2);
    let offers = Rc::new(Cell::new(0));
    let seen = Rc::clone(&offers);
    w.script(move |_, _, message| match message {
        Message::Resume { image: Some(_), .. } => {
            seen.set(seen.get() + 1);
            if seen.get() == 2 { Fate::Lost } else { Fate::Arrives }
        }
        Message::Chunk { .. } => Fate::Late(ms(2)),
        _ => Fate::Arrives,
    });
    w.configure(&[1], Some(2));
    write(&mut w, 1, session, 30);
    w.run_until(|_| offers.get() == 2);
    write(&mut w, 1, session, 1);
    joins(&mut w, 2, 1, &[1, 2]);
    w.assert_well();
}

/// What nobody but the joining one needs any more decays where it is to be read.
#[test]
fn an_entry_that_only_a_joining_replica_needs_may_decay() {
    let config = Config { kept: 1, ..config() };
    let mut w = World::with_log(config, 3, 0, 256);
    w.configure(&[1, 2, 3], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    write(&mut w, 1, session, 5);
    w.crash(2, false);
    w.configure(&[1, 3], None);
    write(&mut w, 1, session, 20);
    let decayed = Lsn(w.view(3).applied.0 - 10);
    w.machine(3).log_mut().damage(decayed);
    w.machine(1).log_mut().forget_below(Lsn(decayed.0 + 1));
    w.start(2);
    w.configure(&[1, 3], Some(2));
    joins(&mut w, 2, 3, &[1, 3, 2]);
    assert_eq!(w.machine(2).stats().copied, 1);
    assert_eq!(w.view(3).missing, 0);
    w.assert_well();
}

#[test]
fn a_member_that_is_removed_keeps_its_log_and_joins_again() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    write(&mut w, 1, session, 5);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    assert_eq!((w.view(3).part, w.view(3).applied), (None, Lsn(6)));
    write(&mut w, 1, session, 5);
    w.configure(&[1, 2], Some(3));
    joins(&mut w, 3, 2, &[1, 2, 3]);
    w.assert_well();
}
