//! A chain in which nothing fails: order, answers, retries, sessions, reads, full logs.

use super::world::{Fate, World, ms};
use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::transaction::{Abort, Change, Condition, Found};
use crate::chain::{
    Config, Durability, Log, Lsn, Message, NodeId, Planted, ReplicaId, SessionId, Slots, Transaction,
};

pub(super) fn config() -> Config {
    Config { session_window: 4, kept: 4, chunk_bytes: 256, ..Config::default() }
}

/// Replicas 1 to `n` serve.
pub(super) fn serving(n: u16, planted: Option<Planted>) -> World {
    let mut world = World::planted(config(), planted, n, 0);
    world.configure(&(1..=n).collect::<Vec<_>>(), None);
    world.run(ms(60));
    world
}

pub(super) fn id(session: SessionId, sequence: u64) -> RequestId {
    RequestId { session, sequence }
}

pub(super) fn token(sequence: u64) -> RequestId {
    id(SessionId(0), sequence)
}

pub(super) fn put(key: &str, value: &str) -> Transaction {
    write(key, Change::Put(value.into()))
}

pub(super) fn add(key: &str, amount: i64) -> Transaction {
    write(key, Change::Add(amount))
}

fn write(key: &str, change: Change) -> Transaction {
    Transaction { writes: vec![(key.into(), change)], ..Transaction::default() }
}

pub(super) fn get(keys: &[&str]) -> Transaction {
    Transaction { reads: keys.iter().map(|key| key.as_bytes().to_vec()).collect(), ..Transaction::default() }
}

/// Whether this is a message of this kind.
macro_rules! kind {
    ($name:ident) => {
        |message: &crate::chain::Message| matches!(message, crate::chain::Message::$name { .. })
    };
}
pub(super) use kind;

pub(super) fn value(found: &Option<Found>) -> Option<&str> {
    found.as_ref().map(|found| std::str::from_utf8(&found.value).expect("text"))
}

#[test]
fn a_transaction_is_logged_by_all_and_answered_with_what_it_survives() {
    for n in 1..=4 {
        let mut w = serving(n, None);
        let session = w.open(7, 1);
        let mut both = add("n", 5);
        both.reads = vec![b"n".to_vec(), b"none".to_vec()];
        let first = w.done(7, 1, id(session, 1), &both);
        assert_eq!((first.lsn, first.abort, &first.sums[..]), (Lsn(2), None, &[5][..]));
        assert_eq!(first.reads, [None, None]);
        assert_eq!((first.durability, u16::from(first.copies)), (Durability::PowerLoss, n));
        let second = w.done(7, 1, id(session, 2), &both);
        assert_eq!((value(&second.reads[0]), &second.sums[..]), (Some("5"), &[10][..]));
        w.run(ms(1));
        for replica in 1..=n {
            let view = w.view(replica);
            assert_eq!((view.applied, view.durable), (Lsn(3), Lsn(3)), "{view:?}");
            let read = w.done(8, replica, token(u64::from(replica)), &get(&["n"]));
            assert_eq!(value(&read.reads[0]), Some("10"));
        }
        w.assert_well();
    }
}

#[test]
fn an_abort_has_a_place_in_the_order_too_and_writes_nothing() {
    let mut w = serving(2, None);
    let session = w.open(7, 1);
    let mut only_if = put("k", "v");
    only_if.conditions = vec![(b"k".to_vec(), Condition::Exists)];
    let aborted = w.done(7, 1, id(session, 1), &only_if);
    assert_eq!((aborted.lsn, aborted.abort), (Lsn(2), Some(Abort::Condition(0))));
    // The key is there by now, but that one was decided.
    w.done(7, 1, id(session, 2), &put("k", "v"));
    assert_eq!(w.done(7, 1, id(session, 1), &only_if), aborted);
    w.assert_well();
}

