//! The memory of one message: a bump pointer through chunks of a [`Memory`].
//!
//! Invariants: what was given is 8-byte aligned, never moves, and stays until [`Arena::reset`], [`Arena::release`] or drop;
//! nothing is given twice in between. A request above a quarter of a chunk gets a run of its own, so that at most a
//! quarter of a chunk is left unused at its end.
//! Errors: [`OutOfMemory`] when the memory is full; the arena stays usable.

use super::pool::{CHUNK, Memory, OutOfMemory, Place};
use crate::object::Addr;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that are cleared at once for an object.
const LINE: usize = 64;

/// Bump allocation for the objects, strings and arrays of one message, or of several that end together.
pub struct Arena {
    memory: Arc<Memory>,
    next: Cell<*mut u8>,
    end: Cell<*mut u8>,
    runs: RefCell<Vec<(*mut u8, u32)>>,
    held: Cell<usize>,
    limit: Cell<usize>,
}

// SAFETY: an Arena owns its chunks alone; the pointers are into memory that the Arc keeps.
unsafe impl Send for Arena {}

/// How far an arena had been used: see [`Arena::release`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    next: *mut u8,
    end: *mut u8,
    runs: usize,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new(Memory::process())
    }
}

impl Arena {
    /// An arena that takes chunks from `memory`.
    pub fn new(memory: &Arc<Memory>) -> Arena {
        Arena {
            memory: Arc::clone(memory),
            next: Cell::new(std::ptr::null_mut()),
            end: Cell::new(std::ptr::null_mut()),
            runs: RefCell::new(Vec::new()),
            held: Cell::new(0),
            limit: Cell::new(usize::MAX),
        }
    }

    /// The memory it takes from.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Bytes of chunks that it holds.
    pub fn held_bytes(&self) -> usize {
        self.held.get()
    }

    /// Whether `pointer` lies in a chunk that it holds.
    pub fn holds(&self, pointer: *const u8) -> bool {
        let within = |&(first, order): &(*mut u8, u32)| {
            (first.addr()..first.addr() + (CHUNK << order)).contains(&pointer.addr())
        };
        self.runs.borrow().iter().any(within)
    }

    /// Refuses chunks beyond `bytes` of [`Arena::held_bytes`] from now on; the limit before.
    pub fn limit_to(&self, bytes: usize) -> usize {
        self.limit.replace(bytes)
    }

