//! A chain in virtual time: nodes, the network between them, the faults of a plan, and clients that do what a script says.
//!
//! ```text
//!   0 ─── safety: transactions, faults ─── until │ calm, all up … │ all serve; must succeed │ one dies: must succeed │ rest: images
//! ```
//! Messages are bytes on every hop: written by [`protocol::chain::wire`], damaged perhaps, and read again. A timer is an event at the moment at
//! which the node's clock shows its deadline. A node that is paused does nothing; what comes for it waits.
//!
//! Bounds: [`MOST_EVENTS`]; a world in which more happens does not come to rest, which is a violation.

mod lives;

use super::super::clock::Clock;
use super::super::packets::Datagram;
use super::super::words;
use super::super::world::Violation;
use super::behind::{self, Behind};
use super::disk::{Disk, Machine};
use super::issue::Underway;
use super::record::Record;
use super::registry::{Answer, Registry, Request};
use super::script::{DELAY, Script};
use super::serve::Driver;
use super::shape::{Role, Shape};
use super::watch::Watch;
use base::{Nanos, Picos, Prng};
use protocol::chain::{
    Client, Configuration, Controller, Epoch, Message, NodeId, Operator, Out, Planted, wire,
};
use sim::faults::{Step, Trouble};
use sim::network::{Network, Weather};
use sim::nodes::Node;
use sim::{Fingerprint, Queue, random};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Events of a run at most, for each transaction, and as many as for a hundred more.
const MOST_EVENTS: u64 = 4_000;
/// The same behind a home, of a run.
const MOST_BEHIND: u64 = 400_000;
/// Nodes' lives are numbered from here on, so that a new one has a higher number than all before.
const LIVES: u64 = 1;

/// What happens.
#[derive(Debug)]
pub enum Happening {
    /// A message arrives.
    Arrival { from: NodeId, to: NodeId, datagram: Datagram },
    /// A node's timer, of this life.
    Timer { life: u32 },
    /// The operator wants the next thing.
    Order,
    /// A transaction of the script, by its place there.
    Issue(usize),
    /// A step of the plan.
    Fault(Step),
    /// A replica's log is durable up to where it was when that was begun.
    Synced { life: u32 },
    /// A replica's checkpoint is durable.
    Saved { life: u32 },
    /// A controller asks to lead.
    Campaign { life: u32 },
    /// A controller's request reaches the registry.
    Asked { node: Node, life: u32, asked: Nanos, request: Request },
    /// The registry's answer reaches the controller.
    Answered { life: u32, asked: Nanos, answer: Answer },
    /// The next phase begins.
    Phase(Phase),
    /// Nothing: somebody outside does something.
    Now,
}

/// What follows the safety phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults end, who is down comes up.
    Calm,
    /// Every client writes once, and so many times more, so that it has a session.
    Sessions(u32),
    /// All replicas must serve; new transactions, which must succeed.
    Liveness,
    /// A replica dies; new transactions, which must succeed nevertheless.
    OneDies,
    /// The images must be the same.
    Rest,
}

/// What runs on a node.
#[derive(Debug)]
pub enum Actor {
    /// A client.
    Client(Box<Client>),
    /// A replica.
    Replica(Box<Machine>),
    /// A controller.
    Controller(Box<Controller<Option<Planted>>>),
    /// An operator.
    Operator(Box<Operator>),
}

/// A node.
#[derive(Debug)]
pub struct Place {
    /// What runs there; `None` while it is down.
    pub actor: Option<Actor>,
    /// Of the node: a crash leaves it alone.
    pub clock: Clock,
    /// Counts lives, from 1.
    pub life: u32,
    /// As others know it in this life.
    pub id: NodeId,
    /// It stopped by itself, and is started when its trouble ends.
    pub has_stopped: bool,
    /// A controller waits for the registry.
    pub is_storing: bool,
    troubles: BTreeSet<Trouble>,
    /// What came while it was paused.
    waiting: Vec<Happening>,
    was_paused: bool,
    /// When its timer is due.
    timer: Picos,
}

