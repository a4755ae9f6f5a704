//! Link programs: a cable of the lab that delays, loses, doubles and reorders frames.
//!
//! ```text
//!   box:1 ──veth── to-box1 ▶ wire ▶ queue ▶ wire ▶ to-box3 ──veth── box:3        in a namespace of its own; the same back
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `options` | what a link does to frames, as text |
//! | `queue` | one direction: frames in, frames out when they are due; no clock, no socket |
//! | `wire` | a packet socket on an interface |
//! | `carry` | `millrace lab link`: two of each, one thread |
//!
//! Why not netem: it needs a module that many kernels lack, and this one can be killed, seeded, counted and read.

pub mod carry;
pub mod options;
pub mod queue;
mod wire;

pub use options::{Faults, Link};
