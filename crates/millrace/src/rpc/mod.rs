//! Load on services of the fabric.

pub mod bench;
pub mod soak;
