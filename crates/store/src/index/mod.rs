//! The index: a set-associative hash table that grows one bucket at a time.
//!
//! Shape: a bucket is one cache line of seven entries and a link to an overflow bucket of the same format. An entry is the
//! top 16 hash bits (never 0) and a 48-bit reference to the item (its offset in the heap / 8 + 1, so that zero is empty).
//! ```text
//!  bucket  │ e0 │ e1 │ e2 │ e3 │ e4 │ e5 │ e6 │ link:u32 ─┼─▶ overflow bucket ─▶ …
//!  entry   │ tag:16 │ item:48 │
//! ```
//! Growth is linear hashing: with `low ≤ count < 2·low` buckets, bucket `count − low` is the next to be split into itself
//! and bucket `count`. No table is ever rehashed as a whole, and since both regions are reserved address space, nothing moves.
//!
//! Invariants (asserted by `check`): (1) every bucket of a chain but its last is full, and the last is not empty unless it is the
//! main one, and entries are packed to the front; (2) an entry is in the chain of its item's hash.
//!
//! Bounds: a hit in a chain of length 1 reads one line here. At the target of 4.5 entries per bucket about one bucket in nine has
//! overflow.
//!
//! Sources: MICA (Lim et al., NSDI 2014, §4.3); ORCA §IV-A; linear hashing (Litwin, VLDB 1980).

mod bucket;
mod warm;

pub(crate) use warm::{Shape, Used};

pub(crate) use bucket::{Slot, entry_of, offset_in};

use crate::warm::ground::{Ground, Part};
use base::pages::PageKind;
use base::touch::prefetch;
use bucket::{Bucket, Buckets, Matches, WAYS, occupancy};
use std::io;

/// Twice the mean number of entries per bucket at which another bucket is split.
pub(crate) const TARGET_PER_BUCKET_X2: usize = 9;

/// The table.
pub(crate) struct Index {
    main: Buckets,
    /// Buckets in use. `mask` is 2·low − 1, so that `hash & mask` or that minus `low` is the bucket.
    count: usize,
    mask: usize,
    overflow: Buckets,
    /// First free overflow bucket, counted from 1, chained by their links; 0 is none.
    free: u32,
    free_count: usize,
    overflow_used: usize,
    entries: usize,
    /// Kept between splits, so that none allocates.
    scratch: Vec<(u64, u64)>,
}

impl Index {
    /// An empty index of one step of memory, with address space for `reserve` bytes of buckets.
    pub(crate) fn new(reserve: usize, kind: PageKind, ground: &Ground<'_>) -> io::Result<Index> {
        let mut main = Buckets::new(ground.region(Part::Index, reserve.max(4096), kind)?);
        let mut overflow = Buckets::new(ground.region(Part::Overflow, (reserve / 2).max(4096), kind)?);
        main.grow()?;
        overflow.grow()?;
        let count = 1 << 6;
        let mut index = Index {
            main,
            count,
            mask: 2 * count - 1,
            overflow,
            free: 0,
            free_count: 0,
            overflow_used: 0,
            entries: 0,
            scratch: Vec::with_capacity(64),
        };
        index.link_free(0);
        Ok(index)
    }

    /// Puts the overflow buckets from number `from` (counted from 0) to the end of memory on the free list.
    fn link_free(&mut self, from: usize) {
        // From the back, so that the lowest are used first.
        for number in (from..self.overflow.backed).rev() {
            let bucket = self.overflow.at(number);
            // SAFETY: a backed overflow bucket that no chain uses.
            unsafe { (*bucket).link = self.free };
            self.free = number as u32 + 1;
            self.free_count += 1;
        }
    }

