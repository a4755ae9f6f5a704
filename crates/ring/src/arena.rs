//! Contiguous bytes between one producer and one consumer, beside a ring: what does not fit a slot goes here, and the slot says
//! where.
//!
//! Shape: a circle of `capacity` bytes addressed by u64 positions that only grow. A span never wraps: where the rest of the
//! circle is too short, it is skipped.
//! ```text
//!          released            head
//!             ▼                 ▼
//! │ free      │ span │ span │ sp│ … skipped │        spans of a heap arena touch, so that
//!                                                 several in a row go out as one; those of a
//!                                                 mapping start on 64-byte lines
//! ```
//! Invariants:
//! 1. `head - released ≤ capacity`: what is not released is not written again.
//! 2. Spans are released in the order of their making; releasing one releases all before it.
//! 3. On the heap, a [`Span`] is made by [`Reservation::commit`] only and carries its arena's number, so bytes are readable
//!    exactly while it is not released. From a peer across shared memory a span is a claim ([`Claim`]): checked, then copied.
//!
//! Ordering:
//! - **bytes**: the span itself must travel by something with release and acquire (a ring does), which orders its bytes.
//! - **space**: the consumer's `released` (Release) pairs with the producer's load (Acquire).
//!
//! Bounds: a span is at most `capacity` bytes; the producer reads `released` only when the space it knows of is used up.
//!
//! Cost: a few nanoseconds and the copy.

use crate::memory::{Aligned, SPACING};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::{Mapping, plain};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32 as Counter;

const LINE: u64 = 64;

/// The largest capacity of an arena, in bytes.
pub const MAX_CAPACITY: u64 = 1 << 32;

/// Bytes in an arena on the heap, not released yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    position: u64,
    len: u32,
    arena: u32,
}

impl Span {
    /// Bytes in the span.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Both spans as one, where `next` begins right where this one ends.
    pub fn join(self, next: Span) -> Option<Span> {
        let adjacent = self.arena == next.arena && self.position + u64::from(self.len) == next.position;
        let len = self.len.checked_add(next.len)?;
        adjacent.then_some(Span { position: self.position, len, arena: self.arena })
    }
}

/// What a peer says about bytes it wrote: to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where they start, counted from the arena's beginning of time.
    pub position: u64,
    /// How many they are.
    pub len: u32,
}

#[repr(C, align(128))]
struct Released(AtomicU64);

type Line = UnsafeCell<[u8; LINE as usize]>;

struct Block {
    released: Released,
    lines: Aligned<Line>,
}

// SAFETY: the ends never touch the same bytes at once (invariant 1), and share no reference into them.
unsafe impl Sync for Block {}

#[derive(Clone)]
enum Keep {
    Heap(#[allow(dead_code)] Arc<Block>),
    Mapping(#[allow(dead_code)] Arc<Mapping>),
}

/// The memory as either end sees it.
struct View {
    bytes: NonNull<u8>,
    released: NonNull<Released>,
    capacity: u64,
    /// What spans start at multiples of.
    grain: u64,
    arena: u32,
    _keep: Keep,
}

// SAFETY: the pointers lead into memory that `keep` keeps, shared as invariant 1 says.
unsafe impl Send for View {}

impl View {
    fn released(&self) -> &AtomicU64 {
        // SAFETY: it lives as long as `keep`.
        unsafe { &self.released.as_ref().0 }
    }

    /// The byte at `position`; the caller stays within the span it has checked.
    fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: the index is below the capacity.
        unsafe { self.bytes.as_ptr().add((position & (self.capacity - 1)) as usize) }
    }

    /// Whether a span lies in the circle without wrapping and between `released` and a lap further.
    fn holds(&self, released: u64, position: u64, len: u64) -> bool {
        let index = position & (self.capacity - 1);
        let ahead = position.wrapping_sub(released);
        len <= self.capacity - index && ahead <= self.capacity && ahead + len <= self.capacity
    }
}

fn check_capacity(capacity: u64) {
    assert!(
        capacity.is_power_of_two() && (LINE..=MAX_CAPACITY).contains(&capacity),
        "an arena's capacity is a power of two from 64 to 2^32 bytes, not {capacity}"
    );
}

/// An arena on the heap, of `capacity` bytes (a power of two).
pub fn heap(capacity: u64) -> (Producer, Consumer) {
    static ARENAS: Counter = Counter::new(0);
    check_capacity(capacity);
    let lines = Aligned::new((capacity / LINE) as usize, || Line::new([0; LINE as usize]));
    let block = Arc::new(Block { released: Released(AtomicU64::new(0)), lines });
    let arena = ARENAS.fetch_add(1, Ordering::Relaxed);
    let view = || View {
        bytes: block.lines.start().cast(),
        released: NonNull::from(&block.released),
        capacity,
        grain: 1,
        arena,
        _keep: Keep::Heap(block.clone()),
    };
    (Producer(Writer::over(view())), Consumer(Reader::over(view())))
}

/// Bytes that an arena of `capacity` needs in a mapping.
pub fn mapped_bytes(capacity: u64) -> usize {
    SPACING + (capacity as usize).next_multiple_of(SPACING)
}

fn mapped(memory: &Arc<Mapping>, offset: usize, capacity: u64) -> View {
    check_capacity(capacity);
    View {
        released: memory.at(offset, 1),
        bytes: memory.at(offset + SPACING, capacity as usize),
        capacity,
        grain: LINE,
        arena: 0,
        _keep: Keep::Mapping(memory.clone()),
    }
}

/// The producing end's state, wherever the memory is.
struct Writer {
    view: View,
    head: u64,
    /// What the consumer was last seen to have released.
    released: u64,
}

impl Writer {
    fn over(view: View) -> Writer {
        Writer { view, head: 0, released: 0 }
    }

