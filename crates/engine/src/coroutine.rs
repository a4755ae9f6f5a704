//! The coroutine form: a sliding window of coroutines over the engine's queue.
//!
//! Each request of the window has a coroutine that touches what the request needs, one access per poll. Whichever requests
//! stand first in the queue and are done touching are executed, and others take their places in the window.

use crate::engine::Core;
use crate::inflight::{InFlight, Slot};
use crate::service::{Service, lend, walk};
use base::Nanos;
use std::collections::VecDeque;
use std::future::Future;
use std::task::Poll;

/// The window of one engine, its coroutine type forgotten.
pub(crate) trait Window<S: Service>: Send {
    /// Answers everything in the queue, at most `width` requests being touched at any time.
    fn run(&mut self, core: &mut Core<S>, width: usize, deadline: Nanos);
}

/// A window over the coroutines of `S` with a table of `in_flight` places.
pub(crate) fn window<S: Service>(in_flight: usize) -> Box<dyn Window<S>> {
    Box::new(Coroutines { start: walk::<S>, table: InFlight::new(in_flight), window: VecDeque::new() })
}

struct Coroutines<F> {
    start: fn(u64) -> F,
    table: InFlight<F>,
    /// The coroutine of each request at the front of the queue; `None` once it is done.
    window: VecDeque<Option<Slot>>,
}

impl<S: Service, F: Future<Output = ()> + Send> Window<S> for Coroutines<F> {
    fn run(&mut self, core: &mut Core<S>, width: usize, deadline: Nanos) {
        while !core.queue.is_empty() {
            self.fill(core, width);
            self.poll(&mut core.service);
            let ready = self.window.iter().take_while(|place| place.is_none()).count();
            if ready > 0 {
                let before = core.queue.len();
                core.execute_front(ready, deadline);
                self.window.drain(..ready);
                // A port that blocks takes its later requests out of the queue, and the window no longer matches it: start
                // over. It costs touches, nothing else.
                if before - core.queue.len() > ready {
                    self.window.drain(..).flatten().for_each(|slot| self.table.cancel(slot));
                }
            }
        }
    }
}

impl<F: Future<Output = ()>> Coroutines<F> {
    fn fill<S: Service>(&mut self, core: &Core<S>, width: usize) {
        while self.window.len() < width.min(core.queue.len()) {
            let key = S::touch_key(&core.queue[self.window.len()].request.body);
            // Where the table is smaller than the window, the rest is executed untouched.
            self.window.push_back(self.table.insert((self.start)(key)).ok());
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
