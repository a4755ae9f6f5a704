//! Nodes on threads, at sockets whose ports the system chose; clients as programs use them.

use super::client::{Client, Swap};
use super::machine::Counters;
use super::node::{self, Equipment};
use super::orders::Orders;
use super::plan::{registers, sockets};
use super::topology::{Shape, Topology};
use protocol::coherence::client::Call;
use protocol::coherence::ranges::{Caching, Range, Ranges};
use protocol::coherence::{Life, NodeId};
use protocol::planted::NoBugs;
use protocol::wire::{
    BoxId, ClientId, Control, HomeId, Incarnation, Message, Opcode, Packet, Status, Verb, Version,
};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
const TREE: Shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 1 };

/// Nodes that run until it is dropped.
struct Running {
    topology: Arc<Topology>,
    orders: Orders,
    stop: Arc<AtomicBool>,
    threads: Vec<(NodeId, JoinHandle<std::io::Result<Counters>>)>,
}

impl Running {
    fn start(shape: Shape, settings: &[(&str, &str)]) -> Running {
        // Nothing is lost over loopback, and nobody dies: who is late was not on a core. So a client waits for its box rather than ask another, whose copy
        // the test would not know of, and a controller takes no box for dead.
        let patient = [
            ("coherence.patience", "60000000"),
            ("coherence.lease", "60000000"),
            ("coherence.bypass", "0"),
            ("coherence.retransmit", "30000000"),
            ("coherence.retransmit_max", "30000000"),
            ("coherence.fill_patience", "60000000"),
            ("coherence.worth", "0"),
            ("coherence.health", "60000000"),
        ];
        let settings: Vec<_> = patient
            .iter()
            .chain(settings)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let bound = sockets(&shape).expect("ports");
        let registers = registers(&settings).expect("settings");
        let topology = Arc::new(
            Topology::two_levels(&shape, |node| bound[&node].1, &registers).expect("it fits together"),
        );
        let (stop, orders) = (Arc::new(AtomicBool::new(false)), Orders::default());
        let start = |(node, (socket, _)): (NodeId, (UdpSocket, _))| {
            let (topology, stop, orders) = (topology.clone(), stop.clone(), orders.clone());
            let life = (Incarnation(1), Life::First);
            let run = move || {
                let (keys, equipment) = (topology.held_keys(), Equipment::<NoBugs>::default());
                let equipment = Equipment { keys, orders, ..equipment };
                node::run_with(equipment, &topology, node, socket, life, &stop)
            };
            (node, std::thread::spawn(run))
        };
        let threads = bound.into_iter().map(start).collect();
        Running { topology, orders, stop, threads }
    }

    fn client(&self, tor: u16) -> Client {
        Client::init(&self.topology, Some(tor)).expect("a client")
    }

    fn count(mut self) -> BTreeMap<NodeId, BTreeMap<&'static str, u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let counters = |thread: JoinHandle<std::io::Result<Counters>>| {
            thread.join().expect("no panic").expect("no failure").into_iter().collect()
        };
        threads.into_iter().map(|(node, thread)| (node, counters(thread))).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Until a box answers: a fill that met a restless controller is not kept.
fn warm(client: &mut Client, key: &[u8]) -> super::Item {
    let begun = Instant::now();
    loop {
        let item = client.get(key).expect("an answer").expect("it is there");
        if item.from_box {
            return item;
        }
        assert!(begun.elapsed() < PATIENCE, "no box keeps it");
    }
}

#[test]
fn a_hit_is_the_boxes_and_a_write_takes_it_away_everywhere() {
    let running = Running::start(TREE, &[]);
    let (mut one, mut two) = (running.client(1), running.client(2));
    assert_eq!(one.get(b"colour").expect("an answer"), None);
    let first = one.set(b"colour", b"blue").expect("stored");
    for client in [&mut one, &mut two] {
        let item = warm(client, b"colour");
        assert_eq!((item.value.as_slice(), item.version), (b"blue".as_slice(), first));
    }
    // The lease is a minute: that this ends means that all boxes gave their copies up.
    let second = two.set(b"colour", b"red").expect("stored");
    assert!(second > first);
    assert_eq!(one.get(b"colour").expect("an answer").expect("there").value, b"red");
    warm(&mut one, b"colour");
    let hits = 50;
    for _ in 0..hits {
        assert_eq!(warm(&mut one, b"colour").version, second);
    }
    one.close();
    let counted = running.count();
    let boxes: u64 = (1..=3).map(|id| counted[&NodeId::Box(BoxId(id))]["hits"]).sum();
    assert!(boxes >= hits + 3, "{counted:?}");
    assert!(counted[&NodeId::Box(BoxId(1))]["invalidations"] >= 1, "{counted:?}");
}

