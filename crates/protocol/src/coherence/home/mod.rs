//! A home: where the items of its slots are, and where every write of them takes effect.
//!
//! ```text
//!  GET ──▶ read ──granted──▶ entered into `holders`, answered with a lease
//!               └─ a write waits, or NO_CACHE: answered without
//!
//!  write ──▶ session? ──▶ queue of the key ──nobody holds copies──▶ applied, answered
//!                                  │                     ▲
//!                                  └─ round to holders ──┘ all answered, or their leases over
//! ```
//!
//! Invariants:
//! 1. A write is applied only while no box can hold a copy of its key: none is in `holders`, and none is granted from when it
//!    began to wait (`writes` has the key) until it was applied.
//! 2. Versions, rounds and sessions have the incarnation in their upper half: none is given twice, whatever was lost.
//! 3. A home that was there before serves nothing for one lease: what its earlier life granted has then ended. One that was there at another address counts
//!    that lease from when it hears that it was ordered here ([`Home::elsewhere`]): its earlier life may have run until then.
//! 4. An absent item is answered as such only while no box can hold a copy: a store may evict, its home takes the copies
//!    back first.
//! 5. A key that a box owns is with that box: nothing of it is answered here until it is back, or its lease is over.
//! 6. What came by another protocol (`tickets`) is bound by 1 to 5 like what came by packet, and waits in the same queues.
//!
//! 7. Where the store takes time ([`slow`]), no copy of a key is granted while a write of it is under way there, or may be.
//!
//! Files: `write` for writes and flushes; `tickets` for requests of another protocol; `ownership` for keys that boxes own; [`items`] the
//! store, which counts versions; [`sessions`] what was done already; [`owners`] who owns what.
//!
//! Bounds: `holders`, `rounds`, `queue`, `queue_per_key`, `sessions` × `window` of [`Config`], `owned` for each box; BUSY beyond the
//! first four, no ownership beyond the last.

pub mod items;
#[cfg(test)]
pub(super) mod late;
pub mod owners;
mod ownership;
pub mod sessions;
pub mod slow;
mod tickets;
mod write;

use super::compute::Item;
use super::holders::{Boxes, Holders};
use super::lease::{granter_end, runs};
use super::moved::Moved;
use super::rounds::{Rounds, Target};
use super::table::Layout;
use super::{Config, Life, NodeId, Out, Planted, is_read, is_well_formed, way_back};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{
    BoxId, Control, Epoch, Flags, Header, HomeId, Incarnation, KeyHash, MAX_VALUE, Message, Opcode, Status,
    Ttl, Verb, Version, key_hash,
};
use base::Nanos;
use items::Items;
use owners::Owners;
use sessions::Sessions;
use slow::UnderWay;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use tickets::Claim;
pub use tickets::{Access, Admitted, Ticket};

/// Counts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Reads that found something.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Of the hits, those that were granted a lease.
    pub granted: u64,
    /// Writes that were applied, flushes included.
    pub applied: u64,
    /// Requests that waited for boxes, those by ticket included.
    pub waited: u64,
    /// Requests refused with BUSY.
    pub busy: u64,
    /// Keys given to boxes.
    pub given: u64,
    /// Of these, returned.
    pub returned: u64,
    /// Of these, lost with their owner.
    pub lost: u64,
    /// Writes that were done already, or whose session is not known.
    pub repeated: u64,
    /// Messages that made no sense here.
    pub dropped: u64,
}

/// What waits for a key, or a flush for all keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    /// A request of this protocol.
    Packet(Box<Message>),
    /// Of another.
    Ticket(Claim),
}

impl Waiting {
    /// Whether both are the same request, come twice.
    fn is_like(&self, other: &Waiting) -> bool {
        let named = |message: &Message| {
            let Header { client, round, operation, .. } = message.header;
            (client, round, operation)
        };
        match (self, other) {
            (Waiting::Packet(one), Waiting::Packet(two)) => named(one) == named(two),
            _ => false,
        }
    }
}

