//! Replies of methods that the in-network cache keeps, with boxes and a home on threads, over loopback.

use client::cache::Client;
use client::replies::Cached;
use fabric::channel::{CallOptions, Caller, Method, Options as ChannelOptions, Reconnecting};
use fabric::link::Address;
use fabric::server::{Options, Server, WorkersPlan};
use fabric::service::{
    Cacheable, Incoming, Key, KeyKind, MethodDescriptor, MethodOptions, Service, ServiceDescriptor,
};
use fabric::status::{Code, Status};
use ring::wait::WaitPolicy;
use serve::inc::plan::registers;
use serve::inc::rack::Rack;
use serve::inc::topology::Shape;
use serve::rpc::replies::{Figures, Kept};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const KEY: Option<Key> = Some(Key { fields: &[1], kind: KeyKind::Uint32 });
const KEPT: Option<Cacheable> = Some(Cacheable { ttl_seconds: 3600, invalidated_by: &[1] });

const fn method(name: &'static str, cacheable: Option<Cacheable>) -> MethodDescriptor {
    let options = MethodOptions { key: KEY, cacheable, ..MethodOptions::NONE };
    MethodDescriptor { options, ..MethodDescriptor::new(name, false, false) }
}

static SHOP: ServiceDescriptor = ServiceDescriptor {
    name: "test.Shop",
    methods: &[method("Get", KEPT), method("Put", None)],
    hash: 1,
    descriptors: b"",
};

/// A number for each key, and how often it was read.
#[derive(Clone, Default)]
struct Shop(Arc<(Mutex<HashMap<u8, u64>>, AtomicU64)>);

/// Field 1 is the key, field 2 something else.
fn request(key: u8, other: u8) -> [u8; 4] {
    [0x08, key, 0x10, other]
}

impl Service for Shop {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &SHOP
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let (key, other) = (call.body()[1], call.body()[3]);
        let mut numbers = self.0.0.lock().expect("no poison");
        let number = numbers.entry(key).or_default();
        if method == 1 {
            *number += 1;
        } else {
            self.0.1.fetch_add(1, Ordering::Relaxed);
        }
        call.reply_bytes(&[&number.to_le_bytes()[..], &[other]].concat());
        Ok(())
    }
}

/// Boxes, a home, and a server whose replies they keep.
struct Running {
    rack: Rack,
    shop: Shop,
    figures: Arc<Figures>,
    address: Address,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Running {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Who is late was not on a core: nobody is given up.
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
        let settings: Vec<_> =
            patient.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 1 };
        let rack = Rack::start(&shape, &registers(&settings).expect("settings")).expect("a rack");
        let (shop, figures) = (Shop::default(), Arc::<Figures>::default());
        let longest = Duration::from_secs(60);
        let kept = Kept::new(shop.clone(), rack.topology().clone(), longest, Arc::clone(&figures));
        let address = Address::Memory(format!("replies-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let server = Server::new(Options::default()).service(kept);
        let server = server.workers(&WorkersPlan { count: 2, ..WorkersPlan::default() }).expect("threads");
        let mut server = server.listen(&address).expect("nobody else listens there");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(WaitPolicy::default(), &seen));
        Running { rack, shop, figures, address, stop, thread: Some(thread) }
    }

    fn direct(&self) -> Reconnecting {
        Reconnecting::connect(&self.address, &ChannelOptions::default()).expect("a server")
    }

    /// A client that asks box `tor` first.
    fn cached(&self, tor: u16) -> Cached {
        let cache = Client::init(self.rack.topology(), Some(tor)).expect("a client");
        Cached::new(self.direct(), cache, &SHOP).expect("it is served")
    }

