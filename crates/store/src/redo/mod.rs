//! The redo log: records in order, of which those that were synced survive what their medium survives.
//!
//! ```text
//!  medium   │ superblock │ superblock │ ring of records ──────────────────────────────────────────▶ and round again │
//!            4 KiB, CRC   4 KiB, CRC   header 48 B · payload · zeros to the next 8 bytes, each where the one before ends
//! ```
//! Why a ring over a prewritten medium: making a write durable costs half as much where the file need not grow (212 µs against 409 here),
//! and nothing ever has to be found out about which files belong to the log.
//!
//! A record has a number (LSN, without gaps), an epoch (never falls) and a payload that this module knows nothing of. Its *position* is the
//! number of bytes that were ever before it; where it lies follows from that, and the header says it, so what is left from an earlier turn
//! of the ring is no record. The header also says the *generation*, which grows with every opening and cut: what was written before a cut
//! and lies behind it is no record either. And it says up to where the log was durable when it was written: the proof that a record which
//! cannot be read was once there.
//!
//! Invariants: (1) [`Log::durable`] is never ahead of what the medium was successfully asked to persist; (2) after an error of the medium
//! the log is [`Broken`] and stays so: an error of `fsync` drops what was to be written, so trying again proves nothing; (3) room is used
//! again only when both superblocks on the medium say that it is free; (4) recovery cuts nothing that is proven to have been durable:
//! it says which records are damaged; (5) a cut or restart is durable before any record that is appended after it is written; until then a
//! power cut leaves either what was before or what is after.
//!
//! Bounds: records that are not synced, and 24 bytes per record, are kept in memory; both are bounded by the medium. One process at a time
//! has a log (files are locked).
//!
//! Assumption about media: a write that was not made durable may have reached the medium in any part, but a write does not change bytes that
//! it writes unchanged. (A batch begins in the 64-byte line or sector where the one before ended.)
//!
//! Sources: `docs/design/006-chain.md`; ORCA, section IV-B; Rebello et al., "Can applications recover from fsync failures?" (ATC 2020);
//! Alagappan et al., "Protocol-aware recovery" (FAST 2018), for what proves that a bad record was durable.
//! Cost: `docs/measurements/redo.md`.

#![allow(clippy::single_range_in_vec_init, reason = "what is persisted comes as a list of ranges")]

mod damage;
mod error;
mod log;
pub mod media;
mod open;
mod record;
mod recovery;
mod ring;
mod superblock;
#[cfg(test)]
mod tests;
mod trim;

pub use damage::{ReplaceError, Replaced};
pub use error::{Broken, Doing, OpenError, Refused};
pub use log::{Counters, Log, Record};
pub use media::{Class, Media};
pub use record::HEADER;
pub use recovery::{Judge, Recovery};
pub use ring::MIN_MEDIUM;
