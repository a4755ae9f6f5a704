//! What the server's machine costs for each call beside link, decode, encode and handler.
//!
//! A link that is always full of the same request and swallows replies stands for the transport; its own cost (a header and 64 bytes
//! copied each way, two indirect calls for each batch) is measured beside it and shown.
//!
//! The second table is the same with clients over UDP, Unix and TCP connected that say nothing: what it costs others that they are there.
//!
//! `cargo bench -p millrace-fabric --bench server`

use base::Nanos;
use base::clock::Clock;
use fabric::channel::{Channel, Options as ChannelOptions};
use fabric::connection::handshake::{Hello, VERSION};
use fabric::frame::{Header, Kind};
use fabric::link::{Address, Frames, Link, Lost, SendError, Transport};
use fabric::monitor::Monitor;
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::Status;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::hint::black_box;
use tempfile::TempDir;

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "bench.Echo",
    methods: &[MethodDescriptor::new("Say", false, false)],
    hash: 0,
    descriptors: &[],
};

struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body();
        call.reply_bytes(body);
        Ok(())
    }
}

/// Always full of requests; swallows replies.
struct Endless {
    fd: OwnedFd,
    hello: Option<Vec<u8>>,
    request: Vec<u8>,
    window: usize,
    sink: [u8; 128],
}

impl Endless {
    fn new(window: usize) -> Endless {
        let frame = |header: Header, body: &[u8]| [&header.emit()[..], body].concat();
        let hello = Hello { version: VERSION, ..Hello::default() }.emit();
        let request = Header { method: 1, ..Header::new(Kind::Request, 7) };
        Endless {
            fd: eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"),
            hello: Some(frame(Header::new(Kind::Hello, 0), &hello)),
            request: frame(request, &[42; 64]),
            window,
            sink: [0; 128],
        }
    }
}

impl Link for Endless {
    fn transport(&self) -> Transport {
        Transport::Memory
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        if head.len() + body.len() <= self.sink.len() {
            self.sink[..head.len()].copy_from_slice(head);
            self.sink[head.len()..head.len() + body.len()].copy_from_slice(body);
            black_box(&self.sink);
        }
        Ok(())
    }

    fn flush(&mut self, _: Nanos) {}

