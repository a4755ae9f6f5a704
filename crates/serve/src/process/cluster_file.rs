//! The file of a cluster: who reads which part of it.
//!
//! One file names every member: boxes, homes and controllers of a rack, which `crate::inc::topology` reads, and chains of replicas, which
//! `crate::chain::members` reads. Each reads its own tables and leaves the other's; a key that nobody reads is refused by both.

/// All keys of the file: those of a rack, then those of chains.
pub const KEYS: &[&str] = &["slots", "cluster", "box", "home", "controller", "range", "coherence", "chain"];
