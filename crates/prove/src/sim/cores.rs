//! Boxes of several cores: which core hears a packet, and what cores tell each other, late, and sometimes not at all.
//!
//! A packet goes to the core of its hash, but for one in [`STRAY`]: sockets of one port that are bound one after the other hand out packets before
//! they know how.
//! What is drawn is drawn of the packet and the moment, so that a shrinker may take operations away and the others stay what they are.

use super::nodes::Machine;
use super::script::DELAY;
use super::world::{Happening, World};
use base::Picos;
use base::prng::mix64;
use protocol::coherence::boxes::shards::{Aside, Shard};
use sim::nodes::Node;
use std::collections::HashMap;

/// One packet in so many meets the wrong core.
const STRAY: u64 = 40;
/// Of what cores tell each other one in so many is lost: the queue was full.
const LOST: u64 = 20;
/// Of the same one in so many comes late: the thread did not run.
const LATE: u64 = 10;

/// When what one core of a node told another last is heard: none overtakes another.
#[derive(Debug, Default)]
pub struct Between(HashMap<(Node, u8, u8), Picos>);

impl World<'_> {
    /// The core of a node that hears a packet.
    pub(super) fn core_for(&self, node: Node, bytes: &[u8]) -> u8 {
        let of = match &self.places[node as usize].machine {
            Some(Machine::Box(machine)) if machine.of() > 1 => machine.of(),
            _ => return 0,
        };
        let right = Shard::of_datagram(bytes, of);
        let sum = bytes.get(16..24).and_then(|sum| sum.try_into().ok()).map_or(0, u64::from_le_bytes);
        let drawn = self.draw(sum ^ u64::from(node));
        match drawn % STRAY {
            0 if !self.is_calm => (right + 1 + (drawn >> 32) as u8 % (of - 1)) % of,
            _ => right,
        }
    }

    /// What cores of a node told each other is under way.
    pub(super) fn send_asides(&mut self, node: Node) {
        let place = &mut self.places[node as usize];
        let Some(Machine::Box(machine)) = &mut place.machine else { return };
        let life = place.life;
        for (by, at, aside) in machine.take_asides() {
            let drawn = self.draw(u64::from(node) << 16 | u64::from(by) << 8 | u64::from(at));
            if drawn.is_multiple_of(LOST) && !self.is_calm {
                self.note(|names| {
                    format!("{:<13} core {by} tells {at}, which is lost: {aside:?}", names.name(node))
                });
                continue;
            }
            let is_late = (drawn >> 16).is_multiple_of(LATE) && !self.is_calm;
            let most = if is_late { Picos::from(self.script.config.lease).0 / 2 } else { DELAY.0 };
            let now = self.now().plus(Picos(1 + (drawn >> 24) % most));
            let last = self.between.0.entry((node, by, at)).or_default();
            *last = now.max(*last);
            self.queue.push(*last, node, Happening::Aside { life, by, at, aside });
        }
    }

    /// A core hears what another told it, if they are the same that they were.
    pub(super) fn hear_aside(&mut self, node: Node, life: u32, (by, at): (u8, u8), aside: Aside) {
        let place = &mut self.places[node as usize];
        let now = place.clock.read(self.queue.now());
        if place.life != life {
            return;
        }
        let Some(Machine::Box(machine)) = &mut place.machine else { return };
        let mut out = std::mem::take(&mut self.out);
        machine.hear((by, at), aside, now, &mut out);
        self.acted(node, None, &mut out);
        self.out = out;
    }

    fn draw(&self, of: u64) -> u64 {
        mix64(self.script.seed ^ mix64(of ^ mix64(self.now().0)))
    }
}
