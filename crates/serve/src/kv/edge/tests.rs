//! Who has a turn when, counted in turns of one edge that the test drives itself.

use super::Edge;
use super::traced::Traces;
use crate::engine_cores::EngineCore;
use crate::kv::config::Config;
use crate::kv::service;
use crate::kv::shared::Shared;
use crate::kv::system::Machine;
use crate::memcached::accept::{Inbox, Purpose};
use crate::memcached::login::Entrance;
use base::Nanos;
use base::trace::Tracer;
use rustix::event::epoll;
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A client of the edge. Nothing of it blocks.
struct Client {
    stream: UnixStream,
    heard: Vec<u8>,
}

impl Client {
    fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).expect("the socket takes it");
    }

    /// Takes what was said to it.
    fn listen(&mut self) -> &[u8] {
        let mut chunk = [0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return &self.heard,
                Ok(n) => self.heard.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return &self.heard,
                Err(e) => panic!("the connection broke: {e}"),
            }
        }
    }

    fn has_heard(&mut self, end: &str) -> bool {
        self.listen().ends_with(end.as_bytes())
    }

    /// Takes what was said to it since the last call, all of which is this.
    fn hears(&mut self, text: &str) {
        self.listen();
        assert_eq!(String::from_utf8_lossy(&std::mem::take(&mut self.heard)), text);
    }
}

struct Rig {
    edge: Edge,
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    events: Vec<epoll::Event>,
}

impl Rig {
    /// An edge over a store with so many items: `k0`, `k1`, …
    fn with(items: usize) -> Rig {
        let inbox = Arc::new(Inbox::new().expect("a descriptor"));
        let core = EngineCore::by_hand();
        let (shared, ports, hasher) =
            service::assemble(&Config::default(), vec![inbox.clone()], &core, (None, Entrance::default()))
                .expect("a store of the default size");
        let (port, link) = ports.into_iter().next().expect("a port for the edge");
        let edge = Edge::new(shared.clone(), inbox.clone(), (port, link), hasher, Machine::default())
            .expect("descriptors");
        let mut rig = Rig { edge, inbox, shared, events: Vec::with_capacity(super::EVENTS) };
        let mut client = rig.connect();
        for first in (0..items).step_by(100) {
            let sets = (first..items.min(first + 100)).map(|i| format!("set k{i} 0 0 1 noreply\r\nv\r\n"));
            client.send(sets.collect::<String>() + "mn\r\n");
            rig.step_until(|_| client.has_heard("MN\r\n"));
            client.heard.clear();
        }
        rig
    }

    fn connect(&mut self) -> Client {
        let (ours, stream) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
        self.inbox.put(Purpose::Stream, ours.into());
        let mut client = Client { stream, heard: Vec::new() };
        client.send("mn\r\n");
        self.step_until(|_| client.has_heard("MN\r\n"));
        client.heard.clear();
        client
    }

    fn step(&mut self) {
        self.edge.wait(&mut self.events, Nanos::ZERO);
        self.edge.step(&self.events);
    }

    fn step_until(&mut self, mut done: impl FnMut(&mut Rig) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("that does not come");
    }

    fn executed(&self) -> u64 {
        self.shared.report().engine.executed
    }
}

/// The keys of a whole `metadump`.
fn keys(dump: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(dump);
    let lines = text.strip_suffix("END\r\n").expect("the dump is whole").lines();
    lines.map(|line| line.split(['=', ' ']).nth(1).expect("key=…").to_owned()).collect()
}

#[test]
fn others_are_answered_between_two_slices_of_a_dump() {
    let mut rig = Rig::with(3000);
    let (mut dumper, mut other) = (rig.connect(), rig.connect());
    dumper.send("lru_crawler metadump all\r\nmn\r\n");
    let mut between = 0;
    while !dumper.has_heard("MN\r\n") {
        other.send("get k7\r\n");
        rig.step();
        other.hears("VALUE k7 0 1\r\nv\r\nEND\r\n");
        between += 1;
        assert!(between < 1000, "the dump has no end");
    }
    assert!(between > 15, "the dump took {between} turns");
    dumper.heard.truncate(dumper.heard.len() - 4);
    let keys = keys(&dumper.heard);
    assert_eq!((keys.len(), keys.iter().collect::<HashSet<_>>().len()), (3000, 3000));
}

