//! A chain's controller as a process, or as a thread of one: `millrace chain controller`, `millrace chain reset`.
//!
//! | file | what it is |
//! |---|---|
//! | `driver` | the machine (`protocol::chain::controller`) with its registry: messages in, messages out |
//! | `process` | the driver with its links: a loop for a thread |
//! | `metrics` | what its admin port shows |
//! | `command` | flags, and what is said |
//! | `error` | what can go wrong, and what to do about it |
//!
//! How it is operated: `docs/chain-operate.md`.

pub mod command;
pub mod driver;
pub mod error;
mod in_node;
pub mod metrics;
pub mod process;
#[cfg(test)]
mod tests;

pub use command::{ControllerNode, Reset};
pub use driver::Driver;
pub use error::ControllerError;
pub use in_node::Controlling;
pub use process::{Process, Setting};
