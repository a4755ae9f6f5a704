//! A key-value node in modelled time: parser, edges, ports, engine, commands and store are those of a server, driven by hand ([`serve::kv::by_hand`]); what
//! their steps take is what a host's numbers say of the calls, requests and accesses to memory that each made.
//!
//! ```text
//!   client thread ── send ──▶ Peer ──▶ edge ── step ──▶ acts, in their order ── step::play ──▶ processors, wake-ups
//!        ▲                              ▲  └ core ┘                                                     │
//!        └───────── wakes, takes what was sent by then ◀────────────── each reply when its call is over ┘
//! ```
//! An edge is a process that has a step when it is awake and something is there for it; then its acts take their time, one after the other, at the node's
//! processors. A client's thread is one, too. Who sleeps and who wakes whom is by the same numbers and rules as in the planner's arithmetic
//! ([`model::system::host::Node`]); which requests share a turn, a call, a group of misses or a wake-up is what the code does.
//!
//! Bounds: within a step the node's clock stands still, and what arrives while its acts take their time is seen by the next one. An edge's step has the
//! passes of the cores that it waits for in it: two edges that wait for one core queue for its processor, and their requests do not share a pass.
//! Connections come and go for nothing; links are those within the host.

pub mod experiment;
mod step;
#[cfg(test)]
mod tests;

use base::{Nanos, Picos};
use model::kernel::Service;
use model::sim::Mailbox;
use model::system::host::{Host, Link, Node as Machine, Threads, WakeUp};
use model::{ResourceId, Sim};
use protocol::planted::Bugs;
use serve::kv::StartError;
use serve::kv::by_hand::{Act, Node, Peer, Place, Planted, Width};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A node that has been told to stop looks so often at what is left.
const LOOK: Picos = Picos::from_millis(10);

/// A client: what it asks, and what it thinks of the answers.
pub trait Client {
    /// What it asks first.
    fn begin(&mut self, now: Picos) -> Vec<u8>;

    /// It hears these bytes; what it asks then.
    fn hears(&mut self, bytes: &[u8], now: Picos) -> Vec<u8>;
}

/// A node and its clients, before anything happens.
pub struct Setup<'a, B> {
    /// The numbers.
    pub host: &'a Host,
    /// Processors and threads: those of clients, and how long each looks before it sleeps. Edges and cores are as many as `places` have.
    pub threads: Threads,
    /// Bytes that requests touch at random.
    pub working_set: u64,
    /// Services and their registers.
    pub places: Vec<Place>,
    /// What edges do wrong.
    pub planted: B,
    /// How short the calls of a connection come.
    pub width: Width,
}

/// A thread.
struct Thread {
    /// Since when it has had nothing to do, if so.
    idle: Cell<Option<Picos>>,
    /// When it is awake.
    bell: Mailbox<Picos>,
}

/// A connection: its end, and its edge. It is given to the clients' threads in turn.
#[derive(Clone)]
struct Line {
    peer: Peer,
    edge: usize,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps of edges.
    pub steps: u64,
    /// Requests that they took.
    pub requests: u64,
    /// Calls that woke a thread, and switches to one.
    pub wakes: u64,
}

/// A node in time. Clones are the same.
pub struct Timed<B: Bugs<Planted> + 'static>(Rc<World<B>>);

struct World<B: Bugs<Planted> + 'static> {
    /// The simulation.
    sim: Sim,
    node: Node<B>,
    host: Host,
    threads: Threads,
    working_set: u64,
    width: Width,
    /// The node's, and the clients'.
    processors: [ResourceId; 2],
    edges: Vec<Thread>,
    /// Since when each engine core's thread has had nothing to do.
    cores: Vec<Cell<Picos>>,
    clients: Vec<Thread>,
    lines: RefCell<Vec<Line>>,
    /// The node's number of the first of them.
    first: Cell<usize>,
    /// Bytes that have come for clients, by thread: whose, and how many.
    arrived: Vec<RefCell<Vec<(usize, usize)>>>,
    is_stopping: Cell<bool>,
    counts: Cell<Counts>,
}

