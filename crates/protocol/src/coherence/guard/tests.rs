//! What is believed, and what is not.

use super::*;
use crate::wire::{Control, MAX_VALUE, OpNumber, Round};
use std::net::SocketAddr;

const HOME: NodeId = NodeId::Home(HomeId(1));
const BOX: NodeId = NodeId::Box(BoxId(2));
const ME: ClientId = ClientId(77);

type Planting = Option<Planted>;

fn cluster() -> Key {
    Key::new([7; 16])
}

fn node(me: NodeId, life: u32, planted: Planting) -> Guard<Planting> {
    Guard::with_bugs(me, Incarnation(life), Some(Keys::of_cluster(&cluster())), planted)
}

fn client(planted: Planting) -> Guard<Planting> {
    let keys = Keys::of_client(Keys::client_key(&cluster()));
    Guard::with_bugs(NodeId::Client(ME), Incarnation(0), Some(keys), planted)
}

fn from(node: NodeId) -> Source {
    Source { node: Some(node), origin: None }
}

fn from_client() -> Source {
    Source { node: None, origin: Origin::new(SocketAddr::from(([10, 0, 0, 1], 99))) }
}

fn ack() -> Message {
    let mut message = Message::new(Opcode::Control(Control::InvalidateAck), b"k");
    message.header.round = Round(17);
    message
}

fn request(verb: Verb) -> Message {
    let mut message = Message::request(verb, b"k");
    (message.header.client, message.header.operation) = (ME, OpNumber(1));
    message
}

fn emit(guard: &mut Guard<Planting>, to: NodeId, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    let room = message.header.origin.map_or(0, |origin| origin.room);
    guard.emit(to, room, &mut message.clone(), &mut bytes);
    bytes
}

fn plain(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}

#[test]
fn a_node_is_believed_once_by_whom_it_speaks_to() {
    let (mut home, mut other) = (node(HOME, 1, None), node(NodeId::Home(HomeId(2)), 1, None));
    let said = emit(&mut node(BOX, 5, None), HOME, &ack());
    assert_eq!(other.open(&said, from(BOX)), Err(Refusal::Unproven), "it is for another");
    assert_eq!(home.open(&said, from(NodeId::Box(BoxId(3)))), Err(Refusal::Stranger), "from elsewhere");
    assert_eq!(home.open(&said, from(BOX)), Ok((BOX, ack())));
    assert_eq!(home.open(&said, from(BOX)), Err(Refusal::Repeated));
    assert_eq!(node(BOX, 1, None).open(&said, from(BOX)), Err(Refusal::Unproven), "sent back to who said it");
}

#[test]
fn an_earlier_life_is_not_heard_any_more() {
    let mut home = node(HOME, 1, None);
    let (mut earlier, mut later) = (node(BOX, 5, None), node(BOX, 6, None));
    let (old, new) = (emit(&mut earlier, HOME, &ack()), emit(&mut later, HOME, &ack()));
    assert!(home.open(&new, from(BOX)).is_ok());
    assert_eq!(home.open(&old, from(BOX)), Err(Refusal::Repeated));
}

#[test]
fn every_bit_counts() {
    let said = emit(&mut node(BOX, 5, None), HOME, &ack());
    for bit in 0..8 * said.len() {
        let mut forged = said.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(node(HOME, 1, None).open(&forged, from(BOX)).is_err(), "bit {bit}");
    }
}

#[test]
fn who_has_no_key_or_another_is_not_believed() {
    let mut home = node(HOME, 1, None);
    assert_eq!(home.open(&plain(&ack()), from(BOX)), Err(Refusal::Unproven));
    let keys = Some(Keys::of_cluster(&Key::new([8; 16])));
    let mut other = Guard::with_bugs(BOX, Incarnation(9), keys, None);
    assert_eq!(home.open(&emit(&mut other, HOME, &ack()), from(BOX)), Err(Refusal::Unproven));
    // A client's key makes nobody a node.
    let keys = Keys { members: Some(Keys::client_key(&cluster())), clients: Keys::client_key(&cluster()) };
    let mut climber = Guard::with_bugs(BOX, Incarnation(9), Some(keys), None);
    assert_eq!(home.open(&emit(&mut climber, HOME, &ack()), from(BOX)), Err(Refusal::Unproven));
}