/// The chain and its clients.
pub struct World {
    pub(super) shape: Shape,
    pub(super) script: Arc<Script>,
    pub(super) queue: Queue<Happening>,
    network: Network,
    pub(super) places: Vec<Place>,
    /// Of each replica.
    pub(super) disks: Vec<Option<Disk>>,
    pub(super) drivers: Vec<Driver>,
    pub(super) luck: Vec<Prng>,
    pub(super) registry: Registry,
    pub(super) registry_luck: Prng,
    /// All that the registry ever had.
    pub(super) configurations: BTreeMap<Epoch, Configuration>,
    births: u64,
    /// What the operator wants, by its place in the script.
    pub(super) order: usize,
    pub(super) record: Record,
    pub(super) underway: Underway,
    pub(super) watch: Watch,
    pub(in crate::sim) is_calm: bool,
    pub(in crate::sim) is_over: bool,
    pub(in crate::sim) violation: Option<Violation>,
    pub(in crate::sim) print: Fingerprint,
    pub(in crate::sim) events: u64,
    pub(in crate::sim) trace: Option<Vec<String>>,
    /// Who asks it, where it is behind a home.
    pub(super) behind: Option<Behind>,
}

impl World {
    /// Everybody up, nothing under way. `only` are the transactions to be done, where not all.
    pub fn new(shape: Shape, script: &Arc<Script>, only: Option<&[usize]>, traced: bool) -> World {
        let (count, mut world) = (shape.count(), World::empty(shape, script, traced));
        (0..count).for_each(|node| world.begin(node));
        let script = Arc::clone(&world.script);
        for (at, step) in script.plan.steps() {
            world.queue.push(at, count, Happening::Fault(step));
        }
        let all: Vec<usize> = (0..script.intents.len()).collect();
        for &i in only.unwrap_or(&all) {
            if let Some(intent) = script.intents.get(i) {
                world.queue.push(intent.at, intent.client, Happening::Issue(i));
            }
        }
        world.queue.push(script.until, count, Happening::Phase(Phase::Calm));
        world
    }

    /// Behind a home, which is not up yet: everybody else is. What goes wrong, and how it goes on, is told from outside.
    pub fn behind_home(shape: Shape, script: &Arc<Script>, traced: bool) -> World {
        let mut world = World::empty(shape, script, traced);
        world.watch.keep_outcomes(script.config.session_window);
        world.behind = Some(Behind::new(script.config.chain));
        (behind::HOME + 1..shape.count()).for_each(|node| world.begin(node));
        world
    }

    /// Nobody up.
    fn empty(shape: Shape, script: &Arc<Script>, traced: bool) -> World {
        let (count, script) = (shape.count(), Arc::clone(script));
        let place = |node| Place {
            actor: None,
            clock: Clock::draw(&mut random::stream(script.seed, u64::from(node), "clock")),
            life: 0,
            id: shape.id(node, 0),
            has_stopped: false,
            is_storing: false,
            troubles: BTreeSet::new(),
            waiting: Vec::new(),
            was_paused: false,
            timer: Picos::MAX,
        };
        let luck = |i| random::stream(script.seed, i as u64, "medium");
        World {
            network: Network::new(script.seed, count, Weather::fair(DELAY)),
            places: (0..count).map(place).collect(),
            disks: script.disks.iter().map(|disk| Some(Disk::new(*disk))).collect(),
            drivers: vec![Driver::default(); script.disks.len()],
            luck: (0..script.disks.len()).map(luck).collect(),
            registry: Registry::default(),
            registry_luck: random::stream(script.seed, 0, "registry"),
            configurations: BTreeMap::new(),
            births: LIVES,
            order: 0,
            record: Record::default(),
            underway: Underway::default(),
            watch: Watch::new(),
            is_calm: false,
            is_over: false,
            violation: None,
            print: Fingerprint::new(),
            events: 0,
            trace: traced.then(Vec::new),
            queue: Queue::new(),
            behind: None,
            shape,
            script,
        }
    }

    /// Lets everything happen, until the end or a violation.
    pub fn run(&mut self) {
        let most = MOST_EVENTS * (self.script.intents.len() as u64 + 100);
        while self.violation.is_none()
            && !self.is_over
            && let Some(event) = self.queue.pop()
        {
            self.take(event, most);
        }
        for node in self.shape.replicas() {
            let view = self.replica(node).map(|machine| (machine.view(), machine.stats()));
            self.note(|shape| format!("{:<13} at the end: {view:?}", shape.name(node)));
        }
        self.settle();
    }

    fn take(&mut self, event: sim::Event<Happening>, most: u64) {
        self.events += 1;
        self.note_event(&event);
        if self.events > most {
            self.broken(format!("after {most} events it has not come to rest"));
        }
        self.happen(event.source, event.at, event.what);
    }

