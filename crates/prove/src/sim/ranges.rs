//! Where copies may be kept: in a third of all runs some ranges of slots are for some boxes only, and which they are changes while the cluster runs.
//!
//! All controllers are told at one moment, those that are up; one that comes up reads what is so by then, as if from its file. What each table says
//! reaches boxes late, or is overtaken, like any message.

use super::nodes::{Machine, SimulatedBox};
use super::topology::Topology;
use super::world::World;
use base::{Nanos, Picos, Prng};
use protocol::coherence::holders::Boxes;
use protocol::coherence::lease::runs;
use protocol::coherence::ranges::{Caching, Range, Ranges};
use protocol::coherence::table::Layout;
use sim::nodes::Node;
use sim::random;
use std::sync::Arc;

/// A topology's layout with what is so at first, and what is so later.
pub fn draw(seed: u64, topology: &Topology, until: Picos) -> (Arc<Layout>, Vec<(Picos, Ranges)>) {
    let mut random = random::stream(seed, 0, "ranges");
    if random.below(3) > 0 {
        return (Arc::clone(&topology.layout), Vec::new());
    }
    let first = draw_ranges(&mut random, &topology.layout);
    let layout = (*topology.layout).clone().with_ranges(first).expect("they name its boxes");
    let changes = if topology.controllers == 0 { 0 } else { random.below(3) };
    let change = |_| (Picos(1 + random.below(until.0 - 1)), draw_ranges(&mut random, &layout));
    let mut changes: Vec<_> = (0..changes).map(change).collect();
    changes.sort_by_key(|(at, _)| *at);
    (Arc::new(layout), changes)
}

fn draw_ranges(random: &mut Prng, layout: &Layout) -> Ranges {
    let slots = layout.slots() as u64;
    let mut ranges = Vec::new();
    let mut first = random.below(slots / 2 + 1);
    while first < slots && ranges.len() < 3 {
        let last = first + random.below(slots - first);
        let some = layout.boxes().filter(|_| random.below(2) == 0).filter_map(Boxes::of);
        let some = some.fold(Boxes::default(), Boxes::with);
        let caching = match random.below(4) {
            0 => Caching::Nowhere,
            1 if !some.is_empty() => Caching::Only(some),
            _ => Caching::Cluster,
        };
        ranges.push(Range { first: first as u16, last: last as u16, caching });
        first = last + 1 + random.below(slots / 2);
    }
    Ranges::new(ranges, layout.slots()).expect("they rise")
}

/// A copy that a box could answer from and may not have, by the table that it goes by; and its key.
pub fn wrong(cache: &SimulatedBox, now: Nanos) -> Option<(Vec<u8>, String)> {
    let (id, mut machines) = (cache.id(), cache.shards());
    machines.find_map(|machine| {
        let table = machine.table();
        let of = |hash| table.ranges().of(table.layout().slot_of(hash));
        let is_kept_away = |caching| match caching {
            Caching::Nowhere => true,
            Caching::Only(boxes) => !boxes.contains(id),
            Caching::All | Caching::Cluster => false,
        };
        let mut copies = machine.copies().filter(|kept| runs(kept.end(), now));
        let kept = copies.find(|kept| is_kept_away(of(kept.hash)))?;
        let (key, epoch, caching) = (kept.key.escape_ascii(), table.epoch(), of(kept.hash));
        Some((
            kept.key.clone(),
            format!("box {id} has a copy of {key}; table {epoch} has it kept by: {caching}"),
        ))
    })
}

impl World<'_> {
    /// Copies may be kept as place `i` of the script says.
    pub(super) fn set_ranges(&mut self, i: usize) {
        let script = self.script;
        self.note(|_| format!("ranges        are {:?} from now on", script.ranges[i].1));
        for node in self.numbers.controllers() {
            self.read_ranges(node);
            if self.places[node as usize].machine.is_some() {
                self.act(node, 0, None);
            }
        }
    }

    /// A controller goes by what is so now.
    pub(super) fn read_ranges(&mut self, node: Node) {
        let now = self.queue.now();
        let Some((_, ranges)) = self.script.ranges.iter().rfind(|(at, _)| *at <= now) else { return };
        let place = &mut self.places[node as usize];
        let at = place.clock.read(now);
        if let Some(Machine::Controller(controller)) = &mut place.machine {
            controller.set_ranges(at, ranges.clone());
        }
    }
}
