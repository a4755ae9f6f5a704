//! A node of key-value services that is driven by hand: its edges and the threads of its engine cores one step at a time, in virtual time, as a seed says.
//!
//! ```text
//!  Peer ═ stream ═▶ edge 0 ═ port ═╗
//!  Peer ═ stream ═▶ edge 1 ═ port ═╬═▶ engine core 0 ◀═ ports of another service ...
//!                     ▲ step_edge  ╝        ▲ step_core
//! ```
//! Connections, parser, edges, ports, engine, service and store are those of a server; so are how it ends and what its registers do. In the place of sockets
//! are [`Peer`]s, in that of threads whoever calls [`Node::step_edge`] and [`Node::step_core`]. Where an edge waits for the engine within its turn, others
//! go on meanwhile: cores, other edges, and what operators ordered. `millrace sim --node` drives it so, by the luck of a seed. Without luck only cores go
//! on meanwhile, in their order, and what a step did is told as [`Act`]s: so it runs in modelled time (`plan::timed::kv`). A client may come by a real
//! socket, too.
//!
//! What is not here: the thread that accepts, sleeping and waking up (whoever would sleep is asked again), TLS, datagrams, shared memory, and two threads
//! within one step of each other, which loom looks at (`ring`).
//!
//! Bounds: within a step, `WAITS_MAX` looks at what an edge waits for; more is a wait without an end, and panics.

mod acts;
mod pipe;

pub use super::edge::planted::Planted;
pub use acts::Act;
pub use pipe::{Peer, Width};

use super::StartError;
use super::clocks::Clocks;
use super::config::Config;
use super::edge::Edge;
use super::registers::{Id, Register as _};
use super::service::assemble_by_hand;
use super::shared::Shared;
use super::system::System;
use crate::engine_cores::{EngineCore, Members};
use crate::memcached::accept::{Inbox, Purpose};
use crate::memcached::counters::NetSnapshot;
use crate::memcached::socket::Socket;
use acts::Acts;
use base::{Nanos, Prng};
use engine::{Core, Work};
use pipe::Served;
use protocol::planted::Bugs;
use ring::wait::{Outcome, Sleeper, WaitPolicy};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Looks within a step at what an edge waits for.
const WAITS_MAX: u32 = 200_000;

/// One in so many looks for the engine finds that somebody else has it.
const ENGINE_IS_TAKEN: u64 = 4;

/// The time of a node, as it is told; within a step it stands still.
#[derive(Clone)]
struct Told {
    time: Arc<AtomicU64>,
    acts: Acts,
}

impl Core for Told {
    fn now(&mut self) -> Nanos {
        Nanos(self.time.load(Ordering::Relaxed))
    }

    fn touched(&mut self, _: usize, n: usize) {
        self.acts.note(Act::Touched(n));
    }

    fn worked(&mut self, work: Work, n: usize) {
        if n > 0 {
            self.acts.note(if work == Work::Admit { Act::Admitted(n) } else { Act::Executed(n) });
        }
    }
}

/// A register of a service is to become this.
type Order = (Arc<Shared<Told>>, Id, u64);

/// What edges share with each other, and with who drives them.
struct Stage<B: Bugs<Planted> + 'static> {
    time: Arc<AtomicU64>,
    acts: Acts,
    planted: B,
    luck: Option<RefCell<Prng>>,
    /// Connections that no edge has seen yet, by what they are called.
    coming: RefCell<HashMap<RawFd, Peer>>,
    cores: Vec<(Arc<EngineCore<Told>>, RefCell<Members>)>,
    edges: RefCell<Vec<Rc<Actor<B>>>>,
    /// What operators ordered and no thread has seen yet.
    orders: RefCell<VecDeque<Order>>,
    waits: Cell<u32>,
}

/// An edge, and the connections that it was given.
struct Actor<B: Bugs<Planted> + 'static> {
    edge: RefCell<Option<Edge<ByHand<B>>>>,
    inbox: Arc<Inbox>,
    service: usize,
    peers: RefCell<Vec<Peer>>,
    /// It does nothing.
    is_paused: Cell<bool>,
    /// When its last act is over at the latest, once that has begun.
    ends: Cell<Option<Nanos>>,
}

