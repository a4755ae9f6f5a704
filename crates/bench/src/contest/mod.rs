//! Comparisons of things that are measured in turns.

mod ratio;

pub use ratio::Ratio;
