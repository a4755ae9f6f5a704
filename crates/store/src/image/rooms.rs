//! Which slots are free: what a head decides by. Everything here can be found again from the image's bytes.
//!
//! A page is *blank* (no entry gave it a size), or has a class of slots. One whose slots are all free may be given to another class when
//! no blank one is left, so that a change in what users write does not fill the image with free slots of the wrong size.
//!
//! Invariants: (1) a slot is free if the bytes have no item there and no entry that is under way writes it (`held` counts those);
//! (2) a page with a free slot is in `with_room` of its class, one with free slots only in `empty`, one without a class in `blank`.
//! (3) Strangers fill space 0: the last pages (`kept`) are not given to it, so that sessions and replies still find room in a full image.
//!
//! Bounds: a bit for each slot of the smallest size, two sets of page numbers; `held` has what is under way.

use super::layout::Classes;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

const NO_CLASS: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Page {
    class: u8,
    /// Free slots.
    free: u16,
}

/// Multiplies: offsets are spread well enough by that, and nobody chooses them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A slot that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) page: usize,
    pub(super) offset: usize,
    /// The page has its class from now on: an entry must say so.
    pub(super) is_new_page: bool,
}

#[derive(Debug)]
pub(super) struct Rooms {
    classes: Classes,
    pages: Vec<Page>,
    /// A bit for each slot: it is free. Each page has `words` of them.
    free: Vec<u64>,
    words: usize,
    with_room: Vec<BTreeSet<u32>>,
    blank: BTreeSet<u32>,
    empty: BTreeSet<u32>,
    /// How many entries under way write the slot at this offset.
    held: HashMap<usize, u32, BuildHasherDefault<Spread>>,
    kept: usize,
}

impl Rooms {
    pub(super) fn new(classes: Classes, pages: usize) -> Rooms {
        let words = classes.most_slots().div_ceil(64);
        Rooms {
            pages: vec![Page { class: NO_CLASS, free: 0 }; pages],
            free: vec![0; pages * words],
            words,
            with_room: vec![BTreeSet::new(); classes.count()],
            blank: (0..pages as u32).collect(),
            empty: BTreeSet::new(),
            held: HashMap::default(),
            kept: pages / 16,
            classes,
        }
    }

    /// Everything blank, and nothing under way.
    pub(super) fn clear(&mut self) {
        *self = Rooms::new(self.classes.clone(), self.pages.len());
    }

    /// The class that a page has for the next entries.
    pub(super) fn class(&self, page: usize) -> Option<u8> {
        Some(self.pages[page].class).filter(|&class| class != NO_CLASS)
    }

    /// The page and number of the slot at an offset.
    pub(super) fn slot(&self, offset: usize) -> Option<(usize, usize)> {
        let page = offset / self.classes.page();
        let class = self.pages.get(page).and_then(|_| self.class(page))?;
        Some((page, self.classes.slot(offset, class)?))
    }

    /// Takes a slot of a class: in the first page that has one, else in a new page, which only `anyone` gets when few are left.
    pub(super) fn take(&mut self, class: u8, is_user: bool) -> Option<Taken> {
        let known = self.with_room[usize::from(class)].first().copied();
        let page = match known {
            Some(page) => page as usize,
            None => {
                let left = self.blank.len() + self.empty.len();
                let page = self.blank.first().or(self.empty.last()).copied();
                let page = page.filter(|_| !is_user || left > self.kept)? as usize;
                self.give(page, Some(class));
                page
            }
        };
        let words = &self.free[page * self.words..][..self.words];
        let word = words.iter().position(|&word| word != 0).expect("a page with room has a free slot");
        let slot = word * 64 + words[word].trailing_zeros() as usize;
        let offset = self.classes.offset(page, class, slot);
        self.hold(offset);
        Some(Taken { page, offset, is_new_page: known.is_none() })
    }

