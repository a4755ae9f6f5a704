//! Replies are byte for byte those of a server without an accelerator: in all strategies, over every transport, in the same order.

use crate::rig::{Outcome, Pair, Store, driven, plain, random, registers, request, threaded, what};
use base::clock::Clock;
use base::prng::Prng;
use codec::encode::Strategy;
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, What};
use fabric::frame::push_metadata;
use fabric::link::Address;
use fabric::server::Server;
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Eight bursts of requests in flight together: their outcomes, in the order of coming.
fn bursts(mut pair: Pair, requests: &[Vec<u8>]) -> Vec<(u64, Outcome)> {
    let mut all = Vec::new();
    for (burst, requests) in requests.chunks(8).enumerate() {
        for (at, body) in requests.iter().enumerate() {
            let user = (burst * 8 + at) as u64;
            // What defers goes the same way, and keeps its place in the order.
            pair.start(if user % 7 == 6 { "Later" } else { "Store" }, user, body);
        }
        all.extend(pair.outcomes(requests.len()));
    }
    all
}

#[test]
fn replies_and_their_order_are_those_without_in_every_strategy() {
    let mut prng = Prng::new(1);
    let requests: Vec<_> = (0..64).map(|id| random(id, &mut prng)).collect();
    let direct = Arc::new(Store::default());
    let mut expected = bursts(Pair::new(plain(&direct)), &requests);
    let order = std::mem::take(&mut *direct.order.lock().expect("no poison"));
    // A deferred answer comes back by another way, after those that were in its burst.
    expected.sort_by_key(|(user, _)| *user);
    for strategy in Strategy::ALL {
        for units in [0, 1, 2] {
            for (writes, threads) in [("one_shot", 0), ("field_by_field", 0), ("one_shot", 2)] {
                let store = Arc::new(Store::default());
                let registers = registers(strategy, units);
                registers.set_live("acc.writes", writes).expect("live");
                let options = if threads == 0 { driven() } else { threaded(threads) };
                let server = plain(&store).accelerator(options).expect("memory").registers(registers);
                let outcomes = bursts(Pair::new(server), &requests);
                let unary: Vec<u64> =
                    outcomes.iter().map(|(user, _)| *user).filter(|user| user % 7 != 6).collect();
                assert!(unary.is_sorted(), "replies in the order of their requests: {unary:?}");
                let mut outcomes = outcomes;
                outcomes.sort_by_key(|(user, _)| *user);
                assert!(outcomes == expected, "{strategy:?}, {units} units, {writes}, {threads} threads");
                assert_eq!(*store.order.lock().expect("no poison"), order, "handled in the order of coming");
                let (on_units, on_host) = store.ran();
                assert_eq!(on_units > 0, units > 0, "{on_units} on units, {on_host} on the host");
            }
        }
    }
}

#[test]
fn metadata_goes_out_before_the_message() {
    for units in [0, 2] {
        let store = Arc::new(Store::default());
        let server = plain(&store).accelerator(driven()).expect("memory");
        let mut pair = Pair::new(server.registers(registers(Strategy::MemoryAffinity, units)));
        let mut metadata = Vec::new();
        assert!(push_metadata(&mut metadata, "tone", b"blue"));
        let method = pair.channel.method("/picture.Images/Store").expect("it is served");
        let options = CallOptions { metadata: &metadata, ..CallOptions::default() };
        pair.channel.start(method, &options, 5, &request(5, what::STORE, b"image")).expect("room");
        pair.channel.flush();
        let mut came = None;
        while came.is_none() {
            pair.server.poll(Clock::shared().now());
            pair.channel.poll(64, |event| came = Some(event.metadata().to_vec()));
        }
        assert_eq!(came, Some(metadata));
    }
}

thread_local! {
    /// Where this test's sockets lie: a test is a thread.
    static FOLDER: TempDir = TempDir::with_prefix("millrace-").expect("a folder");
}

