//! A client against a script that says what replicas answer; `faults` against a chain that loses, doubles and delays.

mod faults;
mod homes;

use super::*;
use crate::chain::message::Status;
use crate::chain::transaction::{Change, Malformed};
use crate::chain::{Durability, Lsn};

const REPLICAS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

fn put(key: &[u8]) -> Transaction {
    Transaction { writes: vec![(key.to_vec(), Change::Put(b"1".to_vec()))], ..Transaction::default() }
}

fn get(key: &[u8]) -> Transaction {
    Transaction { reads: vec![key.to_vec()], ..Transaction::default() }
}

fn outcome(lsn: u64) -> Outcome {
    let (abort, reads, sums) = (None, vec![], vec![]);
    Outcome { lsn: Lsn(lsn), abort, reads, sums, durability: Durability::PowerLoss, copies: 3 }
}

/// A client, what it sent and nobody has looked at yet, and the time.
struct Scene {
    client: Client,
    out: Out,
    now: Nanos,
}

impl Scene {
    fn new(config: Config) -> Scene {
        let client = Client::new(&config, 7, &REPLICAS, 7, Nanos::ZERO);
        Scene { client, out: Vec::new(), now: Nanos::ZERO }
    }

    /// With an open session, of this window.
    fn open(window: u64) -> Scene {
        let mut scene = Scene::new(Config::default());
        let ticket = scene.start(put(b"first"));
        let (to, Message::Open { token }) = scene.sent() else { panic!("no session was asked for") };
        scene.hear(to, Message::Opened { token, session: SessionId(50), window });
        let (to, id) = scene.request();
        scene.hear(to, Message::Reply { id, outcome: outcome(51) });
        assert_eq!(scene.client.next_done(), Some((ticket, Ok(outcome(51)))));
        scene
    }

    fn start(&mut self, transaction: Transaction) -> u64 {
        self.client.start(self.now, transaction, &mut self.out).expect("there is room")
    }

    fn hear(&mut self, from: ReplicaId, message: Message) {
        self.client.handle(self.now, NodeId::Replica(from), message, &mut self.out);
    }

    fn refuse(&mut self, from: ReplicaId, id: RequestId, why: Refusal) {
        self.hear(from, Message::Refused { id, why });
    }

    /// The only message that was sent.
    fn sent(&mut self) -> (ReplicaId, Message) {
        let (to, message) = self.out.remove(0);
        assert_eq!(self.out, [], "one message was expected");
        let NodeId::Replica(to) = to else { panic!("a client asks replicas") };
        (to, message)
    }

    /// The only message that was sent, which is a request.
    fn request(&mut self) -> (ReplicaId, RequestId) {
        let (to, Message::Request { id, .. }) = self.sent() else { panic!("no request") };
        (to, id)
    }

    /// Goes to the next moment at which the client wants to be called.
    fn wait(&mut self) {
        self.now = self.client.next_deadline();
        assert!(self.now < Nanos::MAX, "nothing is due any more");
        self.client.tick(self.now, &mut self.out);
    }
}

fn id(sequence: u64) -> RequestId {
    RequestId { session: SessionId(50), sequence }
}

#[test]
fn numbers_follow_each_other_and_stay_within_the_window() {
    let mut scene = Scene::open(2);
    let (second, third) = (scene.start(put(b"a")), scene.start(put(b"b")));
    assert_eq!(scene.out.len(), 2);
    let fourth = scene.start(put(b"c"));
    assert_eq!(scene.out.len(), 2, "the window is full");
    scene.out.clear();
    scene.hear(ReplicaId(1), Message::Reply { id: id(3), outcome: outcome(60) });
    assert_eq!(scene.out, [], "2 is still under way, so 4 would overwrite its place");
    scene.hear(ReplicaId(1), Message::Reply { id: id(2), outcome: outcome(61) });
    assert_eq!(scene.request(), (ReplicaId(1), id(4)));
    assert_eq!(scene.client.next_done(), Some((third, Ok(outcome(60)))));
    assert_eq!(scene.client.next_done(), Some((second, Ok(outcome(61)))));
    scene.hear(ReplicaId(1), Message::Reply { id: id(4), outcome: outcome(62) });
    assert_eq!(scene.client.next_done(), Some((fourth, Ok(outcome(62)))));
    assert_eq!((scene.client.under_way(), scene.client.next_deadline()), (0, Nanos::MAX));
}

