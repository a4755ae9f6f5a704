//! Which posts are traced, and the traces of all services as one file.
//!
//! Only the client picks: its calls carry the `traceparent` that has every hop leave spans. Each service has a monitor of its own, and is a
//! process of its own in the trace; one tracer keeps the spans of all.

use super::compose::ASKED;
use base::trace;
use fabric::monitor::{Monitor, Options, Span, Tracer};
use fabric::registers::{Id, Registers};
use std::sync::Arc;

/// The monitors of a run.
pub struct Traces {
    pub client: Monitor,
    services: Vec<(&'static str, Monitor)>,
}

impl Traces {
    /// Traces one post of so many.
    pub fn new(one_of: u64) -> Traces {
        let registers = Registers::default();
        registers.write(Id::TraceSample, one_of).expect("in range");
        let tracer = Tracer::new(Options::default());
        let client = Monitor::tuned(Options::default(), Arc::new(registers));
        client.set_tracer(tracer.of("client"));
        let services = ["compose"].into_iter().chain(ASKED);
        let monitor = |name| {
            let monitor = Monitor::default();
            monitor.set_tracer(tracer.of(name));
            (name, monitor)
        };
        Traces { client, services: services.map(monitor).collect() }
    }

    /// A service's monitor.
    pub fn of(&self, service: &str) -> &Monitor {
        let found = self.services.iter().find(|(name, _)| *name == service);
        &found.expect("it is one of the five").1
    }

    /// The spans of all.
    pub fn all(&self) -> Vec<Span> {
        self.client.tracer().spans()
    }

    /// All of them as a Chrome trace.
    pub fn chrome(&self) -> String {
        trace::chrome(&self.all())
    }
}
