//! What a transaction leaves in the log of every replica: which bytes go where in the image.
//!
//! Replaying is idempotent: an entry says bytes, not what to compute. So entries may be replayed over an image that has some of them
//! already, which is what recovery, checkpoints and catching up rest on.
//!
//! Source: ORCA (redo log of tuples (data, length, offset), section IV-B); LSN, epoch, session and sequence number are ours.

use super::{Epoch, Lsn, SessionId};

/// Bytes and the offset in the image at which they go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Where.
    pub offset: u64,
    /// What.
    pub data: Vec<u8>,
}

/// A transaction as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its place in the order.
    pub lsn: Lsn,
    /// Of the head that gave it that place.
    pub epoch: Epoch,
    /// Everything up to here was committed when the head made this entry: no recovery cuts below it.
    pub committed: Lsn,
    /// Who asked.
    pub session: SessionId,
    /// The number that the session gave it.
    pub sequence: u64,
    /// What it does, the reply that is remembered included. At most 65,535.
    pub tuples: Vec<Tuple>,
}