#[test]
fn what_is_sent_again_has_the_same_number_and_others_are_asked() {
    let mut scene = Scene::open(64);
    scene.start(put(b"a"));
    let mut asked = vec![scene.request()];
    let mut waits = Vec::new();
    for _ in 0..6 {
        let before = scene.now;
        scene.wait();
        waits.push(scene.now.since(before).0 / Config::default().retransmit.0);
        asked.push(scene.request());
    }
    let to: Vec<u16> = asked.iter().map(|(to, _)| to.0).collect();
    assert_eq!(to, [1, 1, 2, 2, 3, 3, 1]);
    assert!(asked.iter().all(|(_, sent)| *sent == id(2)));
    assert!((1..5).all(|i| waits[i] >= 2 * waits[i - 1]) && waits[5] <= 20, "{waits:?}");
    scene.hear(ReplicaId(3), Message::Reply { id: id(2), outcome: outcome(60) });
    scene.start(put(b"b"));
    assert_eq!(scene.request(), (ReplicaId(3), id(3)), "who answered is asked first");
}

#[test]
fn hints_are_followed_at_once_but_not_for_ever() {
    let mut scene = Scene::open(64);
    scene.start(put(b"a"));
    let (mut to, sent) = scene.request();
    for hop in 0..HOPS {
        let other = ReplicaId(2 + hop as u16 % 2);
        scene.refuse(to, sent, Refusal::Elsewhere(Some(other)));
        let (asked, again) = scene.request();
        assert_eq!((asked, again), (other, sent));
        scene.refuse(to, sent, Refusal::Elsewhere(Some(ReplicaId(1))));
        assert_eq!(scene.out, [], "who is not asked any more is not heard");
        to = asked;
    }
    scene.refuse(to, sent, Refusal::Elsewhere(Some(ReplicaId(1))));
    assert_eq!(scene.out, [], "it is time to wait");
    scene.wait();
    let (to, _) = scene.request();
    scene.refuse(to, sent, Refusal::Elsewhere(None));
    assert_eq!(scene.out, [], "nobody is named");
    scene.wait();
    assert_ne!(scene.request().0, to);
}

#[test]
fn who_is_busy_is_asked_again_later() {
    let mut scene = Scene::open(64);
    scene.start(put(b"a"));
    for _ in 0..5 {
        let (to, sent) = scene.request();
        assert_eq!((to, sent), (ReplicaId(1), id(2)));
        scene.refuse(to, sent, Refusal::Busy);
        assert_eq!(scene.out, []);
        scene.wait();
    }
    assert_eq!(scene.client.stats().busy, 5);
}

#[test]
fn a_session_that_is_forgotten_is_opened_anew_and_what_was_sent_is_unknown() {
    let mut scene = Scene::open(1);
    let (sent, waits) = (scene.start(put(b"a")), scene.start(put(b"b")));
    assert_eq!(scene.request().1, id(2));
    scene.refuse(ReplicaId(1), id(2), Refusal::NoSession);
    assert_eq!(scene.client.next_done(), Some((sent, Err(Failure::Unknown))));
    assert_eq!((scene.client.id_of(sent), scene.client.id_of(waits)), (Some(id(2)), None));
    let (to, Message::Open { token }) = scene.sent() else { panic!("no session was asked for") };
    scene.hear(to, Message::Opened { token, session: SessionId(70), window: 1 });
    let new = RequestId { session: SessionId(70), sequence: 1 };
    assert_eq!(scene.request().1, new);
    scene.hear(to, Message::Reply { id: new, outcome: outcome(71) });
    assert_eq!(scene.client.next_done(), Some((waits, Ok(outcome(71)))));
}

#[test]
fn patience_ends_what_was_not_answered() {
    let mut scene = Scene::new(Config::default());
    let never_sent = scene.start(put(b"a"));
    let read = scene.start(get(b"a"));
    while scene.client.under_way() > 0 {
        scene.wait();
    }
    assert_eq!(scene.now, Config::default().patience);
    assert_eq!(scene.client.next_done(), Some((never_sent, Err(Failure::NotDone))));
    assert_eq!(scene.client.next_done(), Some((read, Err(Failure::NotDone))), "it changed nothing");
    scene.wait();
    assert_eq!(scene.client.next_deadline(), Nanos::MAX, "nobody needs a session");
    let mut scene = Scene::open(64);
    let sent = scene.start(put(b"a"));
    while scene.client.under_way() > 0 {
        scene.wait();
    }
    assert_eq!(scene.client.next_done(), Some((sent, Err(Failure::Unknown))));
    scene.out.clear();
    scene.hear(ReplicaId(1), Message::Reply { id: id(2), outcome: outcome(60) });
    assert_eq!((scene.client.next_done(), scene.client.stats().dropped), (None, 1), "too late");
}

