//! What a second core gives a box that misses: `cargo bench -p millrace-serve --bench cores [-- --quick]`.
//!
//! ```text
//!   load ── GET ──▶ box of 1 core, or of 2 ── GET ──▶ home        no key is asked for twice soon: all go up
//!        ◀──────────                       ◀──────────
//! ```
//! Both boxes are the same program and are asked in turns (A B B A …), each with a home of its own, in one process; nodes seal what they say to each
//! other. Shown are replies per second, and the time that all threads of the box were on a processor for each, as the scheduler counted it.
//!
//! *Free*: as fast as it goes. Load, home and box share the machine's processors: with two of them, which one box core, its home and the load fill, a
//! second box core finds no processor, and the ratio says nothing of what cores do to each other. *Held*: after each turn a core sleeps four times as
//! long as it was on a processor, as if it had a fifth of one. Then the box is what bounds, on two processors too, and the ratio says how the work
//! divides.

use base::{Bytes, Clock, Nanos, spread};
use protocol::coherence::boxes::shards::Shard;
use protocol::coherence::compute::Item;
use protocol::coherence::guard::{Keys, Numbering};
use protocol::coherence::home::items::Items;
use protocol::coherence::table::Layout;
use protocol::coherence::{CacheBox, Config, Guard, Home, Life, NodeId, Out};
use protocol::planted::NoBugs;
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Message, OpNumber, Verb, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use serve::inc::book::Book;
use serve::inc::cores::{Core, star};
use serve::inc::datagrams::{Arrivals, BATCH, Departures};
use serve::inc::driver::Driver;
use serve::inc::group;
use serve::inc::items::StoreItems;
use serve::inc::machine::{Counters, Machine};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::Scope;
use std::time::Duration;

const HOME: NodeId = NodeId::Home(HomeId(1));
const BOX: NodeId = NodeId::Box(BoxId(1));
const FIRST: (Incarnation, Life) = (Incarnation(1), Life::First);
const KEYS: usize = 1 << 16;
const VALUE: usize = 100;
/// Copies of a box: few of so many keys.
const COPIES: usize = 256;
const WINDOW: usize = 128;
/// Of a held core's time so many parts are sleep for each at work.
const HELD: u32 = 4;

fn key(at: usize) -> Vec<u8> {
    format!("key:{at:08}").into_bytes()
}

/// A machine whose thread sleeps after each turn for [`HELD`] times as long as it was on a processor.
struct Slowed<M> {
    machine: M,
    holds: u32,
    busy: Duration,
}

fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl<M: Machine> Machine for Slowed<M> {
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.machine.handle(now, from, message, out);
    }

    fn tick(&mut self, now: Nanos, out: &mut Out) {
        self.machine.tick(now, out);
    }

    fn next_deadline(&self) -> Nanos {
        self.machine.next_deadline()
    }

    fn counters(&self) -> Counters {
        self.machine.counters()
    }

    fn arm(&mut self) {
        if self.holds > 0 {
            let busy = on_processor();
            std::thread::sleep((busy - self.busy) * self.holds);
            self.busy = on_processor();
        }
        self.machine.arm();
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.machine.bell()
    }

    fn disarm(&mut self) {
        self.machine.disarm();
    }
}

/// A box that runs, and its threads.
struct Running {
    address: SocketAddr,
    threads: Vec<i32>,
}

impl Running {
    /// For how many nanoseconds its threads were on a processor.
    fn busy(&self) -> f64 {
        let of = |thread: &i32| {
            let path = format!("/proc/self/task/{thread}/schedstat");
            let text = std::fs::read_to_string(path).expect("the kernel counts");
            text.split_whitespace()
                .next()
                .and_then(|first| first.parse::<f64>().ok())
                .expect("a number comes first")
        };
        self.threads.iter().map(of).sum()
    }
}

