//! The buckets of the index: their format, how an entry is found in one, and the memory that they stand in.
//!
//! Apart from the table (`mod.rs`), which knows chains and splits: here is what depends on the layout of a cache line.

use base::pages::{HUGE_PAGE, PageKind, Region};
use std::io;

/// Entries in a bucket.
pub(super) const WAYS: usize = 7;

pub(super) const BUCKET: usize = 64;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub(super) entries: [u64; WAYS],
    /// Number of the overflow bucket that follows, counted from 1; 0 is none.
    pub(super) link: u32,
    pub(super) _unused: u32,
}

const _: () = assert!(size_of::<Bucket>() == BUCKET);

/// Where an entry is; valid until the index is next changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(super) *mut u64);

impl Slot {
    #[inline(always)]
    pub(crate) fn entry(self) -> u64 {
        // SAFETY: a Slot points at an entry of the index that made it.
        unsafe { self.0.read() }
    }

    pub(crate) fn set(self, entry: u64) {
        // SAFETY: as `entry`; the index is borrowed mutably by whoever changes it.
        unsafe { self.0.write(entry) }
    }
}

/// The entry for the item at `offset` of the heap.
#[inline(always)]
pub(crate) fn entry_of(hash: u64, offset: usize) -> u64 {
    tag_of(hash) << 48 | (offset as u64 / 8 + 1)
}

/// The offset that an entry refers to.
#[inline(always)]
pub(crate) fn offset_in(entry: u64) -> usize {
    (((entry & ((1 << 48) - 1)) - 1) * 8) as usize
}

/// An array of buckets in reserved address space, grown by whole pages.
pub(super) struct Buckets {
    pub(super) region: Region,
    /// Buckets that fit in the memory accounted for.
    pub(super) backed: usize,
    /// Bytes by which it grows.
    pub(super) step: usize,
}

impl Buckets {
    pub(super) fn new(region: Region) -> Buckets {
        let step = if region.kind() == PageKind::Base { 4096 } else { HUGE_PAGE };
        Buckets { region, backed: 0, step }
    }

    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> *mut Bucket {
        debug_assert!(index < self.backed, "bucket {index} of {}", self.backed);
        // SAFETY: callers pass numbers below `backed`, which lie inside the region.
        unsafe { self.region.start().cast::<Bucket>().add(index) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.backed * BUCKET
    }

    /// One step of memory more, which the caller takes from the budget. An error where its file has no room.
    pub(super) fn grow(&mut self) -> io::Result<()> {
        self.region.hold(self.bytes()..self.bytes() + self.step)?;
        self.backed += self.step / BUCKET;
        Ok(())
    }

    pub(super) fn can_grow(&self) -> bool {
        self.bytes() + self.step <= self.region.len()
    }
}

/// The tag of `hash`: its top 16 bits, but never 0, so that an empty entry matches none.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u64 {
    (hash >> 48).max(1)
}

/// The entries of a bucket whose tags match, one after the other. Found without branches: which one matches is not
/// predictable.
pub(super) struct Matches(u32);

impl Matches {
    /// Four instructions per 16 bytes: the tags are words 3 and 7 of each vector, and the link's is 0.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn in_bucket(bucket: *const Bucket, hash: u64) -> Matches {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86-64; `bucket` is one of ours, 64 bytes on a 64-byte boundary.
        unsafe {
            let tag = _mm_set1_epi16(tag_of(hash) as i16);
            let pair = |at: usize| _mm_cmpeq_epi16(_mm_load_si128(bucket.cast::<__m128i>().add(at)), tag);
            let low = _mm_movemask_epi8(_mm_packs_epi16(pair(0), pair(1)));
            let high = _mm_movemask_epi8(_mm_packs_epi16(pair(2), pair(3)));
            Matches((low as u32 | (high as u32) << 16) & 0x8888_8888)
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub(super) fn in_bucket(bucket: *const Bucket, hash: u64) -> Matches {
        // SAFETY: `bucket` is one of ours; nobody writes while we read.
        let entries = unsafe { &(*bucket).entries };
        let tag = tag_of(hash);
        let hits =
            entries.iter().enumerate().map(|(way, entry)| u32::from(entry >> 48 == tag) << (4 * way + 3));
        Matches(hits.sum())
    }
}

impl Iterator for Matches {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let way = self.0.trailing_zeros() as usize / 4;
        self.0 &= self.0 - 1;
        Some(way)
    }
}

/// Entries in `bucket`; they are packed to the front.
#[inline(always)]
pub(super) fn occupancy(bucket: *mut Bucket) -> usize {
    // SAFETY: `bucket` is one of ours.
    let entries = unsafe { &(*bucket).entries };
    entries.iter().map(|&entry| usize::from(entry != 0)).sum()
}