impl<B: Bugs<Planted> + 'static> Clone for Timed<B> {
    fn clone(&self) -> Timed<B> {
        Timed(Rc::clone(&self.0))
    }
}

impl<B: Bugs<Planted> + 'static> Timed<B> {
    /// A node at time 0, without clients.
    ///
    /// # Errors
    /// A service that cannot be had.
    ///
    /// # Panics
    /// Without threads of clients.
    pub fn new(setup: Setup<'_, B>) -> Result<Timed<B>, StartError> {
        let Setup { host, threads, working_set, places, planted, width } = setup;
        let machine = Machine::new(host, threads, 1);
        let clients = machine.clients().expect("its clients are on the same machine");
        let processors = [machine.processors.at, clients.processors()];
        let sim = Sim::new(machine.kernel);
        let cores = places.iter().map(|place| place.core + 1).max().unwrap_or(0);
        let node = Node::new(cores, &places, Nanos::ZERO, (None, planted))?;
        let thread = |_| Thread { idle: Cell::new(None), bell: Mailbox::new(&sim) };
        assert!(threads.clients > 0, "somebody must ask");
        Ok(Timed(Rc::new(World {
            edges: (0..node.edges()).map(thread).collect(),
            cores: vec![Cell::new(Picos::ZERO); cores],
            clients: (0..threads.clients as usize).map(thread).collect(),
            arrived: (0..threads.clients).map(|_| RefCell::default()).collect(),
            lines: RefCell::default(),
            first: Cell::new(0),
            is_stopping: Cell::new(false),
            counts: Cell::default(),
            host: host.clone(),
            sim,
            node,
            threads,
            working_set,
            width,
            processors,
        })))
    }

    /// The simulation.
    pub fn sim(&self) -> &Sim {
        &self.0.sim
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.0.counts.get()
    }

    /// Bytes of requests that are answered before anything takes time, by an edge: the store is filled. The answers.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn fill(&self, edge: usize, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let peer = self.0.node.connect(edge, self.0.width)?;
        peer.send(bytes);
        let mut heard = Vec::new();
        while self.0.node.wants_turn(edge) {
            self.0.node.step_edge(edge);
            peer.take(usize::MAX, &mut heard);
        }
        peer.end();
        self.0.node.step_edge(edge);
        Ok(heard)
    }

    /// Clients connect, each to its edge, and are given to the clients' threads in turn; then edges and clients begin. To be called once.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn begin<C: Client + 'static>(&self, clients: Vec<(usize, C)>) -> std::io::Result<()> {
        let world = &self.0;
        let mut users: Vec<Vec<C>> = world.clients.iter().map(|_| Vec::new()).collect();
        for (at, (edge, client)) in clients.into_iter().enumerate() {
            let (peer, thread) = (world.node.connect(edge, world.width)?, at % users.len());
            if at == 0 {
                // Who filled the store had connected, too.
                world.first.set(peer.number());
            }
            users[thread].push(client);
            world.lines.borrow_mut().push(Line { peer, edge });
        }
        // They are welcomed before anybody asks.
        (0..world.edges.len()).for_each(|edge| world.node.step_edge(edge));
        world.node.note_acts();
        for edge in 0..world.edges.len() {
            world.sim.spawn(serve(Rc::clone(world), edge));
        }
        for (number, users) in users.into_iter().enumerate() {
            world.sim.spawn(ask(Rc::clone(world), number, users));
        }
        Ok(())
    }

    /// The node is told to stop, as by SIGTERM, at a moment that is now or later.
    pub fn stop_at(&self, at: Picos) {
        let world = Rc::clone(&self.0);
        self.0.sim.spawn(async move {
            world.sim.sleep_until(at).await;
            world.node.stop();
            world.is_stopping.set(true);
            for edge in &world.edges {
                world.ring(world.processors[0], edge, world.at_sockets()).await;
            }
        });
    }
}

