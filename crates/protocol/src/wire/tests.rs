//! Packets and values are the same thing, and nothing else is a packet; `docs/wire.md` says what the code does.

mod damage;
mod documents;
mod inverse;
mod numbers;
mod vectors;

use super::*;
use crate::coherence::NodeId;
use crate::coherence::guard::{Guard, Keys};
use crate::coherence::holders::Boxes;
use crate::coherence::ownership::{Answer, Grant, Record, Returned, Told};
use crate::coherence::ranges::{Caching, Range, Ranges};
use base::Nanos;
use base::key::Key;
use std::net::SocketAddr;

/// One of each opcode, with something in every field that it uses.
fn examples() -> Vec<(String, Message)> {
    let requests = Verb::ALL.iter().map(|&verb| (verb.name().to_string(), request(verb)));
    let controls = Control::ALL.iter().map(|&control| (control.name().to_string(), said(control)));
    let replies = [
        ("GET, expanded and with two sharers".to_string(), expanded()),
        ("GET reply of the home to it".to_string(), fill()),
        ("INCR reply".to_string(), counted()),
        ("SET reply, another epoch".to_string(), refused()),
        ("INCR by a box that would own the key".to_string(), asked()),
        ("INCR reply that gives it the key".to_string(), given()),
        ("SET, sealed by its client for home 2".to_string(), {
            let set = request(Verb::Set);
            sealed(&set, NodeId::Client(set.header.client))
        }),
        ("GET, sealed by box 5 for home 2".to_string(), sealed(&expanded(), NodeId::Box(BoxId(5)))),
    ];
    requests.chain(replies).chain(controls).collect()
}

fn request(verb: Verb) -> Message {
    let mut message = Message::request(verb, b"");
    if Opcode::Request(verb).key_rule() == KeyRule::One {
        message.key = b"user:1".to_vec();
    }
    let header = &mut message.header;
    header.request = RequestId(0x0102);
    header.client = ClientId(0x1112_1314_1516_1718);
    header.operation = OpNumber(7);
    header.epoch = Epoch(3);
    header.deadline_us = 5000;
    match verb {
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas => {
            (header.item_flags, header.ttl) = (42, Ttl::new(Nanos::from_secs(60)));
            message.value = b"some value".to_vec();
        }
        Verb::Incr | Verb::Decr | Verb::CondPut | Verb::Min | Verb::Max | Verb::Or => header.operand = 10,
        Verb::Append => {
            header.operand = 512;
            message.value = b", more".to_vec();
        }
        Verb::Touch => header.ttl = Ttl::new(Nanos::from_secs(60)),
        Verb::Get => message.padding = 16,
        Verb::Delete | Verb::Flush | Verb::Noop | Verb::Session => {}
    }
    if !matches!(verb, Verb::Get | Verb::Noop | Verb::Session) {
        message.header.round = Round(9);
    }
    if verb == Verb::Cas {
        message.header.version = Version(99);
    }
    message
}

fn expanded() -> Message {
    let mut message = request(Verb::Get);
    message.header.hops = 2;
    message.header.origin = Origin::new(SocketAddr::from(([10, 0, 1, 2], 4660)));
    assert!(message.header.sharers.push(BoxId(1), Token(0x2122_2324)));
    assert!(message.header.sharers.push(BoxId(5), Token(0x3132_3334)));
    message
}

/// Sealed for home 2, in a cluster whose key is the bytes 0 to 15; a node's life is 0x41424344.
fn sealed(message: &Message, by: NodeId) -> Message {
    let key = Key::new(std::array::from_fn(|i| i as u8));
    let mut guard = match by {
        NodeId::Client(id) => Guard::of_client(id, Some(Keys::of_client(Keys::client_key(&key)))),
        node => Guard::new(node, Incarnation(0x4142_4344), Some(Keys::of_cluster(&key))),
    };
    let mut bytes = Vec::new();
    guard.emit(NodeId::Home(HomeId(2)), 184, &mut message.clone(), &mut bytes);
    Packet::parse(&bytes).expect("it was written here").to_message()
}