#[test]
fn a_retry_is_answered_as_the_first_and_a_place_used_later_forgets() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    let first = w.done(7, 1, id(session, 1), &add("n", 1));
    assert_eq!(w.done(7, 1, id(session, 1), &add("n", 1)), first);
    // Two copies at once: the second is dropped, or answered alike.
    w.ask(7, 1, id(session, 2), &add("n", 1));
    assert_eq!(w.done(7, 1, id(session, 2), &add("n", 1)).sums, [2]);
    // From another connection: it waits for the first one.
    w.ask(7, 1, id(session, 3), &add("n", 1));
    w.ask(9, 1, id(session, 3), &add("n", 1));
    w.run(ms(5));
    assert_eq!(w.outcome(7, id(session, 3)), w.outcome(9, id(session, 3)));
    // The window is 4: the fifth takes the place of the first.
    w.done(7, 1, id(session, 5), &add("n", 1));
    w.ask(8, 1, id(session, 1), &add("n", 1));
    w.run(ms(5));
    assert_eq!(w.clients.refusals.pop(), Some((8, id(session, 1), Refusal::Forgotten)));
    assert_eq!(value(&w.done(7, 3, token(1), &get(&["n"])).reads[0]), Some("4"));
    w.assert_well();
}

#[test]
fn whoever_asks_hears_what_became_of_it_after_it_ended() {
    let mut w = serving(2, None);
    let session = w.open(7, 1);
    let tell = |w: &mut World, id| {
        w.send(NodeId::Client(9), NodeId::Replica(ReplicaId(1)), Message::Ask { id });
        w.run(ms(5));
        w.clients.told.pop()
    };
    let status = |id, status| Some((9, Message::Told { id, status }));
    let one = id(session, 1);
    assert_eq!(tell(&mut w, one), status(one, Status::Unknown));
    w.ask(7, 1, one, &put("k", "v"));
    let told = tell(&mut w, one);
    let outcome = w.outcome(7, one).expect("it was answered").clone();
    assert_eq!(told, status(one, Status::Done(outcome)));
    let other = id(SessionId(99), 1);
    assert_eq!(tell(&mut w, other), status(other, Status::Forgotten));
}

#[test]
fn conflicts_wait_in_the_order_in_which_they_came_and_others_pass() {
    let mut w = serving(3, None);
    let sessions: Vec<_> = (1..=4).map(|client| w.open(client, 1)).collect();
    // Acknowledgements take long: all are there before the first is committed.
    w.script(|_, _, message| if kind!(Ack)(message) { Fate::Late(ms(3)) } else { Fate::Arrives });
    for (client, session) in (1..).zip(&sessions) {
        let transaction = if client == 4 { put("other", "x") } else { add("n", 1) };
        w.ask(client, 1, id(*session, 1), &transaction);
    }
    w.run(ms(1));
    assert_eq!((w.view(1).under_way, w.view(1).waiting), (2, 2));
    w.run(ms(60));
    for (client, session) in (1..=3).zip(&sessions) {
        let outcome = w.outcome(client, id(*session, 1)).expect("answered");
        assert_eq!(outcome.sums, [client as i64]);
    }
    let other = w.outcome(4, id(sessions[3], 1)).expect("answered");
    assert_eq!(other.lsn, Lsn(6), "it waits for none of them");
    w.assert_well();
}

#[test]
fn too_much_is_refused_and_nothing_malformed_is_done() {
    too_much_for(Config { queue: 1, ..config() });
    too_much_for(Config { queue_bytes: 1, ..config() });
}

/// One may wait.
fn too_much_for(config: Config) {
    let mut w = World::new(Config { window: 2, ..config }, 2, 0);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    w.stuck_disks.insert(1);
    for sequence in 1..=4 {
        w.ask(7, 1, id(session, sequence), &put(&format!("k{sequence}"), "v"));
    }
    w.run(ms(2));
    assert_eq!((w.view(1).under_way, w.view(1).waiting), (2, 1));
    assert_eq!(w.clients.refusals.pop(), Some((7, id(session, 4), Refusal::Busy)));
    w.ask(7, 1, id(session, 5), &put("", "v"));
    w.ask(7, 1, id(SessionId(77), 1), &put("free", "v"));
    w.stuck_disks.clear();
    w.run(ms(100));
    assert!(matches!(w.clients.refusals[0].2, Refusal::Malformed(_)));
    assert_eq!(w.clients.refusals[1], (7, id(SessionId(77), 1), Refusal::Busy));
    w.ask(7, 1, id(SessionId(78), 1), &put("free", "v"));
    w.run(ms(5));
    assert_eq!(w.clients.refusals[2], (7, id(SessionId(78), 1), Refusal::NoSession));
    assert!((1..=3).all(|sequence| w.outcome(7, id(session, sequence)).is_some()));
    w.assert_well();
}

