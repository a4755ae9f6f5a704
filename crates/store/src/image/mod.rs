//! Where a replica of a chain keeps its items: a range of bytes that redo tuples (offset, bytes) change, the same on every replica after the
//! same entry. `protocol::chain::Image` says what is asked of it; this is the one that serves.
//!
//! ```text
//!  key ──hash──▶ table ──offset──▶ ┌ page ────────────┬ page ────────────┬ … ┐   one mapping; nothing else is copied, checked or saved
//!               (volatile)         │ slots of 32 B    │ slots of 112 B   │   │
//!  head: place ──▶ rooms (volatile) says which slot ──▶ tuple ──▶ log ──▶ chain ──▶ apply
//! ```
//! Most writes are one tuple: a value of the same class of sizes goes to where the old one is (a key has one transaction under way), a
//! deletion marks its slot. A value of another class goes to another slot, and a second tuple marks the old one. The first item
//! of a page comes with its header. What is volatile is found again by one look at the bytes ([`Image::index`]).
//!
//! From [`Image::load`] on until [`Image::index`] the image is *only bytes*: nothing can be read or placed, and [`Image::apply`] lays bytes
//! without asking what they mean. That is how a log is replayed over a checkpoint, whose pages may be newer than the entry, and how entries
//! follow while an image is copied. It must be indexed where its bytes are the state after `applied`, and nothing later is in them.
//!
//! Invariants: (1) outside an entry that is being applied, a key has one item, and `table` leads to it; (2) all bytes beyond [`Image::extent`]
//! are zero; (3) what `place` gives is free in the bytes, and no other entry under way writes it; asserted by `check` in tests.
//!
//! Bounds: [`Config`]. Errors: tuples from outside that make no sense are [`BadTuple`], and nothing of them is done.

mod apply;
pub mod checkpoint;
mod layout;
mod memory;
mod place;
mod rooms;
mod scan;
mod table;
#[cfg(test)]
mod tests;

use base::hash::Hasher64;
use layout::{Classes, PAGE_HEADER, Slot, UNIT};
use memory::Memory;
use rooms::Rooms;
use std::fmt;
use std::ops::Range;
use table::Table;

/// What kind of key: below 127. Kind 0 is what strangers fill; the last sixteenth of the pages is not given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u8);

/// An item in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The number of the entry that wrote it.
    pub version: u64,
    /// Its value.
    pub value: &'a [u8],
}

/// Something to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key's kind.
    pub space: Space,
    /// The key: 1 to 255 bytes.
    pub key: &'a [u8],
    /// Its value; `None` deletes it.
    pub value: Option<&'a [u8]>,
}

/// There is no room for what is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Bytes that do not belong into this image, at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTuple {
    /// Where they were to go.
    pub offset: u64,
}

impl fmt::Display for BadTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes at offset {} make no item of this image", self.offset)
    }
}

impl std::error::Error for BadTuple {}

/// Bytes in a block: what changes are counted in, and checkpoints write.
pub const BLOCK: usize = 16 << 10;
const MAX_PAGE: usize = 1 << 20;
/// A table's entry has 32 bits for an offset in units.
const MAX_BYTES: u64 = (UNIT as u64) << 32;

/// How large an image is. All replicas of a chain need the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the image; a multiple of `page`, at most 64 GiB.
    pub bytes: u64,
    /// Bytes of a page: a power of two from 16 KiB to 1 MiB. The longest item, with its key and 16 bytes, is 64 bytes shorter.
    pub page: usize,
    /// The most items; 12 bytes are taken for each.
    pub items: usize,
    /// Seed of the index's hash. Draw it at random where strangers choose the keys; replicas need not have the same.
    pub hash_seed: u64,
}

impl Config {
    /// An image of at least so many bytes, with an item for every 96 of them, and pages of 256 KiB; smaller ones if it has fewer than 64 of them.
    pub fn new(bytes: u64) -> Config {
        let usual = usize::try_from(bytes / 64).unwrap_or(usize::MAX).max(BLOCK).ilog2();
        let page = 1 << usual.min((256usize << 10).ilog2());
        let bytes = bytes.max(1).checked_next_multiple_of(page as u64).unwrap_or(u64::MAX);
        Config { bytes, page, items: (bytes / 96) as usize, hash_seed: base::hash::WIRE_SEED }
    }

