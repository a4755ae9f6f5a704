//! Transactions over a chain of replicas, from the side of whoever asks.
//!
//! | file | what it is |
//! |---|---|
//! | `../../proto/txn.proto` | the service that each replica serves; `txn.rs` and `txn.desc` beside it are made of it by `fabric::build` and committed |
//! | `words`, `info` | its messages to and from those of `protocol::chain` |
//! | `client` | a client: transactions that wait, or many under way |
//! | `places`, `place` | the replicas that a client knows, and a channel to each |
//! | `error`, `reply` | why there is no outcome; outcomes as text and JSON |
//! | `command` | `millrace txn`, `millrace txn status` |
//! | `spawned` | a chain of processes on this machine, for benchmarks, examples and tests |

mod client;
mod command;
mod error;
pub mod info;
mod place;
mod places;
pub mod reply;
pub mod spawned;
#[cfg(test)]
mod tests;
pub mod words;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/txn.rs");
}

pub use client::{Client, Options, Ticket};
pub use command::{StatusOf, Transactions};
pub use error::TxnError;
pub use places::Caller;
