//! `Txn.Export`: what a replica has, in pieces, for a backup.
//!
//! Whoever makes a backup asks for one piece of the image after the other, and for the entries since the first of them. It does with them what a
//! replica does that joins: lays the entries over the pieces, up to the moment of the newest. The replica keeps nothing between two calls; who
//! is slow finds out that the log has forgotten what it lacks, and holds nobody up.
//!
//! Invariant: sessions are in an image, and whoever has a session's number may write in it: who has no proof of the chain's key is given nothing.
//!
//! Bounds: a piece of [`PIECE`] bytes and entries of as many, and one more, in an answer; an answer in a turn of the replica's loop, since
//! its thread holds the lease. Calls that wait: [`MOST_WAITING`].

use super::node::Node;
use crate::txn::proto::millrace::{ExportReply, ExportReplyMut, ExportRequestView};
use base::key::{Key, TAG_BYTES, Tag};
use codec::memory::OutOfMemory;
use fabric::status::{Code, Status};
use fabric::stub::Deferred;
use protocol::chain::{Entry, Image as _, Incarnation, Log as _, Lsn, ReplicaId};

/// Bytes of a piece.
pub const PIECE: usize = 256 << 10;
/// Calls that wait for their turn.
const MOST_WAITING: usize = 64;

/// A call of `Export`.
#[derive(Debug)]
pub struct Export {
    proof: Option<Tag>,
    offset: u64,
    after: Option<Lsn>,
    reply: Deferred<ExportReply>,
}

/// What only a holder of the chain's key can say to this life of a replica.
pub fn proof(key: &Key, chain: u32, id: ReplicaId, life: Incarnation) -> Tag {
    let whom = [&chain.to_le_bytes()[..], &id.0.to_le_bytes(), &life.0.to_le_bytes()];
    key.derive("chain/export").tag(&whom)
}

/// The checksum of what an answer carries.
pub fn checksum<'a>(piece: &[u8], payloads: impl Iterator<Item = &'a [u8]>) -> u32 {
    payloads.fold(crc32c::crc32c(piece), crc32c::crc32c_append)
}

impl Export {
    /// What is asked.
    pub fn new(request: ExportRequestView<'_>, reply: Deferred<ExportReply>) -> Export {
        Export {
            proof: <[u8; TAG_BYTES]>::try_from(request.proof()).ok().map(Tag),
            offset: request.offset(),
            after: request.has_after().then(|| Lsn(request.after())),
            reply,
        }
    }

    /// Ends the call without a reply.
    pub fn fail(self, status: Status) {
        self.reply.fail(status);
    }
}

impl Node {
    /// Answers one of those that ask for a piece, and whoever may not; whether there was one.
    pub(super) fn answer_exports(&mut self) -> usize {
        while self.exports.len() > MOST_WAITING {
            let Some(export) = self.exports.pop_back() else { break };
            export.reply.fail(Status::new(Code::ResourceExhausted, "too many backups at once: try again"));
        }
        let Some(export) = self.exports.pop_front() else { return 0 };
        match self.refusal(&export) {
            Some(status) => export.reply.fail(status),
            None => export.reply.reply(|reply| self.put_piece(export.offset, export.after, reply)),
        }
        1
    }

    fn refusal(&self, export: &Export) -> Option<Status> {
        let place = &self.place;
        if export.proof != Some(proof(&place.key, place.chain, place.id, place.incarnation)) {
            let why = "a backup is for holders of the chain's key: name it with --key, the same file as the replicas have";
            return Some(Status::new(Code::PermissionDenied, why));
        }
        let view = self.replica.view();
        let is_whole = view.whole && !view.unsaved && self.replica.image().is_indexed();
        (!is_whole).then(|| {
            let why = "this replica is being brought up to date: ask another one, or later";
            Status::new(Code::Unavailable, why)
        })
    }

    fn put_piece(
        &self,
        offset: u64,
        after: Option<Lsn>,
        to: &mut ExportReplyMut<'_, '_>,
    ) -> Result<(), OutOfMemory> {
        let (image, configuration) = (self.replica.image(), self.replica.configuration());
        let (piece, applied) = (image.chunk(offset, PIECE), image.applied());
        to.set_epoch(configuration.epoch.0);
        to.set_reset(configuration.reset.0);
        to.set_applied(applied.0);
        to.set_extent(image.extent());
        to.set_capacity(image.capacity());
        to.set_piece(piece)?;
        let (entries, forgotten) = self.entries(after.unwrap_or(applied), applied);
        to.set_forgotten(forgotten);
        let mut payloads = Vec::with_capacity(entries.len());
        for entry in &entries {
            let mut payload = Vec::with_capacity(entry.payload_bytes());
            entry.emit_payload(&mut payload);
            let mut to = to.push_entries()?;
            to.set_epoch(entry.epoch.0);
            to.set_payload(&payload)?;
            payloads.push(payload);
        }
        to.set_crc(checksum(piece, payloads.iter().map(Vec::as_slice)));
        Ok(())
    }

    /// Some entries after one, none later than `until`; whether the log has forgotten the first of them.
    fn entries(&self, after: Lsn, until: Lsn) -> (Vec<Entry>, bool) {
        let log = self.replica.log();
        if after < until && after.next() < log.first() {
            return (Vec::new(), true);
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for lsn in (after.0.saturating_add(1)..=until.0).map(Lsn) {
            // A damaged one is asked from a neighbour, and is there later.
            let Some(entry) = log.read(lsn) else { break };
            bytes += entry.payload_bytes();
            entries.push(entry);
            if bytes >= PIECE {
                break;
            }
        }
        (entries, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_life_of_one_replica() {
        let (key, other) = (Key::new([1; 16]), Key::new([2; 16]));
        let mine = proof(&key, 1, ReplicaId(2), Incarnation(3));
        assert_eq!(mine, proof(&key, 1, ReplicaId(2), Incarnation(3)));
        let others = [
            proof(&other, 1, ReplicaId(2), Incarnation(3)),
            proof(&key, 2, ReplicaId(2), Incarnation(3)),
            proof(&key, 1, ReplicaId(3), Incarnation(3)),
            proof(&key, 1, ReplicaId(2), Incarnation(4)),
        ];
        assert!(others.iter().all(|tag| *tag != mine));
    }

    #[test]
    fn a_changed_byte_changes_the_checksum() {
        let sum = |piece: &[u8], payloads: [&[u8]; 2]| checksum(piece, payloads.into_iter());
        let right = sum(b"piece", [b"one", b"two"]);
        assert_ne!(right, sum(b"piecf", [b"one", b"two"]));
        assert_ne!(right, sum(b"piece", [b"one", b"twp"]));
    }
}