/// What an edge runs on.
struct ByHand<B: Bugs<Planted> + 'static>(Rc<Stage<B>>);

impl<B: Bugs<Planted> + 'static> System for ByHand<B> {
    type Core = Told;

    fn now(&self) -> Nanos {
        Nanos(self.0.time.load(Ordering::Relaxed))
    }

    fn socket(&self, accepted: OwnedFd) -> Socket {
        match self.0.coming.borrow_mut().remove(&accepted.as_raw_fd()) {
            Some(peer) => Socket::simulated(accepted, Box::new(Served(peer))),
            None => Socket::plain(accepted),
        }
    }

    fn may_pass(&self) -> bool {
        self.0.luck.is_none() || self.0.draw(ENGINE_IS_TAKEN) > 0
    }

    fn pause(&self, _passes: u32) {
        self.0.others();
    }

    fn wait(
        &self,
        _sleeper: &mut Sleeper,
        (_, timeout): (WaitPolicy, Option<Duration>),
        mut condition: impl FnMut() -> bool,
    ) -> Outcome {
        loop {
            if condition() {
                return Outcome::Ready;
            }
            self.0.others();
            if timeout.is_some() {
                return if condition() { Outcome::Ready } else { Outcome::TimedOut };
            }
        }
    }

    fn has(&self, planted: Planted) -> bool {
        self.0.planted.has(planted)
    }
}

impl<B: Bugs<Planted> + 'static> Stage<B> {
    /// A number below that; the last one, where nothing is left to luck.
    fn draw(&self, below: u64) -> u64 {
        self.luck.as_ref().map_or(below - 1, |luck| luck.borrow_mut().below(below))
    }

    /// Somebody else goes on while an edge waits.
    fn others(&self) {
        self.waits.set(self.waits.get() + 1);
        assert!(self.waits.get() < WAITS_MAX, "an edge waits for what does not come");
        if self.luck.is_none() {
            self.obey();
            return (0..self.cores.len()).for_each(|at| self.step_core(at));
        }
        let edges = self.edges.borrow().clone();
        let count = self.cores.len() + edges.len() + 1;
        match self.draw(count as u64) as usize {
            0 => self.obey(),
            at if at <= self.cores.len() => self.step_core(at - 1),
            at => {
                let actor = &edges[at - 1 - self.cores.len()];
                if !actor.is_paused.get() {
                    self.step_edge(actor);
                }
            }
        }
    }

    /// The oldest order is carried out.
    fn obey(&self) {
        let order = self.orders.borrow_mut().pop_front();
        if let Some((shared, id, value)) = order {
            shared.registers.write(id, value).expect("within its range");
            shared.register_changed(Id::SPECS[id as usize].name);
        }
    }

    fn step_core(&self, at: usize) {
        let (core, members) = &self.cores[at];
        self.acts.note(Act::Core(at));
        core.pass(&mut members.borrow_mut());
        self.acts.note(Act::Edge);
    }

    /// A step of an edge, unless it is in one, or has ended.
    fn step_edge(&self, actor: &Actor<B>) {
        let Ok(mut place) = actor.edge.try_borrow_mut() else { return };
        let Some(edge) = &mut *place else { return };
        if let Some(end) = actor.ends.get() {
            if edge.drain_more(end) {
                *place = None;
            } else if !edge.has_work() {
                edge.hear(&self.events(actor));
            }
            return;
        }
        if edge.is_to_stop() {
            actor.ends.set(Some(edge.begin_drain()));
            return;
        }
        let mut events = edge.look();
        events.extend(self.events(actor));
        if !edge.step(&events) {
            edge.idle_nap();
        }
    }

    /// What the edge's connections are ready for; in any order, if luck has a say.
    fn events(&self, actor: &Actor<B>) -> Vec<epoll::Event> {
        let mut peers = actor.peers.borrow_mut();
        peers.retain(|peer| !peer.is_closed());
        let mut tokens: Vec<u64> = peers.iter().filter_map(Peer::ready).collect();
        for at in (1..tokens.len()).rev() {
            tokens.swap(at, self.draw(at as u64 + 1) as usize);
        }
        let event =
            |token| epoll::Event { flags: epoll::EventFlags::IN, data: epoll::EventData::new_u64(token) };
        tokens.into_iter().map(event).collect()
    }
}

