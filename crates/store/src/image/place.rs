//! What a head does before an entry is logged: it decides where things go.

use super::layout::{Slot, footprint, is_item};
use super::{Image, NoRoom, Space, Write};

impl Image {
    /// Decides where the writes of entry `lsn` go, and hands the tuples that say so to `emit`, in order. No key comes twice. What it decides on is
    /// taken from then on, but nothing can be read before [`Image::apply`]. On [`NoRoom`] nothing is taken and nothing emitted.
    ///
    /// # Errors
    /// [`NoRoom`]: the image is full, has its most items, is only bytes, or an item is longer than a page.
    pub fn place(
        &mut self,
        lsn: u64,
        writes: &[Write<'_>],
        mut emit: impl FnMut(u64, Vec<u8>),
    ) -> Result<(), NoRoom> {
        let mut tuples = Vec::with_capacity(writes.len() + 1);
        let is_done =
            self.is_indexed && writes.iter().all(|write| self.place_one(lsn, write, &mut tuples).is_some());
        if !is_done {
            self.release(tuples.iter().map(|(offset, data)| (*offset, &data[..])));
            return Err(NoRoom);
        }
        tuples.into_iter().for_each(|(offset, data)| emit(offset, data));
        Ok(())
    }

    fn place_one(&mut self, lsn: u64, write: &Write<'_>, tuples: &mut Vec<(u64, Vec<u8>)>) -> Option<()> {
        let &Write { space, key, value } = write;
        if key.is_empty() || key.len() > usize::from(u8::MAX) || space.0 >= super::layout::SPACES {
            return None;
        }
        let old = self.find(self.hash(space, key), space, key).map(|(_, offset)| offset);
        let deleted = Slot { is_item: false, space, key, version: lsn, value: &[] };
        let Some(value) = value else {
            old.into_iter().for_each(|offset| self.emit(offset, &deleted, tuples));
            return Some(());
        };
        let class = self.classes.of(footprint(key.len(), value.len()))?;
        let item = Slot { is_item: true, value, ..deleted };
        if let Some(offset) = old.filter(|offset| self.class_of(offset / self.config.page) == Some(class)) {
            self.emit(offset, &item, tuples);
            return Some(());
        }
        // Every slot that is held may become an item.
        if old.is_none() && self.table.room() <= self.rooms.held() {
            return None;
        }
        let taken = self.rooms.take(class, space == Space(0))?;
        if taken.is_new_page {
            self.emit_page(taken.page, class, lsn, tuples);
        }
        tuples.push((taken.offset as u64, item.bytes()));
        old.into_iter().for_each(|offset| self.emit(offset, &deleted, tuples));
        Some(())
    }

    /// A tuple that writes a slot which has an item now.
    fn emit(&mut self, offset: usize, slot: &Slot<'_>, tuples: &mut Vec<(u64, Vec<u8>)>) {
        self.rooms.hold(offset);
        tuples.push((offset as u64, slot.bytes()));
    }

    /// Tuples that give a page its class: its header, and zero for each mark that bytes of its last class would be taken for.
    fn emit_page(&mut self, page: usize, class: u8, lsn: u64, tuples: &mut Vec<(u64, Vec<u8>)>) {
        let start = page * self.config.page;
        tuples.push((start as u64, self.classes.header(class, lsn).to_vec()));
        let bytes = self.memory.bytes();
        let marks = (0..self.classes.slots(class)).map(|slot| self.classes.offset(page, class, slot));
        tuples.extend(marks.filter(|&at| bytes[at] != 0).map(|at| (at as u64, vec![0])));
    }

    /// Another replica decided on these: they are taken. For a new head, of entries that are logged and not applied, in order. What that other
    /// replica had applied when it placed them is applied here too: everything that such an entry calls committed.
    pub fn reserve<'a>(&mut self, tuples: impl Iterator<Item = (u64, &'a [u8])>) {
        for (offset, data) in tuples {
            let Ok(at) = self.range(offset, data.len()) else { continue };
            if at.is_multiple_of(self.config.page) {
                let (page, class) = (at / self.config.page, self.classes.class_in(data));
                if class.is_some() && self.rooms.class(page) != class {
                    self.rooms.give(page, class);
                }
            } else if Slot::whole(data).is_some() {
                self.rooms.hold(at);
            }
        }
    }

    /// What these tuples took is free again: their entry will never be applied. It could not be logged, or was cut off the log.
    pub fn release<'a>(&mut self, tuples: impl Iterator<Item = (u64, &'a [u8])>) {
        for (offset, data) in tuples {
            let is_slot = Slot::whole(data).is_some();
            if let (true, Ok(at)) = (is_slot, self.range(offset, data.len())) {
                self.let_go(at);
            }
        }
    }

    /// An entry that writes this slot is not under way any more; if no other is, the slot is what its bytes say.
    pub(super) fn let_go(&mut self, at: usize) {
        if self.rooms.let_go(at) {
            return;
        }
        let Some((page, slot)) = self.rooms.slot(at) else { return };
        let written = self.class_of(page);
        let has_item = self.rooms.class(page) == written && is_item(self.memory.bytes()[at]);
        self.rooms.set_free(page, slot, !has_item);
        // The entry that gave the page this class will never be: it has the one that is written, and was empty then.
        if self.rooms.class(page) != written && self.rooms.is_empty(page) {
            self.adopt(page);
        }
    }

    /// The keys that tuples write, as their bytes say: what a new head must lock for an entry that is not applied.
    pub fn keys<'a>(
        &self,
        tuples: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> impl Iterator<Item = (Space, &'a [u8])> {
        let page = self.config.page as u64;
        let slots = tuples.filter(move |(offset, _)| !offset.is_multiple_of(page));
        slots.filter_map(|(_, data)| Slot::whole(data)).map(|slot| (slot.space, slot.key))
    }
}
