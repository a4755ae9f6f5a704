//! A ring with shared indices, each cached by the other side and published per batch.
//!
//! Why: items need no word of their own, so small ones pack into lines, and a batch costs one publication. At batches of 32 it
//! beats the slot ring 2.6× within one L3, and loses to it 1.5× at one item at a time, where each costs two misses.
//!
//! Shape:
//! ```text
//! tail (128 B, producer writes) │ head (128 B, consumer writes) │ item 0 │ item 1 │ …
//! ```
//! Invariants:
//! 1. Positions in `head..tail` hold items; `tail - head ≤ capacity`.
//! 2. Each side keeps its own index to itself and reads the other's only when what it knows is used up.
//!
//! Ordering:
//! - **items**: the producer's store of `tail` (Release) pairs with the consumer's load (Acquire).
//! - **space**: the consumer's store of `head` (Release) pairs with the producer's load (Acquire).
//!
//! Cost: see `docs/measurements/ring.md`.

use super::{Consume, Full, Kind, Produce};
use crate::memory::{Aligned, SPACING};
use crate::sync::{AtomicU32, Ordering, UnsafeCell, fence};
use crate::{Mapping, Plain, plain};
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;
use std::sync::Arc;

/// This variant, as a [`Kind`].
#[derive(Debug)]
pub struct Index;

/// One index on lines of its own.
#[repr(C, align(128))]
struct Line(AtomicU32);

#[repr(C)]
struct Indices {
    tail: Line,
    head: Line,
}

type Cell<T> = UnsafeCell<MaybeUninit<T>>;

struct Block<T> {
    indices: Indices,
    cells: Aligned<Cell<T>>,
    mask: u32,
}

// SAFETY: the ends pass each T from one thread to the other with release and acquire ("items"), and share no reference.
unsafe impl<T: Send> Sync for Block<T> {}
// SAFETY: as above; the block owns its items.
unsafe impl<T: Send> Send for Block<T> {}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        if !needs_drop::<T>() {
            return;
        }
        let (mut at, tail) =
            (self.indices.head.0.load(Ordering::Acquire), self.indices.tail.0.load(Ordering::Acquire));
        while at != tail {
            // SAFETY: the mask keeps the index inside the cells.
            let cell = unsafe { self.cells.start().add((at & self.mask) as usize).as_ref() };
            // SAFETY: invariant 1: positions in head..tail hold items, and both ends are gone.
            cell.with_mut(|item| unsafe { (*item).assume_init_drop() });
            at = at.wrapping_add(1);
        }
    }
}

enum Keep<T> {
    Block(Arc<Block<T>>),
    Mapping(#[allow(dead_code)] Arc<Mapping>),
}

/// One end's view of the memory.
struct View<T> {
    cells: NonNull<Cell<T>>,
    indices: NonNull<Indices>,
    mask: u32,
    keep: Keep<T>,
}

// SAFETY: the pointers lead into memory that `keep` keeps, which is Sync for T: Send (heap) or foreign anyway (mapping).
unsafe impl<T: Send> Send for View<T> {}

impl<T> View<T> {
    fn heap(capacity: u32) -> (View<T>, View<T>) {
        super::check_capacity(capacity);
        let cells = Aligned::new(capacity as usize, || Cell::new(MaybeUninit::uninit()));
        let indices = Indices { tail: Line(AtomicU32::new(0)), head: Line(AtomicU32::new(0)) };
        let block = Arc::new(Block { indices, cells, mask: capacity - 1 });
        let view = |block: Arc<Block<T>>| View {
            cells: block.cells.start(),
            indices: NonNull::from(&block.indices),
            mask: block.mask,
            keep: Keep::Block(block),
        };
        (view(block.clone()), view(block))
    }

    #[cfg(not(loom))]
    fn mapped(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> View<T> {
        super::check_capacity(capacity);
        View {
            indices: memory.at::<Indices>(offset, 1),
            cells: memory.at::<Cell<T>>(offset + size_of::<Indices>(), capacity as usize),
            mask: capacity - 1,
            keep: Keep::Mapping(memory.clone()),
        }
    }

    #[inline(always)]
    fn cell(&self, position: u32) -> &Cell<T> {
        // SAFETY: the mask keeps the index inside the cells, which live as long as `keep`.
        unsafe { self.cells.add((position & self.mask) as usize).as_ref() }
    }

    #[inline(always)]
    fn indices(&self) -> &Indices {
        // SAFETY: they live as long as `keep`.
        unsafe { self.indices.as_ref() }
    }

    fn is_abandoned(&self) -> bool {
        let Keep::Block(block) = &self.keep else { return false };
        let alone = Arc::strong_count(block) == 1;
        fence(Ordering::Acquire); // pairs with the release of the other end's last reference
        alone
    }
}

/// The producing end.
pub struct Producer<T> {
    view: View<T>,
    next: u32,
    /// What the shared tail says.
    shown: u32,
    /// Slots known to be free.
    free: u32,
}

impl<T> Producer<T> {
    #[inline(always)]
    fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.free = self.free.wrapping_sub(1);
    }

