//! A node in virtual time: its edges and engine cores, clients and the bytes between them, the faults of a plan, and what operators order.
//!
//! ```text
//!   0 ─── safety: requests, faults, orders, stops ─── until │ calm: all is answered │ each asks; must be answered │ rest │ stop: all is closed
//! ```
//! An edge has its turn some time after there is something for it; a core has passes when an edge waits for it, and now and then. Nothing that was sent is
//! lost, but for the client that is gone (`crash`): links that are cut or clogged carry bytes later, weather makes reads and writes short. Power that fails is
//! SIGTERM: the node ends in order, and another begins with nothing; its keys have other names.
//!
//! Bounds: [`MOST_EVENTS`]; a world in which more happens does not come to rest, which is a violation.

use super::super::words;
use super::super::world::Violation;
use super::client::Client;
use super::script::{Intent, Script, Todo, Verb, Wanted};
use base::{Picos, Prng};
use serve::kv::by_hand::{Node, Planted};
use sim::faults::Step;
use sim::history::History;
use sim::kv::{Op, Ret};
use sim::network::{Effect, Links};
use sim::{Fingerprint, Queue, random};
use std::collections::BTreeMap;

/// See the head of the file.
const MOST_EVENTS: u64 = 400_000;
/// An edge that has been told to stop looks so often.
const LOOK: Picos = Picos::from_micros(10_000);
/// All that is under way is answered within this when all is well.
const PATIENCE: Picos = Picos::from_micros(3_000_000);
/// A node that has stopped begins again after this at most.
const REST: u64 = Picos::from_micros(500).0;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    /// A request of the script, by its place there.
    Issue(usize),
    /// Bytes go on between a client and the node.
    Flow(usize),
    /// An edge has its turn, in this life of the node.
    Edge(usize, u64),
    /// A step of the plan.
    Fault(usize),
    /// An operator orders something.
    Order(usize),
    /// Whatever was ordered is seen at last.
    Obey,
    /// A node begins.
    Begin,
    /// The next phase.
    Phase(Phase),
}

/// What follows the safety phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults end.
    Calm,
    /// All must have been answered.
    Answered,
    /// Everybody asks something, which must have been answered.
    Asked,
    /// The node has been told to stop.
    Stopped,
}

/// See the head of the file.
pub struct World<'a> {
    pub(super) script: &'a Script,
    pub(super) queue: Queue<Happening>,
    pub(super) node: Option<Node<Option<Planted>>>,
    /// Counts nodes.
    pub(super) life: u64,
    pub(super) clients: Vec<Client>,
    /// Whether an event for it is on its way: of each edge, of each client.
    pub(super) due: (Vec<bool>, Vec<bool>),
    pub(super) links: BTreeMap<u32, (Links, Effect)>,
    steps: Vec<(Picos, Step)>,
    pub(super) luck: Prng,
    pub(super) is_calm: bool,
    /// When the node was told to stop, if it was.
    pub(super) stopped_at: Option<Picos>,
    /// Connections of each service that the node closed for no reason that the world knows; what it says it closed, when it had ended.
    pub(super) unexplained: Vec<u64>,
    pub(super) kicked: Vec<u64>,
    /// Of each service, the largest buffer of its connections, and the largest limit of all of them.
    pub(super) buffers: Vec<usize>,
    pub(super) limits: Vec<usize>,
    pub(super) numbers: u64,
    pub(super) history: History<Op, Ret>,
    /// Items may have gone for want of room.
    pub may_evict: bool,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// Of all that happened.
    pub print: Fingerprint,
    /// How much happened.
    pub events: u64,
    /// Nodes that stopped in order while there was load; registers that were changed.
    pub marks: [u64; 2],
    /// What happened, in lines, if that is wanted.
    pub trace: Option<Vec<String>>,
    is_over: bool,
}