    /// How often the handler that reads ran.
    fn reads(&self) -> u64 {
        self.shop.0.1.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = self.thread.take().expect("it runs").join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn methods(caller: &impl Caller) -> [Method; 2] {
    ["/test.Shop/Get", "/test.Shop/Put"].map(|path| caller.method(path).expect("it is served"))
}

/// The number, and what else was asked.
fn read(client: &mut Cached, get: Method, (key, other): (u8, u8)) -> (u64, u8) {
    let reply = client.call_bytes(get, &CallOptions::default(), &request(key, other)).expect("a reply").body;
    (u64::from_le_bytes(*reply.first_chunk().expect("a number")), reply[8])
}

#[test]
fn what_is_kept_never_reaches_the_server_until_it_is_written() {
    let running = Running::start();
    let (mut one, mut two, mut direct) = (running.cached(1), running.cached(2), running.direct());
    let [get, put] = methods(&one);
    assert_eq!(read(&mut one, get, (7, 1)), (0, 1));
    assert_eq!((running.reads(), one.hits()), (1, 0), "the server was asked, and has it kept");
    for client in [&mut one, &mut two] {
        assert_eq!(read(client, get, (7, 1)), (0, 1));
        assert_eq!(client.hits(), 1);
    }
    // Who does not ask the cache is answered by the server with what it has.
    direct.call_bytes(get, &CallOptions::default(), &request(7, 1)).expect("a reply");
    assert_eq!((running.reads(), running.figures.hits.load(Ordering::Relaxed)), (1, 1));
    // Another key, and another request of the same key, are not this one.
    assert_eq!(read(&mut one, get, (8, 1)), (0, 1));
    assert_eq!(read(&mut one, get, (7, 2)), (0, 2));
    assert_eq!((running.reads(), one.hits()), (3, 1));
    assert_eq!(read(&mut two, get, (7, 2)), (0, 2));
    assert_eq!(running.reads(), 3, "the last one is kept");

    direct.call_bytes(put, &CallOptions::default(), &request(7, 0)).expect("written");
    assert_eq!(read(&mut one, get, (7, 2)), (1, 2));
    assert_eq!(read(&mut two, get, (7, 2)), (1, 2));
    assert_eq!(running.reads(), 4, "computed once, and kept again");
    let figures = &running.figures;
    let seen = [&figures.fills, &figures.writes, &figures.refused, &figures.marks_lost];
    assert_eq!(seen.map(|counter| counter.load(Ordering::Relaxed)), [4, 1, 0, 0]);
}

#[test]
fn no_reader_sees_what_was_before_a_write_that_was_answered_or_goes_back() {
    let running = Running::start();
    let (acknowledged, unsure) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = [1, 2, 1]
            .into_iter()
            .map(|tor| {
                let (mut client, acknowledged, is_over) = (running.cached(tor), &acknowledged, &is_over);
                scope.spawn(move || {
                    let [get, _] = methods(&client);
                    let (mut last, mut reads) = (0, 0);
                    // Afterwards, until something is found kept, which is soon: nobody writes then.
                    let is_found = |client: &Cached, reads: u64| client.hits() > 0 || reads > 100_000;
                    while !is_over.load(Ordering::Acquire) || reads < 50 || !is_found(&client, reads) {
                        let floor = acknowledged.load(Ordering::Acquire).max(last);
                        (last, _) = read(&mut client, get, (1, 0));
                        assert!(last >= floor, "{last} after {floor}");
                        reads += 1;
                    }
                    client.hits()
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (mut client, acknowledged, unsure) = (running.direct(), &acknowledged, &unsure);
                scope.spawn(move || {
                    let [_, put] = methods(&client);
                    for _ in 0..40 {
                        let reply = loop {
                            match client.call_bytes(put, &CallOptions::default(), &request(1, 0)) {
                                // It was done, and the cache could not be told in time: nobody may count on it.
                                Err(status) if status.code() == Code::Unknown => break None,
                                // Nothing was done: readers and the other writer were always before it.
                                Err(status) if status.code() == Code::Unavailable => continue,
                                reply => break Some(reply.expect("written")),
                            }
                        };
                        let Some(reply) = reply else {
                            unsure.fetch_add(1, Ordering::Relaxed);
                            continue;
                        };
                        let number = u64::from_le_bytes(*reply.body.first_chunk().expect("a number"));
                        acknowledged.fetch_max(number, Ordering::AcqRel);
                    }
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Whatever became of writers: readers go on until then.
        is_over.store(true, Ordering::Release);
        written.into_iter().for_each(|writer| writer.expect("no panic"));
        let hits: u64 = readers.into_iter().map(|reader| reader.join().expect("no panic")).sum();
        assert!(hits > 0, "something was found kept");
    });
    let all = 80 - unsure.load(Ordering::Relaxed)..=80;
    assert!(all.contains(&acknowledged.load(Ordering::Relaxed)), "{acknowledged:?} of {all:?}");
}