    #[inline(always)]
    fn show(&mut self) {
        if self.shown != self.next {
            self.view.indices().tail.0.store(self.next, Ordering::Release); // label: items
            self.shown = self.next;
        }
    }
}

impl<T: Send> Produce<T> for Producer<T> {
    #[inline(always)]
    fn try_push(&mut self, item: T) -> Result<(), Full<T>> {
        if self.free() == 0 {
            self.show();
            return Err(Full(item));
        }
        // SAFETY: free() counted this slot, and we are the only producer.
        unsafe { self.push_granted(item) };
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.show();
    }

    #[inline(always)]
    fn free(&mut self) -> u32 {
        if self.free == 0 {
            let head = self.view.indices().head.0.load(Ordering::Acquire); // label: space
            // A head that no honest consumer can have sent gives 0.
            self.free = self.capacity().saturating_sub(self.next.wrapping_sub(head));
        }
        self.free
    }

    fn capacity(&self) -> u32 {
        self.view.mask + 1
    }

    fn is_abandoned(&self) -> bool {
        self.view.is_abandoned()
    }

    #[inline(always)]
    unsafe fn push_granted(&mut self, item: T) {
        // SAFETY: the caller promises that the slot is free, so nobody reads or writes the cell now.
        self.view.cell(self.next).with_mut(|cell| unsafe { (*cell).write(item) });
        self.advance();
    }

    #[inline(always)]
    unsafe fn fill_granted(&mut self, write: impl FnOnce(*mut T))
    where
        T: Plain,
    {
        self.view.cell(self.next).with_mut(|cell| write(cell.cast()));
        self.advance();
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.show();
    }
}

/// The consuming end.
pub struct Consumer<T> {
    view: View<T>,
    next: u32,
    /// Items known to be there.
    ready: u32,
    /// What the shared head says.
    told: u32,
    /// Items between two tellings; `u32::MAX` for never.
    tell_every: u32,
}

impl<T> Consumer<T> {
    /// Looks at the tail again. A tail that no honest producer can have sent counts as nothing new.
    #[inline(always)]
    fn look(&mut self) {
        let tail = self.view.indices().tail.0.load(Ordering::Acquire); // label: items
        let ready = tail.wrapping_sub(self.next);
        self.ready = if ready <= self.view.mask + 1 { ready } else { 0 };
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.view.indices().head.0.store(self.next, Ordering::Release); // label: space
        self.told = self.next;
    }

    #[inline(always)]
    fn tell_if_due(&mut self, due: u32) {
        if self.tell_every != u32::MAX && self.next.wrapping_sub(self.told) >= due {
            self.tell();
        }
    }

    /// Whether an item is known to be there, after another look where needed.
    #[inline(always)]
    fn has_next(&mut self) -> bool {
        if self.ready == 0 {
            self.look();
        }
        self.ready > 0
    }

    #[inline(always)]
    fn take_next(&mut self) -> Option<T> {
        if !self.has_next() {
            return None;
        }
        let item = self.view.cell(self.next).with(|cell| match self.view.keep {
            // SAFETY: invariant 1: the position is in head..tail and is taken once, since `next` moves on below.
            Keep::Block(_) => unsafe { (*cell).assume_init_read() },
            // SAFETY: mapped views exist only for T: Plain, and the cell is readable.
            Keep::Mapping(_) => unsafe { plain::read_once(cell.cast::<T>()) },
        });
        self.next = self.next.wrapping_add(1);
        self.ready -= 1;
        Some(item)
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
            if !self.has_next() {
                self.tell_if_due(1);
                return taken;
            }
            let go_on = self.view.cell(self.next).with(|cell| each(cell.cast()));
            self.next = self.next.wrapping_add(1);
            self.ready -= 1;
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
        let ready = self.has_next();
        if !ready {
            self.tell_if_due(1);
        }
        ready
    }

    #[cfg(not(loom))]
    fn next_word(&self) -> &AtomicU32 {
        &self.view.indices().tail.0
    }

    fn capacity(&self) -> u32 {
        self.view.mask + 1
    }

    fn is_abandoned(&self) -> bool {
        self.view.is_abandoned()
    }

    fn without_credits(mut self) -> Self {
        self.tell_every = u32::MAX;
        self
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // The block drops what lies beyond this head.
        self.tell();
    }
}

fn producer<T>(view: View<T>) -> Producer<T> {
    Producer { free: view.mask + 1, view, next: 0, shown: 0 }
}

fn consumer<T>(view: View<T>) -> Consumer<T> {
    let tell_every = ((view.mask + 1) / 4).clamp(1, 256);
    Consumer { view, next: 0, ready: 0, told: 0, tell_every }
}

impl Kind for Index {
    type Producer<T: Send> = Producer<T>;
    type Consumer<T: Send> = Consumer<T>;
    const NAME: &'static str = "index";

    fn heap<T: Send>(capacity: u32) -> (Producer<T>, Consumer<T>) {
        let (produce, consume) = View::heap(capacity);
        (producer(produce), consumer(consume))
    }

    fn mapped_bytes<T: Plain>(capacity: u32) -> usize {
        size_of::<Indices>() + (capacity as usize * size_of::<Cell<T>>()).next_multiple_of(SPACING)
    }

    #[cfg(not(loom))]
    fn map_producer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Producer<T> {
        producer(View::mapped(memory, offset, capacity))
    }

    #[cfg(not(loom))]
    fn map_consumer<T: Plain>(memory: &Arc<Mapping>, offset: usize, capacity: u32) -> Consumer<T> {
        consumer(View::mapped(memory, offset, capacity))
    }
}
