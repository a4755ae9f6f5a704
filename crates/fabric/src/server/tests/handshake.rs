//! Hello, and what is refused.

use super::services::{ECHO, LATER};
use super::wire::{Heard, wire};
use super::{NOW, code, connect, pair, server_with, settle};
use crate::connection::handshake::{Hello, VERSION};
use crate::frame::{END, Header, Kind};
use crate::link::Address;
use crate::server::{Options, Server};
use crate::status::Code;
use base::units::Nanos;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use tempfile::TempDir;

/// What the server says to this, and whether it closes the link.
fn answer(hello: &[u8]) -> (Vec<Heard>, bool) {
    let (mut server, _) = server_with(Options::default());
    let (link, peer) = wire(10);
    server.accept(link, NOW);
    peer.say(Header::new(Kind::Hello, 0), hello);
    settle(&mut server, NOW);
    (peer.hear(), peer.is_closed())
}

fn refusal(hello: &Hello) -> (Code, String) {
    let (heard, closed) = answer(&hello.emit());
    assert!(closed && heard.len() == 1 && heard[0].header.kind == Kind::Refuse, "{heard:?}");
    (Code::of(heard[0].header.method), String::from_utf8(heard[0].body.clone()).expect("a text"))
}

#[test]
fn version_skew_is_refused_with_both_versions() {
    let (code, text) = refusal(&Hello { version: VERSION + 1, ..Hello::default() });
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(text, "the client speaks version 2, this server 1: update the older one");
}

#[test]
fn another_schema_is_refused_if_the_client_says_exact() {
    let with = |exact, name: &str, hash| Hello {
        version: VERSION,
        exact,
        services: vec![(name.to_owned(), hash)],
        ..Hello::default()
    };
    assert_eq!(refusal(&with(true, "test.Bytes", 1)).1, "the server's schema of test.Bytes is another one");
    assert_eq!(refusal(&with(true, "test.None", 0)).1, "test.None is not served here");
    for fine in [with(false, "test.Bytes", 1), with(true, "test.Bytes", 0x1234), with(true, "test.Bytes", 0)]
    {
        let (heard, closed) = answer(&fine.emit());
        assert_eq!((heard[0].header.kind, closed), (Kind::Welcome, false));
    }
}

#[test]
fn garbage_instead_of_a_hello_is_refused() {
    assert_eq!(answer(b"").0[0].header.kind, Kind::Refuse);
    assert_eq!(answer(b"\x01\x00garbage").0[0].header.kind, Kind::Refuse);
    let (mut server, _) = server_with(Options::default());
    for garbage in [&b"x"[..], &[0xff; 100], &Header::new(Kind::Request, 1).emit()] {
        let (link, peer) = wire(10);
        server.accept(link, NOW);
        peer.say_bytes(garbage);
        settle(&mut server, NOW);
        assert!(peer.is_closed() && peer.hear()[0].header.kind == Kind::Refuse);
    }
    assert_eq!((server.refused(), server.connections(NOW).count()), (3, 0));
}

#[test]
fn a_client_that_says_nothing_is_closed_in_time() {
    let (mut server, _) = server_with(Options::default());
    let (link, peer) = wire(10);
    server.accept(link, NOW);
    settle(&mut server, NOW);
    let limit = NOW.plus(Options::default().handshake_limit);
    assert_eq!((server.next_deadline(), peer.is_closed()), (limit, false));
    server.poll(limit);
    assert!(peer.is_closed());
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let (mut server, _) = server_with(Options { max_connections: 1, ..Options::default() });
    let (first, _) = connect(&mut server, 10);
    let (link, peer) = wire(10);
    server.accept(link, NOW);
    assert_eq!((Code::of(peer.hear()[0].header.method), peer.is_closed()), (Code::ResourceExhausted, true));
    drop(first);
    settle(&mut server, NOW);
    connect(&mut server, 10);
}

/// A thousand connections that did nothing kept everybody else out for ever.
#[test]
fn who_does_nothing_makes_room_and_who_has_a_call_does_not() {
    let (mut server, _) = server_with(Options { max_connections: 3, ..Options::default() });
    let (busy, _) = connect(&mut server, 10);
    busy.request(1, LATER, b"");
    let (silent, _) = connect(&mut server, 10);
    settle(&mut server, NOW);
    let later = NOW.plus(Nanos::from_secs(3));
    let (link, mute) = wire(10);
    server.accept(link, later);
    settle(&mut server, later);
    // Of two that did nothing the one that has not even said Hello goes when it is its time, and the other before that.
    let full = NOW.plus(Nanos::from_secs(6));
    let (link, newcomer) = wire(10);
    server.accept(link, full);
    newcomer.hello(Hello::default());
    settle(&mut server, full);
    newcomer.hear_welcome();
    assert!(silent.is_closed() && !busy.is_closed() && !mute.is_closed());
    let (link, refused) = wire(10);
    server.accept(link, full);
    assert!(refused.is_closed(), "nobody was silent for long");
    assert!(!newcomer.is_closed() && !busy.is_closed());
}

#[test]
fn what_a_client_asks_for_is_granted_up_to_the_limit() {
    let (mut server, _) = server_with(Options { max_calls: 8, ..Options::default() });
    for (asked, given) in [(0, 8), (3, 3), (100, 8)] {
        let (link, peer) = wire(10);
        server.accept(link, NOW);
        peer.hello(Hello { calls: asked, ..Hello::default() });
        settle(&mut server, NOW);
        let welcome = peer.hear_welcome();
        assert_eq!((welcome.calls, welcome.services.len()), (given, 2));
        assert_eq!(welcome.services[0].name, "millrace.Reflection");
        assert_eq!(
            (&welcome.services[1].methods[0].name[..], welcome.services[1].methods[0].number),
            ("Echo", ECHO)
        );
    }
}

