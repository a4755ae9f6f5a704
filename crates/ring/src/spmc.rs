//! A bounded queue between one producer and many consumers: whoever is free takes the oldest item.
//!
//! Why: one queue for all workers never leaves one idle while an item waits, whatever the service times are. Its price is a word
//! that all consumers write: see [`crate::spsc`] for rings without one.
//!
//! Shape:
//! ```text
//! head (128 B, consumers count up) │ slot 0: turn│item │ slot 1: turn│item │ …    each slot starts on a 64-byte line
//! ```
//! Invariants:
//! 1. Slot `p mod capacity` is free for position `p` iff its turn is `p`, and holds the item of position `p` iff it is `p + 1`.
//! 2. Whoever moved the head from `p` to `p + 1` takes the item of `p`, alone, and then gives the slot the turn `p + capacity`.
//! 3. Positions are 64 bits wide and never come again, so a consumer that slept between reading the head and moving it
//!    cannot be fooled.
//!
//! Ordering:
//! - **item**: the producer's store of `p + 1` (Release) pairs with the consumers' load (Acquire): the item's bytes are there.
//! - **space**: the consumer's store of `p + capacity` (Release) pairs with the producer's load (Acquire): the item was taken out.
//! - The head itself orders nothing, so it is Relaxed.
//!
//! Sources: Vyukov's bounded queue, with a producer that needs no exchange since it is alone.
//!
//! Tests: a model, threads, and loom in `tests/loom.rs`, with a head moved too late planted.

use crate::memory::Aligned;
use crate::spsc::{Full, check_capacity};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use std::mem::MaybeUninit;
use std::sync::Arc;

#[repr(C, align(64))]
struct Slot<T> {
    turn: AtomicU64,
    item: UnsafeCell<MaybeUninit<T>>,
}

#[repr(C, align(128))]
struct Head(AtomicU64);

struct Block<T> {
    head: Head,
    slots: Aligned<Slot<T>>,
    mask: u64,
}

// SAFETY: each item goes from the producer to exactly one consumer (invariant 2) with release and acquire ("item").
unsafe impl<T: Send> Sync for Block<T> {}
// SAFETY: as above; the block owns its items.
unsafe impl<T: Send> Send for Block<T> {}

impl<T> Block<T> {
    #[inline(always)]
    fn slot(&self, position: u64) -> &Slot<T> {
        // SAFETY: the mask keeps the index inside the slots.
        unsafe { self.slots.start().add((position & self.mask) as usize).as_ref() }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        let mut position = self.head.0.load(Ordering::Acquire);
        while self.slot(position).turn.load(Ordering::Acquire) == position + 1 {
            // SAFETY: invariant 1: the item is there, and all ends are gone.
            self.slot(position).item.with_mut(|item| unsafe { (*item).assume_init_drop() });
            position += 1;
        }
    }
}

/// The producing end.
pub struct Producer<T> {
    block: Arc<Block<T>>,
    next: u64,
}

/// A consuming end; as many clones as there are consumers.
pub struct Consumer<T> {
    block: Arc<Block<T>>,
}

impl<T> Clone for Consumer<T> {
    fn clone(&self) -> Consumer<T> {
        Consumer { block: self.block.clone() }
    }
}

/// A queue on the heap. The capacity must be a power of two from 2 up to [`MAX_CAPACITY`](crate::spsc::MAX_CAPACITY): with one slot,
/// "holds an item" and "is free again" would be the same turn.
pub fn spmc<T: Send>(capacity: u32) -> (Producer<T>, Consumer<T>) {
    check_capacity(capacity);
    assert!(capacity > 1, "a queue of many consumers has at least two slots");
    let mut turn = 0;
    let slots = Aligned::new(capacity as usize, || {
        turn += 1;
        Slot { turn: AtomicU64::new(turn - 1), item: UnsafeCell::new(MaybeUninit::uninit()) }
    });
    let block = Arc::new(Block { head: Head(AtomicU64::new(0)), slots, mask: u64::from(capacity) - 1 });
    (Producer { block: block.clone(), next: 0 }, Consumer { block })
}

