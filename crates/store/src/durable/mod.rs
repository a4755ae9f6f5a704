//! A [`Store`](crate::Store) whose changes survive: a redo log of what commands did, and snapshots, after which the log may forget.
//!
//! ```text
//!  command ─▶ store: executed at once ─▶ effect ─▶ redo log ── durable ──▶ its reply may leave
//!                │                                    │ N % full
//!                └── a walk in small steps ──▶ snapshot ── durable ──▶ the log forgets what is before it
//!  start: newest snapshot ─▶ effects of the log from its position on ─▶ as it was
//! ```
//! | file | what it has |
//! |---|---|
//! | `effect` | what a command did, as bytes |
//! | `journal` | the log, and what is not durable of it: who must wait for what |
//! | `records` | what a journal wants of its log |
//! | `rings` | the log that is the rings in which requests come |
//! | `walk` | a snapshot while commands go on |
//! | `snapshot` | its format |
//! | `recover` | the start |
//!
//! Invariants
//! 1. Whoever is shown a state of an item, or was promised one, has waited until the effect that made it is durable ([`Journal::needs`]).
//! 2. A snapshot becomes the newest only when the log is durable up to where its walk ended: an item that it lacks, because it was deleted meanwhile, is
//!    one whose deletion is durable.
//! 3. The log forgets only what the newest snapshot has, and only after that is durable.
//! 4. An item that is there throughout a walk is visited, however the index grows ([`Store::list`](crate::Store::list)).
//! 5. What is recovered is the store after some effect, not before the last that is promised.
//!
//! Why effects and no commands: doing one twice changes nothing, so a snapshot may be fuzzy, and nothing that depends on the moment (expiry, conditions,
//! leases) is
//! decided anew.
//!
//! Bounds: what is not durable, and 24 bytes for each record, are in memory, bounded by the log; besides, some 50 bytes for each effect that is not.
//!
//! Errors: a log that fails ends everything ([`Journal::broken`]); one that is full refuses ([`Journal::has_room`]) until a snapshot is there; a snapshot
//! that fails is said, and made again later.

mod effect;
mod journal;
mod records;
mod recover;
pub mod rings;
mod snapshot;
#[cfg(test)]
mod tests;
mod walk;

pub use effect::{Effect, State};
pub use journal::{Before, Counters, Journal, What, needs_log};
pub use records::Records;
pub use recover::{Found, RecoverError, recover};
pub use snapshot::{Head, Reader};
pub use walk::Shelf;

/// For the fuzzer: whatever bytes are, they are refused or say the same when written again.
///
/// # Panics
/// When they do not.
#[doc(hidden)]
pub fn probe(bytes: &[u8]) {
    if let Some((effect, rest)) = Effect::parse(bytes) {
        let mut again = Vec::new();
        effect.emit(&mut again);
        assert_eq!(
            again,
            bytes[..bytes.len() - rest.len()],
            "an effect that was read is another when it is written"
        );
    }
    if let Ok(reader) = Reader::new(bytes) {
        let _ = reader.read::<std::io::Error>(|_| Ok(()));
    }
}
