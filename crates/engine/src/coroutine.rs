//! The coroutine form: a sliding window of coroutines over the engine's queue.
//!
//! Each request of the window has a coroutine that touches what the request needs, one access per poll. Whichever requests
//! stand first in the queue and are done touching are executed, and others take their places in the window.
//!
//! Invariant: while a pass runs, place `i` of the window belongs to request `i` of the queue. After a pass that the service
//! ended by a panic it does not, so every pass starts with an empty window.

use crate::engine::Core;
use crate::inflight::{InFlight, Slot};
use crate::service::{Service, lend, walk};
use std::collections::VecDeque;
use std::future::Future;
use std::task::Poll;

/// The window of one engine, its coroutine type forgotten.
pub(crate) trait Window<S: Service>: Send {
    /// Answers everything in the queue, at most `width` requests being touched at any time.
    fn run(&mut self, core: &mut Core<S>, width: usize);
}

/// A window over the coroutines of `S` with a table of `in_flight` places.
pub(crate) fn window<S: Service>(in_flight: usize) -> Box<dyn Window<S>> {
    Box::new(Coroutines { start: walk::<S>, table: InFlight::new(in_flight), window: VecDeque::new() })
}

struct Coroutines<G, F> {
    start: G,
    table: InFlight<F>,
    /// The coroutine of each request at the front of the queue; `None` once it is done.
    window: VecDeque<Option<Slot>>,
}

impl<S: Service, G: Fn(u64) -> F + Send, F: Future<Output = ()> + Send> Window<S> for Coroutines<G, F> {
    fn run(&mut self, core: &mut Core<S>, width: usize) {
        self.window.drain(..).flatten().for_each(|slot| self.table.cancel(slot));
        while !core.queue.is_empty() {
            self.fill(core, width);
            self.poll(&mut core.service);
            let ready = self.window.iter().take_while(|place| place.is_none()).count();
            if ready > 0 {
                core.execute_front(ready);
                self.window.drain(..ready);
            }
        }
    }
}

impl<G: Fn(u64) -> F, F: Future<Output = ()>> Coroutines<G, F> {
    fn fill<S: Service>(&mut self, core: &Core<S>, width: usize) {
        while self.window.len() < width.min(core.queue.len()) {
            let key = S::touch_key(&core.queue[self.window.len()].request.body);
            let slot = self.table.insert((self.start)(key));
            self.window
                .push_back(Some(slot.ok().expect("the table has a place for each request of the queue")));
        }
    }

    fn poll<S: Service>(&mut self, service: &mut S) {
        lend(service, || {
            for place in &mut self.window {
                if place.is_some_and(|slot| self.table.poll(slot) == Poll::Ready(())) {
                    *place = None;
                }
            }
        });
    }
}
