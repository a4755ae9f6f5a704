//! What each provisioning costs: requests with empty handlers, through front and worker in one thread (no line travels; its processor time) and in
//! two (the clock's).

use base::Clock;
use base::cpu::thread_time;
use base::spread;
use fabric::port::{Packet, PortOptions};
use fabric::workers::{Balancing, Execute, Provisioning, Route, Work, Workers, WorkersOptions};
use std::sync::Arc;
use std::time::Instant;

const WINDOW: u32 = 32;
const ROUNDS: usize = 9;
/// Requests before it counts: lanes are opened.
const WARM: usize = 1_000;

struct Empty;

impl Execute for Empty {
    fn worker(&self, _: usize) -> Box<dyn Work> {
        Box::new(Empty)
    }
}

impl Work for Empty {
    fn execute(&mut self, request: &Packet) -> Packet {
        Packet::new(0, &[request.bytes()])
    }
}

/// Prints nanoseconds per request, median and spread of interleaved rounds.
pub fn report(count: usize) {
    println!(
        "\nCost: empty handlers, one worker, {WINDOW} requests in flight, ns per request: median [p10..p90] of {ROUNDS}"
    );
    println!("{:<16} {:>11}  {:>22}  {:>22}", "provisioning", "connections", "one thread", "two threads");
    let kinds: Vec<(Provisioning, u32)> = vec![
        (Provisioning::PerCore, 1),
        (Provisioning::PerConnection, 1),
        (Provisioning::PerConnection, 8),
        (Provisioning::PerConnection, 64),
        (Provisioning::Single, 1),
    ];
    let mut alone: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
    let mut apart = alone.clone();
    for _ in 0..ROUNDS {
        for (at, &(provisioning, connections)) in kinds.iter().enumerate() {
            alone[at].push(in_one_thread(provisioning, connections, count));
            apart[at].push(in_two_threads(provisioning, connections, count));
        }
    }
    for (at, (provisioning, connections)) in kinds.into_iter().enumerate() {
        println!(
            "{provisioning:<16} {connections:>11}  {:>22}  {:>22}",
            spread::text(alone[at].iter().copied(), 0),
            spread::text(apart[at].iter().copied(), 0)
        );
    }
}

fn options(provisioning: Provisioning) -> WorkersOptions {
    WorkersOptions {
        provisioning,
        balancing: Balancing::RoundRobin,
        ring: PortOptions { entries: 64, ..PortOptions::default() },
        ..WorkersOptions::default()
    }
}

/// Keeps the window full until `count` requests are answered; `work` lets workers work when they are not threads.
fn drive(front: &mut Workers, connections: u32, count: usize, mut work: impl FnMut()) {
    let clock = Clock::shared();
    let (mut tag, mut answered) = (0u32, 0usize);
    while answered < count {
        while front.in_flight() < WINDOW as usize {
            let route = Route { connection: tag % connections, service: 0, key: None };
            front.submit(&route, Packet::new(tag, &[b"request"])).expect("the window is within the rings");
            tag = tag.wrapping_add(1);
        }
        front.flush();
        work();
        answered += front.collect(clock.now(), usize::MAX, |_| ());
    }
}

/// By the thread's own processor time, so that other programs do not count.
fn in_one_thread(provisioning: Provisioning, connections: u32, count: usize) -> f64 {
    let (mut front, mut workers) = Workers::without_threads(1, &options(provisioning));
    let (worker, mut handler) = (&mut workers[0], Empty);
    let mut work = || {
        while let Some((via, request)) = worker.take() {
            let answer = handler.execute(&request).with_tag(request.tag());
            worker.answer(via, answer);
        }
        worker.flush();
    };
    drive(&mut front, connections, WARM, &mut work);
    let start = thread_time();
    drive(&mut front, connections, count, &mut work);
    thread_time().since(start).0 as f64 / count as f64
}

fn in_two_threads(provisioning: Provisioning, connections: u32, count: usize) -> f64 {
    let mut front = Workers::new(1, &options(provisioning), Arc::new(Empty)).expect("a thread");
    drive(&mut front, connections, WARM, || ());
    let start = Instant::now();
    drive(&mut front, connections, count, || ());
    start.elapsed().as_nanos() as f64 / count as f64
}
