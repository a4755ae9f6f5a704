//! Calls without streams.

use super::services::{ECHO, FAIL, LATER, METHODS, PANIC, SILENT};
use super::{NOW, code, pair, settle, text};
use crate::frame::{self, Header, Kind};
use crate::status::{Code, Status};
use base::units::Nanos;
use std::sync::atomic::Ordering;

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
        let mut second = later.next().expect("the second");
        assert!(second.push_metadata("took", b"long") && !second.push_metadata("", b""));
        second.reply_bytes(b"late");
        let failed = Status::new(Code::Aborted, "no");
        later.next().expect("the third").fail(&failed);
        drop(dropped);
    });
    answers.join().expect("the thread is well");
    settle(&mut server, NOW);
    let heard = peer.hear();
    let ends: Vec<_> = heard.iter().map(|heard| (heard.header.call, code(heard), text(heard))).collect();
    let dropped = (0, Code::Internal, "the handler dropped the call");
    assert_eq!(ends, [(1, Code::Ok, "late"), (2, Code::Aborted, "no"), dropped]);
    assert!(frame::metadata(&heard[0].metadata).eq([("took", &b"long"[..])]));
}

#[test]
fn a_request_whose_time_is_over_is_not_run() {
    let (mut server, seen, peer) = pair();
    let header = Header { method: ECHO, aux: 50, ..Header::new(Kind::Request, 1) };
    // No room for the first reply, so the second request waits for its turn.
    peer.set_room(0);
    peer.say(header, b"in time");
    peer.say(Header { call: 2, ..header }, b"late");
    server.poll(NOW);
    assert_eq!(seen.runs.load(Ordering::Relaxed), 1);
    peer.set_room(10);
    settle(&mut server, NOW.plus(Nanos::from_micros(50)));
    let heard = peer.hear();
    assert_eq!((text(&heard[0]), code(&heard[1])), ("in time", Code::DeadlineExceeded));
    assert_eq!((heard.len(), seen.runs.load(Ordering::Relaxed)), (2, 1));
}

#[test]
fn a_deferred_call_learns_that_nobody_waits_and_is_answered_once() {
    let (mut server, seen, peer) = pair();
    let with_deadline = Header { method: LATER, aux: 1000, ..Header::new(Kind::Request, 1) };
    peer.say(with_deadline, b"");
    peer.request(2, LATER, b"");
    peer.request(3, LATER, b"");
    // In the same batch as its request, before the server knows the responder.
    peer.say(Header::new(Kind::Cancel, 2), b"");
    settle(&mut server, NOW);
    assert_eq!(server.next_deadline(), NOW.plus(Nanos::from_micros(1000)));
    let cancelled = |server: &mut super::Server, now| {
        settle(server, now);
        seen.later.lock().expect("no poison").iter().map(|later| later.is_cancelled()).collect::<Vec<_>>()
    };
    assert_eq!(cancelled(&mut server, NOW), [false, true, false]);
    peer.say(Header::new(Kind::Cancel, 3), b"");
    assert_eq!(cancelled(&mut server, NOW), [false, true, true]);
    assert_eq!(cancelled(&mut server, NOW.plus(Nanos::from_millis(2))), [true, true, true]);
    assert!(peer.hear().is_empty(), "the answer is the handler's to give");
    for later in seen.later.lock().expect("no poison").drain(..) {
        later.reply_bytes(b"at last");
    }
    settle(&mut server, NOW);
    let numbers: Vec<_> = peer.hear().iter().map(|heard| heard.header.call).collect();
    assert_eq!(numbers, [1, 2, 3]);
    // A number may be used again once it is answered.
    peer.request(1, ECHO, b"again");
    settle(&mut server, NOW);
    assert_eq!(text(&peer.hear()[0]), "again");
}

#[test]
fn reflection_is_method_0() {
    let (mut server, _, peer) = pair();
    peer.request(9, 0, b"");
    settle(&mut server, NOW);
    assert_eq!(peer.hear()[0].body, b"\x0a\x03\x0a\x01a");
}

#[test]
fn pings_are_answered_and_cancels_of_unknown_calls_ignored() {
    let (mut server, _, peer) = pair();
    peer.say(Header::new(Kind::Cancel, 5), b"");
    peer.say_aux(Kind::Ping, 0, 99, b"");
    peer.say_aux(Kind::Pong, 0, 1, b"");
    settle(&mut server, NOW);
    let heard = peer.hear();
    assert_eq!((heard.len(), heard[0].header.kind, heard[0].header.aux), (1, Kind::Pong, 99));
}