#[test]
fn a_second_link_takes_over_and_the_first_is_read_to_its_end() {
    let (mut server, _, peer) = pair();
    peer.request(1, ECHO, b"before");
    settle(&mut server, NOW);
    let token = {
        let (link, other) = wire(10);
        server.accept(link, NOW);
        other.hello(Hello::default());
        settle(&mut server, NOW);
        other.hear_welcome().token
    };
    // That connection is gone with its peer, and so is its token.
    settle(&mut server, NOW);
    let (link, wrong) = wire(10);
    server.accept(link, NOW);
    wrong.hello(Hello { join: Some(token), ..Hello::default() });
    settle(&mut server, NOW);
    assert_eq!(Code::of(wrong.hear()[0].header.method), Code::NotFound);
    // Now the right one.
    let (mut server, _) = server_with(Options::default());
    let (old, welcome) = connect(&mut server, 10);
    let (link, new) = wire(10);
    server.accept(link, NOW);
    new.hello(Hello { join: Some(welcome.token), ..Hello::default() });
    settle(&mut server, NOW);
    assert_eq!(new.hear_welcome().connection, welcome.connection);
    // Sent over the old one: its Hello and this make two frames; its answer comes over the new one.
    old.request(1, ECHO, b"old way");
    new.request(2, ECHO, b"new way");
    old.say_aux(Kind::Last, 0, 2, b"");
    settle(&mut server, NOW);
    let heard = old.hear();
    assert_eq!((heard.len(), heard[0].header.kind, heard[0].header.aux), (1, Kind::Last, 1));
    let heard = new.hear();
    let (conclusions, answers): (Vec<_>, Vec<_>) =
        heard.iter().partition(|heard| heard.header.kind == Kind::Last);
    let answers: Vec<_> = answers.into_iter().map(|heard| (code(heard), heard.header.call)).collect();
    assert_eq!(answers, [(Code::Ok, 1), (Code::Ok, 2)]);
    // The conclusions: each side has read the old link to its end.
    assert_eq!((conclusions.len(), conclusions[0].header.flags, conclusions[0].header.aux), (1, END, 2));
    new.say(Header { flags: END, aux: 1, ..Header::new(Kind::Last, 0) }, b"");
    settle(&mut server, NOW);
    assert!(old.is_closed() && !new.is_closed());
    assert_eq!(
        server.connections(NOW.plus(Nanos(5))).map(|found| (found.number, found.is_switching)).next(),
        Some((1, false))
    );
}

/// Before they had said who they are, 16 connections could make a server buffer 128 MiB.
#[test]
fn a_frame_longer_than_a_hello_may_be_ends_a_link_before_it_is_read() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = folder.path().join("s");
    let (server, _) = server_with(Options::default());
    let mut server = server.listen(&Address::Unix(path.clone())).expect("it listens");
    let say = |length: u32| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(&length.to_le_bytes()).expect("there is room");
        stream.set_nonblocking(true).expect("a socket");
        stream
    };
    let (mut good, _bad) = (say(4096), say(4097));
    // A server that reads on never refuses.
    poll_until(&mut server, |server| server.refused() > 0);
    assert_eq!(server.refused(), 1);
    assert!(good.read(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
}

/// Polls the server until this is so.
fn poll_until(server: &mut Server, mut is_so: impl FnMut(&Server) -> bool) {
    // However long the system takes to hand the bytes over; a server looks for clients now and then, and in a second nobody is late.
    for turn in 0..100_000 {
        server.poll(NOW.plus(Nanos::from_micros(10 * turn)));
        if is_so(server) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the server did not come to it");
}

#[test]
fn a_client_of_http2_is_handed_over_with_all_that_it_said() {
    let (hand_over, handed) = channel();
    let (server, _) = server_with(Options::default());
    let server = server.http2(move |foreign| hand_over.send(foreign).expect("the test goes on"));
    let mut server = server.listen(&"tcp:127.0.0.1:0".parse().expect("an address")).expect("it listens");
    let Some(Address::Tcp(at)) = server.addresses().next().cloned() else { panic!("it listens over TCP") };
    let say = |words: &[u8]| {
        let mut stream = TcpStream::connect((&*at.host, at.port)).expect("it listens");
        stream.write_all(words).expect("there is room");
        stream
    };
    let mut client = say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut given = None;
    poll_until(&mut server, |_| {
        given = handed.try_recv().ok();
        given.is_some()
    });
    let foreign = given.expect("it was handed over");
    assert_eq!((&foreign.came[..], foreign.tls.is_none()), (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true));
    // Nothing was said to it, and it is not closed.
    let mut stream = TcpStream::from(foreign.socket);
    stream.set_nonblocking(false).expect("a socket");
    stream.write_all(b"welcome").expect("there is room");
    let mut heard = [0; 7];
    client.read_exact(&mut heard).expect("it is open");
    assert_eq!((&heard, server.refused()), (b"welcome", 0));
    // Others that speak no protocol of ours are refused as before.
    let _other = say(b"GET / HTTP/1.1\r\n\r\n");
    poll_until(&mut server, |server| server.refused() == 1);
    assert!(handed.try_recv().is_err());
}
