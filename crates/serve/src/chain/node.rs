//! A replica's loop: one thread that has the machine, the links to other nodes, the clients' server, the log and the image.
//!
//! ```text
//!   hear: calls, messages, deadlines ──▶ machine ──▶ speak ──▶ what is durable by now ──▶ machine ──▶ speak ──▶ a step of a checkpoint ──▶ again
//!                                                      │ ▲
//!                                 log and checkpoint: a thread each, which writes and waits for the device
//! ```
//! **Group commit** comes by itself: whatever arrives while the log is being written is appended, and made durable by the next
//! write. Nothing waits for company, so one transaction at a time is as fast as the medium.
//!
//! Why a thread of its own and no engine core: every step of the machine orders all others (log, locks, lease), so its requests cannot overlap, and overlap is
//! what an engine gives; and a core that serves others for longer than a lease would take its replica out of the chain.
//!
//! Why log and checkpoint have threads of their own: this one holds the lease. A device that takes as long as the lease for a write
//! would have the replica taken for dead, though nothing is wrong with it but that it is slow; and all replicas may have such devices at once.
//! That costs a wake-up there and one back, 35 µs each (LIMITS), for each write of some 200 µs. What is durable sooner
//! ([`store::redo::media`]) is written here. Only the repair of a damaged entry still waits for the device.
//!
//! Invariants:
//! 1. What a failed log or image brought the machine to say is not sent: after each call of the machine both are asked first.
//! 2. Answers that need no log (reads, what others have committed) leave before the log is written.
//! 3. Nothing is written to the log while the checkpoint of an image that was cleared is not forgotten for good.
//!
//! Bounds: those of [`super::links`], [`super::service`] and the machine.

use super::disk::{DiskImage, DiskLog, Found, Progress};
use super::error::ChainError;
use super::export::Export;
use super::links::Links;
use super::media::Media;
use super::metrics::Seen;
use super::registers::{Id, Registers};
use super::service::{Desk, Inquiry};
use super::traced::Traces;
use crate::admin::ask::Questions;
use crate::admin::health::Beat;
use base::key::Key;
use base::steady::Steady;
use base::trace::Tracer;
use base::{Clock, Nanos};
use fabric::server::Server;
use protocol::chain::{Epoch, Image, Incarnation, Log, Lsn, Message, NodeId, Out, Replica, ReplicaId};
use ring::wait::Sleeper;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whoever is asked something, or told to stop, notices within this.
const NOTICE: Nanos = Nanos::from_millis(20);
/// How often the log says in another place what is durable: so much of its end can be lost without anybody noticing, if all logs lose it.
const MARK_INTERVAL: Nanos = Nanos::from_millis(100);
/// A log that is so full keeps nothing for neighbours.
const SCARCE_PERCENT: u64 = 85;

/// A replica that runs.
pub struct Node {
    pub(super) replica: Replica<DiskImage, DiskLog>,
    pub(super) links: Links,
    pub(super) desk: Desk,
    server: Server,
    clock: Clock,
    /// Since before the replica was told its first moment.
    steady: Steady,
    out: Out,
    came: Vec<(NodeId, Message)>,
    /// Calls of `Info` that are not answered.
    inquiries: Vec<Inquiry>,
    /// Calls of `Export` that are not answered.
    pub(super) exports: VecDeque<Export>,
    /// When the log was marked.
    marked_at: Nanos,
    /// Rung by the threads of log and checkpoint.
    sleeper: Sleeper,
    /// Those that are live are read at every turn.
    pub(super) registers: Arc<Registers>,
    /// Bytes that had been logged when the last checkpoint began.
    checkpointed_at: u64,
    /// What the last checkpoint has: the log need not keep it for this replica.
    checkpointed: Lsn,
    /// The checkpoint that is under way has an image that was copied.
    saves_copy: bool,
    pub(super) questions: Option<Questions<Seen>>,
    /// Says that it turns.
    pub(super) beat: Beat,
    /// The configuration whose addresses the links have.
    learned: Epoch,
    was_removed: bool,
    pub(super) place: Place,
    traces: Traces,
}

/// Which replica it is, and where.
pub struct Place {
    /// The chain.
    pub chain: u32,
    /// Its number there.
    pub id: ReplicaId,
    /// In which life.
    pub incarnation: Incarnation,
    /// What its log is kept on.
    pub media: Media,
    /// Where clients find it.
    pub serves: String,
    /// What its recovery found.
    pub found: Found,
    /// The chain's key.
    pub key: Key,
}

impl Node {
    /// A replica with its links, and a server that has the service of `desk`; `steady` is of before the replica was made.
    pub fn new(
        replica: Replica<DiskImage, DiskLog>,
        place: Place,
        links: Links,
        (server, desk): (Server, Desk),
        sleeper: Sleeper,
        (registers, steady): (Arc<Registers>, Steady),
    ) -> Node {
        Node {
            replica,
            links,
            desk,
            server,
            clock: Clock::shared(),
            steady,
            out: Vec::new(),
            came: Vec::new(),
            inquiries: Vec::new(),
            exports: VecDeque::new(),
            marked_at: Nanos::ZERO,
            sleeper,
            registers,
            checkpointed_at: 0,
            checkpointed: Lsn::ZERO,
            saves_copy: false,
            questions: None,
            beat: Beat::default(),
            learned: Epoch(0),
            was_removed: false,
            place,
            traces: Traces::new(Tracer::default()),
        }
    }

