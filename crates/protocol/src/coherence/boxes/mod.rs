//! A box: keeps copies of items on the way between clients and homes, and answers reads from them while their leases run.
//!
//! ```text
//!  GET ──copy here──▶ answered; boxes below that wait for it get a lease out of this one's, and are its children
//!      └─none──▶ token noted in the request, if it would be kept ──▶ next box or home
//!  reply ──token alive──▶ copy, until (token given) + lease ──▶ box below, or client
//!  INVALIDATE ──▶ copy gone, tokens dead ──▶ INVALIDATE to children ──all answered or over──▶ ACK
//! ```
//!
//! To its children a box is what a home is to its boxes, and the same parts do it: `holders` and `rounds`.
//!
//! Invariants:
//! 1. A copy was granted to this box, to a token that was alive when the reply came, and its lease, counted from when the token was
//!    given, runs.
//! 2. An answered INVALIDATE means: no copy here, no token alive from before it, no copy below that was granted from here.
//! 3. While a box waits for its children's answers about a key it grants none of that key.
//! 4. A box that was there before answers no INVALIDATE for one lease: it does not know the children of its earlier life.
//!    Its writers wait for the lease's end instead.
//! 5. A key that it owns was given to it as a copy is granted, and its time is not over; what it did to it the home knows, or is told
//!    before the box answers that it has nothing.
//! 6. Whatever it does not understand, or is not of its table, it sends straight to the home, not to be kept.
//!
//! Files: `reads` for requests and replies, `invalidate`, `ownership`; the tables [`copies`], [`admission`], [`fills`], [`owned`];
//! [`changes`] for a faster tier that answers from the same copies, [`lent`] for what it answers as owner; [`shards`] where it has several cores.
//!
//! Bounds: `copies`, `fills`, `holders`, `rounds`, `owned` of [`Config`].

pub mod admission;
pub mod changes;
pub mod copies;
pub mod fills;
mod invalidate;
pub mod lent;
pub mod owned;
mod ownership;
mod reads;
pub mod shards;

use super::holders::{Boxes, Holders};
use super::lease::outlived;
use super::moved::Moved;
use super::ownership::is_ownable;
use super::ranges::Ranges;
use super::rounds::Rounds;
use super::table::{Layout, Next, Table};
use super::{Config, Life, NodeId, Out, Planted, is_read, is_well_formed};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{
    BoxId, Control, Flags, Incarnation, KeyHash, Message, Opcode, Round, Status, Verb, key_hash,
};
use admission::Frequency;
use base::Nanos;
use changes::Changes;
use copies::{Copies, Kept};
use fills::Fills;
use owned::Owned;
use shards::Shard;
use std::sync::Arc;

/// A request that was sent on so often goes straight to its home: tables disagree.
const MAX_HOPS: u8 = 16;

/// Counts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Reads answered here.
    pub hits: u64,
    /// Of these, operations that change nothing.
    pub computed: u64,
    /// Reads sent on.
    pub misses: u64,
    /// Replies kept.
    pub fills: u64,
    /// Replies that came with a token of ours that was dead.
    pub late: u64,
    /// Leases granted to boxes below.
    pub granted: u64,
    /// Invalidations heard.
    pub invalidations: u64,
    /// Requests sent straight home because of a dead neighbour or another table.
    pub fallbacks: u64,
    /// Writes done, or answered again, as owner of their key.
    pub owned: u64,
    /// Keys sent back to their homes, each as often as it was sent.
    pub returns: u64,
    /// Messages that made no sense here.
    pub dropped: u64,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Box<B = NoBugs> {
    config: Config,
    planted: B,
    id: BoxId,
    incarnation: Incarnation,
    table: Table,
    /// Neighbours that do not answer.
    down: Boxes,
    answers_from: Nanos,
    copies: Copies,
    frequency: Frequency,
    fills: Fills,
    children: Holders<B>,
    /// Each with who is to be told, and the round he asked in.
    rounds: Rounds<Vec<(NodeId, Round)>>,
    owned: Owned,
    stats: Stats,
}

impl Box {
    /// A box that starts at `now`, empty. `incarnation` must differ from those of its earlier lives in the lower 24 bits.
    pub fn new(
        config: &Config,
        id: BoxId,
        layout: Arc<Layout>,
        life: (Incarnation, Life),
        now: Nanos,
    ) -> Box {
        Box::with_bugs(config, id, layout, life, now, NoBugs)
    }
}

impl<B: Bugs<Planted>> Box<B> {
    /// The same, with mistakes made on purpose.
    pub fn with_bugs(
        config: &Config,
        id: BoxId,
        layout: Arc<Layout>,
        (incarnation, life): (Incarnation, Life),
        now: Nanos,
        planted: B,
    ) -> Box<B> {
        let quiet = life == Life::Again && !planted.has(Planted::ForgetChildren);
        let timeouts = (config.retransmit, config.retransmit_max);
        Box {
            id,
            incarnation,
            table: Table::first(layout),
            down: Boxes::default(),
            answers_from: if quiet { outlived(now, config.lease) } else { now },
            copies: Copies::new(config.copies),
            frequency: Frequency::new(config.copies),
            fills: Fills::new(config.fills, incarnation, config.fill_patience.min(config.lease)),
            children: Holders::new(config.holders, planted.clone()),
            rounds: Rounds::new((u64::from(incarnation.0) << 32) + 1, config.rounds, timeouts),
            owned: Owned::new(config.owned),
            stats: Stats::default(),
            config: config.clone(),
            planted,
        }
    }

