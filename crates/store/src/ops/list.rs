//! LIST: all keys, in bounded steps (`lru_crawler metadump`).

use crate::index::offset_in;
use crate::ops::peek::Peek;
use crate::store::Store;

/// Where a listing stands. It stays good while the store changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(usize);

impl Store {
    /// Calls `visit` for the items of about `buckets` buckets from `cursor` on; returns where to go on, or `None` at the end.
    ///
    /// An item that is there throughout is visited at least once, and twice at most where the index grows meanwhile: a split
    /// moves items to higher buckets only.
    pub fn list(
        &self,
        now: u32,
        cursor: Cursor,
        buckets: usize,
        mut visit: impl FnMut(&Peek<'_>),
    ) -> Option<Cursor> {
        let end = cursor.0.saturating_add(buckets.max(1)).min(self.index.bucket_count());
        for bucket in cursor.0..end {
            self.index.for_each_in(bucket, |entry| {
                let item = self.item_at(offset_in(entry));
                if self.is_visible(now, &item.load()) {
                    visit(&self.describe(item));
                }
            });
        }
        (end < self.index.bucket_count()).then_some(Cursor(end))
    }
}