    /// `bytes` of memory, not initialised, 8-byte aligned.
    ///
    /// # Errors
    /// The memory is full.
    #[inline]
    pub fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let start = self.next.get();
        let room = self.end.get().addr() - start.addr();
        if bytes <= room {
            // Chunks are multiples of 8 bytes, so rounding up stays within them.
            self.next.set(start.wrapping_add(bytes.next_multiple_of(8)));
            if let Some(start) = NonNull::new(start) {
                return Ok(start);
            }
        }
        self.alloc_chunk(bytes)
    }

    /// As [`Arena::alloc`], all zeros.
    ///
    /// # Errors
    /// The memory is full.
    #[inline]
    pub fn alloc_zeroed(&self, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let start = self.alloc(bytes)?;
        let block = start.as_ptr();
        // Most objects are small, and a memset of unknown length costs a call: clear a line or two whatever the length, and what is
        // behind the block too if that is this arena's and not given yet.
        let free = self.end.get().addr().wrapping_sub(block.addr());
        let line = if (LINE..=CHUNK).contains(&free) { LINE } else { 0 };
        // SAFETY: `bytes` were given just now, and a block that has a run of its own is longer than a line; any other lies in the
        // current chunk, and nothing between it and the chunk's end was given.
        unsafe {
            if line > 0 {
                block.write_bytes(0, LINE);
            }
            if bytes > line {
                if line > 0 && bytes <= 2 * LINE && free >= 2 * LINE {
                    block.add(LINE).write_bytes(0, LINE);
                } else {
                    clear(block.add(line), bytes - line);
                }
            }
        }
        Ok(start)
    }

    #[cold]
    #[inline(never)]
    fn alloc_chunk(&self, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        if bytes > CHUNK / 4 && !(bytes <= CHUNK && self.next.get().is_null()) {
            let order = bytes.div_ceil(CHUNK).checked_next_power_of_two().ok_or(OutOfMemory)?.ilog2();
            return self.take(order);
        }
        let chunk = self.take(0)?;
        self.next.set(chunk.as_ptr().wrapping_add(bytes.next_multiple_of(8)));
        self.end.set(chunk.as_ptr().wrapping_add(CHUNK));
        Ok(chunk)
    }

    fn take(&self, order: u32) -> Result<NonNull<u8>, OutOfMemory> {
        if order > 20 || self.held.get() + (CHUNK << order) > self.limit.get() {
            return Err(OutOfMemory);
        }
        let first = self.memory.take(order)?;
        self.runs.borrow_mut().push((first, order));
        self.held.set(self.held.get() + (CHUNK << order));
        Ok(NonNull::new(first).expect("a mapped region does not begin at zero"))
    }

    /// Makes the block that ends at `end` longer by `bytes` where it lies, if it was the last one given and there is room.
    #[inline]
    pub fn extend(&self, end: *mut u8, bytes: usize) -> bool {
        let next = self.next.get();
        let fits = next == end && bytes <= self.end.get().addr() - next.addr();
        if fits {
            self.next.set(next.wrapping_add(bytes.next_multiple_of(8)));
        }
        fits
    }

    /// The address of a pointer that this arena gave, as objects hold it.
    #[inline]
    pub fn addr(&self, pointer: *mut u8) -> Addr {
        match self.memory.place() {
            Place::Host => Addr::host(pointer),
            Place::Acc => Addr::acc(pointer.addr() - self.memory.start().addr()),
        }
    }

    /// Where it is now.
    pub fn mark(&self) -> Mark {
        Mark { next: self.next.get(), end: self.end.get(), runs: self.runs.borrow().len() }
    }

    /// Forgets everything given since `mark`, newest mark first.
    pub fn release(&mut self, mark: Mark) {
        let runs = self.runs.get_mut();
        if runs.len() > mark.runs {
            self.held.set(
                self.held.get() - runs[mark.runs..].iter().map(|&(_, order)| CHUNK << order).sum::<usize>(),
            );
            self.memory.give(runs.drain(mark.runs..));
        }
        self.next.set(mark.next);
        self.end.set(mark.end);
    }

    /// Forgets everything; the first chunk is kept for the next message.
    pub fn reset(&mut self) {
        if let &mut [(first, 0)] = self.runs.get_mut().as_mut_slice() {
            self.next.set(first);
            self.end.set(first.wrapping_add(CHUNK));
            return;
        }
        let runs = self.runs.get_mut();
        let kept = runs.first().copied().filter(|&(_, order)| order == 0);
        let from = usize::from(kept.is_some());
        if runs.len() > from {
            self.memory.give(runs.drain(from..));
        }
        let (first, bytes) = kept.map_or((std::ptr::null_mut(), 0), |(first, _)| (first, CHUNK));
        self.held.set(bytes);
        self.next.set(first);
        self.end.set(first.wrapping_add(bytes));
    }
}

/// Clears `bytes` from `start`. Not inlined, or the compiler makes one call of unknown length of all the ways to clear a block.
///
/// # Safety
/// As many bytes may be written there.
#[inline(never)]
unsafe fn clear(start: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { start.write_bytes(0, bytes) };
}