#[test]
fn a_client_writes_with_its_key_and_its_answer_is_proven() {
    let (mut home, mut client) = (node(HOME, 1, None), client(None));
    let said = emit(&mut client, HOME, &request(Verb::Set));
    let (who, heard) = home.open(&said, from_client()).expect("it is sealed");
    assert_eq!(who, NodeId::Client(ME));
    assert_eq!(heard.header.origin.map(|origin| origin.room), Some(Origin::PROVEN));
    assert_eq!(home.open(&said, from_client()), Err(Refusal::Repeated));
    let reply = emit(&mut home, who, &heard.reply(Status::Ok));
    assert!(client.open(&reply, from(HOME)).is_ok());
    let forged = plain(&request(Verb::Set).reply(Status::Ok));
    assert_eq!(client.open(&forged, from(HOME)), Err(Refusal::Unproven), "anybody could have written it");
    let mut read = request(Verb::Get).reply(Status::Miss);
    read.header.operation = OpNumber(1 | READ);
    assert_eq!(client.open(&plain(&read), from(HOME)), Ok((HOME, read.clone())), "reads may be plain");
    assert_eq!(client.open(&plain(&read), from_client()), Err(Refusal::Stranger));
}

#[test]
fn a_stranger_reads_as_much_as_he_sends_and_writes_nothing() {
    let mut home = node(HOME, 1, None);
    for (verb, may) in [(Verb::Get, true), (Verb::Noop, true), (Verb::Set, false), (Verb::Session, false)] {
        let keyed = !matches!(verb, Verb::Noop | Verb::Session);
        let asked = Message { key: if keyed { b"k".to_vec() } else { vec![] }, ..request(verb) };
        match home.open(&plain(&asked), from_client()) {
            Ok(_) => assert!(may, "{verb:?}"),
            Err(Refusal::Answered(reply)) => {
                assert!(!may && reply.header.status == Status::Unproven, "{verb:?}");
                assert!(reply.length() <= asked.length());
            }
            Err(other) => panic!("{verb:?}: {other:?}"),
        }
    }
    for (padding, value) in [(0, 8), (500, 504), (500, 505), (500, MAX_VALUE), (0, 0)] {
        let asked = plain(&Message { padding, ..request(Verb::Get) });
        let (who, heard) = home.open(&asked, from_client()).expect("a read");
        let mut reply = heard.reply(Status::Ok);
        reply.value = vec![1; value];
        let answer = emit(&mut home, who, &reply);
        assert!(answer.len() <= asked.len(), "{value} bytes for {padding}");
        let answer = Packet::parse(&answer).expect("a packet");
        let fits = reply.length() <= asked.len();
        assert_eq!(
            answer.status(),
            if fits { Status::Ok } else { Status::Pad },
            "{value} bytes for {padding}"
        );
        if !fits {
            assert_eq!((answer.operand(), answer.value().len()), (reply.length() as u64, 0));
        }
    }
}

/// By way of a box: what a client may be answered with goes with its request.
#[test]
fn a_clients_room_travels_with_its_request() {
    let (mut the_box, mut home) = (node(BOX, 1, None), node(HOME, 1, None));
    let small = plain(&request(Verb::Get));
    let sealed = emit(&mut client(None), BOX, &request(Verb::Get));
    for (asked, room) in [(&small, small.len() as u32), (&sealed, Origin::PROVEN)] {
        let (_, heard) = the_box.open(asked, from_client()).expect("a read");
        let passed = emit(&mut the_box, HOME, &heard);
        let (_, at_home) = home.open(&passed, from(BOX)).expect("of the box");
        assert_eq!(at_home.header.origin.map(|origin| origin.room), Some(room));
    }
}

#[test]
fn a_window_takes_each_counter_once() {
    let mut window = Window::default();
    for (counter, is_new) in [
        (0, false),
        (5, true),
        (3, true),
        (5, false),
        (3, false),
        (4, true),
        (1028, true),
        (5, false),
        (6, true),
        (6, false),
        (1029, true),
        (6, false),
        (5, false),
        (1 << 40, true),
        (1029, false),
        (u64::MAX, true),
        (u64::MAX, false),
        (u64::MAX - 1023, true),
        (u64::MAX - 1024, false),
    ] {
        assert_eq!(window.take(counter), is_new, "{counter}");
    }
}

#[test]
fn windows_of_clients_are_bounded() {
    let mut recent = Recent::default();
    for client in 1..=CLIENTS as u64 {
        assert!(recent.of(ClientId(client)).take(9));
    }
    assert!(!recent.of(ClientId(1)).take(9), "it is known");
    assert!(recent.of(ClientId(0)).take(9), "one more");
    assert_eq!((recent.windows.len(), recent.by_use.len()), (CLIENTS, CLIENTS));
    assert!(!recent.of(ClientId(1)).take(9), "used since");
    assert!(recent.of(ClientId(2)).take(9), "the one that was heard longest ago is forgotten");
}