fn fill() -> Message {
    let mut message = expanded().reply(Status::Ok);
    message.header.version = Version(100);
    message.header.ttl = Ttl::new(Nanos::from_secs(59));
    message.header.deadline_us = 20_000;
    message.header.item_flags = 42;
    message.value = b"some value".to_vec();
    message
}

fn counted() -> Message {
    let mut message = request(Verb::Incr).reply(Status::Ok);
    (message.header.operand, message.header.version) = (11, Version(101));
    message.header.flags = Flags::FROM_BOX;
    message
}

fn refused() -> Message {
    let mut message = request(Verb::Set).reply(Status::WrongEpoch);
    message.header.epoch = Epoch(4);
    message
}

fn asked() -> Message {
    let mut message = request(Verb::Incr);
    (message.header.flags, message.header.at, message.header.hops) = (Flags::OWNABLE, BoxId(1), 1);
    assert!(message.header.sharers.push(BoxId(1), Token(0x2122_2324)));
    message
}

fn given() -> Message {
    let mut message = asked().reply(Status::Ok);
    let header = &mut message.header;
    (header.operand, header.version, header.round) = (11, Version(101), Round(9));
    (header.flags, header.kind, header.deadline_us) = (Flags::OWNED, Kind::Number, 20_000);
    let sessions =
        vec![Told { session: Round(9), client: header.client, highest: OpNumber(7), begun: u64::MAX }];
    message.value =
        Grant { before: Round(18), next: Version(102), sessions, value: b"11".to_vec() }.to_bytes();
    message
}

fn said(control: Control) -> Message {
    let key: &[u8] = match control {
        Control::Invalidate | Control::InvalidateAck | Control::Return | Control::ReturnAck => b"user:1",
        _ => b"",
    };
    let mut message = Message::new(Opcode::Control(control), key);
    let header = &mut message.header;
    (header.at, header.incarnation) = (BoxId(5), Incarnation(0x4142_4344));
    (header.home, header.epoch, header.round) = (HomeId(2), Epoch(3), Round(17));
    match control {
        Control::Invalidate | Control::InvalidateAck => header.version = Version(102),
        Control::Return => {
            (header.round, header.version, header.kind) = (Round(0x2122_2324), Version(102), Kind::Number);
            let answer = Answer { status: Status::Ok, version: Version(102), number: 12 };
            let records = vec![Record { session: Round(9), operation: OpNumber(8), answer }];
            message.value = Returned { records, value: b"12".to_vec() }.to_bytes();
        }
        Control::ReturnAck => header.round = Round(0x2122_2324),
        Control::Table => {
            (header.round, header.operand, header.kind) = (Round(17), 0b1011, Kind::Table);
            let range = |first, last, caching| Range { first, last, caching };
            let some = Caching::Only(Boxes(0b11));
            let ranges =
                vec![range(0, 31, Caching::Cluster), range(40, 40, some), range(48, 63, Caching::Nowhere)];
            message.value = Ranges::new(ranges, 64).expect("they rise").to_bytes();
        }
        _ => {}
    }
    message
}

fn bytes_of(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}

/// Gives bytes the magic, version, hash and sum of a packet, where they are long enough to be one.
fn dress(bytes: &mut [u8]) {
    use fields::at;
    if bytes.len() < HEADER {
        return;
    }
    bytes[at::MAGIC..][..6].copy_from_slice(&MAGIC);
    bytes[at::PROTOCOL] = PROTOCOL;
    let key_len = usize::from(bytes[at::KEY_LEN]);
    let value_len = u32::from_le_bytes(bytes[at::VALUE_LEN..][..4].try_into().expect("four")) as usize;
    if bytes.len() < length(key_len, value_len) {
        return;
    }
    let hash = key_hash(&bytes[HEADER..][..key_len]);
    bytes[at::HASH..][..4].copy_from_slice(&hash.0.to_le_bytes());
    bytes[at::CHECKSUM..][..8].fill(0);
    let sum = extend(0, &bytes[..length(key_len, value_len)]).wrapping_mul(BASE);
    bytes[at::CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
}
