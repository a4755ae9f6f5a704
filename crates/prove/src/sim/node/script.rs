//! What a seed draws before anything runs: the node, its registers, clients, requests, faults, and what operators order.
//!
//! Each request is drawn from a stream of its own, as each fault is, so that a shrinker may take any away and the others stay what they are. Every value that
//! is written can be told from all others.

use super::super::clock::Clock;
use super::tongue::Tongue;
use base::{Picos, Prng};
use serve::kv::by_hand::{Place, Planted, Width};
use serve::kv::config::Config;
use serve::kv::registers::Id;
use sim::faults::{Bounds, Plan, Trouble};
use sim::network::Weather;
use sim::nodes::Node;
use sim::{NodeSet, random};

/// Between two requests, on average, one of these.
const GAPS: [Picos; 3] = [Picos::from_micros(20), Picos::from_micros(300), Picos::from_micros(20_000)];
/// An edge is late by one of these at most.
const LAGS: [Picos; 3] = [Picos::from_micros(1), Picos::from_micros(50), Picos::from_micros(1_000)];
/// Faults at most.
const FAULTS: u32 = 8;
/// Orders at most.
const ORDERS: u64 = 12;
/// Requests at once at most.
const BURST: u64 = 48;
/// The longest life that items are given, in seconds.
const LIFE: u64 = 2;
/// The least memory of a store.
const LEAST_MEMORY: u64 = 8 << 20;
/// The least that all connections may buffer.
const LEAST_BUFFERED: u64 = 1 << 20;

/// How large values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Some bytes.
    Small,
    /// Up to what travels in a port's arena.
    Medium,
    /// Outside it; all together may be more than there is memory.
    Large,
}

impl Size {
    fn most(self) -> u64 {
        match self {
            Size::Small => 40,
            Size::Medium => 16 << 10,
            Size::Large => 300 << 10,
        }
    }

    fn draw_width(self, random: &mut Prng) -> Width {
        let (call, room) = match self {
            Size::Small => (1 << random.below(10), 1 << (4 + random.below(10))),
            Size::Medium => (512 << random.below(8), 1024 << random.below(7)),
            Size::Large => (4096 << random.below(5), 8192 << random.below(5)),
        };
        Width { room, call }
    }
}

/// What a client asks.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// By its place among those of its service.
    pub key: u64,
    /// What.
    pub verb: Verb,
    /// In so many seconds it ends.
    pub life: Option<u64>,
    /// The value is so long, or the number so large.
    pub size: u64,
    /// No answer is wanted.
    pub is_quiet: bool,
}

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Set,
    Add,
    Replace,
    Append,
    Cas,
    Delete,
    Incr,
    Touch,
    Flush,
    /// No command.
    Nonsense,
}

/// Something to be done.
#[derive(Clone, Debug)]
pub enum Todo {
    /// All of these at once.
    Ask(Vec<Wanted>),
    /// The client has said all, and hears the rest.
    End,
}

/// When, by which client, what.
#[derive(Clone, Debug)]
pub struct Intent {
    /// When.
    pub at: Picos,
    /// By which client.
    pub client: Node,
    /// What.
    pub todo: Todo,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// When.
    pub at: Picos,
    /// Of which service.
    pub service: usize,
    /// Which register.
    pub register: Id,
    /// Becomes this.
    pub value: u64,
}

/// A service.
#[derive(Clone, Debug)]
pub struct Service {
    /// On which core.
    pub core: usize,
    /// What its registers are at first.
    pub registers: Vec<(Id, u64)>,
    /// Edges.
    pub edges: usize,
}

/// All that is drawn.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of what.
    pub seed: u64,
    /// What edges do wrong.
    pub planted: Option<Planted>,
    /// Engine cores.
    pub cores: usize,
    /// What is on them.
    pub services: Vec<Service>,
    /// Whose service each asks, and in which protocol.
    pub clients: Vec<(usize, Tongue)>,
    /// In no order.
    pub intents: Vec<Intent>,
    /// What goes wrong.
    pub plan: Plan,
    /// What operators order.
    pub orders: Vec<Order>,
    /// Then everything is well again.
    pub until: Picos,
    /// How large values are.
    pub size: Size,
    /// An edge is late by this at most.
    pub lag: Picos,
    /// Of the node.
    pub clock: Clock,
}

