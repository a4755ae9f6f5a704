//! Scenario: a home goes on at another address, by order, while controllers change: who looks for it where, and from when it serves.

use super::super::client::Call;
use super::super::home::items::Tree;
use super::super::moved::{Moved, Place};
use super::super::table::Layout;
use super::super::{Book, CacheBox, Client, Controller, Home, Life, NodeId, Out, Planted};
use super::gaps::{HOME, config, is, rack, tor};
use super::world::World;
use crate::wire::{BoxId, ClientId, Control, Epoch, HomeId, Incarnation, Kind, Message, Opcode, Verb};
use base::{Nanos, Prng};
use std::net::SocketAddr;
use std::sync::Arc;

const CLIENT: NodeId = NodeId::Client(ClientId(1));

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// Where the home was, where it was ordered by the first controller, and where by an older order.
const PORTS: [u16; 3] = [4, 7, 8];

/// A controller, as soon as it makes the tables, and what it says then.
fn active(index: u8, layout: &Arc<Layout>) -> (Controller, Nanos) {
    let mut one = Controller::new(&config(), index, 2, layout.clone(), Nanos(0));
    let now = one.next_deadline();
    one.tick(now, &mut Out::new());
    assert!(one.is_active());
    (one, now)
}

/// What a controller answers to a sign of life of a table before its own.
fn table_of(one: &mut Controller, now: Nanos) -> Message {
    let mut sign = Message::new(Opcode::Control(Control::HeartbeatAck), &[]);
    sign.header.epoch = Epoch(0);
    let mut out = Out::new();
    one.handle(now, tor(1), &sign, &mut out);
    let table = out.into_iter().rfind(|(to, said)| *to == tor(1) && is(said, Control::Table));
    table.expect("it is sent the table").1
}

/// Box 1 and its driver's book hear of a home that was ordered elsewhere in one step; an older order, in a newer table of a controller that took over and
/// does not know better, changes nothing, and the box tells that controller. The new life, which was started before the old one ended, is silent until it
/// hears of the order, and for a lease from then.
pub(super) fn in_order(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout"));
    let first = (Incarnation(1), Life::First);
    let mut cache = CacheBox::with_bugs(&config(), BoxId(1), layout.clone(), first, Nanos(1), planted);
    let mut book =
        Book::with_bugs([(tor(1), at(1)), (HOME, at(PORTS[0]))], planted).expect("their own addresses");
    let again = (Incarnation(2), Life::Again);
    let home = Home::with_bugs(&config(), HomeId(1), layout.clone(), again, Nanos(1), Tree::new(8), planted);
    let mut home = home.elsewhere(at(PORTS[1]));
    let answers = |home: &mut Home<Tree, Option<Planted>>, now: Nanos| {
        let mut read = Message::request(Verb::Get, b"k");
        (read.header.client, read.header.home) = (ClientId(1), HomeId(1));
        let mut out = Out::new();
        home.handle(now, CLIENT, &read, &mut out);
        !out.is_empty()
    };
    // Longer than any lease.
    let later = Nanos::from_secs(3);
    expect!(w, "before the order", answers(&mut home, later), false);

    let (mut one, now) = active(0, &layout);
    let mut out = Out::new();
    one.move_home(now, HomeId(1), at(PORTS[1]));
    let table = table_of(&mut one, now);
    expect!(w, "kind", table.header.kind, Kind::Homes);
    cache.handle(now, NodeId::Controller(0), &table, &mut out);
    book.learn(cache.table().moved());
    let whose = |book: &Book<Option<Planted>>| PORTS.map(|port| book.node_at(at(port)));
    let there = [None, Some(HOME), None];
    expect!(w, "in one step", (whose(&book), book.address_of(HOME)), (there, Some(at(PORTS[1]))));

    home.handle(later, NodeId::Controller(0), &table, &mut out);
    let served = later.plus(config().lease);
    expect!(w, "a lease", answers(&mut home, Nanos(served.0 - 1)), false);
    expect!(w, "after it", answers(&mut home, served), true);

    // Another takes over, whose file has the home where it was ordered long ago.
    let old = Place::new(at(PORTS[2]), Epoch(3)).expect("somebody's");
    let other = (*layout).clone().with_moved(Moved::from_iter([(HomeId(1), old)]));
    let (mut two, now) = active(1, &Arc::new(other));
    let table = table_of(&mut two, now);
    expect!(w, "a newer table", table.header.epoch > cache.table().epoch(), true);
    out.clear();
    cache.handle(now, NodeId::Controller(1), &table, &mut out);
    book.learn(cache.table().moved());
    expect!(w, "of an older place", (cache.table().epoch(), whose(&book)), (table.header.epoch, there));
    let before = two.epoch();
    let mut beat = Message::new(Opcode::Control(Control::Heartbeat), &[]);
    beat.header.epoch = before;
    out.clear();
    cache.handle(now, NodeId::Controller(1), &beat, &mut out);
    let (_, sign) = out.pop().expect("a sign of life");
    two.handle(now, tor(1), &sign, &mut out);
    let known = two.moved().of(HomeId(1)).map(|place| place.address);
    expect!(w, "it is told", (known, two.epoch() > before), (Some(at(PORTS[1])), true));
    w
}

