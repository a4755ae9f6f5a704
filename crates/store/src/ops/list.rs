//! LIST: all keys, in bounded steps (`lru_crawler metadump`).
//!
//! Buckets are visited in the order of their numbers' bits read backwards, the lowest first. A bucket holds the hashes with the same low bits, so in
//! that order it is an interval; a split halves its interval, and moves nothing anywhere else. A cursor is the end of an interval, and stays one
//! however the index grows. (In the order of numbers a split moves items to a bucket that is still to be visited, and they are listed twice.)
//!
//! Sources: the cursor of Redis's SCAN, here for linear hashing.

use crate::index::offset_in;
use crate::ops::peek::Peek;
use crate::store::Store;

/// Where a listing stands. It stays good while the store changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u64);

impl Store {
    /// Calls `visit` for the items of the bucket at `cursor`, most often less than ten; returns where to go on, or `None` at the end.
    ///
    /// A listing visits every key that is there throughout exactly once, and no key twice.
    pub fn list(&self, now: u32, cursor: Cursor, mut visit: impl FnMut(&Peek<'_>)) -> Option<Cursor> {
        let hash = cursor.0.reverse_bits();
        let bucket = self.index.number_of(hash);
        self.index.for_each_in(bucket, |entry| self.stage_at(offset_in(entry)));
        self.index.for_each_in(bucket, |entry| {
            let item = self.item_at(offset_in(entry));
            if self.is_visible(now, &item.load()) {
                visit(&self.describe(item));
            }
        });
        let interval = 1 << (u64::BITS - self.index.bits_of(bucket));
        let next = cursor.0.checked_add(interval)?;
        self.index.stage(next.reverse_bits());
        Some(Cursor(next))
    }

    /// The same in the order of numbers, which misses what a split has moved to a bucket behind the last there was: a mistake, to see that it is found.
    #[cfg(test)]
    pub(crate) fn list_by_number(
        &self,
        now: u32,
        cursor: Cursor,
        mut visit: impl FnMut(&Peek<'_>),
    ) -> Option<Cursor> {
        // How many there were at the beginning is kept above.
        let (number, count) = match cursor.0 >> 32 {
            0 => (0, self.index.bucket_count()),
            count => (cursor.0 as u32 as usize, count as usize),
        };
        self.index.for_each_in(number, |entry| {
            let item = self.item_at(offset_in(entry));
            if self.is_visible(now, &item.load()) {
                visit(&self.describe(item));
            }
        });
        (number + 1 < count).then_some(Cursor((count as u64) << 32 | (number as u64 + 1)))
    }
}
