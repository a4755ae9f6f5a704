//! Traces: what happened to single requests, as spans that lie in each other, over all places and services of a process.
//!
//! ```text
//!  edge      Open::begin ─┬ Scope ─▶ ring slot, task, host thread, batch …     each records its parts when they are over
//!                         └ Open::end                                          the request's own span
//!                                                   │
//!                 Tracer: a ring of the last spans ─┴─▶ chrome (Perfetto), otlp (OpenTelemetry)
//! ```
//! A request that is sampled is opened once, where it came in: it gets a number in its trace, and whoever serves a part of it has its
//! [`Scope`]. One that is not sampled has none, and costs whoever serves it a test.
//!
//! Why a part carries its request's whole context and not a place in a table of open requests: a part that is recorded late (a host thread comes
//! to work that was given up; an engine to a request whose client is gone) then belongs where it belonged, whatever was opened since; there is
//! nothing that could be full, and nothing to give back.
//!
//! Invariants
//! 1. A span that is kept is over: it has its end, and is never changed.
//! 2. Numbers of spans are not 0, and differ as far as 64 random bits do.
//!
//! Bounds: [`Options::spans`] spans of all services; a new one takes the place of the oldest, which is counted as dropped. About 200 bytes a span.
//!
//! Cost: a request that is not sampled [`Sampler::hit`], a countdown; one that is, a lock and some allocations a span. Measured:
//! `docs/tracing.md`.
//!
//! Times are arguments. The clock of a process is [`crate::Clock::shared`]; spans of one process can be compared if all are by it.

mod chrome;
mod context;
mod otlp;
mod sampler;
mod span;
#[cfg(test)]
mod tests;

pub use chrome::{MONOTONIC, chrome};
pub use context::{CONTEXT_BYTES, Context, TRACEPARENT};
pub use otlp::otlp;
pub use sampler::Sampler;
pub use span::{Kind, OK, Place, Span, this_thread};

use crate::recording::Recording;
use crate::{Nanos, Prng};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Spans.
    pub spans: usize,
    /// What the numbers of spans are drawn from. Two processes want two.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        // What hash maps are keyed with, which the system draws.
        let seed = RandomState::new().build_hasher().finish();
        Options { spans: 16 << 10, seed }
    }
}

/// The recorder of a process, as one of its services sees it. Clones, and those of other services ([`Tracer::of`]), are the same recorder.
#[derive(Clone, Debug)]
pub struct Tracer {
    kept: Arc<Mutex<Kept>>,
    service: Arc<str>,
    recording: Recording,
}

#[derive(Debug)]
struct Kept {
    spans: VecDeque<Span>,
    most: usize,
    recorded: u64,
    numbers: Prng,
}

impl Default for Tracer {
    fn default() -> Tracer {
        Tracer::new(Options::default())
    }
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans recorded.
    pub recorded: u64,
    /// Of these, spans that have made room for later ones.
    pub dropped: u64,
}

/// Spans in the order in which they were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The spans.
    pub spans: Vec<Span>,
    /// How many were recorded up to the last of them.
    pub end: u64,
    /// How many between those before and these had made room for later ones.
    pub missed: u64,
}

impl Tracer {
    /// A recorder without spans, for a service without a name.
    pub fn new(options: Options) -> Tracer {
        let (most, numbers) = (options.spans, Prng::new(options.seed));
        let kept = Kept { spans: VecDeque::new(), most, recorded: 0, numbers };
        Tracer { kept: Arc::new(Mutex::new(kept)), service: "".into(), recording: Recording::default() }
    }

    /// The same recorder, for the spans of this service.
    #[must_use]
    pub fn of(&self, service: &str) -> Tracer {
        let recording = self.recording.of(service);
        Tracer { kept: Arc::clone(&self.kept), service: service.into(), recording }
    }

    /// Where its requests are recorded, if they are to be.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Whose spans it records.
    pub fn service(&self) -> &Arc<str> {
        &self.service
    }

    /// Keeps a span.
    pub fn record(&self, span: Span) {
        let mut kept = self.lock();
        kept.recorded += 1;
        if kept.most == 0 {
            return;
        }
        if kept.spans.len() == kept.most {
            kept.spans.pop_front();
        }
        kept.spans.push_back(span);
    }

