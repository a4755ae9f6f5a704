//! Which requests are traced, and the traces of all tiers as one file.
//!
//! Only the client picks: its calls carry the `traceparent` that has every hop leave spans. Each tier has a monitor of its own, and is a
//! process of its own in the trace; one tracer keeps the spans of all.

use base::{Clock, trace};
use fabric::monitor::{Monitor, Options, Span, Tracer};
use fabric::registers::{Id, Registers};
use std::sync::Arc;

/// The monitors of a run.
pub struct Traces {
    pub client: Monitor,
    tracer: Tracer,
}

impl Traces {
    /// Traces one request of so many.
    pub fn new(one_of: u64) -> Traces {
        let registers = Registers::default();
        registers.write(Id::TraceSample, one_of).expect("in range");
        let tracer = Tracer::new(Options::default());
        let client = Monitor::tuned(Options::default(), Arc::new(registers));
        client.set_tracer(tracer.of("client"));
        Traces { client, tracer }
    }

    /// A monitor for a tier.
    pub fn of(&self, tier: &'static str) -> Monitor {
        let monitor = Monitor::default();
        monitor.set_tracer(self.tracer.of(tier));
        monitor
    }

    /// The spans of all.
    pub fn all(&self) -> Vec<Span> {
        self.client.tracer().spans()
    }

    /// All of them as a Chrome trace.
    pub fn chrome(&self) -> String {
        trace::chrome(&self.all(), Clock::shared().monotonic())
    }
}
