//! The cleaner: walks one victim segment item by item, drops or copies each, and so makes free segments.
//!
//! One decision function serves eviction, expiry, flush and garbage collection; the reason why the segment was chosen is its
//! only other input.
//! ```text
//!  dead, flushed, expired          drop
//!  reason Compact                  copy; same queue, in store mode main    (lossless)
//!  reason Evict, small, asked for  copy to main, frequency 0
//!  reason Evict, main,  asked for  copy to main, frequency − 1
//!  reason Evict, otherwise         drop; from small remember a ghost
//! ```
//! Victims, in this order: a segment whose items have all expired or been flushed; the one with the most dead bytes, if
//! that is half of it (store mode: if it is a 64th); in cache mode the oldest of small where small holds more than a tenth,
//! else the oldest of main.
//!
//! Bounds: each operation walks a number of bytes in proportion to those it writes. Sparing items while evicting is paid
//! from a credit that dropped bytes earn, three for one: so a victim yields a quarter in the long run, and walking five
//! bytes for each one written keeps up. The credit is capped at what the pace covers before the reserve of free segments is
//! used up; beyond it even items that were asked for go. In store mode the proportion follows from the victim's dead bytes.
//!
//! Source: S3-FIFO (Yang et al., SOSP 2023), moved from objects to segments; Segcache (NSDI 2021) for the lifetime classes.

use crate::Mode;
use crate::index::entry_of;
use crate::item::{DEAD, FREQUENCY, Header, Item};
use crate::log::{Queue, State};
use crate::store::{Loss, Store};

/// Items whose buckets are fetched ahead of the one in hand.
const AHEAD: usize = 8;

/// Why a segment is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Compact,
    Evict(Queue),
}

/// The victim in hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaning {
    segment: usize,
    /// Bytes walked.
    at: usize,
    /// Bytes copied.
    copied: usize,
    reason: Reason,
    /// Bytes to walk for each byte written.
    pub(crate) pace: usize,
}

enum Verdict {
    Drop(Loss),
    Copy(Queue, u8),
}

impl Store {
    /// Walks at least `bytes` of victims, if there is anything to gain. Returns the bytes walked.
    pub(crate) fn clean(&mut self, now: u32, bytes: usize) -> usize {
        let mut walked = 0;
        while walked < bytes {
            if self.cleaning.is_none() && !self.choose_victim(now) {
                break;
            }
            walked += self.clean_some(now, bytes - walked);
        }
        walked
    }

    /// Goes on with the victim in hand, by about `bytes`, and chooses no other: there is memory enough.
    pub(crate) fn finish_victim(&mut self, now: u32, bytes: usize) {
        let mut walked = 0;
        while walked < bytes && self.cleaning.is_some() {
            walked += self.clean_some(now, bytes - walked);
        }
    }

    /// Finishes the victim in hand, or chooses and finishes one. False where there is nothing to gain.
    pub(crate) fn clean_one_segment(&mut self, now: u32) -> bool {
        if self.cleaning.is_none() && !self.choose_victim(now) {
            return false;
        }
        while self.cleaning.is_some() {
            self.clean_some(now, usize::MAX);
        }
        true
    }

    /// Cleans only what has wholly expired or been flushed. Returns the bytes walked.
    pub(crate) fn clean_expired(&mut self, now: u32, bytes: usize) -> usize {
        let mut walked = 0;
        while walked < bytes {
            if self.cleaning.is_none() && !self.choose_expired(now) {
                break;
            }
            walked += self.clean_some(now, bytes - walked);
        }
        walked
    }

    /// Cleans a segment whose items have all expired or been flushed, or the victim in hand. False where there is none, which is
    /// looked for once in each second and epoch: a full store must not look at all segments in every operation.
    pub(crate) fn clean_gone(&mut self, now: u32) -> bool {
        let seen = Some((now, self.epoch));
        if self.cleaning.is_none() && (self.none_gone == seen || !self.choose_expired(now)) {
            self.none_gone = seen;
            return false;
        }
        self.clean_one_segment(now)
    }

