//! A rack of the in-network cache in virtual time: clients below switches, a switch above them, a home behind it, and boxes beside some switches.
//!
//! ```text
//!   client ─┬─ ToR switch ─┬─ root switch ── home
//!   client ─┤   │          │      │
//!           └─ box 1       │     box 3        a box is a host beside its switch: what is for it leaves the way there
//!   client ─┬─ ToR switch ─┘
//!           └─ box 2
//! ```
//! Every client is a closed loop on the real [`Client`], which keeps so many operations under way. Every node has one thread, which polls, or sleeps and
//! then pays for being woken.

use super::net::{Hardware, Net, Thread};
use super::users::{Doing, Load, Outcome, Pace, Run, Written, value_of};
use base::{Nanos, Picos, Prng};
use model::component::Network;
use model::kernel::{Kernel, Service, Step};
use model::{ProgramId, ResourceId, Sim};
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::{Items, Tree};
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::coherence::{CacheBox, Client, Config, Home, Life, NodeId, boxes, home};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Message, Version};
use sim::workload::Keys;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

const HOME: HomeId = HomeId(1);
const FIRST: (Incarnation, Life) = (Incarnation(1), Life::First);
/// Of what is stored at the beginning.
const STOCK: Version = Version(1);

/// What packets cost a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// To take one from the network.
    pub receive: Picos,
    /// To send one.
    pub send: Picos,
    /// To handle one.
    pub handle: Picos,
    /// From its arrival to the first instruction of a node that slept; zero for one that polls.
    pub wake: Picos,
}

impl Cost {
    /// What a node's thread does at its core, and what it does to have a packet.
    fn programs(&self, k: &mut Kernel, (name, core): (&str, ResourceId)) -> (Thread, ProgramId) {
        let thread = k.tokens(&format!("{name} thread"), 1);
        let busy = |span| Step::Use { at: core, service: Service::Fixed(span), units: 1, after: Picos::ZERO };
        let take = if self.wake == Picos::ZERO {
            Step::Take(thread, 1)
        } else {
            let program = k.program("wake", [Step::Wait(self.wake)]);
            Step::Wake { pool: thread, awake: Picos::ZERO, program, deep: (Picos::ZERO, Picos::ZERO) }
        };
        let receive = k.program("receive", [take, busy(self.receive.plus(self.handle))]);
        let take = k.program("take", [Step::Take(thread, 1)]);
        let send = k.program("send", [busy(self.send)]);
        let give = k.program("give", [Step::Give(thread, 1)]);
        (Thread { take, send, give }, receive)
    }
}

/// Copies of boxes, where there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxesAt {
    /// Beside each ToR switch.
    pub tors: Option<usize>,
    /// Beside the root switch.
    pub root: Option<usize>,
}

/// A rack and its load.
#[derive(Clone, Debug)]
pub struct Rack {
    /// ToR switches.
    pub tors: u16,
    /// Clients below each.
    pub clients: u16,
    /// Where boxes are.
    pub boxes: BoxesAt,
    /// What packets cost a node.
    pub cost: Cost,
    /// Bits per second of every link.
    pub bits: f64,
    /// Payload of a packet and bytes around it.
    pub packet: (u64, u64),
    /// Of every link.
    pub hop: Picos,
    /// Keys, all of them at the home.
    pub keys: u64,
    /// Zipf's theta.
    pub skew: f64,
    /// Bytes of a value.
    pub value: usize,
    /// Share of writes.
    pub writes: f64,
    /// Operations that each client has under way.
    pub window: usize,
}

/// What clients saw after the warm-up, and what it took.
pub struct Seen {
    /// What users saw.
    pub users: Outcome,
    /// Cores that were busy on average, at the home, …
    pub home_cores: f64,
    /// … and at all boxes together.
    pub box_cores: f64,
    /// Share of the time in which the home's link was busy, the busier direction.
    pub home_link: f64,
    /// What the home counted, from the beginning.
    pub home: home::Stats,
    /// What boxes counted.
    pub boxes: Vec<boxes::Stats>,
}

/// Where a node is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Tor(u16),
    Root,
}

