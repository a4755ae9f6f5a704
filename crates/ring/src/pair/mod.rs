//! A request ring and a response ring between one client and one server, with the client's own counters as credits.
//!
//! Why: a message then costs one trip, and no credit message ever travels. The client may issue while
//! `issued - completed < entries`; the response ring has as many slots, so a reply always fits (ORCA, items 7-15).
//!
//! Shape:
//! ```text
//! client  issued ──▶ [ request ring, entries slots ] ──▶ received  server
//!         completed ◀── [ response ring, entries slots ] ◀── replied
//! ```
//! Invariants (asserted where they could break):
//! 1. `issued - completed ≤ entries`. The server takes requests in order, so of the first `issued` requests at least
//!    `completed` are taken: the slot of position `issued` is free whenever the client may issue.
//! 2. `replied ≤ received ≤ issued`, hence `replied - completed ≤ entries`: the response slot at `replied` is free. A server that
//!    answers more than it received is a bug of ours, and panics.
//!
//! Ordering: each ring's own ("item" or "items" in [`crate::spsc`]). Reuse of a request slot: the server's read of it comes before
//! its reply's publication, which the client has seen; reuse of a response slot: the client's read of it comes before it
//! published the later request that is being answered.
//!
//! Both halves may live in one thread: a step costs a few nanoseconds and neither blocks.
//!
//! Cost and the choice of [`Hybrid`]: `docs/measurements/ring.md`.

mod client;
mod server;

pub use client::Client;
pub use server::Server;

use crate::spsc::{Consume, Hybrid, Kind};
use crate::{Mapping, Plain};
use std::sync::Arc;

/// Which request a reply answers: the request's position in the request ring. Unique among 2³² in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

/// What travels in a response slot.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Reply<Rep> {
    tag: u32,
    body: Rep,
}

// SAFETY: a u32 and a plain body, padding aside.
unsafe impl<Rep: Plain> Plain for Reply<Rep> {}

/// A pair on the heap, with `capacity` requests in flight at most (a power of two), on the ring chosen by measurement.
pub fn pair<Req: Send, Rep: Send>(capacity: u32) -> (Client<Req, Rep>, Server<Req, Rep>) {
    pair_of::<Hybrid, Req, Rep>(capacity)
}

/// A pair on the heap, on rings of a stated kind.
pub fn pair_of<K: Kind, Req: Send, Rep: Send>(capacity: u32) -> (Client<Req, Rep, K>, Server<Req, Rep, K>) {
    let (to_server, requests) = K::heap(capacity);
    let (to_client, replies) = K::heap(capacity);
    (Client::over(to_server, replies.without_credits()), Server::over(requests.without_credits(), to_client))
}

/// Bytes that a pair needs in a mapping.
pub fn mapped_bytes<K: Kind, Req: Plain, Rep: Plain>(capacity: u32) -> usize {
    K::mapped_bytes::<Req>(capacity) + K::mapped_bytes::<Reply<Rep>>(capacity)
}

/// The client's half of a pair at `offset` of a mapping; the same rules as [`Kind::map_producer`].
#[cfg(not(loom))]
pub fn map_client<K: Kind, Req: Plain, Rep: Plain>(
    memory: &Arc<Mapping>,
    offset: usize,
    capacity: u32,
) -> Client<Req, Rep, K> {
    let replies_at = offset + K::mapped_bytes::<Req>(capacity);
    Client::over(
        K::map_producer(memory, offset, capacity),
        K::map_consumer(memory, replies_at, capacity).without_credits(),
    )
}

/// The server's half of a pair at `offset` of a mapping.
#[cfg(not(loom))]
pub fn map_server<K: Kind, Req: Plain, Rep: Plain>(
    memory: &Arc<Mapping>,
    offset: usize,
    capacity: u32,
) -> Server<Req, Rep, K> {
    let replies_at = offset + K::mapped_bytes::<Req>(capacity);
    Server::over(
        K::map_consumer(memory, offset, capacity).without_credits(),
        K::map_producer(memory, replies_at, capacity),
    )
}

#[cfg(all(test, not(loom)))]
mod tests;
