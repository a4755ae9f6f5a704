//! A core in virtual time that has many touching futures under way, as engines do on real cores.
//!
//! A future that yields has touched memory ([`base::touch`]): that is all it ever waits for. The core resumes its futures in turn; it pays for
//! each resumption, and waits where the line is not there yet, as a load would. With one future at a time that is the plain baseline.
//!
//! ```text
//!   turn: wait for the slot's line ─▶ pay ─▶ poll ─┬─ yielded: its next touch begins, on to the next slot
//!                                                  └─ ended: answer, the next request takes the slot
//! ```
//!
//! Cost: nothing is allocated per request once the slots are there.

use base::{Picos, Prng};
use model::kernel::Service;
use model::sim::Perform;
use model::{ProgramId, ResourceId, Sim};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What the code costs beside its misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Each resumption.
    pub resume: Picos,
    /// Each request, when it is executed.
    pub execute: Picos,
}

/// A core.
#[derive(Clone, Debug)]
pub struct Core {
    sim: Sim,
    at: ResourceId,
    /// What the first touch of a request does to memory, what the second does, …; the last also for those after it.
    touches: Vec<ProgramId>,
    cost: Cost,
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended<T> {
    /// What came of it.
    pub output: T,
    /// From when it was begun.
    pub latency: Picos,
}

struct Slot<F> {
    request: Pin<Box<Option<F>>>,
    touch: Option<Perform>,
    touches: usize,
    begun: Picos,
}

impl Core {
    /// At a resource of the simulation, one server of which it is.
    ///
    /// # Panics
    /// Without a program for touches.
    pub fn new(sim: &Sim, at: ResourceId, touches: &[ProgramId], cost: Cost) -> Core {
        assert!(!touches.is_empty(), "a touch costs something");
        Core { sim: sim.clone(), at, touches: touches.to_vec(), cost }
    }

    /// Keeps `in_flight` of what `next` gives under way until it gives no more; `ended` hears of each, in the order in which they end.
    pub async fn run<F: Future>(
        &self,
        in_flight: usize,
        mut next: impl FnMut() -> Option<F>,
        mut ended: impl FnMut(Ended<F::Output>),
    ) {
        let mut prng = Prng::new(in_flight as u64);
        let mut slots: Vec<Slot<F>> = (0..in_flight)
            .map(|_| Slot { request: Box::pin(next()), touch: None, touches: 0, begun: self.sim.now() })
            .collect();
        while slots.iter().any(|slot| slot.request.is_some()) {
            for slot in &mut slots {
                let Some(output) = self.turn(slot, &mut prng).await else { continue };
                ended(Ended { output, latency: self.sim.now().since(slot.begun) });
                slot.request.set(next());
                (slot.touches, slot.begun) = (0, self.sim.now());
            }
        }
    }

    /// Resumes a slot's request; its output, if it ended.
    async fn turn<F: Future>(&self, slot: &mut Slot<F>, prng: &mut Prng) -> Option<F::Output> {
        if let Some(touch) = slot.touch.take() {
            touch.await;
        }
        self.pay(self.cost.resume).await;
        let request = slot.request.as_mut().as_pin_mut()?;
        let Poll::Ready(output) = request.poll(&mut Context::from_waker(Waker::noop())) else {
            let program = self.touches[slot.touches.min(self.touches.len() - 1)];
            slot.touches += 1;
            slot.touch = Some(begun(self.sim.perform(program, prng.next_u64())).await);
            return None;
        };
        self.pay(self.cost.execute).await;
        Some(output)
    }

    async fn pay(&self, span: Picos) {
        if span > Picos::ZERO {
            self.sim.serve(self.at, Service::Fixed(span), 1).await;
        }
    }
}

/// An operation that is under way, to be waited for later.
async fn begun(mut operation: Perform) -> Perform {
    poll_fn(|cx| {
        // Its first poll begins it and never ends it.
        let _ = Pin::new(&mut operation).poll(cx);
        Poll::Ready(())
    })
    .await;
    operation
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::touch::yield_once;
    use model::kernel::{Kernel, Step};
    use std::cell::RefCell;
    use std::rc::Rc;

    const LATENCY: Picos = Picos::from_nanos(100);

    async fn two_touches(number: u32) -> u32 {
        yield_once().await;
        yield_once().await;
        number
    }

    /// Requests of two touches of 100 ns and 10 ns of work; when the last ended, and what came of them.
    fn run(in_flight: usize, requests: u32) -> (Picos, Vec<u32>) {
        let mut kernel = Kernel::new(1);
        let at = kernel.resource("core", 1);
        let touch = kernel.program("touch", [Step::Wait(LATENCY)]);
        let sim = Sim::new(kernel);
        let cost = Cost { resume: Picos::ZERO, execute: Picos::from_nanos(10) };
        let core = Core::new(&sim, at, &[touch], cost);
        let seen = Rc::new(RefCell::new((Picos::ZERO, Vec::new())));
        let (into, clock) = (Rc::clone(&seen), sim.clone());
        sim.spawn(async move {
            let mut numbers = 0..requests;
            let next = || numbers.next().map(two_touches);
            core.run(in_flight, next, |ended| {
                let mut into = into.borrow_mut();
                into.0 = clock.now();
                into.1.push(ended.output);
            })
            .await;
        });
        sim.run_until(Picos::from_millis(10));
        sim.end_processes();
        Rc::try_unwrap(seen).expect("the process has ended").into_inner()
    }

    #[test]
    fn one_at_a_time_waits_for_every_touch() {
        let (end, outputs) = run(1, 50);
        assert_eq!(end, Picos::from_nanos(50 * 210));
        assert_eq!(outputs, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn many_at_a_time_hide_them_behind_each_other() {
        let (end, mut outputs) = run(10, 50);
        // Ten requests share two latencies, and work one after the other.
        assert_eq!(end, Picos::from_nanos(5 * (200 + 100)));
        outputs.sort_unstable();
        assert_eq!(outputs, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn slots_that_find_nothing_to_do_stay_empty() {
        assert_eq!(run(16, 3).1.len(), 3);
        assert!(run(4, 0).1.is_empty());
    }
}
