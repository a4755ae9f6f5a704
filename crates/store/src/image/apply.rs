//! Doing what an entry says: first all of it is looked at, then all of it is done.

use super::layout::{PAGE_WORDS, Slot, is_item};
use super::{BadTuple, Image};

/// What an entry's tuples were found to be, kept for its memory.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Pages that get their class in this entry.
    pages: Vec<(usize, u8)>,
    /// Slots that it writes, with the key's hash.
    slots: Vec<(usize, u32)>,
    /// All of these slots once more, to be sorted.
    places: Vec<usize>,
    /// Those of them whose item it deletes.
    deleted: Vec<usize>,
    /// Those of them that it writes an item to.
    hashes: Vec<(u32, usize)>,
    /// Where items of these keys are elsewhere.
    moved: Vec<usize>,
}

impl Image {
    /// Does what an entry says. While the image is only bytes they are laid as they are.
    ///
    /// # Errors
    /// [`BadTuple`] for a tuple outside the image or that makes no item of ours: the log is not this image's. Nothing was applied then.
    pub fn apply<'a>(
        &mut self,
        lsn: u64,
        tuples: impl Iterator<Item = (u64, &'a [u8])> + Clone,
    ) -> Result<(), BadTuple> {
        if self.is_indexed {
            let mut scratch = std::mem::take(&mut self.scratch);
            let checked = self.check_entry(tuples.clone(), &mut scratch);
            if checked.is_ok() {
                self.perform(tuples, &scratch);
            }
            self.scratch = scratch;
            checked?;
        } else {
            for (offset, data) in tuples.clone() {
                self.range(offset, data.len())?;
            }
            tuples.for_each(|(offset, data)| self.lay(offset as usize, data));
        }
        self.applied = self.applied.max(lsn);
        Ok(())
    }

    /// Looks at each tuple, then at what they are together.
    fn check_entry<'a>(
        &self,
        tuples: impl Iterator<Item = (u64, &'a [u8])> + Clone,
        scratch: &mut Scratch,
    ) -> Result<(), BadTuple> {
        scratch.clear();
        let mut new = 0;
        let mut rest = tuples.clone();
        while let Some((offset, data)) = rest.next() {
            let bad = BadTuple { offset };
            let at = self.range(offset, data.len())?;
            let page = at / self.config.page;
            if data.is_empty() {
                return Err(bad);
            }
            if at.is_multiple_of(self.config.page) {
                let is_written = scratch.slots.iter().any(|(slot, _)| slot / self.config.page == page);
                let class = self.check_page(page, data).filter(|_| !is_written).ok_or(bad)?;
                rest = self.check_marks(page, class, rest)?;
                scratch.pages.push((page, class));
                continue;
            }
            let slot = Slot::whole(data).ok_or(bad)?;
            let hash = self.hash(slot.space, slot.key);
            let has_item = self.check_slot(at, &slot, data.len(), scratch).ok_or(bad)?;
            scratch.slots.push((at, hash));
            scratch.places.push(at);
            if !slot.is_item {
                scratch.deleted.push(at);
                continue;
            }
            scratch.hashes.push((hash, at));
            if !has_item {
                match self.find(hash, slot.space, slot.key) {
                    Some((_, there)) => scratch.moved.push(there),
                    None => new += 1,
                }
            }
        }
        if new > self.table.room() {
            return Err(BadTuple { offset: scratch.hashes[0].1 as u64 });
        }
        self.check_once(tuples, scratch)
    }

    /// A slot begins there, and only what has this key, or nothing, is written over; only what is there is deleted. Whether it has this key's item now.
    fn check_slot(&self, at: usize, slot: &Slot<'_>, len: usize, scratch: &Scratch) -> Option<bool> {
        let page = at / self.config.page;
        let given = scratch.pages.iter().find(|(given, _)| *given == page).map(|(_, class)| *class);
        let class = given.or_else(|| self.class_of(page))?;
        self.classes.slot(at, class).filter(|_| len <= self.classes.size(class))?;
        let before =
            Slot::parse(&self.memory.bytes()[at..]).filter(|before| given.is_none() && before.is_item);
        match before {
            Some(before) => ((before.space, before.key) == (slot.space, slot.key)).then_some(true),
            None => slot.is_item.then_some(false),
        }
    }

    /// A page gets a class only while it has no item, and once in an entry.
    fn check_page(&self, page: usize, data: &[u8]) -> Option<u8> {
        let class = self.classes.class_in(data).filter(|_| data.len() == PAGE_WORDS)?;
        (self.items[page] == 0).then_some(class)
    }