/// An order to a controller that stands by is one to a rack that has no other, and else that of the one that makes the tables.
#[test]
fn who_stands_by_keeps_an_order_until_it_hears_of_one_that_was_told() {
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout"));
    let new = || Controller::new(&config(), 1, 2, layout.clone(), Nanos(0));
    let mut alone = new();
    assert!(alone.move_home(Nanos(1), HomeId(1), at(7)));
    assert!(alone.moved().is_empty(), "no table says so");
    let now = alone.next_deadline();
    alone.tick(now, &mut Out::new());
    let place = alone.moved().of(HomeId(1)).expect("it makes the tables");
    assert_eq!((place.address, place.epoch), (at(7), alone.epoch()));
    assert!(!alone.move_home(now, HomeId(1), at(7)), "it is there");
    assert!(!alone.move_home(now, HomeId(2), at(9)), "there is none");

    let mut behind = new();
    behind.move_home(Nanos(1), HomeId(1), at(7));
    let mut beat = Message::new(Opcode::Control(Control::Heartbeat), &[]);
    beat.header.epoch = Epoch(16 << 16);
    behind.handle(Nanos(2), NodeId::Controller(0), &beat, &mut Out::new());
    let now = behind.next_deadline();
    behind.tick(now, &mut Out::new());
    assert!(behind.is_active() && behind.moved().is_empty(), "it was not the one to obey");
}

/// All controllers end at once and begin with what the file says, or said: epochs go on above it.
#[test]
fn a_controller_that_begins_anew_numbers_above_its_file() {
    let layout = Layout::two_levels(1, 0, 1, 8).expect("a layout");
    let place = Place::new(at(7), Epoch(0x0500_0003)).expect("somebody's");
    let layout = Arc::new(layout.with_moved(Moved::from_iter([(HomeId(1), place)])));
    let (mut one, now) = active(0, &layout);
    assert!(one.epoch() > place.epoch);
    assert!(one.move_home(now, HomeId(1), at(9)));
    assert_eq!(one.moved().of(HomeId(1)).map(|place| place.address), Some(at(9)));
}

/// A life that is started with a file that knows of a later order is not named by an earlier one.
#[test]
fn an_order_before_that_of_the_file_names_nobody() {
    let layout = Layout::two_levels(1, 0, 1, 8).expect("a layout");
    let of = |port, epoch| {
        Moved::from_iter([(HomeId(1), Place::new(at(port), Epoch(epoch)).expect("somebody's"))])
    };
    let layout = Arc::new(layout.with_moved(of(8, 9)));
    let life = (Incarnation(2), Life::Again);
    let home = Home::new(&config(), HomeId(1), layout, life, Nanos(1), Tree::new(8));
    let mut home = home.elsewhere(at(7));
    for (epoch, is_unnamed) in [(5, true), (9, true), (10, false)] {
        let mut table = Message::new(Opcode::Control(Control::Table), &[]);
        table.header.epoch = Epoch(epoch);
        of(7, epoch).tell(&mut table);
        home.handle(Nanos(2), NodeId::Controller(0), &table, &mut Out::new());
        assert_eq!(home.is_unnamed(), is_unnamed, "{epoch}");
    }
}

/// A client whose file is old hears nothing from the home where it was, asks its box, and sends there what waits: a read, and what a write wants first.
#[test]
fn a_client_asks_a_box_where_a_silent_home_is() {
    let layout = Arc::new(Layout::two_levels(2, 0, 1, 8).expect("a layout"));
    let id = ClientId(1);
    let mut client = Client::new(&config(), id, BoxId(2), layout.clone(), Prng::new(1));
    let life = (Incarnation(1), Life::First);
    let mut cache = CacheBox::new(&config(), BoxId(1), layout.clone(), life, Nanos(1));
    let (mut one, now) = active(0, &layout);
    one.move_home(now, HomeId(1), at(7));
    cache.handle(now, NodeId::Controller(0), &table_of(&mut one, now), &mut Out::new());

    let mut out = Out::new();
    let read = Call { no_cache: true, ..Call::new(Verb::Get, b"k") };
    client.start(Nanos(0), read, &mut out).expect("room");
    client.start(Nanos(0), Call::new(Verb::Set, b"k"), &mut out).expect("room");
    assert!(out.drain(..).all(|(to, _)| to == HOME));
    let mut asked = Vec::new();
    let mut now = Nanos(0);
    // Its own box is silent, too.
    while asked.len() < 2 {
        now = client.next_deadline();
        client.tick(now, &mut out);
        asked.extend(out.drain(..).filter(|(_, said)| said.header.opcode == Opcode::Request(Verb::Noop)));
    }
    assert_eq!([asked[0].0, asked[1].0], [tor(2), tor(1)]);
    let (_, question) = asked.pop().expect("two");
    cache.handle(now, CLIENT, &question, &mut out);
    let (to, answer) = out.pop().expect("an answer");
    assert_eq!((to, answer.header.kind), (CLIENT, Kind::Homes));
    // Not by anybody else, and not to what was not asked.
    client.handle(now, HOME, &answer, &mut out);
    let mut other = answer.clone();
    other.header.operation = asked[0].1.header.operation;
    client.handle(now, tor(1), &other, &mut out);
    assert!(client.moved().is_empty() && out.is_empty());
    client.handle(now, tor(1), &answer, &mut out);
    assert_eq!(client.moved().of(HomeId(1)).map(|place| place.address), Some(at(7)));
    let verbs: Vec<_> = out.iter().map(|(to, said)| (*to, said.header.opcode)).collect();
    assert_eq!(verbs, [(HOME, Opcode::Request(Verb::Session)), (HOME, Opcode::Request(Verb::Get))]);
    out.clear();
    client.handle(now, tor(1), &answer, &mut out);
    assert!(out.is_empty(), "it is no news");
}

scenarios! { in_order }
