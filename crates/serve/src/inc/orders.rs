//! What an operator changes of a controller that runs: its file is read anew, or its admin port is told, and its thread takes up what is new before
//! its next turn.
//!
//! Bounds: the last that was said of each thing.

use super::machine::{Counters, Machine};
use base::Nanos;
use protocol::coherence::holders::Boxes;
use protocol::coherence::moved::Moved;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::{Controller, NodeId, Out};
use protocol::wire::{BoxId, HomeId, Message};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is to be taken up, for all controllers of a process; each has a clone.
#[derive(Clone, Debug, Default)]
pub struct Orders(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Where copies may be kept, and how often that was said.
    ranges: Mutex<(u64, Ranges)>,
    /// Boxes that are to be stopped or to serve again.
    drains: Mutex<Words<BoxId, bool>>,
    /// Homes that are to be elsewhere.
    moves: Mutex<Words<HomeId, SocketAddr>>,
    /// Something was said at all: what a turn looks at.
    is_said: AtomicBool,
}

/// What was said of boxes, or of homes. A controller that was told the first so many goes on behind them.
#[derive(Debug)]
struct Words<K, V> {
    told: u64,
    /// The last word on each.
    last: BTreeMap<K, (u64, V)>,
}

impl<K, V> Default for Words<K, V> {
    fn default() -> Words<K, V> {
        Words { told: 0, last: BTreeMap::new() }
    }
}

impl<K: Ord, V> Words<K, V> {
    fn say(&mut self, of: K, word: V) {
        self.told += 1;
        self.last.insert(of, (self.told, word));
    }

    /// What was said after the `heard`-th time, which is by now.
    fn since(&self, heard: &mut u64) -> impl Iterator<Item = (&K, &V)> {
        let before = std::mem::replace(heard, self.told);
        self.last.iter().filter(move |(_, (told, _))| *told > before).map(|(of, (_, word))| (of, word))
    }
}

impl Orders {
    /// Copies may be kept so.
    pub fn set_ranges(&self, ranges: Ranges) {
        let mut said = self.0.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        *said = (said.0 + 1, ranges);
        // The lock orders what is read after this was seen.
        self.0.is_said.store(true, Ordering::Relaxed);
    }

    /// These boxes are to be stopped, or to serve again.
    pub fn set_draining(&self, said: impl IntoIterator<Item = (BoxId, bool)>) {
        let mut drains = self.0.drains.lock().unwrap_or_else(PoisonError::into_inner);
        said.into_iter().for_each(|(id, is_draining)| drains.say(id, is_draining));
        self.0.is_said.store(true, Ordering::Relaxed);
    }

    /// This home is to be there. Its life elsewhere has ended.
    pub fn move_home(&self, home: HomeId, address: SocketAddr) {
        let mut moves = self.0.moves.lock().unwrap_or_else(PoisonError::into_inner);
        moves.say(home, address);
        self.0.is_said.store(true, Ordering::Relaxed);
    }

    fn is_said(&self) -> bool {
        self.0.is_said.load(Ordering::Relaxed)
    }

    /// Who is to be stopped, where `now` are, and something was said after the `heard`-th time.
    fn draining_since(&self, heard: &mut u64, now: Boxes) -> Option<Boxes> {
        let drains = self.0.drains.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *heard;
        let draining = drains.since(heard).fold(now, |all, (id, is_draining)| {
            let one = Boxes::of(*id).unwrap_or_default();
            if *is_draining { all.with(one) } else { all.without(one) }
        });
        (*heard != before).then_some(draining)
    }

    /// Which homes are to be where, of what was said after the `heard`-th time.
    fn moves_since(&self, heard: &mut u64) -> Vec<(HomeId, SocketAddr)> {
        let moves = self.0.moves.lock().unwrap_or_else(PoisonError::into_inner);
        moves.since(heard).map(|(home, address)| (*home, *address)).collect()
    }

    /// What was said after the `heard`-th time.
    fn since(&self, heard: &mut u64) -> Option<Ranges> {
        let said = self.0.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = std::mem::replace(heard, said.0) != said.0;
        is_new.then(|| said.1.clone())
    }
}

/// A controller that takes them up.
#[derive(Debug)]
pub struct Ordered {
    controller: Controller,
    orders: Orders,
    heard: u64,
    heard_drains: u64,
    heard_moves: u64,
}

impl Ordered {
    /// A controller, and what it is told.
    pub fn new(controller: Controller, orders: Orders) -> Ordered {
        Ordered { controller, orders, heard: 0, heard_drains: 0, heard_moves: 0 }
    }
}

