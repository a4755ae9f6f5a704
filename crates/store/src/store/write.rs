//! Writes an item under a key: in place where it takes the same room, else beside what was there, which is then buried.
//!
//! Nothing moves here but the old item's index entry; room was made before (`room.rs`), and what does not fit is refused before anything is changed.

use super::Store;
use crate::config::Mode;
use crate::index::{Slot, entry_of, offset_in};
use crate::item::{self, FREQUENCY, Header, Item, LARGE};
use crate::key::Key;
use crate::large::LargeValue;
use crate::log::Queue;
use crate::ops::set::SetError;

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

impl Store {
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
}
