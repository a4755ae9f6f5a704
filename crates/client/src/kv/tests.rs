//! A client of a server that says what a test has it say. Real servers: `millrace/tests/languages`.

use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options { timeout: PATIENCE, tls: None }
}

/// A server of one client, and the client.
fn served(serve: impl FnOnce(TcpStream) + Send + 'static) -> (Client, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens").to_string();
    let server = std::thread::spawn(move || serve(listener.accept().expect("a client").0));
    (Client::open(&address, &options()).expect("it listens"), server)
}

/// Reads as many bytes as `request` has, which they must be.
fn asked(stream: &mut TcpStream, request: &str) {
    let mut bytes = vec![0; request.len()];
    stream.read_exact(&mut bytes).expect("a request");
    assert_eq!(String::from_utf8_lossy(&bytes), request);
}

/// What one request is answered with by a server that says `reply`, in pieces of `at_once` bytes.
fn answered(request: Request<'_>, reply: &str, at_once: usize) -> Result<String, Error> {
    let reply = reply.to_owned();
    let (mut client, server) = served(move |mut stream| {
        let mut any = [0; 1];
        stream.read_exact(&mut any).expect("a request");
        for piece in reply.as_bytes().chunks(at_once) {
            // A client that has enough is gone.
            let _ = stream.write_all(piece);
        }
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let said = client.call(&request).map(|answer| format!("{answer:?}"));
    drop(client);
    server.join().expect("it serves");
    said
}

const GET: Request<'static> = Request::Get { key: b"k", version: true };
const COUNT: Request<'static> = Request::Count { key: b"k", by: 1, down: false };

#[test]
fn replies_are_what_they_say() {
    let item = "Item(Item { value: [98, 13, 10], flags: 7, version: 9 })";
    for at_once in [1, 3, 100] {
        let said = |request, reply: &str| answered(request, reply, at_once);
        assert_eq!(said(GET, "VALUE k 7 3 9\r\nb\r\n\r\nEND\r\n"), Ok(item.to_owned()));
        assert_eq!(said(GET, "END\r\n"), Ok("NotFound".to_owned()));
        assert_eq!(said(COUNT, "12\r\n"), Ok("Number(12)".to_owned()));
        assert_eq!(said(COUNT, "NOT_FOUND\r\n"), Ok("NotFound".to_owned()));
        let no_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        assert_eq!(said(COUNT, no_number), Err(Error::NotANumber));
        assert_eq!(said(GET, "CLIENT_ERROR unauthenticated\r\n"), Err(Error::Login));
        assert_eq!(said(GET, "SERVER_ERROR object too large for cache\r\n"), Err(Error::TooLarge));
        assert_eq!(said(GET, "SERVER_ERROR busy\r\n"), Err(Error::Refused("SERVER_ERROR busy".to_owned())));
        assert!(matches!(said(GET, "VALUE k 0 3 9\r\nblue\r\nEND\r\n"), Err(Error::Broken(_))));
        assert!(matches!(said(COUNT, "HTTP/1.1 400 Bad Request\r\n"), Err(Error::Broken(_))));
        assert!(matches!(said(GET, "VALUE k 0 4000000000 9\r\n"), Err(Error::Broken(_))));
    }
}

#[test]
fn answers_come_in_the_order_of_requests() {
    let (mut client, server) = served(|mut stream| {
        asked(&mut stream, "gets a\r\nset b 1 0 2\r\nxy\r\nincr c 5\r\ngets d\r\n");
        let replies = b"VALUE a 0 1 3\r\nA\r\nEND\r\nSTORED\r\n7\r\nEND\r\n";
        stream.write_all(replies).expect("it reads");
    });
    let set = Request::Store { how: Store::Set, key: b"b", value: b"xy", flags: 1, expiry_s: 0 };
    let count = Request::Count { key: b"c", by: 5, down: false };
    let get = |key| Request::Get { key, version: true };
    let tickets = [get(b"a"), set, count, get(b"d")].map(|request| client.submit(&request).expect("room"));
    assert_eq!(client.under_way(), 4);
    assert_eq!(client.get(b"a"), Err(Error::Busy));
    assert_eq!(client.get_many(&[b"a"]), Err(Error::Busy));
    let item = Item { value: b"A", flags: 0, version: 3 };
    let answers = [Answer::Item(item), Answer::Done, Answer::Number(7), Answer::NotFound];
    for (ticket, answer) in tickets.into_iter().zip(answers) {
        let completed = client.complete(PATIENCE).expect("an answer").expect("one is under way");
        assert_eq!((completed.ticket, completed.answer), (ticket, Ok(answer)));
    }
    assert!(client.complete(PATIENCE).expect("nothing went wrong").is_none());
    server.join().expect("it serves");
}

/// A server that answers the first request when it is told to, and the second at once.
fn late() -> (Client, Sender<()>, JoinHandle<()>) {
    let (tell, told) = channel();
    let (client, server) = served(move |mut stream| {
        asked(&mut stream, "get a\r\n");
        told.recv().expect("the test says when");
        stream.write_all(b"VALUE a 0 4\r\nlate\r\nEND\r\n").expect("it reads");
        asked(&mut stream, "get b\r\n");
        stream.write_all(b"VALUE b 0 1\r\nB\r\nEND\r\n").expect("it reads");
    });
    (client, tell, server)
}

#[test]
fn an_answer_that_comes_too_late_is_nobody_elses() {
    let (mut client, tell, server) = late();
    client.set_timeout(Duration::from_millis(1));
    assert_eq!(client.get(b"a"), Err(Error::TimedOut(Duration::from_millis(1))));
    client.set_timeout(PATIENCE);
    tell.send(()).expect("it waits");
    assert_eq!(client.get(b"b").expect("an answer").map(|item| item.value), Some(b"B".as_slice()));
    server.join().expect("it serves");
}

#[test]
fn a_completion_that_is_late_is_waited_for_again() {
    let (mut client, tell, server) = late();
    let ticket = client.submit(&Request::Get { key: b"a", version: false }).expect("room");
    assert!(matches!(client.complete(Duration::from_millis(1)), Err(Error::TimedOut(_))));
    assert_eq!(client.under_way(), 1);
    tell.send(()).expect("it waits");
    let completed = client.complete(PATIENCE).expect("an answer").expect("one is under way");
    assert_eq!(completed.ticket, ticket);
    assert!(matches!(completed.answer, Ok(Answer::Item(Item { value: b"late", .. }))));
    assert!(client.get(b"b").expect("an answer").is_some());
    server.join().expect("it serves");
}

#[test]
fn a_server_that_goes_is_gone_for_good() {
    let (mut client, server) = served(|mut stream| asked(&mut stream, "get a\r\n"));
    assert_eq!(client.get(b"a"), Err(Error::Gone));
    assert_eq!(client.set(b"a", b"", 0), Err(Error::Gone));
    assert_eq!(client.complete(PATIENCE).err(), Some(Error::Gone));
    server.join().expect("it serves");
}

#[test]
fn what_cannot_be_asked_is_not_sent() {
    let (mut client, server) = served(|mut stream| {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the client goes");
        assert_eq!(rest, b"");
    });
    for key in [b"".as_slice(), b"two words", b"a\r\nflush_all", &[b'x'; 251]] {
        assert!(matches!(client.get(key), Err(Error::Argument(_))));
        assert!(matches!(client.get_many(&[key]), Err(Error::Argument(_))));
    }
    assert!(matches!(client.login("an n", "x"), Err(Error::Argument(_))));
    drop(client);
    server.join().expect("it serves");
}

#[test]
fn addresses_that_lead_nowhere_say_what_to_do() {
    for (address, says) in [
        ("shm:/nowhere/m.shm", "--shm"),
        ("unix:/nowhere/m.sock", "-s PATH"),
        ("memory:x", "no way to a key-value server"),
        ("udp:127.0.0.1:1", "no way to a key-value server"),
        ("tls:127.0.0.1:1", "tls_ca"),
        ("nonsense", "write shm:/path"),
        ("", "write shm:/path"),
    ] {
        let Err(error) = Client::open(address, &options()) else { panic!("{address} was opened") };
        assert!(error.to_string().contains(says), "{address}: {error}");
    }
}

#[test]
fn more_than_the_bound_is_not_submitted() {
    let (mut client, server) = served(|mut stream| {
        // Reads, and answers nothing.
        stream.read_to_end(&mut Vec::new()).expect("the client goes");
    });
    for _ in 0..MAX_UNDER_WAY {
        client.submit(&GET).expect("room");
    }
    assert_eq!(client.submit(&GET), Err(Error::Full));
    drop(client);
    server.join().expect("it serves");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Many answers of any lengths, in pieces of any length: each is its request's.
    #[test]
    fn answers_are_never_mixed_up(lengths in prop::collection::vec(0usize..40_000, 1..40), at_once in 1usize..70_000) {
        let mut replies = Vec::new();
        for (key, len) in lengths.iter().enumerate() {
            replies.extend_from_slice(format!("VALUE {key} {key} {len} 5\r\n").as_bytes());
            replies.extend((0..*len).map(|at| (at + key) as u8));
            replies.extend_from_slice(b"\r\nEND\r\n");
        }
        let (mut client, server) = served(move |mut stream| {
            let mut any = [0; 1];
            stream.read_exact(&mut any).expect("a request");
            replies.chunks(at_once).for_each(|piece| stream.write_all(piece).expect("it reads"));
            stream.read_to_end(&mut Vec::new()).expect("the client goes");
        });
        let keys: Vec<String> = (0..lengths.len()).map(|key| key.to_string()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let items = client.get_many(&keys).expect("answers");
        for (key, (item, len)) in items.iter().zip(&lengths).enumerate() {
            let item = item.expect("it is there");
            prop_assert_eq!((item.flags as usize, item.value.len()), (key, *len));
            prop_assert!(item.value.iter().enumerate().all(|(at, byte)| *byte == (at + key) as u8));
        }
        drop(client);
        server.join().expect("it serves");
    }
}
