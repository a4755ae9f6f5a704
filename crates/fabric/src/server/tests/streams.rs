//! Streams in both directions.

use super::services::{CHAT, COUNT, FOREVER, JOIN};
use super::wire::{Heard, Peer};
use super::{NOW, code, connect, pair, server_with, settle, text};
use crate::frame::{Header, Kind};
use crate::server::{Options, Server};
use crate::status::Code;
use base::units::Nanos;
use std::sync::atomic::Ordering;

/// Kinds, and the number or count that each frame brings.
fn kinds(heard: &[Heard]) -> Vec<(Kind, u32)> {
    heard.iter().map(|heard| (heard.header.kind, heard.header.aux)).collect()
}

fn narrow(window: u32) -> (Server, super::Seen, Peer) {
    let (mut server, seen) = server_with(Options { window, ..Options::default() });
    let (peer, welcome) = connect(&mut server, usize::MAX);
    assert_eq!(welcome.window, window);
    (server, seen, peer)
}

#[test]
fn a_server_streams_as_far_as_credit_goes() {
    let (mut server, seen, peer) = narrow(3);
    peer.request(1, COUNT, b"xxxxx");
    settle(&mut server, NOW);
    assert_eq!(kinds(&peer.hear()), [(Kind::Item, 0), (Kind::Item, 1), (Kind::Item, 2)]);
    peer.say_aux(Kind::Credit, 1, 1, b"");
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!((kinds(&heard), &heard[0].body[..]), (vec![(Kind::Item, 3)], &[3][..]));
    peer.say_aux(Kind::Credit, 1, 10, b"");
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!(kinds(&heard), [(Kind::Item, 4), (Kind::Reply, 5)]);
    assert_eq!((code(&heard[1]), heard[1].body.len()), (Code::Ok, 0));
    assert_eq!(seen.streams.load(Ordering::Relaxed), 0);
    // Credit that crossed the Reply.
    peer.say_aux(Kind::Credit, 1, 2, b"");
    settle(&mut server, NOW);
    assert!(peer.hear().is_empty() && !peer.is_closed());
}

#[test]
fn a_client_streams_in_any_order_and_is_given_credit() {
    let (mut server, _, peer) = narrow(4);
    // An item and the end overtake the request.
    peer.say_aux(Kind::Item, 1, 1, b"b");
    peer.say_aux(Kind::Item, 1, 0, b"a");
    peer.request(1, JOIN, b"");
    settle(&mut server, NOW);
    assert_eq!(kinds(&peer.hear()), [(Kind::Credit, 2)]);
    peer.say_aux(Kind::Finish, 1, 6, b"");
    for number in [5, 4, 2, 3] {
        peer.say_aux(Kind::Item, 1, number, &[b'a' + number as u8]);
    }
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!((kinds(&heard), text(&heard[0])), (vec![(Kind::Reply, 0)], "abcdef"));
}

#[test]
fn both_stream() {
    let (mut server, _, peer) = pair();
    peer.request(1, CHAT, b"");
    for number in 0..3 {
        peer.say_aux(Kind::Item, 1, number, &[number as u8]);
        settle(&mut server, NOW);
        let heard = peer.hear();
        assert_eq!((kinds(&heard), &heard[0].body[..]), (vec![(Kind::Item, number)], &[number as u8][..]));
    }
    peer.say_aux(Kind::Finish, 1, 3, b"");
    settle(&mut server, NOW);
    assert_eq!(kinds(&peer.hear()), [(Kind::Reply, 3)]);
}

#[test]
fn a_cancelled_stream_is_dropped_and_answered() {
    let (mut server, seen, peer) = pair();
    peer.request(1, FOREVER, b"");
    peer.say(Header { method: FOREVER, aux: 1000, ..Header::new(Kind::Request, 2) }, b"");
    settle(&mut server, NOW);
    assert_eq!(seen.streams.load(Ordering::Relaxed), 2);
    peer.say(Header::new(Kind::Cancel, 1), b"");
    // Sent before the client knows.
    peer.say_aux(Kind::Item, 1, 0, b"late");
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!((code(&heard[0]), heard.len(), seen.streams.load(Ordering::Relaxed)), (Code::Cancelled, 1, 1));
    settle(&mut server, NOW.plus(Nanos::from_millis(1)));
    let heard = peer.hear();
    assert_eq!((code(&heard[0]), heard[0].header.call), (Code::DeadlineExceeded, 2));
    assert_eq!((seen.streams.load(Ordering::Relaxed), server.next_deadline()), (0, Nanos::MAX));
}

#[test]
fn a_handler_that_panics_while_streaming_ends_its_call_alone() {
    let (mut server, _, peer) = pair();
    peer.request(1, CHAT, b"");
    peer.request(2, COUNT, b"x");
    settle(&mut server, NOW);
    assert_eq!(kinds(&peer.hear()), [(Kind::Item, 0), (Kind::Reply, 1)]);
    let spawner = server.spawner();
    spawner.spawn(async { panic!("a future's mistake") }).expect("room");
    settle(&mut server, NOW);
    peer.say_aux(Kind::Finish, 1, 0, b"");
    settle(&mut server, NOW);
    assert_eq!(kinds(&peer.hear()), [(Kind::Reply, 0)]);
}

#[test]
fn futures_are_spawned_up_to_a_bound() {
    let (server, _) = server_with(Options { max_tasks: 2, ..Options::default() });
    let spawner = server.spawner();
    let mut server = server;
    spawner.spawn(async {}).expect("room");
    spawner.spawn(std::future::pending()).expect("room");
    assert!(spawner.spawn(async {}).is_err());
    settle(&mut server, NOW);
    spawner.spawn(async {}).expect("the first has ended");
}
