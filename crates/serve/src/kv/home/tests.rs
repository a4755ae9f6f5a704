//! A node with boxes before it: memcached clients at the node, clients of the cache at the boxes, one store.
//!
//! Leases are long where what is shown is that boxes are asked, and short where it is that a dead one is not waited for longer.

mod earlier;

use super::HomeArgs;
use crate::inc::client::Client;
use crate::inc::node;
use crate::inc::plan::{registers, sockets};
use crate::inc::topology::{Shape, Topology};
use crate::kv::Server;
use crate::kv::config::Config;
use crate::kv::durable::Durability;
use crate::kv::registers::Id;
use protocol::coherence::{Life, NodeId};
use protocol::wire::{BoxId, HomeId, Incarnation, key_hash};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any test.
const LONG: &str = "600000000";

/// Boxes on threads, and the node that is their home.
struct Rig {
    topology: Arc<Topology>,
    folder: TempDir,
    boxes: BTreeMap<NodeId, (Arc<AtomicBool>, JoinHandle<()>)>,
    nodes: Vec<Server>,
    /// Nodes have logs.
    is_durable: bool,
    /// Nodes that are started from now on have their memory in files.
    keeps_memory: bool,
}

impl Rig {
    fn new(shape: &Shape, lease: &str, settings: &[(&str, &str)], first: bool) -> Rig {
        Rig::of(shape, lease, settings, (first, false))
    }

    fn of(shape: &Shape, lease: &str, settings: &[(&str, &str)], (first, is_durable): (bool, bool)) -> Rig {
        let patient = [
            ("coherence.patience", LONG),
            ("coherence.bypass", "0"),
            ("coherence.worth", "0"),
            ("coherence.lease", lease),
        ];
        // Nothing is lost over loopback: who is late was not on a core. So where nobody dies, or is waited for until he does, a client waits for its box rather
        // than ask another, whose copy the test would not know of.
        let unhurried = [
            ("coherence.retransmit", "30000000"),
            ("coherence.retransmit_max", "30000000"),
            ("coherence.fill_patience", "60000000"),
        ];
        let unhurried = if lease == LONG { &unhurried[..] } else { &[] };
        let settings: Vec<_> = patient
            .iter()
            .chain(unhurried)
            .chain(settings)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let mut bound = sockets(shape).expect("ports");
        let registers = registers(&settings).expect("settings");
        let topology =
            Topology::two_levels(shape, |node| bound[&node].1, &registers).expect("it fits together");
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        topology.write(&file).expect("a file");
        let mut rig = Rig {
            topology: Arc::new(topology),
            folder,
            boxes: BTreeMap::new(),
            nodes: Vec::new(),
            is_durable,
            keeps_memory: false,
        };
        for (node, (socket, _)) in std::mem::take(&mut bound) {
            if let NodeId::Home(HomeId(id)) = node {
                drop(socket);
                rig.serve(id, first);
                continue;
            }
            let (topology, stop) = (rig.topology.clone(), Arc::new(AtomicBool::new(false)));
            let over = stop.clone();
            let run = move || {
                node::run(&topology, node, socket, (Incarnation(1), Life::First), &over).expect("no failure");
            };
            rig.boxes.insert(node, (stop, std::thread::spawn(run)));
        }
        rig
    }

    /// Two boxes, each before clients, the second before the home.
    fn two(lease: &str, settings: &[(&str, &str)]) -> Rig {
        Rig::new(&Shape { tors: 2, roots: 1, homes: 1, controllers: 0 }, lease, settings, true)
    }

    fn serve(&mut self, id: u16, first: bool) {
        self.nodes.push(Server::start(&self.config(id, first)).expect("a node"));
    }

    fn config(&self, id: u16, first: bool) -> Config {
        let home = HomeArgs {
            boxes: Some(self.folder.path().join("rack.toml")),
            home: Some(id),
            home_first: first,
            ..HomeArgs::default()
        };
        let mut config = Config { home, ..Config::default() };
        config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
        config.registers.write(Id::StoreMemory, 64 << 20).expect("a size");
        config.registers.write(Id::EdgeThreads, 2).expect("a number");
        if self.is_durable {
            config.durable.durability = Durability::Log;
            config.durable.data_dir = Some(self.folder.path().join(format!("data{id}")));
            config.registers.write(Id::LogSize, 8 << 20).expect("a size");
        }
        if self.keeps_memory {
            config.memory_file = Some(self.folder.path().join(format!("memory{id}")));
        }
        config
    }

