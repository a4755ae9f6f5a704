//! Homes that move: in a third of all runs a home that is a machine goes on at another address, by order, while the cluster runs.
//!
//! ```text
//!  old life ends ──▶ new life at another address, which may have been started before ──▶ some controllers are told, when all is well all of them
//! ```
//! Every node has a book of its own, and learns as a driver does, before what its machine said is sent. A packet goes to the address that its sender's book
//! has, and comes from where its sender is; where nobody is it is lost. Nobody is given a newer file.
//!
//! What must hold besides: nobody hears as a home's what comes from where that home was, as far as he knows; and nobody looks for a home where an older
//! order had it.

use super::homes::Homes;
use super::nodes::{Machine, Numbers, Role};
use super::script::Script;
use super::topology::Topology;
use super::world::World;
use base::{Nanos, Picos};
use protocol::coherence::moved::Moved;
use protocol::coherence::{Book, NodeId, Planted};
use protocol::wire::HomeId;
use sim::nodes::Node;
use sim::random;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A home moves.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// When.
    pub at: Picos,
    /// Whose.
    pub home: HomeId,
    /// So much earlier its next life was started.
    pub early: Nanos,
    /// Which controllers are told, by bits of their indices; all, if none of these is up.
    pub told: u64,
}

/// When which homes move.
pub fn draw(seed: u64, topology: &Topology, (until, lease): (Picos, Nanos), homes: Homes) -> Vec<Move> {
    let mut random = random::stream(seed, 0, "moves");
    if topology.controllers == 0 || homes != Homes::Bare || random.below(3) > 0 {
        return Vec::new();
    }
    let all: Vec<HomeId> = topology.layout.homes().collect();
    let count = 1 + random.below(3);
    let draw = |_| Move {
        at: Picos(1 + random.below(until.0 - 1)),
        home: all[random.below(all.len() as u64) as usize],
        early: Nanos(random.below(lease.0)),
        told: random.below(1 << 16),
    };
    let mut moves: Vec<_> = (0..count).map(draw).collect();
    moves.sort_by_key(|one| one.at);
    moves
}

/// So much longer it takes until all is well again, where homes have moved: a controller takes over and makes a table, and the home's lease begins then.
pub fn recovery(script: &Script) -> Picos {
    let config = &script.config;
    let span = 5 * config.health.0 + 4 * config.heartbeat.0 + 2 * config.lease.0;
    if script.moves.is_empty() { Picos::ZERO } else { Picos::from(Nanos(span)) }
}

/// Where a node is by the file.
fn by_file(node: Node) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 1))
}

/// What a node knows at its start.
pub fn book(numbers: &Numbers, planted: Option<Planted>) -> Book<Option<Planted>> {
    let all = numbers.boxes().chain(numbers.homes()).chain(numbers.controllers());
    let entries = all.map(|node| {
        let id = match numbers.role(node) {
            Role::Box(id) => NodeId::Box(id),
            Role::Home(id) => NodeId::Home(id),
            Role::Controller(i) => NodeId::Controller(i),
            Role::Client(_) => unreachable!("clients are in no book"),
        };
        (id, by_file(node))
    });
    Book::with_bugs(entries, planted).expect("numbers differ")
}

/// Where homes are.
#[derive(Debug, Default)]
pub struct Moves {
    /// Those that have moved.
    now: BTreeMap<HomeId, SocketAddr>,
    /// How often one has.
    count: u8,
    /// So much earlier the life was started that begins now.
    early: Nanos,
}

impl Moves {
    /// Where a home is, if not where the file has it; and how much earlier than now its life was started.
    pub fn of(&self, home: HomeId) -> Option<(SocketAddr, Nanos)> {
        Some((*self.now.get(&home)?, self.early))
    }
}

/// Where a packet comes from and where it was sent to, of homes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Its sender's address.
    pub from: Option<SocketAddr>,
    /// Where its sender's book had its receiver.
    pub to: Option<SocketAddr>,
}

