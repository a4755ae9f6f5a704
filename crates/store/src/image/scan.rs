//! Finding everything by looking at the bytes.

use super::layout::{PAGE_HEADER, Slot, is_item};
use super::{BadTuple, Image, Item, Space};

/// Items between asking for a place in the table and entering there: so many cache misses overlap.
const AHEAD: usize = 16;

impl Image {
    /// Finds all items in the bytes; everything up to `applied` is in them, and nothing later. What was placed or reserved is forgotten.
    ///
    /// # Errors
    /// [`BadTuple`] where the bytes make no sense. The image is only bytes then.
    pub fn index(&mut self, applied: u64) -> Result<(), BadTuple> {
        self.become_bytes();
        let found = self.find_pages().and_then(|()| self.enter_items());
        if let Err(bad) = found {
            self.forget_items();
            return Err(bad);
        }
        self.applied = applied;
        self.is_indexed = true;
        Ok(())
    }

    /// Gives each page the class that its header says. A page without one is zero: else replicas could differ there.
    fn find_pages(&mut self) -> Result<(), BadTuple> {
        let size = self.config.page;
        let mut extent = 0;
        for page in 0..self.extent.div_ceil(size) {
            let bytes = &self.memory.bytes()[page * size..][..size];
            let class = self.classes.class_in(&bytes[..PAGE_HEADER]);
            if class.is_some() {
                extent = (page + 1) * size;
                self.rooms.give(page, class);
            } else if !is_zero(bytes) {
                return Err(BadTuple { offset: (page * size) as u64 });
            }
        }
        self.extent = extent;
        Ok(())
    }

    fn enter_items(&mut self) -> Result<(), BadTuple> {
        let mut ahead = [(0u32, 0usize); AHEAD];
        let mut count = 0;
        for page in 0..self.extent / self.config.page {
            let Some(class) = self.rooms.class(page) else { continue };
            for slot in 0..self.classes.slots(class) {
                let at = self.classes.offset(page, class, slot);
                let bytes = &self.memory.bytes()[at..][..self.classes.size(class)];
                if !is_item(bytes[0]) {
                    continue;
                }
                let item = Slot::parse(bytes).ok_or(BadTuple { offset: at as u64 })?;
                let hash = self.hash(item.space, item.key);
                self.table.prefetch(hash);
                self.items[page] += 1;
                self.rooms.set_free(page, slot, false);
                let (hash, at) = std::mem::replace(&mut ahead[count % AHEAD], (hash, at));
                if count >= AHEAD {
                    self.enter(hash, at)?;
                }
                count += 1;
            }
        }
        (count.saturating_sub(AHEAD)..count).try_for_each(|number| {
            let (hash, at) = ahead[number % AHEAD];
            self.enter(hash, at)
        })
    }

    /// Enters the item at an offset, whose key must not be there already.
    fn enter(&mut self, hash: u32, at: usize) -> Result<(), BadTuple> {
        let bad = BadTuple { offset: at as u64 };
        let item = Slot::parse(&self.memory.bytes()[at..]).ok_or(bad)?;
        if self.table.room() == 0 || self.find(hash, item.space, item.key).is_some() {
            return Err(bad);
        }
        self.table.insert(hash, at);
        Ok(())
    }

    /// Hands each item of a space to `each`, in the order of their offsets.
    pub fn items(&self, space: Space, mut each: impl FnMut(&[u8], Item<'_>)) {
        if !self.is_indexed {
            return;
        }
        for page in (0..self.items.len()).filter(|&page| self.items[page] > 0) {
            let Some(class) = self.class_of(page) else { continue };
            for slot in 0..self.classes.slots(class) {
                let bytes = &self.memory.bytes()[self.classes.offset(page, class, slot)..];
                if let Some(slot) = Slot::parse(bytes).filter(|slot| slot.is_item && slot.space == space) {
                    each(slot.key, Item { version: slot.version, value: slot.value });
                }
            }
        }
    }

    /// Asserts the invariants.
    #[cfg(any(test, fuzzing))]
    pub fn check(&self) {
        assert!(self.is_indexed);
        assert!(is_zero(&self.memory.bytes()[self.extent..]), "bytes beyond the extent");
        self.rooms.check();
        let mut count = 0;
        for page in 0..self.items.len() {
            let written = self.class_of(page);
            let Some(class) = self.rooms.class(page) else {
                assert_eq!((written, self.items[page]), (None, 0), "page {page}");
                continue;
            };
            let mut items = 0;
            for slot in 0..self.classes.slots(class) {
                let at = self.classes.offset(page, class, slot);
                let has_item = written == Some(class) && is_item(self.memory.bytes()[at]);
                let is_free = !has_item && !self.rooms.is_held(at);
                assert_eq!(self.rooms.is_free(page, slot), is_free, "slot {slot} of page {page}");
                items += u16::from(has_item);
                if has_item {
                    let item = Slot::parse(&self.memory.bytes()[at..]).expect("an item");
                    let found = self.find(self.hash(item.space, item.key), item.space, item.key);
                    assert_eq!(found.map(|(_, offset)| offset), Some(at));
                }
            }
            assert_eq!(self.items[page], items, "page {page}");
            count += usize::from(items);
        }
        assert_eq!(self.table.len(), count);
    }
}

/// Whether there is nothing in these bytes.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|line| line.iter().fold(0, |sum, byte| sum | byte) == 0)
}
