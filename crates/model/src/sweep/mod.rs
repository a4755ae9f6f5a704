//! Sweeps: one experiment at many points of what its platforms' numbers could be.
//!
//! ```text
//!   file ─▶ Sweep: experiment, axes, seeds ─▶ design: points ─▶ runs 0, 1, 2, …  ─▶ Block of rows under a key
//!                                                            run = point × seeds + seed
//! ```
//!
//! A run is a number below [`Sweep::runs`]; what it is follows from the file alone, so any process can do any of them, in any order. Every point is run
//! with the same seeds (common random numbers): differences between points are not noise of different draws. A run's key is a hash of all that
//! it depends on: rows under the same key are the same.
//!
//! Bounds: [`file::MOST_RUNS`] runs, nothing is kept of them but the permutations of a Latin hypercube.

pub mod block;
pub mod design;
pub mod file;
pub mod shipped;

pub use block::Block;
pub use file::Sweep;
