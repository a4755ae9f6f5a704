//! A controller: asks boxes and homes for signs of life, and says in a table which boxes live.
//!
//! ```text
//!  Standby ──nothing heard of another for twice `health`, and its turn──▶ Active, with a higher term
//!  Active ──hears of a higher epoch──▶ Standby
//! ```
//!
//! No promise rests on it ([`super::table`]): two that are active at once cost hits, and the higher epoch wins everywhere.
//! An epoch is (term, number), 16 bits each; a term's lowest four bits are its controller's index, so two never share one.
//!
//! A table travels as epoch, the set of living boxes, and where copies may be kept, by ranges of slots. Whoever answers with a lower epoch is sent
//! it again, once per heartbeat.
//!
//! **Draining.** An operator's order has a box leave the table while it lives, so that it can be stopped and nobody waits for it:
//!
//! ```text
//!  serving ──order──▶ draining: no way leads over it, nobody grants it anything, clients go round it, what it owns goes home
//!     ▲                  │ all homes and living boxes go by such a table; since then a lease has passed; nothing is left at it
//!     └──order── drained ◀┘
//! ```
//! Who has no such table yet, a home that began anew for example, takes *drained* back until it has. A box that is silent has nothing left: what it owned is
//! lost or home when the lease has passed. The set of such boxes travels in tables and among controllers; a controller that takes over goes on with it, and
//! waits for a lease of its own.
//!
//! **Homes that move.** An operator's order has a home be elsewhere from the next table on ([`super::moved`]), once he has seen its old life end:
//!
//! ```text
//!  old life ends ──▶ order: home 1 is there, of the next table's epoch ──▶ boxes and clients look for it there
//!                                        ╰──▶ the new life, which waited for this word: silent for a lease from now, then it serves
//! ```
//! Places travel in tables, in heartbeats to other controllers, and back in what boxes and controllers answer: whoever takes over learns what it was not
//! told, and makes a table of it. A controller that stands by keeps an order until it hears of one that makes the tables, which was told as well.
//!
//! Bounds: one entry per node of the layout.

use super::holders::Boxes;
use super::lease::{outlived, runs};
use super::moved::{Moved, Place};
use super::ranges::Ranges;
use super::table::Layout;
use super::{Config, NodeId, Out, Planted};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{BoxId, Control, Epoch, HomeId, Incarnation, Kind, Message, Opcode, Round, Version};
use base::Nanos;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Controllers that can stand by for each other.
pub const MAX_CONTROLLERS: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Standby,
    Active,
}

/// What a node said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Said {
    /// When; or when this controller began to listen.
    at: Nanos,
    /// The table that it goes by.
    epoch: Epoch,
    /// What a draining box has left.
    left: u64,
}

/// How far a box is that is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Drain {
    /// Somebody goes by an older table.
    Spreading,
    /// All know of it; leases run that were granted before, or something is left at the box.
    Waiting,
    /// It may be stopped.
    Drained,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller<B = NoBugs> {
    config: Config,
    planted: B,
    index: u8,
    controllers: u8,
    layout: Arc<Layout>,
    role: Role,
    /// The highest it has heard of; its own while it is active.
    epoch: Epoch,
    live: Boxes,
    /// As its file says.
    ranges: Arc<Ranges>,
    heard: BTreeMap<NodeId, Said>,
    /// Boxes that are to be stopped; while it is active each with the first table that says so, and since when all go by that.
    draining: BTreeMap<BoxId, (Epoch, Option<Nanos>)>,
    moved: Arc<Moved>,
    /// Homes that are to be elsewhere, which no table says yet.
    moving: BTreeMap<HomeId, SocketAddr>,
    /// When it last heard an active controller.
    heard_active: Nanos,
    beat_at: Nanos,
    round: u64,
}

impl Controller {
    /// Controller `index` of `controllers` (at most 16). It begins by listening.
    pub fn new(config: &Config, index: u8, controllers: u8, layout: Arc<Layout>, now: Nanos) -> Controller {
        Controller::with_bugs(config, (index, controllers), layout, now, NoBugs)
    }
}

