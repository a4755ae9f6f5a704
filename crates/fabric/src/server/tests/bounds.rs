//! Back-pressure: what finds no room waits, and nothing more is taken.

use super::services::{CHAT, COUNT, ECHO, FOREVER, LATER};
use super::{NOW, connect, pair, server_with, settle, text};
use crate::frame::Kind;
use crate::server::{End, Options};
use base::units::Nanos;
use std::sync::atomic::Ordering;

#[test]
fn one_reply_waits_and_nothing_more_is_taken_from_its_connection() {
    let (mut server, seen) = server_with(Options { quantum: 8, ..Options::default() });
    let (slow, _) = connect(&mut server, 3);
    let (quick, _) = connect(&mut server, 100);
    for call in 0..20 {
        slow.request(call, ECHO, &[b'a' + call as u8]);
        quick.request(call, ECHO, b"");
    }
    settle(&mut server, NOW);
    // Three in the link, one waits; of its batch of eight the rest stays, and the link keeps the others.
    assert_eq!((seen.runs.load(Ordering::Relaxed), slow.unheard_by_server()), (4 + 20, 12));
    assert_eq!(quick.hear().len(), 20, "others go on");
    let blocked: Vec<_> = server.connections(NOW).map(|connection| connection.is_blocked).collect();
    assert_eq!(blocked, [true, false]);
    let mut all = Vec::new();
    while all.len() < 20 {
        all.extend(slow.hear());
        settle(&mut server, NOW);
    }
    let order: String = all.iter().map(text).collect();
    assert_eq!(order, "abcdefghijklmnopqrst");
    assert!(server.connections(NOW).all(|connection| !connection.is_blocked));
}

#[test]
fn a_slow_consumer_is_closed_after_a_while() {
    let (mut server, _) = server_with(Options::default());
    let (peer, _) = connect(&mut server, 1);
    for call in 0..3 {
        peer.request(call, ECHO, b"");
    }
    settle(&mut server, NOW);
    let limit = Options::default().stuck_limit;
    assert_eq!(server.next_deadline(), NOW.plus(limit));
    // Progress counts.
    let later = NOW.plus(Nanos(limit.0 - 1));
    peer.hear();
    settle(&mut server, later);
    assert_eq!((server.next_deadline(), peer.is_closed()), (later.plus(limit), false));
    server.poll(later.plus(limit));
    assert!(peer.is_closed());
    assert!(End::Stuck.to_string().contains("took no replies"));
}

#[test]
fn a_stream_waits_for_room_and_calls_pass_it() {
    let (mut server, _, peer) = pair();
    peer.set_room(2);
    peer.request(1, COUNT, &[0; 10]);
    settle(&mut server, NOW);
    assert_eq!(peer.hear().len(), 2);
    peer.request(2, ECHO, b"");
    let mut items = 0;
    let mut replies = Vec::new();
    while replies.len() < 2 {
        assert!(server.poll(NOW) < 100);
        for heard in peer.hear() {
            match heard.header.kind {
                Kind::Item => items += 1,
                _ => replies.push(heard.header.call),
            }
        }
    }
    assert_eq!((items, replies), (8, vec![2, 1]));
}

#[test]
fn items_that_no_handler_takes_stop_their_connection_alone() {
    let (mut server, _) = server_with(Options { held_bytes: 100, ..Options::default() });
    let (peer, _) = connect(&mut server, 100);
    let (other, _) = connect(&mut server, 100);
    peer.request(1, FOREVER, b"");
    peer.say_aux(Kind::Item, 1, 0, &[0; 101]);
    settle(&mut server, NOW);
    peer.request(2, ECHO, b"");
    other.request(1, ECHO, b"");
    settle(&mut server, NOW);
    assert_eq!((peer.hear().len(), other.hear().len()), (0, 1));
    // Taken items make room.
    let (mut server, _) = server_with(Options { held_bytes: 100, ..Options::default() });
    let (peer, _) = connect(&mut server, 1000);
    peer.request(1, CHAT, b"");
    for number in 0..50 {
        peer.say_aux(Kind::Item, 1, number, &[0; 60]);
    }
    settle(&mut server, NOW);
    let items = peer.hear().iter().filter(|heard| heard.header.kind == Kind::Item).count();
    assert_eq!(items, 50);
}

#[test]
fn deferred_answers_wait_with_their_calls() {
    let (mut server, seen, peer) = pair();
    for call in 0..50 {
        peer.request(call, LATER, b"");
    }
    settle(&mut server, NOW);
    peer.set_room(10);
    for later in seen.later.lock().expect("no poison").drain(..) {
        later.reply_bytes(b"x");
    }
    settle(&mut server, NOW);
    let mut heard = Vec::new();
    while heard.len() < 50 {
        heard.extend(peer.hear().into_iter().map(|heard| heard.header.call));
        server.poll(NOW);
    }
    assert_eq!(heard, (0..50).collect::<Vec<_>>());
}
