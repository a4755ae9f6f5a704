//! Lock-free rings between one producer and one consumer, in one process or over shared memory, and what stands on them or
//! beside them: request/response pairs with credits, doorbells, an arena for long messages, and waiting.
//!
//! | module | one word |
//! |---|---|
//! | [`spsc`] | bounded rings of fixed-size slots, three ways to publish, one contract |
//! | [`spmc`] | a bounded queue from one producer to many consumers |
//! | [`pair`] | request ring + response ring; the client's own counters are the credits |
//! | [`tags`] | what a client knows of each request in flight, when replies come in any order |
//! | [`doorbell`] | one u32 tail per ring, contiguous; a scan finds all new work |
//! | [`arena`] | contiguous bytes beside a ring, for what does not fit a slot |
//! | [`baton`] | a value that many threads drive in turns: combining, and who keeps watch |
//! | [`summary`] | one line for a consumer of many rings to watch while little comes |
//! | [`wait`] | spin, pause, monitored wait, sleep; no system call while the other side is awake |
//! | [`shm`] | pair + arenas + wake words in one sealed memfd, with a peer that may die or lie |
//! | [`probe`] | how far apart two cores are: cache-line ping-pong |
//!
//! The crate knows nothing of requests, keys, sockets (but for the hand-over of a segment) or threads: it starts none
//! except in [`probe`], for a few milliseconds.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(loom))]
pub mod arena;
pub mod baton;
pub mod doorbell;
mod mapping;
mod memory;
pub mod pair;
mod plain;
#[cfg(not(loom))]
pub mod probe;
#[cfg(not(loom))]
pub mod shm;
pub mod spmc;
pub mod spsc;
pub mod summary;
mod sync;
#[cfg(not(loom))]
pub mod tags;
pub mod wait;

pub use mapping::Mapping;
pub use pair::{Client, Server, Tag};
pub use plain::Plain;
pub use spsc::Full;