    /// Where a span of `len` bytes may start, if there is room.
    fn place(&mut self, len: u64) -> Option<u64> {
        let capacity = self.view.capacity;
        if len > capacity {
            return None;
        }
        let rest = capacity - (self.head & (capacity - 1));
        let position = if len <= rest { self.head } else { self.head + rest };
        if position + len - self.released > capacity {
            let released = self.view.released().load(Ordering::Acquire); // label: space
            // A count that no honest consumer can have sent is not believed.
            if released.wrapping_sub(self.released) <= self.head - self.released {
                self.released = released;
            }
        }
        (position + len - self.released <= capacity).then_some(position)
    }

    fn advance(&mut self, position: u64, len: u64) {
        self.head = (position + len).next_multiple_of(self.view.grain);
    }
}

/// The consuming end's state, wherever the memory is.
struct Reader {
    view: View,
    released: u64,
    /// What the producer was last told.
    told: u64,
}

impl Reader {
    fn over(view: View) -> Reader {
        Reader { view, released: 0, told: 0 }
    }

    fn release(&mut self, position: u64, len: u64) {
        self.released = (position + len).next_multiple_of(self.view.grain);
        // A quarter of the circle: rare enough to cost nothing, early enough that the producer seldom waits.
        if self.released - self.told >= self.view.capacity / 4 {
            self.tell();
        }
    }

    fn tell(&mut self) {
        if self.told != self.released {
            self.view.released().store(self.released, Ordering::Release); // label: space
            self.told = self.released;
        }
    }
}

/// The producing end of an arena on the heap.
pub struct Producer(Writer);

/// Space for one span, being filled.
pub struct Reservation<'a> {
    writer: &'a mut Writer,
    position: u64,
    bytes: &'a mut [u8],
}

impl Producer {
    /// Contiguous space for `max_len` bytes, if there is any. Nothing is taken until [`Reservation::commit`].
    pub fn reserve(&mut self, max_len: u32) -> Option<Reservation<'_>> {
        let position = self.0.place(u64::from(max_len))?;
        let at = self.0.view.at(position);
        // SAFETY: invariant 1: the consumer reads none of these bytes until a span over them is committed, they are
        // initialised since the arena was made, and the producer is borrowed as long as they are.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, max_len as usize) };
        Some(Reservation { writer: &mut self.0, position, bytes })
    }

    /// Copies `bytes` in, if there is room.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Span> {
        let len = u32::try_from(bytes.len()).ok()?;
        let mut space = self.reserve(len)?;
        space.copy_from_slice(bytes);
        Some(space.commit(len))
    }
}

impl std::ops::Deref for Reservation<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl std::ops::DerefMut for Reservation<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Reservation<'_> {
    /// Keeps the first `len` bytes and gives the rest back.
    ///
    /// # Panics
    /// When `len` is more than was reserved.
    pub fn commit(self, len: u32) -> Span {
        assert!(len as usize <= self.bytes.len(), "{len} bytes of a reservation of {}", self.bytes.len());
        self.writer.advance(self.position, u64::from(len));
        Span { position: self.position, len, arena: self.writer.view.arena }
    }
}

