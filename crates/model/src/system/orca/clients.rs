//! Clients of ORCA's key-value setup: instances that each keep a batch of requests under way.
//!
//! An instance has two cores. One posts, so long for each request; the other finds responses, each of which lets one more be posted. So a batch of n is
//! a window of n, and with large ones the posting core sets the pace. A request's latency counts from its posting.

use crate::kernel::{ProgramId, ResourceId, Service};
use crate::load::{Mix, Seen, Shared, identity, measure};
use crate::rerun;
use crate::sim::{Mailbox, Sim};
use base::{Picos, Prng};
use std::cell::RefCell;
use std::rc::Rc;

/// Client instances.
#[derive(Clone, Debug)]
pub struct Batches {
    /// Their cores that post, one after the other.
    pub cores: ResourceId,
    /// How many.
    pub instances: u64,
    /// Requests of a batch.
    pub batch: u64,
    /// A core takes so long to post one.
    pub post: Picos,
    /// Requests.
    pub mix: Mix,
}

type Order = (ProgramId, u64);

/// Instances are `number + instances × random` modulo their count; random is drawn below this.
const ARGUMENTS: u64 = 1 << 20;

/// Runs them, without account for `warm_up`, then for `span`.
pub fn run(sim: &Sim, seed: u64, of: &Batches, warm_up: Picos, span: Picos) -> Seen {
    let cores: Vec<_> = (0..of.instances).map(|number| ResourceId(of.cores.0 + number as u32)).collect();
    let what = || format!("batches {seed} {of:?}");
    let identity = identity(sim, [&of.mix].into_iter(), &cores, (warm_up, span), what);
    if let Some(mut seen) = identity.as_deref().and_then(|identity| rerun::known(sim, identity)) {
        return seen.remove(0);
    }
    let begin = sim.now().plus(rerun::warm_up(warm_up));
    let seen: Shared = Rc::new(RefCell::new(Seen::new(span)));
    for number in 0..of.instances {
        let prng = Prng::for_entity(seed, number, 7);
        sim.spawn(instance(sim.clone(), of.clone(), number, prng, begin, Rc::clone(&seen)));
    }
    measure(sim, vec![seen], (begin, span), identity).remove(0)
}

async fn instance(sim: Sim, of: Batches, number: u64, mut prng: Prng, begin: Picos, seen: Shared) {
    let free: Mailbox<usize> = Mailbox::new(&sim);
    let requests: Vec<Mailbox<Order>> = (0..of.batch).map(|_| Mailbox::new(&sim)).collect();
    for (slot, orders) in requests.iter().enumerate() {
        free.send(slot);
        sim.spawn(request(sim.clone(), (slot, orders.clone(), free.clone()), begin, Rc::clone(&seen)));
    }
    let core = ResourceId(of.cores.0 + number as u32);
    // Instances do not begin together.
    sim.sleep(Picos(prng.below(5_000_000))).await;
    loop {
        let slot = free.receive().await;
        sim.serve(core, Service::Fixed(of.post), 1).await;
        let program = of.mix.draw(&mut prng);
        requests[slot].send((program, number + of.instances * prng.below(ARGUMENTS)));
    }
}

/// A place of an instance's window: what is to be done in it, and whom to tell that it is free.
type Slot = (usize, Mailbox<Order>, Mailbox<usize>);

async fn request(sim: Sim, (slot, orders, free): Slot, begin: Picos, seen: Shared) {
    loop {
        let (program, argument) = orders.receive().await;
        let started = sim.now();
        sim.perform(program, argument).await;
        if sim.now() >= begin {
            seen.borrow_mut().record(sim.now().since(started));
        }
        free.send(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, Step};

    #[test]
    fn small_windows_wait_for_responses_and_large_ones_for_the_core() {
        let rate = |batch| {
            let mut kernel = Kernel::new(1);
            let cores = kernel.resources("client", 2);
            let program = kernel.program("wait", [Step::Wait(Picos::from_nanos(1000))]);
            let sim = Sim::new(kernel);
            let post = Picos::from_nanos(100);
            let of = Batches { cores, instances: 2, batch, post, mix: program.into() };
            let seen = run(&sim, 1, &of, Picos::from_micros(50), Picos::from_micros(1100));
            assert!((seen.mean() / 1e-6 - 1.0).abs() < 1e-3);
            seen.rate()
        };
        assert!((rate(1) * 1.1e-6 / 2.0 - 1.0).abs() < 0.01);
        assert!((rate(5) * 1.1e-6 / 10.0 - 1.0).abs() < 0.01);
        assert!((rate(32) * 100e-9 / 2.0 - 1.0).abs() < 0.01);
    }
}
