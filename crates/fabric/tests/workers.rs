//! Workers behind a server, end to end between threads: every balancer and provisioning, changed by registers while calls flow.
//!
//! Each call carries its number; its handler notes it, so that one that was lost, doubled or answered with another's reply is seen.

use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, What};
use fabric::link::{Address, LinkOptions, connect};
use fabric::registers::Registers;
use fabric::server::{Options, Server, WorkersPlan};
use fabric::service::{
    Incoming, Key, KeyKind, MethodDescriptor, MethodOptions, Responder, Service, ServiceDescriptor,
};
use fabric::status::{Code, Status};
use fabric::workers::{Balancing, Provisioning, WorkersOptions};
use ring::wait::WaitPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

/// Its key is field 1.
const fn unary(name: &'static str) -> MethodDescriptor {
    let key = Some(Key { fields: &[1], kind: KeyKind::Uint32 });
    let options = MethodOptions { key, ..MethodOptions::NONE };
    MethodDescriptor { options, ..MethodDescriptor::new(name, false, false) }
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Work",
    methods: &[unary("Say"), unary("Later"), unary("Panic")],
    hash: 1,
    descriptors: b"\x0a\x03\x0a\x01a",
};

/// What the handlers did.
#[derive(Default)]
struct Seen {
    /// How often each call ran.
    runs: BTreeMap<u32, u32>,
    /// Where each key's calls ran.
    places: BTreeMap<u8, BTreeSet<String>>,
    threads: Vec<ThreadId>,
    later: Vec<Responder>,
}

#[derive(Clone, Default)]
struct Work(Arc<Mutex<Seen>>);

/// A message whose field 1 is a key, with the call's number behind it.
fn message(key: u8, number: u32) -> Vec<u8> {
    [&[0x08, key, 0x15][..], &number.to_le_bytes()].concat()
}

impl Service for Work {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body();
        if let Some(number) = body.get(3..).and_then(|bytes| bytes.first_chunk()) {
            let mut seen = self.0.lock().expect("no poison");
            *seen.runs.entry(u32::from_le_bytes(*number)).or_default() += 1;
            let name = thread::current().name().unwrap_or_default().to_owned();
            seen.places.entry(body[1]).or_default().insert(name);
            let id = thread::current().id();
            if !seen.threads.contains(&id) {
                seen.threads.push(id);
            }
        }
        match method {
            0 => call.reply_bytes(body),
            1 => self.0.lock().expect("no poison").later.push(call.defer()),
            _ => panic!("a handler's mistake"),
        }
        Ok(())
    }
}

