//! Room before a mutation: cleaning in proportion, one bucket of the index more, memory out of the budget.
//!
//! Apart from the rest because only what stands here moves items: a [`Slot`](crate::index::Slot) or an item that was looked up before is looked up again.

use super::Store;
use crate::budget::Use;
use crate::config::Mode;
use crate::item::Item;
use crate::log::{Log, Queue};
use base::touch::prefetch;

/// More than the longest key's stub of a large value, and than what `prepare`'s callers estimate too little.
const STUB_AND_SLACK: usize = 512;

impl Store {
    /// Before a mutation that writes about `bytes`: cleans in proportion, grows the index, and sees to it that two segments
    /// are available, as far as possible.
    pub(crate) fn prepare(&mut self, now: u32, bytes: usize) {
        if self.log.lacks_room_in_file() {
            self.log.hold_some(&self.budget, now, self.reserve);
        }
        let walk = bytes.saturating_mul(self.cleaning.as_ref().map_or(5, |c| c.pace));
        if self.log.available(&self.budget) < self.reserve || self.budget.is_over() {
            self.clean(now, walk);
        } else {
            self.finish_victim(now, walk);
        }
        if self.index.wants_split() {
            self.split_one();
        }
        if self.index.spare_overflow() < 2 {
            self.grow_overflow(now);
        }
        while self.log.available(&self.budget) < 2 && self.clean_one_segment(now) {}
        if self.config.mode == Mode::Store {
            // What has expired or was flushed counts as live until it is walked; no write is refused for its sake.
            let about = (bytes + STUB_AND_SLACK) as u64;
            while self.log.live + about > self.live_limit() && self.clean_gone(now) {}
        }
    }

    /// Splits one bucket; where memory for it is lacking, asks the cleaner to give a segment back and leaves it for later.
    fn split_one(&mut self) {
        match self.index.split_needs() {
            None => return,
            Some(0) => {}
            Some(step) if self.log.can_spare(&self.budget, step) => {
                self.log.give_up(&self.budget, step);
                if !self.index.grow_main() {
                    return;
                }
                self.budget.take(Use::Index, step);
            }
            Some(step) => {
                self.release_wanted = self.release_wanted.max(step);
                return;
            }
        }
        // The index is borrowed apart from the rest: splitting only reads items.
        let (heap, hasher) = (self.log.base(), self.hasher);
        #[cfg(test)]
        let mask = self.hash_mask;
        #[cfg(not(test))]
        let mask = u64::MAX;
        self.index.split(
            |offset| prefetch(heap.wrapping_add(offset)),
            |offset| {
                // SAFETY: the offset is of an index entry, whose item is in the heap; the borrow ends with the hashing.
                let key = unsafe { Item::at(heap.add(offset)).key() };
                hasher.hash(key) & mask
            },
        );
    }

    fn grow_overflow(&mut self, now: u32) {
        let Some(step) = self.index.overflow_needs() else { return };
        let have = self.log.can_spare(&self.budget, step)
            || self.index.spare_overflow() == 0 && self.make_room(now, step);
        if have {
            self.log.give_up(&self.budget, step);
            if self.index.grow_overflow() {
                self.budget.take(Use::Overflow, step);
            }
        } else {
            self.release_wanted = self.release_wanted.max(step);
        }
    }

    /// Sees to it that `bytes` can be taken from the budget with two segments still available. Evicts in cache mode.
    pub(crate) fn make_room(&mut self, now: u32, bytes: usize) -> bool {
        // Readers may hold evicted large values, at most all there are. Where room does not come even when as much more was
        // evicted, evicting yet more would help nobody.
        let held = self.budget.large() as u64;
        let enough = held + 2 * bytes as u64 + 4 * self.log.segment_bytes() as u64;
        let weight = |log: &Log| log.weight(Queue::Small) + log.weight(Queue::Main);
        let start = weight(&self.log);
        loop {
            if self.log.can_spare(&self.budget, bytes) {
                return true;
            }
            let spare = self.log.available(&self.budget) > 2 && self.log.free_segments() > 0;
            if spare && self.log.release_one(&mut self.budget) {
                continue;
            }
            if start - weight(&self.log) > enough || self.clean(now, 1) == 0 {
                return false;
            }
        }
    }

    /// Live bytes the log takes in store mode: one segment for the cleaner, one open, and a 32nd of slack, without which each
    /// byte written would cost more and more bytes moved.
    pub(crate) fn live_limit(&self) -> u64 {
        let usable = self.log.reachable(&self.budget).saturating_sub(2) as u64;
        usable * self.log.segment_bytes() as u64 / 32 * 31
    }
}