    fn kill(&mut self, id: u16) {
        let (stop, thread) = self.boxes.remove(&NodeId::Box(BoxId(id))).expect("it runs");
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("no panic");
    }

    fn cache(&self, tor: u16) -> Client {
        Client::init(&self.topology, Some(tor)).expect("a client")
    }

    fn memcached(&self) -> Memcached {
        Memcached::to(self.nodes[0].tcp()[0])
    }

    fn event(&self, event: &str) -> u64 {
        let home = self.nodes[0].report().kv.home.expect("it is a home");
        home.events.iter().find(|(name, _)| *name == event).expect("it is counted").1
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.nodes.clear();
        self.boxes.values().for_each(|(stop, _)| stop.store(true, Ordering::Relaxed));
    }
}

/// A memcached client.
struct Memcached(BufReader<TcpStream>);

impl Memcached {
    fn to(address: SocketAddr) -> Memcached {
        let stream = TcpStream::connect(address).expect("a node");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Memcached(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("it is read");
    }

    fn hears(&mut self, text: &str) {
        let mut heard = vec![0; text.len()];
        if let Err(error) = self.0.read_exact(&mut heard) {
            panic!("{error} instead of {text:?}");
        }
        assert_eq!(String::from_utf8_lossy(&heard), text);
    }

    fn ask(&mut self, text: &str, answer: &str) {
        self.send(text);
        self.hears(answer);
    }

    fn set(&mut self, key: &str, value: &str) {
        self.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    }

    fn has(&mut self, key: &str, value: &str) {
        let answer = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        self.ask(&format!("get {key}\r\n"), &answer);
    }

    fn number(&mut self, text: &str) -> u64 {
        self.send(text);
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().parse().unwrap_or_else(|_| panic!("{line:?} is no number"))
    }
}

/// Reads until a box answers.
fn warm(cache: &mut Client, key: &str) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        let item = cache.get(key.as_bytes()).expect("an answer").expect("it is there");
        if item.from_box {
            return item.value;
        }
        assert!(begun.elapsed() < PATIENCE, "no box keeps {key}");
    }
}

fn read(cache: &mut Client, key: &str) -> Option<String> {
    let item = cache.get(key.as_bytes()).expect("an answer")?;
    Some(String::from_utf8(item.value).expect("text"))
}

#[test]
fn both_kinds_of_clients_see_each_other_at_once() {
    let rig = Rig::two(LONG, &[]);
    let (mut memcached, mut one, mut two) = (rig.memcached(), rig.cache(1), rig.cache(2));
    for turn in 0..20 {
        let value = format!("by memcached {turn}");
        memcached.set("k", &value);
        // Both boxes have it.
        assert_eq!(warm(&mut one, "k"), value.as_bytes());
        assert_eq!(warm(&mut two, "k"), value.as_bytes());
        memcached.has("k", &value);
        let value = format!("by packet {turn}");
        one.set(b"k", value.as_bytes()).expect("it is stored");
        memcached.has("k", &value);
        assert_eq!(read(&mut two, "k"), Some(value));
        warm(&mut two, "k");
        memcached.ask("delete k\r\n", "DELETED\r\n");
        assert_eq!((read(&mut one, "k"), read(&mut two, "k")), (None, None));
        memcached.ask("get k\r\n", "END\r\n");
    }
    assert!(rig.event("waited") >= 40, "writes waited for boxes");
}