impl<T: Send> Producer<T> {
    /// Puts `item` at the end, for everybody to see.
    ///
    /// # Errors
    /// [`Full`] with the item.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<(), Full<T>> {
        let slot = self.block.slot(self.next);
        // label: space
        if slot.turn.load(Ordering::Acquire) != self.next {
            return Err(Full(item));
        }
        // SAFETY: invariant 1: the slot is free, and we are the only producer.
        slot.item.with_mut(|cell| unsafe { (*cell).write(item) });
        slot.turn.store(self.next + 1, Ordering::Release); // label: item
        self.next += 1;
        Ok(())
    }

    /// Items that nobody has begun to take.
    pub fn len(&self) -> usize {
        (self.next - self.block.head.0.load(Ordering::Relaxed)) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots in all.
    pub fn capacity(&self) -> u32 {
        self.block.mask as u32 + 1
    }
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item that nobody else takes.
    #[inline]
    pub fn try_pop(&self) -> Option<T> {
        let mut position = self.block.head.0.load(Ordering::Relaxed);
        loop {
            let slot = self.block.slot(position);
            let turn = slot.turn.load(Ordering::Acquire); // label: item
            if turn == position + 1 {
                match self.move_head(position) {
                    Ok(()) => return Some(self.take(position)),
                    Err(moved) => position = moved,
                }
            } else {
                // Not filled yet, or the head has moved on since.
                let head = self.block.head.0.load(Ordering::Relaxed);
                if head == position {
                    return None;
                }
                position = head;
            }
        }
    }

    #[inline]
    fn move_head(&self, position: u64) -> Result<(), u64> {
        let relaxed = Ordering::Relaxed;
        self.block.head.0.compare_exchange(position, position + 1, relaxed, relaxed).map(|_| ())
    }

    /// Takes the item of a position that this consumer moved the head away from.
    #[inline]
    fn take(&self, position: u64) -> T {
        let slot = self.block.slot(position);
        // SAFETY: invariants 1 and 2: the item is there, and it is ours alone.
        let item = slot.item.with(|cell| unsafe { (*cell).assume_init_read() });
        slot.turn.store(position + self.block.mask + 1, Ordering::Release); // label: space
        item
    }

    /// Whether [`Consumer::try_pop`] would have found an item just now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let position = self.block.head.0.load(Ordering::Relaxed);
        self.block.slot(position).turn.load(Ordering::Acquire) > position
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn it_is_a_bounded_queue(log in 1u32..4, steps in proptest::collection::vec(any::<bool>(), 0..100)) {
            let capacity = 1usize << log;
            let (mut producer, consumer) = spmc(capacity as u32);
            let mut model = VecDeque::new();
            for (n, push) in steps.into_iter().enumerate() {
                if push {
                    let pushed = producer.try_push(Box::new(n));
                    prop_assert_eq!(pushed.is_ok(), model.len() < capacity);
                    if pushed.is_ok() {
                        model.push_back(n);
                    }
                } else {
                    prop_assert_eq!(consumer.is_ready(), !model.is_empty());
                    prop_assert_eq!(consumer.clone().try_pop().map(|n| *n), model.pop_front());
                }
                prop_assert_eq!(producer.len(), model.len());
            }
        }
    }

    #[test]
    fn each_item_goes_to_one_of_many_threads() {
        const CONSUMERS: usize = 3;
        let items: u64 = if cfg!(miri) { 200 } else { 100_000 };
        let (mut producer, consumer) = spmc::<Box<u64>>(8);
        let seen = Mutex::new(vec![0u8; items as usize]);
        let left = std::sync::atomic::AtomicU64::new(items);
        std::thread::scope(|scope| {
            for _ in 0..CONSUMERS {
                let (consumer, seen, left) = (consumer.clone(), &seen, &left);
                scope.spawn(move || {
                    let (mut last, mut mine) = (None, Vec::new());
                    while left.load(Ordering::Relaxed) > 0 {
                        match consumer.try_pop() {
                            Some(n) => {
                                assert!(last.is_none_or(|last| last < *n), "oldest first");
                                last = Some(*n);
                                mine.push(*n);
                                left.fetch_sub(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                    let mut seen = seen.lock().expect("no panic");
                    mine.iter().for_each(|&n| seen[n as usize] += 1);
                });
            }
            for mut item in (0..items).map(Box::new) {
                while let Err(Full(back)) = producer.try_push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        assert!(seen.lock().expect("no panic").iter().all(|&times| times == 1));
    }
}
