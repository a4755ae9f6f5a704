//! What messages cost on the published rack: legs of its switches, boxes and hosts.
//!
//! Every message goes to the box of every switch on its way, that does what its machine says, and comes back; a switch with the key-hit filter (§4.5) sends a
//! GET to its box only if the box has the key. Sizes are the published ones: a value stands for as many bytes as the platform says, whatever our machines
//! write into it. The answer to an invalidation has no key, so that boxes do nothing with it (`model::system::incbricks::rack::Work::Bounce`), and is counted
//! by the server without its stack's time, as the invalidation is sent: the paper prints one 20 us for stack and server, coherence included.

use super::machines::Timeless;
use crate::timed::net::{Hardware, Thread};
use model::system::incbricks::rack::{Leg, ROOTS, Rack, TORS, Which, Work};
use model::{ProgramId, Sim, Step};
use protocol::coherence::NodeId;
use protocol::coherence::published::PublishedBox;
use protocol::coherence::table::Layout;
use protocol::wire::{Control, Message, Opcode, Verb, key_hash};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Boxes, by their switches: ToRs first.
pub type Boxes = Rc<[Rc<RefCell<Timeless<PublishedBox>>>]>;

/// What stands for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valued {
    /// An item.
    Item,
    /// A number to compute with.
    Number,
}

/// The rack as hardware of its machines.
pub struct Legs {
    /// Its kernel is in the simulation.
    pub rack: Rack,
    /// If switches ask before they send a GET to their box.
    pub filter: Option<Boxes>,
    valued: Valued,
    layout: Arc<Layout>,
    /// Programs of legs in a row. Never iterated.
    programs: RefCell<HashMap<Box<[Leg]>, ProgramId>>,
}

/// The slots of a layout of so many homes: for each home and root one.
pub fn slots(homes: usize) -> usize {
    (homes * ROOTS).next_power_of_two()
}

/// The switch of this node; of a client and a home it is not needed.
fn switch(of: NodeId) -> usize {
    match of {
        NodeId::Box(id) => usize::from(id.0) - 1,
        other => unreachable!("{other:?} is no box"),
    }
}

fn which(of: NodeId) -> Which {
    match of {
        NodeId::Client(id) => Which::One(id.0 as usize - 1),
        NodeId::Home(id) => Which::One(usize::from(id.0) - 1),
        other => unreachable!("{other:?} is no host of this rack"),
    }
}

impl Legs {
    /// Of a rack whose kernel has gone into a simulation.
    pub fn new(rack: Rack, filter: Option<Boxes>, valued: Valued, layout: Arc<Layout>) -> Legs {
        Legs { rack, filter, valued, layout, programs: RefCell::default() }
    }

    /// Bytes of a message as published, without headers of the network.
    fn bytes(&self, message: &Message) -> u64 {
        let sizes = self.rack.sizes;
        match message.header.opcode {
            Opcode::Control(Control::InvalidateAck) => sizes.bare,
            Opcode::Control(Control::Return) | Opcode::Request(Verb::Incr | Verb::CondPut) => sizes.number,
            _ if message.value.is_empty() => sizes.key,
            _ if self.valued == Valued::Number => sizes.number,
            _ => sizes.value,
        }
    }

    /// What a message takes from one node to the other's switch or host. `inside`: it leaves the box, or was sent on before it.
    pub fn way(&self, (from, to): (NodeId, NodeId), message: &Message, inside: bool) -> Vec<Leg> {
        let bytes = self.bytes(message);
        let control = matches!(message.header.opcode, Opcode::Control(_));
        let mut legs = Vec::with_capacity(8);
        match from {
            NodeId::Client(_) => legs.push(Leg::ClientSends(which(from), bytes)),
            NodeId::Home(_) if control => legs.push(Leg::FromServer(which(from), bytes)),
            NodeId::Home(_) => legs.push(Leg::ServerSends(which(from), bytes)),
            _ if inside => legs.push(Leg::Leave(switch(from), bytes)),
            _ => {}
        }
        match (from, to) {
            (NodeId::Box(_), NodeId::Box(_)) => legs.push(Leg::Trunk(switch(from), switch(to), bytes)),
            (NodeId::Client(_), NodeId::Home(_)) => {
                let switches = self.switches(from, to, message);
                legs.extend(switches.windows(2).map(|pair| Leg::Trunk(pair[0], pair[1], bytes)));
            }
            (NodeId::Home(_), NodeId::Client(_)) => {
                let switches = self.switches(to, from, message);
                legs.extend(switches.windows(2).rev().map(|pair| Leg::Trunk(pair[1], pair[0], bytes)));
            }
            // Both are at the same switch.
            _ => {}
        }
        match to {
            NodeId::Client(_) => legs.push(Leg::ClientReceives(which(to), bytes)),
            NodeId::Home(_) if message.header.opcode == Opcode::Control(Control::InvalidateAck) => {
                legs.push(Leg::ToServer(which(to), bytes));
            }
            NodeId::Home(_) => {
                legs.extend([Leg::ServerReceives(which(to), bytes), Leg::Serves(which(to))]);
            }
            _ => {}
        }
        legs
    }

    /// Into the box of a switch, unless the switch sends the message on by itself.
    pub fn detour(&self, at: NodeId, message: &Message) -> Option<Leg> {
        let NodeId::Box(_) = at else { return None };
        let opcode = message.header.opcode;
        let has = |boxes: &Boxes| boxes[switch(at)].borrow().0.kept(&message.key).is_some();
        if opcode == Opcode::Request(Verb::Get) && self.filter.as_ref().is_some_and(|boxes| !has(boxes)) {
            return None;
        }
        let bounces = opcode == Opcode::Control(Control::InvalidateAck);
        let work = if bounces { Work::Bounce } else { Work::Key };
        Some(Leg::Enter(switch(at), self.bytes(message), work))
    }

    /// Where no box takes part.
    fn switches(&self, client: NodeId, home: NodeId, message: &Message) -> Vec<usize> {
        let (Which::One(client), Which::One(home)) = (which(client), which(home)) else { return Vec::new() };
        let root = self.layout.slot_of(key_hash(&message.key)) / self.rack.servers() % ROOTS;
        self.rack.switches(client, home, root).to_vec()
    }

    fn program(&self, sim: &Sim, legs: &[Leg]) -> ProgramId {
        if let Some(program) = self.programs.borrow().get(legs) {
            return *program;
        }
        let steps: Vec<Step> =
            legs.iter().flat_map(|leg| self.rack.steps(*leg)).map(|(_, step)| step).collect();
        let program = sim.with(|kernel| kernel.program("legs", steps));
        self.programs.borrow_mut().insert(legs.into(), program);
        program
    }
}

impl Hardware for Legs {
    fn thread(&self, _: NodeId) -> Option<Thread> {
        None
    }

    fn receive(&self, sim: &Sim, at: NodeId, message: &Message) -> Option<ProgramId> {
        self.detour(at, message).map(|leg| self.program(sim, &[leg]))
    }

    fn carry(&self, sim: &Sim, way: (NodeId, NodeId), message: &Message, inside: bool) -> ProgramId {
        self.program(sim, &self.way(way, message, inside))
    }
}

/// The ToR of a server's box, by its switch.
pub fn server_tor(rack: &Rack, server: usize) -> usize {
    // Whoever asks from there: the last switch on the way is the server's.
    let switches = rack.switches(0, server, 0);
    let last = switches[switches.len() - 1];
    debug_assert!(last < TORS, "servers are behind ToRs");
    last
}
