//! The server's machine, frame by frame: a test is the client, and says what time it is.

mod services;
mod wire;

use super::{Options, Server};
use crate::connection::handshake::{Hello, Welcome};
use crate::frame::{self, Header, Kind};
use crate::status::Code;
use base::units::Nanos;
use services::{Bytes, CHAT, COUNT, ECHO, FAIL, FOREVER, JOIN, LATER, METHODS, PANIC, SILENT, Seen};
use std::sync::atomic::Ordering;
use wire::{Heard, Peer, wire};

const NOW: Nanos = Nanos::from_secs(1);

fn server_with(options: Options) -> (Server, Seen) {
    let seen = Seen::default();
    (Server::new(options).service(Bytes(seen.clone())), seen)
}

fn connect(server: &mut Server, room: usize) -> (Peer, Welcome) {
    let (link, peer) = wire(room);
    server.accept(link, NOW);
    peer.hello(Hello::default());
    settle(server, NOW);
    let welcome = peer.hear_welcome();
    (peer, welcome)
}

fn settle(server: &mut Server, now: Nanos) {
    while server.poll(now) > 0 {}
}

/// A server with a client.
fn pair() -> (Server, Seen, Peer) {
    let (mut server, seen) = server_with(Options::default());
    let (peer, _) = connect(&mut server, usize::MAX);
    (server, seen, peer)
}

fn code(heard: &Heard) -> Code {
    assert_eq!(heard.header.kind, Kind::Reply);
    Code::of(heard.header.method)
}

fn text(heard: &Heard) -> &str {
    std::str::from_utf8(&heard.body).expect("a text")
}

#[test]
fn a_call_is_answered_with_its_number_and_metadata() {
    let (mut server, _, peer) = pair();
    let mut metadata = Vec::new();
    assert!(frame::push_metadata(&mut metadata, "k", b"v"));
    let header = Header { method: ECHO, metadata: metadata.len() as u32, ..Header::new(Kind::Request, 77) };
    peer.say(header, &[&metadata[..], b"hello"].concat());
    peer.request(78, ECHO, b"");
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!((code(&heard[0]), heard[0].header.call, &heard[0].body[..]), (Code::Ok, 77, &b"hello"[..]));
    assert_eq!(heard[0].metadata, metadata);
    assert_eq!((code(&heard[1]), heard[1].header.call, heard[1].metadata.len()), (Code::Ok, 78, 0));
    assert_eq!(heard.len(), 2);
}

#[test]
fn a_server_may_move_to_another_thread() {
    fn is_send(_: &impl Send) {}
    is_send(&pair().0);
}

#[test]
fn unknown_methods_failures_silence_and_panics_end_their_call_alone() {
    let (mut server, _, peer) = pair();
    for (call, method) in [(1, METHODS), (2, FAIL), (3, SILENT), (4, PANIC), (5, ECHO)] {
        peer.request(call, method, b"x");
    }
    settle(&mut server, NOW);
    let heard = peer.hear();
    let codes: Vec<_> = heard.iter().map(|heard| (heard.header.call, code(heard), text(heard))).collect();
    assert_eq!(
        codes,
        [
            (1, Code::Unimplemented, "there is no method 10 here"),
            (2, Code::NotFound, "no such thing"),
            (3, Code::Internal, "the handler gave no reply"),
            (4, Code::Internal, "the handler panicked"),
            (5, Code::Ok, "x"),
        ]
    );
}

#[test]
fn a_deferred_call_is_answered_from_another_thread() {
    let (mut server, seen, peer) = pair();
    for call in 0..3 {
        peer.request(call, LATER, b"x");
    }
    settle(&mut server, NOW);
    assert!(peer.hear().is_empty());
    let mut later = std::mem::take(&mut *seen.later.lock().expect("no poison"));
    let dropped = later.remove(0);
    let answers = std::thread::spawn(move || {
        let mut later = later.into_iter();
        later.next().expect("the second").reply_bytes(b"late");
        let failed = crate::status::Status::new(Code::Aborted, "no");
        later.next().expect("the third").fail(&failed);
        drop(dropped);
    });
    answers.join().expect("the thread is well");
    settle(&mut server, NOW);
    let heard = peer.hear();
    let ends: Vec<_> = heard.iter().map(|heard| (heard.header.call, code(heard), text(heard))).collect();
    let dropped = (0, Code::Internal, "the handler dropped the call");
    assert_eq!(ends, [(1, Code::Ok, "late"), (2, Code::Aborted, "no"), dropped]);
}