#[test]
fn all_dumps_together_do_one_slice_in_a_turn() {
    let mut rig = Rig::with(3000);
    let mut dumpers: Vec<Client> = (0..8).map(|_| rig.connect()).collect();
    let mut other = rig.connect();
    dumpers.iter_mut().for_each(|dumper| dumper.send("lru_crawler metadump all\r\n"));
    let mut left = dumpers.len();
    while left > 0 {
        let before = rig.executed();
        other.send("get k7\r\n");
        rig.step();
        other.hears("VALUE k7 0 1\r\nv\r\nEND\r\n");
        assert!(rig.executed() <= before + 2, "a turn had {} requests", rig.executed() - before);
        left = dumpers.iter_mut().map(|dumper| usize::from(!dumper.has_heard("END\r\n"))).sum();
    }
    dumpers.iter_mut().for_each(|dumper| assert_eq!(keys(&dumper.heard).len(), 3000));
}

#[test]
fn a_dump_waits_for_a_client_that_does_not_read_and_buffers_one_slice() {
    let mut rig = Rig::with(20_000);
    let mut dumper = rig.connect();
    dumper.send("lru_crawler mgdump all\r\n");
    // Until nothing happens any more; the client has taken nothing.
    rig.step();
    rig.step_until(|rig| !rig.edge.has_work());
    let executed = rig.executed();
    let buffered = rig.shared.buffered.taken();
    assert!((1..64 << 10).contains(&buffered), "{buffered} bytes are buffered");
    let mut other = rig.connect();
    other.send("get k7\r\n");
    rig.step();
    other.hears("VALUE k7 0 1\r\nv\r\nEND\r\n");
    assert!(rig.executed() <= executed + 2, "the dump goes on though nobody reads it");
    rig.step_until(|_| dumper.has_heard("EN\r\n"));
    let lines: HashSet<_> = dumper.heard.split(|&b| b == b'\n').collect();
    // A line for each, the last one, and what is behind it.
    assert_eq!(lines.len(), 20_002);
}

#[test]
fn pipelined_statistics_take_turns_by_what_they_cost() {
    let mut rig = Rig::with(1);
    let mut greedy: Vec<Client> = (0..4).map(|_| rig.connect()).collect();
    let mut other = rig.connect();
    greedy.iter_mut().for_each(|client| client.send("stats\r\n".repeat(200)));
    // In their first turns they are as good as any other.
    rig.step();
    for _ in 0..50 {
        greedy.iter_mut().for_each(|client| client.heard.clear());
        let before = rig.executed();
        other.send("get k0\r\n");
        rig.step();
        other.hears("VALUE k0 0 1\r\nv\r\nEND\r\n");
        for client in &mut greedy {
            client.listen();
        }
        assert!(rig.executed() - before <= 2, "{} requests", rig.executed() - before);
    }
}

/// Who came in the middle of a turn waited until 256 requests of somebody's pipeline were done.
#[test]
fn turns_are_short_while_somebody_asks_for_little() {
    let mut rig = Rig::with(1);
    let (mut greedy, mut other) = (rig.connect(), rig.connect());
    greedy.send("get k0\r\n".repeat(4000));
    let mut turns = Vec::new();
    while rig.edge.has_work() || turns.is_empty() {
        other.send("get k0\r\n");
        rig.step();
        other.hears("VALUE k0 0 1\r\nv\r\nEND\r\n");
        let before = rig.executed();
        rig.step();
        turns.push(rig.executed() - before);
        greedy.listen();
    }
    // How long ago the other one asked is measured in time, so where this thread was put aside a turn is longer.
    turns.sort_unstable();
    assert_eq!(turns[turns.len() / 2], 64, "{turns:?}");
    greedy.send("get k0\r\n".repeat(4000));
    std::thread::sleep(std::time::Duration::from_millis(10));
    let before = rig.executed();
    rig.step();
    assert!(rig.executed() - before >= 256, "{} requests", rig.executed() - before);
}

#[test]
fn cachedump_lists_as_many_as_were_asked_for() {
    let mut rig = Rig::with(500);
    let mut client = rig.connect();
    for (limit, wanted) in [("7", 7), ("0", 500), ("499", 499)] {
        client.send(format!("stats cachedump 1 {limit}\r\n"));
        rig.step_until(|_| client.has_heard("END\r\n"));
        let text = String::from_utf8_lossy(&client.heard).into_owned();
        assert_eq!(text.lines().filter(|line| line.starts_with("ITEM k")).count(), wanted);
        client.heard.clear();
    }
}

