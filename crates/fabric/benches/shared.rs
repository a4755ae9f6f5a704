//! One connection for many threads, who drive it in turns, against a connection for each thread.
//!
//! `cargo bench -p millrace-fabric --bench shared` (`-- --quick`: few rounds). Both sides call the same server, a thread of this process, over rings
//! in memory, where a connection more costs next to nothing, and over sockets, where it costs system calls; 64-byte echoes of bytes.
//! Window 16: so many calls in flight per thread, with a completion queue; window 1: blocking calls. Rounds
//! alternate; printed are medians of the rounds, and the median of the rounds' ratios (shared to own) with their quartiles. Processor time is
//! the whole process': threads, standby, and the server with one connection that is busy or with many.

use fabric::channel::{CallOptions, Channel, Event, Method, Options as ChannelOptions, StartError, What};
use fabric::link::Address;
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::shared::{Member, Shared, SharedOptions};
use fabric::status::Status;
use ring::wait::WaitPolicy;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tempfile::TempDir;

const WINDOW: usize = 16;
const BODY: [u8; 64] = [7; 64];

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

/// A thread's way to the server.
trait Way: Send {
    fn start(&mut self, method: Method, user: u64) -> Result<(), StartError>;
    fn poll(&mut self, each: impl FnMut(Event<'_>)) -> usize;
    fn wait(&mut self);
    fn call(&mut self, method: Method) -> usize;
}

impl Way for Channel {
    fn start(&mut self, method: Method, user: u64) -> Result<(), StartError> {
        Channel::start(self, method, &CallOptions::default(), user, &BODY).map(drop)
    }

    fn poll(&mut self, each: impl FnMut(Event<'_>)) -> usize {
        Channel::poll(self, WINDOW, each)
    }

    fn wait(&mut self) {
        Channel::wait(self, WaitPolicy::default(), None);
    }

    fn call(&mut self, method: Method) -> usize {
        self.call_bytes(method, &CallOptions::default(), &BODY).expect("it answers").body.len()
    }
}

impl Way for Member {
    fn start(&mut self, method: Method, user: u64) -> Result<(), StartError> {
        Member::start(self, method, &CallOptions::default(), user, &BODY).map(drop)
    }

    fn poll(&mut self, each: impl FnMut(Event<'_>)) -> usize {
        Member::poll(self, WINDOW, each)
    }

    fn wait(&mut self) {
        Member::wait(self, WaitPolicy::default(), None);
    }

    fn call(&mut self, method: Method) -> usize {
        self.call_bytes(method, &CallOptions::default(), &BODY).expect("it answers").body.len()
    }
}

/// What a row is about.
#[derive(Clone, Copy)]
struct Row {
    threads: usize,
    window: usize,
    /// Of all threads together, in a round.
    calls: usize,
    rounds: usize,
}

fn call_all(way: &mut impl Way, method: Method, calls: usize, window: usize) {
    if window == 1 {
        for _ in 0..calls {
            assert_eq!(way.call(method), BODY.len());
        }
        return;
    }
    let (mut started, mut ended) = (0, 0);
    while ended < calls {
        while started < calls && started - ended < window {
            way.start(method, started as u64).expect("the window is smaller than any table");
            started += 1;
        }
        let got = way.poll(|event| {
            let What::Reply(body) = event.what else { panic!("every call is answered") };
            assert_eq!(body.len(), BODY.len());
        });
        ended += got;
        if got == 0 {
            way.wait();
        }
    }
}

/// Calls per microsecond, and ns of processor time per call.
fn round(ways: &mut [impl Way], method: Method, row: Row) -> (f64, f64) {
    let each = row.calls / ways.len();
    let (begin, before) = (Instant::now(), processor_ns());
    std::thread::scope(|scope| {
        for way in &mut *ways {
            scope.spawn(move || call_all(way, method, each, row.window));
        }
    });
    let calls = (each * ways.len()) as f64;
    (calls / begin.elapsed().as_micros() as f64, (processor_ns() - before) as f64 / calls)
}

/// Processor time of the process.
fn processor_ns() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = AtomicBool::new(false);
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 3 } else { 15 };
    println!("{cores} cores, {rounds} rounds of each side");
    println!(
        "{:>9} {:>7} {:>6}  {:>10} {:>10} {:>22}  {:>10} {:>10} {:>22}",
        "transport",
        "threads",
        "window",
        "own Mrps",
        "shared",
        "shared/own",
        "own cpu ns",
        "shared",
        "shared/own"
    );
    let name = format!("bench-shared-{}", std::process::id());
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let unix = format!("unix:{}", folder.path().join("s").display());
    // Calls of a round: a few tens of milliseconds of them.
    let transports = [
        (format!("memory:{name}"), 60_000, 16_000),
        (unix, 30_000, 4_000),
        ("udp:127.0.0.1:0".to_owned(), 20_000, 2_000),
        ("tcp:127.0.0.1:0".to_owned(), 20_000, 2_000),
    ];
    for (address, many, single) in transports {
        let address: Address = address.parse().expect("an address");
        let mut server = Server::new(Options::default()).service(Echo).listen(&address).expect("it is free");
        let address = server.addresses().next().expect("it listens").clone();
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(WaitPolicy::default(), &stop));
            for (window, calls) in [(WINDOW, many), (1, single)] {
                for threads in [1, 2, 4, 8] {
                    compare(&address, Row { threads, window, calls, rounds });
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        stop.store(false, Ordering::Relaxed);
    }
}

fn compare(address: &Address, row: Row) {
    let Row { threads, window, rounds, .. } = row;
    let connect = || Channel::connect(address, &ChannelOptions::default()).expect("the server is there");
    let mut own: Vec<Channel> = (0..threads).map(|_| connect()).collect();
    let shared = Shared::new(connect(), &SharedOptions::default()).expect("a thread");
    let mut members: Vec<Member> = (0..threads).map(|_| shared.member().expect("room")).collect();
    let method = shared.method("/bench.Echo/Say").expect("it is served");
    let (mut owns, mut shareds) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        owns.push(round(&mut own, method, row));
        shareds.push(round(&mut members, method, row));
    }
    let column = |side: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| quartiles(side.iter().map(pick)).1;
    let ratio = |pick: fn(&(f64, f64)) -> f64| {
        let (low, middle, high) =
            quartiles(owns.iter().zip(&shareds).map(|(own, all)| pick(all) / pick(own)));
        format!("{middle:.2} [{low:.2} .. {high:.2}]")
    };
    println!(
        "{:>9} {threads:>7} {window:>6}  {:>10.3} {:>10.3} {:>22}  {:>10.0} {:>10.0} {:>22}",
        address.transport().name(),
        column(&owns, |r| r.0),
        column(&shareds, |r| r.0),
        ratio(|r| r.0),
        column(&owns, |r| r.1),
        column(&shareds, |r| r.1),
        ratio(|r| r.1)
    );
}

/// Lower quarter, median, upper quarter.
fn quartiles(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values[(values.len() - 1) * part / 4];
    (at(1), at(2), at(3))
}