impl<B: Bugs<Planted>> Controller<B> {
    /// The same, with mistakes made on purpose.
    pub fn with_bugs(
        config: &Config,
        (index, controllers): (u8, u8),
        layout: Arc<Layout>,
        now: Nanos,
        planted: B,
    ) -> Controller<B> {
        let live = layout.boxes().filter_map(Boxes::of).fold(Boxes::default(), Boxes::with);
        Controller {
            index: index % MAX_CONTROLLERS,
            controllers: controllers.min(MAX_CONTROLLERS),
            ranges: Arc::clone(layout.ranges()),
            moved: Arc::clone(layout.moved()),
            moving: BTreeMap::new(),
            layout,
            role: Role::Standby,
            epoch: Epoch(0),
            live,
            heard: BTreeMap::new(),
            draining: BTreeMap::new(),
            heard_active: now,
            beat_at: now,
            round: 0,
            config: config.clone(),
            planted,
        }
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.tick(now, out);
        let header = &message.header;
        match header.opcode {
            Opcode::Control(Control::Heartbeat) => {
                // Of another controller, which is active and says its epoch and table.
                if header.epoch >= self.epoch {
                    self.follow(now, header.epoch);
                    self.live = Boxes(header.operand);
                    self.order(Boxes(header.version.0));
                }
                self.hear_of_moves(now, message);
                let mut sign = sign_of_life(message, self.epoch, Incarnation(0));
                self.moved.tell(&mut sign);
                out.push((from, sign));
            }
            Opcode::Control(Control::HeartbeatAck | Control::TableAck) => {
                self.hear_life(now, from, message, out)
            }
            _ => {}
        }
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.role == Role::Standby && now >= self.takes_over_at() {
            self.take_over(now);
        }
        if self.role == Role::Active && now >= self.beat_at {
            self.beat(now, out);
        }
    }