impl Drop for Arena {
    fn drop(&mut self) {
        let runs = self.runs.get_mut();
        if !runs.is_empty() {
            self.memory.give(runs.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(arena: &Arena, bytes: usize, with: u8) -> NonNull<u8> {
        let block = arena.alloc(bytes).expect("room");
        assert!(block.as_ptr().addr().is_multiple_of(8));
        // SAFETY: `bytes` were given just now.
        unsafe { block.as_ptr().write_bytes(with, bytes) };
        block
    }

    fn holds(block: NonNull<u8>, bytes: usize, with: u8) -> bool {
        // SAFETY: filled by `fill`, and the arena still holds it.
        unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) }.iter().all(|&byte| byte == with)
    }

    #[test]
    fn blocks_do_not_overlap_and_chunks_come_back() {
        let memory = Memory::host(64 * CHUNK).expect("memory");
        let mut arena = Arena::new(&memory);
        for round in 0..3 {
            let mut blocks = Vec::new();
            for index in 0..40_usize {
                let bytes = [0, 1, 7, 8, 100, 1000, 1500, 5000][index % 8];
                blocks.push((fill(&arena, bytes, index as u8), bytes, index as u8));
            }
            assert!(blocks.iter().all(|&(block, bytes, with)| holds(block, bytes, with)), "round {round}");
            arena.reset();
            assert_eq!(memory.occupancy().held, 1);
        }
        drop(arena);
        assert_eq!(memory.occupancy().held, 0);
    }

    #[test]
    fn the_last_block_grows_in_place() {
        let arena = Arena::new(&Memory::host(4 * CHUNK).expect("memory"));
        let first = fill(&arena, 16, 1).as_ptr();
        assert!(arena.extend(first.wrapping_add(16), 16));
        let second = fill(&arena, 8, 2).as_ptr();
        assert_eq!(second, first.wrapping_add(32));
        assert!(!arena.extend(first.wrapping_add(32), 8), "no longer the last");
        assert!(!arena.extend(second.wrapping_add(8), CHUNK), "beyond the chunk");
    }

    #[test]
    fn a_full_memory_says_so_and_releasing_makes_room() {
        let memory = Memory::host(8 * CHUNK).expect("memory");
        let mut arena = Arena::new(&memory);
        fill(&arena, 100, 1);
        let mark = arena.mark();
        let kept = fill(&arena, 4 * CHUNK, 2);
        assert_eq!(arena.alloc(4 * CHUNK), Err(OutOfMemory));
        assert!(holds(kept, 4 * CHUNK, 2));
        arena.release(mark);
        assert_eq!(memory.occupancy().held, 1);
        fill(&arena, 4 * CHUNK, 3);
        assert_eq!(arena.alloc(usize::MAX / 2), Err(OutOfMemory));
    }

    #[test]
    fn single_chunks_join_to_runs_again() {
        let memory = Memory::host(16 * CHUNK).expect("memory");
        let singles: Vec<Arena> = (0..16)
            .map(|_| {
                let arena = Arena::new(&memory);
                fill(&arena, 1, 1);
                arena
            })
            .collect();
        assert_eq!(Arena::new(&memory).alloc(1), Err(OutOfMemory));
        drop(singles);
        fill(&Arena::new(&memory), 16 * CHUNK, 2);
    }
    #[test]
    fn what_is_asked_for_in_zeros_is_zeros_to_the_end_of_the_chunk_and_nothing_else() {
        let mut arena = Arena::new(&Memory::host(8 * CHUNK).expect("memory"));
        for bytes in [0, 1, 8, 63, 64, 65, 96, 128, 129, 1000, 2000] {
            fill(&arena, CHUNK, 0xff);
            arena.reset();
            let before = fill(&arena, 8, 0xee);
            for _ in 0..CHUNK / bytes.max(8) + 2 {
                let block = arena.alloc_zeroed(bytes).expect("room");
                assert!(holds(block, bytes, 0), "{bytes}");
                assert!(holds(before, 8, 0xee), "{bytes}");
                // SAFETY: `bytes` were given just now.
                unsafe { block.as_ptr().write_bytes(0xff, bytes) };
            }
            arena.reset();
        }
    }

    #[test]
    fn the_run_that_came_back_last_is_given_first() {
        let memory = Memory::host(64 * CHUNK).expect("memory");
        let run = || {
            let arena = Arena::new(&memory);
            let start = fill(&arena, 3 * CHUNK, 1);
            (arena, start)
        };
        let ((first, first_start), (second, second_start)) = (run(), run());
        drop(first);
        drop(second);
        let (again, third) = (run(), run());
        assert_eq!((again.1, third.1), (second_start, first_start));
        drop((again, third));
        fill(&Arena::new(&memory), 64 * CHUNK, 2);
    }
}
