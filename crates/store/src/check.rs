//! The invariant checker, for tests: walks everything and panics at the first thing that does not add up.

use crate::budget::Use;
use crate::index::offset_in;
use crate::item::{DEAD, LARGE};
use crate::log::{Queue, State};
use crate::store::Store;

impl Store {
    /// Asserts every invariant of index, log and budget. Time in proportion to everything there is.
    ///
    /// # Panics
    /// With a sentence on what is broken.
    pub fn check(&self) {
        let large = self.check_log();
        self.check_index();
        let budget = &self.budget;
        assert!(large <= budget.large(), "{large} B of large values are owned, {} counted", budget.large());
        let backed = self.log.segments.iter().filter(|s| s.state != State::Unbacked).count();
        assert_eq!(backed * self.log.segment_bytes(), budget.taken(Use::Segments), "bytes of segments");
        assert_eq!(self.index.main_bytes(), budget.taken(Use::Index), "bytes of the index");
        assert_eq!(self.index.overflow_bytes(), budget.taken(Use::Overflow), "bytes of overflow buckets");
        assert!(!budget.is_over() || self.release_wanted > 0, "over budget: {budget:?}");
    }

    /// Every segment's accounts; the entries are then exactly as many as the live items. Returns bytes of large values.
    fn check_log(&self) -> usize {
        let (mut live, mut garbage, mut items, mut outside) = (0, 0, 0, 0);
        let mut weight = [0u64; 2];
        for (number, s) in self.log.segments.iter().enumerate() {
            if matches!(s.state, State::Free | State::Unbacked) {
                assert_eq!((s.used, s.dead, s.large), (0, 0, 0), "segment {number} is empty");
                continue;
            }
            let (start, mut at, mut dead, mut large) = (self.log.start_of(number), 0, 0, 0);
            while at < s.used as usize {
                let item = self.item_at(start + at);
                let header = item.load();
                let size = header.footprint();
                if header.state & DEAD != 0 {
                    dead += size as u32;
                } else {
                    let latest = if header.expiry == 0 { u32::MAX } else { header.expiry };
                    assert!(latest <= s.latest, "an item of segment {number} outlives it");
                    assert!(
                        header.state & LARGE == 0 || item.large_clone().len() == header.value_len as usize
                    );
                    large += header.outside() as u64;
                    items += 1;
                    // A live item that the index does not refer to would never be found nor reclaimed.
                    let hash = self.hash_of(item);
                    let entry = self.index.find(hash, |offset| offset == start + at);
                    assert!(entry.is_some(), "the item at {} is live and not in the index", start + at);
                }
                at += size;
            }
            assert_eq!(at, s.used as usize, "items of segment {number} end where it ends");
            assert!(at <= self.log.segment_bytes(), "segment {number} overflows");
            assert_eq!((dead, large), (s.dead, s.large), "dead and large bytes of segment {number}");
            live += u64::from(s.used - dead);
            garbage += u64::from(dead);
            weight[s.queue as usize] += u64::from(s.used - dead) + large;
            outside += large as usize;
        }
        assert_eq!((live, garbage), (self.log.live, self.log.dead), "live and dead bytes");
        assert_eq!(weight, [self.log.weight(Queue::Small), self.log.weight(Queue::Main)], "bytes by queue");
        assert_eq!(items, self.index.entries(), "live items and entries");
        outside
    }

    /// Every entry refers to a live item with a key of its own that belongs in that bucket.
    fn check_index(&self) {
        let (mut entries, mut overflow) = (0, 0);
        let mut keys = std::collections::HashSet::new();
        for bucket in 0..self.index.bucket_count() {
            overflow += self.index.check_chain(bucket);
            self.index.for_each_in(bucket, |entry| {
                entries += 1;
                let offset = offset_in(entry);
                let segment = &self.log.segments[self.log.segment_of(offset)];
                let within = offset - self.log.start_of(self.log.segment_of(offset));
                assert!(within < segment.used as usize, "an entry refers to nothing, at {offset}");
                let item = self.item_at(offset);
                assert_eq!(item.state() & DEAD, 0, "an entry refers to a dead item at {offset}");
                let hash = self.hash_of(item);
                assert_eq!(self.index.number_of(hash), bucket, "an entry is in a wrong bucket");
                assert_eq!(entry, crate::index::entry_of(hash, offset), "an entry has a wrong tag");
                // SAFETY: the store is borrowed until the set is dropped.
                let key: &[u8] = unsafe { item.key() };
                assert!(keys.insert(key), "the key {key:?} is in the index twice");
            });
        }
        assert_eq!(entries, self.index.entries(), "entries in buckets and their count");
        assert_eq!(overflow, self.index.overflow_used(), "overflow buckets in chains and their count");
    }
}
