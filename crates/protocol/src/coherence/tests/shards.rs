//! Scenario: a box of two cores, whose shards hear of a flush at different times, and of what is for the other.

use super::super::boxes::shards::{Divided, Shard};
use super::super::table::Layout;
use super::super::{CacheBox, Life, NodeId, Out, Planted};
use super::gaps::{HOME, config, is, rack};
use super::world::World;
use crate::wire::{
    BoxId, ClientId, Control, Flags, HomeId, Incarnation, Message, Opcode, Round, Status, Verb, Version,
};
use base::Nanos;
use std::sync::Arc;

const CLIENT: NodeId = NodeId::Client(ClientId(1));

/// A key of shard `index` of two.
fn key_of(index: u8) -> Vec<u8> {
    let names = (b'a'..=b'z').map(|name| vec![name]);
    let mut its = names.filter(|key| Shard::of_hash(crate::wire::key_hash(key), 2) == index);
    its.next().expect("some of 26 keys are its")
}

fn invalidate(key: &[u8], round: u64) -> Message {
    let mut message = Message::new(Opcode::Control(Control::Invalidate), key);
    (message.header.home, message.header.round, message.header.version) =
        (HomeId(1), Round(round), Version(u64::MAX));
    message
}

/// Reads a key at its shard, and has the home's answer kept.
fn fill(cache: &mut Divided<Option<Planted>>, key: &[u8]) {
    let (at, now, mut out) = (Shard::of_hash(crate::wire::key_hash(key), 2), Nanos(2), Out::new());
    let mut read = Message::request(Verb::Get, key);
    (read.header.client, read.header.home) = (ClientId(1), HomeId(1));
    cache.handle(at, now, (CLIENT, &read), &mut out);
    let (_, asked) = out.pop().expect("it asks the home");
    let mut reply = asked.reply(Status::Ok);
    (reply.value, reply.header.version, reply.header.deadline_us) = (b"old".to_vec(), Version(1), 500_000);
    cache.handle(at, now, (HOME, &reply), &mut out);
}

/// Whether a read is answered from a copy.
fn hits(cache: &mut Divided<Option<Planted>>, key: &[u8]) -> bool {
    let (at, mut out) = (Shard::of_hash(crate::wire::key_hash(key), 2), Out::new());
    let mut read = Message::request(Verb::Get, key);
    (read.header.client, read.header.home) = (ClientId(1), HomeId(1));
    cache.handle(at, Nanos(3), (CLIENT, &read), &mut out);
    out.iter().any(|(_, said)| said.header.flags.contains(Flags::FROM_BOX))
}

/// Whether it has answered an INVALIDATE, whatever its shards tell each other later.
fn answers(cache: &mut Divided<Option<Planted>>, at: u8, asked: &Message) -> bool {
    let mut out = Out::new();
    cache.handle(at, Nanos(3), (HOME, asked), &mut out);
    out.iter().any(|(_, said)| is(said, Control::InvalidateAck))
}

/// What a box of two has answered that it dropped, none of its shards answers from.
pub(super) fn divided(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout"));
    let life = (Incarnation(1), Life::First);
    let whole = CacheBox::with_bugs(&config(), BoxId(1), layout, life, Nanos(1), planted);
    let mut cache = Divided::new(&whole, 2, false);
    let keys = [key_of(0), key_of(1)];
    keys.iter().for_each(|key| fill(&mut cache, key));
    expect!(w, "kept", keys.clone().map(|key| hits(&mut cache, &key)), [true; 2]);

    // A late INVALIDATE of the second's key meets the first.
    let answered = answers(&mut cache, 0, &invalidate(&keys[1], 7));
    expect!(w, "stale after a stray", answered && hits(&mut cache, &keys[1]), false);

    let answered = answers(&mut cache, 0, &invalidate(&[], 8));
    expect!(w, "stale after a flush", answered && hits(&mut cache, &keys[1]), false);
    let mut out = Out::new();
    for (by, at, aside) in cache.take_asides() {
        cache.hear((by, at), aside, Nanos(3), &mut out);
    }
    for (by, at, aside) in cache.take_asides() {
        cache.hear((by, at), aside, Nanos(3), &mut out);
    }
    expect!(w, "flushed", keys.clone().map(|key| hits(&mut cache, &key)), [false; 2]);
    expect!(w, "answered", out.iter().filter(|(_, said)| is(said, Control::InvalidateAck)).count(), 1);
    w
}

scenarios! { divided }
