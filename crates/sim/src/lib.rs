//! What a simulation and its judge need: virtual time, randomness, a network that fails on purpose, workloads, histories of
//! what clients saw, and checkers that say whether any correct system could have shown it to them.
//!
//! ```text
//!   workload ──▶ your world ──▶ history ──▶ check: versions against time, then linear::search
//!                 │  ▲
//!     send, steps ▼  │ events in one order: (time, source, sequence)
//!   faults ──▶ network ──▶ queue ──▶ fingerprint
//!      └─ shrink: the fewest faults that still fail
//! ```
//!
//! The world is yours: it owns the nodes under test, a [`Queue`] and a [`network::Network`], pops events and hands them to nodes. This
//! crate sees no clock, no thread and no socket, and what it does depends on the seed alone, on every machine.
//! Code that runs in production imports it only at the top (`millrace sim`); tests may everywhere.

pub mod check;
pub mod counted;
pub mod faults;
pub mod fingerprint;
pub mod history;
pub mod joint;
pub mod kv;
pub mod linear;
pub mod network;
pub mod nodes;
pub mod queue;
pub mod random;
pub mod shrink;
pub mod txn;
pub mod workload;

pub use base::Picos;
pub use fingerprint::Fingerprint;
pub use nodes::NodeSet;
pub use queue::{Event, Queue};