impl World<'_> {
    /// A home moves, as place `i` of the script says.
    pub(super) fn move_home(&mut self, i: usize) {
        let Move { home, early, told, .. } = self.script.moves[i];
        let Some(node) = self.numbers.home(home).filter(|_| !self.is_calm) else { return };
        if self.places[node as usize].machine.is_some() {
            self.crash(node);
        }
        self.moves.count += 1;
        let address = SocketAddr::from(([10, 1, self.moves.count, node as u8], 1));
        self.note(|_| format!("moves         home {home} is at {address} from now on"));
        self.moves.now.insert(home, address);
        self.moves.early = early;
        self.begin(node);
        self.moves.early = Nanos::ZERO;
        self.tell_of_moves(told);
    }

    /// Controllers that are up are told where homes are; all of them, if none of these is.
    pub(super) fn tell_of_moves(&mut self, told: u64) {
        let is_up = |world: &Self, node: Node| world.places[node as usize].machine.is_some();
        let mut nodes: Vec<Node> = self.numbers.controllers().filter(|node| is_up(self, *node)).collect();
        let first = self.numbers.controllers().start;
        if nodes.iter().any(|node| told >> (node - first) & 1 == 1) {
            nodes.retain(|node| told >> (node - first) & 1 == 1);
        }
        let orders: Vec<_> = self.moves.now.iter().map(|(home, address)| (*home, *address)).collect();
        for node in nodes {
            let place = &mut self.places[node as usize];
            let at = place.clock.read(self.queue.now());
            if let Some(Machine::Controller(controller)) = &mut place.machine {
                for (home, address) in &orders {
                    controller.move_home(at, *home, *address);
                }
            }
            self.act(node, 0, None);
        }
    }

    /// A node's book learns what its machine knows, as that of a driver.
    pub(super) fn follow_moves(&mut self, node: Node) {
        if self.script.moves.is_empty() {
            return;
        }
        let place = &mut self.places[node as usize];
        let known: Vec<Arc<Moved>> = match &place.machine {
            Some(Machine::Box(machine)) => {
                machine.shards().map(|shard| Arc::clone(shard.table().moved())).collect()
            }
            Some(Machine::Client(client)) => vec![Arc::clone(client.moved())],
            Some(Machine::Controller(controller)) => vec![Arc::clone(controller.moved())],
            Some(Machine::Home(_)) | None => Vec::new(),
        };
        let mut fell = None;
        for moved in known {
            for (home, _) in moved.iter() {
                let before = place.book.place_of(NodeId::Home(home));
                place.book.learn(&moved);
                let after = place.book.place_of(NodeId::Home(home));
                if before.map(|place| place.epoch) > after.map(|place| place.epoch) {
                    fell = Some(home);
                }
            }
        }
        if let Some(home) = fell {
            let who = self.numbers.name(node);
            self.broken(format!("{who} looks for home {home} where an older order had it"), b"");
        }
    }

    /// The way of a packet that a node sends now.
    pub(super) fn way(&self, from: NodeId, to: NodeId, book: &Book<Option<Planted>>) -> Way {
        if self.script.moves.is_empty() {
            return Way::default();
        }
        let to = if let NodeId::Home(_) = to { book.address_of(to) } else { None };
        Way { from: self.address_of(from), to }
    }

    /// The way of a packet of somebody who knows where everybody is.
    pub(super) fn straight_way(&self, from: NodeId, to: Node) -> Way {
        if self.script.moves.is_empty() {
            return Way::default();
        }
        Way { from: self.address_of(from), to: self.address_of(self.places[to as usize].id) }
    }

    /// Where a home is.
    fn address_of(&self, id: NodeId) -> Option<SocketAddr> {
        let NodeId::Home(home) = id else { return None };
        let file = || self.numbers.home(home).map(by_file);
        self.moves.of(home).map(|(address, _)| address).or_else(file)
    }

    /// Whether a packet is for nobody: its receiver is elsewhere.
    pub(super) fn is_astray(&self, node: Node, way: Way) -> bool {
        way.to.is_some_and(|to| self.address_of(self.places[node as usize].id) != Some(to))
    }

    /// Who is where a packet comes from, as its receiver knows.
    pub(super) fn whose(&self, node: Node, from: NodeId, way: Way) -> Option<NodeId> {
        match way.from {
            Some(address) => self.places[node as usize].book.node_at(address),
            None => Some(from),
        }
    }

    /// Whether a packet comes from where a home is not any more, as its receiver knows by what its machine was told.
    pub(super) fn is_from_before(&self, node: Node, from: NodeId, way: Way) -> bool {
        way.from.is_some_and(|address| self.places[node as usize].book.address_of(from) != Some(address))
    }
}
