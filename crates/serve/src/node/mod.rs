//! A node: a process that serves several services, with one port for operators, one log and one stop.
//!
//! ```text
//!  a config file (`file`) ─┐
//!                          ├─▶ `Plan`: names, services, listeners ──▶ `shell`: open, serve, drain
//!  a program (`builder`) ──┘
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `plan` | what is to be served where, and what cannot be |
//! | `file`, `kinds` | config files; what a service of each kind is made of |
//! | `builder` | the same for Rust programs |
//! | `command`, `system` | `millrace up`; pid file, another user |
//!
//! A kind is a [`Service`](crate::shell::Service); this folder alone knows which there are.

mod builder;
mod command;
mod daemon;
mod file;
mod kinds;
mod plan;
mod system;
// Of all kinds.
#[cfg(all(test, feature = "rec"))]
mod tests;

pub use builder::{Builder, Node, NodeError};
pub use command::{Up, UpError};
pub use file::registers;
