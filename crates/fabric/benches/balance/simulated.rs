//! Virtual time: the balancers and provisionings as they are, behind workers whose handlers only let the clock move on.
//!
//! The front costs nothing; a request costs its worker what was measured for its provisioning ([`cost_ns`]), beside its service time.

use crate::mix::{Arrivals, Senders};
use crate::summary::Summary;
use base::Nanos;
use fabric::port::{Packet, PortOptions};
use fabric::workers::{Balancing, Provisioning, Route, Via, Worker, Workers, WorkersOptions};
use ring::Full;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a request costs a worker beside its handler, in nanoseconds: `cargo bench … -- cost`, "one thread" column, as in
/// `docs/measurements/fabric-balance.md`.
pub fn cost_ns(provisioning: Provisioning) -> u64 {
    match provisioning {
        Provisioning::PerConnection => COST_PER_CONNECTION_NS,
        Provisioning::PerCore => COST_PER_CORE_NS,
        Provisioning::Single => COST_SINGLE_NS,
    }
}

const COST_PER_CONNECTION_NS: u64 = 150;
const COST_PER_CORE_NS: u64 = 95;
const COST_SINGLE_NS: u64 = 80;

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
pub struct Setup {
    pub balancing: Balancing,
    pub provisioning: Provisioning,
}

impl Setup {
    /// Every balancer with every provisioning; with one queue no balancer has a say.
    pub fn all() -> Vec<Setup> {
        let setup = |provisioning| move |balancing| Setup { balancing, provisioning };
        let mut all: Vec<_> = Balancing::ALL.into_iter().map(setup(Provisioning::PerCore)).collect();
        all.extend(Balancing::ALL.into_iter().map(setup(Provisioning::PerConnection)));
        all.push(Setup { balancing: Balancing::RoundRobin, provisioning: Provisioning::Single });
        all
    }

    pub fn options(&self) -> WorkersOptions {
        let entries = if self.provisioning == Provisioning::PerConnection { 256 } else { 4096 };
        WorkersOptions {
            balancing: self.balancing,
            provisioning: self.provisioning,
            ring: PortOptions { entries, ..PortOptions::default() },
            queue_entries: 1 << 15,
            ..WorkersOptions::default()
        }
    }

    pub fn name(&self) -> String {
        match self.provisioning {
            Provisioning::Single => "single queue".to_string(),
            provisioning => format!("{} {provisioning}", self.balancing),
        }
    }
}

/// One run.
struct Run {
    front: Workers,
    workers: Vec<Worker>,
    /// What each worker is at.
    at_work: Vec<Option<(Via, Packet)>>,
    /// When it will be done.
    done: BinaryHeap<Reverse<(u64, usize)>>,
    now_ns: u64,
    cost_ns: u64,
    /// By tag: when it came, how long it takes, whether its latency is of interest.
    requests: Vec<(u64, u64, bool)>,
    /// Found no room yet, oldest first.
    refused: VecDeque<(Route, Packet)>,
    latencies_ns: Vec<u64>,
    late: u64,
}

/// `count` requests through `setup`.
pub fn run(setup: Setup, workers: usize, arrivals: Arrivals, senders: Senders, count: usize) -> Summary {
    let (front, values) = Workers::without_threads(workers, &setup.options());
    let mut run = Run {
        front,
        workers: values,
        at_work: (0..workers).map(|_| None).collect(),
        done: BinaryHeap::new(),
        now_ns: 0,
        cost_ns: cost_ns(setup.provisioning),
        requests: Vec::with_capacity(count),
        refused: VecDeque::new(),
        latencies_ns: Vec::with_capacity(count),
        late: 0,
    };
    let mut next_ns = 0;
    for (tag, arrival) in (0..count as u32).zip(arrivals) {
        next_ns += arrival.gap_ns;
        run.work_until(next_ns);
        run.now_ns = next_ns;
        // Of a flood those count that it is not.
        let counts = senders != Senders::Flood || arrival.route.connection != 0;
        run.requests.push((next_ns, arrival.service_ns, counts));
        run.submit(arrival.route, Packet::new(tag, &[b"request"]));
        run.begin_work();
    }
    run.work_until(u64::MAX);
    assert_eq!(run.front.in_flight() + run.refused.len(), 0, "every request is answered");
    Summary::of(run.latencies_ns, run.late as f64 / count as f64)
}

impl Run {
    fn work_until(&mut self, until_ns: u64) {
        while let Some(&Reverse((done_ns, worker))) = self.done.peek()
            && done_ns <= until_ns
        {
            self.done.pop();
            self.now_ns = done_ns;
            let (via, request) =
                self.at_work[worker].take().expect("a worker that is done had something to do");
            self.workers[worker].answer(via, request);
            self.workers[worker].flush();
            self.collect();
            while let Some((route, packet)) = self.refused.pop_front() {
                if let Err(Full(packet)) = self.front.submit(&route, packet) {
                    self.refused.push_front((route, packet));
                    break;
                }
            }
            self.begin_work();
        }
    }

    fn submit(&mut self, route: Route, packet: Packet) {
        if self.refused.is_empty() {
            if let Err(Full(packet)) = self.front.submit(&route, packet) {
                self.late += 1;
                self.refused.push_back((route, packet));
            }
        } else {
            self.late += 1;
            self.refused.push_back((route, packet));
        }
    }

    fn collect(&mut self) {
        let Run { front, requests, latencies_ns, now_ns, .. } = self;
        front.collect(Nanos(*now_ns), usize::MAX, |answer| {
            let (came_ns, _, counts) = requests[answer.tag() as usize];
            if counts {
                latencies_ns.push(*now_ns - came_ns);
            }
        });
    }

    /// Idle workers take what there is: as long as some request is with nobody, and somebody finds one.
    fn begin_work(&mut self) {
        self.front.flush();
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if self.done.len() == self.front.in_flight() {
                return;
            }
            if self.at_work[number].is_none()
                && let Some((via, request)) = worker.take()
            {
                let service_ns = self.requests[request.tag() as usize].1;
                self.done.push(Reverse((self.now_ns + service_ns + self.cost_ns, number)));
                self.at_work[number] = Some((via, request));
            }
        }
    }
}
