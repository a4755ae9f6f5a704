//! What a node that runs says of its load: rates, sizes, times and registers, read from its admin port at two moments. For the placer, which moves
//! services by it ([`crate::placer`]), and for the planner, which makes a workload of it ([`crate::planner`]).
//!
//! ```text
//!   admin port ─▶ ask ─▶ reading ─▶ difference ─▶ observation
//! ```
//! | file | what it is |
//! |---|---|
//! | `ask` | the two requests |
//! | `reading` | what an admin port says at one moment, as counters |
//! | `difference` | what two readings mean |
//! | `observation` | rates, sizes, times, registers; what is wrong with them |
//! | `caches` | of a key-value server, what its memory does |
//! | `load` | of these, what a service is asked: methods, connections, items |
//!
//! A node may say anything: numbers are taken as they come, and only what has no fault ([`Service::fault`]) is gone by.

mod ask;
mod caches;
mod difference;
mod load;
mod observation;
mod reading;

pub(crate) use ask::ask;
pub use caches::{Cache, MEMORY, QUARTERS};
pub(crate) use difference::Difference;
pub use load::{Load, Method};
pub use observation::{Fault, Figure, Kind, Location, Observation, Register, SERVICES_MAX, Service};
pub(crate) use reading::Reading;
