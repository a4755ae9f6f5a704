//! Writes go by the home that has claimed the chain; and what a home sends for others.

use super::*;
use crate::chain::client::homes::CLAIMED;
use crate::chain::transaction::Abort;

fn claimed() -> Outcome {
    Outcome { abort: Some(Abort::Claimed), ..outcome(60) }
}

impl Scene {
    fn following() -> Scene {
        let mut scene = Scene::open(64);
        scene.client = scene.client.clone().follows_homes();
        scene
    }

    /// What was sent, to the home or not, as a request.
    fn asked(&mut self) -> (NodeId, RequestId) {
        let (to, message) = self.out.remove(0);
        let Message::Request { id, .. } = message else { panic!("{message:?} is no request") };
        (to, id)
    }

    fn answer(&mut self, from: NodeId, id: RequestId, outcome: Outcome) {
        self.client.handle(self.now, from, Message::Reply { id, outcome }, &mut self.out);
    }
}

#[test]
fn a_write_goes_by_the_home_that_has_claimed_the_chain() {
    let mut scene = Scene::following();
    let ticket = scene.start(put(b"a"));
    let (head, id) = scene.asked();
    scene.answer(head, id, claimed());
    let (to, again) = scene.asked();
    assert_eq!((to, again.session), (NodeId::Home, id.session));
    assert_ne!(again.sequence, id.sequence, "the chain remembers that it was refused");
    scene.answer(NodeId::Home, again, outcome(61));
    assert_eq!(scene.client.next_done(), Some((ticket, Ok(outcome(61)))));
    // The next goes there at once; what only reads, or is about a claim, does not.
    scene.start(put(b"a"));
    assert_eq!(scene.asked().0, NodeId::Home);
    for other in [get(b"a"), Transaction::new().delete(CLAIM), put(b"a").under(5)] {
        scene.start(other);
        assert!(matches!(scene.asked().0, NodeId::Replica(_)));
    }
}

#[test]
fn where_the_home_is_gone_the_chain_says_under_the_same_number() {
    let mut scene = Scene::following();
    let ticket = scene.start(put(b"a"));
    let (head, id) = scene.asked();
    scene.answer(head, id, claimed());
    let (_, id) = scene.asked();
    scene.wait();
    assert_eq!(scene.asked(), (NodeId::Home, id), "it may wait for boxes");
    scene.client.home_is_lost();
    scene.wait();
    let (to, again) = scene.asked();
    assert_eq!((to, again), (head, id));
    scene.answer(head, id, outcome(62));
    assert_eq!(scene.client.next_done(), Some((ticket, Ok(outcome(62)))));
    // The claim is gone.
    scene.start(put(b"a"));
    assert_eq!(scene.asked().0, head);
}

#[test]
fn a_home_that_was_replaced_is_left() {
    let mut scene = Scene::following();
    scene.start(put(b"a"));
    let (head, id) = scene.asked();
    scene.answer(head, id, claimed());
    let (_, id) = scene.asked();
    scene.answer(NodeId::Home, id, claimed());
    let (to, id) = scene.asked();
    assert_eq!(to, head);
    scene.answer(head, id, claimed());
    assert_eq!(scene.asked().0, NodeId::Home, "the next");
}

#[test]
fn refusals_are_followed_so_often() {
    let mut scene = Scene::following();
    let ticket = scene.start(put(b"a"));
    let mut hops = 0;
    while let Some((to, Message::Request { id, .. })) = scene.out.pop() {
        hops += 1;
        scene.answer(to, id, claimed());
    }
    assert_eq!(hops, CLAIMED + 1);
    assert_eq!(scene.client.next_done(), Some((ticket, Ok(claimed()))));
    let mut alone = Scene::open(64);
    let ticket = alone.start(put(b"a"));
    let (head, id) = alone.asked();
    alone.answer(head, id, claimed());
    assert_eq!(alone.client.next_done(), Some((ticket, Ok(claimed()))), "who follows none is told");
}

#[test]
fn what_is_sent_for_others_is_in_their_session_and_ends_with_it() {
    let mut scene = Scene::open(64);
    let own = scene.client.session();
    let id = RequestId { session: SessionId(99), sequence: 7 };
    let relay = |scene: &mut Scene| scene.client.relay(scene.now, id, put(b"a"), &mut scene.out);
    for why in [Refusal::NoSession, Refusal::Forgotten] {
        let ticket = relay(&mut scene).expect("there is room");
        assert_eq!(relay(&mut scene), Err(TooMany), "it is under way");
        let (to, sent) = scene.asked();
        let NodeId::Replica(head) = to else { panic!("it goes to the head") };
        assert_eq!(sent, id);
        scene.refuse(head, id, why.clone());
        assert_eq!(scene.client.next_done(), Some((ticket, Err(Failure::Refused(why)))));
    }
    let ticket = relay(&mut scene).expect("there is room");
    let (head, _) = scene.asked();
    scene.answer(head, id, outcome(70));
    assert_eq!(scene.client.next_done(), Some((ticket, Ok(outcome(70)))));
    assert_eq!(scene.client.session(), own);
}
