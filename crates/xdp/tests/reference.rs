//! The reference alone, which needs no root: the reply is the one that the user tier would write, and only plain hits get one.

mod support;

use base::Nanos;
use protocol::wire::{Flags, Kind, Message, Opcode, Packet, RequestId, Status, Ttl, Verb, Version};
use support::{PORT, bytes, frame, get, ipv6, tagged};
use xdp::reference::Reference;
use xdp::{Entries, Item, Live};

fn table() -> Entries {
    let mut entries = Entries::private(16);
    let item = Item {
        key: b"key",
        value: &[7; 100],
        version: Version(5),
        item_flags: 9,
        kind: Kind::Bytes,
        lease_end: Nanos(1000),
        expires: Nanos(800),
    };
    entries.put(&item, Nanos(0)).expect("it fits");
    entries
}

fn request() -> Message {
    let mut request = get(b"key", 104);
    request.header.request = RequestId(77);
    request
}

#[test]
fn a_hit_is_answered_as_the_user_tier_would() {
    let entries = table();
    let reference = Reference { entries: &entries, live: Live::new(PORT), mtu: 1500 };
    let mut reply = request().reply(Status::Ok);
    reply.header.flags = Flags::FROM_BOX;
    (reply.header.version, reply.header.item_flags) = (Version(5), 9);
    reply.header.ttl = Ttl::new(Nanos(300));
    reply.value = vec![7; 100];
    for (sent, link) in [(frame(&bytes(&request())), 14), (tagged(&bytes(&request())), 18)] {
        let answer = reference.answer(&sent, Nanos(500)).expect("a hit");
        assert_eq!(answer[link + 28..], bytes(&reply));
        assert_eq!((&answer[..6], &answer[6..12]), (&sent[6..12], &sent[..6]));
        assert_eq!(Packet::parse(&answer[link + 28..]).expect("a packet").opcode(), Opcode::Reply(Verb::Get));
    }
}

#[test]
fn all_else_is_passed_on() {
    let entries = table();
    let live = Live::new(PORT);
    let with = |live, message: &Message, now| {
        Reference { entries: &entries, live, mtu: 1500 }.answer(&frame(&bytes(message)), now)
    };
    assert!(with(live, &request(), Nanos(799)).is_some());
    assert_eq!(with(live, &request(), Nanos(800)), None);
    assert_eq!(with(live, &get(b"none", 104), Nanos(0)), None);
    let reference = Reference { entries: &entries, live, mtu: 1500 };
    assert!(ipv6(&bytes(&request())).iter().all(|sent| reference.answer(sent, Nanos(0)).is_none()));
    assert_eq!(with(live, &Message::request(Verb::Delete, b"key"), Nanos(0)), None);
    assert_eq!(with(Live { enabled: false, ..live }, &request(), Nanos(0)), None);
    assert_eq!(with(Live { port: 1, ..live }, &request(), Nanos(0)), None);
    assert!(with(live, &get(b"key", 0), Nanos(0)).is_some());
    assert_eq!(with(Live { max_growth: 96, ..live }, &get(b"key", 0), Nanos(0)), None);
}
