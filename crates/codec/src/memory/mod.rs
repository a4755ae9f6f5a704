//! The two memories: regions cut into chunks with free lists, and arenas that take chunks for one message.
//!
//! ```text
//! Memory (host or accelerator) ── chunk, chunk, … ──▶ Arena of one message ──▶ objects, strings, arrays
//!        ▲                                              │
//!        └────────────── free list (LIFO) ◀── dropped ──┘
//! ```
//!
//! RPCAcc III-B keeps two FIFOs of free 4 KiB chunks in SRAM and leaves open who returns a chunk and what holds a field
//! longer than one: here an [`Arena`] owns its chunks and returns them when it is dropped or reset, and a longer field gets
//! a run of chunks. What came back last is given first, unlike in hardware: a cache still has it.

mod arena;
mod buddy;
mod bulk;
mod pool;

pub use arena::{Arena, Mark};
pub(crate) use bulk::copy;
pub use pool::{CHUNK, Memory, Occupancy, OutOfMemory, Place};