    /// The spans that are kept, of all services, in the order in which they ended.
    pub fn spans(&self) -> Vec<Span> {
        self.lock().spans.iter().cloned().collect()
    }

    /// Those of one service.
    pub fn spans_of(&self, service: &str) -> Vec<Span> {
        self.lock().spans.iter().filter(|span| &*span.service == service).cloned().collect()
    }

    /// The oldest spans that are kept of those recorded after the first `after` of all: for whoever takes them away bit by bit.
    pub fn next(&self, after: u64, most: usize) -> Batch {
        let kept = self.lock();
        let first = kept.recorded - kept.spans.len() as u64;
        let begin = after.clamp(first, kept.recorded);
        let spans: Vec<Span> = kept.spans.iter().skip((begin - first) as usize).take(most).cloned().collect();
        Batch { end: begin + spans.len() as u64, missed: begin.saturating_sub(after), spans }
    }

    /// How many there were.
    pub fn counts(&self) -> Counts {
        let kept = self.lock();
        Counts { recorded: kept.recorded, dropped: kept.recorded - kept.spans.len() as u64 }
    }

    fn number(&self) -> u64 {
        self.lock().numbers.next_u64().max(1)
    }

    /// What is behind this lock is sound after a panic too: it is held for a push or a copy.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the parts of a request, or of one of its spans, belong. Clone it to wherever they are worked on.
#[derive(Clone, Debug)]
pub struct Scope {
    tracer: Tracer,
    context: Context,
}

impl Scope {
    /// For parts of a span that is recorded elsewhere, as this context names it.
    pub fn of(tracer: &Tracer, context: Context) -> Scope {
        Scope { tracer: tracer.clone(), context }
    }

    /// The span that they are parts of; what goes out because of the request carries it as its `traceparent`.
    pub fn context(&self) -> Context {
        self.context
    }

    /// A part that has parts of its own, from `begin` on.
    pub fn open(&self, begin: Nanos) -> Open {
        let context = Context { span: self.tracer.number(), ..self.context };
        Open { scope: Scope { tracer: self.tracer.clone(), context }, parent: Some(self.context.span), begin }
    }

    /// Records a part that is over and ended well.
    pub fn part(&self, name: impl Into<Cow<'static, str>>, place: Place, begin: Nanos, end: Nanos) {
        self.open(begin).end(name, place, end, OK);
    }
}

/// A span that is not over. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Open {
    scope: Scope,
    parent: Option<u64>,
    begin: Nanos,
}

impl Open {
    /// A request that came, or was sent, at `begin`: in its caller's trace if it has one, else in a new one.
    pub fn begin(tracer: &Tracer, caller: Option<Context>, begin: Nanos) -> Open {
        let trace = caller.map_or_else(
            || u128::from(tracer.number()) << 64 | u128::from(tracer.number()),
            |caller| caller.trace,
        );
        let context = Context { trace, span: tracer.number(), sampled: true };
        let scope = Scope { tracer: tracer.clone(), context };
        Open { scope, parent: caller.map(|caller| caller.span), begin }
    }

    /// Where its parts belong.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// When it began.
    pub fn since(&self) -> Nanos {
        self.begin
    }

    /// It had begun at this earlier time already.
    pub fn came_at(&mut self, at: Nanos) {
        self.begin = self.begin.min(at);
    }

    /// Records it as a part, on the calling thread.
    pub fn end(
        self,
        name: impl Into<Cow<'static, str>>,
        place: Place,
        end: Nanos,
        outcome: impl Into<Cow<'static, str>>,
    ) {
        self.end_as(Kind::Part, name, place, end, outcome, None, this_thread());
    }

    /// Records it: what it was of, over which connection it came, and on which thread it is shown.
    #[allow(clippy::too_many_arguments)] // Each is a field of a span, and is said once.
    pub fn end_as(
        self,
        kind: Kind,
        name: impl Into<Cow<'static, str>>,
        place: Place,
        end: Nanos,
        outcome: impl Into<Cow<'static, str>>,
        connection: Option<u32>,
        row: Arc<str>,
    ) {
        let Open { scope: Scope { tracer, context }, parent, begin } = self;
        tracer.record(Span {
            context,
            parent,
            kind,
            name: name.into(),
            service: Arc::clone(&tracer.service),
            place,
            row,
            begin,
            end: end.max(begin),
            outcome: outcome.into(),
            connection,
        });
    }
}
