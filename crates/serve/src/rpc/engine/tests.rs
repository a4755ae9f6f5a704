//! Handlers at every place, and moved while calls flow: a history of counters says that none was lost, done twice, answered with another's reply
//! or out of order.

use super::EngineCore;
use crate::admin::health::Beat;
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
    methods: &[MethodDescriptor { name: "Next", client_streaming: false, server_streaming: false }],
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

/// A call as its client saw it.
#[derive(Clone, Copy)]
struct Seen {
    key: u8,
    value: u32,
    began: u64,
    ended: u64,
}

/// A client's calls, 8 at a time.
fn ask(channel: &mut Channel, calls: u64, time: &AtomicU64, mut between: impl FnMut(u64)) -> Vec<Seen> {
    let method = channel.method("test.Count/Next").expect("it is served");
    let (mut next, mut open, mut seen) = (0, BTreeMap::new(), Vec::new());
    while next < calls || !open.is_empty() {
        while next < calls && open.len() < 8 {
            let key = (next % u64::from(KEYS)) as u8;
            let began = time.fetch_add(1, Ordering::SeqCst);
            match channel.start(method, &CallOptions::default(), next, &[key]) {
                Ok(_) => drop(open.insert(next, (key, began))),
                Err(StartError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let polled = channel.poll(64, |event| {
            let (key, began) = open.remove(&event.user).expect("a call ends once");
            let What::Reply(reply) = event.what else { panic!("{:?}", event.what) };
            assert!(reply[5..].iter().all(|&byte| byte == key) && reply[0] == key, "another's reply");
            let value = u32::from_le_bytes(*reply[1..].first_chunk().expect("four bytes"));
            let ended = time.fetch_add(1, Ordering::SeqCst);
            seen.push(Seen { key, value, began, ended });
        });
        between(next);
        if polled == 0 {
            channel.wait(WaitPolicy::default(), Some(PATIENCE));
        }
    }
    seen
}

/// Each key's values are 1, 2, 3…, and none that began after another had ended is before it.
fn judge(history: &[Seen], calls: usize) {
    assert_eq!(history.len(), calls);
    for key in 0..KEYS {
        let mut of_key: Vec<Seen> = history.iter().copied().filter(|seen| seen.key == key).collect();
        of_key.sort_by_key(|seen| seen.value);
        let mut first_end = u64::MAX;
        for (at, seen) in of_key.iter().enumerate().rev() {
            assert_eq!(seen.value as usize, at + 1, "key {key}: a call was lost or done twice");
            assert!(seen.began < first_end, "key {key}: {} began after a later one had ended", seen.value);
            first_end = first_end.min(seen.ended);
        }
    }
}

/// A server on a thread of its own, with an engine.
fn with_server(registers: &Arc<Registers>, work: impl FnOnce(&Address)) -> BTreeSet<String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let address = Address::Memory(format!("places-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let (count, stop) = (Count::default(), AtomicBool::new(false));
    let server = Server::new(Options::default()).service(count.clone()).registers(Arc::clone(registers));
    let server = server.listen(&address).expect("nobody else listens there");
    let (mut server, engine) = EngineCore::start(server, Beat::default()).expect("a thread");
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
    for (place, thread) in [("edge", "edge"), ("host", "worker-"), ("engine", "rpc-engine")] {
        let registers = Arc::new(Registers::default());
        registers.set("place.handlers", place).expect("a place");
        let threads = with_server(&registers, |address| {
            let seen = ask(&mut connect(address), 500, &AtomicU64::new(0), |_| ());
            judge(&seen, 500);
        });
        assert!(threads.iter().all(|name| name.starts_with(thread)), "{place}: {threads:?}");
    }
}

#[test]
fn handlers_that_move_while_calls_flow_lose_double_and_reorder_nothing() {
    let registers = Arc::new(Registers::default());
    let threads = with_server(&registers, |address| {
        let (time, history) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for client in 0..3 {
                let (registers, time, history) = (&registers, &time, &history);
                scope.spawn(move || {
                    let mut moved = 0;
                    let seen = ask(&mut connect(address), 3000, time, |next| {
                        if client == 0 && next >= 10 * moved {
                            moved += 1;
                            let place = ["engine", "edge", "host", "engine", "host", "edge", "auto"];
                            let place = place[moved as usize % 7];
                            registers.set_live("place.handlers", place).expect("a place");
                        }
                    });
                    history.lock().expect("no poison").extend(seen);
                });
            }
        });
        judge(&history.into_inner().expect("no poison"), 9000);
    });
    assert!(threads.len() >= 3, "{threads:?}");
}

#[test]
fn the_judge_finds_what_is_wrong() {
    let right = [(1, 0, 3), (2, 1, 4), (3, 5, 6)];
    let history = |of: &[(u32, u64, u64)]| -> Vec<Seen> {
        of.iter().map(|&(value, began, ended)| Seen { key: 0, value, began, ended }).collect()
    };
    judge(&history(&right), 3);
    for wrong in [
        // Lost, done twice, out of order.
        [(1, 0, 3), (2, 1, 4), (4, 5, 6)],
        [(1, 0, 3), (2, 1, 4), (2, 5, 6)],
        [(3, 0, 3), (1, 1, 4), (2, 5, 6)],
    ] {
        let judged = std::panic::catch_unwind(|| judge(&history(&wrong), 3));
        assert!(judged.is_err(), "{wrong:?}");
    }
}