    /// Makes the empty index as large as `items` need, without splitting. Before the memory is taken from the budget.
    ///
    /// # Errors
    /// Its file has no room.
    pub(crate) fn presize(&mut self, items: usize) -> io::Result<()> {
        assert_eq!(self.entries, 0, "only an empty index can be sized");
        let wanted = buckets_for(items).max(self.count);
        while self.main.backed < wanted && self.main.can_grow() {
            self.main.grow()?;
        }
        self.count = wanted.min(self.main.backed);
        self.mask = self.count.next_power_of_two() - 1;
        if self.mask + 1 == self.count {
            self.mask = 2 * self.count - 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn bucket_number(&self, hash: u64) -> usize {
        let number = hash as usize & self.mask;
        // Not split yet: the item still lives in the lower half.
        if number >= self.count { number - self.mask.div_ceil(2) } else { number }
    }

    #[inline(always)]
    fn chain(&self, hash: u64) -> *mut Bucket {
        self.main.at(self.bucket_number(hash))
    }

    /// The bucket after `bucket`, or null.
    #[inline(always)]
    fn next(&self, bucket: *mut Bucket) -> *mut Bucket {
        // SAFETY: `bucket` is one of ours.
        match unsafe { (*bucket).link } {
            0 => std::ptr::null_mut(),
            link => self.overflow.at(link as usize - 1),
        }
    }

    /// Prefetches the bucket of `hash`.
    #[inline(always)]
    pub(crate) fn stage(&self, hash: u64) {
        prefetch(self.chain(hash).cast_const().cast());
    }

    /// Calls `visit` with the offset of every item in the first bucket whose tag matches.
    #[inline(always)]
    pub(crate) fn candidates(&self, hash: u64, mut visit: impl FnMut(usize)) {
        let bucket = self.chain(hash);
        for way in Matches::in_bucket(bucket, hash) {
            // SAFETY: way < WAYS inside the bucket.
            visit(offset_in(unsafe { (*bucket).entries[way] }));
        }
    }

    /// The first entry with the tag of `hash` whose item `is_it` accepts, given its offset.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<Slot> {
        let mut bucket = self.chain(hash);
        loop {
            for way in Matches::in_bucket(bucket, hash) {
                // SAFETY: way < WAYS inside the bucket.
                let slot = unsafe { &raw mut (*bucket).entries[way] };
                if is_it(offset_in(Slot(slot).entry())) {
                    return Some(Slot(slot));
                }
            }
            bucket = self.next(bucket);
            if bucket.is_null() {
                return None;
            }
        }
    }

    /// Adds an entry.
    ///
    /// # Panics
    /// When an overflow bucket is needed and none is free: callers look at [`Index::spare_overflow`] first.
    pub(crate) fn insert(&mut self, hash: u64, entry: u64) {
        let chain = self.chain(hash);
        self.push(chain, entry);
        self.entries += 1;
    }

    fn push(&mut self, mut bucket: *mut Bucket, entry: u64) {
        loop {
            let way = occupancy(bucket);
            if way < WAYS {
                // SAFETY: way < WAYS inside one of our buckets.
                unsafe { (*bucket).entries[way] = entry };
                return;
            }
            let next = self.next(bucket);
            bucket = if next.is_null() { self.append_overflow(bucket) } else { next };
        }
    }

    fn append_overflow(&mut self, last: *mut Bucket) -> *mut Bucket {
        let link = self.free;
        assert!(link != 0, "a chain needs an overflow bucket and none was set aside");
        let bucket = self.overflow.at(link as usize - 1);
        // SAFETY: `bucket` is on the free list, so no chain uses it.
        self.free = unsafe { (*bucket).link };
        self.free_count -= 1;
        self.overflow_used += 1;
        // SAFETY: as above; it starts empty.
        unsafe { bucket.write(Bucket { entries: [0; WAYS], link: 0, _unused: 0 }) };
        // SAFETY: `last` is the end of a chain of ours.
        unsafe { (*last).link = link };
        bucket
    }

    /// Removes the entry in `slot`, which is in the chain of `hash`; the chain's last entry takes its place.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let (mut before, mut last) = (std::ptr::null_mut(), self.chain(hash));
        while !self.next(last).is_null() {
            (before, last) = (last, self.next(last));
        }
        let way = occupancy(last) - 1;
        // SAFETY: the chain holds at least the entry in `slot`, so its last bucket is not empty (invariant 1).
        let moved = unsafe { &raw mut (*last).entries[way] };
        slot.set(Slot(moved).entry());
        Slot(moved).set(0);
        self.entries -= 1;
        if way == 0 && !before.is_null() {
            self.return_overflow(before, last);
        }
    }

    fn return_overflow(&mut self, before: *mut Bucket, last: *mut Bucket) {
        // SAFETY: both are ours and `last` follows `before`.
        unsafe {
            let link = (*before).link;
            (*before).link = 0;
            (*last).link = self.free;
            self.free = link;
        }
        self.free_count += 1;
        self.overflow_used -= 1;
    }

    /// Whether the mean bucket holds more than it should.
    #[inline(always)]
    pub(crate) fn wants_split(&self) -> bool {
        self.entries * 2 > self.count * TARGET_PER_BUCKET_X2
    }

    /// What [`Index::split`] needs in memory first: 0, or a step that [`Index::grow_main`] adds; `None` at the end of the
    /// reserved address space.
    pub(crate) fn split_needs(&self) -> Option<usize> {
        if self.count < self.main.backed { Some(0) } else { self.main.can_grow().then_some(self.main.step) }
    }

    /// False where its file has no room.
    pub(crate) fn grow_main(&mut self) -> bool {
        self.main.grow().is_ok()
    }

    /// The step that [`Index::grow_overflow`] adds; `None` at the end of the reserved address space.
    pub(crate) fn overflow_needs(&self) -> Option<usize> {
        self.overflow.can_grow().then_some(self.overflow.step)
    }

