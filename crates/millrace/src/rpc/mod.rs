//! Services of the fabric under trouble.

pub mod soak;
