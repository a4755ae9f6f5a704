//! Messages of a chain as bytes. `docs/chain.md` is the same for those who write another end.
//!
//! ```text
//!  0       4       6    7      8       12       16
//!  ├───────┼───────┼────┼──────┼───────┼────────┼───────────
//!  │ crc32c│ magic │ ver│ kind │ chain │ length │ fields
//!  │ of all that follows                │ of the fields
//! ```
//!
//! Little-endian. The table in [`kinds`](self) says once for each kind which fields it has, in which order; writing and reading both follow it,
//! so they are inverse. Each value has one form: what is read and written again is the same bytes.
//!
//! Why the checksum: an entry that was damaged on its way would be written to the logs of all replicas behind. Links may have weaker sums, or none.
//!
//! Bounds: [`MAX_MESSAGE`]; a list has at most 65,535 elements. Reading allocates as it finds elements, never as a count says. Places in the
//! order, epochs and sequence numbers are below [`MAX_NUMBER`], so that adding to one never overflows.
//! Whether a transaction is one ([`super::Transaction::check`]) is for the replica to say, which can answer.
//!
//! Errors: [`ParseError`]; such a message is as good as lost.
//!
//! Files: this one has the envelope and the kinds, `field` how each value is written, `stored` what is kept in logs, images and registries,
//! `trace` what only a message that is traced has.

mod field;
mod stored;
#[cfg(test)]
mod tests;
mod trace;

pub use field::MAX_NUMBER;

use super::{Configuration, Message, Slots};
use field::{Field, Reader, messages};
use std::fmt;

/// Of every message.
pub const MAGIC: [u8; 2] = *b"MC";
/// The version of the format spoken here.
pub const VERSION: u8 = 5;
/// Of the oldest configurations that a registry may have kept: before version 5 a chain had all slots, and a configuration did not say so.
const STORED_SINCE: u8 = 4;
/// Bytes before the fields.
pub const HEADER: usize = 16;
/// Bytes of the longest message: what a frame of the fabric carries.
pub const MAX_MESSAGE: usize = (8 << 20) - (1 << 10);
/// The kind of a configuration that a registry keeps; no message has it.
pub const STORED_CONFIGURATION: u8 = 64;

messages! {
    1 Open { token }
    2 Opened { token, session, window }
    3 Close { session }
    4 Request { id, transaction }
    5 Reply { id, outcome }
    6 Refused { id, why }
    7 Ask { id }
    8 Told { id, status }

    16 Append { epoch, entries }
    17 Ack { epoch, received, committed, durability, copies }
    18 Connect { epoch, last, last_epoch, floor }
    19 Resume { epoch, from, from_epoch, image }
    20 Chunk { epoch, offset, extent, after, bytes }
    21 ChunkAck { epoch, below, again }
    22 AskCommitted { epoch, token }
    23 Committed { epoch, token, lsn }
    24 AskEntry { epoch, lsn }
    25 EntryCopy { epoch, entry }
    26 NoEntry { epoch, lsn, last }
    27 Trace { epoch, lsn, context }

    32 Alive { epoch, incarnation, beat, last, last_epoch, committed, durability, born, whole, joined, missing, stalled_ms }
    33 Lead { configuration, beat, incarnation, settled }
    34 Order { token, order }
    35 Ordered { token, reply, configuration }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Too short, too long, without the magic, or of another length than it says.
    Foreign,
    /// Changed on the way.
    Checksum,
    /// Of another version than [`VERSION`].
    Version(u8),
    /// No kind of message that is known here.
    Kind(u8),
    /// The fields are none of this kind.
    Malformed,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Foreign => f.write_str("not a message of a chain"),
            ParseError::Checksum => f.write_str("the message was changed on its way"),
            ParseError::Version(version) => write!(f, "version {version}, where {VERSION} is spoken"),
            ParseError::Kind(kind) => write!(f, "no message has kind {kind}"),
            ParseError::Malformed => f.write_str("the message contradicts itself"),
        }
    }
}

impl std::error::Error for ParseError {}

/// Appends a message of a chain.
///
/// # Panics
/// If a list has more than 65,535 elements, or a byte string 4 GiB. A transaction that passed its check has not, and whoever makes an
/// `Append` counts its entries.
pub fn emit(chain: u32, message: &Message, out: &mut Vec<u8>) {
    seal(kind_of(message), chain, out, |out| put_fields(message, out));
}

/// Reads a message, and of which chain it is.
///
/// # Errors
/// [`ParseError`].
pub fn parse(bytes: &[u8]) -> Result<(u32, Message), ParseError> {
    let (_, kind, chain, fields) = unseal(bytes, VERSION)?;
    if !KINDS.iter().any(|(code, ..)| *code == kind) {
        return Err(ParseError::Kind(kind));
    }
    let mut reader = Reader::new(fields);
    let message = take_fields(kind, &mut reader).filter(|_| reader.is_empty());
    Ok((chain, message.ok_or(ParseError::Malformed)?))
}

impl Configuration {
    /// As a registry keeps it.
    pub fn to_bytes(&self, chain: u32) -> Vec<u8> {
        let mut out = Vec::new();
        seal(STORED_CONFIGURATION, chain, &mut out, |out| self.put(out));
        out
    }

    /// What a registry kept, and of which chain it is.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<(u32, Configuration), ParseError> {
        let (version, kind, chain, fields) = unseal(bytes, STORED_SINCE)?;
        if kind != STORED_CONFIGURATION {
            return Err(ParseError::Kind(kind));
        }
        let mut fields = fields.to_vec();
        if version < 5 {
            Slots::default().put(&mut fields);
        }
        let mut reader = Reader::new(&fields);
        let configuration = Configuration::take(&mut reader).filter(|_| reader.is_empty());
        Ok((chain, configuration.ok_or(ParseError::Malformed)?))
    }
}

/// Appends an envelope with these fields in it.
fn seal(kind: u8, chain: u32, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&chain.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - start - HEADER).expect("a message is shorter than 4 GiB");
    out[start + 12..][..4].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&out[start + 4..]);
    out[start..][..4].copy_from_slice(&sum.to_le_bytes());
}

/// The version, the kind, the chain and the fields of an envelope of a version from `since` on.
fn unseal(bytes: &[u8], since: u8) -> Result<(u8, u8, u32, &[u8]), ParseError> {
    let (head, fields) = bytes.split_first_chunk::<HEADER>().ok_or(ParseError::Foreign)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if head[4..6] != MAGIC || bytes.len() > MAX_MESSAGE || number(12) as usize != fields.len() {
        return Err(ParseError::Foreign);
    }
    if number(0) != crc32c::crc32c(&bytes[4..]) {
        return Err(ParseError::Checksum);
    }
    if !(since..=VERSION).contains(&head[6]) {
        return Err(ParseError::Version(head[6]));
    }
    Ok((head[6], head[7], number(8), fields))
}