#[test]
fn what_follows_a_command_that_waits_is_answered_after_it() {
    let rig = Rig::two(LONG, &[]);
    let (mut memcached, mut one) = (rig.memcached(), rig.cache(1));
    let long = "v".repeat(20_000);
    for _ in 0..10 {
        memcached.set("k", "old");
        memcached.set("n", "5");
        memcached.set("long", &long);
        warm(&mut one, "k");
        memcached.ask(
            concat!(
                "get n\r\nset k 0 0 3\r\nnew\r\nget k n\r\nincr n 2\r\n",
                "set j 0 0 1 noreply\r\nx\r\ngets nothing\r\nget long j\r\nms k 1\r\n1\r\nmn\r\nversion\r\n"
            ),
            &format!(
                "VALUE n 0 1\r\n5\r\nEND\r\nSTORED\r\nVALUE k 0 3\r\nnew\r\nVALUE n 0 1\r\n5\r\nEND\r\n7\r\nEND\r\nVALUE long 0 20000\r\n{long}\r\nVALUE j 0 1\r\nx\r\nEND\r\nHD\r\nMN\r\n"
            ),
        );
        let mut version = String::new();
        memcached.0.read_line(&mut version).expect("a line");
        assert!(version.starts_with("VERSION "), "{version}");
        assert_eq!(read(&mut one, "k").as_deref(), Some("1"));
    }
}

#[test]
fn a_connection_that_waits_holds_up_no_other() {
    let mut rig = Rig::two(LONG, &[]);
    let (mut waiting, mut other, mut one) = (rig.memcached(), rig.memcached(), rig.cache(1));
    waiting.set("k", "old");
    other.set("n", "1");
    warm(&mut one, "k");
    rig.kill(1);
    waiting.send("set k 0 0 3\r\nnew\r\nget k\r\n");
    for n in 2..200 {
        other.ask("incr n 1\r\n", &format!("{n}\r\n"));
    }
    // What was there is there until the write is done; the write waits for the box.
    other.has("k", "old");
    while rig.nodes[0].report().kv.home.expect("a home").waiting == 0 {
        std::thread::yield_now();
    }
    // Who goes meanwhile leaves nothing behind.
    drop(waiting);
    other.has("k", "old");
}

#[test]
fn a_dead_box_is_waited_for_until_its_lease_is_over() {
    let mut rig = Rig::two("400000", &[]);
    let (mut memcached, mut one, mut two) = (rig.memcached(), rig.cache(1), rig.cache(2));
    memcached.set("k", "old");
    warm(&mut one, "k");
    rig.kill(1);
    memcached.set("k", "new");
    memcached.has("k", "new");
    assert_eq!(read(&mut two, "k").as_deref(), Some("new"));
}

#[test]
fn a_key_that_a_box_owns_comes_back_to_be_counted() {
    let rig = Rig::two(LONG, &[("coherence.compute", "own_lossy")]);
    let (mut memcached, mut one) = (rig.memcached(), rig.cache(1));
    memcached.set("n", "100");
    let mut number = 100;
    for _ in 0..10 {
        for _ in 0..5 {
            number += 1;
            assert_eq!(one.increment(b"n", 1, None).expect("an answer"), Some(number));
        }
        number += 3;
        assert_eq!(memcached.number("incr n 3\r\n"), number);
        // A shorter number is padded for memcached clients alone.
        memcached.set("p", "10");
        assert_eq!(memcached.number("decr p 1\r\n"), 9);
        assert_eq!(read(&mut one, "p").as_deref(), Some("9"));
        assert_eq!(one.increment(b"p", 1, None).expect("an answer"), Some(10));
    }
    assert!(rig.event("given") >= 10 && rig.event("returned") >= 10, "keys were given and came back");
    memcached.has("n", &number.to_string());
}

#[test]
fn a_flush_reaches_all_boxes() {
    let rig = Rig::two(LONG, &[]);
    let (mut memcached, mut one, mut two) = (rig.memcached(), rig.cache(1), rig.cache(2));
    for turn in 0..4 {
        for key in ["j", "k"] {
            memcached.set(key, "old");
            warm(&mut one, key);
            warm(&mut two, key);
        }
        if turn % 2 == 0 {
            memcached.ask("flush_all\r\n", "OK\r\n");
        } else {
            two.flush().expect("it is flushed");
        }
        memcached.ask("get j k\r\n", "END\r\n");
        assert_eq!((read(&mut one, "j"), read(&mut two, "k")), (None, None));
    }
    // One that is put off comes when the clock says so, and boxes hear of it.
    memcached.set("k", "old");
    warm(&mut one, "k");
    memcached.ask("flush_all 1\r\n", "OK\r\n");
    while read(&mut one, "k").is_some() {
        std::thread::yield_now();
    }
    memcached.ask("get k\r\n", "END\r\n");
}

