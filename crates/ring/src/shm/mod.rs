//! What processes share. [`region`]: memory that one lends and others read and write by themselves. The rest:
//!
//! A connection between two processes in one memory segment: two rings, an arena each way for what does not fit a slot, and the
//! wake words. Messages are bytes of any length up to a stated limit. The rings are a pair ([`ShmClient`], [`ShmServer`]: requests, and
//! one reply to each) or [`Lanes`] (messages either way, independent of each other).
//!
//! Shape of a segment (one memfd, sealed against shrinking and growing):
//! ```text
//! 0       128          256          384
//! │header │server wake │client wake │ request ring │ response ring │ request arena │ response arena │
//! a pair's slot (64 B): seq u32 │ [tag u32] │ len u32 │ 52 bytes: the message, or where it is in the arena
//! ```
//! Beside it stays the Unix stream socket over which it was handed: it wakes a sleeping peer (one byte), and its end is the sure
//! sign that the peer is gone, kill -9 included. There is no doorbell inside: a table for one ring saves nothing over the
//! ring's own next word.
//!
//! A peer may die at any instruction. What it published before is received to the end; then [`Outcome::PeerGone`]. A message
//! is published by one store after all its bytes, so none is ever torn, and each side's position is its own, so none comes
//! twice.
//!
//! A peer may lie. Everything read from the segment is copied out first and checked after: a length, span or tag that cannot be
//! is a [`Violation`], which ends the connection. Nothing the peer does can make this side read or write outside the
//! segment, block, or grow: the segment cannot shrink (seals are checked on attach), sends do not block, and replies are
//! matched to requests.
//!
//! Bounds: `entries` requests in flight; a message is at most [`Geometry::max_message`] bytes.
//!
//! Errors: [`SendError`], [`Violation`], [`AttachError`]: see each.

mod client;
mod envelope;
pub mod handover;
pub mod lanes;
pub mod region;
mod segment;
mod server;
mod wire;

pub use client::ShmClient;
pub use envelope::INLINE;
pub use lanes::Lanes;
pub use segment::{AttachError, Form, Geometry, Pages, Segment};
pub use server::ShmServer;
pub use wire::{SendError, Side, Violation};

pub use crate::wait::Outcome;

#[cfg(all(test, not(miri)))]
mod tests;
