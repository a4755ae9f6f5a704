//! Entries that cannot be read in the own log, though later ones can: others are asked for them.
//!
//! Those that serve in the same configuration have logs that agree, as far as each goes: so the entry that one of them has is the one that was lost
//! here. A life that is no member yet asks as well, if the replica serves there: an earlier life of it did, and this one has its log. And what
//! another one of these never received was not committed: if nobody acts on it here, it can be cut.
//!
//! The last entries before a crash may decay without a trace. A new head whose successor has more takes that over, one entry after the other: what was
//! committed is there, and what was not may be committed as well.
//!
//! What could not be read is tried again as often as others are asked: a medium that failed for a moment may be the last that has it.
//!
//! Bounds: [`ASKED`] entries are asked for at once.

use super::Replica;
use crate::chain::{Entry, Image, Log, Lsn, Member, Message, NodeId, Out, Planted};
use crate::planted::Bugs;
use base::Nanos;

/// Entries that are asked for at once.
const ASKED: usize = 16;

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Whether this replica serves in the configuration, in this life or an earlier one, and its log was not lost since.
    fn has_served(&self) -> bool {
        let is_it = |member: Member| member.replica == self.id && self.born <= member.incarnation;
        self.configuration.serving().any(is_it)
    }

    /// The successor has entries up to here, which are to be had before anything else: of a head. Others get them from their predecessors.
    pub(super) fn take_over(&mut self, last: Lsn) {
        if self.seat.is_some_and(|seat| seat.is_head()) {
            self.taking = Some(last);
        }
    }

    /// Entries that others are to be asked for, most urgent first.
    pub(super) fn wanted(&self) -> impl Iterator<Item = Lsn> {
        let beyond = self.taking.map_or(0, |last| last.0);
        self.missing.iter().copied().chain((self.log.last().0.0 + 1..=beyond).map(Lsn))
    }

    /// Asks for what is missing, when it is time.
    pub(super) fn ask_missing(&mut self, now: Nanos, out: &mut Out) {
        if self.wanted().next().is_none() {
            return self.asking.stop();
        }
        let is_first = self.asking.at() == Nanos::MAX;
        self.asking.start(now, &self.config);
        if !is_first && !self.asking.is_due(now, &self.config) {
            return;
        }
        if !is_first {
            self.read_again(now);
        }
        if self.copying.is_some() {
            return self.ask_for_later_copy(out);
        }
        if !self.has_served() {
            return;
        }
        let epoch = self.configuration.epoch;
        for lsn in self.wanted().take(ASKED) {
            let others = self.configuration.serving().filter(|member| member.replica != self.id);
            let ask = Message::AskEntry { epoch, lsn };
            out.extend(others.map(|member| (NodeId::Replica(member.replica), ask.clone())));
        }
    }

    /// A medium may fail for a moment only, and this may be the last that has the entry.
    fn read_again(&mut self, now: Nanos) {
        let first = self.missing.iter().copied().take(ASKED);
        let readable: Vec<Lsn> = first.filter(|lsn| self.log.read(*lsn).is_some()).collect();
        if readable.is_empty() {
            return;
        }
        for lsn in &readable {
            self.missing.remove(lsn);
        }
        self.repaired(now);
    }

    pub(super) fn hear_ask_entry(&mut self, from: NodeId, lsn: Lsn, out: &mut Out) {
        if !self.has_served() || !self.complete || self.copying.is_some() {
            return;
        }
        let (epoch, last) = (self.configuration.epoch, self.log.last().0);
        // Where the image is damaged the log is still what it was. But it looks like that of a copy that was not ended, which ends earlier.
        if lsn > last && self.usable {
            out.push((from, Message::NoEntry { epoch, lsn, last }));
        } else if let Some(entry) = self.recent.entry(&self.log, lsn) {
            out.push((from, Message::EntryCopy { epoch, entry: entry.into_owned() }));
        }
    }

    pub(super) fn hear_entry_copy(&mut self, now: Nanos, entry: Entry, out: &mut Out) {
        if self.taking.is_some_and(|last| entry.lsn <= last) && entry.lsn > self.log.last().0 {
            return self.take_next(now, entry, out);
        }
        let is_ours = entry.epoch <= self.configuration.epoch && self.has_served();
        if !self.missing.contains(&entry.lsn) || !is_ours {
            self.stats.dropped += 1;
            return;
        }
        self.log.replace(&entry);
        if self.log.read(entry.lsn).is_some() {
            self.stats.repaired += 1;
            self.missing.remove(&entry.lsn);
            self.repaired(now);
        }
    }

    /// Takes over an entry that the successor has.
    fn take_next(&mut self, now: Nanos, entry: Entry, out: &mut Out) {
        self.hear_append(vec![entry], out);
        let last = self.log.last().0;
        if self.taking.is_some_and(|upto| last >= upto) {
            self.taking = None;
            self.resume_successor(out);
        } else {
            self.asking.restart(now, &self.config);
        }
    }

    pub(super) fn hear_no_entry(&mut self, now: Nanos, lsn: Lsn, last: Lsn) {
        let is_cut = self.seat.is_none() && self.missing.contains(&lsn) && self.has_served();
        if !is_cut || last >= lsn || lsn <= self.committed {
            self.stats.dropped += 1;
            return;
        }
        self.missing.split_off(&lsn);
        self.cut_back(Lsn(lsn.0 - 1));
        self.repaired(now);
    }

    /// Whoever waited for it goes on; the rest is for [`Replica::advance`].
    fn repaired(&mut self, now: Nanos) {
        if !self.missing.is_empty() || self.copying.is_some() {
            return;
        }
        self.recover_committed();
        self.lease.beat_now(now);
        self.lead_if_agreed();
    }
}
