//! Handlers at every place, and moved while calls flow: counters say that none was lost, done twice or answered with another's reply.

use super::come;
use crate::engine_cores::{EngineCores, EngineWishes};
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, What};
use fabric::link::Address;
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::Status;
use ring::wait::WaitPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// More than any call takes that is answered at all.
const PATIENCE: Duration = Duration::from_secs(30);
const KEYS: u8 = 5;

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Count",
    methods: &[MethodDescriptor::new("Next", false, false)],
    hash: 1,
    descriptors: b"\x0a\x03\x0a\x01a",
};

/// Counts for each key; a long reply now and then, which has no room in a slot.
#[derive(Clone, Default)]
struct Count(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    keys: BTreeMap<u8, u32>,
    threads: BTreeSet<String>,
}

impl Service for Count {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let key = call.body()[0];
        let mut counted = self.0.lock().expect("no poison");
        counted.threads.insert(thread::current().name().unwrap_or_default().to_owned());
        let next = counted.keys.entry(key).or_default();
        *next += 1;
        let mut reply = [&[key][..], &next.to_le_bytes()].concat();
        reply.resize(5 + (*next as usize % 7) * 100, key);
        call.reply_bytes(&reply);
        Ok(())
    }
}

/// A client's calls, 8 at a time: keys and what they were told.
fn ask(channel: &mut Channel, calls: u64, mut between: impl FnMut(u64)) -> Vec<(u8, u32)> {
    let method = channel.method("test.Count/Next").expect("it is served");
    let (mut next, mut open, mut seen) = (0, BTreeMap::new(), Vec::new());
    while next < calls || !open.is_empty() {
        while next < calls && open.len() < 8 {
            let key = (next % u64::from(KEYS)) as u8;
            match channel.start(method, &CallOptions::default(), next, &[key]) {
                Ok(_) => drop(open.insert(next, key)),
                Err(StartError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let polled = channel.poll(64, |event| {
            let key = open.remove(&event.user).expect("a call ends once");
            let What::Reply(reply) = event.what else { panic!("{:?}", event.what) };
            assert!(reply[5..].iter().all(|&byte| byte == key) && reply[0] == key, "another's reply");
            seen.push((key, u32::from_le_bytes(*reply[1..].first_chunk().expect("four bytes"))));
        });
        between(next);
        if polled == 0 {
            channel.wait(WaitPolicy::default(), Some(PATIENCE));
        }
    }
    seen
}

/// Each key's values are 1, 2, 3…: none was lost or done twice. (`millrace soak places` judges their order, too.)
fn check(mut seen: Vec<(u8, u32)>, calls: usize) {
    assert_eq!(seen.len(), calls);
    seen.sort_unstable();
    let mut last = (0, 0);
    for (key, value) in seen {
        let before = if key == last.0 { last.1 } else { 0 };
        assert_eq!(value, before + 1, "key {key}");
        last = (key, value);
    }
}

/// A server on a thread of its own, with an engine.
fn with_server(registers: &Arc<Registers>, work: impl FnOnce(&Address)) -> BTreeSet<String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let address = Address::Memory(format!("places-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let (count, stop) = (Count::default(), AtomicBool::new(false));
    let server = Server::new(Options::default()).service(count.clone()).registers(Arc::clone(registers));
    let server = server.listen(&address).expect("nobody else listens there");
    let cores = EngineCores::for_one(EngineWishes::default()).expect("no host threads");
    let (mut server, engine) = come(server, cores.core(0), registers).expect("a thread");
    thread::scope(|scope| {
        let serving = thread::Builder::new().name("edge".to_owned());
        serving.spawn_scoped(scope, || server.run(WaitPolicy::default(), &stop)).expect("a thread");
        // Also when a check fails.
        let _stop = StopAtEnd(&stop);
        work(&address);
    });
    drop((server, engine));
    let threads = &count.0.lock().expect("no poison").threads;
    threads.clone()
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect(address: &Address) -> Channel {
    Channel::connect(address, &ChannelOptions::default()).expect("a server")
}

#[test]
fn handlers_run_where_the_register_says() {
    for (place, thread) in [("edge", "edge"), ("host", "worker-"), ("engine", "engine-0")] {
        let registers = Arc::new(Registers::default());
        registers.set("place.handlers", place).expect("a place");
        let threads = with_server(&registers, |address| {
            let seen = ask(&mut connect(address), 500, |_| ());
            check(seen, 500);
        });
        assert!(threads.iter().all(|name| name.starts_with(thread)), "{place}: {threads:?}");
    }
}

#[test]
fn handlers_that_move_while_calls_flow_lose_and_double_nothing() {
    let registers = Arc::new(Registers::default());
    let threads = with_server(&registers, |address| {
        let history = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for client in 0..3 {
                let (registers, history) = (&registers, &history);
                scope.spawn(move || {
                    let mut moved = 0;
                    let seen = ask(&mut connect(address), 3000, |next| {
                        if client == 0 && next >= 10 * moved {
                            moved += 1;
                            let place = ["engine", "edge", "host", "engine", "host", "edge", "auto"];
                            let place = place[moved as usize % 7];
                            registers.set_live("place.handlers", place).expect("a place");
                            let (other, share) = (["edge", "host", "engine"], ["0", "30", "100", "55"]);
                            let (other, share) = (other[moved as usize % 3], share[moved as usize % 4]);
                            registers.set_live("place.other", other).expect("a place");
                            registers.set_live("place.share", share).expect("a share");
                        }
                    });
                    history.lock().expect("no poison").extend(seen);
                });
            }
        });
        check(history.into_inner().expect("no poison"), 9000);
    });
    assert!(threads.len() >= 3, "{threads:?}");
}
