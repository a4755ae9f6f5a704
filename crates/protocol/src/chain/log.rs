//! A replica's redo log, as its machine sees it: entries in order, of which some are durable.
//!
//! Making them durable is the driver's work, between two calls of the machine; so is checkpointing, which lets the log forget its oldest.

pub mod memory;

use super::{Durability, Entry, Epoch, Lsn};

/// There is no room: nothing was appended. There is again after a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A redo log.
pub trait Log {
    /// Appends an entry, which is the next after [`Log::last`]. It is durable once [`Log::durable`] says so.
    ///
    /// # Errors
    /// [`Full`].
    fn append(&mut self, entry: &Entry) -> Result<(), Full>;

    /// The last entry, and the epoch it was made in.
    fn last(&self) -> (Lsn, Epoch);

    /// Everything up to here survives what [`Log::class`] says.
    fn durable(&self) -> Lsn;

    /// The oldest entry that can be read; one more than the last if there is none.
    fn first(&self) -> Lsn;

    /// The entry at a place between first and last. `None` where it is damaged: then a neighbour must be asked.
    fn read(&self, lsn: Lsn) -> Option<Entry>;

    /// Puts a neighbour's copy where an entry is damaged; on one that can be read it has no effect.
    fn replace(&mut self, entry: &Entry);

    /// Forgets everything after `lsn`, for good once it returns.
    fn cut(&mut self, lsn: Lsn);

    /// Forgets everything; the next entry is the one after `lsn`. For good once it returns.
    fn restart(&mut self, lsn: Lsn, epoch: Epoch);

    /// What it survives.
    fn class(&self) -> Durability;
}
