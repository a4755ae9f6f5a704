//! Streams against homes that are scripts: gone, late, deaf, broken, or not memcached at all. Time is an argument; only sockets are waited for.

use super::*;
use crate::cache::registers::Registers;
use crate::cache::topology::Shape;
use protocol::coherence::NodeId;
use protocol::memcache::client::{Expect, MetaStatus, request};
use protocol::wire::Version;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

const SECOND: Nanos = Nanos::from_secs(1);

/// With the times of registers that are not set: patience is 3 s.
fn to(address: SocketAddr) -> Streams {
    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
    let registers = Registers::default();
    registers.set("coherence.value_max", "100000").expect("a size");
    let at = |node| SocketAddr::from(([127, 0, 0, 1], if matches!(node, NodeId::Box(_)) { 1 } else { 2 }));
    let topology = Topology::two_levels(&shape, at, &registers).expect("it fits");
    let topology = topology.with_streams([(HomeId(1), address)]).expect("an address");
    Streams::of(&topology).expect("a descriptor").expect("there are streams")
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

fn read(key: &[u8]) -> Request {
    let mut text = Vec::new();
    let expect = request::read(&mut text, "gets", [key]);
    Request { key: key.to_vec(), text, expect, changes: false }
}

fn write(key: &[u8], value: &[u8]) -> Request {
    let mut text = Vec::new();
    let expect = request::meta_set(&mut text, key, "c", value);
    Request { key: key.to_vec(), text, expect, changes: true }
}

/// Serves at `now` until something ended.
fn ended(streams: &mut Streams, now: Nanos) -> (StreamId, Result<Said, Failed>) {
    for _ in 0..100_000 {
        streams.serve(now);
        if let Some(ended) = streams.poll() {
            return ended;
        }
        // A connection that is refused, or refuses at once, says so in its own time.
        let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let _ = poll(&mut [PollFd::new(&streams, PollFlags::IN)], Some(&soon));
    }
    panic!("nothing ends");
}

/// What a home does with each of its connections, in order, told how many requests' bytes it reads first.
fn home(script: Vec<(usize, Vec<u8>, bool)>) -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let (listener, address) = listener();
    let (kept, keeper) = mpsc::channel();
    std::thread::spawn(move || {
        for (reads, says, stays) in script {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.read_exact(&mut vec![0; reads]).expect("a request");
            // In pieces.
            for piece in says.chunks(says.len() / 3 + 1) {
                stream.write_all(piece).expect("it is read");
            }
            if stays {
                let _ = kept.send(stream);
            }
        }
    });
    (address, keeper)
}

#[test]
fn a_request_is_answered_and_its_connection_serves_the_next() {
    let request = read(b"k");
    let size = request.text.len();
    let value = vec![7; 90_000];
    let reply = [b"VALUE k 5 90000 77\r\n", value.as_slice(), b"\r\nEND\r\n"].concat();
    let (address, keeper) = home(vec![(size, reply, true)]);
    let mut streams = to(address);
    let asked = streams.ask(SECOND, request.clone());
    let (id, said) = ended(&mut streams, SECOND);
    assert_eq!((id, said), (asked, Ok(Said::Value { flags: 5, version: 77, value })));
    let mut stream = keeper.recv().expect("it stays");
    streams.ask(SECOND, request);
    stream.read_exact(&mut vec![0; size]).expect("by the same connection");
    stream.write_all(b"END\r\n").expect("it is read");
    assert_eq!(ended(&mut streams, SECOND).1, Ok(Said::Nothing));
    // Closed while nobody asks: the next has a new one, here to nobody.
    drop(stream);
    assert_eq!(streams.next_deadline(), Nanos::MAX);
}

#[test]
fn a_home_that_is_not_there_is_tried_again_until_patience_is_over() {
    let (gone, address) = listener();
    drop(gone);
    let mut streams = to(address);
    streams.ask(SECOND, write(b"k", b"v"));
    let mut now = SECOND;
    let mut tries = 0;
    while now < Nanos::from_secs(4) {
        streams.serve(now);
        assert!(streams.poll().is_none(), "at {now}");
        let next = streams.next_deadline();
        assert!(next <= Nanos::from_secs(4));
        // Under way, or to be tried later.
        now = if streams.ways.values().all(|way| way.links.iter().all(Option::is_none)) {
            tries += 1;
            next.max(now)
        } else {
            now
        };
    }
    assert!(tries > 10, "{tries}");
    assert_eq!(ended(&mut streams, now).1, Err(Failed::NotDone));
    assert_eq!(streams.next_deadline(), Nanos::MAX);
}

#[test]
fn what_is_lost_is_asked_again_unless_it_may_have_been_done() {
    let (one, other) = (read(b"k"), write(b"k", b"v"));
    let (read_size, write_size) = (one.text.len(), other.text.len());
    let script = vec![
        (read_size, b"VALUE k 0 5\r\nab".to_vec(), false),
        (read_size, b"END\r\n".to_vec(), true),
        (0, Vec::new(), true),
    ];
    let (address, keeper) = home(script);
    let mut streams = to(address);
    streams.ask(SECOND, one);
    // The first connection broke in the middle of the reply.
    while streams.counters()[2].1 == 0 {
        streams.serve(SECOND);
    }
    let later = SECOND.plus(Nanos::from_millis(500));
    assert_eq!(ended(&mut streams, later).1, Ok(Said::Nothing));
    let mut stream = keeper.recv().expect("the second");
    streams.ask(later, other);
    stream.read_exact(&mut vec![0; write_size]).expect("the write");
    drop(stream);
    assert_eq!(ended(&mut streams, later).1, Err(Failed::Unknown));
}