    /// The same, which has heard nothing yet, as one shard of a box: it hears of no other keys, and has its share of the places of a whole one.
    #[must_use]
    pub fn as_shard(mut self, shard: Shard) -> Box<B> {
        let Config { copies, fills, holders, rounds, owned, .. } = self.config;
        let first = (u64::from(self.incarnation.0) << 32) + 1;
        let timeouts = (self.config.retransmit, self.config.retransmit_max);
        let patience = self.config.fill_patience.min(self.config.lease);
        self.copies = Copies::new(shard.share(copies)).of_shard(shard);
        self.frequency = Frequency::new(shard.share(copies));
        self.fills = Fills::new(shard.share(fills), self.incarnation, patience).of_shard(shard);
        self.children = Holders::new(shard.share(holders), self.planted.clone());
        self.rounds = Rounds::new(first, shard.share(rounds), timeouts).numbered(shard.numbers(first));
        self.owned = Owned::new(shard.share(owned));
        self
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.tick(now, out);
        if !is_well_formed(message) {
            self.stats.dropped += 1;
            return;
        }
        match message.header.opcode {
            Opcode::Request(verb) if matches!(from, NodeId::Home(_)) => {
                self.hear_again(now, verb, message.clone(), out);
            }
            Opcode::Request(Verb::Noop) if message.header.at == self.id => {
                let mut reply = message.reply(Status::Ok);
                (reply.header.at, reply.header.epoch) = (self.id, self.table.epoch());
                reply.header.flags = Flags::FROM_BOX;
                self.table.moved().tell(&mut reply);
                out.push((from, reply));
            }
            Opcode::Request(verb) => {
                let mut request = message.clone();
                if matches!(from, NodeId::Client(_)) {
                    request.header.epoch = self.table.epoch();
                }
                request.header.hops = request.header.hops.saturating_add(1);
                if self.is_draining() {
                    if matches!(from, NodeId::Client(_)) {
                        // So the home tells the client to go round this box.
                        request.header.at = self.id;
                    }
                    self.fall_back(request, out);
                } else if !self.may_serve(&request) {
                    self.fall_back(request, out);
                } else if is_read(verb, request.header.flags) {
                    self.read(now, from, verb, request, out);
                } else if may_own(verb, request.header.flags, from) {
                    self.write_ownable(now, verb, request, out);
                } else {
                    self.send_home(request, out);
                }
            }
            Opcode::Reply(_) => self.reply(now, message, out),
            Opcode::Control(Control::Invalidate) => self.invalidate(now, from, message, out),
            Opcode::Control(Control::InvalidateAck) => self.hear_answer(from, message, out),
            Opcode::Control(Control::ReturnAck) => self.hear_return_ack(from, message, out),
            Opcode::Control(Control::Heartbeat) => self.show_life(from, message, out),
            Opcode::Control(Control::Table) => self.hear_table(now, from, message, out),
            Opcode::Control(_) => self.stats.dropped += 1,
        }
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        self.children.expire(now);
        self.serve_owned(now, out);
        while let Some(ended) = self.rounds.overdue(now, out) {
            self.round_is_over(ended, out);
        }
    }

