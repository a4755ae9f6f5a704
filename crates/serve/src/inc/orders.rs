//! What an operator changes of a controller that runs: its file is read anew, and its thread takes up what is new there before its next turn.
//!
//! Bounds: the last that was said, until it is taken.

use super::machine::{Counters, Machine};
use base::Nanos;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::{Controller, NodeId, Out};
use protocol::wire::Message;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is to be taken up, for all controllers of a process; each has a clone.
#[derive(Clone, Debug, Default)]
pub struct Orders(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Where copies may be kept, and how often that was said.
    ranges: Mutex<(u64, Ranges)>,
    /// Something was said at all: what a turn looks at.
    is_said: AtomicBool,
}

impl Orders {
    /// Copies may be kept so.
    pub fn set_ranges(&self, ranges: Ranges) {
        let mut said = self.0.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        *said = (said.0 + 1, ranges);
        // The lock orders what is read after this was seen.
        self.0.is_said.store(true, Ordering::Relaxed);
    }

    /// What was said after the `heard`-th time.
    fn since(&self, heard: &mut u64) -> Option<Ranges> {
        if !self.0.is_said.load(Ordering::Relaxed) {
            return None;
        }
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
}

impl Ordered {
    /// A controller, and what it is told.
    pub fn new(controller: Controller, orders: Orders) -> Ordered {
        Ordered { controller, orders, heard: 0 }
    }
}

impl Machine for Ordered {
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.controller.handle(now, from, message, out);
    }

    fn tick(&mut self, now: Nanos, out: &mut Out) {
        if let Some(ranges) = self.orders.since(&mut self.heard) {
            self.controller.set_ranges(now, ranges);
        }
        self.controller.tick(now, out);
    }

    fn next_deadline(&self) -> Nanos {
        self.controller.next_deadline()
    }

    fn counters(&self) -> Counters {
        Machine::counters(&self.controller)
    }

    fn silences(&self, now: Nanos) -> Vec<(NodeId, Nanos)> {
        self.controller.silences(now)
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
