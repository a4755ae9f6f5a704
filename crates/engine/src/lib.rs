//! The engine: one core that serves many rings, for several services, and overlaps the cache misses of the requests in them.
//!
//! An edge writes a request into its ring and rings a doorbell. The engine scans the doorbells, admits requests round-robin, and
//! handles them: *staged* (touch a group's memory, then execute it in order) or as *tasks* (async functions that may wait for memory,
//! time, a log, host threads and other services). It answers in bursts. See [`Engine`] for the loop, [`Service`] and [`TaskService`]
//! for what a user of this crate writes.
//!
//! An engine is a value, not a thread: a dedicated core may run it for ever, or every edge may run it in turn behind a lock. It owns no
//! clock: its [`Core`] is the processor's, or a model's. It knows nothing of sockets, protocols or keys.
//!
//! | to | see |
//! |---|---|
//! | make an engine, add services, open ports | [`Engine::new`], [`Engine::add`], [`Engine::add_task`], [`Engine::open`] |
//! | run it | [`Engine::pass`], [`Engine::has_work`], [`Engine::next_deadline`], [`Engine::idle`] |
//! | wait inside a task | [`Cx`] |
//! | give it threads for what blocks | [`HostPool`], [`Engine::set_host`] |
//! | spread keys over several | [`Spread`] |
//! | see whether it lives | [`Heartbeat`] |
//! | see where single requests were | [`EdgePort::submit_traced`] |

mod call;
mod context;
mod cores;
mod coroutine;
mod cx;
mod engine;
mod heartbeat;
mod host;
mod hosted;
mod inflight;
mod lines;
mod log;
mod packed;
mod port;
mod ports;
mod service;
mod settings;
mod slab;
mod spread;
mod staged;
mod stages;
mod tasks;
#[cfg(test)]
mod tests;
mod traced;

pub use call::{Call, CallError, Called, Callee};
pub use context::with;
pub use cores::{Core, CycleCore, Work};
pub use cx::{Cx, Durable, Sleep, Touch};
pub use engine::{Engine, Handle};
pub use heartbeat::{Beat, Heartbeat};
pub use host::{HostCall, HostError, HostPool, HostPort};
pub use inflight::{InFlight, Slot};
pub use log::{Log, MemoryLog};
pub use port::{EdgePort, EnginePort, Stamped};
pub use ring::pair::Tag;
pub use service::{Failure, Messages, Service, TaskService};
pub use settings::{Counters, EngineOptions, Form, Order, Progress, Scheduler, ServiceOptions, Settings};
pub use spread::Spread;
pub use stages::{StageRun, StageSummary, Stages};
