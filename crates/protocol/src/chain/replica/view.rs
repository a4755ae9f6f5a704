//! What can be seen of a replica from outside: its state, and counts.

use crate::chain::{Durability, Epoch, Lsn, Part};
use base::Nanos;

/// The state of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The configuration that it acts by; 0 for none.
    pub epoch: Epoch,
    /// Its part there; `None`: it is no member.
    pub part: Option<Part>,
    /// An operator's order says that it does not belong to the chain.
    pub removed: bool,
    /// It gives transactions their place.
    pub is_head: bool,
    /// It commits.
    pub is_tail: bool,
    /// It has agreed with its predecessor in this epoch; a head has none and needs not.
    pub connected: bool,
    /// Its successor has agreed with it in this epoch.
    pub successor_connected: bool,
    /// Everything up to here is known to be committed.
    pub committed: Lsn,
    /// The image has everything up to here.
    pub applied: Lsn,
    /// The oldest entry in the log.
    pub first: Lsn,
    /// The newest.
    pub last: Lsn,
    /// As of the last tick.
    pub durable: Lsn,
    /// What the log survives.
    pub class: Durability,
    /// The successor has received everything up to here.
    pub successor_received: Lsn,
    /// From here on neighbours still need entries: a log that forgets them earlier makes a syncing successor begin anew.
    pub needed: Lsn,
    /// Transactions that wait at the head.
    pub waiting: usize,
    /// Transactions that are logged at the head and not committed.
    pub under_way: usize,
    /// Reads that wait for the tail's word.
    pub reads_waiting: usize,
    /// Its lease ends here, by its own clock.
    pub lease_until: Nanos,
    /// Nobody reads by an earlier epoch.
    pub settled: bool,
    /// It has everything that it ever acknowledged.
    pub whole: bool,
    /// Entries in its log that cannot be read, for which others are asked.
    pub missing: usize,
    /// The image is being copied from the predecessor: no checkpoint of it may be made.
    pub copying: bool,
    /// How far that is: bytes that are here, and bytes that there are.
    pub copied: (u64, u64),
    /// The image was copied and is in no checkpoint: it must be made durable, then [`super::Replica::checkpointed`] called. Until then the
    /// replica acknowledges nothing.
    pub unsaved: bool,
    /// The successor syncs and has caught up: it is waited for.
    pub successor_joined: bool,
    /// An entry does not fit the image, which cannot be: the replica does nothing any more, and its process should end.
    pub broken: bool,
}

/// Counts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Transactions that were logged here as head.
    pub logged: u64,
    /// Of these, aborted.
    pub aborted: u64,
    /// Of these, since another claim counts than theirs.
    pub claimed: u64,
    /// Transactions that were answered by what was remembered.
    pub remembered: u64,
    /// Copies of requests that wait or are under way already.
    pub repeated: u64,
    /// Requests refused with BUSY.
    pub busy: u64,
    /// Requests sent elsewhere.
    pub elsewhere: u64,
    /// Reads that were answered at once.
    pub reads: u64,
    /// Reads for which the tail was asked.
    pub asked: u64,
    /// Entries that were taken from the predecessor.
    pub taken: u64,
    /// Entries that came before.
    pub duplicates: u64,
    /// Entries that could not be taken as the log is full.
    pub full: u64,
    /// Times that entries were sent again.
    pub resent: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that were forgotten since others were opened.
    pub evicted: u64,
    /// Images that were copied from the predecessor.
    pub copied: u64,
    /// Entries that were repaired.
    pub repaired: u64,
    /// Messages of another epoch.
    pub other_epoch: u64,
    /// Messages that made no sense here.
    pub dropped: u64,
}
