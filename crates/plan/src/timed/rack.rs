//! A rack of the in-network cache in virtual time: clients below switches, a switch above them, a home behind it, and boxes beside some switches.
//!
//! ```text
//!   client ─┬─ ToR switch ─┬─ root switch ── home
//!   client ─┤   │          │      │
//!           └─ box 1       │     box 3        a box is a host beside its switch: what is for it leaves the way there
//!   client ─┬─ ToR switch ─┘
//!           └─ box 2
//! ```
//! Every client is a closed loop on the real [`Client`], which keeps so many operations under way.

use super::node::{Cost, Node, Place};
use super::wire::{WireId, Wires};
use base::{Nanos, Picos, Prng};
use hdrhistogram::Histogram;
use model::component::Network;
use model::kernel::Kernel;
use model::{ResourceId, Sim, rerun};
use protocol::coherence::client::{Call, OpId};
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::{Items, Tree};
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::coherence::{CacheBox, Client, Config, Home, Life, NodeId, Out, boxes, home};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Status, Verb, Version};
use sim::history::History;
use sim::kv::{Op, Ret, Value};
use sim::workload::Keys;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const HOME: HomeId = HomeId(1);
const FIRST: (Incarnation, Life) = (Incarnation(1), Life::First);
/// Latencies are told apart up to ten seconds.
const LONGEST_PS: u64 = 10_000_000_000_000;

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

/// Latencies of one kind of operation, in picoseconds.
pub type Latencies = Histogram<u64>;

/// What clients saw after the warm-up, and what it took.
#[derive(Debug)]
pub struct Seen {
    /// Reads.
    pub gets: Latencies,
    /// Writes.
    pub sets: Latencies,
    /// Of the reads, those that a box answered.
    pub by_box: u64,
    /// Packets of all nodes.
    pub packets: u64,
    /// Cores that were busy in the mean, at the home, …
    pub home_cores: f64,
    /// … and at all boxes together.
    pub box_cores: f64,
    /// Share of the time in which the home's link was busy, the busier direction.
    pub home_link: f64,
    /// What every client asked and was answered, from the beginning.
    pub history: History<Op, Ret>,
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
    id: NodeId,
    at: Switch,
    core: ResourceId,
    /// To the switch, and from it.
    link: [WireId; 2],
}

/// All that is joined, before it runs.
struct Build {
    sim: Sim,
    wires: Wires,
    connected: Vec<Connected>,
    /// From each ToR switch to the root, and back.
    up: Vec<[WireId; 2]>,
    home_link: Network,
}

impl Rack {
    /// Runs it: `warm_up` without account, then `span`.
    pub fn run(&self, seed: u64, warm_up: Picos, span: Picos) -> Seen {
        let layout = Arc::new(self.layout());
        let build = self.build(seed);
        let config = Config::default();
        let items = self.stocked();
        let home = build.node(NodeId::Home(HOME), self.cost, |_| {
            Home::new(&config, HOME, layout.clone(), FIRST, Nanos::ZERO, items)
        });
        let boxes: Vec<_> = self
            .present()
            .map(|(id, copies)| {
                let config = Config { copies, ..config.clone() };
                build.node(NodeId::Box(id), self.cost, |_| {
                    CacheBox::new(&config, id, layout.clone(), FIRST, Nanos::ZERO)
                })
            })
            .collect();
        let (home_machine, box_machines) =
            (Rc::clone(&home.machine), boxes.iter().map(|node| Rc::clone(&node.machine)).collect::<Vec<_>>());
        build.sim.spawn(home.serve());
        boxes.into_iter().for_each(|node| build.sim.spawn(node.serve()));
        let warm_up = rerun::warm_up(warm_up);
        let account = Rc::new(RefCell::new(Account::new(warm_up)));
        self.begin_users(&build, &config, &layout, seed, &account);
        let sim = &build.sim;
        let before = Cell::new(0);
        let times = rerun::account(sim, warm_up, span, || before.set(build.wires.packets()), || {});
        let cores = |of: &dyn Fn(NodeId) -> bool| {
            let busy = build.connected.iter().filter(|one| of(one.id));
            busy.map(|one| sim.with(|k| k.usage(one.core).busy).as_secs_f64()).sum::<f64>()
                / span.as_secs_f64()
        };
        let link = [build.home_link.forth, build.home_link.back]
            .map(|at| sim.with(|k| k.usage(at).busy).as_secs_f64() / span.as_secs_f64());
        let (home_cores, box_cores) =
            (cores(&|id| matches!(id, NodeId::Home(_))), cores(&|id| matches!(id, NodeId::Box(_))));
        let packets = (build.wires.packets() - before.get()) * times;
        let Account { gets, sets, by_box, history, .. } =
            Rc::try_unwrap(account).map_err(|_| ()).expect("all users have ended").into_inner();
        let home = home_machine.borrow().stats();
        let boxes = box_machines.iter().map(|machine| machine.borrow().stats()).collect();
        Seen {
            gets: rerun::repeated(&gets, times),
            sets: rerun::repeated(&sets, times),
            by_box: by_box * times,
            packets,
            home_cores,
            box_cores,
            home_link: link[0].max(link[1]),
            history,
            home,
            boxes,
        }
    }