    /// When [`Controller::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        match self.role {
            Role::Standby => self.takes_over_at(),
            Role::Active => self.beat_at,
        }
    }

    /// Whether it makes the tables.
    pub fn is_active(&self) -> bool {
        self.role == Role::Active
    }

    /// The highest epoch that it knows.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The boxes that it takes for alive.
    pub fn live(&self) -> Boxes {
        self.live
    }

    /// Where copies may be kept by the tables that it makes.
    pub fn ranges(&self) -> &Arc<Ranges> {
        &self.ranges
    }

    /// Copies may be kept as these ranges of its layout's slots say, from the next table on: at once if it makes the tables, else when it does.
    pub fn set_ranges(&mut self, now: Nanos, ranges: Ranges) {
        if *self.ranges != ranges {
            self.ranges = Arc::new(ranges);
            if self.role == Role::Active {
                self.number_next(now);
                self.beat_at = now;
            }
        }
    }

    /// These boxes are to be stopped, and all others serve, from the next table on: at once if it makes the tables. Boxes that its layout has not are left out.
    pub fn set_draining(&mut self, now: Nanos, draining: Boxes) {
        if self.order(draining) && self.role == Role::Active {
            self.number_next(now);
            self.beat_at = now;
        }
    }

    /// A home is there from the next table on: at once if it makes the tables, else if it comes to make them before it hears of another that does. Whoever
    /// calls this has seen the home's life end that was elsewhere. One that its layout has not, or that is there, is left as it is; whether it is another
    /// place.
    pub fn move_home(&mut self, now: Nanos, home: HomeId, address: SocketAddr) -> bool {
        let is_there = self.moved.of(home).is_some_and(|place| place.address == address);
        if !self.layout.has_home(home) || Place::new(address, self.epoch).is_none() {
            return false;
        }
        if is_there {
            self.moving.remove(&home);
            return false;
        }
        self.moving.insert(home, address);
        if self.role == Role::Active {
            self.number_next(now);
            self.name_places();
            self.beat_at = now;
        }
        true
    }

    /// Homes that have moved.
    pub fn moved(&self) -> &Arc<Moved> {
        &self.moved
    }

    /// Orders are of the table that it makes now.
    fn name_places(&mut self) {
        let epoch = self.epoch;
        let moving = std::mem::take(&mut self.moving).into_iter();
        let named = moving.filter_map(|(home, address)| Some((home, Place::new(address, epoch)?)));
        Moved::learn_into(&mut self.moved, &named.collect());
    }

    /// Somebody says where homes are. What is news to the one that makes the tables may be news to others, too.
    fn hear_of_moves(&mut self, now: Nanos, message: &Message) {
        let Some((told, _)) = Moved::told(message, &self.layout) else { return };
        if Moved::learn_into(&mut self.moved, &told) && self.role == Role::Active {
            self.number_next(now);
            self.beat_at = now;
        }
    }

    /// The boxes that are to be stopped.
    pub fn draining(&self) -> Boxes {
        self.draining.keys().filter_map(|id| Boxes::of(*id)).fold(Boxes::default(), Boxes::with)
    }

    /// How far each of them is, while it makes the tables.
    pub fn drains(&self, now: Nanos) -> Vec<(BoxId, Drain)> {
        let all = self.draining.keys().filter(|_| self.is_active());
        all.map(|id| (*id, self.drain_of(now, *id))).collect()
    }

    fn drain_of(&self, now: Nanos, id: BoxId) -> Drain {
        let (_, Some(since)) = self.draining[&id] else { return Drain::Spreading };
        if self.planted.has(Planted::DrainedEarly) {
            return Drain::Drained;
        }
        let said = self.heard.get(&NodeId::Box(id));
        let is_silent = said.is_none_or(|said| now.since(said.at) >= self.config.health);
        let is_empty = said.is_some_and(|said| said.left == 0);
        let waits = runs(outlived(since, self.config.lease), now) || !(is_silent || is_empty);
        if waits { Drain::Waiting } else { Drain::Drained }
    }

    /// Who is to be stopped from now on; whether that is another set.
    fn order(&mut self, draining: Boxes) -> bool {
        let before = self.draining();
        self.draining.retain(|id, _| draining.contains(*id));
        // The number of the next table.
        let next = Epoch(self.epoch.0.saturating_add(1));
        for id in self.layout.boxes().filter(|id| draining.contains(*id)) {
            self.draining.entry(id).or_insert((next, None));
        }
        before != self.draining()
    }

    /// Looks since when all go by a table that says of each box that it is to be stopped.
    fn note_spread(&mut self, now: Nanos) {
        let Controller { draining, heard, layout, live, .. } = self;
        for (id, (first, since)) in draining.iter_mut() {
            let goes = |node| heard.get(&node).is_some_and(|said: &Said| said.epoch >= *first);
            let is_silent =
                heard.get(&NodeId::Box(*id)).is_some_and(|said| now.since(said.at) >= self.config.health);
            let all = layout.homes().all(|home| goes(NodeId::Home(home)))
                && live.iter().all(|other| goes(NodeId::Box(other)))
                && (is_silent || goes(NodeId::Box(*id)));
            *since = since.filter(|_| all).or(all.then_some(now));
        }
    }

    /// How long it has heard nothing of boxes and homes, while it makes the tables.
    pub fn silences(&self, now: Nanos) -> Vec<(NodeId, Nanos)> {
        let all = self.heard.iter().filter(|_| self.is_active());
        all.map(|(node, heard)| (*node, now.since(heard.at))).collect()
    }

    /// The first by index waits shortest, so that seldom two take over at once.
    fn takes_over_at(&self) -> Nanos {
        self.heard_active.plus(Nanos(self.config.health.0.saturating_mul(2 + u64::from(self.index))))
    }

    fn follow(&mut self, now: Nanos, epoch: Epoch) {
        self.role = Role::Standby;
        self.epoch = epoch;
        self.heard_active = now;
        self.moving.clear();
    }

    fn take_over(&mut self, now: Nanos) {
        // Above every epoch that it knows of: of tables, and of places in its file, which outlive all tables.
        let term = self.epoch.max(self.moved.newest()).0 >> 16;
        // The next that has this index in its lowest bits. After 4096 turns of office there is none higher: it stays.
        let next = (term / 16 + 1) * 16 + u32::from(self.index);
        if next > 0xffff {
            self.heard_active = now;
            return;
        }
        self.role = Role::Active;
        self.epoch = Epoch(next << 16);
        self.heard.clear();
        // It has heard nobody go by any table yet.
        let epoch = self.epoch;
        self.draining.values_mut().for_each(|drain| *drain = (epoch, None));
        self.name_places();
        self.beat_at = now;
    }

    fn beat(&mut self, now: Nanos, out: &mut Out) {
        self.beat_at = now.plus(self.config.heartbeat);
        self.round += 1;
        let mut live = Boxes::default();
        let unheard = Said { at: now, epoch: Epoch(0), left: 0 };
        for id in self.layout.boxes() {
            let heard = *self.heard.entry(NodeId::Box(id)).or_insert(unheard);
            if now.since(heard.at) < self.config.health && !self.draining.contains_key(&id) {
                live = live.with(Boxes::of(id).expect("a layout's boxes have ids that sets can have"));
            }
        }
        let changed = live != self.live;
        self.live = live;
        if changed {
            self.number_next(now);
        }
        // No table says who of these lives; operators want to know.
        for id in self.layout.homes() {
            self.heard.entry(NodeId::Home(id)).or_insert(unheard);
        }
        self.note_spread(now);
        let boxes = self.layout.boxes().map(NodeId::Box);
        let others = (0..self.controllers).filter(|i| *i != self.index).map(NodeId::Controller);
        for node in boxes.chain(self.layout.homes().map(NodeId::Home)).chain(others) {
            out.push((node, self.message(Control::Heartbeat)));
        }
    }

    /// The table has changed.
    fn number_next(&mut self, now: Nanos) {
        if self.epoch.0 & 0xffff == 0xffff || self.epoch < self.moved.newest() {
            self.role = Role::Standby;
            self.take_over(now);
        } else {
            self.epoch.0 += 1;
        }
    }

    fn hear_life(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let epoch = message.header.epoch;
        if epoch > self.epoch {
            self.follow(now, epoch);
            return self.hear_of_moves(now, message);
        }
        if self.role != Role::Active || matches!(from, NodeId::Client(_)) {
            return;
        }
        self.hear_of_moves(now, message);
        if let Some(heard) = self.heard.get_mut(&from) {
            *heard = Said { at: now, epoch, left: message.header.operand };
            self.note_spread(now);
        }
        let is_beat = message.header.opcode == Opcode::Control(Control::HeartbeatAck);
        if is_beat && epoch < self.epoch && !matches!(from, NodeId::Controller(_)) {
            out.push((from, self.message(Control::Table)));
        }
    }

    fn message(&self, what: Control) -> Message {
        let mut message = Message::new(Opcode::Control(what), &[]);
        message.header.epoch = self.epoch;
        message.header.operand = self.live.0;
        message.header.version = Version(self.draining().0);
        message.header.round = Round(self.round);
        if what == Control::Table {
            message.header.kind = Kind::Table;
            message.value = self.ranges.to_bytes();
        }
        self.moved.tell(&mut message);
        message
    }
}