    /// A page has another class from now on, or none, and all its slots are free.
    pub(super) fn give(&mut self, page: usize, class: Option<u8>) {
        self.leave_sets(page);
        let slots = class.map_or(0, |class| self.classes.slots(class));
        for (word, bits) in self.free[page * self.words..][..self.words].iter_mut().enumerate() {
            *bits = match slots.saturating_sub(word * 64) {
                0 => 0,
                left @ 1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
        }
        self.pages[page] = Page { class: class.unwrap_or(NO_CLASS), free: slots as u16 };
        self.enter_sets(page);
    }

    fn leave_sets(&mut self, page: usize) {
        let number = page as u32;
        match self.class(page) {
            None => self.blank.remove(&number),
            Some(class) => {
                self.empty.remove(&number);
                self.with_room[usize::from(class)].remove(&number)
            }
        };
    }

    fn enter_sets(&mut self, page: usize) {
        let number = page as u32;
        let Some(class) = self.class(page) else {
            self.blank.insert(number);
            return;
        };
        let free = usize::from(self.pages[page].free);
        if free > 0 {
            self.with_room[usize::from(class)].insert(number);
        }
        if free == self.classes.slots(class) {
            self.empty.insert(number);
        }
    }

    /// A slot is free, or is not.
    pub(super) fn set_free(&mut self, page: usize, slot: usize, is_free: bool) {
        let (word, bit) = (&mut self.free[page * self.words + slot / 64], 1 << (slot % 64));
        if (*word & bit != 0) == is_free {
            return;
        }
        *word ^= bit;
        let class = self.pages[page].class;
        let slots = self.classes.slots(class) as u16;
        let before = self.pages[page].free;
        let after = if is_free { before + 1 } else { before - 1 };
        self.pages[page].free = after;
        // Only the first and the last free slot change what sets it is in.
        if before == 0 || after == 0 || before == slots || after == slots {
            self.pages[page].free = before;
            self.leave_sets(page);
            self.pages[page].free = after;
            self.enter_sets(page);
        }
    }

    pub(super) fn is_empty(&self, page: usize) -> bool {
        self.empty.contains(&(page as u32))
    }

    /// An entry under way writes the slot at this offset.
    pub(super) fn hold(&mut self, offset: usize) {
        *self.held.entry(offset).or_default() += 1;
        if let Some((page, slot)) = self.slot(offset) {
            self.set_free(page, slot, false);
        }
    }

    /// An entry that writes it is not under way any more. Whether another one is.
    pub(super) fn let_go(&mut self, offset: usize) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let std::collections::hash_map::Entry::Occupied(mut held) = self.held.entry(offset) else {
            return false;
        };
        *held.get_mut() -= 1;
        if *held.get() > 0 {
            return true;
        }
        held.remove();
        false
    }

    pub(super) fn is_held(&self, offset: usize) -> bool {
        self.held.contains_key(&offset)
    }

    /// Slots that entries under way write.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether a slot is free.
    #[cfg(any(test, fuzzing))]
    pub(super) fn is_free(&self, page: usize, slot: usize) -> bool {
        self.free[page * self.words + slot / 64] & 1 << (slot % 64) != 0
    }

    /// Asserts invariant (2).
    #[cfg(any(test, fuzzing))]
    pub(super) fn check(&self) {
        for page in 0..self.pages.len() {
            let number = page as u32;
            let class = self.class(page);
            assert_eq!(self.blank.contains(&number), class.is_none(), "page {page}");
            let slots = class.map_or(0, |class| self.classes.slots(class));
            let free = (0..self.words * 64).filter(|&slot| self.is_free(page, slot)).count();
            assert_eq!(free, usize::from(self.pages[page].free), "page {page}");
            assert_eq!(self.empty.contains(&number), class.is_some() && free == slots, "page {page}");
            for (of, pages) in self.with_room.iter().enumerate() {
                let is_there = class == Some(of as u8) && free > 0;
                assert_eq!(pages.contains(&number), is_there, "page {page}, class {of}");
            }
        }
    }
}