    /// Joins the clients, each with a user that drives it.
    fn begin_users(
        &self,
        build: &Build,
        config: &Config,
        layout: &Arc<Layout>,
        seed: u64,
        account: &Rc<RefCell<Account>>,
    ) {
        let keys = Rc::new(Keys::new(self.keys, self.skew, seed));
        for number in 1..=self.tors * self.clients {
            let id = ClientId(u64::from(number));
            let prng = |purpose| Prng::for_entity(seed, u64::from(number), purpose);
            let node = build.node(NodeId::Client(id), self.cost, |_| {
                Client::new(config, id, self.box_of(number), layout.clone(), prng(1))
            });
            let user = User {
                load: self.clone(),
                keys: Rc::clone(&keys),
                prng: prng(2),
                account: Rc::clone(account),
                number: u32::from(number),
                under_way: BTreeMap::new(),
            };
            build.sim.spawn(user.drive(node));
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
                value: vec![0; self.value],
                flags: 0,
                kind: Kind::Bytes,
                version: Version(1),
                end: Nanos::MAX,
            };
            assert!(items.store(&key_bytes(key), item), "there is room for all keys");
        }
        items
    }

    fn build(&self, seed: u64) -> Build {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let mut place = |id, at, name: String| {
            let link = Network::new(k, &format!("{name} link"), self.bits, self.packet, self.hop);
            (id, at, k.resource(&format!("{name} core"), 1), link)
        };
        let mut placed = vec![place(NodeId::Home(HOME), Switch::Root, "home".into())];
        for (id, _) in self.present() {
            let at = if id == self.root_id() { Switch::Root } else { Switch::Tor(id.0 - 1) };
            placed.push(place(NodeId::Box(id), at, format!("box {}", id.0)));
        }
        for client in 1..=self.tors * self.clients {
            let at = Switch::Tor((client - 1) / self.clients);
            placed.push(place(NodeId::Client(ClientId(u64::from(client))), at, format!("client {client}")));
        }
        let up: Vec<_> = (0..self.tors)
            .map(|t| Network::new(&mut kernel, &format!("uplink {t}"), self.bits, self.packet, self.hop))
            .collect();
        let home_link = placed[0].3;
        let sim = Sim::new(kernel);
        let wires = Wires::new(&sim);
        let up = up.into_iter().map(|link| wires.link(link)).collect();
        let connected = placed
            .into_iter()
            .map(|(id, at, core, link)| Connected { id, at, core, link: wires.link(link) })
            .collect();
        Build { sim, wires, connected, up, home_link }
    }
}

impl Build {
    fn node<M: serve::inc::machine::Machine + 'static>(
        &self,
        id: NodeId,
        cost: Cost,
        machine: impl FnOnce(&Sim) -> M,
    ) -> Node<M> {
        let from = self.connected.iter().find(|one| one.id == id).expect("every node is connected");
        let others = self.connected.iter().filter(|one| one.id != id);
        let ways = others.map(|to| (to.id, self.way(from, to))).collect();
        let place = Place { id, core: from.core, cost, ways };
        Node::new(&self.sim, &self.wires, place, machine(&self.sim))
    }

    fn way(&self, from: &Connected, to: &Connected) -> Vec<WireId> {
        let mut way = vec![from.link[0]];
        if from.at != to.at {
            if let Switch::Tor(tor) = from.at {
                way.push(self.up[usize::from(tor)][0]);
            }
            if let Switch::Tor(tor) = to.at {
                way.push(self.up[usize::from(tor)][1]);
            }
        }
        way.push(to.link[1]);
        way
    }
}