#[test]
fn the_home_hears_nothing_of_hits() {
    // Without a controller nothing but this client speaks.
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let mut client = running.client(1);
    client.set(b"k", b"v").expect("stored");
    warm(&mut client, b"k");
    let hits = 100;
    let is_hit = |client: &mut Client| client.get(b"k").expect("an answer").expect("there").from_box;
    assert!((0..hits).all(|_| is_hit(&mut client)));
    let counted = running.count();
    assert_eq!(counted[&NodeId::Home(HomeId(1))]["hits"], 1, "{counted:?}");
    assert!(counted[&NodeId::Box(BoxId(1))]["hits"] >= hits, "{counted:?}");
}

#[test]
fn cores_of_a_box_have_keys_of_their_own_and_forget_together() {
    let running = Running::start(TREE, &[("coherence.cores", "3")]);
    let mut client = running.client(1);
    let keys: Vec<_> = (0..24).map(|i| format!("key {i}").into_bytes()).collect();
    for key in &keys {
        client.set(key, b"old").expect("stored");
        assert_eq!(warm(&mut client, key).value, b"old");
    }
    // The lease is a minute: that this ends means that all cores of all boxes gave their copies up.
    client.set(&keys[5], b"new").expect("stored");
    assert_eq!(warm(&mut client, &keys[5]).value, b"new");
    client.flush().expect("done");
    assert!(keys.iter().all(|key| client.get(key).expect("an answer").is_none()));
    let counted = running.count();
    let first = &counted[&NodeId::Box(BoxId(1))];
    // While the controller's first table is on its way one box may keep what another does not.
    let hits: u64 = (1..=3).map(|id| counted[&NodeId::Box(BoxId(id))]["hits"]).sum();
    assert!(hits >= 25 && first["lost between cores"] == 0, "{counted:?}");
    assert!(first["invalidations"] >= 4, "each core heard of the flush: {counted:?}");
}

/// Box 1 keeps nothing of any slot, or all again, as soon as it has heard the table.
#[test]
fn where_copies_are_kept_changes_while_boxes_run() {
    // The only box: no other answers while this one has not heard the table. A controller makes tables once it has heard of no other for twice `health`.
    let shape = Shape { tors: 1, roots: 0, ..TREE };
    let running = Running::start(shape, &[("coherence.health", "200000")]);
    let mut client = running.client(1);
    client.set(b"k", b"v").expect("stored");
    let by = |client: &mut Client| client.get(b"k").expect("an answer").expect("there").from_box;
    // Asked until it is so: with patience, for a table is told again with the next heartbeat.
    let begun = Instant::now();
    let mut until = |wanted: bool, times: u32| {
        let mut in_row = 0;
        while in_row < times {
            in_row = if by(&mut client) == wanted { in_row + 1 } else { 0 };
            assert!(begun.elapsed() < PATIENCE, "copies are kept: {wanted}");
        }
    };
    until(true, 1);
    let nowhere = Range { first: 0, last: 63, caching: Caching::Nowhere };
    running.orders.set_ranges(Ranges::new(vec![nowhere], 64).expect("ranges"));
    // A minute's lease: that it is not answered from a copy means that the copy is gone.
    until(false, 20);
    running.orders.set_ranges(Ranges::default());
    until(true, 1);
    let counted = running.count();
    assert_eq!(counted[&NodeId::Box(BoxId(1))]["slots nowhere"], 0, "{counted:?}");
    assert_eq!(counted[&NodeId::Controller(0)]["slots nowhere"], 0);
}

