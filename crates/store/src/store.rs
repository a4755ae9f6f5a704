//! The store's own state, and what all operations are made of: look up, make room, write, unlink.
//!
//! Shape of a mutation: `advance` (a due flush), `prepare` (clean in proportion, grow the index), `lookup`, decide, `write` or
//! `unlink`. Only `prepare` and `make_room` move items: whatever was looked up before them is looked up again.
//!
//! Invariants: (1) an item that is not DEAD has exactly one index entry, of its key's hash; (2) memory stays in the budget;
//! (3) versions given by the store rise with every mutation.

use crate::budget::{Budget, Use};
use crate::clean::Cleaning;
use crate::config::{Config, ConfigError, Mode};
use crate::ghost::Ghosts;
use crate::index::{Index, Slot, entry_of, offset_in};
use crate::item::{self, DEAD, FREQUENCY, Header, Item, LARGE};
use crate::key::Key;
use crate::large::LargeValue;
use crate::log::{Log, Queue, State};
use crate::ops::set::SetError;
use crate::stats::Counters;
use crate::warm::ground::{Files, Ground};
use base::hash::Hasher64;
use base::pages::PageKind;
use base::touch::{LINE, prefetch};

/// A key-value store for one thread at a time. See the crate's head comment.
pub struct Store {
    pub(crate) index: Index,
    pub(crate) log: Log,
    /// When the next delayed flush is due; `u32::MAX` is never.
    pub(crate) flush_at: u32,
    /// Items of another epoch were flushed.
    pub(crate) epoch: u16,
    /// The last version given.
    pub(crate) version: u64,
    pub(crate) hasher: Hasher64,
    pub(crate) config: Config,
    pub(crate) budget: Budget,
    pub(crate) ghosts: Option<Ghosts>,
    pub(crate) cleaning: Option<Cleaning>,
    /// Segments below which the cleaner runs.
    pub(crate) reserve: usize,
    /// When and with how much garbage no victim was found; see `choose_victim`.
    pub(crate) vain: Option<(u32, u64, u16)>,
    /// The second and epoch in which no segment was found that had wholly gone.
    pub(crate) none_gone: Option<(u32, u16)>,
    /// Bytes that the cleaner may spare while it evicts.
    pub(crate) credit: usize,
    /// Bytes of free segments to give back, because somebody else needs them.
    pub(crate) release_wanted: usize,
    pub(crate) stats: Counters,
    /// The files that its memory lies in, if it is to be handed over.
    pub(crate) files: Option<Files>,
    #[cfg(test)]
    pub(crate) planted: Option<Planted>,
    /// Keeps so many bits of each hash, so that tests see collisions.
    #[cfg(test)]
    pub(crate) hash_mask: u64,
}

// SAFETY: the pointers inside lead to memory that the store owns alone; large values are behind `Arc` and are Sync.
unsafe impl Send for Store {}

/// Bugs that tests plant, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    CleanerForgetsIndex,
    OverwriteForgetsDead,
    ExpiryIsIgnored,
}

/// How an item came to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Deleted,
    Expired,
    Flushed,
    Evicted,
    EvictedOnProbation,
}

