//! Clients that do operations, and what they and the machine saw.
//!
//! **Closed**: each client has so many operations under way (the API blocks, so that many threads of the application), and begins one when another
//! ends. **Open**: operations are
//! due at random moments, so many per second of all clients; whoever is free does the next that is due, and latency counts from when it was due,
//! so that nothing is left out when clients are late. At most [`PERFORMERS`] of a client are under way at once; the others wait.

use super::copies::{Copies, Traffic};
use super::rack::Rack;
use super::world::{Answers, Caching, World};
use crate::kernel::ResourceId;
use crate::load::{Seen, whole};
use crate::random::exponential;
use crate::rerun;
use base::{Picos, Prng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Operations of a client in an open loop that may be under way at once.
pub const PERFORMERS: u64 = 64;

/// How operations come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many of these clients' operations always under way.
    Closed {
        /// The first so many clients.
        clients: usize,
        /// Of each.
        window: u64,
    },
    /// So many per second, of all clients together.
    Open(f64),
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// GET and SET in the traffic's proportion.
    ReadsAndWrites,
    /// GET, compute, SET.
    ComputeAtClient,
    /// One request that whoever has the key does: home or box.
    Compute,
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Reads, or computations.
    pub reads: Seen,
    /// Writes.
    pub writes: Seen,
    /// Of reads.
    pub answers: Answers,
    /// Busy, in the mean: cores of all servers.
    pub server_cores: f64,
    /// Share of time that threads of clients were busy.
    pub client_threads: f64,
    /// Share of time that the cores of the busiest box were busy.
    pub busiest_box: f64,
    /// Bits per second from the servers to their switches.
    pub server_bits: f64,
    /// Packets that switches forwarded, per operation.
    pub packets: f64,
}

impl Outcome {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.reads.rate() + self.writes.rate()
    }

    /// All operations.
    pub fn all(&self) -> Seen {
        self.reads.clone().and(&self.writes)
    }

    /// Share of reads that the first box answered, and any box.
    pub fn hits(&self) -> (f64, f64) {
        let Answers { first_box, later_box, home, .. } = self.answers;
        let whole = (first_box + later_box + home).max(1) as f64;
        (first_box as f64 / whole, (first_box + later_box) as f64 / whole)
    }
}

struct Shared {
    world: World,
    traffic: Traffic,
    operations: Operations,
    begin: Picos,
    reads: RefCell<Seen>,
    writes: RefCell<Seen>,
}

/// Runs it: `warm_up` without account, then `span`.
pub fn run(
    rack: Rack,
    (caching, copies): (Caching, Copies),
    (traffic, operations): (Traffic, Operations),
    pace: Pace,
    seed: u64,
    (warm_up, span): (Picos, Picos),
) -> Outcome {
    let clients = rack.clients();
    let world = World::new(rack, caching, copies);
    let begin = world.sim.now().plus(rerun::warm_up(warm_up));
    let seen = || RefCell::new(Seen::new(span));
    let shared = Rc::new(Shared { world, traffic, operations, begin, reads: seen(), writes: seen() });
    let sim = shared.world.sim.clone();
    for client in 0..clients {
        let due = Rc::new(Cell::new(Picos::ZERO));
        let (count, between) = match pace {
            Pace::Closed { clients, window } => (if client < clients { window } else { 0 }, None),
            Pace::Open(rate) => (PERFORMERS, Some(crate::platform::picos(clients as f64 / rate))),
        };
        for performer in 0..count {
            let prng = Prng::for_entity(seed, (client as u64) << 32 | performer, 2);
            sim.spawn(perform(Rc::clone(&shared), client, prng, between.map(|b| (b, Rc::clone(&due)))));
        }
    }
    let times = rerun::account(&sim, begin, span, || _ = shared.world.take_answers(), || {});
    account(&shared, span, times)
}