#[test]
fn doubled_replies_are_dropped() {
    let mut scene = Scene::open(64);
    scene.start(put(b"a"));
    for _ in 0..2 {
        scene.hear(ReplicaId(1), Message::Reply { id: id(2), outcome: outcome(60) });
    }
    assert!(scene.client.next_done().is_some() && scene.client.next_done().is_none());
    scene.hear(ReplicaId(1), Message::Ask { id: id(2) });
    let reply = Message::Reply { id: id(2), outcome: outcome(60) };
    scene.client.handle(scene.now, NodeId::Client(7), reply, &mut scene.out);
    assert_eq!(scene.client.stats().dropped, 3, "nothing for a client, and not from a replica");
}

#[test]
fn reads_go_where_the_option_says() {
    let readers = |reads: Reads| {
        let mut scene = Scene::new(Config::default());
        scene.client = scene.client.reads(reads);
        let asked = (0..4).map(|_| {
            scene.start(get(b"a"));
            scene.request().0.0
        });
        asked.collect::<Vec<_>>()
    };
    assert_eq!(readers(Reads::Tail), [3, 3, 3, 3]);
    assert_eq!(readers(Reads::Spread), [2, 3, 1, 2]);
    assert_eq!(readers(Reads::At(ReplicaId(2))), [2, 2, 2, 2]);
    let mut scene = Scene::new(Config::default());
    scene.client = scene.client.reads(Reads::At(ReplicaId(2)));
    scene.start(get(b"a"));
    let (to, sent) = scene.request();
    scene.refuse(to, sent, Refusal::Elsewhere(None));
    scene.wait();
    assert_eq!(scene.request().0, ReplicaId(3));
    scene.start(get(b"b"));
    assert_eq!(scene.request().0, ReplicaId(2), "the next one tries its luck again");
    assert_eq!(scene.client.session(), None, "reads need none");
}

#[test]
fn what_became_of_an_unknown_one_can_be_asked() {
    let told = |status: Status| {
        let mut scene = Scene::open(64);
        let ticket = scene.client.ask(scene.now, id(9), &mut scene.out).expect("there is room");
        let (to, message) = scene.sent();
        assert_eq!(message, Message::Ask { id: id(9) });
        assert_eq!(scene.client.ask(scene.now, id(9), &mut scene.out), Err(TooMany), "it is under way");
        scene.hear(to, Message::Told { id: id(9), status });
        let (ended, result) = scene.client.next_done().expect("it was told");
        assert_eq!(ended, ticket);
        result
    };
    assert_eq!(told(Status::Done(outcome(60))), Ok(outcome(60)));
    assert_eq!(told(Status::Unknown), Err(Failure::Unknown));
    assert_eq!(told(Status::Forgotten), Err(Failure::Refused(Refusal::Forgotten)));
    let mut scene = Scene::open(64);
    scene.client.ask(scene.now, id(9), &mut scene.out).expect("there is room");
    scene.refuse(ReplicaId(1), id(9), Refusal::NoSession);
    let (_, result) = scene.client.next_done().expect("it was refused");
    assert_eq!(result, Err(Failure::Refused(Refusal::NoSession)));
    assert_eq!(scene.client.session(), Some(SessionId(50)), "another one's, or an earlier one");
}

#[test]
fn what_is_malformed_is_not_sent() {
    let mut scene = Scene::open(64);
    let ticket = scene.start(Transaction::default());
    let why = Refusal::Malformed(Malformed::Empty);
    assert_eq!((scene.client.next_done(), scene.out.len()), (Some((ticket, Err(Failure::Refused(why)))), 0));
    let sent = scene.start(put(b"a"));
    let why = Refusal::Malformed(Malformed::TooManyOps(1));
    scene.refuse(ReplicaId(1), id(2), why.clone());
    assert_eq!(
        scene.client.next_done(),
        Some((sent, Err(Failure::Refused(why)))),
        "a replica knows other bounds"
    );
}

