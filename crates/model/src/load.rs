//! Load: clients that keep so many operations under way, and what they see.

use crate::kernel::ProgramId;
use crate::sim::Sim;
use base::{Picos, Prng};
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::rc::Rc;

/// A closed loop: `window` operations of `program` always under way.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// What.
    pub program: ProgramId,
    /// How many at once.
    pub window: u64,
    /// Arguments are drawn below this: addresses, shards.
    pub arguments: u64,
}

/// What clients saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Latencies in picoseconds.
    latencies: Histogram<u64>,
    over: Picos,
}

impl Seen {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.over.as_secs_f64()
    }

    /// Mean latency, in seconds.
    pub fn mean(&self) -> f64 {
        self.latencies.mean() / 1e12
    }

    /// A quantile (0 to 1) of latencies, in seconds.
    pub fn quantile(&self, of: f64) -> f64 {
        self.latencies.value_at_quantile(of) as f64 / 1e12
    }
}

/// Runs loops together, without account for `warm_up`, then for `span`; what each saw.
pub fn closed(sim: &Sim, seed: u64, loops: &[Loop], warm_up: Picos, span: Picos) -> Vec<Seen> {
    let begin = sim.now().plus(warm_up);
    let seen: Vec<_> = loops
        .iter()
        .enumerate()
        .map(|(number, of)| {
            let latencies = Histogram::new(3).expect("three digits are few enough");
            let seen = Rc::new(RefCell::new(Seen { latencies, over: span }));
            for client in 0..of.window {
                sim.spawn(client_loop(
                    sim.clone(),
                    *of,
                    (seed, number as u64, client),
                    begin,
                    Rc::clone(&seen),
                ));
            }
            seen
        })
        .collect();
    sim.run_until(begin);
    sim.with(|kernel| kernel.reset_usage());
    sim.run_until(begin.plus(span));
    seen.iter().map(|seen| seen.borrow().clone()).collect()
}

async fn client_loop(
    sim: Sim,
    of: Loop,
    (seed, number, client): (u64, u64, u64),
    begin: Picos,
    seen: Rc<RefCell<Seen>>,
) {
    let mut prng = Prng::for_entity(seed, number << 32 | client, 0);
    loop {
        let started = sim.now();
        sim.perform(of.program, prng.below(of.arguments)).await;
        if sim.now() >= begin {
            seen.borrow_mut().latencies.saturating_record(sim.now().since(started).0);
        }
    }
}