    /// When something happens next.
    pub fn next_at(&mut self) -> Option<Picos> {
        self.queue.next_at()
    }

    /// Lets everything happen up to `at`, which is now then.
    pub fn run_until(&mut self, at: Picos) {
        self.queue.push(at, self.shape.count(), Happening::Now);
        while self.violation.is_none()
            && let Some(event) = self.queue.pop_until(at)
        {
            self.take(event, MOST_BEHIND);
        }
    }

    fn happen(&mut self, node: Node, at: Picos, what: Happening) {
        if node < self.shape.count() && self.has_trouble(node, Trouble::Pause) {
            return self.places[node as usize].waiting.push(what);
        }
        match what {
            Happening::Arrival { from, to, datagram } => self.arrive(node, from, to, &datagram),
            Happening::Timer { life } => self.timer(node, life, at),
            Happening::Order if !self.is_calm => self.begin(node),
            Happening::Order | Happening::Now => {}
            Happening::Issue(i) => self.issue(i),
            Happening::Fault(step) if !self.is_calm => self.fault(step),
            Happening::Fault(_) => {}
            Happening::Synced { life } => self.synced(node, life),
            Happening::Saved { life } => self.saved(node, life),
            Happening::Campaign { life } => self.campaign(node, life),
            Happening::Asked { node, life, asked, request } => self.asked(node, life, asked, request),
            Happening::Answered { life, asked, answer } => self.answered(node, life, asked, answer),
            Happening::Phase(phase) => self.enter(phase),
        }
    }

    /// Now.
    pub(super) fn now(&self) -> Picos {
        self.queue.now()
    }

    /// What a node's clock shows.
    pub(super) fn read_clock(&self, node: Node) -> Nanos {
        self.places[node as usize].clock.read(self.queue.now())
    }

    /// A promise is broken.
    pub(super) fn broken(&mut self, what: String) {
        if self.violation.is_some() {
            return;
        }
        let lines = self.record.last(8);
        let text = lines.iter().fold(what, |text, line| text + "\n  " + line);
        self.violation = Some(Violation { at: self.now(), text });
    }