    /// False where its file has no room.
    pub(crate) fn grow_overflow(&mut self) -> bool {
        let from = self.overflow.backed;
        let has_grown = self.overflow.grow().is_ok();
        if has_grown {
            self.link_free(from);
        }
        has_grown
    }

    /// Free overflow buckets.
    #[inline(always)]
    pub(crate) fn spare_overflow(&self) -> usize {
        self.free_count
    }

    /// Splits one bucket. `hash_of` gives the full hash of the item at an offset; `stage` prefetches that item.
    ///
    /// Needs no overflow bucket that the split chain does not return: two main buckets hold what one and its chain held.
    pub(crate) fn split(&mut self, stage: impl Fn(usize), hash_of: impl Fn(usize) -> u64) {
        assert!(self.count < self.main.backed, "the new bucket's memory was not set aside");
        let low = self.mask.div_ceil(2);
        let old = self.main.at(self.count - low);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let mut bucket = old;
        while !bucket.is_null() {
            for way in 0..occupancy(bucket) {
                // SAFETY: way < WAYS inside one of our buckets.
                let entry = unsafe { (*bucket).entries[way] };
                stage(offset_in(entry));
                scratch.push((entry, 0));
            }
            bucket = self.next(bucket);
        }
        scratch.iter_mut().for_each(|(entry, hash)| *hash = hash_of(offset_in(*entry)));
        self.empty_chain(old);
        let new = self.main.at(self.count);
        self.count += 1;
        if self.count > self.mask {
            self.mask = 2 * self.count - 1;
        }
        for &(entry, hash) in &scratch {
            let to = self.chain(hash);
            debug_assert!(to == old || to == new);
            self.push(to, entry);
        }
        self.scratch = scratch;
    }

    fn empty_chain(&mut self, first: *mut Bucket) {
        // SAFETY: `first` is a main bucket.
        unsafe { (*first).entries = [0; WAYS] };
        loop {
            // SAFETY: as above.
            let link = unsafe { (*first).link };
            if link == 0 {
                return;
            }
            let bucket = self.overflow.at(link as usize - 1);
            // SAFETY: the second bucket of the chain; it is unhooked and put on the free list.
            unsafe {
                (*first).link = (*bucket).link;
                (*bucket).link = self.free;
            }
            self.free = link;
            self.free_count += 1;
            self.overflow_used -= 1;
        }
    }

    /// Calls `visit` with every entry of bucket `number`'s chain, in order.
    pub(crate) fn for_each_in(&self, number: usize, mut visit: impl FnMut(u64)) {
        let mut bucket = self.main.at(number);
        while !bucket.is_null() {
            for way in 0..occupancy(bucket) {
                // SAFETY: way < WAYS inside one of our buckets.
                visit(unsafe { (*bucket).entries[way] });
            }
            bucket = self.next(bucket);
        }
    }

    /// Asserts invariant 1 for bucket `number` and returns its overflow buckets.
    pub(crate) fn check_chain(&self, number: usize) -> usize {
        let (mut bucket, mut overflow) = (self.main.at(number), 0);
        loop {
            let full = occupancy(bucket);
            // SAFETY: one of our buckets, copied out.
            let entries = unsafe { (*bucket).entries };
            assert!(entries[full..].iter().all(|&e| e == 0), "bucket {number} has a hole");
            let next = self.next(bucket);
            if next.is_null() {
                assert!(overflow == 0 || full > 0, "bucket {number} keeps an empty overflow bucket");
                return overflow;
            }
            assert_eq!(full, WAYS, "bucket {number} overflows before it is full");
            overflow += 1;
            bucket = next;
        }
    }

    /// Forgets every entry, in place.
    pub(crate) fn clear(&mut self) {
        for number in 0..self.count {
            let bucket = self.main.at(number);
            self.empty_chain(bucket);
        }
        self.entries = 0;
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.count
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn number_of(&self, hash: u64) -> usize {
        self.bucket_number(hash)
    }

    /// How many low bits the hashes in bucket `number` have in common.
    pub(crate) fn bits_of(&self, number: usize) -> u32 {
        let low = self.mask.div_ceil(2);
        // Split already, or the other half of one that is.
        let is_split = number >= low || number + low < self.count;
        low.trailing_zeros() + u32::from(is_split)
    }

    pub(crate) fn overflow_used(&self) -> usize {
        self.overflow_used
    }

    pub(crate) fn main_bytes(&self) -> usize {
        self.main.bytes()
    }

    pub(crate) fn overflow_bytes(&self) -> usize {
        self.overflow.bytes()
    }

    pub(crate) fn kind(&self) -> PageKind {
        self.main.region.kind()
    }
}

fn buckets_for(items: usize) -> usize {
    (items.saturating_mul(2)).div_ceil(TARGET_PER_BUCKET_X2).max(64)
}
