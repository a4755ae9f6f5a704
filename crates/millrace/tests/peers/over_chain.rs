//! Other people's suites against a node before which two boxes are and whose items lie in a chain of three replicas, and through proxies behind the boxes;
//! clients write and read through the boxes meanwhile, and must see what is true. Some also while replicas, boxes, the rack's controller and that of the
//! chain's two that leads are killed in turn.

use super::chained::PATIENCE;
use super::racked::{Controllers, Judge, Racked};
use super::served::Client;
use super::{
    a_meta_client_works_at, memccapable_finds_every_command_at, memccapable_is_there, pymemcache_passes_at,
    python,
};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Who is killed, in turn.
const VICTIMS: [&str; 8] = [
    "replica:1",
    "box:1",
    CHAINS_CONTROLLER,
    "controller:0",
    "replica:3",
    "box:2",
    CHAINS_CONTROLLER,
    "replica:2",
];

/// That controller of the chain that leads when its turn comes.
const CHAINS_CONTROLLER: &str = "the chain's controller that leads";

/// Says that it is over when it goes, also where something fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while judges write and read at the node and through both boxes; it is told how often they did.
fn beside_judges(racked: &Racked, what: impl FnOnce(&AtomicU64)) {
    let (turns, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let (judge, turns, stop) = (Judge::new(racked, name), &turns, &stop);
            scope.spawn(move || judge.run(turns, stop));
        }
        let _over = Over(&stop);
        go_on(&turns, 5);
        what(&turns);
        go_on(&turns, 5);
    });
    assert!(racked.event("granted") > 0, "boxes had copies");
}

/// Until the judges have done so much more.
fn go_on(turns: &AtomicU64, count: u64) {
    let (until, begun) = (turns.load(Ordering::Relaxed) + count, Instant::now());
    while turns.load(Ordering::Relaxed) < until {
        assert!(begun.elapsed() < PATIENCE, "nothing is answered any more");
        std::thread::yield_now();
    }
}

/// Has a suite pass at the node, and through a proxy.
fn passes(mut suite: impl FnMut(SocketAddr)) {
    let racked = Racked::new(Controllers::One, &["coherence.patience=60000000"]);
    beside_judges(&racked, |_| {
        for address in [racked.home(), racked.proxy(1)] {
            suite(address);
            Client::to(racked.home()).ask("flush_all\r\n", "OK\r\n");
        }
    });
    racked.finish();
}

/// Has a suite pass at the node as often as it takes until everybody was killed in the middle of one, and came back.
fn passes_whoever_is_killed(test: &str, victims: &[&'static str], mut suite: impl FnMut(SocketAddr)) {
    let racked = Racked::new(Controllers::Two, &["coherence.patience=5000000"]);
    beside_judges(&racked, |turns| {
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                for victim in victims {
                    match victim.strip_prefix("replica:") {
                        Some(id) => racked.chain.kill(id.parse().expect("a number")),
                        None if *victim == CHAINS_CONTROLLER => racked.chain.kill_who_leads(),
                        None => racked.kill(victim),
                    }
                    go_on(turns, 5);
                }
            });
            let mut passed = 0;
            while !killer.is_finished() {
                suite(racked.home());
                Client::to(racked.home()).ask("flush_all\r\n", "OK\r\n");
                passed += 1;
            }
            eprintln!("{test}: passed {passed} times while {} were killed", victims.join(", "));
        });
    });
    let chain = racked.served().report().kv.chain.expect("it has one").counters;
    assert_eq!((chain.unanswered, chain.unknown), (0, 0), "{chain:?}");
    racked.finish();
}

#[test]
fn memccapable_finds_every_command_at_boxes_before_a_chain() {
    if memccapable_is_there() {
        passes(memccapable_finds_every_command_at);
    }
}

#[test]
fn memccapable_finds_every_command_whoever_of_boxes_and_chain_is_killed() {
    if memccapable_is_there() {
        passes_whoever_is_killed("capable-killed", &VICTIMS, memccapable_finds_every_command_at);
    }
}

#[test]
fn pymemcache_passes_its_own_integration_tests_at_boxes_before_a_chain() {
    let Some(python) = python("pymemcache.test.conftest, pytest") else { return };
    let suite = |address| pymemcache_passes_at(&mut Command::new(python.get_program()), address);
    passes(suite);
}

#[test]
fn pymemcache_passes_its_own_integration_tests_whoever_of_boxes_and_chain_is_killed() {
    let Some(python) = python("pymemcache.test.conftest, pytest") else { return };
    let suite = |address| pymemcache_passes_at(&mut Command::new(python.get_program()), address);
    passes_whoever_is_killed("pymemcache-killed", &VICTIMS, suite);
}

#[test]
fn a_meta_client_works_at_boxes_before_a_chain() {
    let Some(python) = python("meta_memcache") else { return };
    let mut who = "node";
    passes(|address| {
        a_meta_client_works_at(&mut Command::new(python.get_program()), address, 60_000, who);
        who = "proxy";
    });
}

#[test]
fn a_meta_client_works_whoever_of_boxes_and_chain_is_killed() {
    let Some(python) = python("meta_memcache") else { return };
    passes_whoever_is_killed("meta-killed", &VICTIMS, |address| {
        a_meta_client_works_at(&mut Command::new(python.get_program()), address, 60_000, "node");
    });
}