    pub(super) fn note(&mut self, line: impl FnOnce(&Shape) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>15}  {}", words::moment(self.queue.now()), line(&self.shape)));
        }
    }

    fn note_event(&mut self, event: &sim::Event<Happening>) {
        let kind = match &event.what {
            Happening::Arrival { .. } => 1,
            Happening::Timer { .. } => 2,
            Happening::Issue(_) => 3,
            Happening::Fault(_) => 4,
            Happening::Synced { .. } => 5,
            Happening::Saved { .. } => 6,
            Happening::Campaign { .. } => 7,
            Happening::Asked { .. } => 8,
            Happening::Answered { .. } => 9,
            Happening::Phase(_) => 10,
            Happening::Order => 11,
            Happening::Now => 12,
        };
        self.print.event(event, kind);
        if let Happening::Arrival { datagram, .. } = &event.what {
            self.print.bytes(datagram.bytes());
        }
    }

    // ---- messages and timers

    fn arrive(&mut self, node: Node, from: NodeId, to: NodeId, datagram: &Datagram) {
        let message = match wire::parse(datagram.bytes()) {
            Ok((chain, message)) if chain == self.script.config.chain => message,
            Ok((chain, message)) => return self.broken(format!("a message of chain {chain}: {message:?}")),
            Err(error) => {
                if !datagram.is_damaged() {
                    self.broken(format!("a message that {from:?} wrote cannot be read: {error}"));
                }
                return self.note(|shape| format!("{:<13} drops a message: {error}", shape.name(node)));
            }
        };
        if datagram.is_damaged() {
            return self.broken(format!("a message with damage was read as {message:?}"));
        }
        if self.places[node as usize].actor.is_none() || !self.is_for(node, to) {
            return;
        }
        self.note(|shape| format!("{:<13} ◀ {}: {message:?}", shape.name(node), sender(shape, from)));
        let now = self.read_clock(node);
        let mut out = Out::new();
        match &mut self.places[node as usize].actor {
            Some(Actor::Client(m)) => m.handle(now, from, message, &mut out),
            Some(Actor::Replica(m)) => m.handle(now, from, message, &mut out),
            Some(Actor::Controller(m)) => m.handle(now, from, message, &mut out),
            Some(Actor::Operator(m)) => m.handle(now, from, message, &mut out),
            None => {}
        }
        self.acted(node, &mut out);
    }

    fn timer(&mut self, node: Node, life: u32, at: Picos) {
        if !self.lives(node, life) || self.places[node as usize].timer > at {
            return;
        }
        self.places[node as usize].timer = Picos::MAX;
        self.tick(node);
        let now = self.read_clock(node);
        if self.deadline(node).is_some_and(|deadline| deadline <= now) {
            self.broken(format!("{} has not done what was due", self.shape.name(node)));
        }
    }

    /// Lets a node serve what is due.
    pub(super) fn tick(&mut self, node: Node) {
        let now = self.read_clock(node);
        let mut out = Out::new();
        match &mut self.places[node as usize].actor {
            Some(Actor::Client(m)) => m.tick(now, &mut out),
            Some(Actor::Replica(m)) => m.tick(now, &mut out),
            Some(Actor::Controller(m)) => m.tick(now, &mut out),
            Some(Actor::Operator(m)) => m.tick(now, &mut out),
            None => {}
        }
        self.acted(node, &mut out);
    }

    fn deadline(&self, node: Node) -> Option<Nanos> {
        let question = self.behind.as_ref().and_then(|behind| behind.next_question(node));
        self.places[node as usize].actor.as_ref().map(|actor| match actor {
            Actor::Client(m) => m.next_deadline().min(question.unwrap_or(Nanos::MAX)),
            Actor::Replica(m) => m.next_deadline(),
            Actor::Controller(m) => m.next_deadline(),
            Actor::Operator(m) => m.next_deadline(),
        })
    }

    /// After whatever a machine did: its messages, its timer, what ended, what its driver does, and what must hold.
    pub(super) fn acted(&mut self, node: Node, out: &mut Out) {
        if self.has_failed(node) {
            out.clear();
            return self.stop(node);
        }
        self.send_all(node, out);
        match self.shape.role(node) {
            Role::Client(_) if self.behind.is_some() => self.collect_behind(node),
            Role::Client(_) => self.collect(node),
            Role::Replica(_) => {
                self.look_at_replica(node);
                self.serve_disk(node);
            }
            Role::Controller(_) => self.serve_registry(node),
            Role::Operator => self.look_at_operator(node),
        }
        self.set_timer(node);
    }

    pub(super) fn send_all(&mut self, node: Node, out: &mut Out) {
        let from = self.places[node as usize].id;
        let now = self.queue.now();
        for (to, message) in out.drain(..) {
            if let (NodeId::Home, Some(behind)) = (to, &mut self.behind) {
                behind.ask_home(node, message);
                continue;
            }
            self.underway.note_request(node, &message);
            self.send(now, node, from, to, &message);
        }
    }

    fn send(&mut self, now: Picos, node: Node, from: NodeId, to: NodeId, message: &Message) {
        let Some(receiver) = self.shape.node_of(to) else { return };
        let mut bytes = Vec::new();
        wire::emit(self.script.config.chain, message, &mut bytes);
        let queue = &mut self.queue;
        self.network.send(now, node, receiver, Datagram::new(bytes), |at, datagram| {
            queue.push(at, receiver, Happening::Arrival { from, to, datagram });
        });
    }

    fn set_timer(&mut self, node: Node) {
        let Some(deadline) = self.deadline(node) else { return };
        let now = self.queue.now();
        let place = &mut self.places[node as usize];
        let Some(at) = place.clock.when(deadline) else { return };
        let at = at.max(now);
        if at < place.timer {
            place.timer = at;
            self.queue.push(at, node, Happening::Timer { life: place.life });
        }
    }

    // ---- nodes by what they are

    /// The machine of a client that is up.
    pub(super) fn client(&mut self, node: Node) -> Option<&mut Client> {
        match &mut self.places[node as usize].actor {
            Some(Actor::Client(machine)) => Some(machine),
            _ => None,
        }
    }

    /// The machine of a replica that is up.
    pub(super) fn replica(&self, node: Node) -> Option<&Machine> {
        match &self.places[node as usize].actor {
            Some(Actor::Replica(machine)) => Some(machine),
            _ => None,
        }
    }
}

fn sender(shape: &Shape, id: NodeId) -> String {
    shape.node_of(id).map_or_else(|| format!("{id:?}"), |node| shape.name(node))
}
