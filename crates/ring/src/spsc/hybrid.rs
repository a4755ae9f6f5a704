//! A ring with a sequence word in each slot whose producer publishes a whole burst at once, by its first word.
//!
//! Why: with [`super::slot`] a consumer that has caught up polls the very line the producer is about to write, and takes it
//! away from it once per message. Here a burst is written behind the consumer's back and one store shows all of it; the
//! consumer touches the lines of the burst when nobody writes them any more, several misses at a time. A burst of one costs
//! what the slot ring costs.
//!
//! The first item of a burst stays with the producer until then. Written at once, its line would be taken away by the polling
//! consumer before its word is written, and move twice more: that cost 2.5× to 4× at bursts of one.
//!
//! Invariants beyond `lane.rs`'s:
//! 1. While an item waits in `first` (`holds`), its position is `burst`, its slot is untouched, and every later position of the burst is
//!    written and marked. The consumer looks at those only after it saw the first.
//!
//! Ordering: the first word's `mark` (Release) comes after all items and words of the burst in program order, so the
//! consumer's Acquire of it orders every item of the burst.
//!
//! Cost: see `docs/measurements/ring.md`.

use super::lane::Lane;
use super::{Full, Kind, Produce};
use crate::{Mapping, Plain};
use std::mem::MaybeUninit;
use std::sync::Arc;

pub use super::slot::Consumer;

/// This variant, as a [`Kind`].
#[derive(Debug)]
pub struct Hybrid;

/// The producing end.
pub struct Producer<T> {
    lane: Lane<T>,
    next: u32,
    /// Slots known to be free.
    free: u32,
    /// The first item of the burst that is not shown yet, if there is one, and its position.
    first: MaybeUninit<T>,
    holds: bool,
    burst: u32,
}

impl<T> Producer<T> {
    pub(crate) fn over(lane: Lane<T>) -> Producer<T> {
        Producer {
            free: lane.capacity(),
            lane,
            next: 0,
            first: MaybeUninit::uninit(),
            holds: false,
            burst: 0,
        }
    }

    #[inline(always)]
    fn show_burst(&mut self) {
        if self.holds {
            self.holds = false;
            let first = &self.first;
            // An item that was filled in place may have bytes that nobody wrote, so it moves as what it may be.
            // SAFETY: the position was free when it was pushed, and was not written since (invariant 1); `first` is left for good.
            unsafe {
                self.lane
                    .fill(self.burst, |place| place.cast::<MaybeUninit<T>>().write(std::ptr::read(first)))
            };
            self.lane.mark(self.burst);
        }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.free = self.free.wrapping_sub(1);
    }
}

impl<T: Send> Produce<T> for Producer<T> {
    #[inline(always)]
    fn try_push(&mut self, item: T) -> Result<(), Full<T>> {
        if self.free() == 0 {
            self.show_burst();
            return Err(Full(item));
        }
        // SAFETY: free() counted this slot, and we are the only producer.
        unsafe { self.push_granted(item) };
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.show_burst();
    }

    #[inline(always)]
    fn free(&mut self) -> u32 {
        if self.free == 0 {
            self.free = self.lane.free(self.next);
        }
        self.free
    }

    fn capacity(&self) -> u32 {
        self.lane.capacity()
    }

    fn is_abandoned(&self) -> bool {
        self.lane.is_abandoned()
    }

    #[inline(always)]
    unsafe fn push_granted(&mut self, item: T) {
        if self.holds {
            // SAFETY: the caller promises that the slot is free.
            unsafe { self.lane.write(self.next, item) };
            self.lane.mark(self.next);
        } else {
            self.first.write(item);
            self.holds = true;
            self.burst = self.next;
        }
        self.advance();
    }

    #[inline(always)]
    unsafe fn fill_granted(&mut self, write: impl FnOnce(*mut T))
    where
        T: Plain,
    {
        if self.holds {
            // SAFETY: the caller promises that the slot is free.
            unsafe { self.lane.fill(self.next, write) };
            self.lane.mark(self.next);
        } else {
            write(self.first.as_mut_ptr());
            self.holds = true;
            self.burst = self.next;
        }
        self.advance();
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.show_burst();
    }
}

impl Kind for Hybrid {
    type Producer<T: Send> = Producer<T>;
    type Consumer<T: Send> = Consumer<T>;
    const NAME: &'static str = "hybrid";

    fn heap<T: Send>(capacity: u32) -> (Producer<T>, Consumer<T>) {
        let (producer, consumer) = Lane::heap(capacity);
        (Producer::over(producer), Consumer::over(consumer))
    }

    fn mapped_bytes<T: Plain>(capacity: u32) -> usize {
        Lane::<T>::mapped_bytes(capacity)
    }

    #[cfg(not(loom))]
    fn map_producer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Producer<T> {
        Producer::over(Lane::mapped(memory, offset, capacity))
    }

    #[cfg(not(loom))]
    fn map_consumer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Consumer<T> {
        Consumer::over(Lane::mapped(memory, offset, capacity))
    }
}
