//! Bounded rings between one producer and one consumer, in three variants under one contract.
//!
//! | variant | how an item is found | how space is learnt | best at |
//! |---|---|---|---|
//! | [`slot`] | a sequence word in the item's own slot | consumed count, read only when the known space is used up | one item at a time |
//! | [`index`] | a shared tail, published per batch; both sides cache the other's index | shared head, likewise | large batches of small items |
//! | [`hybrid`] | sequence words, a batch published by its *first* word last | as [`slot`] | requests and replies in bursts |
//!
//! Contract (each point is asserted for every variant by the conformance suite below):
//! 1. FIFO, each item exactly once, never an overwrite: a full ring gives the item back.
//! 2. What [`Produce::try_push`] took is visible at the latest after [`Produce::publish`]. A push that finds the ring full
//!    publishes what waits, so a producer that only retries cannot deadlock against a consumer that sees nothing.
//! 3. What the consumer took is known to the producer at the latest when the consumer finds the ring empty.
//! 4. Items left in a ring on the heap are dropped with it.
//! 5. Positions are u32 and wrap; capacities are powers of two up to 2³⁰.
//!
//! Over shared memory (`T: Plain`) a peer may write anything: then items may be nonsense, but every access stays inside the
//! slots, each item is copied out with one read per word, and counts are checked before they are believed.

pub mod hybrid;
pub mod index;
pub mod slot;

pub(crate) mod lane;

use crate::{Mapping, Plain};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub use hybrid::Hybrid;
pub use index::Index;
pub use slot::InSlot;

/// The largest capacity of a ring, in slots.
pub const MAX_CAPACITY: u32 = 1 << 30;

/// The ring is full; the item comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ring is full")
    }
}

impl<T> std::error::Error for Full<T> {}

/// The producing end.
pub trait Produce<T>: Send {
    /// Puts `item` into the next slot.
    ///
    /// # Errors
    /// [`Full`] with the item; everything pushed before is published then.
    fn try_push(&mut self, item: T) -> Result<(), Full<T>>;

    /// Makes every pushed item visible. Costs nothing when there is none.
    fn publish(&mut self);

    /// Slots that can be pushed into now. Reads the consumer's count only when none is known to be free.
    fn free(&mut self) -> u32;

    /// Slots in all.
    fn capacity(&self) -> u32;

    /// True when the consumer of a ring on the heap is gone: nobody will ever take what is in it. Over shared memory
    /// always false: there the peer's socket tells.
    fn is_abandoned(&self) -> bool;

    /// Puts `item` into the next slot without looking for space.
    ///
    /// # Safety
    /// The slot is free: fewer than [`Produce::capacity`] items are in the ring, and the consumer's reading of the last
    /// item in this slot happened before.
    unsafe fn push_granted(&mut self, item: T);

    /// As [`Produce::push_granted`], for items so large that they are written where they will lie: `write` gets the place.
    ///
    /// # Safety
    /// As [`Produce::push_granted`]. In a ring on the heap `write` leaves a whole `T` behind; in a mapping any bytes are one, so
    /// there it writes only what the consumer will look at.
    unsafe fn fill_granted(&mut self, write: impl FnOnce(*mut T))
    where
        T: Plain;

    /// Pushes from `items` while there is space, publishes once, and returns how many were taken. No item is drawn from the
    /// iterator that cannot be pushed.
    fn push_all(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let mut pushed = 0;
        while self.free() > 0 {
            let Some(item) = items.next() else { break };
            // SAFETY: free() counted at least one slot whose consumption it has seen, and nobody else pushes.
            unsafe { self.push_granted(item) };
            pushed += 1;
        }
        self.publish();
        pushed
    }
}

/// The consuming end.
pub trait Consume<T>: Send {
    /// Takes the oldest item.
    fn try_pop(&mut self) -> Option<T>;

    /// Hands at most `max` items to `each`, oldest first, and returns how many.
    fn drain(&mut self, max: usize, each: impl FnMut(T)) -> usize;

    /// As [`Consume::drain`], for items so large that they are read where they lie, until `each` returns false. The place is readable
    /// during the call; in a mapping a hostile producer may write to it meanwhile, so `each` reads everything once, and without
    /// making a reference.
    fn drain_in_place(&mut self, max: usize, each: impl FnMut(*const T) -> bool) -> usize
    where
        T: Plain;

    /// Whether [`Consume::try_pop`] would find an item.
    fn is_ready(&mut self) -> bool;

    /// The word that changes when the next item comes: what a monitored wait watches.
    #[cfg(not(loom))]
    fn next_word(&self) -> &AtomicU32;

    /// Slots in all.
    fn capacity(&self) -> u32;

    /// True when the producer of a ring on the heap is gone; what it pushed can still be taken. See
    /// [`Produce::is_abandoned`].
    fn is_abandoned(&self) -> bool;

    /// Stops telling the producer what was consumed: for users whose producer counts by itself.
    #[must_use]
    fn without_credits(self) -> Self;
}

/// A variant of ring, as a value; [`Kind`] is the same as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// [`slot`].
    InSlot,
    /// [`index`].
    Index,
    /// [`hybrid`].
    Hybrid,
}

/// A variant of ring, as a type parameter.
pub trait Kind: 'static {
    /// The producing end of this variant.
    type Producer<T: Send>: Produce<T>;
    /// The consuming end of this variant.
    type Consumer<T: Send>: Consume<T>;
    /// What measurements call it.
    const NAME: &'static str;

    /// A ring on the heap. The capacity must be a power of two up to [`MAX_CAPACITY`].
    fn heap<T: Send>(capacity: u32) -> (Self::Producer<T>, Self::Consumer<T>);

    /// Bytes that a ring needs in a mapping.
    fn mapped_bytes<T: Plain>(capacity: u32) -> usize;

    /// The producing end of a ring at `offset` (a multiple of 128) of a mapping, at that place all zero when its first
    /// user came. One producer and one consumer may attach, once each.
    ///
    /// # Panics
    /// When the ring leaves the mapping.
    #[cfg(not(loom))]
    fn map_producer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Self::Producer<T>;

    /// The consuming end; see [`Kind::map_producer`].
    #[cfg(not(loom))]
    fn map_consumer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Self::Consumer<T>;
}

/// Panics unless `capacity` can be a ring's.
pub(crate) fn check_capacity(capacity: u32) {
    assert!(
        capacity.is_power_of_two() && capacity <= MAX_CAPACITY,
        "a ring's capacity is a power of two up to 2^30, not {capacity}"
    );
}

#[cfg(all(test, not(loom)))]
mod tests;
