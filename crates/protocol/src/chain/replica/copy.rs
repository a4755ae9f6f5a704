//! A replica that joins: its image is copied while the chain goes on.
//!
//! ```text
//!  predecessor: chunks of the image as it is, each with the moment it is of    entries from `from` on
//!                    │                                                              │
//!  successor:        └──▶ bytes, in the order of offsets                            └──▶ log
//!                              └────── all there: entries `from`..newest moment are laid over them ──▶ an image of one moment
//! ```
//!
//! Entries say bytes, so laying them over a chunk that has them already changes nothing. When the driver has made the image durable, the successor
//! acknowledges what is in its log; when that is everything which was ever committed, the predecessor says that it has joined.
//!
//! Invariants: 1. while it copies, and until the image is durable, a replica acknowledges nothing; 2. nothing is committed without a successor that
//! is waited for; 3. one that is said to have joined has all that was ever committed in its durable log or image.
//!
//! The log of a replica that copies keeps every entry since the copy began, so it can become too full for those that the newest chunk needs. Then
//! (`Connect` says how far it came) it is copied again from a later moment, with an empty log. So it is if one of them cannot be read any more: it is
//! no member of anything yet, so nobody else is asked.
//!
//! Bounds: `chunks` of `chunk_bytes` are on their way.

use super::Replica;
use super::backoff::Backoff;
use super::down::{Down, Joining};
use crate::chain::{Image, Log, Lsn, Message, NodeId, Out, Part, Planted};
use crate::planted::Bugs;
use base::Nanos;

/// The predecessor's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    sent: u64,
    acknowledged: u64,
    /// The last chunk that was sent is the last of all, and ends here.
    end: Option<u64>,
    /// Where it went back to last.
    back_at: Option<u64>,
    timer: Backoff,
}

/// The successor's part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copying {
    /// No chunk is older.
    from: Lsn,
    /// Every byte below is here.
    below: u64,
    /// The moment that the newest chunk is of.
    newest: Lsn,
    /// Bytes that there are, as was said last.
    extent: u64,
    /// All are here.
    is_whole: bool,
}

impl Copying {
    pub(super) fn new(from: Lsn, extent: u64) -> Copying {
        Copying { from, below: 0, newest: from, extent, is_whole: extent == 0 }
    }

    /// Bytes that are here, and that there are.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.below.min(self.extent), self.extent)
    }
}

