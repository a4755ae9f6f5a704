//! The memory shared by both rings with a sequence word in each slot, and the steps on it: [`super::slot`] and
//! [`super::hybrid`] differ only in when they take the step called [`Lane::mark`].
//!
//! Shape:
//! ```text
//! credit line (128 B): consumed │ slot 0: seq│item │ slot 1: seq│item │ …      each slot starts on a 64-byte line,
//!                                                                             so seq + an item of ≤ 60 B are one line
//! ```
//! Invariants:
//! 1. Slot `p mod capacity` holds the item of position `p`, unconsumed, iff its word is `p + 1`. Memory starts as zero, which
//!    no slot takes for its first item; every lap writes every word, so an old word never equals a new position's.
//! 2. Position `p` is written only when `p - consumed < capacity`.
//!
//! Ordering:
//! - **item**: the writer's `mark` (Release) pairs with the reader's `is_ready` (Acquire): the item's bytes are there.
//! - **credit**: the reader's `publish_consumed` (Release) pairs with the writer's `consumed` (Acquire): the item was taken
//!   out before its slot is written again.

use crate::memory::{Aligned, SPACING};
use crate::sync::{AtomicU32, Ordering, UnsafeCell, fence};
use crate::{Mapping, Plain, plain};
use base::touch::{LINE, prefetch_for_write};
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;
use std::sync::Arc;

/// One slot.
#[repr(C, align(64))]
pub(crate) struct Slot<T> {
    seq: AtomicU32,
    item: UnsafeCell<MaybeUninit<T>>,
}

/// What the consumer tells the producer.
#[repr(C, align(128))]
pub(crate) struct Credit {
    consumed: AtomicU32,
}

/// The memory of a ring on the heap. The last end to go drops what is left.
pub(crate) struct Block<T> {
    credit: Credit,
    slots: Aligned<Slot<T>>,
    capacity: u32,
}

// SAFETY: the ends pass each T from one thread to the other with release and acquire (the label "item"), and no
// reference to an item is ever shared.
unsafe impl<T: Send> Sync for Block<T> {}
// SAFETY: as above; the block owns its items.
unsafe impl<T: Send> Send for Block<T> {}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        if !needs_drop::<T>() {
            return;
        }
        let consumed = self.credit.consumed.load(Ordering::Acquire);
        for position in (0..self.capacity).map(|n| consumed.wrapping_add(n)) {
            // SAFETY: the mask keeps the index inside the slots.
            let slot = unsafe { self.slots.start().add((position & (self.capacity - 1)) as usize).as_ref() };
            if slot.seq.load(Ordering::Acquire) != position.wrapping_add(1) {
                break;
            }
            // SAFETY: invariant 1: the item is there and was not consumed; both ends are gone.
            slot.item.with_mut(|item| unsafe { (*item).assume_init_drop() });
        }
    }
}

/// Who keeps the memory alive.
enum Keep<T> {
    Block(Arc<Block<T>>),
    Mapping(#[allow(dead_code)] Arc<Mapping>),
}

/// One end's view of the memory.
pub(crate) struct Lane<T> {
    slots: NonNull<Slot<T>>,
    credit: NonNull<Credit>,
    mask: u32,
    keep: Keep<T>,
}

// SAFETY: the pointers lead into memory that `keep` keeps, which is Sync for T: Send (heap) or foreign anyway (mapping).
unsafe impl<T: Send> Send for Lane<T> {}

impl<T> Lane<T> {
    /// Both ends' views of a new ring on the heap.
    pub(crate) fn heap(capacity: u32) -> (Lane<T>, Lane<T>) {
        super::check_capacity(capacity);
        let slot = || Slot { seq: AtomicU32::new(0), item: UnsafeCell::new(MaybeUninit::uninit()) };
        let slots = Aligned::new(capacity as usize, slot);
        let block = Arc::new(Block { credit: Credit { consumed: AtomicU32::new(0) }, slots, capacity });
        let view = |block: Arc<Block<T>>| Lane {
            slots: block.slots.start(),
            credit: NonNull::from(&block.credit),
            mask: capacity - 1,
            keep: Keep::Block(block),
        };
        (view(block.clone()), view(block))
    }

