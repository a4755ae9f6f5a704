//! Bad input: it ends the connection that it came from, with a reason, and nothing else.

use super::services::{CHAT, COUNT, ECHO, JOIN, LATER};
use super::wire::Peer;
use super::{NOW, connect, server_with, settle, text};
use crate::frame::{Header, Kind, MAX_BODY};
use crate::server::Options;
use crate::status::Code;

/// What the server says when it ends a connection on which a client does this.
fn reason(do_it: impl FnOnce(&Peer)) -> String {
    let (mut server, seen) = server_with(Options { max_calls: 4, window: 4, ..Options::default() });
    let (peer, _) = connect(&mut server, 100);
    let (bystander, _) = connect(&mut server, 100);
    do_it(&peer);
    settle(&mut server, NOW);
    assert!(peer.is_closed());
    let last = peer.hear().pop().expect("a last frame");
    assert_eq!((last.header.kind, Code::of(last.header.method)), (Kind::Refuse, Code::FailedPrecondition));
    bystander.request(1, ECHO, b"still here");
    settle(&mut server, NOW);
    assert_eq!(text(&bystander.hear()[0]), "still here");
    drop(seen);
    text(&last).trim_start_matches("the client broke the protocol: ").to_owned()
}

#[test]
fn garbage_frames() {
    assert_eq!(reason(|peer| peer.say_bytes(b"x")), "a frame ends too early");
    assert_eq!(reason(|peer| peer.say_bytes(&[0xff; 40])), "a frame of no known kind");
    let beyond = Header { metadata: 1, ..Header::new(Kind::Request, 1) };
    assert_eq!(reason(|peer| peer.say(beyond, b"")), "a frame ends too early");
    for kind in [Kind::Hello, Kind::Welcome, Kind::Refuse, Kind::Reply, Kind::Goodbye] {
        let said = reason(|peer| peer.say(Header::new(kind, 1), b""));
        assert_eq!(said, "a frame that no client sends in a connection");
    }
    assert_eq!(reason(|peer| peer.say_aux(Kind::Last, 0, 1, b"")), "a link was left that is the only one");
}

#[test]
fn oversized_messages() {
    let said = reason(|peer| peer.request(1, ECHO, &vec![0; MAX_BODY + 1]));
    assert_eq!(said, "a frame is longer than allowed");
}

#[test]
fn more_calls_than_the_welcome_allows() {
    let said = reason(|peer| (0..5).for_each(|call| peer.request(call, LATER, b"")));
    assert_eq!(said, "more calls in flight than the Welcome allows");
    let said = reason(|peer| (0..2).for_each(|_| peer.request(7, LATER, b"")));
    assert_eq!(said, "a call's number is used while the call is open");
}

#[test]
fn streams_outside_their_windows() {
    let chat = |frames: &'static [(Kind, u32)]| {
        reason(move |peer| {
            peer.request(1, CHAT, b"");
            frames.iter().for_each(|&(kind, aux)| peer.say_aux(kind, 1, aux, b"x"));
        })
    };
    assert_eq!(chat(&[(Kind::Item, 4)]), "an item outside its window");
    assert_eq!(chat(&[(Kind::Item, 1), (Kind::Item, 1)]), "an item came twice");
    assert_eq!(chat(&[(Kind::Finish, 5)]), "a stream's end that does not fit its items");
    assert_eq!(chat(&[(Kind::Finish, 1), (Kind::Finish, 1)]), "a stream's end that does not fit its items");
    assert_eq!(chat(&[(Kind::Finish, 1), (Kind::Item, 1)]), "an item outside its window");
    assert_eq!(chat(&[(Kind::Credit, u32::MAX)]), "more credit than a stream has numbers");
    let said = reason(|peer| {
        peer.request(1, COUNT, &[0; 9]);
        peer.say_aux(Kind::Item, 1, 1, b"a client that does not stream");
    });
    assert_eq!(said, "an item outside its window");
    assert_eq!(reason(|peer| peer.request(1, JOIN, b"x")), "the Request of a client's stream has a message");
    let said = reason(|peer| {
        peer.request(1, LATER, b"");
        peer.say_aux(Kind::Item, 1, 0, b"");
    });
    assert_eq!(said, "a stream's frame for a call without one");
    let said = reason(|peer| (0..1025).for_each(|call| peer.say_aux(Kind::Item, call, 0, b"")));
    assert_eq!(said, "too many frames of streams that are not open");
}

#[test]
fn a_client_that_is_gone_takes_its_calls_with_it() {
    let (mut server, seen) = server_with(Options::default());
    let (peer, _) = connect(&mut server, 100);
    peer.request(1, LATER, b"");
    peer.request(2, CHAT, b"");
    peer.say(Header { method: CHAT, aux: 500, ..Header::new(Kind::Request, 3) }, b"");
    settle(&mut server, NOW);
    assert_eq!(server.connections(NOW).map(|connection| connection.open_calls).sum::<usize>(), 3);
    drop(peer);
    settle(&mut server, NOW);
    let later = seen.later.lock().expect("no poison").pop().expect("it was deferred");
    assert!(later.is_cancelled());
    later.reply_bytes(b"nobody hears it");
    settle(&mut server, NOW);
    assert_eq!(seen.streams.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!((server.connections(NOW).count(), server.next_deadline()), (0, base::units::Nanos::MAX));
    assert_eq!((server.totals().requests, server.totals().replies), (3, 0));
}
