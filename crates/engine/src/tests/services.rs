//! Several services on one engine, and several engines.

use super::ledger::{CELLS, Ledger, Request};
use super::model::ModelCore;
use super::script::Adder;
use crate::{
    EdgePort, Engine, EngineOptions, Handle, Messages, Scheduler, Service, ServiceOptions, Settings, Spread,
};
use base::{Nanos, Prng};
use proptest::prelude::*;
use ring::arena::Producer;

/// Says nothing, and counts.
pub struct Counting;

impl Messages for Counting {
    type Request = u32;
    type Reply = u32;
}

impl Service for Counting {
    const TOUCHES: usize = 0;

    fn touch_key(_: &u32) -> u64 {
        0
    }

    fn touch(&self, _: usize, _: u64) {}

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &u32, _: &mut Producer) -> Option<u32> {
        Some(*request)
    }

    fn expire(&mut self, request: &u32, _: &mut Producer) -> Option<u32> {
        Some(*request)
    }
}

/// Services with these weights, each with one port.
fn floor(
    weights: &[u32],
    in_flight: usize,
    scheduler: Scheduler,
) -> (Engine<ModelCore>, Vec<EdgePort<Counting>>) {
    let mut engine = Engine::on(ModelCore::default(), EngineOptions { in_flight, ports: weights.len() });
    engine.set_scheduler(scheduler);
    let edges = weights.iter().map(|&weight| {
        let handle = engine.add(Counting, ServiceOptions { weight, ..ServiceOptions::default() });
        engine.set_settings(handle, Settings { quantum: 1000, ..Settings::default() });
        engine.open(handle, 1 << 10, 64).expect("a port")
    });
    let edges = edges.collect();
    (engine, edges)
}

fn submit(edge: &mut EdgePort<Counting>, n: usize) {
    for i in 0..n {
        assert!(edge.submit(Nanos(0), i as u32).is_ok());
    }
    edge.ring();
}

fn collect(edge: &mut EdgePort<Counting>) -> usize {
    std::iter::from_fn(|| edge.poll()).count()
}

#[test]
fn what_was_submitted_before_the_first_pass_is_found() {
    let (mut engine, mut edges) = floor(&[1], 8, Scheduler::RoundRobin);
    submit(&mut edges[0], 3);
    assert!(engine.has_work());
    assert_eq!(engine.pass().answered, 3);
    assert!(!engine.has_work());
}

#[test]
fn no_more_ports_than_said() {
    let mut engine = Engine::on(ModelCore::default(), EngineOptions { in_flight: 4, ports: 2 });
    let handle = engine.add(Counting, ServiceOptions::default());
    let adder = engine.add(Adder::default(), ServiceOptions::default());
    let _callee = engine.callee(adder);
    let edges = (engine.open(handle, 4, 64), engine.open(adder, 4, 64), engine.open(handle, 4, 64));
    assert!(edges.0.is_some() && edges.1.is_some() && edges.2.is_none());
}

#[test]
fn round_robin_gives_equal_shares_and_one_alone_gets_all() {
    let (mut engine, mut edges) = floor(&[1, 9, 1], 30, Scheduler::RoundRobin);
    edges.iter_mut().for_each(|edge| submit(edge, 300));
    for _ in 0..5 {
        engine.pass();
    }
    assert_eq!(edges.iter_mut().map(collect).collect::<Vec<_>>(), [50, 50, 50]);
    let (mut engine, mut edges) = floor(&[1, 1, 1], 30, Scheduler::RoundRobin);
    submit(&mut edges[1], 300);
    engine.pass();
    engine.pass();
    assert!(collect(&mut edges[1]) >= 30 + 10);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 64 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn weighted_shares_are_as_the_weights(
        weights in proptest::collection::vec(1u32..20, 2..5), in_flight in 1usize..60,
    ) {
        let (mut engine, mut edges) = floor(&weights, in_flight, Scheduler::Weighted);
        let all: u32 = weights.iter().sum();
        // As many passes as make every share a whole number.
        let passes = if cfg!(miri) { 4 } else { all as usize };
        let mut got = vec![0; weights.len()];
        for _ in 0..passes {
            for edge in &mut edges {
                submit(edge, edge.free().min(2 * in_flight));
            }
            engine.pass();
            edges.iter_mut().zip(&mut got).for_each(|(edge, got)| *got += collect(edge));
        }
        for (got, weight) in got.iter().zip(&weights) {
            let due = passes * in_flight * *weight as usize / all as usize;
            prop_assert!(got.abs_diff(due) <= 1, "{got} and not {due}");
        }
    }
}

