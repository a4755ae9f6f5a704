//! Boxes that are drained: in a third of all runs operators have controllers take boxes out of the table while the cluster runs, and take them in again.
//!
//! All controllers that are up are told at one moment; one that comes up reads what is so by then, as if from its file. When the newest of those that
//! make tables says that a box is drained, no home that goes by such a table may have to wait for the box, and nothing is left there.

use super::nodes::Machine;
use super::topology::Topology;
use super::world::World;
use base::Picos;
use protocol::coherence::controller::Drain;
use protocol::coherence::holders::Boxes;
use protocol::wire::BoxId;
use sim::nodes::Node;
use sim::random;

/// When which boxes are to be stopped.
pub fn draw(seed: u64, topology: &Topology, until: Picos) -> Vec<(Picos, Boxes)> {
    let mut random = random::stream(seed, 0, "drains");
    if topology.controllers == 0 || random.below(3) > 0 {
        return Vec::new();
    }
    let orders = 1 + random.below(3);
    let order = |_| {
        let at = Picos(1 + random.below(until.0 - 1));
        let some = topology.layout.boxes().filter(|_| random.below(2) == 0).filter_map(Boxes::of);
        (at, some.fold(Boxes::default(), Boxes::with))
    };
    let mut orders: Vec<_> = (0..orders).map(order).collect();
    orders.sort_by_key(|(at, _)| *at);
    orders
}

impl World<'_> {
    /// Boxes are to be stopped as place `i` of the script says.
    pub(super) fn order_drains(&mut self, i: usize) {
        let script = self.script;
        self.note(|_| format!("drains         {:?} from now on", script.drains[i].1));
        for node in self.numbers.controllers() {
            self.read_drains(node);
            if self.places[node as usize].machine.is_some() {
                self.act(node, 0, None);
            }
        }
    }

    /// A controller goes by what is so now.
    pub(super) fn read_drains(&mut self, node: Node) {
        let now = self.queue.now();
        let Some((_, draining)) = self.script.drains.iter().rfind(|(at, _)| *at <= now) else { return };
        let place = &mut self.places[node as usize];
        let at = place.clock.read(now);
        if let Some(Machine::Controller(controller)) = &mut place.machine {
            controller.set_draining(at, *draining);
        }
    }

    /// Whoever is drained may be stopped.
    pub(super) fn look_at_controller(&mut self, node: Node) {
        let controllers = self.numbers.controllers();
        let epoch = |node: Node| match &self.places[node as usize].machine {
            Some(Machine::Controller(controller)) if controller.is_active() => Some(controller.epoch()),
            _ => None,
        };
        if epoch(node).is_none() || controllers.into_iter().any(|other| epoch(other) > epoch(node)) {
            return;
        }
        let place = &self.places[node as usize];
        let Some(Machine::Controller(controller)) = &place.machine else { return };
        let drains = controller.drains(place.clock.read(self.queue.now()));
        let drained = drains.into_iter().filter(|(_, drain)| *drain == Drain::Drained).map(|(id, _)| id);
        if let Some(what) = drained.collect::<Vec<_>>().into_iter().find_map(|id| self.wrong_drain(id)) {
            self.broken(what, b"");
        }
    }

    fn wrong_drain(&self, id: BoxId) -> Option<String> {
        self.places.iter().find_map(|place| {
            let now = place.clock.read(self.queue.now());
            match &place.machine {
                Some(Machine::Home(home)) if home.may_wait_for(id, now) => {
                    Some(format!("box {id} is drained, and home {} may wait for it", home.id()))
                }
                Some(Machine::Box(machine)) if machine.id() == id => {
                    let left: u64 =
                        machine.shards().filter(|shard| shard.is_draining()).map(|shard| shard.left()).sum();
                    (left > 0).then(|| format!("box {id} is drained, and has {left} left"))
                }
                _ => None,
            }
        })
    }
}