struct Connected {
    at: Switch,
    core: ResourceId,
    link: Network,
    /// Takes a packet: the thread, its wake-up if it slept, the work.
    receive: ProgramId,
    thread: Thread,
}

/// Hosts with a thread each, and links between them.
struct Hosts {
    connected: BTreeMap<NodeId, Connected>,
    /// From each ToR switch to the root.
    up: Vec<Network>,
    /// Of ways, by bytes. Never iterated.
    carried: RefCell<HashMap<(NodeId, NodeId, usize), ProgramId>>,
}

impl Hardware for Hosts {
    fn thread(&self, of: NodeId) -> Option<Thread> {
        Some(self.connected[&of].thread)
    }

    fn receive(&self, _: &Sim, at: NodeId, _: &Message) -> Option<ProgramId> {
        Some(self.connected[&at].receive)
    }

    fn carry(&self, sim: &Sim, (from, to): (NodeId, NodeId), message: &Message, _: bool) -> ProgramId {
        let bytes = message.length();
        *self.carried.borrow_mut().entry((from, to, bytes)).or_insert_with(|| {
            let steps = self.way(&self.connected[&from], &self.connected[&to], bytes as u64);
            sim.with(|kernel| kernel.program("way", steps))
        })
    }
}

impl Hosts {
    fn way(&self, from: &Connected, to: &Connected, bytes: u64) -> Vec<Step> {
        let mut way = vec![from.link.send(bytes)];
        if from.at != to.at {
            if let Switch::Tor(tor) = from.at {
                way.push(self.up[usize::from(tor)].send(bytes));
            }
            if let Switch::Tor(tor) = to.at {
                way.push(self.up[usize::from(tor)].reply(bytes));
            }
        }
        way.push(to.link.reply(bytes));
        way
    }
}

impl Rack {
    /// Runs it: `warm_up` without account, then `span`.
    pub fn run(&self, seed: u64, warm_up: Picos, span: Picos) -> Seen {
        let layout = Arc::new(self.layout());
        let (sim, hosts) = self.build(seed);
        let net = Net::new(&sim, hosts);
        let config = Config::default();
        let home = Home::new(&config, HOME, layout.clone(), FIRST, Nanos::ZERO, self.stocked());
        let home = Rc::new(RefCell::new(home));
        net.join(NodeId::Home(HOME), &home, None);
        let mut boxes = Vec::new();
        for (id, copies) in self.present() {
            let config = Config { copies, ..config.clone() };
            let machine = CacheBox::new(&config, id, layout.clone(), FIRST, Nanos::ZERO);
            boxes.push(Rc::new(RefCell::new(machine)));
            net.join(NodeId::Box(id), &boxes[boxes.len() - 1], None);
        }
        let run = Run::new(self.load(seed), &Written::default(), seed, (warm_up, span));
        let clients = self.tors * self.clients;
        for number in 1..=clients {
            let (id, box_id) = (ClientId(u64::from(number)), self.box_of(number));
            let prng = Prng::for_entity(seed, u64::from(number), 1);
            let client = Client::new(&config, id, box_id, layout.clone(), prng);
            run.join(&net, &sim, (u32::from(number), usize::from(clients)), client);
        }
        let (_, users) = run.outcome(&net, &sim, || ());
        let busy = |at| sim.with(|k| k.usage(at).busy).as_secs_f64() / span.as_secs_f64();
        let cores = |of: &dyn Fn(&NodeId) -> bool| {
            let those = net.hardware.connected.iter().filter(|(id, _)| of(id));
            those.map(|(_, one)| busy(one.core)).sum::<f64>()
        };
        let link = net.hardware.connected[&NodeId::Home(HOME)].link;
        let stats = home.borrow().stats();
        Seen {
            users,
            home_cores: cores(&|id| matches!(id, NodeId::Home(_))),
            box_cores: cores(&|id| matches!(id, NodeId::Box(_))),
            home_link: busy(link.forth).max(busy(link.back)),
            home: stats,
            boxes: boxes.iter().map(|machine| machine.borrow().stats()).collect(),
        }
    }

