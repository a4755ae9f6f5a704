//! Where a replica keeps its items: a range of bytes that only [`Image::apply`] and [`Image::load`] change, the same on every replica after
//! the same entry.
//!
//! The head decides where things go ([`Image::place`]); everything else follows the offsets in the entries. An image finds its items again
//! by looking at its bytes ([`Image::index`]), so bytes are all that is copied and checked.

pub mod plain;

use super::{Lsn, Tuple};

/// What kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// A user's.
    User,
    /// A session: when it was used last.
    Session,
    /// A place of a session: the number and reply that were last in it.
    Reply,
}

impl Space {
    /// All of them.
    pub const ALL: [Space; 3] = [Space::User, Space::Session, Space::Reply];

    /// As images write it.
    pub const fn code(self) -> u8 {
        match self {
            Space::User => 0,
            Space::Session => 1,
            Space::Reply => 2,
        }
    }
}

/// A key and its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub space: Space,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An item in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The LSN of the transaction that wrote it.
    pub version: Lsn,
    /// Its value.
    pub value: &'a [u8],
}

/// There is no room for what is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A range of bytes with items in it.
pub trait Image {
    /// The item of a key, as of the last entry that was applied.
    fn read(&self, key: &Key) -> Option<Item<'_>>;

    /// Decides where the writes of transaction `lsn` go (`None` deletes) and appends the tuples that say so. What it decides on is taken
    /// from then on, but nothing can be read before [`Image::apply`]. On [`NoRoom`] nothing is taken and nothing appended.
    ///
    /// # Errors
    /// [`NoRoom`].
    fn place(
        &mut self,
        lsn: Lsn,
        writes: &[(&Key, Option<&[u8]>)],
        tuples: &mut Vec<Tuple>,
    ) -> Result<(), NoRoom>;

    /// Hands each item of a space to `each`, in the order of their offsets.
    fn items(&self, space: Space, each: &mut dyn FnMut(&[u8], Item<'_>));

    /// Another replica decided on these: they are taken. For a new head, of entries that are logged and not applied, in order.
    fn reserve(&mut self, tuples: &[Tuple]);

    /// What these tuples took is free again: their entry will never be applied. It could not be logged, or was cut off the log.
    fn release(&mut self, tuples: &[Tuple]);

    /// Keys that these tuples write: what a new head must lock for an entry that is not applied.
    fn keys(&self, tuples: &[Tuple]) -> Vec<Key>;

    /// Does what an entry says.
    ///
    /// # Errors
    /// [`BadTuple`] for a tuple outside the image or that makes no item of ours: the log is not this image's. Nothing was applied then.
    fn apply(&mut self, lsn: Lsn, tuples: &[Tuple]) -> Result<(), BadTuple>;

    /// The last entry that was applied.
    fn applied(&self) -> Lsn;

    /// Bytes in use from offset 0: what must be copied. Beyond it everything is zero.
    fn extent(&self) -> u64;

    /// Bytes at an offset, fewer where the extent ends.
    fn chunk(&self, offset: u64, len: usize) -> &[u8];

    /// Makes it empty, as a new one. What a checkpoint has of it is forgotten for good once this returns.
    fn clear(&mut self);

    /// Puts copied bytes at an offset. Nothing can be read until [`Image::index`].
    ///
    /// # Errors
    /// [`BadTuple`] beyond the end.
    fn load(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BadTuple>;

    /// Finds all items in the bytes; everything up to `applied` is in them.
    ///
    /// # Errors
    /// [`BadTuple`] where the bytes make no sense.
    fn index(&mut self, applied: Lsn) -> Result<(), BadTuple>;

    /// A checksum of all bytes up to the extent: the same on two replicas that applied the same entries.
    fn digest(&self) -> u64;
}

/// Bytes that do not belong into this image, at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTuple {
    /// Where they were to go.
    pub offset: u64,
}
