//! The nodes of a world: numbered clients first, then boxes, homes and controllers; each a machine that may be down.

use super::bugs::Bug;
use super::clock::Clock;
use super::homes::{Behind, SimulatedHome};
use super::script::Script;
use super::topology::Topology;
use base::Nanos;
use protocol::coherence::boxes::shards::Divided;
use protocol::coherence::guard::{Guard, Keys, Numbering};
use protocol::coherence::{Book, CacheBox, Client, Controller, Life, NodeId, Out, Planted};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Message};
use serve::kv::machine;
use sim::nodes::Node;
use sim::{NodeSet, random};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A client's id is its index, and which life of it this is.
const CLIENTS: u64 = 256;

/// A box that may have a planted bug, several cores, and a faster tier before each.
pub type SimulatedBox = Divided<Option<Planted>>;

/// What runs on a node.
#[derive(Debug)]
pub enum Machine {
    /// A client.
    Client(Box<Client>),
    /// A box.
    Box(Box<SimulatedBox>),
    /// A home.
    Home(SimulatedHome),
    /// A controller.
    Controller(Box<Controller<Option<Planted>>>),
}

impl Machine {
    /// Takes a message; of a box, its shard `at`.
    pub fn handle(&mut self, at: u8, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        match self {
            Machine::Client(m) => m.handle(now, from, message, out),
            Machine::Box(m) => m.handle(at, now, (from, message), out),
            Machine::Home(m) => m.handle(now, from, message, out),
            Machine::Controller(m) => m.handle(now, from, message, out),
        }
    }

    /// Serves what is due.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        match self {
            Machine::Client(m) => m.tick(now, out),
            Machine::Box(m) => m.tick(now, out),
            Machine::Home(m) => m.tick(now, out),
            Machine::Controller(m) => m.tick(now, out),
        }
    }

    /// When it wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        match self {
            Machine::Client(m) => m.next_deadline(),
            Machine::Box(m) => m.next_deadline(),
            Machine::Home(m) => m.next_deadline(),
            Machine::Controller(m) => m.next_deadline(),
        }
    }
}

/// Which numbers the nodes of a topology have.
#[derive(Clone, Debug)]
pub struct Numbers {
    clients: u32,
    boxes: Vec<BoxId>,
    homes: Vec<HomeId>,
    controllers: u32,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A client, by index.
    Client(u32),
    /// A box.
    Box(BoxId),
    /// A home.
    Home(HomeId),
    /// A controller, by index.
    Controller(u8),
}

impl Numbers {
    /// Of this topology.
    pub fn of(topology: &Topology) -> Numbers {
        Numbers {
            clients: topology.clients.len() as u32,
            boxes: topology.layout.boxes().collect(),
            homes: topology.layout.homes().collect(),
            controllers: topology.controllers.into(),
        }
    }

    /// How many nodes.
    pub fn count(&self) -> u32 {
        self.clients + (self.boxes.len() + self.homes.len()) as u32 + self.controllers
    }

    /// All nodes.
    pub fn all(&self) -> NodeSet {
        NodeSet::below(self.count())
    }

    /// What node `node` is.
    pub fn role(&self, node: Node) -> Role {
        let (boxes, homes) = (self.boxes.len() as u32, self.homes.len() as u32);
        match node {
            n if n < self.clients => Role::Client(n),
            n if n < self.clients + boxes => Role::Box(self.boxes[(n - self.clients) as usize]),
            n if n < self.clients + boxes + homes => {
                Role::Home(self.homes[(n - self.clients - boxes) as usize])
            }
            n => Role::Controller((n - self.clients - boxes - homes) as u8),
        }
    }

    /// The node that a message goes to, if there is one.
    pub fn node_of(&self, id: NodeId) -> Option<Node> {
        let place = |found: Option<usize>| found.map(|i| i as u32);
        match id {
            NodeId::Client(ClientId(id)) => {
                let index = id.checked_sub(1)? % CLIENTS;
                (index < u64::from(self.clients)).then_some(index as u32)
            }
            NodeId::Box(id) => place(self.boxes.iter().position(|b| *b == id)).map(|i| self.clients + i),
            NodeId::Home(id) => Some(self.home(id)?),
            NodeId::Controller(i) => {
                let i = u32::from(i);
                (i < self.controllers).then(|| self.count() - self.controllers + i)
            }
        }
    }

    /// The node of a home.
    pub fn home(&self, id: HomeId) -> Option<Node> {
        let index = self.homes.iter().position(|h| *h == id)?;
        Some(self.clients + (self.boxes.len() + index) as u32)
    }

    /// Nodes of clients.
    pub fn clients(&self) -> std::ops::Range<Node> {
        0..self.clients
    }

    /// Nodes of boxes.
    pub fn boxes(&self) -> std::ops::Range<Node> {
        self.clients..self.clients + self.boxes.len() as u32
    }

    /// Nodes of homes.
    pub fn homes(&self) -> std::ops::Range<Node> {
        let first = self.boxes().end;
        first..first + self.homes.len() as u32
    }