async fn perform(of: Rc<Shared>, client: usize, mut prng: Prng, open: Option<(Picos, Rc<Cell<Picos>>)>) {
    let sim = &of.world.sim;
    loop {
        let due = match &open {
            None => sim.now(),
            Some((between, next)) => {
                let due = next.get().plus(exponential(&mut prng, *between));
                next.set(due);
                sim.sleep_until(due).await;
                due
            }
        };
        let rank = of.traffic.zipf.sample(&mut prng);
        let key = Copies::key(&of.world.rack, &of.traffic, client, rank);
        let mut seen = &of.reads;
        match of.operations {
            Operations::ReadsAndWrites if prng.unit_f64() < of.traffic.reads => {
                of.world.get(client, key).await
            }
            Operations::ReadsAndWrites => {
                seen = &of.writes;
                of.world.set(client, key).await
            }
            Operations::ComputeAtClient => of.world.compute_at_client(client, key).await,
            Operations::Compute => of.world.compute(client, key).await,
        }
        if sim.now() >= of.begin {
            seen.borrow_mut().record(sim.now().since(due));
        }
    }
}

fn account(of: &Shared, span: Picos, times: u64) -> Outcome {
    let rack = &of.world.rack;
    let seconds = span.as_secs_f64();
    let (reads, writes) = (whole(&of.reads, times), whole(&of.writes, times));
    of.world.sim.with(|k| {
        let busy = |at: &ResourceId| k.usage(*at).busy.as_secs_f64() / seconds;
        let share = |at: &ResourceId| busy(at) / k.servers(*at) as f64;
        let threads = rack.client_threads();
        let bytes: u64 = rack.server_uplinks().iter().map(|at| k.usage(*at).units).sum();
        Outcome {
            answers: of.world.take_answers(),
            server_cores: rack.server_cores().iter().map(busy).sum(),
            client_threads: threads.iter().map(share).sum::<f64>() / threads.len() as f64,
            busiest_box: rack.box_cores().iter().map(share).fold(0.0, f64::max),
            server_bits: bytes as f64 * 8.0 / seconds,
            packets: k.usage(rack.pipeline()).uses as f64 / (reads.count() + writes.count()).max(1) as f64,
            reads,
            writes,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;
    use crate::system::incbricks::copies::Entries;
    use crate::system::incbricks::rack::Deployment;
    use proptest::prelude::*;

    const SPANS: (Picos, Picos) = (Picos::ZERO, Picos::from_micros(3000));

    fn outcome(deployment: Deployment, caching: Caching, operations: Operations, window: u64) -> Outcome {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        let platform = platform.with("load.keys", 10_000.0);
        let rack = Rack::new(&platform, deployment, 1).expect("it is complete");
        let traffic = Traffic::new(&platform, 0.99).expect("it is complete");
        let copies = Copies::new(&rack, &traffic, Entries { tor: 256, root: 512 });
        run(rack, (caching, copies), (traffic, operations), Pace::Closed { clients: 20, window }, 5, SPANS)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// What was begun ended, or is under way; every read was answered by somebody; what clients see and what they have under way agree (Little).
        #[test]
        fn no_operation_is_lost_or_doubled(
            deployment in prop_oneof![Just(Deployment::Within), Just(Deployment::Cross), Just(Deployment::Full)],
            caching in prop_oneof![Just(Caching::None), Just(Caching::Boxes), Just(Caching::Filtered)],
            window in 1_u64..5,
        ) {
            let seen = outcome(deployment, caching, Operations::ReadsAndWrites, window);
            let Answers { first_box, later_box, home, writes, .. } = seen.answers;
            let under_way = 20 * window;
            if caching != Caching::None {
                let answered = first_box + later_box + home;
                prop_assert!(answered.abs_diff(seen.reads.count()) <= under_way);
            }
            prop_assert!(caching == Caching::None || first_box + later_box > 0);
            // A write counts when it begins, which those that begin with the run do before accounts are open.
            prop_assert!(writes.abs_diff(seen.writes.count()) <= under_way);
            let all = seen.all();
            // The first operations begin at once and the last do not end: half a round for each client.
            let little = all.rate() * all.mean() / under_way as f64;
            prop_assert!((0.95..1.001).contains(&little), "{}", little);
        }
    }

    #[test]
    fn more_under_way_is_not_slower_in_all_and_the_same_seed_is_the_same_run() {
        for operations in [Operations::ReadsAndWrites, Operations::Compute, Operations::ComputeAtClient] {
            let rates = [1, 4, 16].map(|window| {
                let run = || outcome(Deployment::Full, Caching::Boxes, operations, window);
                let (one, other) = (run(), run());
                assert_eq!((one.rate(), one.all().mean()), (other.rate(), other.all().mean()));
                one.rate()
            });
            assert!(rates.windows(2).all(|pair| pair[0] < pair[1] * 1.01), "{operations:?}: {rates:?}");
        }
    }
}