impl Sending {
    fn go_back(&mut self) {
        self.sent = self.acknowledged;
        self.end = None;
        self.back_at = Some(self.acknowledged);
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.timer.at()
    }
}

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Sends chunks, as many as may be on their way.
    pub(super) fn send_chunks(&mut self, now: Nanos, out: &mut Out) {
        let Some(down) = &mut self.down else { return };
        let Some(copy) = &mut down.copy else { return };
        if copy.timer.is_due(now, &self.config) {
            copy.go_back();
        }
        let (extent, after) = (self.image.extent(), self.image.applied());
        let room = (self.config.chunk_bytes as u64).saturating_mul(self.config.chunks as u64);
        while copy.end.is_none() && copy.sent - copy.acknowledged < room && copy.sent < extent {
            let bytes = self.image.chunk(copy.sent, self.config.chunk_bytes).to_vec();
            if bytes.is_empty() {
                break;
            }
            let epoch = self.configuration.epoch;
            let offset = copy.sent;
            copy.sent += bytes.len() as u64;
            copy.end = (copy.sent == extent).then_some(extent);
            copy.timer.start(now, &self.config);
            let chunk = Message::Chunk { epoch, offset, extent, after, bytes };
            out.push((NodeId::Replica(down.replica), chunk));
        }
        if copy.acknowledged >= copy.end.unwrap_or(extent) {
            down.copy = None;
        }
    }

    pub(super) fn hear_chunk_ack(&mut self, now: Nanos, below: u64, again: bool) {
        let Some(down) = &mut self.down else { return };
        let is_copied = down.resume.is_some_and(|resume| resume.image.is_some());
        if again && is_copied && down.copy.is_none() && !down.is_waited_for() {
            // What was taken for its last word was about something else.
            down.copy = Some(Sending { acknowledged: below, sent: below, ..Sending::default() });
        }
        let Some(copy) = &mut down.copy else { return };
        if below > copy.acknowledged {
            copy.acknowledged = below;
            copy.sent = copy.sent.max(below);
            copy.timer.restart(now, &self.config);
        }
        if again && copy.back_at != Some(below) {
            copy.acknowledged = below;
            copy.go_back();
        }
    }

    pub(super) fn hear_chunk(&mut self, offset: u64, extent: u64, after: Lsn, bytes: &[u8], out: &mut Out) {
        let is_known = self.up.connected && (self.copying.is_some() || after <= self.log.last().0);
        let Some(before) = self.seat.and_then(|seat| seat.before).filter(|_| is_known) else { return };
        let mut again = false;
        let mut below = extent;
        if let Some(copying) = self.copying.as_mut().filter(|copying| !copying.is_whole) {
            let end = offset.saturating_add(bytes.len() as u64);
            again = offset > copying.below;
            let is_next = offset == copying.below && end <= extent && after >= copying.from;
            if is_next && self.image.load(offset, bytes).is_ok() {
                copying.below = end;
                copying.newest = copying.newest.max(after);
                copying.extent = extent;
                copying.is_whole = end == extent;
            }
            below = copying.below;
        }
        let ack = Message::ChunkAck { epoch: self.configuration.epoch, below, again };
        out.push((NodeId::Replica(before), ack));
    }

    /// The predecessor asks how far this replica is: what is missing of the image, it is told.
    pub(super) fn ask_for_chunks(&mut self, out: &mut Out) {
        let Some(before) = self.seat.and_then(|seat| seat.before) else { return };
        if let Some(Copying { below, is_whole: false, .. }) = self.copying {
            let ack = Message::ChunkAck { epoch: self.configuration.epoch, below, again: true };
            out.push((NodeId::Replica(before), ack));
        }
    }

    /// All chunks are here, and the entries that bring them to one moment: the image is one.
    pub(super) fn finish_copy(&mut self) {
        let Some(Copying { from, newest, is_whole: true, .. }) = self.copying else { return };
        // What cannot be read is tried again when it is time to ask.
        if self.log.last().0 < newest || self.broken || !self.missing.is_empty() {
            return;
        }
        let from = if self.bugs.has(Planted::TakeOldChunk) { newest } else { from };
        let mut fits = true;
        self.applied_epoch = self.log.last().1;
        for lsn in (from.0 + 1..=newest.0).map(Lsn) {
            let Some(entry) = self.recent.entry(&self.log, lsn) else {
                self.missing.insert(lsn);
                return;
            };
            fits &= entry.tuples.iter().all(|tuple| self.image.load(tuple.offset, &tuple.data).is_ok());
            self.applied_epoch = entry.epoch;
        }
        if !fits || self.image.index(newest).is_err() {
            self.broken = true;
            return;
        }
        self.stats.copied += 1;
        self.committed = self.committed.max(newest);
        (self.copying, self.unsaved) = (None, true);
    }

    /// Looks how far a syncing successor is.
    pub(super) fn join(&mut self, now: Nanos, out: &mut Out) {
        self.begin_copy_anew(out);
        let (last, committed) = (self.log.last().0, self.committed);
        let Some(down) = &mut self.down else { return };
        if down.part != Part::Syncing || down.resume.is_none() || down.copy.is_some() {
            return;
        }
        if self.bugs.has(Planted::JoinTooSoon) && down.joining != Joining::Joined {
            down.joining = Joining::Joined;
            self.lease.beat_now(now);
            return;
        }
        match down.joining {
            Joining::Behind(mark) if down.copies > 0 && down.committed >= mark => {
                let is_near = last.0 - down.committed.0.min(last.0) <= self.config.window as u64;
                down.joining = if is_near { Joining::WaitedFor(committed) } else { Joining::Behind(last) };
            }
            Joining::WaitedFor(committed) if down.committed >= committed => {
                down.joining = Joining::Joined;
                self.lease.beat_now(now);
            }
            Joining::Behind(_) | Joining::WaitedFor(_) | Joining::Joined => {}
        }
    }

    /// What a syncing successor needs next was forgotten, or cannot be read any more: it needs the image.
    fn begin_copy_anew(&mut self, out: &mut Out) {
        let Some(down) = &mut self.down else { return };
        let next = down.sent.next();
        if down.resume.is_some()
            && down.part == Part::Syncing
            && self.image.applied() > down.received
            && next <= self.image.applied()
            && self.recent.entry(&self.log, next).is_none()
        {
            self.give_image(out);
        }
    }

    /// A successor that copies says that its log is full, and does not reach the moment of the newest chunk, or that an entry in it cannot be read.
    /// It may have said so long ago: one whose image is durable, as its acknowledgements say, is left alone.
    pub(super) fn copy_anew(&mut self, out: &mut Out) {
        let copies = |down: &Down| down.part == Part::Syncing && down.committed == Lsn::ZERO;
        if self.down.as_ref().is_some_and(|down| copies(down) && !down.is_waited_for()) {
            self.give_image(out);
        }
    }

    /// The successor forgets what it has, and is given the image as it is now.
    fn give_image(&mut self, out: &mut Out) {
        let (resume, last) = (self.resume_with_image(), self.log.last().0);
        if let Some(down) = &mut self.down {
            down.resume_at(resume, last);
        }
        self.send_resume(out);
    }

    /// The log is full. It is emptied by a checkpoint of the image that is being copied; where that needs entries for which there is no room,
    /// or that cannot be read, it must be copied once more, from a later moment.
    pub(super) fn ask_for_later_copy(&mut self, out: &mut Out) {
        let (last, last_epoch) = self.log.last();
        let is_stuck = self
            .copying
            .as_ref()
            .is_some_and(|copying| copying.is_whole && (copying.newest > last || !self.missing.is_empty()));
        if let Some(before) = self.seat.and_then(|seat| seat.before).filter(|_| is_stuck) {
            let (epoch, floor) = (self.configuration.epoch, self.committed);
            out.push((NodeId::Replica(before), Message::Connect { epoch, last, last_epoch, floor }));
        }
    }

    /// The driver has made the image durable, as it was when [`super::View::unsaved`] was set or later. [`Replica::tick`] goes on with it.
    pub fn checkpointed(&mut self) {
        self.unsaved = false;
    }
}