    /// Nodes of controllers.
    pub fn controllers(&self) -> std::ops::Range<Node> {
        self.homes().end..self.count()
    }

    /// In a trace.
    pub fn name(&self, node: Node) -> String {
        match self.role(node) {
            Role::Client(i) => format!("client {i}"),
            Role::Box(id) => format!("box {id}"),
            Role::Home(id) => format!("home {id}"),
            Role::Controller(i) => format!("controller {i}"),
        }
    }

    /// Which numbers are what: faults name nodes by them.
    pub fn legend(&self) -> String {
        let range = |nodes: std::ops::Range<Node>| nodes.collect::<NodeSet>().to_string();
        let controllers = self.controllers();
        let mut text = format!(
            "clients are nodes {}, boxes {}, homes {}",
            range(self.clients()),
            range(self.boxes()),
            range(self.homes())
        );
        if !controllers.is_empty() {
            text += &format!(", controllers {}", range(controllers));
        }
        text
    }
}

/// A machine, its clock, and how often it has begun.
#[derive(Debug)]
pub struct Place {
    /// What it knows of others' proofs in this life; a box's shards each.
    pub guards: Vec<Guard<Option<Planted>>>,
    /// Where others are, as far as it knows in this life.
    pub book: Book<Option<Planted>>,
    /// Sealed packets that its machine heard in this life.
    pub heard: HashSet<Vec<u8>>,
    /// None while it is down.
    pub machine: Option<Machine>,
    /// Of the node: a crash leaves it alone.
    pub clock: Clock,
    /// Counts lives, from 1.
    pub life: u32,
    /// As others know it in this life.
    pub id: NodeId,
}

/// What a node or client has of the key.
fn keys(script: &Script, id: NodeId) -> Option<Keys> {
    let key = script.key.as_ref()?;
    Some(match id {
        NodeId::Client(_) => Keys::of_client(Keys::client_key(key)),
        _ => Keys::of_cluster(key),
    })
}

/// Begins a life of `node`: the `birth`-th of all lives in the world. A home that is a node may have something that outlives it.
///
/// # Errors
/// In words: what is on the disk is damaged.
pub fn begin(
    node: Node,
    place: &mut Place,
    script: &Script,
    topology: &Topology,
    role: Role,
    (now, birth): (Nanos, u32),
    behind: Behind<'_>,
) -> Result<(), String> {
    let (config, layout) = (&script.config, &script.layout);
    let planted = script.planted.and_then(Bug::in_cache);
    let life = if place.life == 0 || behind.is_first() { Life::First } else { Life::Again };
    place.life += 1;
    let who = (Incarnation(birth), life);
    let machine = match role {
        Role::Client(index) => {
            let id = ClientId(u64::from(place.life) * CLIENTS + u64::from(index) + 1);
            let prng =
                random::stream(script.seed, u64::from(place.life) << 32 | u64::from(node), "retransmission");
            let tor = topology.clients[index as usize];
            Machine::Client(Box::new(Client::new(config, id, tor, Arc::clone(layout), prng)))
        }
        Role::Box(id) => {
            let machine = CacheBox::with_bugs(config, id, Arc::clone(layout), who, now, planted);
            Machine::Box(Box::new(Divided::new(&machine, script.cores, script.has_fast_tiers)))
        }
        Role::Home(id) => {
            let (config, layout) = (config.clone(), Arc::clone(layout));
            let home = machine::Place { config, id, layout, life: who };
            Machine::Home(SimulatedHome::new(script, home, now, behind)?)
        }
        Role::Controller(i) => {
            let of = (i, topology.controllers);
            let controller = Controller::with_bugs(config, of, Arc::clone(layout), now, planted);
            Machine::Controller(Box::new(controller))
        }
    };
    place.id = match &machine {
        Machine::Client(client) => NodeId::Client(client.id()),
        Machine::Box(machine) => NodeId::Box(machine.id()),
        Machine::Home(home) => NodeId::Home(home.id()),
        Machine::Controller(_) => match role {
            Role::Controller(i) => NodeId::Controller(i),
            _ => unreachable!("a controller's role is that of a controller"),
        },
    };
    let who = if let NodeId::Client(_) = place.id { Incarnation(0) } else { who.0 };
    let cores = if let Role::Box(_) = role { script.cores } else { 1 };
    place.guards = guards(script, place.id, who, cores);
    place.heard.clear();
    place.machine = Some(machine);
    Ok(())
}

/// Of one node, numbering as one what they seal.
fn guards(script: &Script, id: NodeId, who: Incarnation, count: u8) -> Vec<Guard<Option<Planted>>> {
    let new = |_| Guard::with_bugs(id, who, keys(script, id), script.planted.and_then(Bug::in_cache));
    let mut guards: Vec<_> = (0..count).map(new).collect();
    if count > 1 {
        let last = AtomicU64::new(u64::from(who.0) << 32);
        let numbering: Numbering = Arc::new(move || last.fetch_add(1, Ordering::Relaxed) + 1);
        guards.iter_mut().for_each(|guard| guard.share(|_, _| Arc::clone(&numbering)));
    }
    guards
}