    /// Whether an image can be made so.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.page.is_power_of_two() || !(BLOCK..=MAX_PAGE).contains(&self.page) {
            return Err(ConfigError::BadPage(self.page));
        }
        if self.bytes == 0 || !self.bytes.is_multiple_of(self.page as u64) || self.bytes > MAX_BYTES {
            return Err(ConfigError::BadLength { asked: self.bytes, page: self.page });
        }
        if self.items == 0 || self.items as u64 > self.bytes / layout::MIN_SLOT as u64 {
            return Err(ConfigError::BadItems { asked: self.items, bytes: self.bytes });
        }
        Ok(())
    }
}

/// Why an image could not be made; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No page has this size.
    BadPage(usize),
    /// No image has this length.
    BadLength {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of a page.
        page: usize,
    },
    /// No item, or more than fit.
    BadItems {
        /// Items asked for.
        asked: usize,
        /// Bytes of the image.
        bytes: u64,
    },
    /// The system gave no address space.
    System(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::BadPage(page) => {
                write!(f, "pages of {page} bytes; give a power of two from {BLOCK} to {MAX_PAGE}")
            }
            ConfigError::BadLength { asked, page } => write!(
                f,
                "an image of {asked} bytes; give a multiple of its page ({page}) of at most {MAX_BYTES}"
            ),
            ConfigError::BadItems { asked, bytes } => write!(
                f,
                "{asked} items in {bytes} bytes; give at least one and at most one for {} bytes",
                layout::MIN_SLOT
            ),
            ConfigError::System(why) => write!(f, "the system gave no address space: {why}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// A range of bytes with items in it.
#[derive(Debug)]
pub struct Image {
    config: Config,
    classes: Classes,
    hasher: Hasher64,
    memory: Memory,
    table: Table,
    rooms: Rooms,
    /// Items in each page.
    items: Vec<u16>,
    /// Blocks that were changed since a checkpoint took note.
    dirty: Bits,
    extent: usize,
    applied: u64,
    /// Its items are known; else it is only bytes.
    is_indexed: bool,
    /// Counts how often it was made empty, or began to be only bytes: a checkpoint does not go on over that.
    life: u64,
    scratch: apply::Scratch,
}

impl Image {
    /// An empty one.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: &Config) -> Result<Image, ConfigError> {
        config.check()?;
        let system = |e: std::io::Error| ConfigError::System(e.to_string());
        let bytes = usize::try_from(config.bytes).map_err(|e| ConfigError::System(e.to_string()))?;
        let (classes, pages) = (Classes::new(config.page), bytes / config.page);
        Ok(Image {
            config: config.clone(),
            hasher: Hasher64::new(config.hash_seed),
            memory: Memory::new(bytes).map_err(system)?,
            table: Table::new(config.items).map_err(system)?,
            rooms: Rooms::new(classes.clone(), pages),
            classes,
            items: vec![0; pages],
            dirty: Bits::new(bytes.div_ceil(BLOCK)),
            extent: 0,
            applied: 0,
            is_indexed: true,
            life: 0,
            scratch: apply::Scratch::default(),
        })
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The item of a key, as of the last entry that was applied.
    #[inline]
    pub fn read(&self, space: Space, key: &[u8]) -> Option<Item<'_>> {
        if !self.is_indexed {
            return None;
        }
        let (_, offset) = self.find(self.hash(space, key), space, key)?;
        Slot::parse(&self.memory.bytes()[offset..])
            .map(|slot| Item { version: slot.version, value: slot.value })
    }

    /// Asks for the memory that [`Image::read`] of this key looks at first.
    #[inline]
    pub fn prefetch(&self, space: Space, key: &[u8]) {
        self.table.prefetch(self.hash(space, key));
    }

    #[inline(always)]
    fn hash(&self, space: Space, key: &[u8]) -> u32 {
        let hash = self.hasher.hash(key) ^ u64::from(space.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as u32
    }

    /// The place in the table and the offset of a key's item.
    #[inline(always)]
    fn find(&self, hash: u32, space: Space, key: &[u8]) -> Option<(usize, usize)> {
        let bytes = self.memory.bytes();
        self.table.find(hash, |offset| {
            Slot::parse(&bytes[offset..]).is_some_and(|slot| slot.key == key && slot.space == space)
        })
    }

    /// The last entry that was applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Items of all kinds.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its items are known; else it is only bytes.
    pub fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// Slots that entries write which were placed or reserved, and neither applied nor released.
    pub fn held(&self) -> usize {
        self.rooms.held()
    }

    /// Bytes in use from offset 0: what must be copied. Beyond it everything is zero.
    pub fn extent(&self) -> u64 {
        self.extent as u64
    }

    /// Bytes at an offset, fewer where the extent ends.
    pub fn chunk(&self, offset: u64, len: usize) -> &[u8] {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.extent);
        &self.memory.bytes()[from..from.saturating_add(len).min(self.extent)]
    }

    /// A checksum of all bytes up to the extent: the same on two replicas that applied the same entries. rapidhash of each block, and of
    /// those hashes in order.
    pub fn digest(&self) -> u64 {
        let hasher = Hasher64::new(base::hash::WIRE_SEED);
        self.memory.bytes()[..self.extent].chunks(BLOCK).fold(0u64, |before, block| {
            let mut pair = [0; 16];
            pair[..8].copy_from_slice(&before.to_le_bytes());
            pair[8..].copy_from_slice(&hasher.hash(block).to_le_bytes());
            hasher.hash(&pair)
        })
    }

    /// Makes it empty, as a new one.
    pub fn clear(&mut self) {
        self.note(0, self.extent);
        self.memory.clear();
        self.forget_items();
        self.extent = 0;
        self.applied = 0;
        self.is_indexed = true;
        self.life += 1;
    }

    /// Puts copied bytes at an offset. From then on the image is only bytes, until [`Image::index`].
    ///
    /// # Errors
    /// [`BadTuple`] beyond the end.
    pub fn load(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BadTuple> {
        let at = self.range(offset, bytes.len())?;
        if self.is_indexed {
            self.become_bytes();
        }
        self.lay(at, bytes);
        Ok(())
    }

    /// From now on it is only bytes.
    fn become_bytes(&mut self) {
        self.forget_items();
        self.is_indexed = false;
        self.life += 1;
    }

    /// What is volatile is as in an empty image.
    fn forget_items(&mut self) {
        self.table.clear();
        self.rooms.clear();
        self.items.fill(0);
    }

    /// Where so many bytes begin, if they are inside.
    fn range(&self, offset: u64, len: usize) -> Result<usize, BadTuple> {
        let at = usize::try_from(offset)
            .ok()
            .filter(|at| at.checked_add(len).is_some_and(|end| end <= self.memory.bytes().len()));
        at.ok_or(BadTuple { offset })
    }

    /// Writes bytes.
    fn lay(&mut self, at: usize, bytes: &[u8]) {
        self.memory.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        self.note(at, bytes.len());
        if at + bytes.len() > self.extent {
            self.extent = (at + bytes.len()).next_multiple_of(self.config.page);
        }
    }

    fn block(&self, block: usize) -> &[u8] {
        self.blocks(block..block + 1)
    }

    fn blocks(&self, blocks: Range<usize>) -> &[u8] {
        &self.memory.bytes()[blocks.start * BLOCK..blocks.end * BLOCK]
    }

    /// These bytes were changed.
    fn note(&mut self, at: usize, len: usize) {
        if len > 0 {
            (at / BLOCK..=(at + len - 1) / BLOCK).for_each(|block| self.dirty.set(block));
        }
    }

    /// The class of a page, as its bytes say.
    fn class_of(&self, page: usize) -> Option<u8> {
        self.classes.class_in(&self.memory.bytes()[page * self.config.page..][..PAGE_HEADER])
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn new(count: usize) -> Bits {
        Bits { words: vec![0; count.div_ceil(64)] }
    }

    #[inline(always)]
    fn set(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// The first number in it that is not smaller.
    fn next(&self, number: usize) -> Option<usize> {
        let mut word = number / 64;
        let mut bits = self.words.get(word)? & u64::MAX << (number % 64);
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// All numbers of another set too.
    fn add(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }
}
