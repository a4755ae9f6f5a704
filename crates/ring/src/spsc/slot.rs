//! A ring whose slots carry their own sequence word: one line moves per message of up to 60 bytes.
//!
//! Why: at one item at a time it beats the ring with cached indices 1.5× within one L3 and 2.7× across them, since finding the
//! item and reading it is one miss (FastForward's idea, with sequence numbers in place of an empty value, so that the
//! consumer never writes the slot).
//!
//! Shape, invariants and ordering: `lane.rs`. Both ends keep their position to themselves; the producer reads the
//! consumer's count only when the space it knows of is used up.
//!
//! Cost: see `docs/measurements/ring.md`.

use super::lane::Lane;
use super::{Consume, Full, Kind, Produce};
use crate::sync::AtomicU32;
use crate::{Mapping, Plain};
use std::sync::Arc;

/// This variant, as a [`Kind`].
#[derive(Debug)]
pub struct InSlot;

/// How far before they are written the lines of large items are claimed: stores leave a core in order, and each would wait for its
/// line in turn. Two or three slots ahead were best, six or more brought little (`docs/measurements/links.md`).
const AHEAD: u32 = 3;

/// The producing end.
pub struct Producer<T> {
    lane: Lane<T>,
    next: u32,
    /// Slots known to be free.
    free: u32,
}

/// The consuming end.
pub struct Consumer<T> {
    lane: Lane<T>,
    next: u32,
    /// What the producer was last told.
    told: u32,
    /// Items between two tellings; `u32::MAX` for never.
    tell_every: u32,
}

impl<T> Producer<T> {
    pub(crate) fn over(lane: Lane<T>) -> Producer<T> {
        Producer { free: lane.capacity(), lane, next: 0 }
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
            return Err(Full(item));
        }
        // SAFETY: free() counted this slot, and we are the only producer.
        unsafe { self.push_granted(item) };
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self) {}

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
        // SAFETY: the caller promises that the slot is free.
        unsafe { self.lane.write(self.next, item) };
        self.lane.mark(self.next);
        self.advance();
    }

    #[inline(always)]
    unsafe fn fill_granted(&mut self, write: impl FnOnce(*mut T))
    where
        T: Plain,
    {
        // SAFETY: the caller promises that the slot is free.
        unsafe { self.lane.fill(self.next, write) };
        self.lane.mark(self.next);
        self.lane.claim(self.next.wrapping_add(AHEAD));
        self.advance();
    }
}

impl<T> Consumer<T> {
    pub(crate) fn over(lane: Lane<T>) -> Consumer<T> {
        // A quarter of the ring: rare enough to cost nothing, early enough that the producer never waits for it.
        let tell_every = (lane.capacity() / 4).clamp(1, 256);
        Consumer { lane, next: 0, told: 0, tell_every }
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.lane.publish_consumed(self.next);
        self.told = self.next;
    }

    /// Takes the next item, if it is there, and tells nobody yet.
    #[inline(always)]
    fn take_next(&mut self) -> Option<T> {
        if !self.lane.is_ready(self.next) {
            return None;
        }
        // SAFETY: it is ready, and each position is taken once since `next` moves on here.
        let item = unsafe { self.lane.take(self.next) };
        self.next = self.next.wrapping_add(1);
        Some(item)
    }

    #[inline(always)]
    fn tell_if_due(&mut self, due: u32) {
        if self.tell_every != u32::MAX && self.next.wrapping_sub(self.told) >= due {
            self.tell();
        }
    }
}

impl<T: Send> Consume<T> for Consumer<T> {
    #[inline(always)]
    fn try_pop(&mut self) -> Option<T> {
        let item = self.take_next();
        let due = if item.is_some() { self.tell_every } else { 1 };
        self.tell_if_due(due);
        item
    }

    #[inline(always)]
    fn drain(&mut self, max: usize, mut each: impl FnMut(T)) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some(item) = self.take_next() else {
                self.tell_if_due(1);
                return taken;
            };
            taken += 1;
            self.tell_if_due(self.tell_every);
            each(item);
        }
        taken
    }

    #[inline(always)]
    fn drain_in_place(&mut self, max: usize, mut each: impl FnMut(*const T) -> bool) -> usize
    where
        T: Plain,
    {
        let mut taken = 0;
        while taken < max {
            if !self.lane.is_ready(self.next) {
                self.tell_if_due(1);
                return taken;
            }
            let go_on = self.lane.look(self.next, &mut each);
            self.next = self.next.wrapping_add(1);
            taken += 1;
            self.tell_if_due(self.tell_every);
            if !go_on {
                break;
            }
        }
        taken
    }

    #[inline(always)]
    fn is_ready(&mut self) -> bool {
        let ready = self.lane.is_ready(self.next);
        if !ready {
            self.tell_if_due(1);
        }
        ready
    }

    #[cfg(not(loom))]
    fn next_word(&self) -> &AtomicU32 {
        self.lane.word(self.next)
    }

    fn capacity(&self) -> u32 {
        self.lane.capacity()
    }

    fn is_abandoned(&self) -> bool {
        self.lane.is_abandoned()
    }

    fn without_credits(mut self) -> Self {
        self.tell_every = u32::MAX;
        self
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // The block drops what lies beyond this count.
        self.tell();
    }
}

impl Kind for InSlot {
    type Producer<T: Send> = Producer<T>;
    type Consumer<T: Send> = Consumer<T>;
    const NAME: &'static str = "slot";

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