fn key_bytes(key: u64) -> Vec<u8> {
    format!("key:{key:08}").into_bytes()
}

/// What users note.
struct Account {
    from: Picos,
    gets: Latencies,
    sets: Latencies,
    by_box: u64,
    history: History<Op, Ret>,
    operations: u64,
}

impl Account {
    fn new(from: Picos) -> Account {
        let latencies = || Histogram::new_with_bounds(1, LONGEST_PS, 3).expect("three digits are few enough");
        Account {
            from,
            gets: latencies(),
            sets: latencies(),
            by_box: 0,
            history: History::new(),
            operations: 0,
        }
    }
}

/// An operation under way.
struct Begun {
    number: u64,
    verb: Verb,
    at: Picos,
}

/// A client's load.
struct User {
    load: Rack,
    keys: Rc<Keys>,
    prng: Prng,
    account: Rc<RefCell<Account>>,
    number: u32,
    under_way: BTreeMap<OpId, Begun>,
}

impl User {
    async fn drive(mut self, node: Node<Client>) {
        let mut out = Out::new();
        loop {
            while self.under_way.len() < self.load.window {
                self.begin(&node, &mut out);
                node.send(&mut out).await;
            }
            node.turn(&mut out).await;
            while let Some(ended) = { node.machine.borrow_mut().poll_outcome() } {
                self.end(&node, ended);
            }
        }
    }

    fn begin(&mut self, node: &Node<Client>, out: &mut Out) {
        let writes = self.prng.chance(self.load.writes);
        let key = key_bytes(self.keys.draw(&mut self.prng));
        let mut account = self.account.borrow_mut();
        account.operations += 1;
        let number = account.operations;
        let (call, op) = if writes {
            // Every write has a value of its own, so that the judge can tell them apart.
            let mut value = vec![0; self.load.value];
            value[..8].copy_from_slice(&number.to_le_bytes());
            let op = Op::Set { value: Value::of(&value), ttl: None };
            (Call::new(Verb::Set, &key).value(&value), op)
        } else {
            (Call::new(Verb::Get, &key), Op::Get)
        };
        let no_boxes = self.load.boxes == BoxesAt { tors: None, root: None };
        let call = Call { no_cache: no_boxes, ..call };
        let (verb, at) = (call.verb, node.picos());
        account.history.call(at, self.number, number, &key, op);
        let started = node.machine.borrow_mut().start(node.now(), call, out);
        self.under_way
            .insert(started.expect("fewer than it may have are under way"), Begun { number, verb, at });
    }

    fn end(
        &mut self,
        node: &Node<Client>,
        (id, outcome): (
            OpId,
            Result<protocol::coherence::client::Answer, protocol::coherence::client::Failed>,
        ),
    ) {
        let begun = self.under_way.remove(&id).expect("it was begun here");
        // What nobody knows the end of stays open in the history.
        let Ok(answer) = outcome else { return };
        let mut account = self.account.borrow_mut();
        let ret = match answer.status {
            Status::Ok if begun.verb == Verb::Get => Ret::hit(&answer.value),
            Status::Ok => Ret::of(sim::kv::Status::Ok),
            Status::Miss => Ret::of(sim::kv::Status::Miss),
            _ => Ret::of(sim::kv::Status::Error),
        };
        let now = node.picos();
        account.history.returns(now, begun.number, ret);
        if now < account.from {
            return;
        }
        let latency = now.since(begun.at).0;
        if begun.verb == Verb::Get {
            account.gets.saturating_record(latency);
            account.by_box += u64::from(answer.from_box);
        } else {
            account.sets.saturating_record(latency);
        }
    }
}

#[cfg(test)]
mod tests;
