//! One memory: a reserved region, cut into chunks, with free runs of each length kept aside before a buddy allocator.
//!
//! Why aside: messages of one service are of about one length, so the run that one gave back is the run that the next one wants; the buddy
//! allocator would join it and split it again. The last one given back is taken first: its bytes are still in the cache.
//!
//! Bounds: the region's length, fixed when it is made; address space is reserved, pages are used when first written. [`ASIDE`] chunks aside.
//! Cost: one uncontended lock for each run.

use super::buddy::{Buddy, ORDERS};
use base::pages::{PageKind, Region};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

/// Bytes in a chunk (RPCAcc III-B: 4 KiB).
pub const CHUNK: usize = 4096;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The CPU's.
    Host,
    /// The accelerator's own.
    Acc,
}

/// A memory is full: no chunk is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no free chunk is left in this memory: make it larger, or drop messages sooner")
    }
}

impl std::error::Error for OutOfMemory {}

/// What of a memory is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Chunks held by arenas.
    pub held: u32,
    /// The most ever held at once.
    pub peak: u32,
    /// Chunks there are.
    pub chunks: u32,
}

/// A region of one of the two memories.
pub struct Memory {
    region: Region,
    place: Place,
    chunks: u32,
    free: Mutex<Free>,
}

struct Free {
    /// By order, the latest last.
    aside: [Vec<u32>; ORDERS],
    /// Chunks in them.
    chunks_aside: usize,
    runs: Buddy,
    held: u32,
    peak: u32,
}

/// Chunks that runs kept aside have in all; beyond it runs go back to the buddy allocator and join.
const ASIDE: usize = 4096;

impl Free {
    fn take(&mut self, order: u32) -> Option<u32> {
        if let Some(start) = self.aside[order as usize].pop() {
            self.chunks_aside -= 1 << order;
            return Some(start);
        }
        if let Some(start) = self.runs.take(order) {
            return Some(start);
        }
        // The runs set aside may be what is missing.
        for order in 0..ORDERS as u32 {
            for start in self.aside[order as usize].drain(..) {
                self.runs.give(start, order);
            }
        }
        self.chunks_aside = 0;
        self.runs.take(order)
    }

    fn give(&mut self, start: u32, order: u32) {
        if self.chunks_aside + (1 << order) <= ASIDE {
            self.chunks_aside += 1 << order;
            self.aside[order as usize].push(start);
        } else {
            self.runs.give(start, order);
        }
    }
}

impl Memory {
    /// Reserves `bytes` of host memory.
    ///
    /// # Errors
    /// The system's, when the address space is exhausted.
    pub fn host(bytes: usize) -> io::Result<Arc<Memory>> {
        Memory::reserve(Place::Host, bytes)
    }

    /// Reserves `bytes` as the accelerator's memory. Today it is ordinary memory that only the executor's thread reads.
    ///
    /// # Errors
    /// As [`Memory::host`].
    pub fn acc(bytes: usize) -> io::Result<Arc<Memory>> {
        Memory::reserve(Place::Acc, bytes)
    }

    /// The process's own host memory: 16 GiB of address space, or as much as the system gives of it, down to 64 MiB. Reserved when first asked for.
    /// A server asks when it starts, with [`Memory::prepare`].
    ///
    /// # Panics
    /// If the system refuses even that.
    pub fn process() -> &'static Arc<Memory> {
        Memory::prepare().expect("address space for messages can be reserved")
    }

    /// As [`Memory::process`], for whoever can still tell somebody that there is none.
    ///
    /// # Errors
    /// The system refuses 64 MiB of address space.
    pub fn prepare() -> io::Result<&'static Arc<Memory>> {
        static PROCESS: OnceLock<Arc<Memory>> = OnceLock::new();
        if let Some(memory) = PROCESS.get() {
            return Ok(memory);
        }
        let (most, least) = if cfg!(miri) { (4 << 20, 4 << 20) } else { (16 << 30, 64 << 20) };
        let mut bytes: usize = most;
        let memory = loop {
            match Memory::host(bytes) {
                Ok(memory) => break memory,
                Err(_) if bytes > least => bytes /= 2,
                Err(error) => {
                    let text = format!(
                        "the system refuses {} MiB of address space for messages ({error}): raise `ulimit -v`, or vm.overcommit_memory's limit",
                        bytes >> 20
                    );
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        };
        // Another thread may have been faster; then this one's address space goes back.
        Ok(PROCESS.get_or_init(|| memory))
    }

    fn reserve(place: Place, bytes: usize) -> io::Result<Arc<Memory>> {
        let chunks = u32::try_from(bytes.div_ceil(CHUNK).max(1))
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a memory is at most 16 TiB"))?;
        let region = Region::map(chunks as usize * CHUNK, PageKind::Transparent)?;
        let (aside, runs) = (Default::default(), Buddy::new(chunks));
        let free = Free { aside, chunks_aside: 0, runs, held: 0, peak: 0 };
        Ok(Arc::new(Memory { region, place, chunks, free: Mutex::new(free) }))
    }

    /// Which memory this is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// First byte.
    pub fn start(&self) -> *mut u8 {
        self.region.start()
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.chunks as usize * CHUNK
    }

    /// Never: a memory has a chunk at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What is in use now.
    pub fn occupancy(&self) -> Occupancy {
        let free = self.lock();
        Occupancy { held: free.held, peak: free.peak, chunks: self.chunks }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().expect("nothing panics while the free list is locked")
    }

    /// A run of 2^order chunks: its first byte.
    pub(super) fn take(&self, order: u32) -> Result<*mut u8, OutOfMemory> {
        let mut free = self.lock();
        let start = free.take(order).ok_or(OutOfMemory)?;
        free.held += 1 << order;
        free.peak = free.peak.max(free.held);
        Ok(self.start().wrapping_add(start as usize * CHUNK))
    }

    /// Gives runs back.
    pub(super) fn give(&self, runs: impl IntoIterator<Item = (*mut u8, u32)>) {
        let mut free = self.lock();
        for (first, order) in runs {
            let start = ((first.addr() - self.start().addr()) / CHUNK) as u32;
            free.held -= 1 << order;
            free.give(start, order);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Occupancy { held, chunks, .. } = self.occupancy();
        write!(f, "Memory({:?}, {held} of {chunks} chunks held)", self.place)
    }
}
