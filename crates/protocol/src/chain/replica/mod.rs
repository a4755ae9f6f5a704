//! A replica: takes transactions as head, logs and applies entries, answers reads.
//!
//! ```text
//!           requests                                   Lead: configuration, lease
//!              │                                              │
//!  ┌───────────▼─────────┐   ┌────────────────────┐   ┌───────▼──────┐   ┌─────────────┐
//!  │ head: locks, runs   ├──▶│ follow: log, send  │◀──┤ connect:     │   │ reads: tail,│
//!  │ answers             │◀──┤ on, commit, apply  │   │ epochs, cuts │   │ clean keys  │
//!  └─────────────────────┘   └─────────▲──────────┘   └───────┬──────┘   └─────────────┘
//!                                      └──── copy: who joins ─┘            repair: damaged entries
//! ```
//!
//! What is durable is the log's to say, and is looked at in [`Replica::tick`] only: between two calls the driver makes durable what was appended,
//! then ticks. What it must do for the image is in [`View::unsaved`] and [`View::copying`].
//!
//! Invariants, for replicas that serve, `i` before `i + 1`, each epoch: applied(i) ≤ committed(i) ≤ durable(i + 1) ≤ received(i + 1) ≤ durable(i);
//! what is committed at one is durable at all; entries that are logged and not applied touch different keys.
//!
//! Bounds: [`Config`]; messages that make no sense are dropped and counted.
//!
//! Files: `head` (with `sessions`, `evaluate`), `follow` (`down`, `recent`), `connect` (`seat`), `copy`, `reads`, `lease`, `repair`, `backoff`, `view`.

mod backoff;
mod connect;
mod copy;
mod down;
mod evaluate;
mod follow;
mod head;
mod lease;
mod reads;
mod recent;
mod repair;
mod seat;
mod sessions;
mod view;

pub use view::{Stats, View};

use super::locks::Locks;
use super::message::{Refusal, RequestId};
use super::transaction::Malformed;
use super::{
    Config, Configuration, Epoch, Gap, Image, Incarnation, Log, Lsn, Message, NodeId, Out, Planted,
    ReplicaId, Transaction,
};
use crate::planted::{Bugs, NoBugs};
use backoff::Backoff;
use base::Nanos;
use base::key::Key;
use copy::Copying;
use down::{Down, Joining, Resume};
use head::Head;
use lease::Lease;
use reads::Reads;
use recent::Recent;
use seat::Seat;
use std::collections::BTreeSet;

/// What the driver found when it opened log and image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The life in which the log was made: this one, if it is new, was lost, or is volatile.
    pub born: Incarnation,
    /// Entries in the log that cannot be read, though later ones can.
    pub missing: Vec<Lsn>,
    /// The image may hold parts of entries up to here: nothing of it means anything before they are applied.
    pub floor: Lsn,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica<I, L, B = NoBugs> {
    config: Config,
    bugs: B,
    id: ReplicaId,
    incarnation: Incarnation,
    controllers: Vec<u16>,
    /// What the numbers of the sessions that it opens come from.
    secret: Key,
    image: I,
    log: L,
    /// The log goes on where the image ends.
    usable: bool,
    /// It has everything that it ever acknowledged, or could have it by repair.
    complete: bool,
    born: Incarnation,
    /// See [`Recovered::floor`].
    recovered_floor: Lsn,
    missing: BTreeSet<Lsn>,
    /// The successor has entries up to here that a new head lacks.
    taking: Option<Lsn>,
    /// When to ask for what is missing.
    asking: Backoff,
    /// As of the last tick.
    durable: Lsn,
    /// Since when nothing more became durable, though there is more in the log.
    stalled_since: Nanos,
    committed: Lsn,
    /// Of the last entry that is applied.
    applied_epoch: Epoch,
    /// The places in the image of entries up to here are taken, or written.
    placed: Lsn,
    recent: Recent,
    configuration: Configuration,
    /// Its place there, if it is a member.
    seat: Option<Seat>,
    up: Up,
    down: Option<Down>,
    head: Option<Head<B>>,
    reads: Reads,
    lease: Lease,
    copying: Option<Copying>,
    unsaved: bool,
    broken: bool,
    stats: Stats,
}