impl<'a> World<'a> {
    /// All is still to come; of the intents only these, if that is said.
    pub fn new(script: &'a Script, only: Option<&[usize]>, traced: bool) -> World<'a> {
        let client = |&(service, tongue)| Client {
            service,
            tongue,
            line: None,
            connections: 0,
            versions: BTreeMap::new(),
        };
        let services = script.services.len();
        let mut world = World {
            script,
            queue: Queue::new(),
            node: None,
            life: 0,
            clients: script.clients.iter().map(client).collect(),
            due: (Vec::new(), vec![false; script.clients.len()]),
            links: BTreeMap::new(),
            steps: script.plan.steps(),
            luck: random::stream(script.seed, 0, "node luck"),
            is_calm: false,
            stopped_at: None,
            unexplained: vec![0; services],
            kicked: vec![0; services],
            buffers: vec![16 << 10; services],
            limits: vec![0; services],
            numbers: 0,
            history: History::new(),
            may_evict: false,
            violation: None,
            print: Fingerprint::new(),
            events: 0,
            marks: [0; 2],
            trace: traced.then(Vec::new),
            is_over: false,
        };
        world.prepare(only);
        world
    }

    fn prepare(&mut self, only: Option<&[usize]>) {
        let script = self.script;
        for (at, intent) in script.intents.iter().enumerate() {
            if only.is_none_or(|only| only.contains(&at)) {
                self.queue.push(intent.at, intent.client, Happening::Issue(at));
            }
        }
        let steps: Vec<_> = self.steps.iter().map(|&(at, _)| at).collect();
        for (number, at) in steps.into_iter().enumerate() {
            self.queue.push(at, script.node(), Happening::Fault(number));
        }
        for (number, order) in script.orders.iter().enumerate() {
            self.queue.push(order.at, script.node(), Happening::Order(number));
        }
        self.queue.push(script.until, script.node(), Happening::Phase(Phase::Calm));
        self.begin();
    }

    /// Until all is over, or a promise is broken.
    pub fn run(&mut self) {
        while self.violation.is_none()
            && !self.is_over
            && let Some(event) = self.queue.pop()
        {
            self.events += 1;
            let kind = match event.what {
                Happening::Issue(_) => 0,
                Happening::Flow(_) => 1,
                Happening::Edge(..) => 2,
                Happening::Fault(_) => 3,
                Happening::Order(_) => 4,
                Happening::Obey => 5,
                Happening::Begin => 6,
                Happening::Phase(_) => 7,
            };
            self.print.event(&event, kind);
            if self.events > MOST_EVENTS {
                return self.broken(format!("{MOST_EVENTS} events, and it does not come to rest"));
            }
            self.happens(event.what);
        }
    }

    fn happens(&mut self, what: Happening) {
        if let Some(node) = &self.node {
            node.tell(self.script.clock.read(self.queue.now()));
        }
        match what {
            Happening::Issue(at) => self.issue(&self.script.intents[at]),
            Happening::Flow(client) => self.flow(client),
            Happening::Edge(edge, life) if life == self.life => self.turn(edge),
            Happening::Edge(..) => {}
            Happening::Fault(number) => self.fault(self.steps[number].1),
            Happening::Order(number) => self.order(number),
            Happening::Obey => self.node.iter().for_each(Node::obey),
            Happening::Begin => self.begin(),
            Happening::Phase(phase) => self.phase(phase),
        }
    }

    // ---- the node

    fn begin(&mut self) {
        let script = self.script;
        self.life += 1;
        let now = script.clock.read(self.queue.now());
        let places = script.places();
        let node = Node::new(script.cores, &places, now, (Some(script.seed ^ self.life), script.planted));
        let node = node.unwrap_or_else(|error| panic!("a node cannot begin: {error}"));
        self.due.0 = vec![false; node.edges()];
        self.limits = (0..places.len()).map(|service| node.limit(service)).collect();
        self.node = Some(node);
        self.stopped_at = None;
        self.unexplained.fill(0);
        self.note(|| "node          begins".to_owned());
    }

    /// An edge has its turn; what it did, or others while it waited, has consequences.
    fn turn(&mut self, edge: usize) {
        self.due.0[edge] = false;
        let before = self.buffering();
        let Some(node) = &self.node else { return };
        node.step_edge(edge);
        // Now and then the thread of a core wakes up, too.
        let core = self.luck.below(8 * self.script.cores as u64) as usize;
        if core < self.script.cores {
            node.step_core(core);
        }
        self.look_at_kicks(&before);
        self.look_after();
    }

    /// Whoever has something to do now is to do it soon.
    pub(super) fn look_after(&mut self) {
        self.watch();
        let Some(node) = &self.node else { return };
        let wants: Vec<_> = (0..node.edges()).map(|edge| node.wants_turn(edge)).collect();
        let open: Vec<_> = (0..node.edges()).map(|edge| !node.has_ended(edge)).collect();
        let lag = self.script.lag.0;
        for edge in 0..wants.len() {
            if wants[edge] {
                self.soon(edge, lag);
            } else if self.stopped_at.is_some() && open[edge] && !self.due.0[edge] {
                self.due.0[edge] = true;
                self.queue.push(
                    self.queue.now().plus(LOOK),
                    self.script.node(),
                    Happening::Edge(edge, self.life),
                );
            }
        }
        for client in 0..self.clients.len() {
            let line = self.clients[client].line.as_ref();
            if line.is_some_and(|line| line.has_more() || line.peer.is_closed()) {
                self.go_on(client);
            }
        }
        if open.iter().all(|open| !open) {
            self.ended();
        }
    }

    pub(super) fn soon(&mut self, edge: usize, within: u64) {
        if !std::mem::replace(&mut self.due.0[edge], true) {
            let at = self.queue.now().plus(Picos(self.luck.below(within + 1)));
            self.queue.push(at, self.script.node(), Happening::Edge(edge, self.life));
        }
    }

    /// The node is told to stop.
    pub(super) fn stop(&mut self) {
        let (Some(node), None) = (&self.node, self.stopped_at) else { return };
        node.stop();
        self.stopped_at = Some(self.queue.now());
        for line in self.clients.iter_mut().filter_map(|client| client.line.as_mut()) {
            line.promised = Some(line.sent());
        }
        self.note(|| "node          is told to stop".to_owned());
        self.look_after();
    }

    /// It has ended.
    fn ended(&mut self) {
        self.look_at_stopped();
        let Some(node) = &self.node else { return };
        let said: Vec<_> = (0..self.script.services.len()).map(|service| node.said(service)).collect();
        self.may_evict |= said.iter().any(|said| said.evictions > 0);
        self.kicked = (0..said.len()).map(|service| node.kicks(service)).collect();
        self.note(|| "node          has ended".to_owned());
        self.node = None;
        // What it had said is still heard, before anything else is asked of another.
        for client in 0..self.clients.len() {
            self.hear(client, usize::MAX);
            self.forget(client);
        }
        if self.is_calm {
            self.is_over = true;
            return;
        }
        self.marks[0] += 1;
        let at = self.queue.now().plus(Picos(1 + self.luck.below(REST)));
        self.queue.push(at, self.script.node(), Happening::Begin);
    }

    fn order(&mut self, number: usize) {
        let order = self.script.orders[number];
        let Some(node) = &self.node else { return };
        node.order(order.service, order.register, order.value);
        self.marks[1] += 1;
        self.note(|| format!("operator      {order:?}"));
        let at = self.queue.now().plus(Picos(1 + self.luck.below(self.script.lag.0 * 4)));
        self.queue.push(at, self.script.node(), Happening::Obey);
    }

    // ---- phases

    fn phase(&mut self, phase: Phase) {
        self.note(|| format!("phase         {phase:?}"));
        match phase {
            Phase::Calm => self.calm(),
            Phase::Answered => {
                self.must_have_answered("when all was well again");
                for client in 0..self.clients.len() {
                    let verbs = [(Verb::Set, 7), (Verb::Get, 0)];
                    for (verb, size) in verbs {
                        let wanted = Wanted { key: 0, verb, life: None, size, is_quiet: false };
                        let todo = Todo::Ask(vec![wanted]);
                        self.issue(&Intent { at: self.queue.now(), client: client as u32, todo });
                    }
                }
                self.next(Phase::Asked);
            }
            Phase::Asked => {
                self.must_have_answered("though all was well");
                let connected = self.clients.iter().filter(|client| client.line.is_some()).count();
                if self.node.is_some() && self.stopped_at.is_none() && self.violation.is_none() {
                    self.look_at_rest(connected as u64);
                }
                self.stop();
                self.next(Phase::Stopped);
            }
            Phase::Stopped => self.broken("the node was told to stop, and does not end".to_owned()),
        }
    }

    fn next(&mut self, phase: Phase) {
        self.queue.push(self.queue.now().plus(PATIENCE), self.script.node(), Happening::Phase(phase));
    }

    fn calm(&mut self) {
        if self.node.is_none() || self.stopped_at.is_some() {
            // Another is to begin first.
            let at = self.queue.now().plus(PATIENCE);
            self.queue.push(at, self.script.node(), Happening::Phase(Phase::Calm));
            return;
        }
        self.is_calm = true;
        self.links.clear();
        self.set_widths();
        if let Some(node) = &self.node {
            (0..node.edges()).for_each(|edge| node.pause_edge(edge, false));
            node.obey();
        }
        self.all_go_on();
        self.look_after();
        self.next(Phase::Answered);
    }

    /// Everything that was asked was answered.
    fn must_have_answered(&mut self, when: &str) {
        let late = |client: &Client| client.line.as_ref().is_some_and(|line| !line.is_answered());
        if let Some(number) = self.clients.iter().position(late) {
            self.broken(format!("client {number} was not answered {when}"));
        }
    }

    // ---- words

    /// A promise is broken.
    pub fn broken(&mut self, text: String) {
        let at = self.queue.now();
        self.violation.get_or_insert(Violation { at, text });
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>16}  {}", words::moment(self.queue.now()), text()));
        }
    }

    /// When it is.
    pub fn now(&self) -> Picos {
        self.queue.now()
    }

    /// Operations that began.
    pub fn operations(&self) -> u64 {
        self.numbers
    }

    /// What the clients saw.
    pub fn take_history(&mut self) -> History<Op, Ret> {
        std::mem::take(&mut self.history)
    }
}