    /// What its users ask for.
    fn load(&self, seed: u64) -> Load {
        let keys = Keys::new(self.keys, self.skew, seed);
        let (writes, value) = (self.writes, self.value);
        Load {
            pace: Pace::Closed { clients: usize::MAX, window: self.window },
            draw: Box::new(move |prng, _| {
                let doing = if prng.chance(writes) { Doing::Set } else { Doing::Get };
                (doing, key_bytes(keys.draw(prng)))
            }),
            no_cache: self.boxes == BoxesAt { tors: None, root: None },
            value,
            before: Box::new(move |_| (value_of(0, value), STOCK.0)),
        }
    }

    fn root_id(&self) -> BoxId {
        BoxId(self.tors + 1)
    }

    /// Boxes that there are, each with its copies.
    fn present(&self) -> impl Iterator<Item = (BoxId, usize)> + '_ {
        let tors =
            self.boxes.tors.into_iter().flat_map(|copies| (1..=self.tors).map(move |t| (BoxId(t), copies)));
        tors.chain(self.boxes.root.map(|copies| (self.root_id(), copies)))
    }

    /// The box that a client asks.
    fn box_of(&self, client: u16) -> BoxId {
        let tor = 1 + (client - 1) / self.clients;
        if self.boxes.tors.is_some() { BoxId(tor) } else { self.root_id() }
    }

    fn layout(&self) -> Layout {
        let root = BoxPlace { id: self.root_id(), above: vec![] };
        let above: Vec<_> = self.boxes.root.map(|_| self.root_id()).into_iter().collect();
        let tors = (1..=self.tors).map(|id| BoxPlace { id: BoxId(id), above: above.clone() });
        let boxes: Vec<_> = match (self.boxes.tors, self.boxes.root) {
            (Some(_), Some(_)) => tors.chain([root]).collect(),
            // Each before the home itself; the home's own is the first.
            (Some(_), None) => tors.collect(),
            // Without any box a layout still names one; nobody asks it.
            (None, _) => vec![root],
        };
        let before =
            if self.boxes.tors.is_some() && self.boxes.root.is_none() { BoxId(1) } else { self.root_id() };
        Layout::new(&boxes, &[(HOME, before)], 1).expect("two levels are a layout")
    }

    fn stocked(&self) -> Tree {
        let mut items = Tree::new(self.keys as usize);
        for key in 0..self.keys {
            let item = Item {
                value: value_of(0, self.value),
                flags: 0,
                kind: Kind::Bytes,
                version: STOCK,
                end: Nanos::MAX,
            };
            assert!(items.store(&key_bytes(key), item), "there is room for all keys");
        }
        items
    }

    fn build(&self, seed: u64) -> (Sim, Hosts) {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let mut connected = BTreeMap::new();
        let mut place = |id, at, name: String| {
            let link = Network::new(k, &format!("{name} link"), self.bits, self.packet, self.hop);
            let core = k.resource(&format!("{name} core"), 1);
            let (thread, receive) = self.cost.programs(k, (&name, core));
            connected.insert(id, Connected { at, core, link, receive, thread });
        };
        place(NodeId::Home(HOME), Switch::Root, "home".into());
        for (id, _) in self.present() {
            let at = if id == self.root_id() { Switch::Root } else { Switch::Tor(id.0 - 1) };
            place(NodeId::Box(id), at, format!("box {}", id.0));
        }
        for client in 1..=self.tors * self.clients {
            let at = Switch::Tor((client - 1) / self.clients);
            place(NodeId::Client(ClientId(u64::from(client))), at, format!("client {client}"));
        }
        let link =
            |k: &mut Kernel, t| Network::new(k, &format!("uplink {t}"), self.bits, self.packet, self.hop);
        let up = (0..self.tors).map(|t| link(&mut kernel, t)).collect();
        (Sim::new(kernel), Hosts { connected, up, carried: RefCell::default() })
    }
}

fn key_bytes(key: u64) -> Vec<u8> {
    format!("key:{key:08}").into_bytes()
}

#[cfg(test)]
mod tests;