/// What a round of invalidations is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    /// The writes that wait for the key with this hash.
    Writes(KeyHash),
    /// What waits for a key with this hash that a box owns.
    Recall(KeyHash),
    /// The flushes that wait.
    Flush,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Home<I, B = NoBugs> {
    config: Config,
    planted: B,
    id: HomeId,
    layout: Arc<Layout>,
    epoch: Epoch,
    /// Boxes that are to be stopped, by the table of that epoch.
    draining: Boxes,
    incarnation: Incarnation,
    items: I,
    serves_from: Nanos,
    /// It was started there, and waits for a controller's word that it is there.
    unnamed: Option<SocketAddr>,
    holders: Holders<B>,
    rounds: Rounds<Purpose>,
    sessions: Sessions,
    /// Keys whose copies are being taken back, and what waits for it, in order: writes, and reads by ticket that found nothing. If a
    /// box owns the key: all requests that wait for it.
    writes: BTreeMap<KeyHash, VecDeque<Waiting>>,
    flushes: VecDeque<Waiting>,
    /// Tickets that came before the home serves.
    early: VecDeque<Claim>,
    /// What waits in `writes`, `flushes` and `early`.
    queued: usize,
    owners: Owners,
    under_way: UnderWay,
    /// The last keys that were lost with their owners and not asked for.
    lost: VecDeque<Vec<u8>>,
    stats: Stats,
}

impl<I: Items> Home<I> {
    /// A home that starts at `now`. `incarnation` must be higher than in any earlier life.
    pub fn new(
        config: &Config,
        id: HomeId,
        layout: Arc<Layout>,
        life: (Incarnation, Life),
        now: Nanos,
        items: I,
    ) -> Home<I> {
        Home::with_bugs(config, id, layout, life, now, items, NoBugs)
    }
}

impl<I: Items, B: Bugs<Planted>> Home<I, B> {
    /// The same, with mistakes made on purpose.
    pub fn with_bugs(
        config: &Config,
        id: HomeId,
        layout: Arc<Layout>,
        (incarnation, life): (Incarnation, Life),
        now: Nanos,
        mut items: I,
        planted: B,
    ) -> Home<I, B> {
        let quiet = life == Life::Again && !planted.has(Planted::ServeAtOnce);
        let first = u64::from(incarnation.0) << 32;
        let window = if planted.has(Planted::OutcomeForgotten) { 1 } else { config.window };
        let boxes = layout.boxes().count();
        if !planted.has(Planted::VersionsRestart) {
            items.begin_versions(Version(first));
        }
        Home {
            id,
            layout,
            epoch: Epoch(0),
            draining: Boxes::default(),
            incarnation,
            items,
            serves_from: if quiet { granter_end(now, config.lease) } else { now },
            unnamed: None,
            holders: Holders::new(config.holders, planted.clone()),
            rounds: Rounds::new(first + 1, config.rounds, (config.retransmit, config.retransmit_max)),
            sessions: Sessions::new(first + 1, config.sessions, window),
            writes: BTreeMap::new(),
            flushes: VecDeque::new(),
            early: VecDeque::new(),
            queued: 0,
            owners: Owners::new(config.owned.saturating_mul(boxes)),
            under_way: UnderWay::default(),
            lost: VecDeque::new(),
            stats: Stats::default(),
            config: config.clone(),
            planted,
        }
    }

    /// The same, which has heard nothing yet, at another address than its earlier lives: it waits until a table says that it is `here`, which nobody orders
    /// before the life before has ended, and a lease more. When it was started does not matter.
    #[must_use]
    pub fn elsewhere(mut self, here: SocketAddr) -> Home<I, B> {
        if !self.planted.has(Planted::MovedServesAtOnce) {
            (self.serves_from, self.unnamed) = (Nanos::MAX, Some(here));
        }
        self
    }

    /// When it begins to serve; [`Nanos::MAX`] while it waits for a table that says that it is where it was started.
    pub fn serves_from(&self) -> Nanos {
        self.serves_from
    }