    /// Transactions whose callers trace them leave their spans there.
    pub fn traced_by(&mut self, tracer: &Tracer) {
        self.traces = Traces::new(tracer.clone());
    }

    /// Where clients find it.
    pub fn addresses(&self) -> Vec<String> {
        self.server.addresses().map(|address| address.to_string()).collect()
    }

    /// Takes turns until it is told to stop. What is acknowledged is durable at every moment, so there is nothing to bring to an end.
    ///
    /// # Errors
    /// The clock jumped; the log or the image failed: the replica must not go on.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), ChainError> {
        // Nothing else is read after the flag is seen, so no order is needed.
        while !stop.load(Ordering::Relaxed) {
            let trusted = self.steady.check();
            trusted.map_err(|jump| ChainError::System("trust the clock", io::Error::other(jump)))?;
            self.beat.turn();
            if self.turn()? == 0 && !self.registers.is_on(Id::Spin) {
                self.rest();
            }
        }
        Ok(())
    }

    /// Does what there is to do; how much that was.
    fn turn(&mut self) -> Result<usize, ChainError> {
        let answered = self.desk.answered();
        let mut done = self.hear();
        self.speak()?;
        if self.desk.answered() != answered {
            // Publishes the answers (invariant 2), and finds company for what waits for the log.
            done += self.hear();
            self.speak()?;
        }
        done += self.sync()?;
        done += self.checkpoint()?;
        self.answer_inquiries();
        done += self.answer_exports();
        self.answer_questions();
        self.links.flush(self.clock.now());
        for notice in self.links.take_notices() {
            let Place { id, chain, .. } = self.place;
            log::warn!("replica {} of chain {chain}: {notice}", id.0);
        }
        Ok(done)
    }

    /// Has what was appended made durable, and tells the machine what is; whether there was something to tell.
    fn sync(&mut self) -> Result<usize, ChainError> {
        let mut done = usize::from(self.end_sync());
        let now = self.clock.now();
        if now >= self.marked_at.plus(MARK_INTERVAL) {
            self.marked_at = now;
            self.replica.log_mut().mark();
        }
        if self.replica.log().is_behind() && !self.replica.image().is_forgetting() {
            self.links.flush(self.clock.now());
            self.replica.log_mut().begin_sync();
            // A medium without a thread of its own is done at once.
            done += usize::from(self.end_sync());
        }
        if done > 0 {
            self.replica.tick(self.clock.now(), &mut self.out);
            self.traces.look(&self.replica, &mut self.out);
        }
        self.speak()?;
        Ok(done)
    }

    fn end_sync(&mut self) -> bool {
        let log = self.replica.log_mut();
        let is_synced = log.is_synced();
        if is_synced {
            log.end_sync();
        }
        is_synced
    }

    /// Hands what came, and what is due, to the machine.
    fn hear(&mut self) -> usize {
        let now = self.clock.now();
        let Node { replica, links, desk, server, out, came, inquiries, exports, traces, .. } = self;
        let mut done = server.poll(now);
        done += desk.take(now, inquiries, exports, |client, message| {
            traces.ask(client, &message, replica);
            replica.handle(now, client, message, out);
        });
        done += links.poll(now, came);
        for (from, message) in came.drain(..) {
            traces.hear(from, &message, replica, out);
            replica.handle(now, from, message, out);
        }
        if replica.next_deadline() <= now {
            replica.tick(now, out);
        }
        traces.look(replica, out);
        done
    }

    /// Sends what the machine said.
    fn speak(&mut self) -> Result<(), ChainError> {
        self.replica.log().check()?;
        self.replica.image().check()?;
        if self.replica.view().broken {
            return Err(self.replica.log().misfit());
        }
        self.learn();
        let now = self.clock.now();
        for (to, message) in self.out.drain(..) {
            match to {
                NodeId::Client(client) => {
                    self.traces.answer(to, &message, &self.replica);
                    self.desk.answer(client, &message);
                }
                node => self.links.send(now, node, &message),
            }
        }
        self.desk.settle();
        Ok(())
    }

    /// A later configuration says where the others are; or that this one does not belong to them any more.
    fn learn(&mut self) {
        let configuration = self.replica.configuration();
        if configuration.epoch == self.learned {
            return;
        }
        self.learned = configuration.epoch;
        let Place { id, chain, .. } = self.place;
        for at in &configuration.roster {
            match at.peers.parse() {
                Ok(address) => self.links.learn(NodeId::Replica(at.replica), Some(address)),
                Err(_) if at.peers.is_empty() => {}
                Err(error) => {
                    let of = at.replica.0;
                    log::warn!(
                        "replica {} of chain {chain}: {:?}, where replica {of} is: {error}",
                        id.0,
                        at.peers
                    );
                }
            }
        }
        let is_removed = self.replica.view().removed;
        let epoch = self.learned.0;
        match (self.was_removed, is_removed) {
            (false, true) => log::warn!(
                "replica {} of chain {chain} does not belong to the chain by its orders (epoch {epoch}): it serves nobody, and may be stopped. \
                 `millrace cluster add` lets it in",
                id.0
            ),
            (true, false) => {
                log::info!("replica {} of chain {chain} belongs to it again (epoch {epoch})", id.0)
            }
            _ => {}
        }
        self.was_removed = is_removed;
    }

    /// Begins a checkpoint when one is due, and goes on with the one that is under way; whether there was something to do.
    fn checkpoint(&mut self) -> Result<usize, ChainError> {
        self.release();
        let (log, image) = (self.replica.log(), self.replica.image());
        if !image.is_checkpointing() && !image.is_forgetting() {
            let view = self.replica.view();
            // A replica that has copied its image acknowledges nothing before that is done; a log that is full takes nothing.
            let grown = log.payload_bytes() - self.checkpointed_at >= log.capacity() / 8;
            let is_due = view.unsaved || (log.percent_used() >= self.checkpoint_percent() && grown);
            if view.copying || !is_due {
                return Ok(0);
            }
            self.checkpointed_at = log.payload_bytes();
            self.saves_copy = view.unsaved;
            if !self.replica.image_mut().begin_checkpoint() {
                return Ok(0);
            }
        }
        match self.replica.image_mut().step_checkpoint(self.registers.size(Id::CheckpointStep)) {
            Progress::Waiting => return Ok(0),
            Progress::More | Progress::Abandoned => {}
            Progress::Done(redo_from) => {
                self.checkpointed = redo_from;
                self.release();
                if self.saves_copy && !self.replica.view().copying {
                    self.replica.checkpointed();
                }
                self.replica.tick(self.clock.now(), &mut self.out);
            }
        }
        self.speak()?;
        Ok(1)
    }

    fn checkpoint_percent(&self) -> u64 {
        self.registers.read(Id::CheckpointPercent)
    }

    /// Has the log forget what the checkpoint has, when it is too full. A neighbour that lacks entries is given them as long as there is room, and
    /// then the image; so what it needs can be let go later than the checkpoint ended.
    fn release(&mut self) {
        let log = self.replica.log();
        let used = log.percent_used();
        if used < self.checkpoint_percent() || self.checkpointed < log.first() {
            return;
        }
        let needed = self.replica.view().needed;
        let kept = if used >= SCARCE_PERCENT { Lsn(u64::MAX) } else { needed };
        self.replica.log_mut().release(self.checkpointed.min(Lsn(kept.0.saturating_sub(1))));
    }

    /// Answers whoever asks how the replica is; who wants a checksum as of a later transaction waits for it.
    fn answer_inquiries(&mut self) {
        for inquiry in std::mem::take(&mut self.inquiries) {
            match self.digest_for(&inquiry) {
                Ok(digest) => inquiry.reply.reply(|reply| self.info(digest).put(reply)),
                Err(_) if inquiry.reply.responder().is_cancelled() => {}
                Err(NotYet) => self.inquiries.push(inquiry),
            }
        }
    }
}

