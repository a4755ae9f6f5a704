//! The engine: one core that serves many rings and overlaps the cache misses of the requests in them.
//!
//! An edge writes a request into its ring and rings a doorbell. The engine scans the doorbells, admits requests round-robin
//! into its in-flight table, touches the memory that they are about to need, executes them in order of admission, and
//! answers in bursts. See [`Engine`] for the loop, [`Service`] for what a user of this crate writes.
//!
//! An engine is a value, not a thread: a dedicated core may run it for ever, or every edge may run it in turn behind a lock.
//! It knows nothing of sockets, protocols or keys.

mod coroutine;
mod engine;
mod inflight;
mod port;
mod ports;
mod service;
mod stages;
#[cfg(test)]
mod tests;

pub use engine::{Counters, Engine, Form, Progress, Settings};
pub use inflight::{InFlight, Slot};
pub use port::{EdgePort, EnginePort, Stamped, port};
pub use service::{Service, with};
pub use stages::{StageRun, StageSummary, Stages};