#[test]
fn versions_are_of_one_counter() {
    let rig = Rig::two(LONG, &[]);
    let (mut memcached, mut one) = (rig.memcached(), rig.cache(1));
    let mut last = 0;
    for turn in 0..10 {
        let version = one.set(b"k", format!("{turn}").as_bytes()).expect("it is stored");
        assert!(version.0 > last, "{version} after {last}");
        memcached.ask("mg k c\r\n", &format!("HD c{}\r\n", version.0));
        memcached.ask(&format!("cas k 0 0 1 {}\r\nx\r\n", version.0), "STORED\r\n");
        memcached.ask(&format!("cas k 0 0 1 {}\r\nx\r\n", version.0), "EXISTS\r\n");
        let item = one.get(b"k").expect("an answer").expect("it is there");
        assert!(item.version > version);
        last = item.version.0;
    }
}

#[test]
fn a_key_of_another_home_is_refused() {
    let shape = Shape { tors: 2, roots: 1, homes: 2, controllers: 0 };
    let rig = Rig::new(&shape, LONG, &[], true);
    let mut homes: Vec<_> = rig.nodes.iter().map(|node| Memcached::to(node.tcp()[0])).collect();
    let mut cache = rig.cache(1);
    for key in 0..20 {
        let key = format!("key{key}");
        let own = usize::from(rig.topology.layout().home_of(key_hash(key.as_bytes())).0) - 1;
        homes[own].set(&key, "v");
        homes[1 - own].ask(&format!("get {key}\r\n"), "SERVER_ERROR this key has another home\r\nEND\r\n");
        assert_eq!(read(&mut cache, &key).as_deref(), Some("v"));
    }
}

#[test]
fn after_a_restart_commands_wait_until_the_home_serves() {
    let shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 0 };
    let rig = Rig::new(&shape, "300000", &[], false);
    let mut memcached = rig.memcached();
    memcached.ask("get k\r\nset k 0 0 1\r\nv\r\nget k\r\n", "END\r\nSTORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
    assert_eq!(warm(&mut rig.cache(1), "k"), b"v");
}

#[test]
fn a_home_with_a_log_has_all_that_was_acknowledged_to_either_kind_of_client() {
    let shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 0 };
    let mut rig = Rig::of(&shape, "300000", &[], (true, true));
    let (mut memcached, mut one) = (rig.memcached(), rig.cache(1));
    for turn in 0..20 {
        let value = format!("by memcached {turn}");
        memcached.set("k", &value);
        assert_eq!(warm(&mut one, "k"), value.as_bytes());
        memcached.ask(
            &format!("set k 0 0 1\r\n{}\r\nget k\r\nincr k 1\r\n", turn % 8),
            &format!("STORED\r\nVALUE k 0 1\r\n{0}\r\nEND\r\n{1}\r\n", turn % 8, turn % 8 + 1),
        );
        one.set(b"packet", value.as_bytes()).expect("it is stored");
        memcached.has("packet", &value);
        one.set(b"gone", b"x").expect("it is stored");
        memcached.ask("delete gone\r\n", "DELETED\r\n");
        assert_eq!(read(&mut one, "gone"), None);
    }
    let log = rig.nodes[0].report().kv.durable.expect("it has a log");
    assert!(log.logged >= 100 && log.pending == 0, "{log:?}");
    rig.nodes.clear();
    rig.serve(1, false);
    let mut memcached = rig.memcached();
    memcached.ask("get k gone\r\n", "VALUE k 0 1\r\n4\r\nEND\r\n");
    memcached.has("packet", "by memcached 19");
    assert_eq!(warm(&mut rig.cache(1), "k"), b"4");
    memcached.set("k", "new");
    assert_eq!(read(&mut one, "k").as_deref(), Some("new"));
}
