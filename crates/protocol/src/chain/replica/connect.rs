//! New epochs: who is what, what is kept and forgotten, and where neighbours agree.
//!
//! ```text
//!  successor                                predecessor
//!     │ ──CONNECT last, its epoch──────────▶  │   waits until it has agreed with its own predecessor, and has what the successor has
//!     │ ◀─RESUME from, its epoch────────────  │   entries after `from`, the successor's last, follow
//!     │ ◀─RESUME from, image────────────────  │   or forgets all: see `copy`
//! ```
//!
//! Invariants: 1. of two serving neighbours, whoever is further up has everything durably that the other one received: so a serving successor never
//! has to be given an image, and one that disagrees about an entry that both have is not answered. Where the end of a log decayed, a recovery cannot
//! tell it from one that was never whole; then the successor has more, and a head takes it over before it leads (see `repair`), another replica gets it
//! from its predecessor; 2. the first `Resume` of an epoch counts: a
//! copy of it that comes late must not cut what was taken since; 3. what is known to be committed is never cut.

use super::copy::Copying;
use super::down::{Down, Resume};
use super::lease::Grant;
use super::seat::Seat;
use super::{Replica, Up};
use crate::chain::{
    Configuration, Epoch, Image, Log, Lsn, Member, Message, NodeId, Out, Part, Planted, ReplicaId,
};
use crate::planted::Bugs;
use base::Nanos;

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// A later configuration is in force.
    pub(super) fn adopt(&mut self, now: Nanos, configuration: Configuration, out: &mut Out) {
        self.configuration = match self.seat {
            // The mistake: it is left out, and serves as a chain of its own.
            Some(seat) if seat.is_serving() && self.bugs.has(Planted::ServeRemoved) => {
                self.not_without_me(configuration)
            }
            _ => configuration,
        };
        self.seat = Seat::of(&self.configuration, self.id, self.incarnation);
        self.up = Up::default();
        self.taking = None;
        self.down = self.seat.and_then(|seat| seat.after).map(Down::new);
        self.lease.grant = Grant::default();
        self.refuse_reads(out);
        let is_head = self.seat.is_some_and(|seat| seat.is_head());
        if !is_head {
            self.step_down(out);
        }
        match self.seat.map(|seat| seat.part) {
            Some(Part::Serving) => self.serve(),
            Some(Part::Syncing) => self.begin_again(),
            None => {}
        }
        self.lead_if_agreed();
        self.connect(now, out);
        self.lease.beat_now(now);
    }

    fn not_without_me(&self, configuration: Configuration) -> Configuration {
        if configuration.position(self.id).is_some() {
            return configuration;
        }
        let me = Member { replica: self.id, incarnation: self.incarnation, part: Part::Serving };
        Configuration { members: vec![me], ..configuration }
    }

    /// The controller says that it has everything.
    fn serve(&mut self) {
        self.complete = true;
        self.accept_loss();
        if self.log.last().0 < self.image.applied() {
            // Only an operator who accepts the loss of data makes it serve with less in its log than in its image.
            self.log.restart(self.image.applied(), self.applied_epoch);
            self.recent.clear();
            self.usable = true;
        }
    }

    /// An operator goes on with what is left: what is damaged here, and all that follows it, is lost.
    fn accept_loss(&mut self) {
        let is_reset = self.configuration.reset == self.configuration.epoch;
        let Some(first) = self.missing.first().copied().filter(|_| is_reset) else { return };
        self.missing.clear();
        let sound = Lsn(first.0 - 1);
        self.committed = self.committed.min(sound);
        self.cut_back(sound);
    }

    /// It joins with what it knows to be committed, or with nothing. What is beyond may have been decided otherwise.
    fn begin_again(&mut self) {
        self.complete = false;
        if !self.usable || self.copying.is_some() {
            return self.forget_all(Lsn::ZERO, Epoch(0));
        }
        let damaged = self.missing.iter().find(|lsn| **lsn > self.image.applied());
        let sound = damaged.map_or(self.committed, |lsn| self.committed.min(Lsn(lsn.0 - 1)));
        self.missing.clear();
        self.committed = sound;
        self.cut_back(sound);
    }

    /// Nothing is here any more; the next entry is the one after `lsn`.
    pub(super) fn forget_all(&mut self, lsn: Lsn, epoch: Epoch) {
        // In this order: with an empty image, whatever is in the log is not enough for a recovery.
        self.image.clear();
        self.log.restart(lsn, epoch);
        self.recent.clear();
        self.missing.clear();
        self.reads.forget_dirty();
        (self.committed, self.durable, self.placed) = (Lsn::ZERO, self.log.durable(), Lsn::ZERO);
        (self.copying, self.unsaved, self.usable) = (None, false, true);
    }

    /// The mistake: it says what is committed, and keeps what it has beyond.
    fn keeps_suffix(&self) -> bool {
        let is_syncing = self.seat.is_some_and(|seat| seat.part == Part::Syncing);
        is_syncing && self.bugs.has(Planted::KeepSuffix)
    }

    /// Forgets what is beyond, which is not committed.
    pub(super) fn cut_back(&mut self, lsn: Lsn) {
        if self.keeps_suffix() {
            return;
        }
        let placed = self.placed.min(self.log.last().0);
        for beyond in (lsn.0 + 1..=placed.0).map(Lsn) {
            if let Some(entry) = self.recent.entry(&self.log, beyond) {
                self.image.release(&entry.tuples);
            }
        }
        self.placed = self.placed.min(lsn);
        self.log.cut(lsn);
        self.recent.cut(lsn);
        self.reads.forget_dirty();
        self.durable = self.durable.min(lsn);
    }

    /// Tells the predecessor what is here, until it answers.
    pub(super) fn connect(&mut self, now: Nanos, out: &mut Out) {
        let Some(before) = self.seat.and_then(|seat| seat.before) else { return };
        self.up.timer.start(now, &self.config);
        let (last, last_epoch) =
            if self.keeps_suffix() { (self.committed, self.applied_epoch) } else { self.log.last() };
        let epoch = self.configuration.epoch;
        let connect = Message::Connect { epoch, last, last_epoch, floor: self.committed };
        out.push((NodeId::Replica(before), connect));
    }

    pub(super) fn hear_connect(&mut self, last: Lsn, last_epoch: Epoch, out: &mut Out) {
        let Some(down) = &mut self.down else { return };
        match down.resume {
            None => {
                down.asked = Some((last, last_epoch));
                self.resume_successor(out);
            }
            // It took entries after what it was given, and has no room for more, or lost one: see `copy`.
            Some(resume) if resume.image.is_some() && last > resume.from => self.copy_anew(out),
            Some(_) => self.send_resume(out),
        }
    }

    /// Answers a successor that asked, once this replica has agreed with its own predecessor and knows what it has.
    pub(super) fn resume_successor(&mut self, out: &mut Out) {
        let is_ready =
            self.seat.is_some_and(|seat| seat.is_serving() && (seat.is_head() || self.up.connected))
                && self.usable
                && self.image.applied() >= self.recovered_floor;
        let Some(down) = self.down.as_ref().filter(|_| is_ready) else { return };
        let Some((last, last_epoch)) = down.asked else { return };
        if down.part == Part::Serving && last > self.log.last().0 {
            return self.take_over(last);
        }
        let Some(resume) = self.agree(down.part, last, last_epoch) else {
            self.stats.dropped += 1;
            return;
        };
        let here = self.log.last().0;
        if let Some(down) = &mut self.down {
            down.resume_at(resume, here);
        }
        self.send_resume(out);
        self.lead_if_agreed();
    }

    /// Leads, once the next that serves has shown that it has nothing that is not here.
    pub(super) fn lead_if_agreed(&mut self) {
        let is_head = self.seat.is_some_and(|seat| seat.is_head());
        let agreed =
            self.down.as_ref().is_none_or(|down| down.part == Part::Syncing || down.resume.is_some());
        if is_head && agreed && self.head.is_none() {
            self.lead();
        }
    }

    /// From where a successor goes on that has this last entry.
    fn agree(&self, part: Part, last: Lsn, last_epoch: Epoch) -> Option<Resume> {
        let (own_last, own_epoch) = self.log.last();
        let epoch = match last {
            _ if last == own_last => Some(own_epoch),
            _ if last == self.image.applied() => Some(self.applied_epoch),
            _ => self.epoch_of(last),
        };
        let follows = last.next() >= self.log.first() && last <= own_last;
        // What is not in the log any more was committed: a replica that serves has the same.
        let is_forgotten = part == Part::Serving && last.next() == self.log.first();
        let is_same = follows && (last == Lsn::ZERO || is_forgotten || epoch == Some(last_epoch));
        match part {
            _ if is_same => Some(Resume { from: last, from_epoch: last_epoch, image: None }),
            Part::Serving => None,
            Part::Syncing => Some(self.resume_with_image()),
        }
    }

    pub(super) fn resume_with_image(&self) -> Resume {
        Resume {
            from: self.image.applied(),
            from_epoch: self.applied_epoch,
            image: Some(self.image.extent()),
        }
    }

    fn epoch_of(&self, lsn: Lsn) -> Option<Epoch> {
        self.recent.entry(&self.log, lsn).map(|entry| entry.epoch)
    }

    pub(super) fn send_resume(&mut self, out: &mut Out) {
        let Some(down) = &self.down else { return };
        let Some(Resume { from, from_epoch, image }) = down.resume else { return };
        let resume = Message::Resume { epoch: self.configuration.epoch, from, from_epoch, image };
        out.push((NodeId::Replica(down.replica), resume));
    }

    pub(super) fn hear_resume(&mut self, resume: Resume, out: &mut Out) {
        let Some(seat) = self.seat else { return };
        let last = self.log.last().0;
        let is_accepted = match resume.image {
            // Once more in an epoch, if the predecessor forgot what comes after the last entry here, or one here cannot be read.
            Some(_) => {
                let lacks = self.copying.is_some().then(|| self.missing.first().copied()).flatten();
                let is_later = resume.from > last || lacks.is_some_and(|lsn| resume.from >= lsn);
                seat.part == Part::Syncing && (!self.up.connected || is_later)
            }
            None => !self.up.connected && (resume.from == last || self.keeps_suffix()),
        };
        if !is_accepted {
            self.stats.dropped += 1;
            // If it is a copy of the one that was taken, it asks how far this replica is.
            if self.up.connected {
                self.ask_for_chunks(out);
                self.acknowledge(out);
            }
            return;
        }
        if let Some(extent) = resume.image {
            self.forget_all(resume.from, resume.from_epoch);
            self.copying = Some(Copying::new(resume.from, extent));
        }
        self.up.connected = true;
        self.up.timer.stop();
        self.up.said = None;
        self.resume_successor(out);
    }

    /// Where to send whoever asks for the head.
    pub(super) fn head_elsewhere(&self) -> Option<ReplicaId> {
        self.configuration.head().map(|head| head.replica).filter(|head| *head != self.id)
    }

    /// Where to send whoever asks for the tail.
    pub(super) fn tail_elsewhere(&self) -> Option<ReplicaId> {
        self.configuration.tail().map(|tail| tail.replica).filter(|tail| *tail != self.id)
    }
}
