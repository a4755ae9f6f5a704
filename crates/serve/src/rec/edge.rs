//! What both edges share: the way to the engine, and what they say of the model.

use super::counters::{Counters, add};
use super::held::{Held, Hold};
use super::inference::{Asked, Inference, Work};
use super::job::{Input, Job, Reply};
use super::metrics;
use super::preprocess::{Place, Preprocess};
use super::refusal::Refusal;
use super::shelf::Shelf;
use super::traced::{Traced, Traces};
use crate::engine_cores::OnCore;
use crate::metrics::{Page, process};
use crate::rec::registers::{Id, Registers};
use base::Clock;
use base::trace::Context;
use engine::EdgePort;
use std::sync::{Arc, Mutex, PoisonError};

/// One edge. Its port has one user at a time, the edge's thread; the lock is never waited for.
pub struct Edge {
    number: usize,
    port: Mutex<EdgePort<Inference>>,
    on_core: Arc<OnCore<Inference>>,
    preprocess: Arc<Preprocess>,
    traces: Traces,
    /// Bytes of requests.
    pub held: Arc<Held>,
    clock: Clock,
    /// The model.
    pub shelf: Arc<Shelf>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// What is tuned.
    pub registers: Arc<Registers>,
}

impl Edge {
    /// The edge of this number in front of `port` of the service on its core.
    pub fn new(
        number: usize,
        port: EdgePort<Inference>,
        on_core: &Arc<OnCore<Inference>>,
        held: &Arc<Held>,
        preprocess: &Arc<Preprocess>,
    ) -> Edge {
        Edge {
            number,
            port: Mutex::new(port),
            on_core: Arc::clone(on_core),
            preprocess: Arc::clone(preprocess),
            traces: Traces::new(preprocess.tracer.clone()),
            held: Arc::clone(held),
            clock: Clock::shared(),
            shelf: Arc::clone(&preprocess.shelf),
            counters: Arc::clone(&preprocess.counters),
            registers: Arc::clone(&preprocess.registers),
        }
    }

    /// Nothing of `rec.held` yet: for a request that comes piece by piece.
    pub fn hold(&self) -> Hold {
        self.held.hold(self.registers.size(Id::Held))
    }

    /// A request begins to arrive, which belongs where its caller says: what it leaves spans with, if it is to.
    pub fn trace(&self, name: &'static str, caller: Option<Context>) -> Option<Traced> {
        self.traces.begin(name, caller, &self.registers)
    }

    /// Hands a request over, or answers it here; [`Edge::ring`] follows. `hold` has what came of it already; the rest is taken here.
    pub fn submit(&self, input: Input, reply: Reply, mut hold: Hold) {
        if let Err(full) = self.held.take(&mut hold, input.bytes()) {
            return self.refuse(&reply, &full);
        }
        add(&self.counters.received, input.bytes() as u64);
        let job = Box::new(Job { arrived: self.clock.now(), input, reply, hold });
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        // A reply says only that its slot is free: answers do not come this way.
        while port.poll().is_some() {}
        if port.is_closed() || port.free() == 0 {
            let why = match port.is_closed() {
                true => Refusal::Internal("the engine is gone"),
                false => Refusal::Busy("rec.ring requests that wait"),
            };
            drop(port);
            return self.refuse(&job.reply, &why);
        }
        let work = match self.preprocess.place(&job) {
            Place::Edge => match self.preprocess.ready(job, Place::Edge) {
                Some(ready) => Work::Ready(ready),
                None => return,
            },
            Place::Engine | Place::Host => Work::Job(job),
        };
        let (scope, now) = (work.scope().cloned(), self.clock.now());
        let asked = Asked::new(self.number, work);
        let submitted = match scope {
            None => port.submit(now, asked),
            Some(scope) => port.submit_traced(now, asked, &scope),
        };
        assert!(submitted.is_ok(), "there was a free slot");
    }

    /// Tells the engine of what was handed over: once for all of a turn, since one that shares the processor begins with the first at once.
    pub fn ring(&self) {
        if self.port.lock().unwrap_or_else(PoisonError::into_inner).ring() {
            self.on_core.announce();
        }
    }

    /// The server's metrics, as Prometheus text. Waits for the engine.
    pub fn metrics(&self) -> String {
        let mut page = Page::default();
        metrics::collect(&self.counters, Some((&self.shelf, &self.on_core)), &mut page);
        process::collect(&mut page, self.preprocess.tracer.counts());
        page.text()
    }

    #[cold]
    fn refuse(&self, reply: &Reply, why: &Refusal) {
        add(&self.counters.refused, 1);
        reply.refuse(why);
    }
}
