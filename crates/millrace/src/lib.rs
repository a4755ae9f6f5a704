//! millrace, the program: plans.

pub mod host;
pub mod model;
pub mod parallel;
pub mod plan;
pub mod rec;
pub mod sweep;
pub mod timed;