/// An address of each kind that this build has.
fn addresses() -> Vec<Address> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = || format!("fabric-acc-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = || FOLDER.with(|folder| folder.path().join(name()));
    let all = [
        Address::Memory(name()),
        Address::Shm(path()),
        Address::Unix(path()),
        "tcp:127.0.0.1:0".parse().expect("an address"),
        "udp:127.0.0.1:0".parse().expect("an address"),
    ];
    let there = |address: &Address| {
        let listens = Server::new(fabric::server::Options::default()).listen(address);
        let there = !matches!(&listens, Err(error) if error.kind() == std::io::ErrorKind::Unsupported);
        if !there {
            eprintln!("skipped: this build has no {}", address.transport().name());
        }
        there
    };
    all.into_iter().filter(there).collect()
}

/// Stops a server, also when a check fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The replies to all requests, with some in flight together.
fn replies(address: &Address, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut channel = Channel::connect(address, &ChannelOptions::default()).expect("it listens");
    let method = channel.method("/picture.Images/Store").expect("it is served");
    let mut all = vec![None; requests.len()];
    let (mut started, mut ended) = (0, 0);
    while ended < requests.len() {
        while started < requests.len() && started - ended < 16 {
            if channel.start(method, &CallOptions::default(), started as u64, &requests[started]).is_err() {
                break;
            }
            started += 1;
        }
        let polled = channel.poll(64, |event| match event.what {
            What::Reply(body) => {
                assert!(all[event.user as usize].replace(body.to_vec()).is_none(), "one reply each");
                ended += 1;
            }
            other => panic!("{other:?}"),
        });
        if polled == 0 {
            channel.wait(WaitPolicy::default(), Some(Duration::from_millis(100)));
        }
    }
    all.into_iter().map(|reply| reply.expect("all ended")).collect()
}

#[test]
fn replies_over_every_transport_are_those_without() {
    let mut prng = Prng::new(2);
    let requests: Vec<_> = (0..100).map(|id| random(id, &mut prng)).collect();
    for address in addresses() {
        let serve = |accelerated: bool| {
            let store = Arc::new(Store::default());
            let mut server = plain(&store).listen(&address).expect("nobody else listens there");
            if accelerated {
                server = server.accelerator(threaded(2)).expect("threads");
                server.set_unit("turn", true).expect("a thread");
            }
            let address = server.addresses().next().expect("one").clone();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _stops = Stops(&stop);
                scope.spawn(|| server.run(WaitPolicy::default(), &stop));
                replies(&address, &requests)
            })
        };
        assert!(serve(false) == serve(true), "{address}");
    }
}

#[test]
fn registers_change_while_calls_are_in_flight_and_none_is_lost() {
    let store = Arc::new(Store::default());
    let registers = registers(Strategy::MemoryAffinity, 1);
    let server = plain(&store).accelerator(threaded(2)).expect("threads").registers(Arc::clone(&registers));
    let mut pair = Pair::new(server);
    let mut prng = Prng::new(3);
    let direct = Arc::new(Store::default());
    let mut without = Pair::new(plain(&direct));
    let set = |name: &str, words: &[&str], prng: &mut Prng| {
        let word = words[prng.below(words.len() as u64) as usize];
        registers.set_live(name, word).expect("live");
    };
    for round in 0..60 {
        let requests: Vec<_> = (0..6).map(|at| random(round * 6 + at, &mut prng)).collect();
        for (at, body) in requests.iter().enumerate() {
            pair.start("Store", at as u64, body);
            match prng.below(6) {
                0 => set("acc.on", &["on", "on", "off"], &mut prng),
                1 => set("acc.serialise", &["cpu", "walk", "affinity"], &mut prng),
                2 => set("acc.writes", &["one_shot", "field_by_field"], &mut prng),
                3 => set("acc.lanes", &["1", "2", "4"], &mut prng),
                4 => set("acc.units", &["0", "1", "2"], &mut prng),
                _ => set("acc.follow", &["on", "off"], &mut prng),
            }
            pair.server.poll(Clock::shared().now());
        }
        let mut outcomes = pair.outcomes(requests.len());
        outcomes.sort_by_key(|(user, _)| *user);
        for ((_, outcome), body) in outcomes.into_iter().zip(&requests) {
            assert!(outcome == without.call(body));
        }
    }
    let totals = pair.server.totals();
    assert_eq!((totals.requests, totals.replies, totals.failed), (360, 360, 0));
    assert_eq!(pair.server.accelerator_figures().expect("there is one").lanes.memory.held, 0);
}
