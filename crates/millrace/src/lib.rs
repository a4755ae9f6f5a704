//! millrace, the program: load generator, probe, demo, proofs and plans.

pub mod check;
pub mod demo;
pub mod host;
pub mod lab;
pub mod load;
pub mod model;
pub mod parallel;
pub mod plan;
pub mod probe;
pub mod rec;
pub mod report;
pub mod rpc;
pub mod sim;
pub mod soak;
pub mod sweep;
pub mod timed;
pub mod txn;