#[test]
fn what_is_denied_is_not_asked_again() {
    let denied = || Refusal::Denied("no right to write key a".to_owned());
    let mut scene = Scene::open(64);
    let write = scene.start(put(b"a"));
    let (to, sent) = scene.request();
    scene.refuse(to, sent, denied());
    assert_eq!(scene.client.next_done(), Some((write, Err(Failure::Refused(denied())))), "it was not done");
    // An earlier copy may have been done, before the right was taken away.
    let write = scene.start(put(b"a"));
    scene.request();
    scene.wait();
    let (to, sent) = scene.request();
    scene.refuse(to, sent, denied());
    assert_eq!(scene.client.next_done(), Some((write, Err(Failure::Unknown))));
    let read = scene.start(get(b"a"));
    scene.request();
    scene.wait();
    let (to, sent) = scene.request();
    scene.refuse(to, sent, denied());
    assert_eq!(scene.client.next_done(), Some((read, Err(Failure::Refused(denied())))), "it changes nothing");
    assert_eq!((scene.client.under_way(), scene.out.len()), (0, 0));
}

#[test]
fn who_may_open_no_session_is_told_for_all_that_waits() {
    let mut scene = Scene::new(Config::default());
    let tickets = [scene.start(put(b"a")), scene.start(put(b"b"))];
    let (to, Message::Open { token }) = scene.sent() else { panic!("it opens one") };
    let id = RequestId { session: SessionId(0), sequence: token };
    let denied = Refusal::Denied("no right to call millrace.Txn/Open".to_owned());
    scene.refuse(to, id, denied.clone());
    for ticket in tickets {
        assert_eq!(scene.client.next_done(), Some((ticket, Err(Failure::Refused(denied.clone())))));
    }
    assert_eq!((scene.client.under_way(), scene.out.len(), scene.client.next_deadline()), (0, 0, Nanos::MAX));
}

#[test]
fn as_many_as_may_be_are_under_way_and_what_nobody_took_counts() {
    let mut scene = Scene::new(Config { window: 2, ..Config::default() });
    scene.start(Transaction::default());
    scene.start(get(b"a"));
    assert_eq!(scene.client.start(scene.now, get(b"b"), &mut scene.out), Err(TooMany));
    scene.client.next_done();
    scene.start(get(b"b"));
}

#[test]
fn sessions_that_nobody_uses_are_closed() {
    let mut scene = Scene::open(64);
    let token = scene.client.next_token;
    scene.hear(ReplicaId(1), Message::Opened { token, session: SessionId(50), window: 64 });
    assert_eq!(scene.out, [], "ours, told twice");
    scene.hear(ReplicaId(1), Message::Opened { token, session: SessionId(49), window: 64 });
    assert_eq!(scene.sent(), (ReplicaId(1), Message::Close { session: SessionId(49) }));
    scene.start(put(b"a"));
    scene.out.clear();
    scene.client.close(scene.now, &mut scene.out);
    assert_eq!(scene.sent(), (ReplicaId(1), Message::Close { session: SessionId(50) }));
    assert_eq!(scene.client.next_done().map(|(_, result)| result), Some(Err(Failure::Unknown)));
    assert_eq!(scene.client.session(), None);
}

#[test]
fn who_joined_is_asked_when_those_of_before_are_silent() {
    let mut scene = Scene::open(64);
    scene.start(put(b"a"));
    let (first, asked) = scene.request();
    scene.client.know(&[ReplicaId(8), ReplicaId(9)]);
    let mut heads = vec![first];
    while !heads.contains(&ReplicaId(9)) {
        scene.wait();
        let (to, again) = scene.request();
        assert_eq!(again, asked, "the number stays");
        heads.push(to);
    }
    heads.dedup();
    assert_eq!(heads, [first, ReplicaId(8), ReplicaId(9)], "those that are gone are not asked");
}

#[test]
fn a_patience_is_of_what_begins_after_it() {
    let mut scene = Scene::open(64);
    let before = scene.start(put(b"a"));
    scene.client.set_patience(Nanos::from_millis(1));
    let after = scene.start(put(b"b"));
    scene.now = Nanos::from_millis(1);
    scene.client.tick(scene.now, &mut scene.out);
    assert_eq!(scene.client.next_done(), Some((after, Err(Failure::Unknown))));
    assert_eq!((scene.client.next_done(), scene.client.under_way()), (None, 1));
    assert!(before < after);
}