    fn choose_expired(&mut self, now: u32) -> bool {
        let epoch = self.epoch;
        let log = &self.log;
        let gone = log.segments.iter().position(|s| {
            matches!(s.state, State::Open | State::Sealed)
                && s.used > 0
                && (s.latest <= now || s.epoch != epoch)
        });
        gone.is_some_and(|segment| self.start(segment, Reason::Compact, 1))
    }

    /// Chooses the next victim. What was looked for in vain is looked for again only when there is more garbage or a second
    /// has passed: a full store must not look at all segments in every operation.
    fn choose_victim(&mut self, now: u32) -> bool {
        let worth = (self.log.segment_bytes() / 64) as u64;
        let seen = (now, self.log.dead / worth, self.epoch);
        if self.config.mode == Mode::Store && self.vain == Some(seen) {
            return false;
        }
        let found = self.choose_expired(now) || self.choose_dead_or_old();
        self.vain = (!found).then_some(seen);
        found
    }

    fn choose_dead_or_old(&mut self) -> bool {
        if self.log.available(&self.budget) == 0 {
            // Only where a limit was lowered; what is free then has to be made by dropping.
            return self.config.mode == Mode::Cache && self.choose_oldest();
        }
        let size = self.log.segment_bytes();
        let log = &self.log;
        let most_dead = (0..log.segments.len())
            .filter(|&s| matches!(log.segments[s].state, State::Open | State::Sealed))
            .max_by_key(|&s| log.segments[s].dead);
        let Some(most_dead) = most_dead else { return false };
        let dead = log.segments[most_dead].dead as usize;
        match self.config.mode {
            Mode::Cache if dead < size / 2 => self.choose_oldest(),
            Mode::Cache => self.start(most_dead, Reason::Compact, 4),
            Mode::Store if dead < size / 64 => false,
            Mode::Store => self.start(most_dead, Reason::Compact, (2 * size).div_ceil(dead)),
        }
    }

    fn choose_oldest(&mut self) -> bool {
        let (small, main) = (self.log.oldest(Queue::Small), self.log.oldest(Queue::Main));
        let (queue, segment) = match (small, main) {
            (Some(small), None) => (Queue::Small, small),
            (Some(small), Some(_)) if self.log.small_is_long() => (Queue::Small, small),
            (_, Some(main)) => (Queue::Main, main),
            (None, None) => return false,
        };
        self.start(segment, Reason::Evict(queue), 5)
    }

    fn start(&mut self, segment: usize, reason: Reason, pace: usize) -> bool {
        self.log.make_victim(segment);
        self.cleaning = Some(Cleaning { segment, at: 0, copied: 0, reason, pace });
        true
    }

    /// Up to [`AHEAD`] items of the victim, and of `bytes`; at least one. Returns the bytes walked.
    pub(crate) fn clean_some(&mut self, now: u32, bytes: usize) -> usize {
        let Some(mut cleaning) = self.cleaning else { return 0 };
        let start = self.log.start_of(cleaning.segment);
        let used = self.log.segments[cleaning.segment].used as usize;
        let mut ahead = [(0usize, 0u64); AHEAD];
        let (mut count, mut end) = (0, cleaning.at);
        while count < AHEAD && end < used && (count == 0 || end - cleaning.at < bytes) {
            let item = self.item_at(start + end);
            if item.state() & DEAD == 0 {
                let hash = self.hash_of(item);
                self.index.stage(hash);
                ahead[count] = (start + end, hash);
                count += 1;
            }
            end += item.footprint();
        }
        for &(offset, hash) in &ahead[..count] {
            self.clean_item(now, &mut cleaning, offset, hash);
        }
        let walked = end - cleaning.at;
        cleaning.at = end;
        self.cleaning = Some(cleaning);
        if end >= used {
            self.cleaning = None;
            self.earn(cleaning);
            self.log.recycle(cleaning.segment);
            self.stats.segments_cleaned += 1;
            while self.release_wanted > 0
                && self.log.free_segments() > 1
                && self.log.release_one(&mut self.budget)
            {
                self.release_wanted = self.release_wanted.saturating_sub(self.log.segment_bytes());
            }
        }
        walked
    }

