//! A plain host: cores with their memory, rings between cores, and sockets. Its platform is a file that `millrace model this-host` measures.
//!
//! ```text
//!   GET      code ─▶ bucket line ─▶ item lines ─▶ code          one after the other, or the lines of a group at once
//!   ring     sender's code ─▶ lines to the other core ─▶ receiver's code
//!   UDP      send (with the kernel's way to the other socket) ─▶ [wake-up] ─▶ receive, request, send ─▶ [wake-up] ─▶ receive
//! ```
//! `node` puts them together: a node with its threads on the host's processors, and the ways of a request through it. [`parts`] are those of machines.
//!
//! `millrace model check-host` holds these against the real store, rings and server. Everything here is a program over resources with measured
//! times; what a program adds up to is a prediction, no number of it is fitted on what it predicts.
//!
//! Not modelled: clock frequency that changes with load, hyper-threads that share a core, other programs.

mod datagrams;
mod lookup;
mod node;
mod numbers;
pub mod parts;
mod rings;
mod waking;

pub use datagrams::{Asleep, Served, datagrams};
pub use lookup::{Form, Lookup, Sets};
pub use node::{Handler, Link, Node, Route, Threads, routes};
pub use numbers::{End, Host, WorkingSet};
pub use rings::{Echo, one_way};
pub use waking::WakeUp;