/// A server on a thread of its own, until it is dropped.
struct Running {
    address: Address,
    work: Work,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(make: impl FnOnce(Server) -> Server) -> Running {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let address = Address::Memory(format!("workers-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let work = Work::default();
        let server = Server::new(Options::default()).service(work.clone());
        let mut server = make(server).listen(&address).expect("nobody else listens there");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new().name("server".into());
        let thread = thread.spawn(move || server.run(WaitPolicy::default(), &seen)).expect("a thread");
        Running { address, work, stop, thread: Some(thread) }
    }

    fn connect(&self) -> Channel {
        Channel::connect(&self.address, &ChannelOptions::default()).expect("a server")
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.work.0.lock().expect("no poison")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = self.thread.take().expect("it runs").join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn with_workers(count: usize, balancing: Balancing, provisioning: Provisioning) -> WorkersPlan {
    let options = WorkersOptions { balancing, provisioning, ..WorkersOptions::default() };
    WorkersPlan { count, options, services: Vec::new() }
}

/// Makes these calls, 16 at a time, and checks their replies; between two rounds `between` is done.
fn say(channel: &mut Channel, numbers: std::ops::Range<u32>, mut between: impl FnMut(&mut Channel, u32)) {
    let method = channel.method("test.Work/Say").expect("it is served");
    let (mut next, mut open, end) = (numbers.start, BTreeSet::new(), numbers.end);
    while next < end || !open.is_empty() {
        while next < end && open.len() < 16 {
            let body = message((next % 7) as u8, next);
            match channel.start(method, &CallOptions::default(), u64::from(next), &body) {
                Ok(_) => assert!(open.insert(next)),
                Err(StartError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let polled = channel.poll(64, |event| {
            let number = event.user as u32;
            assert!(open.remove(&number), "call {number} ended twice");
            assert_eq!(event.what, What::Reply(&message((number % 7) as u8, number)));
        });
        between(channel, next);
        if polled == 0 {
            channel.wait(WaitPolicy::default(), Some(Duration::from_secs(10)));
        }
    }
}

fn check_runs(running: &Running, calls: u32) {
    let seen = running.seen();
    assert_eq!(seen.runs.len(), calls as usize);
    assert!(seen.runs.values().all(|&runs| runs == 1), "each call ran once");
}

#[test]
fn every_balancer_and_provisioning() {
    for (balancing, provisioning) in
        Balancing::ALL.into_iter().flat_map(|b| Provisioning::ALL.map(|p| (b, p)))
    {
        let plan = with_workers(2, balancing, provisioning);
        let running = Running::start(|server| server.workers(&plan).expect("threads"));
        say(&mut running.connect(), 0..300, |_, _| ());
        check_runs(&running, 300);
        let seen = running.seen();
        assert!(seen.places.values().flatten().all(|name| name.starts_with("worker-")), "{:?}", seen.places);
        if balancing == Balancing::KeyHash && provisioning != Provisioning::Single {
            assert!(seen.places.values().all(|places| places.len() == 1), "a key has one worker");
        }
    }
}

#[test]
fn everything_changes_while_calls_flow() {
    let registers = Arc::new(Registers::default());
    let running = Running::start(|server| server.registers(Arc::clone(&registers)));
    let set = |name: &str, value: &str| registers.set_live(name, value).expect("a legal value");
    let mut step = 0usize;
    let mut channel = running.connect();
    say(&mut channel, 0..4000, |_, next| {
        if (next as usize) < 50 * step {
            return;
        }
        step += 1;
        match step % 7 {
            0 => set("workers.count", ["2", "0", "3", "1"][step / 7 % 4]),
            1 => {
                let balancers = ["static", "round_robin", "key_hash", "two_choices", "shortest_queue"];
                set("workers.balancer", balancers[step / 7 % 5]);
            }
            2 => set("workers.provisioning", ["per_connection", "single", "per_core"][step / 7 % 3]),
            3 => set("port.mode", ["inline", "doorbell", "coherent"][step / 7 % 3]),
            4 => set("ring.entries", ["16", "64", "32"][step / 7 % 3]),
            // Without an engine, engine is auto.
            5 => set("place.handlers", ["host", "edge", "engine", "auto"][step / 7 % 4]),
            _ => {
                set("batch.mode", ["fixed", "adaptive"][step / 7 % 2]);
                set("batch.size", ["1", "4", "64"][step / 7 % 3]);
                set("poll.threshold", ["0", "1000000000"][step / 7 % 2]);
            }
        }
    });
    check_runs(&running, 4000);
    let seen = running.seen();
    let places: BTreeSet<&String> = seen.places.values().flatten().collect();
    assert!(places.len() > 2 && places.contains(&"server".to_owned()), "{places:?}");
}

#[test]
fn deferred_calls_panics_and_deadlines() {
    let plan = with_workers(2, Balancing::RoundRobin, Provisioning::PerCore);
    let running = Running::start(|server| server.workers(&plan).expect("threads"));
    let mut channel = running.connect();
    let [later, broken] =
        ["test.Work/Later", "test.Work/Panic"].map(|path| channel.method(path).expect("served"));
    for _ in 0..3 {
        let panicked = channel.call_bytes(broken, &CallOptions::default(), b"").expect_err("it panics");
        assert_eq!(panicked.code(), Code::Internal);
    }
    let soon = CallOptions::within(Duration::from_millis(30));
    let late = channel.call_bytes(later, &soon, b"never").expect_err("nobody answers");
    assert_eq!(late.code(), Code::DeadlineExceeded);
    let first = channel.start(later, &CallOptions::default(), 7, b"in time").expect("room");
    channel.flush();
    let mut answer = None;
    while answer.is_none() {
        // The first is the one that was given up; it may be answered all the same.
        for responder in running.seen().later.drain(..) {
            responder.reply_bytes(b"at last");
        }
        channel.wait(WaitPolicy::default(), Some(Duration::from_millis(5)));
        channel.poll(8, |event| {
            if event.call == first {
                answer = Some((event.user, event.what == What::Reply(b"at last")));
            }
        });
    }
    assert_eq!(answer, Some((7, true)));
    say(&mut channel, 0..100, |_, _| ());
}

#[test]
fn more_calls_than_the_workers_have_room_for_wait() {
    let registers = Arc::new(Registers::default());
    for (name, value) in
        [("workers.count", "1"), ("ring.entries", "16"), ("workers.provisioning", "per_connection")]
    {
        registers.set(name, value).expect("a legal value");
    }
    let running = Running::start(|server| server.registers(Arc::clone(&registers)));
    let mut channels: Vec<Channel> = (0..8).map(|_| running.connect()).collect();
    thread::scope(|scope| {
        for (nth, channel) in channels.iter_mut().enumerate() {
            let first = nth as u32 * 1000;
            scope.spawn(move || say(channel, first..first + 500, |_, _| ()));
        }
    });
    check_runs(&running, 4000);
}

#[test]
fn bounds_of_connections_follow_registers() {
    let registers = Arc::new(Registers::default());
    let running = Running::start(|server| server.registers(Arc::clone(&registers)));
    registers.set_live("calls.max", "3").expect("legal");
    let settled = |calls: usize| {
        let mut channel = running.connect();
        while channel.max_calls() != calls {
            channel = running.connect();
        }
        channel
    };
    let kept = settled(3);
    registers.set_live("calls.max", "5").expect("legal");
    assert_eq!((settled(5).max_calls(), kept.max_calls()), (5, 3));
    let own = Arc::new(Registers::default());
    own.set("calls.max", "2").expect("legal");
    let options = ChannelOptions { registers: Some(own), ..ChannelOptions::default() };
    let link = connect(&running.address, &LinkOptions::default()).expect("a server");
    assert_eq!(Channel::over(link, &options).expect("a server").max_calls(), 2);
}
