//! Closing, idling, draining.

use super::services::{CHAT, ECHO, LATER};
use super::{NOW, code, connect, pair, server_with, settle};
use crate::frame::Kind;
use crate::server::Options;
use crate::status::Code;
use base::units::Nanos;

#[test]
fn closing_a_connection_says_so() {
    let (mut server, _, peer) = pair();
    peer.request(1, LATER, b"");
    settle(&mut server, NOW);
    assert!(!server.close(7, NOW) && server.close(1, NOW) && !server.close(1, NOW));
    let last = peer.hear().pop().expect("a last frame");
    assert_eq!(
        (last.header.kind, Code::of(last.header.method), peer.is_closed()),
        (Kind::Refuse, Code::Unavailable, true)
    );
}

#[test]
fn a_silent_connection_is_closed_if_the_options_say_so() {
    let (mut server, seen) = server_with(Options { idle_limit: Nanos(100), ..Options::default() });
    let (peer, _) = connect(&mut server, 10);
    peer.request(1, LATER, b"");
    settle(&mut server, NOW.plus(Nanos(50)));
    assert_eq!(server.next_deadline(), Nanos::MAX, "a call is open");
    seen.later.lock().expect("no poison").clear();
    settle(&mut server, NOW.plus(Nanos(60)));
    assert_eq!(server.next_deadline(), NOW.plus(Nanos(150)));
    server.poll(NOW.plus(Nanos(150)));
    assert!(peer.is_closed());
}

#[test]
fn a_drain_answers_what_is_open_and_runs_nothing_more() {
    let (mut server, seen) = server_with(Options::default());
    let (peer, _) = connect(&mut server, 10);
    peer.request(1, LATER, b"");
    settle(&mut server, NOW);
    server.drain(NOW);
    let goodbye: Vec<_> = peer.hear().iter().map(|heard| heard.header.kind).collect();
    assert_eq!(goodbye, [Kind::Goodbye, Kind::Ping]);
    // These crossed the Goodbye.
    peer.request(2, ECHO, b"");
    peer.request(3, CHAT, b"");
    peer.say_aux(Kind::Item, 3, 0, b"");
    peer.say_aux(Kind::Pong, 0, 0, b"");
    settle(&mut server, NOW);
    let refused: Vec<_> = peer.hear().iter().map(|heard| (heard.header.call, code(heard))).collect();
    assert_eq!(refused, [(2, Code::Unavailable), (3, Code::Unavailable)]);
    assert!(!server.is_drained());
    seen.later.lock().expect("no poison").pop().expect("deferred").reply_bytes(b"done");
    settle(&mut server, NOW);
    let end: Vec<_> = peer.hear().iter().map(|heard| heard.header.kind).collect();
    assert_eq!((end, server.is_drained()), (vec![Kind::Reply, Kind::Refuse], true));
}

#[test]
fn a_drain_does_not_wait_for_ever() {
    let (mut server, _) = server_with(Options::default());
    let (peer, _) = connect(&mut server, 10);
    server.drain(NOW);
    settle(&mut server, NOW);
    let limit = NOW.plus(Options::default().drain_limit);
    assert_eq!((server.is_drained(), server.next_deadline()), (false, limit));
    server.poll(limit);
    assert!(server.is_drained() && peer.is_closed());
}
