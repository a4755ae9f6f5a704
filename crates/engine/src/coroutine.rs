//! The coroutine form: a sliding window of coroutines over the queue of a staged service.
//!
//! Each request of the window has a coroutine that touches what the request needs, one access per poll. Whichever requests
//! stand first in the queue and are done touching are executed, and others take their places in the window.
//!
//! Invariant: while a pass runs, number `i` of the window belongs to request `i` of the queue. After a pass that the service
//! ended by a panic it does not, so every pass starts with an empty window.

use crate::context::{lend, with};
use crate::cores::Core;
use crate::hosted::Common;
use crate::inflight::{InFlight, Slot};
use crate::service::Service;
use crate::staged::Queue;
use base::touch::yield_once;
use std::collections::VecDeque;
use std::future::Future;
use std::task::Poll;

/// The window of one service, its coroutine type forgotten.
pub(crate) trait Window<S: Service, C: Core>: Send {
    /// Answers everything in the queue, at most `width` requests being touched at any time.
    fn run(&mut self, queue: &mut Queue<S>, common: &mut Common<C>, width: usize);
}

/// A window over the coroutines of `S` with a table of `in_flight` slots.
pub(crate) fn window<S: Service, C: Core>(in_flight: usize) -> Box<dyn Window<S, C>> {
    Box::new(Coroutines { start: walk::<S>, table: InFlight::new(in_flight), window: VecDeque::new() })
}

/// The coroutine of a request: one prefetch, one yield, for every access.
async fn walk<S: Service>(key: u64) {
    for step in 0..S::TOUCHES {
        with(|service: &mut S| service.touch(step, key));
        yield_once().await;
    }
}

struct Coroutines<G, F> {
    start: G,
    table: InFlight<F>,
    /// The coroutine of each request at the front of the queue; `None` once it is done.
    window: VecDeque<Option<Slot>>,
}

impl<S, C, G, F> Window<S, C> for Coroutines<G, F>
where
    S: Service,
    C: Core,
    G: Fn(u64) -> F + Send,
    F: Future<Output = ()> + Send,
{
    fn run(&mut self, queue: &mut Queue<S>, common: &mut Common<C>, width: usize) {
        self.window.drain(..).flatten().for_each(|slot| self.table.cancel(slot));
        while !queue.admitted.is_empty() {
            self.fill(queue, width);
            let touched = self.poll(&mut queue.service);
            common.core.touched(0, touched);
            let ready = self.window.iter().take_while(|place| place.is_none()).count();
            if ready > 0 {
                queue.execute_front(common, ready, false);
                self.window.drain(..ready);
            }
        }
    }
}

impl<G: Fn(u64) -> F, F: Future<Output = ()>> Coroutines<G, F> {
    fn fill<S: Service>(&mut self, queue: &Queue<S>, width: usize) {
        while self.window.len() < width.min(queue.admitted.len()) {
            let key = S::touch_key(&queue.admitted[self.window.len()].request.body);
            let slot = self.table.insert((self.start)(key));
            self.window
                .push_back(Some(slot.ok().expect("the table has a slot for each request of the queue")));
        }
    }

    /// Polls each that is not done; how many asked for another access.
    fn poll<S: Service>(&mut self, service: &mut S) -> usize {
        lend(service, None, || {
            let mut touched = 0;
            for place in &mut self.window {
                let Some(slot) = *place else { continue };
                match self.table.poll(slot) {
                    Poll::Ready(()) => *place = None,
                    Poll::Pending => touched += 1,
                }
            }
            touched
        })
    }
}