/// A checksum is wanted as of a transaction that is not applied yet.
struct NotYet;

impl Node {
    /// The checksum that is asked for, if it can be had by now: as of which transaction, and what it is.
    fn digest_for(&mut self, inquiry: &Inquiry) -> Result<Option<(Lsn, u64)>, NotYet> {
        let image = self.replica.image_mut();
        match inquiry.digest {
            None => Ok(None),
            Some(Lsn::ZERO) => Ok(Some((image.applied(), image.digest()))),
            Some(at) => image.digest_at(at).map(Some).ok_or(NotYet),
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        // All are armed: one that is not would not wake us.
        let armed = self.server.arm();
        self.sleeper.arm();
        let is_durable = self.replica.log_mut().is_synced() || self.replica.image_mut().is_ready();
        if self.links.arm() && armed && !is_durable {
            let deadlines =
                [self.server.next_deadline(), self.links.next_deadline(), self.replica.next_deadline()];
            let next = deadlines.into_iter().min().unwrap_or(Nanos::MAX);
            let span = next.since(self.clock.now()).min(NOTICE);
            let disk = self.sleeper.descriptor().expect("made with an eventfd");
            let descriptors = self.server.descriptors().chain(self.links.descriptors()).chain([disk]);
            let mut fds: Vec<_> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let span =
                Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ };
            // Errors mean the same as a wake-up: look again.
            let _ = poll(&mut fds, Some(&span));
        }
        self.server.disarm();
        self.sleeper.disarm();
        self.links.disarm();
    }
}