    /// When [`Box::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.rounds.next_deadline().min(self.owned.next_deadline())
    }

    /// Whoever watches the network says that a neighbour is dead, or well again. Requests that would go there fall back.
    pub fn set_neighbour(&mut self, id: BoxId, is_up: bool) {
        let Some(one) = Boxes::of(id) else { return };
        self.down = if is_up { self.down.without(one) } else { self.down.with(one) };
    }

    /// Its name.
    pub fn id(&self) -> BoxId {
        self.id
    }

    /// Copies that are there, also those that are over.
    pub fn copies(&self) -> impl Iterator<Item = &Kept> {
        self.copies.iter()
    }

    /// Copies of keys with this hash, also those that are over.
    pub fn copies_of(&self, hash: KeyHash) -> impl Iterator<Item = &Kept> {
        self.copies.of(hash)
    }

    /// From now on [`Box::take_changes`] says which copies changed.
    pub fn watch_copies(&mut self) {
        self.copies.watch();
    }

    /// Exchanges what changed since the last time for `empty`. A faster tier follows before anything that was said since then is sent.
    pub fn take_changes(&mut self, empty: &mut Changes) {
        self.copies.take_changes(empty);
    }

    /// A faster tier answered so many requests for keys with this hash. They count for admission and eviction, as far as counts go.
    pub fn note_hits(&mut self, hash: KeyHash, hits: u64) {
        (0..hits.min(Frequency::MOST)).for_each(|_| {
            self.frequency.count(hash);
        });
    }

    /// What it would answer at `now` as owner of a key; of a key that is lent, what it was.
    pub fn owned(&self, key: &[u8], now: Nanos) -> Option<&Kept> {
        self.owned.serving(key_hash(key), key, now).map(|entry| &entry.kept)
    }

    /// Gives all copies up, as if other keys had been asked for more often.
    pub fn evict_all(&mut self) {
        self.copies.drop_where(|_| true);
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The table that it goes by.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Counts tell states apart that are the same.
    #[cfg(test)]
    pub(super) fn forget_stats(&mut self) {
        self.stats = Stats::default();
    }

    fn may_serve(&self, request: &Message) -> bool {
        let header = &request.header;
        header.epoch == self.table.epoch()
            && header.hops <= MAX_HOPS
            && !header.flags.contains(Flags::NO_CACHE)
            && header.sharers.token_of(self.id).is_none()
    }

    /// Straight home, and nobody keeps the reply.
    fn fall_back(&mut self, mut request: Message, out: &mut Out) {
        self.stats.fallbacks += 1;
        request.header.flags = request.header.flags.with(Flags::NO_CACHE);
        self.send_home(request, out);
    }

    fn send_home(&mut self, request: Message, out: &mut Out) {
        out.push((NodeId::Home(request.header.home), request));
    }

    fn send_on(&mut self, request: Message, out: &mut Out) {
        match self.table.next(self.id, request.hash()) {
            Next::Home => self.send_home(request, out),
            Next::Box(id) if self.down.contains(id) => self.fall_back(request, out),
            Next::Box(id) => out.push((NodeId::Box(id), request)),
        }
    }

    fn hear_table(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let (header, layout) = (&message.header, self.table.layout().clone());
        if header.epoch > self.table.epoch() {
            let told = Moved::told(message, &layout);
            match told.and_then(|(moved, rest)| Some((moved, Ranges::from_bytes(rest, layout.slots())?))) {
                Some((told, ranges)) => {
                    let said = (header.epoch, Boxes(header.operand), Arc::new(ranges));
                    let mut moved = Arc::clone(self.table.moved());
                    if self.planted.has(Planted::LowerEpochTaken) && !told.is_empty() {
                        moved = Arc::new(told);
                    } else {
                        Moved::learn_into(&mut moved, &told);
                    }
                    let table = Table::new(layout, said).with_draining(Boxes(header.version.0));
                    let table = table.with_moved(moved);
                    let before = std::mem::replace(&mut self.table, table);
                    self.leave(&before);
                    self.leave_all(now, &before);
                }
                None => self.stats.dropped += 1,
            }
        }
        self.show_life(from, message, out);
    }

    /// Gives up what is of slots whose caching is another than it was. Nobody needs to be told: who granted it asks about it, or waits.
    fn leave(&mut self, before: &Table) {
        if self.table.ranges() == before.ranges() || self.planted.has(Planted::KeepOutsideRange) {
            return;
        }
        let Box { table, copies, fills, .. } = self;
        let is_other = |hash| {
            let slot = table.layout().slot_of(hash);
            table.ranges().of(slot) != before.ranges().of(slot)
        };
        copies.drop_where(is_other);
        fills.kill_where(is_other);
    }

    /// Gives everything up, if it is to be stopped and was not before: copies and fills at once; the time of keys that it owns is over, so that they
    /// go home, and those that a faster tier has come back first.
    fn leave_all(&mut self, now: Nanos, before: &Table) {
        if self.is_draining() && !before.draining().contains(self.id) {
            self.copies.drop_where(|_| true);
            self.fills.kill_all();
            self.owned.end_all(now);
        }
    }

    /// Whether it is to be stopped.
    pub fn is_draining(&self) -> bool {
        self.table.draining().contains(self.id)
    }

    /// What keeps it from being stopped, once it is draining: keys that it owns or that are on their way home, and keys of which boxes below have copies
    /// that it granted.
    pub fn left(&self) -> u64 {
        (self.owned.len() + self.children.len()) as u64
    }

    /// Whether it may keep, or own, what it is asked for.
    fn may_keep(&self, from: NodeId, hash: KeyHash) -> bool {
        let below = match from {
            NodeId::Client(_) => None,
            NodeId::Box(id) => Some(id),
            NodeId::Home(_) | NodeId::Controller(_) => return false,
        };
        if self.is_draining() {
            return false;
        }
        self.table.may_keep(self.id, below, hash) || self.planted.has(Planted::KeepOutsideRange)
    }

    fn show_life(&mut self, from: NodeId, message: &Message, out: &mut Out) {
        let mut sign = super::controller::sign_of_life(message, self.table.epoch(), self.incarnation);
        if self.is_draining() {
            sign.header.operand = self.left();
        }
        // A controller that took over may not know of an order that came before.
        self.table.moved().tell(&mut sign);
        out.push((from, sign));
    }
}

/// Whether this is for the owner of its key, and comes from a client.
fn may_own(verb: Verb, flags: Flags, from: NodeId) -> bool {
    is_ownable(verb) && flags.contains(Flags::OWNABLE) && matches!(from, NodeId::Client(_))
}