/// What a replica knows of its predecessor, in this epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Up {
    /// They agree: entries are taken.
    connected: bool,
    timer: Backoff,
    /// What is durable and committed here, as it was told last.
    said: Option<(Lsn, Lsn)>,
}

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// A replica that starts, with what it has from its earlier lives. `incarnation` is higher than theirs. Entries that are known to be
    /// committed are applied at once. `secret` is known to this replica alone: the system's random numbers, anew in each life.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a thing of its own, and there is one caller per driver"
    )]
    pub fn new(
        config: &Config,
        id: ReplicaId,
        incarnation: Incarnation,
        controllers: &[u16],
        secret: Key,
        recovered: Recovered,
        now: Nanos,
        image: I,
        log: L,
    ) -> Replica<I, L, B> {
        let (last, applied) = (log.last().0, image.applied());
        let usable = last >= recovered.floor.max(applied) && log.first() <= applied.next();
        let missing = recovered.missing.into_iter().filter(|lsn| *lsn > applied).collect();
        let mut replica = Replica {
            config: config.clone(),
            bugs: B::default(),
            id,
            incarnation,
            controllers: controllers.to_vec(),
            secret,
            usable,
            born: recovered.born,
            complete: true,
            recovered_floor: recovered.floor,
            missing,
            taking: None,
            asking: Backoff::default(),
            durable: log.durable(),
            stalled_since: now,
            committed: if usable { recovered.floor.max(applied) } else { Lsn::ZERO },
            applied_epoch: log.read(applied).map_or(Epoch(0), |entry| entry.epoch),
            placed: applied,
            recent: Recent::default(),
            configuration: Configuration::default(),
            seat: None,
            up: Up::default(),
            down: None,
            head: None,
            reads: Reads::default(),
            lease: Lease::new(now),
            copying: None,
            unsaved: false,
            broken: false,
            stats: Stats::default(),
            image,
            log,
        };
        if last == applied {
            replica.applied_epoch = replica.log.last().1;
        }
        replica.recover_committed();
        replica.apply(&mut Vec::new());
        replica
    }

    /// It makes these mistakes, in tests and simulations.
    #[must_use]
    pub fn with_bugs(self, bugs: B) -> Replica<I, L, B> {
        Replica { bugs, ..self }
    }

    /// Entries say what was committed when they were made; the newest that can be read knows most.
    fn recover_committed(&mut self) {
        if !self.usable {
            return;
        }
        let lsns = (self.log.first().0..=self.log.last().0.0).rev().map(Lsn);
        let known = lsns.filter_map(|lsn| self.log.read(lsn)).map(|entry| entry.committed).next();
        self.committed = self.committed.max(known.unwrap_or_default()).min(self.log.last().0);
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        if self.broken {
            return;
        }
        match message {
            Message::Open { token } => self.hear_open(from, token, out),
            Message::Close { session } => self.hear_close(from, session, out),
            Message::Ask { id } => self.hear_ask(from, id, out),
            Message::Request { id, transaction } => match self.check(&transaction) {
                Err(why) => self.refuse(from, id, Refusal::Malformed(why), out),
                Ok(()) if transaction.only_reads() => self.hear_read(now, from, id, transaction, out),
                Ok(()) => self.hear_request(from, id, transaction, out),
            },
            Message::Lead { configuration, beat, incarnation, settled }
                if incarnation == self.incarnation =>
            {
                self.hear_lead(now, configuration, beat, settled, out);
            }
            message => self.hear_replica(now, from, message, out),
        }
        self.advance(now, out);
    }

    /// Whether a transaction is one, and of keys that this chain has. Which those are never changes, so a copy of a request that was done is not refused.
    fn check(&self, transaction: &Transaction) -> Result<(), Malformed> {
        transaction.check()?;
        if self.bugs.has(Planted::ServeOthers) { Ok(()) } else { self.configuration.slots.check(transaction) }
    }

    /// Takes a message of another replica, if it is of this epoch and of whom it should be.
    fn hear_replica(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        let Some(epoch) = epoch_of(&message) else {
            self.stats.dropped += 1;
            return;
        };
        let is_old = epoch < self.configuration.epoch && self.bugs.has(Planted::TakeOldEpoch);
        if epoch != self.configuration.epoch && !is_old {
            self.stats.other_epoch += 1;
            return;
        }
        if !is_old && !self.is_from_whom_it_should(from, &message) {
            self.stats.dropped += 1;
            return;
        }
        match message {
            Message::Append { entries, .. } if self.up.connected || is_old => self.hear_append(entries, out),
            Message::Ack { received, committed, durability, copies, .. } => {
                self.hear_ack(now, (received, committed), durability, copies);
            }
            Message::Connect { last, last_epoch, .. } => self.hear_connect(last, last_epoch, out),
            Message::Resume { from, from_epoch, image, .. } => {
                self.hear_resume(Resume { from, from_epoch, image }, out);
            }
            Message::Chunk { offset, extent, after, bytes, .. } => {
                self.hear_chunk(offset, extent, after, &bytes, out);
            }
            Message::ChunkAck { below, again, .. } => self.hear_chunk_ack(now, below, again),
            Message::AskCommitted { token, .. } => self.hear_ask_committed(now, from, token, out),
            Message::Committed { token, lsn, .. } => self.hear_committed(token, lsn),
            Message::AskEntry { lsn, .. } => self.hear_ask_entry(from, lsn, out),
            Message::EntryCopy { entry, .. } => self.hear_entry_copy(now, entry, out),
            Message::NoEntry { lsn, last, .. } => self.hear_no_entry(now, lsn, last),
            // For whoever drives it.
            Message::Trace { .. } => {}
            _ => self.stats.dropped += 1,
        }
    }

    /// Whether a message of this epoch comes from the neighbour, or at least a replica that serves, as it must.
    fn is_from_whom_it_should(&self, from: NodeId, message: &Message) -> bool {
        let NodeId::Replica(from) = from else { return false };
        let before = self.seat.and_then(|seat| seat.before);
        let after = self.seat.and_then(|seat| seat.after).map(|after| after.replica);
        match message {
            Message::Append { .. }
            | Message::Resume { .. }
            | Message::Chunk { .. }
            | Message::Trace { .. } => before == Some(from),
            Message::Ack { .. } | Message::Connect { .. } | Message::ChunkAck { .. } => after == Some(from),
            _ => self.configuration.serving().any(|member| member.replica == from),
        }
    }

    /// Sees what became durable, and serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.broken {
            return;
        }
        self.see_durable(now);
        self.log_stuck();
        if self.up.timer.is_due(now, &self.config) {
            self.connect(now, out);
        }
        self.send_again(now, out);
        self.expire_reads(now, out);
        self.advance(now, out);
        self.beat(now, out);
    }

    fn see_durable(&mut self, now: Nanos) {
        let durable = self.log.durable();
        if durable != self.durable || durable == self.log.last().0 {
            self.stalled_since = now;
        }
        self.durable = durable;
    }

    /// For how long the medium has kept the log waiting.
    fn stalled(&self, now: Nanos) -> Nanos {
        let is_behind = self.durable < self.log.last().0;
        if is_behind { now.since(self.stalled_since) } else { Nanos::ZERO }
    }

    /// Where its log lacks entries, for who wants to know what it would take to go on.
    fn gap(&self) -> Option<Gap> {
        let first = *self.missing.first()?;
        Some(Gap { first, last: *self.missing.last()? })
    }

    /// When [`Replica::tick`] wants to be called, beside after each time that entries became durable.
    pub fn next_deadline(&self) -> Nanos {
        if self.broken {
            return Nanos::MAX;
        }
        let down = self.down.as_ref().map_or(Nanos::MAX, |down| down.timer.at().min(down.copy_deadline()));
        let timers =
            [self.up.timer.at(), down, self.asking.at(), self.reads.deadline(), self.lease.deadline()];
        timers.into_iter().fold(Nanos::MAX, Nanos::min)
    }

    /// The image.
    pub fn image(&self) -> &I {
        &self.image
    }

    /// The image, for whoever makes checkpoints of it. What is in it may not change.
    pub fn image_mut(&mut self) -> &mut I {
        &mut self.image
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, for whoever makes it durable, and lets it forget what a checkpoint has. Then [`Replica::tick`] is to be called.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Its name.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// Which life this is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The configuration it acts by.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The keys that transactions have or want, of a head.
    pub fn locks(&self) -> Option<&Locks<B>> {
        self.head.as_ref().map(Head::locks)
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Counts, and how long the log has been at a write, tell states apart that are the same.
    pub fn forget_stats(&mut self) {
        self.stats = Stats::default();
        self.stalled_since = Nanos::MAX;
    }

    /// Its state.
    pub fn view(&self) -> View {
        let (waiting, under_way) = self.head.as_ref().map_or((0, 0), Head::load);
        let down = self.down.as_ref().filter(|down| down.resume.is_some());
        let received = down.map_or(Lsn::ZERO, |down| down.received);
        let applied = self.image.applied();
        View {
            epoch: self.configuration.epoch,
            part: self.seat.map(|seat| seat.part),
            removed: self.seat.is_none() && self.configuration.is_removed(self.id),
            is_head: self.seat.is_some_and(|seat| seat.is_head()),
            is_tail: self.is_tail(),
            connected: self.up.connected || self.seat.is_some_and(|seat| seat.is_head()),
            successor_connected: down.is_some(),
            committed: self.committed,
            applied,
            first: self.log.first(),
            last: self.log.last().0,
            durable: self.durable,
            class: self.log.class(),
            successor_received: received,
            needed: down.map_or(applied, |down| applied.min(down.received)).next(),
            waiting,
            under_way,
            reads_waiting: self.reads.len(),
            lease_until: self.lease.grant.until,
            settled: self.lease.grant.settled,
            whole: self.is_whole(),
            missing: self.wanted().count(),
            copying: self.copying.is_some(),
            copied: self.copying.as_ref().map_or((0, 0), Copying::progress),
            unsaved: self.unsaved,
            successor_joined: down.is_some_and(|down| down.joining == Joining::Joined),
            broken: self.broken,
        }
    }

    fn is_tail(&self) -> bool {
        self.seat.is_some_and(|seat| seat.is_tail())
    }

    fn is_whole(&self) -> bool {
        self.complete && self.usable && self.missing.is_empty() && self.copying.is_none()
    }

    fn refuse_elsewhere(&mut self, to: NodeId, id: RequestId, whom: Option<ReplicaId>, out: &mut Out) {
        self.refuse(to, id, Refusal::Elsewhere(whom), out);
    }
}

/// The epoch of a message between replicas.
fn epoch_of(message: &Message) -> Option<Epoch> {
    match message {
        Message::Append { epoch, .. }
        | Message::Ack { epoch, .. }
        | Message::Connect { epoch, .. }
        | Message::Resume { epoch, .. }
        | Message::Chunk { epoch, .. }
        | Message::ChunkAck { epoch, .. }
        | Message::AskCommitted { epoch, .. }
        | Message::Committed { epoch, .. }
        | Message::AskEntry { epoch, .. }
        | Message::EntryCopy { epoch, .. }
        | Message::NoEntry { epoch, .. }
        | Message::Trace { epoch, .. } => Some(*epoch),
        _ => None,
    }
}
