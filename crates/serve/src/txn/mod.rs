//! `millrace txn`, and chains to try it on. The client itself is `client::chain`; its names are here, too, since servers share its words.
//!
//! | file | what it is |
//! |---|---|
//! | `command` | `millrace txn`, `millrace txn status` |
//! | `spawned` | a chain of processes on this machine, for benchmarks, examples and tests |

mod command;
pub mod spawned;
#[cfg(test)]
mod tests;

pub use ::client::chain::{Client, Options, Ticket, TxnError, info, proto, reply, words};
pub use command::{StatusOf, Transactions};