impl Machine for Ordered {
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.controller.handle(now, from, message, out);
    }

    fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.orders.is_said() {
            if let Some(ranges) = self.orders.since(&mut self.heard) {
                self.controller.set_ranges(now, ranges);
            }
            let before = self.controller.draining();
            if let Some(draining) = self.orders.draining_since(&mut self.heard_drains, before) {
                self.controller.set_draining(now, draining);
            }
            for (home, address) in self.orders.moves_since(&mut self.heard_moves) {
                self.controller.move_home(now, home, address);
            }
        }
        self.controller.tick(now, out);
    }

    fn next_deadline(&self) -> Nanos {
        self.controller.next_deadline()
    }

    fn counters(&self) -> Counters {
        Machine::counters(&self.controller)
    }

    fn moved(&self) -> Option<&Arc<Moved>> {
        Some(self.controller.moved())
    }

    fn silences(&self, now: Nanos) -> Vec<(NodeId, Nanos)> {
        self.controller.silences(now)
    }

    fn drains(&self, now: Nanos) -> Vec<(BoxId, bool)> {
        Machine::drains(&self.controller, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::coherence::Config;
    use protocol::coherence::ranges::{Caching, Range};
    use protocol::coherence::table::Layout;
    use protocol::wire::{Control, Opcode};

    #[test]
    fn boxes_are_drained_and_come_back_by_the_last_word_on_each() {
        let orders = Orders::default();
        let layout = Arc::new(Layout::two_levels(3, 0, 1, 8).expect("a layout"));
        let controller = Controller::new(&Config::default(), 0, 1, layout, Nanos(0));
        let mut one = Ordered::new(controller, orders.clone());
        let mut now = one.next_deadline();
        let mut after = |said: &[(u16, bool)]| {
            orders.set_draining(said.iter().map(|(id, drains)| (BoxId(*id), *drains)));
            now = now.plus(Nanos(1));
            one.tick(now, &mut Out::new());
            one.controller.draining().0
        };
        assert_eq!(after(&[(1, true), (3, true)]), 0b101);
        assert_eq!(after(&[(2, true), (1, false), (2, false)]), 0b100);
        assert_eq!(after(&[]), 0b100);
        assert_eq!(after(&[(9, true)]), 0b100, "there is no such box");
        assert_eq!(after(&[(3, false)]), 0);
    }

    #[test]
    fn homes_are_where_the_last_word_has_them() {
        let orders = Orders::default();
        let layout = Arc::new(Layout::two_levels(1, 0, 2, 8).expect("a layout"));
        let controller = Controller::new(&Config::default(), 0, 1, layout, Nanos(0));
        let mut one = Ordered::new(controller, orders.clone());
        let mut now = one.next_deadline();
        let mut after = |said: &[(u16, u16)]| {
            for (home, port) in said {
                orders.move_home(HomeId(*home), SocketAddr::from(([10, 0, 0, 1], *port)));
            }
            now = now.plus(Nanos(1));
            one.tick(now, &mut Out::new());
            let moved = Machine::moved(&one).expect("it sends to homes").iter();
            moved
                .map(|(home, place)| (home.0, place.address.port(), place.epoch.0 & 0xffff))
                .collect::<Vec<_>>()
        };
        assert_eq!(after(&[]), []);
        assert_eq!(after(&[(1, 7), (1, 8)]), [(1, 8, 1)]);
        assert_eq!(after(&[(1, 8)]), [(1, 8, 1)], "it is there");
        assert_eq!(after(&[(3, 9), (2, 0)]), [(1, 8, 1)], "there is no such home, and no such port");
        assert_eq!(after(&[(2, 9)]), [(1, 8, 1), (2, 9, 2)]);
    }

    #[test]
    fn what_is_said_is_taken_up_once_by_each() {
        let orders = Orders::default();
        let layout = Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout"));
        let new = |index| {
            let controller = Controller::new(&Config::default(), index, 2, layout.clone(), Nanos(0));
            Ordered::new(controller, orders.clone())
        };
        let mut both = [new(0), new(1)];
        let mut out = Out::new();
        let mut now = both[0].next_deadline();
        both[0].tick(now, &mut out);
        let first = both[0].controller.epoch();
        let range = Range { first: 2, last: 3, caching: Caching::Nowhere };
        let ranges = Ranges::new(vec![range], 8).expect("ranges");
        orders.set_ranges(ranges.clone());
        for _ in 0..2 {
            now = now.plus(Nanos(1));
            out.clear();
            both.iter_mut().for_each(|one| one.tick(now, &mut out));
        }
        assert!(both.iter().all(|one| **one.controller.ranges() == ranges));
        assert_eq!(both[0].controller.epoch().0, first.0 + 1, "a table of its own, once");
        // Whoever goes by the one before is sent it.
        let mut beat = Message::new(Opcode::Control(Control::HeartbeatAck), &[]);
        beat.header.epoch = first;
        out.clear();
        both[0].handle(now, NodeId::Box(protocol::wire::BoxId(1)), &beat, &mut out);
        let said = out.iter().find(|(_, said)| said.header.opcode == Opcode::Control(Control::Table));
        assert_eq!(said.map(|(_, table)| table.value.clone()), Some(ranges.to_bytes()));
    }
}
