//! Load on servers, and what this machine can do: everything that measures real time.
//!
//! | module | what it is |
//! |---|---|
//! | [`drive`], [`tally`] | the loop that all loads run on, and what it counts |
//! | [`contest`] | comparisons in turns: rounds, ratios, their tables |
//! | [`load`] | the load generator for key-value servers (`millrace bench`) |
//! | [`txn`], [`rec`], [`rpc`] | `millrace txn bench`, `rec bench`, `rpc bench` |
//! | [`probe`] | `millrace probe`: clocks, caches, wake-ups, sockets, storage |
//! | [`demo`] | `millrace demo kv`: a node, load and a page |
//! | [`grpc`] | a gRPC client, for loads and checks that come by a gateway |
//! | [`report`] | tables for the terminal, pages with plots |
//!
//! Servers (`serve`) do not know it; what fails on purpose is in `prove`, what runs in virtual time in `plan`.

pub mod contest;
pub mod demo;
pub mod drive;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod load;
pub mod probe;
#[cfg(feature = "rec")]
pub mod rec;
pub mod report;
#[cfg(feature = "rpc")]
pub mod rpc;
pub mod tally;
pub mod txn;
