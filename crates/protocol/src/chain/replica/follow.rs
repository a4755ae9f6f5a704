//! Down the chain and back: entries are taken in order, sent on when they are durable, committed by the tail, applied by all.
//!
//! ```text
//!  APPEND ──in order──▶ log ──durable──▶ sent on ──▶ … ──▶ tail: committed ──ACK──▶ applied ──ACK──▶ predecessor
//! ```
//!
//! Invariants: 1. nothing is sent on, acknowledged as committed, or committed at the tail, before it is durable here; 2. nothing is applied that is
//! not committed; 3. a tail commits only after it has agreed with its predecessor in this epoch, by `Resume`: until then its log may have what is
//! to be cut.
//!
//! Bounds: `window` entries and `window_bytes` are on their way to a successor, in messages of [`BATCH_BYTES`] or one entry.

use super::{Down, Replica};
use crate::chain::{Durability, Entry, Image, Log, Lsn, Message, NodeId, Out, Part, Planted};
use crate::planted::Bugs;
use base::Nanos;

/// Bytes of entries in a message, if it has more than one.
const BATCH_BYTES: usize = 1 << 20;
/// Entries in a message.
const BATCH: usize = 512;

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Takes what is next in order.
    pub(super) fn hear_append(&mut self, entries: Vec<Entry>, out: &mut Out) {
        let mut is_new = false;
        for mut entry in entries {
            let (last, last_epoch) = self.log.last();
            if entry.lsn > last.next() && self.bugs.has(Planted::TakeOutOfOrder) {
                entry.lsn = last.next();
            }
            if entry.lsn <= last {
                self.stats.duplicates += 1;
                continue;
            }
            let makes_sense = last_epoch <= entry.epoch && entry.epoch <= self.configuration.epoch;
            if entry.lsn > last.next() || !makes_sense {
                self.stats.dropped += 1;
                break;
            }
            if self.log.append(&entry).is_err() {
                self.stats.full += 1;
                self.ask_for_later_copy(out);
                break;
            }
            if self.copying.is_none() {
                self.committed = self.committed.max(entry.committed.min(entry.lsn));
            }
            self.stats.taken += 1;
            self.recent.push(entry);
            is_new = true;
        }
        if !is_new {
            self.acknowledge(out);
        }
    }

    /// Up to here this replica may speak for what it has.
    fn secured(&self) -> Lsn {
        if self.bugs.has(Planted::AckBeforeLog) { self.log.last().0 } else { self.durable }
    }

    /// Up to where everything is committed, as far as can be seen from here.
    fn commit_point(&self) -> Lsn {
        let Some(seat) = self.seat.filter(|seat| seat.is_serving()) else { return self.committed };
        let secured = self.secured();
        let below = self.down.as_ref().map_or(Lsn::ZERO, |down| down.committed.min(secured));
        if seat.is_tail() {
            let is_waited_for = self.down.as_ref().is_some_and(Down::is_waited_for);
            let agreed = seat.is_head() || self.up.connected;
            return match (agreed, is_waited_for) {
                (false, _) => self.committed,
                (true, true) => below,
                (true, false) => secured,
            };
        }
        if seat.is_head() && self.bugs.has(Planted::ReplyBeforeAck) { secured } else { below }
    }

    /// Goes on with everything that may have become possible.
    pub(super) fn advance(&mut self, now: Nanos, out: &mut Out) {
        self.finish_copy();
        self.join(now, out);
        self.committed = self.committed.max(self.commit_point());
        self.apply(out);
        self.run_ready(out);
        self.answer_reads(out);
        self.forward(now, out);
        self.send_chunks(now, out);
        self.ask_missing(now, out);
        let news = self.up.said != Some((self.durable, self.acknowledged()));
        if news && self.up.connected {
            self.acknowledge(out);
        }
    }

    /// Applies what is committed.
    pub(super) fn apply(&mut self, out: &mut Out) {
        while self.usable && self.copying.is_none() && !self.broken && self.image.applied() < self.committed {
            let lsn = self.image.applied().next();
            let Some(entry) = self.recent.entry(&self.log, lsn) else {
                self.missing.insert(lsn);
                break;
            };
            self.applied_epoch = entry.epoch;
            if self.image.apply(lsn, &entry.tuples).is_err() {
                self.broken = true;
                break;
            }
            self.finish(lsn, out);
        }
        let needless = if self.copying.is_some() { self.log.last().0 } else { self.image.applied() };
        self.recent.trim(needless, self.config.kept, self.config.window_bytes);
    }

    /// Sends the successor what is durable.
    pub(super) fn forward(&mut self, now: Nanos, out: &mut Out) {
        let early = self.bugs.has(Planted::ForwardBeforeLog);
        let upto = if early { self.log.last().0 } else { self.durable };
        let epoch = self.configuration.epoch;
        while let Some(down) = &mut self.down
            && down.resume.is_some()
            && down.sent < upto
            && down.has_room(&self.config)
        {
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for lsn in (down.sent.0 + 1..=upto.0).map(Lsn).take(BATCH) {
                let Some(entry) = self.recent.entry(&self.log, lsn) else {
                    // One that joins can be given the image instead: see `copy`.
                    let is_needed = down.part == Part::Serving || lsn > self.image.applied();
                    self.missing.extend((is_needed && lsn >= self.log.first()).then_some(lsn));
                    break;
                };
                if !entries.is_empty() && bytes + entry.bytes() > BATCH_BYTES {
                    break;
                }
                bytes += entry.bytes();
                entries.push(entry.into_owned());
            }
            let Some(last) = entries.last().map(|entry| entry.lsn) else { break };
            down.send(last, bytes);
            out.push((NodeId::Replica(down.replica), Message::Append { epoch, entries }));
        }
        if let Some(down) = self.down.as_mut().filter(|down| down.is_owing()) {
            down.timer.start(now, &self.config);
        }
    }

    /// What is told the predecessor to be committed: of a syncing replica, what is durable there, once its image is.
    fn acknowledged(&self) -> Lsn {
        match self.seat {
            Some(seat) if seat.is_serving() => self.committed,
            Some(_) if self.copying.is_none() && !self.unsaved => self.secured(),
            _ => Lsn::ZERO,
        }
    }

    /// The weakest medium from here to the tail, and how many those are.
    pub(super) fn backing(&self) -> (Durability, u8) {
        let own = self.log.class();
        match &self.down {
            Some(down) if down.copies > 0 && (!self.is_tail() || down.is_waited_for()) => {
                (own.min(down.durability), down.copies.saturating_add(1))
            }
            _ => (own, 1),
        }
    }

    /// Tells the predecessor what is here.
    pub(super) fn acknowledge(&mut self, out: &mut Out) {
        let Some(before) = self.seat.and_then(|seat| seat.before).filter(|_| self.up.connected) else {
            return;
        };
        let committed = self.acknowledged();
        let (durability, copies) = self.backing();
        self.up.said = Some((self.durable, committed));
        let received = self.log.last().0;
        let ack = Message::Ack { epoch: self.configuration.epoch, received, committed, durability, copies };
        out.push((NodeId::Replica(before), ack));
    }

    pub(super) fn hear_ack(&mut self, now: Nanos, ack: (Lsn, Lsn), durability: Durability, copies: u8) {
        let (received, committed) = ack;
        let last = self.log.last().0;
        let Some(down) = self.down.as_mut().filter(|down| down.resume.is_some()) else { return };
        // Nobody has more copies than there are replicas behind this one.
        let behind = self.seat.map_or(0, |seat| seat.behind);
        if received.max(committed) > last || usize::from(copies) > behind {
            self.stats.dropped += 1;
            return;
        }
        (down.durability, down.copies) = (durability, copies);
        down.is_unaware = down.resume.is_some_and(|resume| received < resume.from);
        let progress = received > down.received || committed > down.committed;
        down.acknowledge(received, committed);
        if !down.is_owing() {
            down.timer.stop();
        } else if progress {
            down.timer.restart(now, &self.config);
        }
    }

    /// Sends again what was not acknowledged; if only the commit is outstanding, the `Resume`, which is answered with an `Ack`. The `Resume` also if
    /// the successor does not know of it: it was given the image anew, in the middle of an epoch.
    pub(super) fn send_again(&mut self, now: Nanos, out: &mut Out) {
        let Some(down) = &mut self.down else { return };
        if !down.timer.is_due(now, &self.config) {
            return;
        }
        self.stats.resent += 1;
        let is_behind = down.received < down.sent;
        let offers = !is_behind || down.is_unaware;
        if is_behind {
            down.go_back();
            self.forward(now, out);
        }
        if offers {
            self.send_resume(out);
        }
    }
}