    /// A victim that is done with earns credit for what it yields.
    fn earn(&mut self, cleaning: Cleaning) {
        if cleaning.reason != Reason::Compact {
            let size = self.log.segment_bytes();
            self.credit =
                (self.credit + 3 * size.saturating_sub(cleaning.copied)).min(4 * self.reserve * size);
        }
    }

    fn clean_item(&mut self, now: u32, cleaning: &mut Cleaning, offset: usize, hash: u64) {
        let item = self.item_at(offset);
        let header = item.load();
        let size = header.footprint();
        match self.decide(now, cleaning, &header) {
            Verdict::Drop(loss) => self.drop_at(offset, hash, loss),
            Verdict::Copy(queue, frequency) => {
                if cleaning.reason != Reason::Compact {
                    self.credit = self.credit.saturating_sub(size);
                }
                cleaning.copied += size;
                let class = self.log.class_of(header.expiry, now);
                match self.log.allot(queue, class, size, 0, &mut self.budget) {
                    Some(to) => self.relocate(item, offset, to, hash, frequency),
                    None if self.config.mode == Mode::Cache => self.drop_at(offset, hash, Loss::Evicted),
                    None => {
                        panic!("the segment kept for the cleaner is gone, a live item has no place to go")
                    }
                }
            }
        }
    }

    fn decide(&self, now: u32, cleaning: &Cleaning, header: &Header) -> Verdict {
        if let Some(loss) = self.gone(now, header) {
            return Verdict::Drop(loss);
        }
        let frequency = header.state & FREQUENCY;
        let spare = self.credit >= header.footprint();
        match cleaning.reason {
            Reason::Compact if self.config.mode == Mode::Store => Verdict::Copy(Queue::Main, frequency),
            Reason::Compact => Verdict::Copy(self.log.segments[cleaning.segment].queue, frequency),
            Reason::Evict(Queue::Small) if frequency > 0 && spare => Verdict::Copy(Queue::Main, 0),
            Reason::Evict(Queue::Main) if frequency > 0 && spare => Verdict::Copy(Queue::Main, frequency - 1),
            Reason::Evict(Queue::Small) => Verdict::Drop(Loss::EvictedOnProbation),
            Reason::Evict(Queue::Main) => Verdict::Drop(Loss::Evicted),
        }
    }

    /// Drops the live item at `offset` from index and log.
    fn drop_at(&mut self, offset: usize, hash: u64, loss: Loss) {
        let slot = self.slot_of(offset, hash);
        self.unlink(hash, slot, loss);
    }

    fn slot_of(&self, offset: usize, hash: u64) -> crate::index::Slot {
        self.index.find(hash, |at| at == offset).expect("a live item has an index entry")
    }

    fn relocate(&mut self, item: Item, from: usize, to: usize, hash: u64, frequency: u8) {
        let size = item.footprint();
        let copy = self.item_at(to);
        // SAFETY: `to` was just allotted with `size` bytes in another segment than the victim's.
        unsafe { std::ptr::copy_nonoverlapping(item.address(), copy.address(), size) };
        copy.set_state(item.state() & !FREQUENCY | frequency);
        #[cfg(test)]
        let planted = self.planted == Some(crate::store::Planted::CleanerForgetsIndex);
        #[cfg(not(test))]
        let planted = false;
        if !planted {
            self.slot_of(from, hash).set(entry_of(hash, to));
        }
        let header = copy.load();
        self.log.born(to, size, header.outside(), header.expiry, header.epoch);
        // The copy owns the large value now; DEAD keeps everybody from the old pointer.
        item.set_state(item.state() | DEAD);
        self.log.died(from, size, header.outside());
        self.stats.bytes_copied += size as u64;
    }
}