    /// One end's view of a ring in a mapping.
    #[cfg(not(loom))]
    pub(crate) fn mapped(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Lane<T>
    where
        T: Plain,
    {
        super::check_capacity(capacity);
        Lane {
            credit: memory.at::<Credit>(offset, 1),
            slots: memory.at::<Slot<T>>(offset + SPACING, capacity as usize),
            mask: capacity - 1,
            keep: Keep::Mapping(memory.clone()),
        }
    }

    /// Bytes of a ring in a mapping, rounded so that another may follow.
    pub(crate) fn mapped_bytes(capacity: u32) -> usize {
        SPACING + (capacity as usize * size_of::<Slot<T>>()).next_multiple_of(SPACING)
    }

    #[inline(always)]
    pub(crate) fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    #[inline(always)]
    fn slot(&self, position: u32) -> &Slot<T> {
        // SAFETY: the mask keeps the index inside the slots, which live as long as `keep`.
        unsafe { self.slots.add((position & self.mask) as usize).as_ref() }
    }

    #[inline(always)]
    fn credit(&self) -> &Credit {
        // SAFETY: it lives as long as `keep`.
        unsafe { self.credit.as_ref() }
    }

    /// Writes an item without showing it.
    ///
    /// # Safety
    /// The slot is free (invariant 2, with the consumer's read ordered before), and this is the only producer.
    #[inline(always)]
    pub(crate) unsafe fn write(&mut self, position: u32, item: T) {
        // SAFETY: by the caller's promise nobody reads or writes the slot's item now.
        self.slot(position).item.with_mut(|cell| unsafe { (*cell).write(item) });
    }

    /// Lets `write` put an item into the slot without showing it.
    ///
    /// # Safety
    /// As [`Lane::write`].
    #[inline(always)]
    pub(crate) unsafe fn fill(&mut self, position: u32, write: impl FnOnce(*mut T)) {
        self.slot(position).item.with_mut(|cell| write(cell.cast()));
    }

    /// Lets `read` look at the item where it lies.
    #[inline(always)]
    pub(crate) fn look<R>(&self, position: u32, read: impl FnOnce(*const T) -> R) -> R {
        self.slot(position).item.with(|cell| read(cell.cast()))
    }

    /// Shows the item at `position` to the consumer.
    #[inline(always)]
    pub(crate) fn mark(&mut self, position: u32) {
        self.slot(position).seq.store(position.wrapping_add(1), Ordering::Release); // label: item
    }

    /// Asks for the lines of a slot that is written soon: the consumer still has them from the lap before, and does not look at
    /// them again until the item is marked.
    #[inline(always)]
    pub(crate) fn claim(&self, position: u32) {
        let start: *const u8 = std::ptr::from_ref(self.slot(position)).cast();
        for line in 0..(size_of::<Slot<T>>() / LINE).min(2) {
            prefetch_for_write(start.wrapping_add(line * LINE));
        }
    }

    /// Whether the item at `position` is there.
    #[inline(always)]
    pub(crate) fn is_ready(&self, position: u32) -> bool {
        self.slot(position).seq.load(Ordering::Acquire) == position.wrapping_add(1) // label: item
    }

    /// The word that changes when the item at `position` comes: what a monitored wait watches.
    #[cfg(not(loom))]
    pub(crate) fn word(&self, position: u32) -> &AtomicU32 {
        &self.slot(position).seq
    }

    /// Takes the item out.
    ///
    /// # Safety
    /// `is_ready(position)` was true, this is the only consumer, and it takes each position once.
    #[inline(always)]
    pub(crate) unsafe fn take(&mut self, position: u32) -> T {
        self.slot(position).item.with(|cell| match self.keep {
            // SAFETY: invariant 1: the item is there; from here on it is ours.
            Keep::Block(_) => unsafe { (*cell).assume_init_read() },
            // SAFETY: mapped lanes exist only for T: Plain, and the slot is readable.
            Keep::Mapping(_) => unsafe { plain::read_once(cell.cast::<T>()) },
        })
    }

    /// Slots free for a producer whose next position is `next`. A count that no honest consumer can have sent gives 0.
    #[inline]
    pub(crate) fn free(&self, next: u32) -> u32 {
        let consumed = self.credit().consumed.load(Ordering::Acquire); // label: credit
        self.capacity().saturating_sub(next.wrapping_sub(consumed))
    }

    /// Tells the producer that everything before `next` was taken.
    #[inline(always)]
    pub(crate) fn publish_consumed(&mut self, next: u32) {
        self.credit().consumed.store(next, Ordering::Release); // label: credit
    }

    /// Whether the other end of a ring on the heap is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        let Keep::Block(block) = &self.keep else { return false };
        let alone = Arc::strong_count(block) == 1;
        fence(Ordering::Acquire); // pairs with the release of the other end's last reference: its pushes are visible
        alone
    }
}
