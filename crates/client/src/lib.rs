//! Clients of millrace, for programs.
//!
//! | module | what it is |
//! |---|---|
//! | [`chain`] | transactions over a chain of replicas |
//!
//! Nothing here serves anything: servers import this crate for the words that they share with their clients.

pub mod chain;