/// The consuming end of an arena on the heap.
pub struct Consumer(Reader);

impl Consumer {
    /// The bytes of a span; `None` when it was released or is another arena's.
    pub fn bytes(&self, span: Span) -> Option<&[u8]> {
        let mine = span.arena == self.0.view.arena
            && self.0.view.holds(self.0.released, span.position, u64::from(span.len));
        // SAFETY: invariant 3: the span was committed by this arena's producer and is not released, so its bytes are written no
        // more; the borrow keeps it unreleased.
        mine.then(|| unsafe { std::slice::from_raw_parts(self.0.view.at(span.position), span.len()) })
    }

    /// Gives a span back, and every span before it. A span released already, or another arena's, changes nothing.
    pub fn release(&mut self, span: Span) {
        if self.bytes(span).is_some() {
            self.0.release(span.position, u64::from(span.len));
        }
    }

    /// Tells the producer now what was released; it learns by itself a quarter of the arena later.
    pub fn publish(&mut self) {
        self.0.tell();
    }
}

/// The producing end of an arena in a mapping: bytes are copied in.
pub struct MappedProducer(Writer);

impl MappedProducer {
    /// The producing end of an arena at `offset` (a multiple of 128) of a mapping, all zero there when its first user came.
    ///
    /// # Panics
    /// When the arena leaves the mapping.
    pub fn new(memory: &Arc<Mapping>, offset: usize, capacity: u64) -> MappedProducer {
        MappedProducer(Writer::over(mapped(memory, offset, capacity)))
    }

    /// Copies `bytes` in, if there is room.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Claim> {
        self.push_both(bytes, &[])
    }

    /// Copies `first` and right behind it `second` in, as one span, if there is room.
    pub fn push_both(&mut self, first: &[u8], second: &[u8]) -> Option<Claim> {
        let len = u32::try_from(first.len() + second.len()).ok()?;
        let position = self.0.place(u64::from(len))?;
        let to = self.0.view.at(position);
        // SAFETY: `place` gave `len` bytes inside the circle; `first` is memory of ours, elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len()) };
        // SAFETY: as above, and both lengths together are `len`.
        unsafe { std::ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len()) };
        self.0.advance(position, u64::from(len));
        Some(Claim { position, len })
    }

    /// Whether the consumer released something since the producer last looked for space.
    pub fn has_news(&self) -> bool {
        self.0.view.released().load(Ordering::Acquire) != self.0.released // label: space
    }
}

/// The consuming end of an arena in a mapping, whose producer is not trusted: bytes are copied out.
pub struct MappedConsumer {
    reader: Reader,
    /// What was released when the producer was last told by [`MappedConsumer::publish`].
    announced: u64,
}

impl MappedConsumer {
    /// The consuming end of an arena at `offset` of a mapping.
    ///
    /// # Panics
    /// When the arena leaves the mapping.
    pub fn new(memory: &Arc<Mapping>, offset: usize, capacity: u64) -> MappedConsumer {
        MappedConsumer { reader: Reader::over(mapped(memory, offset, capacity)), announced: 0 }
    }

    /// Appends the claimed bytes to `out` and releases them; false, and nothing done, when the claim cannot be true.
    pub fn take(&mut self, claim: Claim, out: &mut Vec<u8>) -> bool {
        let len = u64::from(claim.len);
        if !claim.position.is_multiple_of(LINE)
            || !self.reader.view.holds(self.reader.released, claim.position, len)
        {
            return false;
        }
        let start = out.len();
        out.reserve(claim.len as usize);
        // SAFETY: `holds` says that the bytes are inside the circle; `reserve` made room for as many.
        unsafe {
            plain::copy_once(
                self.reader.view.at(claim.position),
                out.as_mut_ptr().add(start),
                claim.len as usize,
            )
        };
        // SAFETY: they were written just now.
        unsafe { out.set_len(start + claim.len as usize) };
        self.reader.release(claim.position, len);
        true
    }

    /// Tells the producer now what was released; whether anything was since the last call. Some of it may have been told
    /// before, a quarter of the arena at a time, but then nobody woke a producer that waits for it.
    pub fn publish(&mut self) -> bool {
        self.reader.tell();
        std::mem::replace(&mut self.announced, self.reader.released) != self.reader.released
    }
}

#[cfg(test)]
mod tests;
