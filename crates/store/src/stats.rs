//! What the store counts, and a snapshot of where it stands.
//!
//! Hits and misses are not here: whoever calls sees each one, knows which command it was, and counts it there.

use crate::budget::Use;
use crate::ghost::{GHOST_QUARTERS, Ghosts};
use crate::store::Store;
use base::pages::PageKind;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
    pub(crate) flushed: u64,
    pub(crate) ghost_hits: u64,
    pub(crate) segments_cleaned: u64,
    pub(crate) bytes_copied: u64,
}

/// A snapshot. Counters run from the store's making, all else is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Items in the index; those that expired or were flushed count until they are met.
    pub items: usize,
    /// Bytes of these items in the log, headers and keys included, and of large values.
    pub item_bytes: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Items removed because they had expired.
    pub expired: u64,
    /// Items removed because they had been flushed.
    pub flushed: u64,
    /// New keys that had been evicted lately and so skipped probation.
    pub ghost_hits: u64,
    /// Gets that missed a key which had been evicted lately: of all keys that are remembered the latest quarter, the next, … Since the process began.
    pub ghost_misses: [u64; GHOST_QUARTERS],
    /// Keys of evicted items that are remembered at most; 0 in store mode.
    pub ghost_room: usize,
    /// Segments cleaned.
    pub segments_cleaned: u64,
    /// Bytes of items that the cleaner copied.
    pub bytes_copied: u64,
    /// The limit.
    pub memory_limit: usize,
    /// Bytes in use, of everything below together. At most the limit, unless that was just lowered.
    pub memory: usize,
    /// Bytes of segments, full or not.
    pub segment_memory: usize,
    /// Bytes of large values, those that only readers still hold included.
    pub large_memory: usize,
    /// Bytes of index buckets.
    pub index_memory: usize,
    /// Bytes of overflow buckets.
    pub overflow_memory: usize,
    /// Bytes of ghosts.
    pub ghost_memory: usize,
    /// Bytes per segment.
    pub segment_bytes: usize,
    /// Segments with memory.
    pub segments: usize,
    /// Segments with memory and nothing in them.
    pub segments_free: usize,
    /// Main buckets of the index.
    pub buckets: usize,
    /// Overflow buckets in use.
    pub overflow_buckets: usize,
    /// Bytes of items that a store-mode log takes.
    pub live_limit: u64,
    /// Pages the segments were granted.
    pub heap_pages: PageKind,
    /// Pages the index was granted.
    pub index_pages: PageKind,
    /// The last version given.
    pub version: u64,
}

impl Store {
    /// How the store stands.
    pub fn stats(&self) -> Stats {
        let counters = self.stats;
        Stats {
            items: self.index.entries(),
            item_bytes: self.log.live + self.budget.large() as u64,
            evicted: counters.evicted,
            expired: counters.expired,
            flushed: counters.flushed,
            ghost_hits: counters.ghost_hits,
            ghost_misses: self.ghosts.as_ref().map_or([0; GHOST_QUARTERS], Ghosts::missed),
            ghost_room: self.ghosts.as_ref().map_or(0, Ghosts::room),
            segments_cleaned: counters.segments_cleaned,
            bytes_copied: counters.bytes_copied,
            memory_limit: self.budget.limit,
            memory: self.budget.spent(),
            segment_memory: self.budget.taken(Use::Segments),
            large_memory: self.budget.large(),
            index_memory: self.budget.taken(Use::Index),
            overflow_memory: self.budget.taken(Use::Overflow),
            ghost_memory: self.budget.taken(Use::Ghosts),
            segment_bytes: self.log.segment_bytes(),
            segments: self.log.segments.len() - self.log.unbacked_segments(),
            segments_free: self.log.free_segments(),
            buckets: self.index.bucket_count(),
            overflow_buckets: self.index.overflow_used(),
            live_limit: self.live_limit(),
            heap_pages: self.log.kind(),
            index_pages: self.index.kind(),
            version: self.version,
        }
    }
}
