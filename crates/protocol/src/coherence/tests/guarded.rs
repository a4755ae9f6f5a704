//! Scenario: what somebody on the way can do with packets, who has no key.

use super::super::guard::{Guard, Keys, Refusal, Source};
use super::super::{NodeId, Planted};
use super::gaps::{HOME, rack, tor};
use super::world::World;
use crate::wire::{ClientId, Control, HomeId, Incarnation, Message, Opcode, Origin, Round, Status, Verb};
use base::key::Key;
use std::net::SocketAddr;

fn guard(me: NodeId, key: u8, planted: Option<Planted>) -> Guard<Option<Planted>> {
    Guard::with_bugs(me, Incarnation(1), Some(Keys::of_cluster(&Key::new([key; 16]))), planted)
}

fn said(from: &mut Guard<Option<Planted>>, to: NodeId, mut message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    let room = message.header.origin.map_or(0, |origin| origin.room);
    from.emit(to, room, &mut message, &mut bytes);
    bytes
}

/// What a node said is heard by whom it was said to, once; what a stranger says for it is not, and he writes nothing and is answered with
/// no more than he sends.
pub(super) fn guarded(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let at_box = Source { node: Some(tor(1)), origin: None };
    let elsewhere = Source { node: None, origin: Origin::new(SocketAddr::from(([10, 0, 0, 1], 9))) };
    let (mut the_box, mut home) = (guard(tor(1), 1, planted), guard(HOME, 1, planted));
    let mut other = guard(NodeId::Home(HomeId(2)), 1, planted);
    let mut ack = Message::new(Opcode::Control(Control::InvalidateAck), b"k");
    ack.header.round = Round(3);

    let answer = said(&mut the_box, HOME, ack.clone());
    expect!(w, "heard by another", other.open(&answer, at_box).is_ok(), false);
    expect!(w, "heard", home.open(&answer, at_box), Ok((tor(1), ack.clone())));
    expect!(w, "heard twice", home.open(&answer, at_box).is_ok(), false);
    let forged = said(&mut guard(tor(1), 2, planted), HOME, ack);
    expect!(w, "forged", home.open(&forged, at_box).is_ok(), false);

    let mut bytes = Vec::new();
    let mut write = Message::request(Verb::Set, b"k");
    (write.header.client, write.value) = (ClientId(1), b"evil".to_vec());
    write.emit(&mut bytes);
    expect!(w, "written", matches!(home.open(&bytes, elsewhere), Err(Refusal::Answered(_))), true);

    bytes.clear();
    Message::request(Verb::Get, b"k").emit(&mut bytes);
    let (client, asked) = home.open(&bytes, elsewhere).expect("anybody may read");
    let mut reply = asked.reply(Status::Ok);
    reply.value = vec![1; 1000];
    let reply = said(&mut home, client, reply);
    expect!(w, "amplified", reply.len() <= bytes.len(), true);
    w
}

scenarios! { guarded }
