//! A model of datacenter hardware that requests travel through, in virtual time.
//!
//! ```text
//!   a path of hardware, as data:  Program = [Use nic, Use pcie, Fork write-back, Use dram, …]
//!        │ interpreted by                     │ summed by
//!        ▼                                    ▼
//!   Kernel: events, queues, credits      Demand: service per resource, time when nothing else is there
//!        ▲
//!   Sim: handlers as futures, in the same virtual time (the code that runs on real cores)
//! ```
//!
//! One description serves both the simulation and the planner's arithmetic, so that the two cannot drift apart.
//!
//! Time is integer picoseconds; events come in the order (time, source, sequence); randomness has a stream per resource; nothing depends on a
//! clock, a thread or a hash map. So a run has a fingerprint, the same on every machine.

pub mod alternative;
pub mod component;
pub mod experiment;
pub mod kernel;
pub mod load;
pub mod machine;
pub mod pcie;
pub mod plan;
pub mod platform;
pub mod popularity;
pub mod queueing;
pub mod random;
pub mod rerun;
pub mod sim;
pub mod sweep;
pub mod system;
pub mod workload;

/// Which model this is: two with the same version say the same. The package's version and a hash of the sources.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("MILLRACE_MODEL_SOURCES"));

/// The page that says how to add a platform and an experiment; its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extend-model.md")]
pub struct ExtendModel;

pub use base::Picos;
pub use kernel::{Kernel, ProgramId, ResourceId, Service, Step, Tokens};
pub use platform::{Platform, Platforms};
pub use sim::Sim;
