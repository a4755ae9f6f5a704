use super::*;
use protocol::wire::{Status, Verb};
use sim::check::{Rules, check};

const US: u64 = 1_000_000;

fn rack(boxes: BoxesAt) -> Rack {
    let nanos = Picos::from_nanos;
    Rack {
        tors: 2,
        clients: 2,
        boxes,
        cost: Cost { receive: nanos(1000), send: nanos(1500), handle: nanos(300), wake: Picos::ZERO },
        bits: 10e9,
        packet: (1472, 66),
        hop: nanos(2000),
        keys: 50,
        skew: 0.99,
        value: 64,
        writes: 0.0,
        window: 1,
    }
}

/// One client alone: its latencies are those of an empty rack.
fn alone(boxes: BoxesAt, writes: f64) -> (Rack, Seen) {
    let rack = Rack { tors: 1, clients: 1, keys: 1, writes, ..rack(boxes) };
    let seen = rack.run(1, Picos::from_millis(1), Picos::from_millis(5));
    (rack, seen)
}

/// What a request and its reply take over so many links each way, and so many nodes that take it and send it on.
fn round_trip(rack: &Rack, hops: u64, nodes: u64, request: u64, reply: u64) -> u64 {
    let Cost { receive, send, handle, .. } = rack.cost;
    let bits = |bytes: u64| model::platform::transfer(bytes + rack.packet.1, rack.bits).0;
    let links = hops * (2 * rack.hop.0 + bits(request) + bits(reply));
    // The client sends and takes as well.
    links + (nodes + 1) * (receive.0 + send.0 + handle.0)
}

fn packet_bytes(verb: Verb, value: usize) -> (u64, u64) {
    let request = protocol::wire::Message::request(verb, &key_bytes(0));
    let mut reply = request.reply(Status::Ok);
    let mut with_value = request.clone();
    if verb == Verb::Get {
        reply.value = vec![0; value];
    } else {
        with_value.value = vec![0; value];
    }
    let bytes = |message: &protocol::wire::Message| {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        bytes.len() as u64
    };
    (bytes(&with_value), bytes(&reply))
}

fn close(modelled: f64, wanted: u64) {
    // Headers say more or less where a token travels along; a histogram has three digits.
    let error = modelled / wanted as f64 - 1.0;
    assert!(error.abs() < 0.01, "{modelled} ps and not {wanted} ({error:+.3})");
}

#[test]
fn a_get_takes_what_its_links_and_nodes_take() {
    let (request, reply) = packet_bytes(Verb::Get, 64);
    let (none, root, tor) = (
        BoxesAt { tors: None, root: None },
        BoxesAt { tors: None, root: Some(10) },
        BoxesAt { tors: Some(10), root: None },
    );
    // To the home: client's link, uplink, the home's link.
    let (at, seen) = alone(none, 0.0);
    close(seen.users.gets.quantile(0.5) * 1e12, round_trip(&at, 3, 1, request, reply));
    // The box beside the root switch is as far, the one beside the ToR switch a link nearer.
    let (at, seen) = alone(root, 0.0);
    close(seen.users.gets.quantile(0.5) * 1e12, round_trip(&at, 3, 1, request, reply));
    assert_eq!(seen.users.by.boxes(), seen.users.gets.count());
    let (at, seen) = alone(tor, 0.0);
    close(seen.users.gets.quantile(0.5) * 1e12, round_trip(&at, 2, 1, request, reply));
    assert!(seen.home_cores < 1e-9, "the home rests");
}

#[test]
fn a_set_waits_for_the_box_to_drop_its_copy_only_where_one_is() {
    let (request, reply) = packet_bytes(Verb::Set, 64);
    let (at, seen) = alone(BoxesAt { tors: None, root: None }, 1.0);
    close(seen.users.sets.quantile(0.5) * 1e12, round_trip(&at, 3, 1, request, reply));
    let (_, mixed) = alone(BoxesAt { tors: Some(10), root: None }, 0.5);
    // A write after a read waits for another round trip; a write after a write does not.
    let [quick, slow] = [0.1, 0.9].map(|of| mixed.users.sets.quantile(of) * 1e12);
    let round = round_trip(&at, 3, 1, request, reply);
    close(quick, round);
    assert!(slow > (round + 2 * 3 * at.hop.0) as f64, "{slow} after {round}");
}

#[test]
fn what_clients_see_is_linearizable_and_values_are_the_newest() {
    for boxes in [
        BoxesAt { tors: Some(20), root: Some(40) },
        BoxesAt { tors: Some(20), root: None },
        BoxesAt { tors: None, root: Some(40) },
    ] {
        let rack = Rack { writes: 0.2, window: 4, ..rack(boxes) };
        let seen = rack.run(3, Picos::ZERO, Picos::from_millis(6));
        let users = &seen.users;
        assert!(users.by.boxes() > 50 && users.sets.count() > 50, "{boxes:?}: {} by boxes", users.by.boxes());
        assert!(seen.home.waited > 0, "{boxes:?}: no write met a copy");
        let report = check(&users.history, &Rules::default());
        assert!(report.is_linearizable(), "{boxes:?}: {:?}", report.violations.first());
        assert!(users.judged.reads > 50);
        assert_eq!((users.judged.invented, users.judged.stale), (0, 0));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let rack = Rack { writes: 0.1, window: 2, ..rack(BoxesAt { tors: Some(8), root: Some(16) }) };
        let seen = rack.run(seed, Picos::ZERO, Picos::from_millis(2));
        let of = seen.users;
        (of.gets.count(), of.gets.mean().to_bits(), of.sets.mean().to_bits(), of.packets)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn who_sleeps_pays_for_being_woken() {
    let boxes = BoxesAt { tors: None, root: None };
    let awake = alone(boxes, 0.0).1;
    let rack = Rack { tors: 1, clients: 1, keys: 1, ..rack(boxes) };
    let wake = Picos(20 * US);
    let slow = Rack { cost: Cost { wake, ..rack.cost }, ..rack };
    let asleep = slow.run(1, Picos::from_millis(1), Picos::from_millis(5));
    // The home is woken by the request, and the client by its reply.
    let wanted = (awake.users.gets.quantile(0.5) * 1e12) as u64 + 2 * wake.0;
    close(asleep.users.gets.quantile(0.5) * 1e12, wanted);
}
