//! The load generator: drives a key-value server with known workloads, times every operation and checks every value.
//!
//! Shape, from the outside in:
//! ```text
//! args ── bench ──┬── fleet ── worker (thread) ── connection ──┬── line ──┬── text: dialect ── target (bytes)
//!                 │     │                                      │          ├── datagrams: dialect
//!                 │     │                                      │          └── caches: serve::inc's client
//!  scale ─ versus ─┤     │                                      ├── workload ── keys ── zipf, sizes, mix
//!         demo ───┘   server (CPU of the other side)           ├── ledger ── value (what may be read)
//!                                                              └── counts (with the tally) ── summary
//! ```
//! Nothing here knows how our own server works: it is one target among others. `tables` and `pages` show what came of it. The loop is
//! `drive`'s; a worker is what it drives, and turns of two servers are a `contest`.

pub mod args;
pub mod bench;
pub mod connection;
pub mod counts;
pub mod demo;
pub mod dialect;
pub mod fleet;
pub mod keys;
pub mod ledger;
pub mod line;
pub mod mix;
pub mod pages;
pub mod resp;
pub mod scale;
pub mod server;
pub mod shm;
pub mod sizes;
pub mod summary;
pub mod tables;
pub mod target;
mod tls;
pub mod value;
pub mod versus;
pub mod worker;
pub mod workload;

use crate::report::Undelivered;
use std::borrow::Cow;
use std::fmt;

pub use args::BenchArgs;
pub use bench::run;
pub use target::Target;

/// Why a run did not happen, ended early or failed.
#[derive(Debug)]
pub enum LoadError {
    /// The arguments make no sense together.
    Plan(Cow<'static, str>),
    /// A server could not be reached.
    Connect {
        /// Where.
        target: String,
        /// What the system said.
        cause: String,
        /// What to do.
        hint: &'static str,
    },
    /// A topology of the in-network cache makes no sense, or there is no socket for its client.
    Caches(serve::inc::IncError),
    /// The run ended before its time: the connection was lost, or no answer came.
    Ended {
        /// Against which server.
        target: String,
        /// Why.
        cause: String,
    },
    /// Values came back that nobody stored there, or keys were lost. The result was printed.
    WrongValues {
        /// How many.
        count: u64,
        /// The first of them.
        examples: Vec<String>,
    },
    /// A result could not be written.
    Output {
        /// Where to.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Plan(text) => f.write_str(text),
            LoadError::Connect { target, cause, hint } => {
                write!(f, "cannot connect to {target}: {cause}\n  {hint}")
            }
            LoadError::Caches(cause) => cause.fmt(f),
            LoadError::Ended { target, cause } => write!(f, "the run against {target} ended early: {cause}"),
            LoadError::WrongValues { count, examples } => {
                write!(
                    f,
                    "{count} wrong values were read; every value read must be one that was stored under its key"
                )?;
                examples.iter().try_for_each(|text| write!(f, "\n  {text}"))
            }
            LoadError::Output { path, cause } => {
                write!(f, "cannot write {path}: {cause}\n  check the folder and its permissions")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl From<Undelivered> for LoadError {
    fn from(Undelivered { place, cause }: Undelivered) -> LoadError {
        LoadError::Output { path: place, cause }
    }
}

#[cfg(test)]
mod tests;
