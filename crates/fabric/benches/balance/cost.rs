//! What each provisioning costs: requests with empty handlers, through front and worker in one thread (no line travels) and in two.

use base::{Clock, Nanos};
use fabric::port::{Packet, PortOptions};
use fabric::workers::{Balancing, Execute, Provisioning, Route, Work, Workers, WorkersOptions};
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::time::Duration;

const WINDOW: u32 = 32;
const ROUNDS: usize = 9;

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
pub fn report(per_round: Duration) {
    println!(
        "\nCost: empty handlers, one worker, {WINDOW} requests in flight, ns per request: median [least..most] of {ROUNDS}"
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
            alone[at].push(in_one_thread(provisioning, connections, per_round));
            apart[at].push(in_two_threads(provisioning, connections, per_round));
        }
    }
    for (at, (provisioning, connections)) in kinds.into_iter().enumerate() {
        println!(
            "{provisioning:<16} {connections:>11}  {:>22}  {:>22}",
            spread(&mut alone[at]),
            spread(&mut apart[at])
        );
    }
}

fn spread(samples: &mut [f64]) -> String {
    samples.sort_unstable_by(f64::total_cmp);
    format!("{:.0} [{:.0}..{:.0}]", samples[samples.len() / 2], samples[0], samples[samples.len() - 1])
}

fn options(provisioning: Provisioning) -> WorkersOptions {
    WorkersOptions {
        provisioning,
        balancing: Balancing::RoundRobin,
        ring: PortOptions { entries: 64, ..PortOptions::default() },
        ..WorkersOptions::default()
    }
}

/// Keeps the window full for `time`; `work` lets workers work when they are not threads.
fn drive(front: &mut Workers, connections: u32, time: Duration, mut work: impl FnMut()) -> f64 {
    let clock = Clock::shared();
    let (start, span) = (clock.now(), Nanos::from(time));
    let (mut tag, mut answered) = (0u32, 0usize);
    loop {
        while front.in_flight() < WINDOW as usize {
            let route = Route { connection: tag % connections, service: 0, key: None };
            front.submit(&route, Packet::new(tag, &[b"request"])).expect("the window is within the rings");
            tag = tag.wrapping_add(1);
        }
        front.flush();
        work();
        let now = clock.now();
        answered += front.collect(now, usize::MAX, |_| ());
        if now.since(start) >= span {
            return now.since(start).0 as f64 / answered as f64;
        }
    }
}

fn in_one_thread(provisioning: Provisioning, connections: u32, time: Duration) -> f64 {
    let (mut front, mut workers) = Workers::without_threads(1, &options(provisioning));
    let (worker, mut handler) = (&mut workers[0], Empty);
    drive(&mut front, connections, time, || {
        while let Some((via, request)) = worker.take() {
            let answer = handler.execute(&request);
            worker.answer(via, answer);
        }
        worker.flush();
    })
}

fn in_two_threads(provisioning: Provisioning, connections: u32, time: Duration) -> f64 {
    let options = WorkersOptions { wait: WaitPolicy::default(), ..options(provisioning) };
    let mut front = Workers::new(1, &options, Arc::new(Empty)).expect("a thread");
    drive(&mut front, connections, time, || ())
}