impl<B: Bugs<Planted> + 'static> World<B> {
    async fn pay(&self, at: ResourceId, span: Picos) {
        self.sim.serve(at, Service::Fixed(span), 1).await;
    }

    /// How an edge is woken that waits for its sockets, and how long it looks before it sleeps.
    fn at_sockets(&self) -> (Picos, WakeUp) {
        (self.threads.edge_awake, self.host.wake_up(Picos::ZERO))
    }

    /// There is something for a thread, by who runs on `by`: it pays for the call, if that sleeps.
    async fn ring(&self, by: ResourceId, thread: &Thread, (awake, how): (Picos, WakeUp)) {
        let Some(since) = thread.idle.take() else { return };
        let Some(way) = how.way_of(self.sim.now().since(since), awake) else {
            return thread.bell.send(self.sim.now());
        };
        self.count(|counts| counts.wakes += 1);
        self.pay(by, how.call).await;
        thread.bell.send(self.sim.now().plus(way));
    }

    /// A thread has nothing to do, until it is awake again.
    async fn rest(&self, thread: &Thread) {
        thread.idle.set(Some(self.sim.now()));
        let at = thread.bell.receive().await;
        self.sim.sleep_until(at).await;
    }

    /// So many bytes of an edge are there for the client of this number.
    async fn deliver(&self, number: usize, bytes: usize) {
        let Some(at) = number.checked_sub(self.first.get()) else { return };
        let thread = at % self.clients.len();
        self.arrived[thread].borrow_mut().push((at, bytes));
        let how = (self.threads.client_awake, self.host.wake_up(Picos::ZERO));
        self.ring(self.processors[0], &self.clients[thread], how).await;
    }

    /// A client sends, if there is anything.
    async fn send(&self, by: ResourceId, Line { peer, edge }: &Line, request: &[u8]) {
        if !request.is_empty() {
            self.pay(by, self.host.sending(Link::Tcp, request.len() as u64)).await;
            peer.send(request);
            self.ring(by, &self.edges[*edge], self.at_sockets()).await;
        }
    }

    fn count(&self, with: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        with(&mut counts);
        self.counts.set(counts);
    }
}

/// An edge: step after step while there is something to do.
async fn serve<B: Bugs<Planted> + 'static>(world: Rc<World<B>>, edge: usize) {
    let mut acts: Vec<Act> = Vec::new();
    loop {
        let is_stopping = world.is_stopping.get();
        if !world.node.wants_turn(edge) && !is_stopping {
            world.rest(&world.edges[edge]).await;
            continue;
        }
        world.node.tell(world.sim.now().nanos());
        world.node.step_edge(edge);
        world.node.take_acts(&mut acts);
        world.play(&acts).await;
        if world.node.has_ended(edge) {
            return;
        }
        if is_stopping && !world.node.wants_turn(edge) {
            world.sim.sleep(LOOK).await;
        }
    }
}

/// A client's thread: it asks for each of its connections, and takes what comes.
async fn ask<B: Bugs<Planted> + 'static, C: Client>(world: Rc<World<B>>, number: usize, mut users: Vec<C>) {
    let (by, threads) = (world.processors[1], world.clients.len());
    let lines: Vec<Line> = world.lines.borrow().iter().skip(number).step_by(threads).cloned().collect();
    for (line, client) in lines.iter().zip(&mut users) {
        let request = client.begin(world.sim.now());
        world.send(by, line, &request).await;
    }
    let (mut ready, mut bytes) = (Vec::new(), Vec::new());
    loop {
        ready.clear();
        std::mem::swap(&mut ready, &mut *world.arrived[number].borrow_mut());
        if ready.is_empty() {
            world.rest(&world.clients[number]).await;
            continue;
        }
        world.pay(by, world.host.epoll).await;
        for (at, count) in ready.drain(..) {
            let (line, client) = (&lines[at / threads], &mut users[at / threads]);
            bytes.clear();
            line.peer.take(count, &mut bytes);
            world.pay(by, world.host.receiving(Link::Tcp, count as u64)).await;
            if line.peer.is_stuck() {
                // The edge waits for room.
                world.ring(by, &world.edges[line.edge], world.at_sockets()).await;
            }
            let request = client.hears(&bytes, world.sim.now());
            world.send(by, line, &request).await;
        }
    }
}