/// The value of an item about to be written; the joined ones stand beside the old item's value.
#[derive(Clone, Copy)]
pub(crate) enum Source<'v> {
    Whole(&'v [u8]),
    Appended(&'v [u8]),
    Prepended(&'v [u8]),
}

/// What a written item carries beside key and value.
#[derive(Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) flags: u32,
    pub(crate) expiry: u32,
    pub(crate) version: u64,
    /// STALE and WIN_SENT, or 0.
    pub(crate) state: u8,
}

/// More than the longest key's stub of a large value, and than what `prepare`'s callers estimate too little.
const STUB_AND_SLACK: usize = 512;

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// [`ConfigError`], whose text says what to change.
    pub fn new(mut config: Config) -> Result<Store, ConfigError> {
        config.memory_ceiling = config.memory_ceiling.max(config.memory);
        config.checked()?;
        Store::empty_on(config, &Ground::Anonymous).map_err(|e| ConfigError::System(e.to_string()))
    }

    /// An empty store whose memory comes from `ground`, with settings that were checked.
    pub(crate) fn empty_on(config: Config, ground: &Ground<'_>) -> std::io::Result<Store> {
        let log = Log::new(config.memory, config.memory_ceiling, config.pages, ground)?;
        let kind = Store::index_pages(&config, &log);
        let mut index = Index::new(config.memory_ceiling / 2, kind, ground)?;
        index.presize(config.expected_items)?;
        Store::of(config, log, index, ground)
    }

    /// Small stores count in 4 KiB pages, so that they neither take nor account for 2 MiB at once.
    pub(crate) fn index_pages(config: &Config, log: &Log) -> PageKind {
        let small = log.segment_bytes() < base::pages::HUGE_PAGE || config.pages == PageKind::Base;
        if small { PageKind::Base } else { PageKind::Transparent }
    }

    /// A store around what `log` and `index` hold.
    pub(crate) fn of(config: Config, log: Log, index: Index, ground: &Ground<'_>) -> std::io::Result<Store> {
        let mut budget = Budget::new(config.memory);
        let kind = Store::index_pages(&config, &log);
        let backed = log.segments.len() - log.unbacked_segments();
        budget.take(Use::Segments, backed * log.segment_bytes());
        budget.take(Use::Index, index.main_bytes());
        budget.take(Use::Overflow, index.overflow_bytes());
        let ghosts = match config.mode {
            Mode::Cache => Some(Ghosts::new(Ghosts::bytes_in(config.memory), kind, ground)?),
            Mode::Store => None,
        };
        budget.take(Use::Ghosts, ghosts.as_ref().map_or(0, Ghosts::bytes));
        let reserve = (config.memory / log.segment_bytes() / 64).clamp(3, 16);
        let credit = 4 * reserve * log.segment_bytes();
        Ok(Store {
            index,
            log,
            flush_at: u32::MAX,
            epoch: 0,
            version: 0,
            hasher: Hasher64::new(config.hash_seed),
            config,
            budget,
            ghosts,
            cleaning: None,
            reserve,
            vain: None,
            none_gone: None,
            credit,
            release_wanted: 0,
            stats: Counters::default(),
            files: None,
            #[cfg(test)]
            planted: None,
            #[cfg(test)]
            hash_mask: u64::MAX,
        })
    }

    /// The hash function that keys for this store are made with.
    pub fn hasher(&self) -> &Hasher64 {
        &self.hasher
    }

    /// The key of `bytes`; `None` where they are not 1 to 250.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Option<Key<'k>> {
        #[cfg(test)]
        if self.hash_mask != u64::MAX {
            return Some(Key::with_hash(bytes, self.hasher.hash(bytes) & self.hash_mask));
        }
        Key::new(bytes, &self.hasher)
    }

    /// The settings it was made with, as they are now.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Prefetches the bucket of `hash`: the first of a lookup's two cache misses.
    #[inline(always)]
    pub fn stage_bucket(&self, hash: u64) {
        self.index.stage(hash);
    }

    /// Looks at the bucket of `hash` and prefetches the first two lines of every item it may mean: the second miss.
    #[inline(always)]
    pub fn stage_item(&self, hash: u64) {
        self.index.candidates(hash, |offset| self.stage_at(offset));
    }

    /// Prefetches the item at `offset` of the heap.
    #[inline(always)]
    pub(crate) fn stage_at(&self, offset: usize) {
        let at = self.log.base().cast_const().wrapping_add(offset);
        prefetch(at);
        prefetch(at.wrapping_add(LINE));
    }

    /// The item at `offset` of the heap, or the place where one is about to be written.
    #[inline(always)]
    pub(crate) fn item_at(&self, offset: usize) -> Item {
        // SAFETY: offsets come from index entries, from walks over `used` bytes and from `allot`, all inside the heap.
        let at = unsafe { self.log.base().add(offset) };
        // SAFETY: as above; handles are dropped where the store may have moved items.
        unsafe { Item::at(at) }
    }

    #[inline(always)]
    pub(crate) fn item_in(&self, slot: Slot) -> Item {
        self.item_at(offset_in(slot.entry()))
    }

    pub(crate) fn hash_of(&self, item: Item) -> u64 {
        // SAFETY: the borrow ends before anything is changed.
        let key = unsafe { item.key() };
        #[cfg(test)]
        return self.hasher.hash(key) & self.hash_mask;
        #[cfg(not(test))]
        self.hasher.hash(key)
    }

    /// Why the item of `header` is no longer there for anybody, if so.
    #[inline(always)]
    pub(crate) fn gone(&self, now: u32, header: &Header) -> Option<Loss> {
        if header.epoch != self.epoch {
            return Some(Loss::Flushed);
        }
        #[cfg(test)]
        if self.planted == Some(Planted::ExpiryIsIgnored) {
            return None;
        }
        // 0 is never: one less wraps to the far future.
        if header.expiry.wrapping_sub(1) < now { Some(Loss::Expired) } else { None }
    }

    /// The entry of `key`, whatever state its item is in.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key<'_>) -> Option<Slot> {
        self.index.find(key.hash(), |offset| {
            // SAFETY: the borrow ends with this comparison.
            same(unsafe { self.item_at(offset).key() }, key.bytes())
        })
    }

    /// The entry of `key` if its item is there at `now`; one that has expired or was flushed is unlinked.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, now: u32, key: Key<'_>) -> Option<Slot> {
        let slot = self.find(key)?;
        let header = self.item_in(slot).load();
        match self.gone(now, &header) {
            None => Some(slot),
            Some(loss) => {
                self.unlink(key.hash(), slot, loss);
                None
            }
        }
    }

    /// Carries out a delayed flush that is due.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: u32) {
        if now >= self.flush_at {
            self.flush_now();
        }
    }

    /// The version for a mutation: `asked` or the next one.
    ///
    /// An `asked` one lifts the store's own counter, so that later ones are higher; only from 2⁶³ on it does not, or one
    /// client could use the numbers up for all.
    pub(crate) fn next_version(&mut self, asked: Option<u64>) -> u64 {
        match asked {
            Some(asked) if asked != 0 => {
                if asked < 1 << 63 {
                    self.version = self.version.max(asked);
                }
                asked
            }
            _ => {
                self.version += 1;
                self.version
            }
        }
    }

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

    /// Whether a value of `len` bytes under a key of `key_len` is kept outside the log.
    pub(crate) fn is_large(&self, key_len: usize, len: usize) -> bool {
        item::footprint(key_len, len) > self.log.inline_limit()
    }

    /// Writes an item under `key` in place of `old`, if any. Nothing moves but that. The caller has called `prepare`, and
    /// `make_room` for a large value.
    pub(crate) fn write(
        &mut self,
        now: u32,
        key: Key<'_>,
        old: Option<Slot>,
        source: Source<'_>,
        fresh: Fresh,
    ) -> Result<Item, SetError> {
        let before = old.map(|slot| self.item_in(slot));
        if let (Some(item), Source::Whole(value)) = (before, source)
            && self.rewrite(now, item, value, fresh)
        {
            return Ok(item);
        }
        // SAFETY: nothing below moves, frees or changes the old item before the value was copied.
        let joined = || before.map_or(&[][..], |item| unsafe { item.value() });
        let (front, back) = match source {
            Source::Whole(value) => (value, &[][..]),
            Source::Appended(value) => (joined(), value),
            Source::Prepended(value) => (value, joined()),
        };
        let len = front.len() + back.len();
        let large = self.is_large(key.bytes().len(), len);
        let size = if large {
            item::stub_footprint(key.bytes().len())
        } else {
            item::footprint(key.bytes().len(), len)
        };
        self.admit(size, before)?;
        let outside = match large {
            true => Some(self.outside(front, back)?),
            false => None,
        };
        let (queue, frequency) = self.place_for(key, before);
        let class = self.log.class_of(fresh.expiry, now);
        let offset = self.log.allot(queue, class, size, 1, &mut self.budget).ok_or(SetError::OutOfMemory)?;
        let header = Header {
            version: fresh.version,
            expiry: fresh.expiry,
            flags: fresh.flags,
            value_len: len as u32,
            access: now,
            key_len: key.bytes().len() as u8,
            state: fresh.state | frequency | if large { LARGE } else { 0 },
            epoch: self.epoch,
        };
        let item = self.item_at(offset);
        item.write(header, key.bytes());
        match outside {
            Some(value) => item.large_put(value),
            None => item.put_value(front, back),
        }
        self.log.born(offset, size, header.outside(), header.expiry, self.epoch);
        match old {
            Some(slot) => {
                self.bury(offset_in(slot.entry()));
                slot.set(entry_of(key.hash(), offset));
            }
            None => self.index.insert(key.hash(), entry_of(key.hash(), offset)),
        }
        Ok(item)
    }

    /// Overwrites in place where the new value takes the same room and lives about as long.
    fn rewrite(&mut self, now: u32, item: Item, value: &[u8], fresh: Fresh) -> bool {
        let header = item.load();
        let key_len = header.key_len as usize;
        if header.state & LARGE != 0
            || item::footprint(key_len, value.len()) != header.footprint()
            || self.is_large(key_len, value.len())
            || self.log.class_of(header.expiry, now) != self.log.class_of(fresh.expiry, now)
        {
            return false;
        }
        let frequency = (header.state & FREQUENCY).saturating_add(1).min(FREQUENCY);
        item.put_value(value, &[]);
        item.set_header(Header {
            version: fresh.version,
            expiry: fresh.expiry,
            flags: fresh.flags,
            value_len: value.len() as u32,
            access: now,
            state: fresh.state | frequency,
            ..header
        });
        self.log.extend(self.offset_of(item), fresh.expiry);
        true
    }

    /// Whether `size` more bytes, in place of `before`, leave the cleaner enough garbage to work with. Caches evict instead.
    fn admit(&self, size: usize, before: Option<Item>) -> Result<(), SetError> {
        if before.is_none() && self.index.spare_overflow() == 0 {
            return Err(SetError::OutOfMemory);
        }
        let freed = before.map_or(0, |item| item.footprint()) as u64;
        let room = self.live_limit();
        if self.config.mode == Mode::Store && self.log.live + size as u64 > room + freed {
            return Err(SetError::OutOfMemory);
        }
        Ok(())
    }

    /// Live bytes the log takes in store mode: one segment for the cleaner, one open, and a 32nd of slack, without which each
    /// byte written would cost more and more bytes moved.
    pub(crate) fn live_limit(&self) -> u64 {
        let usable = self.log.reachable(&self.budget).saturating_sub(2) as u64;
        usable * self.log.segment_bytes() as u64 / 32 * 31
    }

    fn outside(&mut self, front: &[u8], back: &[u8]) -> Result<std::sync::Arc<LargeValue>, SetError> {
        let bytes = LargeValue::footprint(front.len() + back.len());
        if !self.log.can_spare(&self.budget, bytes) {
            return Err(SetError::OutOfMemory);
        }
        self.log.give_up(&self.budget, bytes);
        LargeValue::of(front, back, self.budget.large_counter()).ok_or(SetError::OutOfMemory)
    }

    /// Queue and frequency for what is written under `key`.
    fn place_for(&mut self, key: Key<'_>, before: Option<Item>) -> (Queue, u8) {
        match (&mut self.ghosts, before) {
            (None, _) => (Queue::Small, 0),
            (Some(_), Some(item)) => {
                let frequency = (item.state() & FREQUENCY).saturating_add(1).min(FREQUENCY);
                (self.log.queue_of(self.offset_of(item)), frequency)
            }
            (Some(ghosts), None) => {
                let returns = ghosts.take(key.hash());
                self.stats.ghost_hits += u64::from(returns);
                (if returns { Queue::Main } else { Queue::Small }, 0)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn offset_of(&self, item: Item) -> usize {
        item.address() as usize - self.log.base() as usize
    }

    /// Marks the item at `offset` dead and lets go of what it owns; its index entry is the caller's.
    fn bury(&mut self, offset: usize) {
        #[cfg(test)]
        if self.planted == Some(Planted::OverwriteForgetsDead) {
            return;
        }
        let item = self.item_at(offset);
        let header = item.load();
        if header.state & LARGE != 0 {
            drop(item.large_take());
        }
        item.set_state(header.state | DEAD);
        self.log.died(offset, header.footprint(), header.outside());
    }

    /// Removes the item in `slot`, which is in the chain of `hash`.
    #[inline(never)]
    pub(crate) fn unlink(&mut self, hash: u64, slot: Slot, loss: Loss) {
        self.bury(offset_in(slot.entry()));
        self.index.remove(hash, slot);
        match loss {
            Loss::Deleted => {}
            Loss::Expired => self.stats.expired += 1,
            Loss::Flushed => self.stats.flushed += 1,
            Loss::Evicted => self.stats.evicted += 1,
            Loss::EvictedOnProbation => {
                self.stats.evicted += 1;
                if let Some(ghosts) = &mut self.ghosts {
                    ghosts.remember(hash);
                }
            }
        }
    }

    /// Forgets everything at once and gives the memory of the items back. Time in proportion to what was there.
    pub fn clear(&mut self) {
        self.drop_large_values();
        self.index.clear();
        (self.cleaning, self.vain, self.none_gone) = (None, None, None);
        self.log.clear(&mut self.budget);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.clear();
        }
    }

    fn drop_large_values(&mut self) {
        for segment in 0..self.log.segments.len() {
            let s = self.log.segments[segment];
            if s.large == 0 || matches!(s.state, State::Free | State::Unbacked) {
                continue;
            }
            let (start, mut at) = (self.log.start_of(segment), 0);
            while at < s.used as usize {
                let item = self.item_at(start + at);
                let header = item.load();
                if header.state & (LARGE | DEAD) == LARGE {
                    drop(item.large_take());
                    item.set_state(header.state | DEAD);
                }
                at += header.footprint();
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.drop_large_values();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({:?}, {} items, {:?})", self.config.mode, self.index.entries(), self.budget)
    }
}

/// Whether two keys are equal. Word by word: a call to the C library costs more than most keys' comparison.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if len < 8 {
        return a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0;
    }
    let word = |bytes: &[u8], at: usize| match bytes[at..].first_chunk() {
        Some(word) => u64::from_ne_bytes(*word),
        None => 0,
    };
    let mut at = 0;
    while at + 8 < len {
        if word(a, at) != word(b, at) {
            return false;
        }
        at += 8;
    }
    // The last word overlaps the one before.
    word(a, len - 8) == word(b, len - 8)
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn keys_differ_wherever_they_differ() {
        for len in 1..=40 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same(&a, &a));
            assert!(!same(&a, &a[1..]));
            for at in 0..a.len() {
                let mut b = a.clone();
                b[at] ^= 0x80;
                assert!(!same(&a, &b), "length {len}, byte {at}");
            }
        }
    }
}
