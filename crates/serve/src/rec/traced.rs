//! Requests that leave spans: one of `trace.sample`, and those whose caller asks for it with a sampled `traceparent`.
//!
//! ```text
//! infer        edge     from when it began to arrive until its answer is handed over
//!   read       edge     its bytes
//!   preprocess edge, engine or host: where that is done
//!   queue, task         the engine's: until its task begins; until it has joined its batch. Waits for host threads lie in it
//!   batch wait engine   for more that can be computed with it
//!   compute    engine   with all of its batch
//!   answer     edge     of HTTP: put into words
//! ```

use super::preprocess::Place;
use crate::rec::registers::{Id, Registers};
use base::trace::{self, Context, Kind, OK, Open, Sampler, Scope, Tracer, this_thread};
use base::{Clock, Nanos};
use fabric::status::Code;
use std::sync::{Arc, Mutex, PoisonError};

/// Which requests of one edge leave spans.
pub struct Traces {
    tracer: Tracer,
    sampler: Mutex<Sampler>,
}

impl Traces {
    /// None yet.
    pub fn new(tracer: Tracer) -> Traces {
        Traces { tracer, sampler: Mutex::new(Sampler::new(0)) }
    }

    /// A request that begins to arrive now, if it is to leave spans.
    pub fn begin(
        &self,
        name: &'static str,
        caller: Option<Context>,
        registers: &Registers,
    ) -> Option<Traced> {
        let is_asked = caller.is_some_and(|caller| caller.sampled);
        let n = registers.read(Id::TraceSample) as u32;
        (self.hit(n) || is_asked).then(|| {
            let clock = Clock::shared();
            let open = Some(Open::begin(&self.tracer, caller, clock.now()));
            Traced { open, name, row: this_thread(), clock }
        })
    }

    fn hit(&self, n: u32) -> bool {
        if n == 0 {
            return false;
        }
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        sampler.set(n);
        sampler.hit()
    }
}

/// A request that leaves spans, until it is answered. One that is dropped says so.
pub struct Traced {
    /// Until it has ended.
    open: Option<Open>,
    name: &'static str,
    row: Arc<str>,
    clock: Clock,
}

impl Traced {
    /// Where its parts belong.
    pub fn scope(&self) -> &Scope {
        self.open.as_ref().expect("it has not ended").scope()
    }

    /// All of its bytes are here, and are handed over.
    pub fn read(&self) {
        let begin = self.open.as_ref().expect("it has not ended").since();
        self.scope().part("read", trace::Place::Edge, begin, self.clock.now());
    }

    /// It was answered.
    pub fn end(mut self, code: Code) {
        self.end_as(&if code == Code::Ok { OK.to_owned() } else { code.to_string() });
    }

    fn end_as(&mut self, outcome: &str) {
        let Some(open) = self.open.take() else { return };
        let row = Arc::clone(&self.row);
        let (now, outcome) = (self.clock.now(), outcome.to_owned());
        open.end_as(Kind::Server, self.name, trace::Place::Edge, now, outcome, None, row);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.end_as("dropped");
    }
}

/// A part of it at a place where requests are preprocessed.
pub fn part(scope: Option<&Scope>, name: &'static str, place: Place, begin: Nanos, end: Nanos) {
    let place = match place {
        Place::Edge => trace::Place::Edge,
        Place::Engine => trace::Place::Engine,
        Place::Host => trace::Place::Host,
    };
    if let Some(scope) = scope {
        scope.part(name, place, begin, end);
    }
}