#[test]
fn every_operation_of_the_library() {
    let running = Running::start(Shape { homes: 2, roots: 2, ..TREE }, &[]);
    let (mut one, mut two) = (running.client(1), running.client(2));
    let first = one.add(b"k", b"a").expect("added").expect("nothing was there");
    assert_eq!(two.add(b"k", b"b").expect("an answer"), None);
    assert_eq!(two.replace(b"nothing", b"b").expect("an answer"), None);
    let second = two.replace(b"k", b"b").expect("an answer").expect("it was there");
    assert_eq!(one.cas(b"k", first, b"c").expect("an answer"), Swap::Exists);
    assert!(matches!(one.cas(b"k", second, b"c").expect("an answer"), Swap::Stored(third) if third > second));
    assert_eq!(one.cas(b"nothing", first, b"c").expect("an answer"), Swap::Missing);
    assert!(two.append(b"k", b"de", 3).expect("room") && !two.append(b"none", b"x", 9).expect("an answer"));
    let error = one.append(b"k", b"f", 3).expect_err("no room").to_string();
    assert!(error.starts_with("NO_ROOM"), "{error}");
    assert_eq!(one.get(b"k").expect("an answer").expect("there").value, b"cde");

    assert_eq!(one.increment(b"n", 2, None).expect("an answer"), None);
    assert_eq!(one.increment(b"n", 2, Some(40)).expect("an answer"), Some(40));
    assert_eq!(two.increment(b"n", 2, Some(40)).expect("an answer"), Some(42));
    assert_eq!(two.decrement(b"n", 50, None).expect("an answer"), Some(0));
    assert!(one.cond_put(b"n", 7).expect("an answer") && !two.cond_put(b"n", 6).expect("an answer"));
    assert_eq!(one.max(b"n", 9).expect("a number"), 9);
    assert_eq!(two.min(b"n", 8).expect("a number"), 8);
    assert_eq!(one.or(b"n", 3).expect("a number"), 11);
    assert!(one.increment(b"k", 1, None).expect_err("no number").to_string().starts_with("NOT_NUMBER"));

    one.set_for(b"short", b"x", Duration::from_millis(1)).expect("stored");
    while two.get(b"short").expect("an answer").is_some() {}
    assert!(!one.touch(b"short", Duration::from_secs(9)).expect("an answer"));
    assert!(two.touch(b"k", Duration::from_secs(9)).expect("an answer"));
    assert!(two.delete(b"k").expect("an answer") && !one.delete(b"k").expect("an answer"));
    assert_eq!(one.get(b"k").expect("an answer"), None);
    one.flush().expect("flushed");
    assert_eq!(two.get(b"n").expect("an answer"), None);
    let long = vec![b'x'; 60_000];
    one.set(b"long", &long).expect("it fits");
    assert_eq!(warm(&mut two, b"long").value, long);
    assert!(one.set(b"", b"x").is_err() && one.set(&[b'k'; 251], b"x").is_err());
    assert!(one.set(b"k", &[0; 70_000]).is_err());
}

#[test]
fn what_changes_nothing_is_computed_by_a_box() {
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let mut client = running.client(1);
    assert!(client.cond_put(b"n", 100).expect("an answer"));
    warm(&mut client, b"n");
    let refused = (0..20).map(|i| {
        let call = Call::new(Verb::CondPut, b"n").operand(i);
        client.call(call).expect("an answer")
    });
    let by_box = refused.filter(|answer| answer.status == Status::NotStored && answer.from_box).count();
    assert_eq!(by_box, 20);
    assert!(running.count()[&NodeId::Box(BoxId(1))]["computed"] >= 20);
}

/// Sends datagrams to a node as nobody in particular, and hears its answers.
struct Stranger {
    socket: UdpSocket,
    node: std::net::SocketAddr,
}

impl Stranger {
    fn of(running: &Running, node: NodeId) -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        Stranger { socket, node: running.topology.book().address_of(node).expect("it is there") }
    }

    fn send(&self, message: &Message) {
        let mut packet = Vec::new();
        message.emit(&mut packet);
        self.socket.send_to(&packet, self.node).expect("sent");
    }

    fn hear(&self) -> Message {
        let mut bytes = vec![0; 65_536];
        let len = self.socket.recv(&mut bytes).expect("an answer");
        Packet::parse(&bytes[..len]).expect("a packet").to_message()
    }
}

#[test]
fn malformed_datagrams_and_strangers_are_counted_and_dropped() {
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let home = Stranger::of(&running, NodeId::Home(HomeId(1)));
    let mut good = Vec::new();
    Message::request(Verb::Get, b"k").emit(&mut good);
    let mut damaged = good.clone();
    damaged[160] ^= 1;
    for bytes in [&b""[..], b"x", &good[..good.len() - 1], &damaged, &[0xff; 2000]] {
        home.socket.send_to(bytes, home.node).expect("sent");
    }
    // Only nodes may speak so.
    home.send(&Message::new(Opcode::Control(Control::Heartbeat), &[]));
    home.send(&Message::new(Opcode::Control(Control::InvalidateAck), b"k"));
    home.send(&Message::request(Verb::Get, b"k").reply(Status::Ok));
    let mut request = Message::request(Verb::Get, b"k");
    request.header.home = HomeId(1);
    home.send(&request);
    assert_eq!(home.hear().header.status, Status::Miss);
    let counted = &running.count()[&NodeId::Home(HomeId(1))];
    assert_eq!((counted["malformed"], counted["strangers"], counted["dropped"]), (5, 3, 0));
}