/// Requests that are sampled have their parts in them, whatever else is in flight; the others leave nothing.
#[test]
fn one_request_of_so_many_leaves_spans() {
    use base::trace::{Kind, Span};
    let mut rig = Rig::with(10);
    let tracer = Tracer::default().of("cache");
    rig.edge.traces = Traces::new(tracer.clone());
    let mut one = rig.connect();
    rig.shared.registers.set_live("trace.sample", "3").expect("live");
    one.send(
        "get k1\r\nget k2\r\nset k1 0 0 1\r\nx\r\nget k3\r\nget k5\r\ndelete k4\r\nget k4\r\nmn\r\nmn\r\n",
    );
    rig.step_until(|_| one.has_heard("MN\r\nMN\r\n"));
    let hit = |key: &str| format!("VALUE {key} 0 1\r\nv\r\nEND\r\n");
    let hits = ["k1", "k2", "k3", "k5"].map(hit);
    one.hears(&format!(
        "{}{}STORED\r\n{}{}DELETED\r\nEND\r\nMN\r\nMN\r\n",
        hits[0], hits[1], hits[2], hits[3]
    ));

    rig.shared.registers.set_live("trace.sample", "0").expect("live");
    one.send("get k1\r\nmn\r\n");
    rig.step_until(|_| one.has_heard("MN\r\n"));

    let spans = tracer.spans();
    let requests: Vec<&Span> = spans.iter().filter(|span| span.kind == Kind::Server).collect();
    let names: Vec<&str> = requests.iter().map(|span| &*span.name).collect();
    assert_eq!((names, spans.len()), (vec!["set", "delete", "mn"], 3 * 5));
    for request in requests {
        let mut parts: Vec<&Span> =
            spans.iter().filter(|span| span.parent == Some(request.context.span)).collect();
        parts.sort_by_key(|part| part.begin);
        let names: Vec<(&str, &str)> = parts.iter().map(|part| (&*part.name, part.place.name())).collect();
        assert_eq!(names, [("read", "edge"), ("queue", "engine"), ("execute", "engine"), ("write", "edge")]);
        let is_in = |part: &&Span| request.begin <= part.begin && part.end <= request.end;
        assert!(parts.iter().all(is_in) && request.is_ok() && &*request.service == "cache");
        assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{parts:?}");
    }
}

/// Of a key that is recorded every request is, with the bytes of each, however it came, and whether or not it leaves spans; of another none.
#[test]
fn a_key_is_recorded_with_all_its_requests_or_with_none() {
    use std::collections::HashMap;
    let mut rig = Rig::with(100);
    let tracer = Tracer::default().of("cache");
    let recording = tracer.recording();
    rig.edge.traces = Traces::new(tracer.clone());
    let mut one = rig.connect();
    recording.set(4);
    rig.shared.registers.set_live("trace.sample", "3").expect("live");
    let mut taken = Vec::new();
    let mut requests: HashMap<u64, Vec<(String, u64, u64)>> = HashMap::new();
    for key in 10..60 {
        one.send(format!(
            "get k{key}\r\nset k{key} 0 0 3\r\nabc\r\ndelete k{key} noreply\r\nget k{key} nokey{key}\r\nmn\r\n"
        ));
        rig.step_until(|_| one.has_heard("MN\r\n"));
        one.heard.clear();
        recording.take(&mut taken);
        assert!(taken.len() <= 5, "what was taken is taken once: {taken:?}");
        for request in &taken {
            let own = (request.method.to_string(), request.request, request.reply);
            requests.entry(request.key.expect("each has one")).or_default().push(own);
        }
    }
    // The value of one byte, what stores three, what wants no reply, a part of a line with two keys, and the other part of it.
    let all = [("get", 9, 23), ("set", 20, 8), ("delete", 20, 0), ("get", 8, 0)];
    let whole = requests.values().filter(|seen| seen.len() == all.len());
    for seen in whole.clone() {
        let seen: Vec<_> = seen.iter().map(|(name, request, reply)| (&**name, *request, *reply)).collect();
        assert_eq!(seen, all);
    }
    // A key that is not there is asked for once, and is a key of its own.
    let lone = requests.values().filter(|seen| seen.len() == 1);
    assert_eq!(whole.clone().count() + lone.count(), requests.len(), "{requests:?}");
    assert!((3..=25).contains(&whole.count()), "{requests:?}");
    let counts = recording.take(&mut taken);
    assert!(counts.seen.iter().all(|(service, seen)| &**service == "cache" && *seen >= 50 * 6), "{counts:?}");
    recording.set(0);
    one.send("get k1\r\n".repeat(50) + "mn\r\n");
    rig.step_until(|_| one.has_heard("MN\r\n"));
    recording.take(&mut taken);
    assert!(taken.is_empty(), "{taken:?}");
}
