//! What methods say of themselves, and what follows: constants in generated code, places, order, calls that are sent again.

use codec::compile::Compiler;
use codec::schema::Schema;
use fabric::channel::{
    CallOptions, Caller, Channel, Options as ChannelOptions, Reconnecting, ReconnectingCounters, StartError,
    What,
};
use fabric::link::Address;
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use fabric::service::{
    Cacheable, Incoming, Key, KeyKind, MethodDescriptor, MethodOptions, Order, Place, Places, Responder,
    Service, ServiceDescriptor, schema_hash,
};
use fabric::status::{Code, Status};
use ring::wait::WaitPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    include!("generated/parts.rs");
}

#[test]
fn generated_code_says_what_the_file_says() {
    let [read, write, touch] = proto::parts::SHELF.methods else { panic!("three methods") };
    let key = Some(Key { fields: &[2, 3], kind: KeyKind::Sint32 });
    let cacheable = Some(Cacheable { ttl_seconds: 60, invalidated_by: &[1] });
    let places = Places::of(&[Place::Host, Place::Engine]);
    let none = MethodOptions::NONE;
    assert_eq!(read.options, MethodOptions { key, cacheable, idempotent: true, places, ..none });
    assert_eq!(write.options, MethodOptions { key, order: Order::PerKey, transaction: true, ..none });
    assert_eq!(touch.options, MethodOptions { idempotent: true, order: Order::PerConnection, ..none });
    assert!(proto::parts::ECHO.methods.iter().all(|method| method.options == none));
}

