//! The store's own state, and what all operations are made of: look up, unlink; to make room is in `room.rs`, to write in `write.rs`.
//!
//! Shape of a mutation: `advance` (a due flush), `prepare` (clean in proportion, grow the index), `lookup`, decide, `write` or
//! `unlink`. Only `prepare` and `make_room` move items: whatever was looked up before them is looked up again.
//!
//! Invariants: (1) an item that is not DEAD has exactly one index entry, of its key's hash; (2) memory stays in the budget;
//! (3) versions given by the store rise with every mutation.

mod room;
mod write;

pub(crate) use write::{Fresh, Source};

use crate::budget::{Budget, Use};
use crate::clean::Cleaning;
use crate::config::{Config, ConfigError, Mode};
use crate::evictions::EvictionLog;
use crate::ghost::Ghosts;
use crate::index::{Index, Slot, offset_in};
use crate::item::{DEAD, Header, Item, LARGE};
use crate::key::{Key, same};
use crate::log::{Log, State};
use crate::stats::Counters;
use crate::warm::Whose;
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
    /// Items that were evicted, while somebody wants to know.
    pub(crate) noted: Option<Box<EvictionLog>>,
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
    pub(crate) files: Option<(Files, Whose)>,
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
            noted: None,
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
        if self.noted.is_some() && matches!(loss, Loss::Evicted | Loss::EvictedOnProbation) {
            self.note_eviction(offset_in(slot.entry()));
        }
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