    /// Whether it waits for a table that says that it is where it was started.
    pub fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let is_served = is_well_formed(message) && !runs(self.serves_from, now);
        // Before the clock says that it is too late: nobody has acted on that yet.
        if is_served && message.header.opcode == Opcode::Control(Control::Return) {
            self.hear_return(now, from, message, out);
        }
        self.tick(now, out);
        if !is_well_formed(message) {
            self.stats.dropped += 1;
            return;
        }
        match message.header.opcode {
            Opcode::Control(Control::Return) => {}
            Opcode::Control(Control::Heartbeat | Control::Table) => {
                self.hear_controller(now, from, message, out);
            }
            _ if runs(self.serves_from, now) => {}
            Opcode::Control(Control::InvalidateAck) => self.hear_answer(now, from, message, out),
            Opcode::Request(verb) => self.request(now, verb, message, out),
            Opcode::Reply(_) | Opcode::Control(_) => self.stats.dropped += 1,
        }
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        self.holders.expire(now);
        self.serve_early(now, out);
        self.recall_due(now, out);
        let before = out.len();
        while let Some(ended) = self.rounds.overdue(now, out) {
            self.round_is_over(now, ended, out);
        }
        if self.planted.has(Planted::ApplyAtTimeout) && out.len() > before {
            while let Some(ended) = self.rounds.give_up() {
                self.round_is_over(now, ended, out);
            }
        }
    }

    /// When [`Home::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        let begins = if self.early.is_empty() { Nanos::MAX } else { self.serves_from };
        self.rounds.next_deadline().min(self.owners.next_deadline()).min(begins)
    }

    /// Its name.
    pub fn id(&self) -> HomeId {
        self.id
    }

    /// The store.
    pub fn items(&self) -> &I {
        &self.items
    }

    /// The store, for whoever looks after it. Items may vanish by this; nothing else may change.
    pub fn items_mut(&mut self) -> &mut I {
        &mut self.items
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The box that owns this key.
    pub fn owner_of(&self, key: &[u8]) -> Option<BoxId> {
        self.owners.of(key_hash(key)).filter(|mark| mark.key == key).map(|mark| mark.owner)
    }

    /// Whether it goes by a table that says that a box is to be stopped.
    pub fn is_draining(&self, id: BoxId) -> bool {
        self.draining.contains(id)
    }

    /// Whether somebody may have to wait for a box at `now`: it may have a copy, or owns a key.
    pub fn waits_for(&self, id: BoxId, now: Nanos) -> bool {
        let owns = || {
            self.owners
                .hashes()
                .into_iter()
                .any(|hash| self.owners.of(hash).is_some_and(|mark| mark.owner == id))
        };
        self.holders.of_all(now).0.contains(id) || owns()
    }

    /// A key that was lost with its owner, each once; of many the last.
    pub fn poll_lost(&mut self) -> Option<Vec<u8>> {
        self.lost.pop_back()
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.writes.is_empty() && self.under_way.is_empty()
    }

    /// Counts tell states apart that are the same.
    #[cfg(test)]
    pub(super) fn forget_stats(&mut self) {
        self.stats = Stats::default();
    }

    fn request(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) {
        let keyed = !request.key.is_empty();
        let wrong =
            request.header.home != self.id || (keyed && self.layout.home_of(request.hash()) != self.id);
        if wrong {
            return self.answer(request, Status::NotHome, out);
        }
        if keyed && self.owners.of(request.hash()).is_some() {
            return self.request_of_owned(now, verb, request, out);
        }
        if keyed {
            self.note_suitor(request);
        }
        match verb {
            Verb::Noop => self.answer(request, Status::Ok, out),
            Verb::Session => {
                let mut reply = request.reply(Status::Ok);
                reply.header.round = self.sessions.open(request.header.client);
                self.send(request, reply, out);
            }
            verb if is_read(verb, request.header.flags) => self.read(now, request, out),
            _ => self.write(now, verb, request, out),
        }
    }

    fn read(&mut self, now: Nanos, request: &Message, out: &mut Out) {
        if !self.items.takes_time() {
            let item = self.items.read(&request.key, now);
            self.read_found(now, request, (item, false), out);
        } else {
            self.hand_on_read(now, request, out);
        }
    }

    /// What a read found; of what may be old by now no copy is given.
    fn read_found(
        &mut self,
        now: Nanos,
        request: &Message,
        (item, is_old): (Option<Item>, bool),
        out: &mut Out,
    ) {
        let hash = request.hash();
        let Some(item) = item else {
            let held = !self.holders.of(hash, now).0.is_empty();
            if held && !self.planted.has(Planted::MissWhileHeld) {
                self.take_back(now, hash, &request.key, out);
                return self.refuse(request, out);
            }
            self.stats.misses += 1;
            return self.answer(request, Status::Miss, out);
        };
        self.stats.hits += 1;
        let mut reply = request.reply(Status::Ok);
        reply.header.version = item.version;
        if item.value.len() > MAX_VALUE {
            reply.header.status = Status::TooLarge;
            reply.header.operand = item.value.len() as u64;
        } else {
            reply.header.item_flags = item.flags;
            reply.header.kind = item.kind;
            reply.header.ttl = Ttl::until(item.end, now);
            reply.header.deadline_us = if is_old { 0 } else { self.grant(now, hash, &item, request) };
            reply.value = item.value;
        }
        self.send(request, reply, out);
    }

    /// For how many microseconds the request's sharers may keep the item; 0: not at all. Who may is in `holders`.
    fn grant(&mut self, now: Nanos, hash: KeyHash, item: &Item, request: &Message) -> u32 {
        let under_way = self.under_way.bars(&request.key) && !self.planted.has(Planted::GrantWhileUnderWay);
        let writing = self.writes.contains_key(&hash) || !self.flushes.is_empty();
        let Some(boxes) = Boxes::named(&request.header.sharers) else { return 0 };
        if request.header.flags.contains(Flags::NO_CACHE)
            || under_way
            || self.is_leaving(boxes)
            || (writing && !self.planted.has(Planted::GrantWhileWriting))
        {
            return 0;
        }
        // A copy ends with the item's life, before the original does: so does the record.
        let until = granter_end(now, self.config.lease).min(item.end);
        if !self.holders.enter(hash, boxes, until) {
            return 0;
        }
        self.stats.granted += 1;
        u32::try_from(self.config.lease.0 / 1000).unwrap_or(u32::MAX)
    }

    fn hear_controller(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let header = &message.header;
        let told = Moved::told(message, &self.layout);
        let place = told.and_then(|(moved, _)| moved.of(self.id));
        // An order that its file knows of is one that it was moved away by since, or before.
        let known = self.layout.moved().of(self.id).map_or(Epoch(0), |place| place.epoch);
        if place.is_some_and(|place| Some(place.address) == self.unnamed && place.epoch > known) {
            (self.serves_from, self.unnamed) = (granter_end(now, self.config.lease), None);
        }
        if header.opcode == Opcode::Control(Control::Table) && header.epoch > self.epoch {
            (self.epoch, self.draining) = (header.epoch, Boxes(header.version.0));
        }
        out.push((from, super::controller::sign_of_life(message, self.epoch, self.incarnation)));
    }

    /// Whether one of these is to be stopped: it is granted nothing.
    fn is_leaving(&self, boxes: Boxes) -> bool {
        boxes.has_any_of(self.draining) && !self.planted.has(Planted::GrantToDraining)
    }

    fn answer(&self, request: &Message, status: Status, out: &mut Out) {
        let mut reply = request.reply(status);
        reply.header.round = request.header.round;
        self.send(request, reply, out);
    }

    /// The reply to a request goes on its way. Who came past a box that is being drained, or by way of it, is told so.
    fn send(&self, request: &Message, mut reply: Message, out: &mut Out) {
        let Header { flags, at, .. } = request.header;
        if flags.contains(Flags::NO_CACHE) && self.draining.contains(at) {
            reply.header.flags = reply.header.flags.with(Flags::DRAINING);
        }
        out.push((way_back(&reply.header, None), reply));
    }

    fn refuse(&mut self, request: &Message, out: &mut Out) {
        self.stats.busy += 1;
        self.answer(request, Status::Busy, out);
    }

    fn target(&self, key: &[u8]) -> Target {
        Target { home: self.id, key: key.to_vec() }
    }
}
