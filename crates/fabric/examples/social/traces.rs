//! Which posts are traced, and the traces of all services as one file.
//!
//! Only the client picks: its calls carry the `traceparent` that has every hop leave a span. Each service has a monitor of its own, and is a
//! process of its own in the trace.

use super::compose::ASKED;
use fabric::monitor::{Monitor, Options, Span, trace};
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
        let client = Monitor::tuned(Options::default(), Arc::new(registers));
        // Compose leaves five spans a post: room for as many posts as the client has.
        let options = Options { spans: 5 * Options::default().spans, ..Options::default() };
        let services = ["compose"].into_iter().chain(ASKED);
        Traces { client, services: services.map(|name| (name, Monitor::new(options))).collect() }
    }

    /// A service's monitor.
    pub fn of(&self, service: &str) -> &Monitor {
        let found = self.services.iter().find(|(name, _)| *name == service);
        &found.expect("it is one of the five").1
    }

    /// Whose spans they are, and the spans.
    pub fn all(&self) -> Vec<(&'static str, Vec<Span>)> {
        let client = [("client", self.client.spans())];
        client
            .into_iter()
            .chain(self.services.iter().map(|(name, monitor)| (*name, monitor.spans())))
            .collect()
    }

    /// All of them as a Chrome trace.
    pub fn chrome(&self) -> String {
        let all = self.all();
        trace::chrome_of(all.iter().map(|(name, spans)| (*name, &spans[..])))
    }
}
