//! Requests that leave spans: one of `trace.sample`, and those whose caller asks for it with a sampled `traceparent`. And those that are
//! recorded: one of N.
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
use base::recording::{Recording, Request};
use base::trace::{self, Context, Kind, OK, Open, Sampler, Scope, Tracer, this_thread};
use base::{Clock, Nanos};
use fabric::status::Code;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Which requests of one edge leave spans or are recorded.
pub struct Traces {
    tracer: Tracer,
    samplers: Mutex<[Sampler; 2]>,
}

impl Traces {
    /// None yet.
    pub fn new(tracer: Tracer) -> Traces {
        Traces { tracer, samplers: Mutex::new([Sampler::new(0); 2]) }
    }

    /// A request that begins to arrive now, if it is to leave spans or be recorded.
    pub fn begin(
        &self,
        name: &'static str,
        caller: Option<Context>,
        registers: &Registers,
    ) -> Option<Traced> {
        let recording = self.tracer.recording();
        let one_of = recording.one_of();
        let [is_sampled, is_recorded] = self.hit([registers.read(Id::TraceSample) as u32, one_of]);
        let leaves_spans = is_sampled || caller.is_some_and(|caller| caller.sampled);
        if !leaves_spans && !is_recorded {
            return None;
        }
        let clock = Clock::shared();
        let at = clock.now();
        let recorded = is_recorded.then(|| {
            // This one, and those that were not recorded since the last.
            recording.saw(one_of.into());
            Recorded {
                recording: recording.clone(),
                at,
                request: AtomicU64::new(0),
                reply: AtomicU64::new(0),
            }
        });
        let open = leaves_spans.then(|| Open::begin(&self.tracer, caller, at));
        Some(Traced { open, recorded, name, row: this_thread(), clock })
    }

    fn hit(&self, one_of: [u32; 2]) -> [bool; 2] {
        if one_of == [0; 2] {
            return [false; 2];
        }
        let mut samplers = self.samplers.lock().unwrap_or_else(PoisonError::into_inner);
        [0, 1].map(|at| {
            samplers[at].set(one_of[at]);
            samplers[at].hit()
        })
    }
}

/// A request that leaves spans or is recorded, until it is answered. One that is dropped says so.
pub struct Traced {
    /// Until it has ended, if it leaves spans.
    open: Option<Open>,
    /// … if it is recorded.
    recorded: Option<Recorded>,
    name: &'static str,
    row: Arc<str>,
    clock: Clock,
}

struct Recorded {
    recording: Recording,
    at: Nanos,
    /// Bytes of it, and of its scores.
    request: AtomicU64,
    reply: AtomicU64,
}

impl Traced {
    /// Where its parts belong, if it leaves any.
    pub fn scope(&self) -> Option<&Scope> {
        self.open.as_ref().map(Open::scope)
    }

    /// All of its bytes are here, so many, and are handed over.
    pub fn read(&self, bytes: usize) {
        if let Some(open) = &self.open {
            open.scope().part("read", trace::Place::Edge, open.since(), self.clock.now());
        }
        if let Some(recorded) = &self.recorded {
            recorded.request.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// It is answered with so many bytes.
    pub fn replied(&self, bytes: usize) {
        if let Some(recorded) = &self.recorded {
            recorded.reply.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// It was answered.
    pub fn end(mut self, code: Code) {
        self.end_as(&if code == Code::Ok { OK.to_owned() } else { code.to_string() });
    }

    fn end_as(&mut self, outcome: &str) {
        let now = self.clock.now();
        if let Some(open) = self.open.take() {
            let (row, outcome) = (Arc::clone(&self.row), outcome.to_owned());
            open.end_as(Kind::Server, self.name, trace::Place::Edge, now, outcome, None, row);
        }
        if let Some(Recorded { recording, at, request, reply }) = self.recorded.take() {
            let (service, method) = (Arc::clone(recording.service()), self.name.into());
            let (request, reply) = (request.into_inner(), reply.into_inner());
            let (place, took) = (trace::Place::Engine, now.since(at));
            recording.add(Request { service, method, key: None, at, request, reply, place, took });
        }
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