#[test]
fn the_shortest_queue_goes_first_and_the_longest_gets_something() {
    let (mut engine, mut edges) = floor(&[1, 1], 64, Scheduler::ShortestQueue);
    submit(&mut edges[0], 500);
    // Both were opened just now, so both are looked at; then it is known how much they have.
    engine.pass();
    let first = collect(&mut edges[0]);
    submit(&mut edges[1], 60);
    engine.pass();
    assert_eq!(collect(&mut edges[1]), 60, "all that it has");
    assert_eq!(collect(&mut edges[0]), 64 / 8, "a quarter of half");
    assert!(first > 0);
}

/// Two engines in threads of their own, keys spread over them: each key's requests go to one engine, in order.
#[test]
#[cfg_attr(miri, ignore = "its threads run for long")]
fn keys_are_spread_over_engines_and_keep_their_order() {
    const REQUESTS: usize = 4000;
    let spread = Spread::over(2);
    let make = || {
        let mut engine = Engine::new(EngineOptions { in_flight: 32, ports: 1 });
        let ledger: Handle<Ledger> = engine.add_task(Ledger::new(1), ServiceOptions::default());
        let edge = engine.open(ledger, 64, 1 << 12).expect("a port");
        (engine, ledger, edge)
    };
    let (mut engines, mut edges) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (engine, ledger, edge) = make();
        engines.push((engine, ledger));
        edges.push(edge);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Release;
    let mut asked = [0u64; 2 * CELLS];
    std::thread::scope(|scope| {
        let threads: Vec<_> = engines
            .into_iter()
            .map(|(mut engine, ledger)| {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(std::sync::atomic::Ordering::Acquire) {
                        if engine.pass().answered == 0 {
                            std::thread::yield_now();
                        }
                    }
                    std::mem::take(&mut engine.service(ledger).applied)
                })
            })
            .collect();
        let mut prng = Prng::new(9);
        let (mut answered, mut seq) = (0, 0);
        while answered < REQUESTS {
            let cell = CELLS + prng.below(CELLS as u64) as usize;
            let edge = &mut edges[spread.engine_of(cell as u64)];
            if seq < REQUESTS && edge.free() > 0 {
                let pauses = vec![super::ledger::Pause::Touch; prng.below(3) as usize];
                let request = Request { port: 0, seq, cell: Some(cell), len: 0, pauses };
                assert!(edge.submit(Nanos(0), request).is_ok());
                edge.ring();
                asked[cell] += 1;
                seq += 1;
            } else {
                std::thread::yield_now();
            }
            answered +=
                edges.iter_mut().map(|edge| std::iter::from_fn(|| edge.poll()).count()).sum::<usize>();
        }
        stop.store(true, order);
        let mut applied = [0u64; 2 * CELLS];
        for (number, thread) in threads.into_iter().enumerate() {
            let mut last = [None; 2 * CELLS];
            for (id, cell) in thread.join().expect("the engine's thread") {
                assert_eq!(spread.engine_of(cell as u64), number);
                assert!(last[cell] < Some(id), "{id} after {last:?}");
                last[cell] = Some(id);
                applied[cell] += 1;
            }
        }
        assert_eq!(applied, asked);
    });
}