/// A service of a node.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it is told; its registers are its own.
    pub config: Config,
    /// The number of its engine core.
    pub core: usize,
}

/// What a service says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Bytes that its connections buffer.
    pub buffered: usize,
    /// What its edges count.
    pub net: NetSnapshot,
    /// Items that went because there was no room.
    pub evictions: u64,
}

/// See the head of the file.
pub struct Node<B: Bugs<Planted> + 'static> {
    stage: Rc<Stage<B>>,
    services: Vec<Arc<Shared<Told>>>,
    /// How many have connected.
    connected: Cell<usize>,
}

impl<B: Bugs<Planted> + 'static> Node<B> {
    /// A node of so many engine cores, with these services; from the seed, if there is one, is drawn what the node's own threads would leave to chance.
    ///
    /// # Errors
    /// A service that cannot be had.
    pub fn new(
        cores: usize,
        places: &[Place],
        now: Nanos,
        (seed, planted): (Option<u64>, B),
    ) -> Result<Node<B>, StartError> {
        let (time, acts) = (Arc::new(AtomicU64::new(now.0)), Acts::default());
        let told = Told { time: Arc::clone(&time), acts: acts.clone() };
        let core = |number| (EngineCore::by_hand_on(told.clone(), number), RefCell::default());
        let stage = Rc::new(Stage {
            cores: (0..cores).map(core).collect(),
            time,
            acts,
            planted,
            luck: seed.map(|seed| RefCell::new(Prng::new(seed))),
            coming: RefCell::default(),
            edges: RefCell::default(),
            orders: RefCell::default(),
            waits: Cell::new(0),
        });
        let mut node = Node { stage, services: Vec::new(), connected: Cell::new(0) };
        places.iter().try_for_each(|place| node.add(place))?;
        Ok(node)
    }

    fn add(&mut self, Place { config, core }: &Place) -> Result<(), StartError> {
        let system = |error| StartError::System("make descriptors", error);
        let edges = config.registers.size(Id::EdgeThreads);
        let inboxes = (0..edges).map(|_| Inbox::new().map(Arc::new)).collect::<io::Result<Vec<_>>>();
        let inboxes = inboxes.map_err(system)?;
        let (clocks, core) = (Clocks::Told(Arc::clone(&self.stage.time)), &self.stage.cores[*core].0);
        let (shared, ports, hasher) = assemble_by_hand(config, inboxes.clone(), core, clocks)?;
        for (port, inbox) in ports.into_iter().zip(inboxes) {
            let by_hand = ByHand(Rc::clone(&self.stage));
            let edge =
                Edge::new(Arc::clone(&shared), Arc::clone(&inbox), port, hasher, by_hand).map_err(system)?;
            let actor = Actor {
                edge: RefCell::new(Some(edge)),
                inbox,
                service: self.services.len(),
                peers: RefCell::default(),
                is_paused: Cell::new(false),
                ends: Cell::new(None),
            };
            self.stage.edges.borrow_mut().push(Rc::new(actor));
        }
        self.services.push(shared);
        Ok(())
    }

    /// It is that time, by the clock of the node.
    pub fn tell(&self, now: Nanos) {
        self.stage.time.store(now.0, Ordering::Relaxed);
    }

    /// How many edges all services have together.
    pub fn edges(&self) -> usize {
        self.stage.edges.borrow().len()
    }

    /// Whose edge it is.
    pub fn service_of(&self, edge: usize) -> usize {
        self.stage.edges.borrow()[edge].service
    }

    /// A client connects and is given to this edge; none where too many have.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn connect(&self, edge: usize, width: Width) -> io::Result<Peer> {
        let name = eventfd(0, EventfdFlags::CLOEXEC)?;
        let number = self.connected.replace(self.connected.get() + 1);
        let peer = Peer::new(number, width, self.stage.acts.clone());
        self.stage.coming.borrow_mut().insert(name.as_raw_fd(), peer.clone());
        self.stage.edges.borrow()[edge].peers.borrow_mut().push(peer.clone());
        self.accept(edge, name);
        Ok(peer)
    }

    /// A client has connected by this socket and is given to this edge, which hears of what it sends when it has its turn. Nobody notes what it reads and
    /// writes there.
    pub fn accept(&self, edge: usize, socket: OwnedFd) {
        let actor = Rc::clone(&self.stage.edges.borrow()[edge]);
        let net = &self.services[actor.service].net;
        net.total_connections.add(1);
        net.curr_connections.add(1);
        actor.inbox.put(Purpose::Stream, socket);
    }

    /// What is done from now on is noted, for [`Node::take_acts`].
    pub fn note_acts(&self) {
        self.stage.acts.begin();
    }

    /// What was done since the last call, in place of what is in there.
    pub fn take_acts(&self, into: &mut Vec<Act>) {
        self.stage.acts.take(into);
    }

    /// Whether an edge has something to do now: work, or what its connections are ready for, or its end.
    pub fn wants_turn(&self, edge: usize) -> bool {
        let actor = Rc::clone(&self.stage.edges.borrow()[edge]);
        let place = actor.edge.borrow();
        let Some(edge) = place.as_ref().filter(|_| !actor.is_paused.get()) else { return false };
        let is_ready = || actor.peers.borrow().iter().any(|peer| peer.is_new() || peer.ready().is_some());
        edge.has_work() || (edge.is_to_stop() && actor.ends.get().is_none()) || is_ready()
    }

    /// Whether an edge has ended.
    pub fn has_ended(&self, edge: usize) -> bool {
        self.stage.edges.borrow()[edge].edge.borrow().is_none()
    }

    /// An edge has its turn, or looks after itself if it has nothing to do.
    ///
    /// # Panics
    /// It waits for what does not come.
    pub fn step_edge(&self, edge: usize) {
        self.stage.waits.set(0);
        let actor = Rc::clone(&self.stage.edges.borrow()[edge]);
        if !actor.is_paused.get() {
            self.stage.step_edge(&actor);
        }
    }

    /// The thread of an engine core has a pass, or looks after its services if it has nothing to do.
    pub fn step_core(&self, core: usize) {
        self.stage.step_core(core);
    }

    /// The thread of an edge has lost its processor, or has it back.
    pub fn pause_edge(&self, edge: usize, is_paused: bool) {
        self.stage.edges.borrow()[edge].is_paused.set(is_paused);
    }

    /// An operator orders that a register be so. Some thread sees it now, or later.
    pub fn order(&self, service: usize, register: Id, value: u64) {
        let order = (Arc::clone(&self.services[service]), register, value);
        self.stage.orders.borrow_mut().push_back(order);
    }

    /// Whatever was ordered is seen.
    pub fn obey(&self) {
        while !self.stage.orders.borrow().is_empty() {
            self.stage.obey();
        }
    }

    /// The node is told to stop, as by SIGTERM: nobody is accepted any more, and edges begin their last act with their next step.
    pub fn stop(&self) {
        self.services.iter().for_each(|shared| shared.stop());
    }

    /// Whether every edge has ended.
    pub fn has_stopped(&self) -> bool {
        self.stage.edges.borrow().iter().all(|actor| actor.edge.borrow().is_none())
    }

    /// Connections of a service that were closed because all together buffered too much.
    pub fn kicks(&self, service: usize) -> u64 {
        let net = &self.services[service].net;
        net.slow_reader_kicks.read() + net.buffer_refusals.read()
    }

    /// What a service says of itself.
    pub fn said(&self, service: usize) -> Said {
        let shared = &self.services[service];
        let evictions = shared.on_core.ask(|kv, _| kv.report().store.evictions);
        let Shared { buffered, net, .. } = &**shared;
        Said { buffered: buffered.taken(), net: net.snapshot(), evictions }
    }

    /// Bytes that the connections of a service may buffer.
    pub fn limit(&self, service: usize) -> usize {
        self.services[service].buffered.limit()
    }

    /// Bytes that the connections of a service buffer.
    pub fn buffered(&self, service: usize) -> usize {
        self.services[service].buffered.taken()
    }
}

impl<B: Bugs<Planted> + 'static> Drop for Node<B> {
    fn drop(&mut self) {
        // They have the stage, too.
        let edges = std::mem::take(&mut *self.stage.edges.borrow_mut());
        edges.iter().for_each(|actor| _ = actor.edge.borrow_mut().take());
        // As a server: when its edges have ended.
        self.services.iter().for_each(|shared| shared.on_core.leave());
    }
}
