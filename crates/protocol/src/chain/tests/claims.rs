//! Claims: who writes a chain's items, and that nobody else does, whoever is head.

use super::failures::with_under_way;
use super::serving::{add, get, id, kind, put, serving, token};
use super::world::{Fate, World, ms};
use crate::chain::claim::Claim;
use crate::chain::transaction::Abort;
use crate::chain::{NodeId, Planted, ReplicaId, SessionId, Transaction};

fn claim(number: u64) -> Claim {
    Claim { number, address: format!("home {number}") }
}

/// Asks for a write, whose client tries until it knows; what came of it.
fn abort(w: &mut World, session: SessionId, sequence: u64, transaction: &Transaction) -> Option<Abort> {
    w.done(7, 1, id(session, sequence), transaction).abort
}

#[test]
fn only_what_carries_the_claim_writes_and_all_read() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    assert_eq!(abort(&mut w, session, 1, &put("k", "1")), None);
    assert_eq!(abort(&mut w, session, 2, &claim(5).make()), None);
    assert_eq!(abort(&mut w, session, 3, &put("k", "2")), Some(Abort::Claimed));
    assert_eq!(abort(&mut w, session, 4, &put("k", "3").under(5)), None);
    // A copy of what was refused is refused, also when there is no claim any more.
    assert_eq!(w.machine(1).stats().claimed, 1);
    let found = w.done(8, 3, token(1), &Claim::ask()).reads.pop().flatten().expect("a claim");
    assert_eq!(Claim::parse(&found.value), Some(claim(5)));
    assert_eq!(w.done(8, 2, token(2), &get(&["k"])).abort, None, "whoever only reads may");
    assert_eq!(w.done(8, 2, token(3), &get(&["k"]).under(5)).abort, None);
    // Another home takes over: the first one hears of it by whatever it does.
    assert_eq!(abort(&mut w, session, 5, &claim(6).make()), None);
    assert_eq!(abort(&mut w, session, 6, &put("k", "4").under(5)), Some(Abort::Claimed));
    assert_eq!(w.done(8, 2, token(4), &get(&["k"]).under(5)).abort, Some(Abort::Claimed));
    // It gives up what it has not any more: nothing.
    let late = Claim::give_up(found.version.0);
    assert_eq!(abort(&mut w, session, 7, &late), Some(Abort::Condition(0)));
    let found = w.done(8, 3, token(5), &Claim::ask()).reads.pop().flatten().expect("a claim");
    assert_eq!(abort(&mut w, session, 8, &Claim::give_up(found.version.0)), None);
    assert_eq!(abort(&mut w, session, 9, &put("k", "5")), None);
    assert_eq!(abort(&mut w, session, 10, &put("k", "6").under(6)), Some(Abort::Claimed));
    w.assert_well();
}

#[test]
fn what_was_refused_stays_so_when_the_claim_is_given_up() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    abort(&mut w, session, 1, &claim(5).make());
    let refused = put("k", "1");
    let first = w.done(7, 1, id(session, 2), &refused);
    let version = w.done(8, 3, token(1), &Claim::ask()).reads[0].as_ref().map_or(0, |found| found.version.0);
    assert_eq!(abort(&mut w, session, 3, &Claim::give_up(version)), None);
    w.ask(7, 1, id(session, 2), &refused);
    w.run(ms(50));
    assert_eq!(w.done(7, 1, id(session, 2), &refused), first);
    assert_eq!(w.done(8, 3, token(2), &get(&["k"])).reads, [None]);
    w.assert_well();
}

/// Three serve, with a claim that is logged and not committed.
fn claim_under_way(planted: Option<Planted>) -> (World, SessionId) {
    with_under_way(planted, &claim(5).make())
}

#[test]
fn nothing_runs_while_a_claim_is_under_way() {
    passed(None).assert_well();
}

pub(super) fn passed(planted: Option<Planted>) -> World {
    let (mut w, session) = claim_under_way(planted);
    w.ask(7, 1, id(session, 3), &add("n", 1));
    w.ask(7, 1, id(session, 4), &add("m", 1).under(5));
    w.run(ms(5));
    assert!(planted.is_some() || (w.view(1).under_way, w.view(1).waiting) == (1, 2));
    w.well();
    w.run(ms(700));
    if planted.is_none() {
        assert_eq!(w.outcome(7, id(session, 3)).expect("told").abort, Some(Abort::Claimed));
        assert_eq!(w.outcome(7, id(session, 4)).expect("done").abort, None);
    }
    w
}

#[test]
fn a_new_head_waits_for_the_claim_that_it_finds() {
    forgotten(None).assert_well();
}

pub(super) fn forgotten(planted: Option<Planted>) -> World {
    let (mut w, session) = claim_under_way(planted);
    w.crash(1, false);
    w.configure(&[2, 3], None);
    w.run(ms(60));
    w.ask(7, 2, id(session, 3), &add("n", 1));
    w.run(ms(5));
    assert!(planted.is_some() || (w.view(2).under_way, w.view(2).waiting) == (1, 1));
    w.well();
    w.run(ms(700));
    w.ask(7, 2, id(session, 2), &claim(5).make());
    w.run(ms(60));
    if planted.is_none() {
        assert_eq!(w.outcome(7, id(session, 3)).expect("told").abort, Some(Abort::Claimed));
    }
    w
}

#[test]
fn a_read_under_a_claim_waits_for_the_one_that_is_under_way() {
    dirty(None).assert_well();
}

pub(super) fn dirty(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &claim(5).make());
    w.script(|from, _, message| {
        let is_slow = kind!(Ack)(message) && from == NodeId::Replica(ReplicaId(3));
        if is_slow { Fate::Late(ms(5)) } else { Fate::Arrives }
    });
    w.ask(7, 1, id(session, 2), &claim(6).make());
    w.run(ms(1));
    // The tail says that another has it: nobody says otherwise from now on.
    assert_eq!(w.done(8, 3, token(1), &get(&["k"]).under(5)).abort, Some(Abort::Claimed));
    let at_middle = w.done(8, 2, token(2), &get(&["k"]).under(5));
    assert!(planted.is_some() || at_middle.abort == Some(Abort::Claimed));
    // Without a claim there is nothing to wait for.
    w.ask(8, 2, token(3), &get(&["k"]));
    w.run(ms(1));
    assert!(w.outcome(8, token(3)).is_some());
    w.run(ms(60));
    w
}