#[test]
fn a_full_log_makes_the_head_busy_until_a_checkpoint() {
    let mut w = World::with_log(config(), 2, 0, 6);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    for sequence in 1..=5 {
        w.done(7, 1, id(session, sequence), &add("n", 1));
    }
    w.ask(7, 1, id(session, 6), &add("n", 1));
    w.run(ms(5));
    w.ask(7, 1, id(session, 7), &add("m", 1));
    w.run(ms(5));
    assert_eq!(w.clients.refusals.pop(), Some((7, id(session, 7), Refusal::Busy)));
    assert_eq!(w.outcome(7, id(session, 6)), None);
    // The head has room, its successor has not: nothing is lost.
    w.checkpoint(1);
    w.run(ms(50));
    assert_eq!((w.view(1).last, w.view(2).last), (Lsn(7), Lsn(6)));
    w.checkpoint(2);
    w.run(ms(400));
    assert_eq!(w.outcome(7, id(session, 6)).expect("it was made before").sums, [6]);
    assert!(w.machine(2).stats().full > 0 && w.machine(1).stats().full > 0);
    w.assert_well();
}

#[test]
fn the_session_that_was_used_least_recently_is_forgotten() {
    let mut w = World::new(Config { sessions: 2, ..config() }, 2, 0);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    let (a, b) = (w.open(1, 1), w.open(2, 1));
    w.done(2, 1, id(b, 1), &put("k", "b"));
    w.done(1, 1, id(a, 1), &put("k", "a"));
    let c = w.open(3, 1);
    w.ask(2, 1, id(b, 1), &put("k", "b"));
    w.done(1, 1, id(a, 2), &put("k", "a"));
    assert_eq!(w.clients.refusals.pop(), Some((2, id(b, 1), Refusal::NoSession)));
    assert_eq!(w.machine(1).stats().evicted, 1);
    // Closing gives the places back.
    w.send(NodeId::Client(3), NodeId::Replica(ReplicaId(1)), Message::Close { session: c });
    w.run(ms(5));
    w.open(4, 1);
    assert_eq!(w.machine(1).stats().evicted, 1);
    w.done(1, 1, id(a, 3), &put("k", "a"));
    w.ask(3, 1, id(c, 1), &put("k", "c"));
    w.run(ms(5));
    assert_eq!(w.clients.refusals.pop(), Some((3, id(c, 1), Refusal::NoSession)));
    // A new head knows who was used when.
    w.restart(1);
    w.configure(&[2], None);
    w.run(ms(60));
    w.open(5, 2);
    w.done(1, 2, id(a, 4), &put("k", "a"));
    w.assert_well();
}

#[test]
fn what_is_not_clean_is_read_with_the_word_of_the_tail() {
    dirty_read(None).assert_well();
}

/// The tail has committed what the middle does not know of yet; a client reads at the tail, then another one at the middle.
pub(super) fn dirty_read(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &put("k", "old"));
    w.script(|from, _, message| {
        let is_slow = kind!(Ack)(message) && from == NodeId::Replica(ReplicaId(3));
        if is_slow { Fate::Late(ms(5)) } else { Fate::Arrives }
    });
    w.ask(7, 1, id(session, 2), &put("k", "new"));
    w.run(ms(1));
    let at_tail = w.done(8, 3, token(1), &get(&["k"]));
    assert_eq!(value(&at_tail.reads[0]), Some("new"));
    w.done(8, 2, token(2), &get(&["k"]));
    // Another key is clean, and answered at once.
    w.ask(8, 2, token(3), &get(&["other"]));
    w.run(ms(1));
    assert!(w.outcome(8, token(3)).is_some());
    w.run(ms(60));
    assert!(planted.is_some() || w.machine(2).stats().asked == 1);
    w
}