#[test]
fn a_schema_hash_knows_no_options() {
    let hash = |options: &str| {
        let text = format!(
            "syntax = \"proto3\"; package p; import \"millrace/options.proto\"; message M {{ string id = 1; bytes body = 2 {}; }}
             service S {{ rpc Get(M) returns (M) {{ {options} }} rpc Put(M) returns (M) {{ option (millrace.key) = \"id\"; }} }}",
            if options.is_empty() { "" } else { "[(millrace.acc) = true]" },
        );
        let schema: Schema =
            Compiler::new().source("a.proto", text).compile(&["a.proto"]).expect("a right file");
        schema_hash(&schema, schema.service("p.S").expect("it is declared"))
    };
    let all = "option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 9 invalidated_by: \"Put\" };
               option (millrace.order) = PER_KEY; option (millrace.places) = HOST; option idempotency_level = NO_SIDE_EFFECTS;";
    assert_eq!(hash(""), hash(all));
    // As before there were options: peers of both kinds understand each other.
    let plain = "syntax = \"proto3\"; package p; message M { string id = 1; bytes body = 2; }
                 service S { rpc Get(M) returns (M); rpc Put(M) returns (M); }";
    let schema = Compiler::new().source("a.proto", plain).compile(&["a.proto"]).expect("a right file");
    assert_eq!(hash(all), schema_hash(&schema, schema.service("p.S").expect("it is declared")));
}

const KEY: Option<Key> = Some(Key { fields: &[1], kind: KeyKind::Uint32 });

const fn method(name: &'static str, options: MethodOptions) -> MethodDescriptor {
    MethodDescriptor { options, ..MethodDescriptor::new(name, false, false) }
}

static WORK: ServiceDescriptor = ServiceDescriptor {
    name: "test.Work",
    methods: &[
        method("PerKey", MethodOptions { key: KEY, order: Order::PerKey, ..MethodOptions::NONE }),
        method("PerConnection", MethodOptions { order: Order::PerConnection, ..MethodOptions::NONE }),
        method("Free", MethodOptions { key: KEY, ..MethodOptions::NONE }),
        method("OnHost", MethodOptions { places: Places::of(&[Place::Host]), ..MethodOptions::NONE }),
        method("OnEdge", MethodOptions { places: Places::of(&[Place::Edge]), ..MethodOptions::NONE }),
        method("OnEngine", MethodOptions { places: Places::of(&[Place::Engine]), ..MethodOptions::NONE }),
        method("Twice", MethodOptions { idempotent: true, ..MethodOptions::NONE }),
    ],
    hash: 1,
    descriptors: b"",
};

/// What the handlers did: for each line (method and key) the calls' numbers as they ran, and where.
#[derive(Default)]
struct Seen {
    ran: BTreeMap<(usize, u8), Vec<u32>>,
    places: BTreeMap<usize, BTreeSet<String>>,
    /// By method and key.
    keys: BTreeMap<(usize, u8), BTreeSet<String>>,
}

/// With what was never answered, and how many of the next calls are not.
#[derive(Clone, Default)]
struct Work(Arc<Mutex<Seen>>, Arc<Mutex<Vec<Responder>>>, Arc<AtomicU32>);

/// A message whose field 1 is a key, with the call's number behind it.
fn message(key: u8, number: u32) -> Vec<u8> {
    [&[0x08, key, 0x15][..], &number.to_le_bytes()].concat()
}

impl Service for Work {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &WORK
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body();
        let number = u32::from_le_bytes(*body[3..].first_chunk().expect("a message of this test"));
        // In the line of a connection keys do not count; no two connections use one number's key there.
        let key = if method == 1 { body[1] / 16 } else { body[1] };
        // Some take longer than others, so that whoever may overtake does.
        if number % 5 == 0 {
            thread::yield_now();
        }
        let mut seen = self.0.lock().expect("no poison");
        seen.ran.entry((method, key)).or_default().push(number);
        let name = thread::current().name().unwrap_or_default().to_owned();
        seen.keys.entry((method, key)).or_default().insert(name.clone());
        seen.places.entry(method).or_default().insert(name);
        if self.2.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            self.1.lock().expect("no poison").push(call.defer());
            return Ok(());
        }
        call.reply_bytes(body);
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

static NEXT: AtomicU32 = AtomicU32::new(0);

fn address() -> Address {
    Address::Memory(format!("options-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

impl Running {
    fn start(address: Address, make: impl FnOnce(Server) -> Server) -> Running {
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

/// Makes these calls of methods in turn, 16 at a time; before each `between` is done.
fn say(
    channel: &mut Channel,
    paths: &[&str],
    who: u8,
    numbers: std::ops::Range<u32>,
    mut between: impl FnMut(u32),
) {
    let methods: Vec<_> = paths.iter().map(|path| channel.method(path).expect("it is served")).collect();
    let (mut next, mut open, end) = (numbers.start, BTreeSet::new(), numbers.end);
    while next < end || !open.is_empty() {
        while next < end && open.len() < 16 {
            between(next);
            let body = message(16 * who + (next % 3) as u8, next);
            let method = methods[next as usize % methods.len()];
            match channel.start(method, &CallOptions::default(), u64::from(next), &body) {
                Ok(_) => assert!(open.insert(next)),
                Err(StartError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let polled = channel.poll(64, |event| {
            assert!(open.remove(&(event.user as u32)), "call {} ended twice", event.user);
            assert!(matches!(event.what, What::Reply(_)), "{:?}", event.what);
        });
        if polled == 0 {
            channel.wait(WaitPolicy::default(), Some(Duration::from_secs(10)));
        }
    }
}

#[test]
fn lines_are_kept_while_everything_changes() {
    let registers = Arc::new(Registers::default());
    let running = Running::start(address(), |server| server.registers(Arc::clone(&registers)));
    let set = |name: &str, value: &str| registers.set_live(name, value).expect("a legal value");
    let mut channels: Vec<Channel> = (0..3).map(|_| running.connect()).collect();
    let paths = ["test.Work/PerKey", "test.Work/PerConnection", "test.Work/Free"];
    thread::scope(|scope| {
        let mut channels = channels.iter_mut();
        let first = channels.next().expect("three");
        for (who, channel) in channels.enumerate() {
            scope.spawn(move || say(channel, &paths, who as u8 + 1, 0..3000, |_| ()));
        }
        say(first, &paths, 0, 0..3000, |next| {
            let step = next as usize / 50;
            if next % 50 != 0 {
                return;
            }
            match step % 6 {
                0 => set("workers.count", ["2", "4", "1", "3"][step / 6 % 4]),
                1 => set("place.handlers", ["host", "edge", "auto"][step / 6 % 3]),
                2 => set("place.share", ["40", "90", "0", "10"][step / 6 % 4]),
                3 => set("place.other", ["host", "edge"][step / 6 % 2]),
                4 => set("workers.provisioning", ["single", "per_connection", "per_core"][step / 6 % 3]),
                _ => set("workers.balancer", ["shortest_queue", "round_robin", "key_hash"][step / 6 % 3]),
            }
        });
    });
    let seen = running.seen();
    for ((method, key), numbers) in &seen.ran {
        if *method < 2 {
            assert!(numbers.is_sorted(), "method {method}, line {key}: {numbers:?}");
        }
    }
    let ran: usize = seen.ran.values().map(Vec::len).sum();
    assert_eq!(ran, 9000, "each ran once");
    assert!(seen.places[&0].len() > 2, "they moved: {:?}", seen.places[&0]);
}

#[test]
fn a_method_runs_where_it_may_whatever_the_register_says() {
    let registers = Arc::new(Registers::default());
    let running = Running::start(address(), |server| server.registers(Arc::clone(&registers)));
    let mut channel = running.connect();
    for place in ["auto", "edge", "host", "engine"] {
        registers.set_live("place.handlers", place).expect("a place");
        for path in ["test.Work/OnHost", "test.Work/OnEdge"] {
            say(&mut channel, &[path], 0, 0..20, |_| ());
        }
    }
    let seen = running.seen();
    assert!(seen.places[&3].iter().all(|name| name.starts_with("worker-")), "{:?}", seen.places);
    assert_eq!(seen.places[&4], BTreeSet::from(["server".to_owned()]));
}

/// A share of the keys is at the other place, the same ones for all methods, and what has one place only stays there.
#[test]
fn a_key_has_one_place_of_two() {
    let registers = Arc::new(Registers::default());
    for (name, value) in [("place.handlers", "edge"), ("place.other", "host"), ("place.share", "40")] {
        registers.set(name, value).expect("a legal value");
    }
    let running = Running::start(address(), |server| server.registers(Arc::clone(&registers)));
    let mut channel = running.connect();
    let ask = |channel: &mut Channel, path: &str| {
        let method = channel.method(path).expect("it is served");
        for call in 0..512u32 {
            let body = message((call % 128) as u8, call);
            channel.call_bytes(method, &CallOptions::default(), &body).expect("it answers");
        }
    };
    ["test.Work/PerKey", "test.Work/Free", "test.Work/OnEdge"]
        .iter()
        .for_each(|path| ask(&mut channel, path));
    let at = |method: usize| -> Vec<String> {
        let seen = running.seen();
        let of = seen.keys.iter().filter(|((of, _), _)| *of == method);
        of.map(|(key, places)| {
            assert_eq!(places.len(), 1, "{key:?} is at {places:?}");
            places.first().expect("one").clone()
        })
        .collect()
    };
    let [in_order, free] = [at(0), at(2)];
    assert_eq!((in_order.len(), &in_order), (128, &free), "a key has a place, whatever the method");
    let elsewhere = in_order.iter().filter(|name| name.starts_with("worker-")).count();
    assert!((35..=68).contains(&elsewhere), "{elsewhere} of 128 keys, of which 40 % are to be elsewhere");
    assert!(at(4).iter().all(|name| name == "server"));
    // All of a connection's line is at one place.
    ask(&mut channel, "test.Work/PerConnection");
    let line: BTreeSet<String> = at(1).into_iter().collect();
    assert_eq!(line.len(), 1, "{line:?}");
    // The share ends.
    registers.set_live("place.share", "0").expect("a share");
    running.work.0.lock().expect("no poison").keys.clear();
    ask(&mut channel, "test.Work/Free");
    assert!(at(2).iter().all(|name| name == "server"));
}

#[test]
fn a_method_that_may_run_nowhere_is_refused() {
    let running = Running::start(address(), |server| server);
    let mut channel = running.connect();
    for (path, place) in [("test.Work/OnHost", "host"), ("test.Work/OnEngine", "engine")] {
        let method = channel.method(path).expect("it is served");
        let refused = channel.call_bytes(method, &CallOptions::default(), &message(0, 1)).expect_err(path);
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let text = format!("/{path} runs on {place} only, as its .proto file says");
        assert!(refused.message().starts_with(&text), "{refused}");
    }
    say(&mut channel, &["test.Work/OnEdge"], 0, 0..5, |_| ());
}

#[test]
fn a_call_whose_connection_broke_is_sent_again_if_that_is_no_harm() {
    let (work, address) = (Work::default(), address());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let server = Server::new(Options::default()).service(work.clone());
                let mut server = server.listen(&address).expect("it is free");
                let before = work.1.lock().expect("no poison").len();
                while !stop.load(Ordering::Relaxed) && work.1.lock().expect("no poison").len() == before {
                    server.poll(base::Clock::shared().now());
                    thread::yield_now();
                }
            }
        });
        let mut client = loop {
            match Reconnecting::connect(&address, &ChannelOptions::default()) {
                Ok(client) => break client,
                Err(_) => thread::yield_now(),
            }
        };
        let twice = client.method("/test.Work/Twice").expect("it is served").idempotent(true);
        let once = client.method("/test.Work/Free").expect("it is served");
        let within = CallOptions::within(Duration::from_secs(60));
        let mut call = |method, number, breaks| {
            work.2.store(breaks, Ordering::Relaxed);
            client.call_bytes(method, &within, &message(0, number)).map(|response| response.body)
        };
        let lost = call(once, 1, 1).expect_err("its server died");
        assert!(lost.is_lost() && lost.code() == Code::Unavailable, "{lost}");
        assert_eq!(call(once, 2, 0), Ok(message(0, 2)), "another one goes to the next server");
        assert_eq!(call(twice, 3, 2), Ok(message(0, 3)), "two servers died under it");
        let want = ReconnectingCounters { connects: 3, repeated: 2, lost: 1 };
        assert_eq!(client.counters(), want);
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("it ends");
        let seen = work.0.lock().expect("no poison");
        assert_eq!((&seen.ran[&(2, 0)][..], &seen.ran[&(6, 0)][..]), (&[1, 2][..], &[3, 3, 3][..]));
    });
}

#[test]
fn who_cannot_be_reached_again_is_unavailable_and_nothing_was_sent() {
    let running = Running::start(address(), |server| server);
    let options = ChannelOptions { timeout: Duration::from_millis(20), ..ChannelOptions::default() };
    let mut client = loop {
        // On a slow machine the handshake may take longer than that.
        if let Ok(client) = Reconnecting::connect(&running.address, &options) {
            break client;
        }
    };
    let method = client.method("/test.Work/Twice").expect("it is served").idempotent(true);
    drop(running);
    // The channel learns of it by its first call, or before.
    for _ in 0..2 {
        let status = client
            .call_bytes(method, &CallOptions::within(Duration::from_secs(60)), &message(0, 1))
            .expect_err("nobody is there");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
}