#[test]
fn an_answer_that_comes_too_late_is_nobodys() {
    for (request, failed) in [(read(b"k"), Failed::NotDone), (write(b"k", b"v"), Failed::Unknown)] {
        let size = request.text.len();
        let reply = if request.changes { b"HD c9\r\n".to_vec() } else { b"END\r\n".to_vec() };
        let (address, keeper) = home(vec![(size, Vec::new(), true), (size, reply.clone(), true)]);
        let mut streams = to(address);
        let asked = streams.ask(SECOND, request.clone());
        let mut late = loop {
            streams.serve(SECOND);
            if let Ok(stream) = keeper.try_recv() {
                break stream;
            }
        };
        assert_eq!(streams.next_deadline(), Nanos::from_secs(4));
        assert_eq!(ended(&mut streams, Nanos::from_secs(4)), (asked, Err(failed)));
        // Nobody may take it for the answer to the next.
        let _ = late.write_all(b"VALUE k 0 3\r\nold\r\nEND\r\n");
        let next = streams.ask(Nanos::from_secs(5), request);
        let (id, said) = ended(&mut streams, Nanos::from_secs(5));
        assert!(id == next && said.is_ok(), "{said:?}");
    }
}

#[test]
fn who_is_no_memcached_node_and_values_that_are_too_long_are_refused() {
    let request = read(b"k");
    let size = request.text.len();
    let (address, _keeper) = home(vec![(size, b"SSH-2.0-x\r\n".to_vec(), true)]);
    let mut streams = to(address);
    streams.ask(SECOND, request.clone());
    while streams.counters()[2].1 == 0 {
        streams.serve(SECOND);
    }
    assert_eq!(ended(&mut streams, Nanos::from_secs(4)).1, Err(Failed::NotDone));
    let script =
        vec![(size, b"VALUE k 0 100001\r\n".to_vec(), true), (size, b"END\r\nEND\r\n".to_vec(), true)];
    let (address, _keeper) = home(script);
    let mut streams = to(address);
    streams.ask(SECOND, request.clone());
    assert_eq!(ended(&mut streams, SECOND).1, Ok(Said::Refused(Status::TooLarge)));
    streams.ask(SECOND, request);
    assert_eq!(
        ended(&mut streams, Nanos::from_secs(4)).1,
        Err(Failed::NotDone),
        "it says more than it was asked"
    );
}

#[test]
fn a_busy_home_is_asked_again() {
    let request = write(b"k", b"v");
    let size = request.text.len();
    let (address, keeper) = home(vec![(size, b"SERVER_ERROR busy\r\n".to_vec(), true)]);
    let mut streams = to(address);
    streams.ask(SECOND, request);
    let mut stream = loop {
        streams.serve(SECOND);
        if let Ok(stream) = keeper.try_recv() {
            break stream;
        }
    };
    while streams.ways.values().any(|way| way.queue.is_empty()) {
        streams.serve(SECOND);
    }
    let again = streams.next_deadline();
    assert!(again > SECOND && again < Nanos::from_secs(2), "{again}");
    streams.serve(again);
    stream.read_exact(&mut vec![0; size]).expect("again");
    stream.write_all(b"HD c12\r\n").expect("it is read");
    let (status, words) = (MetaStatus::Done, b"c12".to_vec());
    let said = Said::Meta { status, words, value: Vec::new() };
    assert_eq!(ended(&mut streams, again).1, Ok(said.clone()));
    assert_eq!(answer(protocol::wire::Verb::Set, said).version, Version(12));
}

#[test]
fn connections_to_a_home_are_few() {
    let (listener, address) = listener();
    listener.set_nonblocking(true).expect("a socket");
    let mut streams = to(address);
    for key in 0..40u8 {
        streams.ask(SECOND, read(&[b'a' + key % 20]));
    }
    let (mut connected, mut answered) = (Vec::<TcpStream>::new(), 0);
    while answered < 40 {
        streams.serve(SECOND);
        connected.extend(listener.accept().map(|(stream, _)| stream));
        for stream in &mut connected {
            stream.set_nonblocking(true).expect("a socket");
            let mut bytes = [0; 64];
            if stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                stream.write_all(b"END\r\n").expect("it is read");
            }
        }
        while let Some((_, said)) = streams.poll() {
            assert_eq!(said, Ok(Said::Nothing));
            answered += 1;
        }
    }
    assert_eq!(connected.len(), LINKS);
    assert_eq!(streams.counters()[..2], [("asked by stream", 40), ("streams connected", LINKS as u64)]);
}

#[test]
fn keys_and_lives_are_written_so_that_memcached_reads_them() {
    assert_eq!(key_word(b"plain"), Some((b"plain".into(), false)));
    assert_eq!(key_word(b"a b"), Some((b"YSBi".into(), true)));
    assert_eq!(key_word(&[1; 187]), None);
    assert!(key_word(&[1; 186]).is_some() && key_word(&[b'k'; 250]).is_some());
    assert_eq!(
        [Nanos::MAX, Nanos(0), Nanos(1), Nanos::from_secs(2_592_000)].map(exptime),
        [0, -1, 1, 2_592_000]
    );
    assert!(exptime(Nanos::from_secs(2_592_001)) > 1_700_000_000);
    assert_eq!(
        (number(b"c12 t-1", b'c'), number(b"c12 t-1", b't'), number(b"", b'c')),
        (Some(12), None, None)
    );
    assert_eq!(read(b"k").expect, Expect::Values);
}
