//! The contestants other than ours, one file per library. What each of their modes promises is in its file.

pub mod buffa;
pub mod prost;
pub mod quick;
