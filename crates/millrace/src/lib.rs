//! millrace, the program: proofs and plans.

pub mod check;
pub mod host;
pub mod lab;
pub mod model;
pub mod parallel;
pub mod plan;
pub mod rec;
pub mod rpc;
pub mod sim;
pub mod soak;
pub mod sweep;
pub mod timed;
