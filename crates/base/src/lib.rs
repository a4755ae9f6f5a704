//! What every layer of millrace stands on: units, random numbers, Zipf's law, a cycle clock, pinning, how much memory there is, huge pages, hashing,
//! budgets of bytes, keys of a cluster, users and passwords, rights, registers, text in HTML, the spread of samples, traces as spans, recordings of
//! requests, why connections ended, and *touch*, the one word with which a handler says which memory it is about to need.
//!
//! This crate knows nothing of requests, rings, keys or sockets, and imports no other crate of the house.

pub mod budget;
pub mod clock;
pub mod closing;
pub mod cpu;
pub mod files;
pub mod hash;
pub mod html;
pub mod json;
pub mod key;
pub mod memory;
pub mod pages;
pub mod private;
pub mod prng;
pub mod recording;
pub mod registers;
pub mod rights;
pub mod spread;
pub mod steady;
#[cfg(feature = "tls")]
pub mod tls;
pub mod touch;
pub mod trace;
pub mod units;
pub mod users;
pub mod zipf;

pub use clock::Clock;
pub use prng::Prng;
pub use units::{Bytes, Nanos, Picos};