    fn recv(&mut self, _: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        if let Some(hello) = self.hello.take() {
            into.push(&[&hello]);
            return Ok(1);
        }
        let count = max.min(self.window);
        for _ in 0..count {
            into.push(&[&self.request]);
        }
        Ok(count)
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Short rounds, so that some are not disturbed.
const CALLS: usize = 100_000;
const ROUNDS: usize = 101;

/// ns for each call through the server.
fn through_server(window: usize, monitor: Option<&Monitor>) -> f64 {
    let mut server = Server::new(Options::default()).service(Echo);
    if let Some(monitor) = monitor {
        server = server.monitor(monitor);
    }
    server.accept(Box::new(Endless::new(window)), Nanos(1));
    server.poll(Nanos(1));
    let clock = Clock::shared();
    let start = clock.now();
    let mut done = 0;
    while done < CALLS {
        done += server.poll(clock.now());
    }
    clock.now().since(start).0 as f64 / done as f64
}

/// ns for each call through the link alone.
fn through_link(window: usize) -> f64 {
    let mut link: Box<dyn Link> = black_box(Box::new(Endless::new(window)));
    let mut frames = Frames::default();
    let clock = Clock::shared();
    let start = clock.now();
    let mut done = 0;
    while done < CALLS {
        let now = clock.now();
        frames.clear();
        done += link.recv(now, 64, &mut frames).expect("it is endless");
        while let Some(frame) = frames.pop() {
            let _ = link.try_send(&frame[..16], &frame[16..]);
        }
        link.flush(now);
    }
    clock.now().since(start).0 as f64 / done as f64
}

/// A server with clients that say nothing, and one that leaves no pause.
fn beside_idle(addresses: &[Address], window: usize) -> (Server, Vec<Channel>) {
    let mut server = Server::new(Options::default()).service(Echo);
    for address in addresses {
        server = server.listen(address).expect("nobody else listens there");
    }
    let addresses: Vec<Address> = server.addresses().cloned().collect();
    let connecting = std::thread::spawn(move || {
        let connect = |address| Channel::connect(address, &ChannelOptions::default()).expect("it listens");
        addresses.iter().map(connect).collect()
    });
    let clock = Clock::shared();
    while !connecting.is_finished() {
        server.poll(clock.now());
    }
    server.accept(Box::new(Endless::new(window)), clock.now());
    server.poll(clock.now());
    (server, connecting.join().expect("it is well"))
}

/// ns for each call through a server.
fn calls(server: &mut Server) -> f64 {
    let clock = Clock::shared();
    let start = clock.now();
    let mut done = 0;
    while done < CALLS / 10 {
        done += server.poll(clock.now());
    }
    clock.now().since(start).0 as f64 / done as f64
}

fn idle_clients() {
    println!("the same beside three idle clients over sockets: ns per call, and the ratio round by round");
    println!("{:>7} {:>16} {:>16} {:>16}", "window", "alone", "beside", "beside / alone");
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = folder.path().join("s");
    let udp = "udp:127.0.0.1:0".parse().expect("an address");
    let addresses = [udp, Address::Unix(path), "tcp:127.0.0.1:0".parse().expect("an address")];
    for window in [1, 64] {
        let (mut alone, _) = beside_idle(&[], window);
        let (mut beside, _clients) = beside_idle(&addresses, window);
        let rounds: Vec<[f64; 2]> = (0..ROUNDS).map(|_| [&mut alone, &mut beside].map(calls)).collect();
        let of = |value: &dyn Fn(&[f64; 2]) -> f64| {
            let mut column: Vec<f64> = rounds.iter().map(value).collect();
            column.sort_by(f64::total_cmp);
            column
        };
        let pair = |column: Vec<f64>| format!("{:.1} {:.1}", column[0], column[ROUNDS / 2]);
        let ratio = of(&|round| round[1] / round[0]);
        let [quarter, half, last] = [1, 2, 3].map(|part| ratio[ROUNDS * part / 4]);
        let ratio = format!("{half:.2} ({quarter:.2}–{last:.2})");
        let (alone, beside) = (pair(of(&|round| round[0])), pair(of(&|round| round[1])));
        println!("{window:>7} {alone:>16} {beside:>16} {ratio:>16}");
    }
}

fn main() {
    println!(
        "ns per call, 64-byte echo, best and median of {ROUNDS} rounds, interleaved; the last columns are differences"
    );
    println!(
        "{:>7} {:>16} {:>16} {:>16} {:>16}",
        "window", "server + link", "link alone", "server alone", "a monitor adds"
    );
    let monitor = Monitor::default();
    for window in [1, 4, 16, 64] {
        let round =
            |_| [through_server(window, None), through_link(window), through_server(window, Some(&monitor))];
        let rounds: Vec<[f64; 3]> = (0..ROUNDS).map(round).collect();
        let [(best, median), (link_best, link_median), (seen_best, seen_median)] = [0, 1, 2].map(|side| {
            let mut column: Vec<f64> = rounds.iter().map(|round| round[side]).collect();
            column.sort_by(f64::total_cmp);
            (column[0], column[ROUNDS / 2])
        });
        let pair = |best: f64, median: f64| format!("{best:.1} {median:.1}");
        let (server, link) = (pair(best, median), pair(link_best, link_median));
        let alone = pair(best - link_best, median - link_median);
        let monitor = pair(seen_best - best, seen_median - median);
        println!("{window:>7} {server:>16} {link:>16} {alone:>16} {monitor:>16}");
    }
    idle_clients();
}
