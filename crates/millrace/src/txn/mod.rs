//! Load on chains.

pub mod bench;