/// A keyless client reads; what it asks is answered with no more than it sent, and it writes nothing.
#[test]
fn who_has_no_key_reads_as_much_as_he_sends_and_writes_nothing() {
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let mut client = running.client(1);
    let value = vec![7; 5000];
    client.set(b"k", &value).expect("stored");
    for node in [NodeId::Home(HomeId(1)), NodeId::Box(BoxId(1)), NodeId::Box(BoxId(2))] {
        let stranger = Stranger::of(&running, node);
        let mut request = Message::request(Verb::Get, b"k");
        (request.header.home, request.header.client) = (HomeId(1), ClientId(9));
        stranger.send(&request);
        let refused = stranger.hear();
        assert_eq!((refused.header.status, refused.value.len()), (Status::Pad, 0), "{node:?}");
        assert!(refused.length() <= request.length());
        request.padding = usize::try_from(refused.header.operand).expect("a length") - request.length();
        stranger.send(&request);
        let answer = stranger.hear();
        assert!(answer.value == value && answer.length() <= request.length(), "{node:?}");
        let mut write = Message { value: b"evil".to_vec(), ..Message::request(Verb::Set, b"k") };
        (write.header.home, write.header.client) = (HomeId(1), ClientId(9));
        stranger.send(&write);
        assert_eq!(stranger.hear().header.status, Status::Unproven, "{node:?}");
    }
    assert_eq!(client.get(b"k").expect("an answer").map(|item| item.value), Some(value));
    let counted = running.count();
    assert!(counted[&NodeId::Home(HomeId(1))]["unproven"] >= 1, "{counted:?}");
}

/// From the address of a node: what the system keeps others from, a raw socket does not.
#[test]
fn a_nodes_address_proves_nothing() {
    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 1 };
    let bound = sockets(&shape).expect("ports");
    let topology = Topology::two_levels(&shape, |node| bound[&node].1, &registers(&[]).expect("none"));
    let topology = Arc::new(topology.expect("it fits together"));
    let home = NodeId::Home(HomeId(1));
    let stop = Arc::new(AtomicBool::new(false));
    let socket = bound[&home].0.try_clone().expect("a socket");
    let (of_home, over) = (topology.clone(), stop.clone());
    let life = (Incarnation(1), Life::First);
    let thread = std::thread::spawn(move || node::run(&of_home, home, socket, life, &over));
    let forger = &bound[&NodeId::Controller(0)].0;
    let mut bytes = Vec::new();
    Message::new(Opcode::Control(Control::Heartbeat), &[]).emit(&mut bytes);
    for _ in 0..3 {
        forger.send_to(&bytes, bound[&home].1).expect("sent");
    }
    // The home has heard those before this.
    let mut client = Client::init(&topology, None).expect("a client");
    client.set(b"k", b"v").expect("stored");
    stop.store(true, Ordering::Relaxed);
    let counted: BTreeMap<_, _> = thread.join().expect("no panic").expect("no failure").into_iter().collect();
    assert_eq!((counted["unproven"], counted["strangers"]), (3, 0));
}

/// The cluster's key is for nodes, the clients' for clients; without one, programs read.
#[test]
fn a_client_without_a_key_is_told_what_it_needs() {
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let text = running.topology.text().replace("[cluster]\nkey = \"cluster.key\"\n", "");
    let keyless = Topology::parse(&text, "rack.toml".as_ref()).expect("the same without a key");
    let mut client = Client::init(&keyless, Some(1)).expect("a client");
    let value = vec![3; 40_000];
    running.client(2).set(b"big", &value).expect("stored");
    assert_eq!(client.get(b"big").expect("an answer").map(|item| item.value), Some(value), "it pads");
    let refused = client.set(b"k", b"v").expect_err("it has no key").to_string();
    assert!(refused.contains("client_key"), "{refused}");
}

#[test]
fn an_origin_that_a_client_wrote_is_not_believed() {
    let running = Running::start(Shape { controllers: 0, ..TREE }, &[]);
    let asks = Stranger::of(&running, NodeId::Box(BoxId(1)));
    let victim = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut request = Message::request(Verb::Get, b"k");
    request.header.home = HomeId(1);
    request.header.origin = protocol::wire::Origin::new(victim.local_addr().expect("it has one"));
    request.header.sharers.push(BoxId(9), protocol::wire::Token(1));
    asks.send(&request);
    let reply = asks.hear();
    assert_eq!((reply.header.status, reply.header.origin), (Status::Miss, None));
    assert_eq!(reply.header.sharers.token_of(BoxId(9)), None);
}

#[test]
fn versions_of_the_first_life_are_not_zero() {
    let running = Running::start(TREE, &[]);
    assert!(running.client(2).set(b"k", b"v").expect("stored") > Version(0));
}