#[test]
fn a_read_that_waits_too_long_is_sent_to_the_tail() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    w.script(
        |_, _, message| {
            if kind!(Ack)(message) || kind!(AskCommitted)(message) { Fate::Lost } else { Fate::Arrives }
        },
    );
    w.ask(7, 1, id(session, 1), &put("k", "new"));
    w.run(ms(1));
    w.ask(8, 2, token(1), &get(&["k"]));
    w.run(ms(400));
    assert!(w.clients.refusals.contains(&(8, token(1), Refusal::Elsewhere(Some(ReplicaId(3))))));
    assert_eq!(w.view(2).reads_waiting, 0);
    w.well();
    w.run(ms(400));
    assert!(w.outcome(7, id(session, 1)).is_some());
}

#[test]
fn loss_and_disorder_between_neighbours_are_made_up_for() {
    disorder(None).assert_well();
}

/// An entry is lost on its way, the next ones are not.
pub(super) fn disorder(planted: Option<Planted>) -> World {
    let mut w = serving(3, planted);
    let session = w.open(7, 1);
    w.done(7, 1, id(session, 1), &put("k", "1"));
    let mut lost = false;
    w.script(move |_, to, message| {
        let is_it = kind!(Append)(message) && to == NodeId::Replica(ReplicaId(2)) && !lost;
        lost |= is_it;
        if is_it { Fate::Late(ms(10)) } else { Fate::Twice(ms(1)) }
    });
    w.ask(7, 1, id(session, 2), &put("a", "2"));
    w.run(ms(2));
    w.ask(7, 1, id(session, 3), &put("b", "3"));
    w.run(ms(2));
    w.ask(7, 1, id(session, 4), &put("c", "4"));
    w.run(ms(200));
    w
}

#[test]
fn a_conflict_reads_what_was_committed_before() {
    overlap(None).assert_well();
}

/// Many clients add to one number at once.
pub(super) fn overlap(planted: Option<Planted>) -> World {
    let mut w = serving(2, planted);
    let sessions: Vec<_> = (1..=4).map(|client| w.open(client, 1)).collect();
    for (client, session) in (1..).zip(&sessions) {
        w.ask(client, 1, id(*session, 1), &add("n", 1));
    }
    w.run(ms(60));
    w
}

#[test]
fn what_another_chain_has_is_refused() {
    let mut w = anothers_key(None);
    let refusals = w.clients.refusals.len();
    assert_eq!(refusals, 3, "a write at the head, reads at both: {:?}", w.clients.refusals);
    w.assert_well();
}

/// A client that goes by an old file asks for a key that another chain has; one that goes by the new one, for its own.
pub(super) fn anothers_key(planted: Option<Planted>) -> World {
    let slots = Slots::share(0, 2);
    let mut w = World::planted(Config { slots, ..config() }, planted, 2, 0);
    w.configure(&[1, 2], None);
    w.run(ms(60));
    let session = w.open(7, 1);
    // Slots 5061 and 12182.
    w.done(7, 1, id(session, 1), &add("bar", 1));
    w.ask(7, 1, id(session, 2), &add("foo", 1));
    for (sequence, replica) in [(1, 1), (2, 2)] {
        w.ask(8, replica, token(sequence), &Transaction::new().get("foo"));
    }
    w.run(ms(60));
    w
}

#[test]
fn a_late_copy_of_a_request_is_not_done_again() {
    late_copy(None).assert_well();
}

/// A request is in the network twice; the second copy comes when the first was answered.
pub(super) fn late_copy(planted: Option<Planted>) -> World {
    let mut w = serving(2, planted);
    let session = w.open(7, 1);
    w.script(|_, _, message| if kind!(Request)(message) { Fate::Twice(ms(20)) } else { Fate::Arrives });
    w.ask(7, 1, id(session, 1), &add("n", 1));
    w.run(ms(60));
    w
}

#[test]
fn the_log_of_each_replica_reads_alike() {
    let mut w = serving(3, None);
    let session = w.open(7, 1);
    for sequence in 1..=6 {
        w.done(7, 1, id(session, sequence), &add("n", 1));
    }
    let logs: Vec<Vec<_>> =
        (1..=3).map(|r| (1..=7).map(|lsn| w.machine(r).log().read(Lsn(lsn))).collect()).collect();
    assert!(logs[0] == logs[1] && logs[1] == logs[2]);
    assert!(logs[0].iter().all(Option::is_some));
}
