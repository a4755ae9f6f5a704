//! A whole chain within this process, in memory: for tests of what uses one, and for examples. It survives nothing.
//!
//! One thread drives the machines of all replicas and of the controller; messages between them are handed over as values. Clients come over
//! `memory:` addresses, one for each replica, to the same service as elsewhere. `millrace chain` is the real thing.
//!
//! Bounds: [`SLOTS`] items (and remembered replies) of [`SLOT_BYTES`] with their keys; a log of [`ENTRIES`], of which half is forgotten when it is full.

use crate::chain::service::{Desk, Inquiry};
use crate::chain::traced::Traces;
use crate::txn::info::{Info, Member};
use base::key::Key;
use base::trace::Tracer;
use base::{Clock, Nanos};
use fabric::link::Address;
use fabric::server::{Options, Server};
use protocol::chain::controller::Controller;
use protocol::chain::image::plain::Plain;
use protocol::chain::log::memory::Memory;
use protocol::chain::replica::Recovered;
use protocol::chain::{
    Config, Durability, Image as _, Incarnation, Log as _, Message, NodeId, Part, Replica, ReplicaId, claim,
};
use ring::wait::{Sleeper, Waker, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Items of a chain.
const SLOTS: usize = 4096;
/// Bytes of an item with its key, and 13 more.
const SLOT_BYTES: usize = 1024;
/// Entries of a log.
const ENTRIES: usize = 4096;
/// The controller's number.
const CONTROLLER: u16 = 0;

/// Numbers chains, for their addresses.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A chain in this process.
///
/// ```
/// use serve::chain::Local;
/// use serve::txn::{Client, Options};
/// use protocol::chain::Transaction;
///
/// let chain = Local::start(3);
/// let mut client = Client::connect(chain.addresses(), &Options::default())?;
/// assert_eq!(client.execute(Transaction::new().put("a", "1"))?.copies, 3);
/// chain.kill(1);
/// let found = client.execute(Transaction::new().get("a"))?.reads.remove(0);
/// assert_eq!(found.map(|found| found.value), Some(b"1".to_vec()));
/// # Ok::<(), serve::txn::TxnError>(())
/// ```
pub struct Local {
    addresses: Vec<Address>,
    orders: Orders,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told and has not done.
type Orders = Arc<Mutex<VecDeque<Order>>>;

enum Order {
    Kill(ReplicaId),
    Restart(ReplicaId),
    Stop,
}

impl Local {
    /// A chain of so many replicas, numbered from 1.
    ///
    /// # Panics
    /// Without a replica, or if the system gives no thread or no descriptor.
    pub fn start(replicas: u16) -> Local {
        Local::traced(replicas, &Tracer::default())
    }

    /// The same, and transactions whose callers trace them leave their spans there.
    ///
    /// # Panics
    /// As [`Local::start`].
    pub fn traced(replicas: u16, tracer: &Tracer) -> Local {
        assert!(replicas > 0, "a chain needs a replica");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = |replica| format!("memory:txn-local-{number}-{replica}").parse().expect("an address");
        let addresses: Vec<Address> = (1..=replicas).map(address).collect();
        let orders = Orders::default();
        let (sleeper, waker) = waiting_on_eventfd().expect("the system gives an eventfd");
        let mut whole = Whole::new(&addresses, Arc::clone(&orders), sleeper, tracer);
        let thread = std::thread::Builder::new().name("txn-local".to_owned()).spawn(move || whole.run());
        Local { addresses, orders, waker, thread: Some(thread.expect("the system gives a thread")) }
    }

    /// Where its replicas serve.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Ends a replica, which loses everything. The others go on without it.
    pub fn kill(&self, replica: u16) {
        self.order(Order::Kill(ReplicaId(replica)));
    }

    /// Starts a replica that was killed: it joins again.
    pub fn restart(&self, replica: u16) {
        self.order(Order::Restart(ReplicaId(replica)));
    }

    fn order(&self, order: Order) {
        lock(&self.orders).push_back(order);
        self.waker.wake();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

fn lock(orders: &Orders) -> MutexGuard<'_, VecDeque<Order>> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A replica that lives.
struct Node {
    machine: Replica<Plain, Memory>,
    server: Server,
    desk: Desk,
    inquiries: Vec<Inquiry>,
    traces: Traces,
}

/// What the thread has.
struct Whole {
    config: Config,
    addresses: BTreeMap<ReplicaId, Address>,
    nodes: BTreeMap<ReplicaId, Node>,
    controller: Controller,
    incarnations: u64,
    /// Messages on their way: from, to.
    on_their_way: VecDeque<(NodeId, NodeId, Message)>,
    orders: Orders,
    sleeper: Sleeper,
    clock: Clock,
    tracer: Tracer,
}

impl Whole {
    fn new(addresses: &[Address], orders: Orders, sleeper: Sleeper, tracer: &Tracer) -> Whole {
        let clock = Clock::shared();
        let config = Config::default();
        let addresses: BTreeMap<ReplicaId, Address> =
            (1..).map(ReplicaId).zip(addresses.iter().cloned()).collect();
        let ids: Vec<ReplicaId> = addresses.keys().copied().collect();
        let controller = Controller::new(&config, CONTROLLER, &ids, None, clock.now());
        let mut whole = Whole {
            config,
            addresses,
            nodes: BTreeMap::new(),
            controller,
            incarnations: 0,
            on_their_way: VecDeque::new(),
            orders,
            sleeper,
            clock,
            tracer: tracer.clone(),
        };
        ids.into_iter().for_each(|id| whole.start(id));
        whole
    }

    /// Starts a replica, with nothing: its log is in memory.
    fn start(&mut self, id: ReplicaId) {
        self.incarnations += 1;
        let (desk, service) = Desk::new();
        let server = Server::new(Options::default())
            .service(service)
            .listen(&self.addresses[&id])
            .expect("nobody else has this address");
        let machine = Replica::new(
            &self.config,
            id,
            Incarnation(self.incarnations),
            &[CONTROLLER],
            Key::generate(),
            Recovered { born: Incarnation(self.incarnations), ..Recovered::default() },
            self.clock.now(),
            Plain::new(SLOTS, SLOT_BYTES),
            Memory::new(Durability::Volatile, ENTRIES),
        );
        let traces = Traces::new(self.tracer.clone());
        self.nodes.insert(id, Node { machine, server, desk, inquiries: Vec::new(), traces });
    }

    fn run(&mut self) {
        loop {
            loop {
                let order = lock(&self.orders).pop_front();
                let Some(order) = order else { break };
                match order {
                    Order::Stop => return,
                    Order::Kill(id) => drop(self.nodes.remove(&id)),
                    Order::Restart(id) if self.nodes.contains_key(&id) => {}
                    Order::Restart(id) => self.start(id),
                }
            }
            if self.turn() == 0 {
                self.rest();
            }
        }
    }

    /// Does what there is to do; how much that was.
    fn turn(&mut self) -> usize {
        let now = self.clock.now();
        let mut done = 0;
        for (from, to, message) in std::mem::take(&mut self.on_their_way) {
            self.deliver(now, from, to, message);
            done += 1;
        }
        let ids: Vec<ReplicaId> = self.nodes.keys().copied().collect();
        for id in ids {
            let node = self.nodes.get_mut(&id).expect("it was there");
            let Node { machine, server, desk, inquiries, traces } = node;
            let mut out = Vec::new();
            done += server.poll(now);
            // Its image is of another kind, and not for backups: dropped, they are refused.
            let mut exports = VecDeque::new();
            done += desk.take(now, inquiries, &mut exports, |from, message| {
                traces.ask(from, &message, machine);
                machine.handle(now, from, message, &mut out);
            });
            traces.look(machine, &mut out);
            let is_behind = machine.log().last().0 > machine.log().durable();
            if is_behind || machine.next_deadline() <= now {
                machine.log_mut().sync();
                machine.tick(now, &mut out);
                traces.look(machine, &mut out);
            }
            let log = machine.log();
            if log.last().0.0.saturating_sub(log.first().0) > ENTRIES as u64 / 2 {
                // What neighbours lack is kept for them; memory needs no checkpoint.
                let view = machine.view();
                machine.log_mut().forget_below(view.applied.min(view.needed));
            }
            let addresses = &self.addresses;
            for inquiry in std::mem::take(inquiries) {
                let info = info(&self.config, addresses, machine, inquiry.digest.is_some());
                inquiry.reply.reply(|reply| info.put(reply));
            }
            done += out.len();
            self.depart(NodeId::Replica(id), out);
        }
        done + self.govern(now)
    }

    fn deliver(&mut self, now: Nanos, from: NodeId, to: NodeId, message: Message) {
        let mut out = Vec::new();
        match to {
            NodeId::Replica(id) => {
                if let Some(Node { machine, traces, .. }) = self.nodes.get_mut(&id) {
                    traces.hear(from, &message, machine, &mut out);
                    machine.handle(now, from, message, &mut out);
                    traces.look(machine, &mut out);
                }
            }
            NodeId::Controller(_) => self.controller.handle(now, from, message, &mut out),
            NodeId::Client(_) | NodeId::Home => {}
        }
        self.depart(to, out);
    }

    /// The controller's turn; its registry is its own memory.
    fn govern(&mut self, now: Nanos) -> usize {
        let mut out = Vec::new();
        if self.controller.next_deadline() <= now {
            self.controller.tick(now, &mut out);
        }
        if self.controller.proposal().is_some() {
            self.controller.stored(now, Ok(()), &mut out);
        }
        let said = out.len();
        self.depart(NodeId::Controller(CONTROLLER), out);
        said
    }

    /// Sends what a machine said.
    fn depart(&mut self, from: NodeId, out: Vec<(NodeId, Message)>) {
        for (to, message) in out {
            match (to, from) {
                (NodeId::Client(client), NodeId::Replica(id)) => {
                    if let Some(node) = self.nodes.get_mut(&id) {
                        node.traces.answer(to, &message, &node.machine);
                        node.desk.answer(client, &message);
                    }
                }
                _ => self.on_their_way.push_back((from, to, message)),
            }
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        self.sleeper.arm();
        // All of them: one that is not armed would not wake us.
        let idle = self.nodes.values_mut().filter_map(|node| node.server.arm().then_some(())).count();
        let servers = idle == self.nodes.len();
        // Whoever orders rings after it has said what; so this look comes after arming.
        if servers && self.on_their_way.is_empty() && lock(&self.orders).is_empty() {
            let node = |node: &Node| node.machine.next_deadline().min(node.server.next_deadline());
            let next = self.nodes.values().map(node).fold(self.controller.next_deadline(), Nanos::min);
            let span = next.since(self.clock.now()).min(Nanos::from_secs(1));
            let bell = self.sleeper.descriptor().expect("made with an eventfd");
            let all = self.nodes.values().flat_map(|node| node.server.descriptors()).chain([bell]);
            let mut fds: Vec<PollFd<'_>> =
                all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let span = Timespec {
                tv_sec: (span.0 / 1_000_000_000) as i64,
                tv_nsec: (span.0 % 1_000_000_000) as i64,
            };
            // Every result means the same: look again.
            let _ = poll(&mut fds, Some(&span));
        }
        self.sleeper.disarm();
        self.nodes.values_mut().for_each(|node| node.server.disarm());
    }
}

fn info(
    config: &Config,
    addresses: &BTreeMap<ReplicaId, Address>,
    machine: &Replica<Plain, Memory>,
    digest: bool,
) -> Info {
    let view = machine.view();
    let members = machine.configuration().members.iter().map(|member| Member {
        replica: member.replica,
        incarnation: member.incarnation,
        syncing: member.part == Part::Syncing,
        address: addresses.get(&member.replica).cloned(),
    });
    Info {
        chain: config.chain,
        replica: machine.id(),
        incarnation: machine.incarnation(),
        epoch: view.epoch,
        members: members.collect(),
        is_head: view.is_head,
        is_tail: view.is_tail,
        serves_reads: view.settled && view.is_tail,
        last: view.last,
        durable: view.durable,
        committed: view.committed,
        applied: view.applied,
        durability: view.class,
        media: "memory of this process".to_owned(),
        waiting: view.waiting as u64,
        under_way: view.under_way as u64,
        digest: digest.then(|| machine.image().digest()),
        hottest: Vec::new(),
        figures: Vec::new(),
        claim: claim::of(machine.image()),
    }
}
