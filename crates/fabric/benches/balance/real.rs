//! The same for real: worker threads whose handlers sleep, as handlers do that wait for a disk or another service.

use crate::mix::Arrivals;
use crate::simulated::Setup;
use crate::summary::Summary;
use base::{Clock, Nanos};
use fabric::port::Packet;
use fabric::workers::{Execute, Work, Workers, WorkersOptions};
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::time::Duration;

/// Sleeps for as long as the request says.
struct Sleep;

impl Execute for Sleep {
    fn worker(&self, _: usize) -> Box<dyn Work> {
        Box::new(Sleep)
    }
}

impl Work for Sleep {
    fn execute(&mut self, request: &Packet) -> Packet {
        let ns = request.bytes().try_into().map_or(0, u64::from_le_bytes);
        std::thread::sleep(Duration::from_nanos(ns));
        Packet::new(0, &[])
    }
}

/// `count` requests at the times that `arrivals` say; latency counts from there.
pub fn run(setup: Setup, workers: usize, arrivals: Arrivals, count: usize) -> Summary {
    let options = WorkersOptions { wait: WaitPolicy::BLOCK, ..setup.options() };
    let mut front = Workers::new(workers, &options, Arc::new(Sleep)).expect("threads");
    let clock = Clock::shared();
    let mut came = Vec::with_capacity(count);
    let mut latencies_ns = Vec::with_capacity(count);
    let mut collect = |front: &mut Workers, came: &[Nanos]| {
        let now = clock.now();
        front.collect(now, usize::MAX, |answer| latencies_ns.push(now.since(came[answer.tag() as usize]).0));
        latencies_ns.len()
    };
    let mut due = clock.now();
    for (tag, arrival) in (0..count as u32).zip(arrivals) {
        due = due.plus(Nanos(arrival.gap_ns));
        came.push(due);
        while clock.now() < due {
            front.wait(WaitPolicy::BLOCK, Some(due.since(clock.now()).into()), || false);
            collect(&mut front, &came);
        }
        let packet = Packet::new(tag, &[&arrival.service_ns.to_le_bytes()]);
        front.submit(&arrival.route, packet).expect("a run fits the rings");
        front.flush();
    }
    while collect(&mut front, &came) < count {
        front.wait(WaitPolicy::BLOCK, None, || false);
    }
    Summary::of(latencies_ns, 0.0)
}