/// A home, and a box of so many cores before it.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (cores, holds): (u8, u32),
    stop: &'scope AtomicBool,
) -> Running {
    let config = Config { lease: Nanos::from_secs(3600), copies: COPIES, ..Config::default() };
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback has ports"));
    let [home, address] = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
    let book = Arc::new(Book::new([(HOME, home), (BOX, address)]).expect("they differ"));
    let mut items = StoreItems::new(Bytes(256 << 20)).expect("memory");
    for at in 0..KEYS {
        let item =
            Item { value: vec![7; VALUE], flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos::MAX };
        assert!(items.store(&key(at), item));
    }
    let now = Clock::shared().now();
    let keys = Some(Keys::of_cluster(&base::key::Key::generate()));
    let [at_home, at_box] = sockets;
    let machine = Home::new(&config, HomeId(1), layout.clone(), FIRST, now, items);
    run(scope, machine, (at_home, &book, Guard::new(HOME, FIRST.0, keys.clone())), stop);
    let last = AtomicU64::new(u64::from(FIRST.0.0) << 32);
    let numbering: Numbering = Arc::new(move || last.fetch_add(1, Ordering::Relaxed) + 1);
    let at_box = group::beside(at_box, cores).expect("a group");
    let ends = star(cores).expect("descriptors");
    let threads = Shard::all(cores).zip(at_box).zip(ends).map(|((shard, socket), ends)| {
        let cache = CacheBox::new(&config, BoxId(1), layout.clone(), FIRST, now);
        let mut guard = Guard::new(BOX, FIRST.0, keys.clone());
        let busy = Duration::ZERO;
        if cores == 1 {
            let machine = Slowed { machine: cache, holds, busy };
            return run(scope, machine, (socket, &book, guard), stop);
        }
        guard.share(|_, _| numbering.clone());
        let core = Core::new(cache.as_shard(shard), shard, ends, NoBugs);
        run(scope, Slowed { machine: core, holds, busy }, (socket, &book, guard), stop)
    });
    Running { address, threads: threads.collect() }
}

/// The thread that a machine runs in.
fn run<'scope, M: Machine + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    machine: M,
    (socket, book, guard): (UdpSocket, &Arc<Book>, Guard),
    stop: &'scope AtomicBool,
) -> i32 {
    let mut driver = Driver::new(machine, socket, book, guard).expect("a socket");
    let (say, hear) = channel();
    scope.spawn(move || {
        say.send(gettid().as_raw_nonzero().get()).expect("somebody waits for it");
        driver.run(stop).expect("the socket works");
    });
    hear.recv().expect("the thread says so first")
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
            message.padding = 256;
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

    /// Replies per second, and the box's nanoseconds for each.
    fn drive(&mut self, node: &Running, span: Nanos) -> [f64; 2] {
        let clock = Clock::shared();
        let (begun, busy) = (clock.now(), node.busy());
        let (mut replies, mut under_way) = (0u64, 0usize);
        while clock.now().since(begun) < span {
            while under_way < WINDOW {
                self.next = (self.next + 1) % KEYS;
                let packet = &self.packets[self.next];
                if self.departures.is_full() {
                    self.departures.send(&self.socket);
                }
                self.departures.push(node.address, |bytes| bytes.extend_from_slice(packet));
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

    /// How many replies came; none within some milliseconds: what is under way is lost.
    fn arrive(&mut self) -> usize {
        let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&patience));
        self.arrivals.receive(&self.socket, BATCH).unwrap_or(0)
    }
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, span) = if is_quick { (4, Nanos::from_millis(50)) } else { (40, Nanos::from_millis(250)) };
    let stop = AtomicBool::new(false);
    println!("GETs of {VALUE} bytes that a box misses, {WINDOW} under way, {rounds} rounds of {span} each");
    println!(
        "{:5}  {:>30}  {:>30}  {:>9}",
        "", "misses/s: 1, 2 cores, ratio", "box's ns/miss: 1, 2, ratio", "per CPU"
    );
    std::thread::scope(|scope| {
        let mut load = Load::new();
        for (name, holds) in [("free", 0), ("held", HELD)] {
            let sides = [1, 2].map(|cores| start(scope, (cores, holds), &stop));
            for side in &sides {
                load.drive(side, span);
            }
            let mut figures = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                    figures[side].push(load.drive(&sides[side], span));
                }
            }
            let costs = figures.each_ref().map(|side| spread::median(side.iter().map(|figures| figures[1])));
            println!(
                "{name:5}  {:>30}  {:>30}  {:>9.2}",
                compare(&figures, 0),
                compare(&figures, 1),
                // So many misses would two processors of their own do, for one that one does.
                2.0 * costs[0] / costs[1],
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn compare([one, two]: &[Vec<[f64; 2]>; 2], at: usize) -> String {
    let median = |side: &[[f64; 2]]| spread::median(side.iter().map(|figures| figures[at]));
    let ratios = spread::text(one.iter().zip(two).map(|(one, two)| two[at] / one[at]), 2);
    format!("{:.0} {:.0} {ratios}", median(one), median(two))
}