/// What a node answers to a heartbeat or table.
pub fn sign_of_life(asked: &Message, epoch: Epoch, incarnation: Incarnation) -> Message {
    let is_table = asked.header.opcode == Opcode::Control(Control::Table);
    let opcode = Opcode::Control(if is_table { Control::TableAck } else { Control::HeartbeatAck });
    let mut message = Message::new(opcode, &[]);
    message.header.epoch = epoch;
    message.header.round = asked.header.round;
    message.header.incarnation = incarnation;
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::BoxId;

    fn controller(index: u8) -> Controller {
        let layout = Arc::new(Layout::two_levels(2, 1, 1, 1).expect("a layout"));
        Controller::new(&Config::default(), index, 2, layout, Nanos(0))
    }

    fn answer_all(controller: &mut Controller, now: Nanos, sent: Out, dead: BoxId, epoch: Epoch) -> Out {
        let mut out = Vec::new();
        for (to, message) in sent.iter().filter(|(to, _)| *to != NodeId::Box(dead)) {
            controller.handle(now, *to, &sign_of_life(message, epoch, Incarnation(1)), &mut out);
        }
        out
    }

    #[test]
    fn a_silent_box_is_left_out_of_the_next_table_and_comes_back() {
        let mut active = controller(0);
        let mut now = active.next_deadline();
        for (dead, live) in [(2, 0b101), (9, 0b111)] {
            for _ in 0..8 {
                let mut out = Vec::new();
                active.tick(now, &mut out);
                let tables = answer_all(&mut active, now, out, BoxId(dead), Epoch(0));
                assert!(tables.iter().all(|(_, m)| m.header.opcode == Opcode::Control(Control::Table)));
                assert!(!tables.is_empty(), "who has an old epoch gets the table");
                now = active.next_deadline();
            }
            assert_eq!(active.live().0, live);
            let silent =
                active.silences(now).into_iter().filter(|(_, silence)| *silence > active.config.heartbeat);
            let silent: Vec<_> = silent.map(|(node, _)| node).collect();
            assert_eq!(silent, if dead == 2 { vec![NodeId::Box(BoxId(2))] } else { Vec::new() });
        }
        assert_eq!(active.epoch().0 & 0xffff, 2);
    }

    #[test]
    fn the_second_takes_over_and_the_first_follows() {
        let (mut first, mut second) = (controller(0), controller(1));
        first.tick(first.next_deadline(), &mut Vec::new());
        assert!(first.is_active() && !second.is_active());
        let mut beats = Vec::new();
        let at = second.next_deadline();
        second.tick(at, &mut beats);
        assert!(second.is_active() && second.epoch() > first.epoch());
        let (_, beat) = beats.iter().find(|(to, _)| *to == NodeId::Controller(0)).expect("it says so");
        let mut out = Vec::new();
        first.handle(at, NodeId::Controller(1), beat, &mut out);
        assert!(!first.is_active());
        assert_eq!(first.epoch(), second.epoch());
        assert!(first.next_deadline() > at);
    }
}