    /// After the header of a page comes a zero for each slot of it whose mark is none now, in order, and nothing else of one byte.
    fn check_marks<'a, T: Iterator<Item = (u64, &'a [u8])> + Clone>(
        &self,
        page: usize,
        class: u8,
        mut rest: T,
    ) -> Result<T, BadTuple> {
        let bytes = self.memory.bytes();
        for slot in 0..self.classes.slots(class) {
            let at = self.classes.offset(page, class, slot);
            if bytes[at] != 0 {
                let mark = rest.next();
                if mark != Some((at as u64, &[0][..])) {
                    return Err(BadTuple { offset: at as u64 });
                }
            }
        }
        Ok(rest)
    }

    /// No page and no slot comes twice, and each key has one item after it.
    fn check_once<'a>(
        &self,
        tuples: impl Iterator<Item = (u64, &'a [u8])> + Clone,
        scratch: &mut Scratch,
    ) -> Result<(), BadTuple> {
        let Scratch { pages, slots, places, deleted, hashes, moved } = scratch;
        let bad = |at: usize| BadTuple { offset: at as u64 };
        if slots.len() + pages.len() > 1 {
            pages.sort_unstable();
            places.sort_unstable();
            deleted.sort_unstable();
            hashes.sort_unstable();
            let key_at = |at: usize| {
                let slots = tuples.clone().filter(|(offset, _)| *offset == at as u64);
                slots.filter_map(|(_, data)| Slot::whole(data)).last().map(|slot| (slot.space, slot.key))
            };
            if let Some(pair) = pages.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(bad(pair[0].0 * self.config.page));
            }
            if let Some(pair) = places.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(bad(pair[0]));
            }
            let is_twice =
                |pair: &&[(u32, usize)]| pair[0].0 == pair[1].0 && key_at(pair[0].1) == key_at(pair[1].1);
            if let Some(pair) = hashes.windows(2).find(is_twice) {
                return Err(bad(pair[1].1));
            }
        }
        let stays = moved.iter().find(|there| deleted.binary_search(there).is_err());
        stays.map_or(Ok(()), |there| Err(bad(*there)))
    }

    /// Does it.
    fn perform<'a>(&mut self, tuples: impl Iterator<Item = (u64, &'a [u8])>, scratch: &Scratch) {
        let mut slots = scratch.slots.iter();
        for (offset, data) in tuples {
            let at = offset as usize;
            let page = at / self.config.page;
            if at.is_multiple_of(self.config.page) {
                self.lay(at, data);
                let class = self.class_of(page);
                if self.rooms.class(page) != class {
                    self.rooms.give(page, class);
                }
                continue;
            }
            // A mark: of one byte, as no slot is.
            let Some(slot) = Slot::whole(data) else {
                self.lay(at, data);
                continue;
            };
            let &(_, hash) = slots.next().expect("check_entry found as many slots");
            self.perform_slot(at, hash, slot, data);
        }
    }

    fn perform_slot(&mut self, at: usize, hash: u32, slot: Slot<'_>, data: &[u8]) {
        let page = at / self.config.page;
        if self.rooms.class(page) != self.class_of(page) {
            self.adopt(page);
        }
        // Where an item is, it has the same key, and only there is one deleted: the check saw to it.
        let had_item = is_item(self.memory.bytes()[at]);
        if !had_item {
            self.items[page] += 1;
            match self.find(hash, slot.space, slot.key) {
                Some((place, _)) => self.table.set(place, at),
                None => self.table.insert(hash, at),
            }
        } else if !slot.is_item {
            self.items[page] -= 1;
            // It may lead elsewhere by now: to where this entry has moved it.
            let found = self.find(hash, slot.space, slot.key).filter(|(_, there)| *there == at);
            found.into_iter().for_each(|(place, _)| self.table.remove(place));
        }
        self.lay(at, data);
        self.let_go(at);
    }

    /// A page is in the rooms what its bytes say.
    pub(super) fn adopt(&mut self, page: usize) {
        let written = self.class_of(page);
        self.rooms.give(page, written);
        let Some(class) = written else { return };
        for slot in 0..self.classes.slots(class) {
            let at = self.classes.offset(page, class, slot);
            let is_free = !is_item(self.memory.bytes()[at]) && !self.rooms.is_held(at);
            self.rooms.set_free(page, slot, is_free);
        }
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.pages.clear();
        self.slots.clear();
        self.places.clear();
        self.deleted.clear();
        self.hashes.clear();
        self.moved.clear();
    }
}