fn one_of<T: Copy>(random: &mut Prng, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

impl Script {
    /// Of this seed, with so many intents.
    pub fn draw(seed: u64, ops: usize, planted: Option<Planted>) -> Script {
        let mut random = random::stream(seed, 0, "node script");
        let size = one_of(&mut random, &[Size::Small, Size::Small, Size::Medium, Size::Large]);
        let cores = 1 + random.below(4) as usize;
        let count = 1 + random.below(3);
        let services: Vec<_> = (0..count).map(|_| draw_service(&mut random, cores, size)).collect();
        let who = |_| {
            let service = random.below(count) as usize;
            (service, one_of(&mut random, &[Tongue::Text, Tongue::Meta, Tongue::Binary]))
        };
        let clients: Vec<_> = (0..2 + random::stream(seed, 0, "clients").below(6)).map(who).collect();
        let until = Picos(one_of(&mut random, &GAPS).0 * ops.max(1) as u64);
        let keys = if size == Size::Large { 1 + random.below(48) } else { 1 + random.below(8) };
        let edges: usize = services.iter().map(|service| service.edges).sum();
        let mut script = Script {
            seed,
            planted,
            cores,
            plan: draw_plan(seed, clients.len() as u32, edges as u32, until),
            orders: draw_orders(seed, &services, until),
            services,
            intents: Vec::new(),
            until,
            size,
            lag: one_of(&mut random, &LAGS),
            clock: Clock::draw(&mut random),
            clients,
        };
        script.intents = (0..ops).map(|at| script.draw_intent(at, keys)).collect();
        script
    }

    fn draw_intent(&self, at: usize, keys: u64) -> Intent {
        let mut random = random::stream(self.seed, at as u64, "request");
        let (at, client) =
            (Picos(random.below(self.until.0)), random.below(self.clients.len() as u64) as Node);
        let count = if random.below(5) == 0 { 1 + random.below(BURST) } else { 1 };
        let todo = match random.below(40) {
            0 => Todo::End,
            _ => Todo::Ask((0..count).map(|_| self.draw_wanted(&mut random, keys, count > 1)).collect()),
        };
        Intent { at, client, todo }
    }

    fn draw_wanted(&self, random: &mut Prng, keys: u64, is_burst: bool) -> Wanted {
        let verb = match random.below(if is_burst { 160 } else { 100 }) {
            0..26 => Verb::Set,
            26..31 => Verb::Add,
            31..36 => Verb::Replace,
            36..41 => Verb::Append,
            41..50 => Verb::Cas,
            50..57 => Verb::Delete,
            57..65 => Verb::Incr,
            65..69 => Verb::Touch,
            69 if self.size != Size::Large => Verb::Flush,
            70..72 => Verb::Nonsense,
            _ => Verb::Get,
        };
        let life = (random.below(4) == 0).then(|| 1 + random.below(LIFE));
        // As many short ones as long ones.
        let bits = random.below(u64::from(self.size.most().ilog2()) + 1);
        let size = random.below((2 << bits).min(self.size.most()));
        Wanted { key: random.below(keys), verb, life, size, is_quiet: random.below(6) == 0 }
    }

    /// What the node is made of.
    pub fn places(&self) -> Vec<Place> {
        let place = |service: &Service| {
            let config = Config::default();
            for &(register, value) in &service.registers {
                config.registers.write(register, value).expect("within its range");
            }
            Place { config, core: service.core }
        };
        self.services.iter().map(place).collect()
    }

    /// Whether all who ask this service are told the versions that their changes have: text has no place for them. Else the judge hears of none.
    pub fn tells_versions(&self, service: usize) -> bool {
        !self.clients.iter().any(|(of, tongue)| *of == service && *tongue == Tongue::Text)
    }

    /// How wide the connection number `number` of a client is.
    pub fn width(&self, client: Node, number: u64) -> Width {
        self.size.draw_width(&mut random::stream(self.seed, u64::from(client) << 32 | number, "width"))
    }

    /// What memory is full by: the registers of a service, and what they were.
    pub fn full(&self, service: usize) -> [(Id, u64, u64); 2] {
        let was = |id: Id, default| {
            let found = self.services[service].registers.iter().find(|(register, _)| *register == id);
            found.map_or(default, |(_, value)| *value)
        };
        [
            (Id::NetBufferLimit, LEAST_BUFFERED, was(Id::NetBufferLimit, 256 << 20)),
            (Id::StoreMemory, LEAST_MEMORY, was(Id::StoreMemory, 64 << 20)),
        ]
    }

    /// The node itself, among the nodes of plans: clients come first, then it, then its edges.
    pub fn node(&self) -> Node {
        self.clients.len() as Node
    }

    /// The edge with this number in plans.
    pub fn edge(&self, node: Node) -> Option<usize> {
        let edges: usize = self.services.iter().map(|service| service.edges).sum();
        let at = (node as usize).checked_sub(self.clients.len() + 1)?;
        (at < edges).then_some(at)
    }
}

fn draw_service(random: &mut Prng, cores: usize, size: Size) -> Service {
    let edges = 1 + random.below(3) as usize;
    let memory = if size == Size::Large { LEAST_MEMORY } else { 2 * LEAST_MEMORY };
    let buffered = if random.below(2) == 0 { LEAST_BUFFERED } else { 256 << 20 };
    let registers = vec![
        (Id::EdgeThreads, edges as u64),
        (Id::EngineForm, random.below(3)),
        (Id::EngineMode, random.below(2)),
        (Id::EngineQuantum, 1 << random.below(7)),
        (Id::EngineInFlight, 1 << random.below(9)),
        (Id::NetPipeline, 1 << random.below(9)),
        (Id::NetBufferLimit, buffered),
        (Id::EdgeReadBuffer, 2048 << random.below(4)),
        (Id::RingEntries, 16 << random.below(4)),
        (Id::RingArena, 256 << 10),
        (Id::StoreMemory, memory),
        (Id::StoreMode, random.below(2)),
        (Id::StorePages, 0),
    ];
    Service { core: random.below(cores as u64) as usize, registers, edges }
}

fn draw_plan(seed: u64, clients: u32, edges: u32, until: Picos) -> Plan {
    let bounds = Bounds {
        from: Picos::ZERO,
        until,
        faults: FAULTS,
        longest: Picos((until.0 / 3).min(Picos::from_micros(400_000).0)),
        crash: NodeSet::below(clients),
        machines: NodeSet::below(clients + 1 + edges).without(NodeSet::below(clients + 1)),
        troubles: &[Trouble::Pause, Trouble::Full],
        links: NodeSet::below(clients + 1),
        worst: Weather::fair(Picos::from_micros(200)),
    };
    Plan::draw(seed, &bounds)
}

fn draw_orders(seed: u64, services: &[Service], until: Picos) -> Vec<Order> {
    let mut random = random::stream(seed, 0, "node orders");
    let count = if random.below(2) == 0 { random.below(ORDERS) } else { 0 };
    let mut order = |_| {
        let (register, value) = match random.below(8) {
            0..4 => (Id::EngineMode, random.below(2)),
            4 => (Id::EngineForm, random.below(3)),
            5 => (Id::NetPipeline, 1 << random.below(9)),
            6 => (Id::EdgeReadBuffer, 2048 << random.below(4)),
            _ => (Id::StoreMemory, LEAST_MEMORY << random.below(3)),
        };
        let (at, service) = (Picos(random.below(until.0)), random.below(services.len() as u64) as usize);
        Order { at, service, register, value }
    };
    (0..count).map(&mut order).collect()
}
