//! What a request costs a home and a box over loopback, with datagrams one at a time and in batches: `cargo bench -p millrace-serve --bench
//! nodes [-- --quick]`.
//!
//! Both sides are the same program and run in turns (A B B A …) in one process: a node that receives and sends one datagram by a call, and one that
//! does up to 64. Load comes from one thread with a window of requests under way, in batches on both sides. The home answers every GET itself; the
//! box answers from copies, as all its keys are asked for before. Shown are requests per second, and the node's time on a processor for each as the
//! scheduler counted it, which other programs on the machine disturb less. A ratio is of two neighbouring turns; medians, and p10 to p90.

use base::spread;
use base::{Bytes, Clock, Nanos};
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::Items;
use protocol::coherence::table::Layout;
use protocol::coherence::{CacheBox, Config, Guard, Home, Life, NodeId};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Message, OpNumber, Verb, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::gettid;
use serve::inc::book::Book;
use serve::inc::datagrams::{Arrivals, BATCH, Departures};
use serve::inc::driver::Driver;
use serve::inc::items::StoreItems;
use serve::inc::machine::Machine;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::Scope;

const HOME: NodeId = NodeId::Home(HomeId(1));
const BOX: NodeId = NodeId::Box(BoxId(1));
const FIRST: (Incarnation, Life) = (Incarnation(1), Life::First);
const KEYS: usize = 1000;
const VALUE: usize = 100;
const WINDOWS: [usize; 3] = [1, 16, 128];

fn key(at: usize) -> Vec<u8> {
    format!("key:{at:08}").into_bytes()
}

/// A node that runs, and the thread that it runs in.
struct Node {
    address: SocketAddr,
    thread: i32,
}

impl Node {
    /// For how many nanoseconds its thread was on a processor.
    fn busy(&self) -> f64 {
        let path = format!("/proc/self/task/{}/schedstat", self.thread);
        let text = std::fs::read_to_string(path).expect("the kernel counts");
        text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number comes first")
    }
}

/// A home and a box before it, which receive and send at most `per_call` datagrams at a time.
fn start<'scope>(scope: &'scope Scope<'scope, '_>, per_call: usize, stop: &'scope AtomicBool) -> [Node; 2] {
    // No lease ends while it is measured.
    let config = Config { lease: Nanos::from_secs(3600), ..Config::default() };
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback has ports"));
    let [home, cache] = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
    let book = Arc::new(Book::new([(HOME, home), (BOX, cache)]).expect("they differ"));
    let mut items = StoreItems::new(Bytes(64 << 20)).expect("memory");
    for at in 0..KEYS {
        let item =
            Item { value: vec![7; VALUE], flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos::MAX };
        assert!(items.store(&key(at), item));
    }
    let now = Clock::shared().now();
    let [at_home, at_box] = sockets;
    let home = Home::new(&config, HomeId(1), layout.clone(), FIRST, now, items);
    let cache = CacheBox::new(&config, BoxId(1), layout, FIRST, now);
    [
        run(scope, home, (at_home, &book, HOME), per_call, stop),
        run(scope, cache, (at_box, &book, BOX), per_call, stop),
    ]
}

fn run<'scope, M: Machine + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    machine: M,
    (socket, book, node): (UdpSocket, &Arc<Book>, NodeId),
    per_call: usize,
    stop: &'scope AtomicBool,
) -> Node {
    let address = socket.local_addr().expect("bound");
    // The load's packets have no proof: what one costs is in `cargo bench -p millrace-protocol --bench wire`.
    let guard = Guard::new(node, FIRST.0, None);
    let driver = Driver::new(machine, socket, book, guard).expect("a socket");
    let mut driver = driver.with_per_call(per_call);
    let (say, hear) = channel();
    scope.spawn(move || {
        say.send(gettid().as_raw_nonzero().get()).expect("somebody waits for it");
        driver.run(stop).expect("the socket works");
    });
    Node { address, thread: hear.recv().expect("the thread says so first") }
}

/// The load.
struct Load {
    socket: UdpSocket,
    packets: Vec<Vec<u8>>,
    next: usize,
    arrivals: Arrivals,
    departures: Departures,
}

impl Load {
    fn new() -> Load {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
        socket.set_nonblocking(true).expect("sockets can");
        let packet = |at: usize| {
            let mut message = Message::request(Verb::Get, &key(at));
            message.header.client = ClientId(1);
            message.header.home = HomeId(1);
            message.header.operation = OpNumber(1 << 63 | at as u64);
            let mut packet = Vec::new();
            message.emit(&mut packet);
            packet
        };
        Load {
            socket,
            packets: (0..KEYS).map(packet).collect(),
            next: 0,
            arrivals: Arrivals::new(),
            departures: Departures::default(),
        }
    }

    /// Replies per second with so many requests under way, and the node's nanoseconds for each.
    fn drive(&mut self, node: &Node, window: usize, span: Nanos) -> [f64; 2] {
        let (clock, to) = (Clock::shared(), node.address);
        let (begun, busy) = (clock.now(), node.busy());
        let (mut replies, mut under_way) = (0u64, 0usize);
        while clock.now().since(begun) < span {
            while under_way < window {
                self.ask(to);
                under_way += 1;
            }
            self.departures.send(&self.socket);
            match self.arrive() {
                0 => under_way = 0,
                count => {
                    replies += count as u64;
                    under_way = under_way.saturating_sub(count);
                }
            }
        }
        let rate = replies as f64 / clock.now().since(begun).as_secs_f64();
        while self.arrive() > 0 {}
        [rate, (node.busy() - busy) / replies.max(1) as f64]
    }

    fn ask(&mut self, to: SocketAddr) {
        if self.departures.is_full() {
            self.departures.send(&self.socket);
        }
        self.next = (self.next + 1) % KEYS;
        let packet = &self.packets[self.next];
        self.departures.push(to, |bytes| bytes.extend_from_slice(packet));
    }

    /// How many replies came; none within some milliseconds: what is under way is lost.
    fn arrive(&mut self) -> usize {
        let patience = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&patience));
        self.arrivals.receive(&self.socket, BATCH).unwrap_or(0)
    }
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, span) = if is_quick { (4, Nanos::from_millis(30)) } else { (40, Nanos::from_millis(100)) };
    let stop = AtomicBool::new(false);
    println!(
        "GET of {VALUE} bytes over loopback, {rounds} rounds of {span} each; one datagram per call, and up to {BATCH}"
    );
    println!(
        "{:5} {:>6}  {:>34}  {:>34}",
        "node", "window", "requests/s: one, many, ratio", "node's ns/request: one, many, ratio"
    );
    std::thread::scope(|scope| {
        let sides = [start(scope, 1, &stop), start(scope, BATCH, &stop)];
        let mut load = Load::new();
        for (at, name) in ["home", "box"].into_iter().enumerate() {
            // Fills the box.
            for side in &sides {
                load.drive(&side[at], 16, span);
            }
            for window in WINDOWS {
                let mut figures = [Vec::new(), Vec::new()];
                for round in 0..rounds {
                    let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                    for side in order {
                        figures[side].push(load.drive(&sides[side][at], window, span));
                    }
                }
                println!("{name:5} {window:>6}  {:>34}  {:>34}", compare(&figures, 0), compare(&figures, 1));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn compare([one, many]: &[Vec<[f64; 2]>; 2], at: usize) -> String {
    let median = |side: &[[f64; 2]]| spread::median(side.iter().map(|figures| figures[at]));
    let ratios = spread::text(one.iter().zip(many).map(|(one, many)| many[at] / one[at]), 2);
    format!("{:.0} {:.0} {ratios}", median(one), median(many))
}
