//! Whose a session is, and how long: nobody else can name it, and none outlives a reset.

use super::serving::{add, get, id, put, serving, value};
use super::world::{World, ms};
use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::{Configuration, Epoch, Member, Message, NodeId, Part, ReplicaId, SessionId};

/// The operator takes a replica's log for all there is, whatever was acknowledged beyond it.
fn reset_onto(world: &mut World, replica: u16) {
    let epoch = Epoch(world.governor.configuration.epoch.0 + 1);
    let incarnation = world.machine(replica).incarnation();
    let member = Member { replica: ReplicaId(replica), incarnation, part: Part::Serving };
    let last = world.view(replica).last;
    world.judge.accept_loss(last);
    world.decide(Configuration { epoch, reset: epoch, members: vec![member], ..Configuration::default() });
    let serves = world.run_until(|w| w.view(replica).is_head && w.view(replica).epoch == epoch);
    assert!(serves, "it serves alone");
    world.run(ms(600));
}

fn is_refused(world: &mut World, client: u64, to: u16, id: RequestId) -> bool {
    world.ask(client, to, id, &put("mine", "v"));
    world.run(ms(60));
    world.clients.refusals.pop() == Some((client, id, Refusal::NoSession))
}

/// A client from before the reset and one from after it have the same place in the order: the first was answered with what the second did,
/// and its own write was never done.
#[test]
fn a_reset_gives_places_again_and_no_session() {
    let mut w = serving(3, None);
    let early = w.open(6, 1);
    w.done(6, 1, id(early, 1), &put("k", "v"));
    // What follows is acknowledged by two, and lost with them.
    w.cut_off(&[3]);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    let old = w.open(7, 1);
    let opened = w.view(1).last;
    w.done(7, 1, id(old, 1), &put("lost", "v"));
    w.crash(1, false);
    w.crash(2, false);
    w.well();
    reset_onto(&mut w, 3);

    let new = w.open(8, 3);
    assert_eq!(w.view(3).last, opened, "the place of the old session was given again");
    assert_ne!(new, old);
    let theirs = w.done(8, 3, id(new, 2), &add("n", 1));
    assert!(is_refused(&mut w, 7, 3, id(old, 2)), "it is of a session that was lost");
    assert!(is_refused(&mut w, 6, 3, id(early, 2)), "what this session was told may be among what was lost");
    w.send(NodeId::Client(7), NodeId::Replica(ReplicaId(3)), Message::Ask { id: id(old, 2) });
    w.run(ms(60));
    assert_eq!(w.clients.told.pop(), Some((7, Message::Told { id: id(old, 2), status: Status::Forgotten })));
    assert_eq!(w.done(8, 3, id(new, 2), &add("n", 1)), theirs, "its owner is told again");
    let mine = w.done(9, 3, RequestId { session: SessionId(0), sequence: 1 }, &get(&["mine"]));
    assert_eq!(value(&mine.reads[0]), None);
    assert!(w.judge.violations.is_empty(), "{:#?}", w.judge.violations);
}

/// All logs lost the same end. The operator goes on with what is left, which one of them would not by itself.
#[test]
fn a_reset_goes_on_before_what_is_damaged() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    (1..=6).for_each(|sequence| drop(w.done(7, 1, id(session, sequence), &add("n", 1))));
    let last = w.view(1).last;
    for replica in 1..=3 {
        w.crash(replica, false);
        let disk = w.disks.get_mut(&replica).expect("down");
        (last.0 - 2..=last.0).for_each(|lsn| disk.log.damage(crate::chain::Lsn(lsn)));
    }
    (1..=3).for_each(|replica| w.start(replica));
    w.run(ms(3000));
    assert!((1..=3).all(|replica| !w.view(replica).whole && !w.view(replica).is_head), "nobody goes on");
    w.judge.accept_loss(crate::chain::Lsn(last.0 - 3));
    reset_onto(&mut w, 2);
    assert_eq!((w.view(2).last.0, w.view(2).missing), (last.0 - 3, 0));
    let new = w.open(8, 2);
    assert_eq!(w.done(8, 2, id(new, 1), &add("n", 1)).sums, [4]);
    assert!(w.judge.violations.is_empty(), "{:#?}", w.judge.violations);
}

/// Sessions were numbered by their places in the order, which everybody can count.
#[test]
fn a_session_cannot_be_found_by_counting() {
    let mut w = serving(2, None);
    let first = w.open(7, 1);
    let place = w.view(1).last;
    let second = w.open(8, 1);
    let theirs = w.done(7, 1, id(first, 1), &put("k", "theirs"));
    for guess in [u128::from(place.0), first.0 + 1, first.0 - 1, second.0 ^ 1] {
        let guess = id(SessionId(guess), 1);
        assert!(is_refused(&mut w, 9, 1, guess), "{guess:?} is nobody's");
    }
    assert!((first.0 ^ second.0).count_ones() > 30, "one says nothing of the other");
    assert_eq!(w.done(7, 1, id(first, 1), &put("k", "theirs")), theirs);
    assert!(!format!("{first:?}").contains(&first.to_string()), "a log does not show it");
    assert_eq!(first.to_string().parse(), Ok(first));
    assert!("1".parse::<SessionId>().is_err() && "+".repeat(32).parse::<SessionId>().is_err());
}

/// A forged acknowledgement said that there were four copies in a chain of three, and the client was told so.
#[test]
fn nobody_has_more_copies_than_there_are_replicas() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    w.script(|from, to, message| {
        let is_ack = matches!(message, Message::Ack { .. });
        if is_ack && from == NodeId::Replica(ReplicaId(2)) && to == NodeId::Replica(ReplicaId(1)) {
            return super::world::Fate::Lost;
        }
        super::world::Fate::Arrives
    });
    w.ask(7, 1, id(session, 1), &put("k", "v"));
    w.run(ms(10));
    let (epoch, last) = (w.view(1).epoch, w.view(1).last);
    let forged = |copies| {
        let durability = crate::chain::Durability::PowerLoss;
        Message::Ack { epoch, received: last, committed: last, durability, copies }
    };
    for copies in [3, 4, 255] {
        w.act(1, |machine, now, out| machine.handle(now, NodeId::Replica(ReplicaId(2)), forged(copies), out));
        w.run(ms(1));
        assert_eq!(w.outcome(7, id(session, 1)), None, "{copies} behind the first of three");
    }
    w.well();
    assert!(w.run_until(|w| w.outcome(7, id(session, 1)).is_some()));
    assert_eq!(w.outcome(7, id(session, 1)).map(|outcome| outcome.copies), Some(3));
}
