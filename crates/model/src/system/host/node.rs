//! A node on a host: which threads a request passes, by which links, and what it costs each. The routes are the planner's alternatives for the host
//! that it runs on, and what a placer chooses among.
//!
//! ```text
//!   client ══ link ══▶ edge: receive, parse ─┬─ handler ────────────────────────┬─▶ edge: send ══ link ══▶ client
//!                                            ├─ ring ─▶ engine: handler ─ ring ─┤
//!                                            └─ ring ─▶ host thread: handler ───┘
//! ```
//! **Threads and processors.** A thread does one thing at a time (a pool of tokens), and needs a processor for it; the node's threads share the node's
//! processors, the clients' threads theirs. A thread without work stays awake for a while and then sleeps; whoever sends to one that sleeps pays for the
//! system call that wakes it, and the request waits for the wake-up. Threads that share one processor wake each other by a switch.
//!
//! **What is measured and what is not.** Every time is a figure of the platform: system calls, wake-ups, lines, our own code in the first-level cache.
//! No figure is taken from what is predicted.
//!
//! Not modelled: turns that serve many requests with one system call (clients that pipeline on one connection), what a thread that stays awake takes
//! from others where threads outnumber processors, clocks that change with load.

use super::Host;
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::component::Cores;
use crate::kernel::{Kernel, ProgramId, ResourceId, Step, Tokens};
use crate::platform::transfer;
use crate::workload::{Class, Workload};
use base::Picos;
use std::fmt;

/// How clients reach the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Rings in memory that both map.
    SharedMemory,
    /// A TCP connection each.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Link::SharedMemory => "shared memory",
            Link::Tcp => "TCP",
            Link::Udp => "UDP",
        })
    }
}

/// Where the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// On the thread that owns the connections.
    Edge,
    /// On a thread of its own.
    Engine,
    /// On host threads, whichever is free.
    HostThreads,
}

impl Handler {
    /// How far the model was off about services handled here: the root mean square of the relative errors that `millrace model check-host` found
    /// (docs/measurements/check-host.md, Services by place, each placement as last measured); of recommendation and of all others.
    pub const fn known_error(self, is_recommendation: bool) -> f64 {
        match (self, is_recommendation) {
            (Handler::Edge, false) => 0.20,
            (Handler::Engine, false) => 0.13,
            (Handler::HostThreads, false) => 0.18,
            (Handler::Edge, true) => 0.40,
            (Handler::Engine, true) => 0.50,
            (Handler::HostThreads, true) => 0.28,
        }
    }
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Handler::Edge => "edge",
            Handler::Engine => "engine",
            Handler::HostThreads => "host threads",
        })
    }
}

/// A way through the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// To the node and back.
    pub link: Link,
    /// Who answers.
    pub handler: Handler,
}

impl Handler {
    /// Who answers.
    pub fn place(self) -> Place {
        match self {
            Handler::Edge => Place::Edge,
            Handler::Engine => Place::Engine,
            Handler::HostThreads => Place::Host,
        }
    }
}

impl Route {
    /// As tables have it.
    pub fn name(&self) -> String {
        format!("{}, {}", self.handler, self.link)
    }

    /// What it does, in a line.
    pub fn what(&self) -> String {
        let what = match self.handler {
            Handler::Edge => "the thread that owns the connections answers by itself",
            Handler::Engine => "an engine core answers what the edge hands it through a ring",
            Handler::HostThreads => "host threads answer what the edge hands them through rings",
        };
        format!("{}; {what}", self.link)
    }
}

/// How threads of node and clients are set up: registers, and what clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Processors of the node.
    pub processors: u64,
    /// Threads that own connections.
    pub edges: u64,
    /// Host threads.
    pub host: u64,
    /// Threads of the clients on this machine, with a processor each.
    pub clients: u64,
    /// How long an edge without work looks at its sockets before it sleeps (`edge.busy_poll`).
    pub edge_awake: Picos,
    /// How long an edge looks at rings of shared memory before it sleeps (`shm.busy_poll`).
    pub shared_awake: Picos,
    /// How long the engine and host threads look at their rings, and the edge for their replies (`wait.spin`, `wait.pause`).
    pub ring_awake: Picos,
    /// How long a client looks before it sleeps.
    pub client_awake: Picos,
}

impl Default for Threads {
    /// As registers are by themselves, with one processor, one host thread, and one client thread that sleeps at once.
    fn default() -> Threads {
        Threads {
            processors: 1,
            edges: 1,
            host: 1,
            clients: 1,
            edge_awake: Picos::ZERO,
            shared_awake: Picos::from_micros(50),
            ring_awake: Picos::from_nanos(27_200),
            client_awake: Picos::ZERO,
        }
    }
}

impl Threads {
    /// Nobody looks before it sleeps: for a node whose threads share a processor.
    pub fn asleep() -> Threads {
        let zero = Picos::ZERO;
        Threads {
            edge_awake: zero,
            shared_awake: zero,
            ring_awake: zero,
            client_awake: zero,
            ..Threads::default()
        }
    }
}

/// A node as resources, with its clients where they are on the same machine.
#[derive(Debug)]
pub struct Node<'a> {
    host: &'a Host,
    threads: Threads,
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Its processors.
    pub processors: Cores,
    pub(super) clients: Option<Clients>,
    edge: Tokens,
    engine: Tokens,
    host_threads: Tokens,
    wakes: WakeUps,
}

/// A wake-up, and how much longer it takes after a long sleep.
type WakeUp = (ProgramId, Picos);

/// Programs of wake-ups: the call, on the processor of whoever wakes, and the way to the first instruction; a thread that waits for sockets looks at
/// them then.
#[derive(Clone, Copy, Debug)]
struct WakeUps {
    edge_at_sockets: WakeUp,
    edge_at_ring: WakeUp,
    within: WakeUp,
    /// Who is awake.
    none: WakeUp,
}

/// Of a thread that `by` wakes with a call and what a bell takes beside it, and what it does first.
fn wake_up(host: &Host, k: &mut Kernel, name: &str, (by, bell): (Cores, Picos), after: Step) -> WakeUp {
    let super::WakeUp { call, way, deep: (longer, _) } = host.wake_up(bell);
    (k.program(name, [by.busy(call), Step::Wait(way), after]), longer)
}

/// What a thread does first that slept on sockets, and that a ring's end was told by a byte through a socket: it looks at them, and takes the byte.
fn looks(host: &Host, cores: Cores) -> [Step; 2] {
    [cores.busy(host.epoll), cores.busy(host.bell_receive.plus(host.epoll))]
}

impl WakeUps {
    /// Of a node's threads; `clients` wake its edge: their processors, or the node's own where what comes over a cable interrupts one.
    fn new(host: &Host, k: &mut Kernel, node: Cores, clients: Cores, is_shared: bool) -> WakeUps {
        let [sockets, ring] = looks(host, node);
        WakeUps {
            edge_at_sockets: wake_up(host, k, "edge wakes at sockets", (clients, Picos::ZERO), sockets),
            edge_at_ring: wake_up(host, k, "edge wakes at a ring", (clients, host.bell_send), ring),
            within: if is_shared {
                (k.program("switch", [node.busy(host.switch)]), Picos::ZERO)
            } else {
                wake_up(host, k, "wake-up", (node, Picos::ZERO), Step::Wait(Picos::ZERO))
            },
            none: (k.program("awake", []), Picos::ZERO),
        }
    }
}

/// Clients' threads, each with a processor.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    processors: Cores,
    threads: Tokens,
    awake: Picos,
    long_sleep: Picos,
    at_sockets: WakeUp,
    at_ring: WakeUp,
}

impl Clients {
    /// So many, which look for so long before they sleep; `by` wakes them, or what interrupts a processor of theirs.
    pub fn new(host: &Host, k: &mut Kernel, (threads, awake): (u64, Picos), by: Option<Cores>) -> Clients {
        let processors = Cores::new(k, "clients' processors", threads.max(1), host.clock);
        let by = by.unwrap_or(processors);
        let [sockets, ring] = looks(host, processors);
        Clients {
            processors,
            threads: k.tokens("client threads", threads.max(1)),
            awake,
            long_sleep: host.long_sleep,
            at_sockets: wake_up(host, k, "client wakes at sockets", (by, Picos::ZERO), sockets),
            at_ring: wake_up(host, k, "client wakes at a ring", (by, host.bell_send), ring),
        }
    }

    fn turn(&self, link: Link, work: Picos) -> [Step; 3] {
        let (program, longer) = if link == Link::SharedMemory { self.at_ring } else { self.at_sockets };
        let deep = (longer, self.long_sleep);
        let wake = Step::Wake { pool: self.threads, awake: self.awake, program, deep };
        [wake, self.processors.busy(work), Step::Give(self.threads, 1)]
    }

    /// Their resource.
    pub fn processors(&self) -> ResourceId {
        self.processors.at
    }

    /// A thread asks.
    pub fn asks(&self, host: &Host, link: Link, class: &Class) -> [Step; 3] {
        let [_, code] = host.code(class);
        self.turn(link, code.plus(host.sending(link, class.request)))
    }

    /// It takes the answer.
    pub fn takes(&self, host: &Host, link: Link, class: &Class) -> [Step; 3] {
        self.turn(link, host.receiving(link, class.reply))
    }
}

impl Host {
    /// What it takes a thread to send so many bytes.
    pub fn sending(&self, link: Link, bytes: u64) -> Picos {
        match link {
            Link::SharedMemory => self.half(bytes),
            Link::Tcp => self.tcp_send.plus(transfer(bytes, self.tcp_copy)),
            Link::Udp => self.udp_send.plus(transfer(bytes, self.tcp_copy)),
        }
    }

    /// And to take them.
    pub fn receiving(&self, link: Link, bytes: u64) -> Picos {
        match link {
            Link::SharedMemory => self.half(bytes),
            Link::Tcp => self.tcp_receive.plus(transfer(bytes, self.tcp_copy)),
            Link::Udp => self.udp_receive.plus(transfer(bytes, self.tcp_copy)),
        }
    }

    /// One end's half of a message through a ring.
    fn half(&self, bytes: u64) -> Picos {
        Picos(self.ring.0 / 2).plus(transfer(bytes, self.stream))
    }

    /// The code of a request at the edge, and at the client.
    fn code(&self, class: &Class) -> [Picos; 2] {
        // A call is measured as both ends' code.
        if class.fields > 0 { [Picos(self.call.0 / 2); 2] } else { [self.request, Picos::ZERO] }
    }
}

impl<'a> Node<'a> {
    /// With its clients on the same machine, and nothing under way.
    pub fn new(host: &'a Host, threads: Threads, seed: u64) -> Node<'a> {
        Node::build(host, threads, Kernel::new(seed), true)
    }

    /// With its clients on the same machine, in this kernel.
    pub fn with_clients(host: &'a Host, threads: Threads, kernel: Kernel) -> Node<'a> {
        Node::build(host, threads, kernel, true)
    }

    /// Whose clients, and what is between, are in this kernel already.
    pub fn around(host: &'a Host, threads: Threads, kernel: Kernel) -> Node<'a> {
        Node::build(host, threads, kernel, false)
    }

    fn build(host: &'a Host, threads: Threads, mut kernel: Kernel, with_clients: bool) -> Node<'a> {
        let k = &mut kernel;
        let processors = Cores::new(k, "processors", threads.processors.max(1), host.clock);
        let all = (threads.clients, threads.client_awake);
        let clients = with_clients.then(|| Clients::new(host, k, all, Some(processors)));
        let edge = k.tokens("edge", threads.edges.max(1));
        let engine = k.tokens("engine", 1);
        let host_threads = k.tokens("host threads", threads.host.max(1));
        let by = clients.map_or(processors, |clients| clients.processors);
        let wakes = WakeUps::new(host, k, processors, by, threads.processors < 2);
        Node { host, threads, kernel, processors, clients, edge, engine, host_threads, wakes }
    }

    /// Its clients, where they are on the same machine.
    pub fn clients(&self) -> Option<Clients> {
        self.clients
    }

    /// A thread's turn: it is woken if it sleeps, has a processor for so long, and is free.
    fn turn(&self, pool: Tokens, (awake, wake_up): (Picos, WakeUp), work: Picos) -> [Step; 3] {
        let (program, longer) = wake_up;
        let wake = Step::Wake { pool, awake, program, deep: (longer, self.host.long_sleep) };
        [wake, self.processors.busy(work), Step::Give(pool, 1)]
    }

    /// How long a handler of this class works.
    pub fn handling(&self, class: &Class, working_set: u64) -> Picos {
        let host = self.host;
        let (latency, line) = host.miss(working_set);
        let lines = |bytes: u64| bytes.div_ceil(64);
        let looks =
            Picos(latency.0 * class.lookups).plus(if class.lookups > 0 { host.get } else { Picos::ZERO });
        let rows = Picos(line.0 * class.rows * lines(class.row));
        let stored = transfer(class.store, host.stream);
        looks.plus(rows).plus(stored).plus(self.processors.span(class.cycles))
    }

    /// A request of this class by this route, from the client's thread back to it.
    pub fn request(&mut self, class: &Class, working_set: u64, route: Route) -> ProgramId {
        let handling = self.handling(class, working_set);
        self.through(class, route.link, &[(route.handler, handling)])
    }

    /// The same of a class that these work on, one after the other, each for so long.
    pub fn through(&mut self, class: &Class, link: Link, stages: &[(Handler, Picos)]) -> ProgramId {
        let clients = self.clients;
        let asks = clients.iter().flat_map(|of| of.asks(self.host, link, class));
        let takes = clients.iter().flat_map(|of| of.takes(self.host, link, class));
        let steps: Vec<Step> = asks.chain(self.answered(class, link, stages)).chain(takes).collect();
        self.kernel.program(&class.name, steps)
    }

    /// What the node does, from the message at its end of the link to the reply there.
    pub fn answers(&self, class: &Class, working_set: u64, route: Route) -> Vec<Step> {
        let handling = self.handling(class, working_set);
        self.answered(class, route.link, &[(route.handler, handling)])
    }

    fn answered(&self, class: &Class, link: Link, stages: &[(Handler, Picos)]) -> Vec<Step> {
        let line = Step::Wait(Picos(self.host.ping_pong.0 / 2));
        let edge_wakes = match link {
            Link::SharedMemory => (self.threads.shared_awake, self.wakes.edge_at_ring),
            Link::Tcp | Link::Udp => (self.threads.edge_awake, self.wakes.edge_at_sockets),
        };
        let over = (link == Link::SharedMemory).then_some(line);
        let served = self.served(edge_wakes, self.at_edge(class, link), stages);
        over.into_iter().chain(served).chain(over).collect()
    }

    /// From the edge, which wakes up so, through these stages and back to it, to what it then sends.
    fn served(
        &self,
        edge_wakes: (Picos, WakeUp),
        [taken, sent]: [Picos; 2],
        stages: &[(Handler, Picos)],
    ) -> Vec<Step> {
        // Into a ring and out of another; either end does its half of both.
        let (ring, line) = (self.host.ring, Step::Wait(Picos(self.host.ping_pong.0 / 2)));
        let waits = (self.threads.ring_awake, self.wakes.within);
        let mut steps = Vec::new();
        // What the edge has to do until it hands over, and how it comes to it.
        let (mut at_edge, mut edge_wakes, mut at) = (taken, edge_wakes, Handler::Edge);
        for (handler, work) in stages.iter().copied() {
            match handler {
                Handler::Edge => at_edge = at_edge.plus(work),
                Handler::Engine | Handler::HostThreads => {
                    if at == Handler::Edge {
                        steps.extend(self.turn(self.edge, edge_wakes, at_edge.plus(Picos(ring.0 / 2))));
                        (at_edge, edge_wakes) = (Picos::ZERO, waits);
                    }
                    steps.push(line);
                    let pool = if handler == Handler::Engine { self.engine } else { self.host_threads };
                    steps.extend(self.turn(pool, waits, work.plus(ring)));
                    at = handler;
                }
            }
        }
        if at != Handler::Edge {
            steps.push(line);
            at_edge = at_edge.plus(Picos(ring.0 / 2));
        }
        steps.extend(self.turn(self.edge, edge_wakes, at_edge.plus(sent)));
        steps
    }

    /// A request as the node itself sees it, from when an edge that is awake has it: what it takes there before and after the `stages`, one after the
    /// other, that handle it. Where clients are, and what they do, is not in it.
    pub fn within(&mut self, name: &str, edge: [Picos; 2], stages: &[(Handler, Picos)]) -> ProgramId {
        let steps = self.served((Picos::ZERO, self.wakes.none), edge, stages);
        self.kernel.program(name, steps)
    }

    /// What an edge does for a request of this class beside its stages: taking it, with the code, and sending its reply.
    pub fn at_edge(&self, class: &Class, link: Link) -> [Picos; 2] {
        let [code, _] = self.host.code(class);
        [self.host.receiving(link, class.request).plus(code), self.host.sending(link, class.reply)]
    }

    /// The routes of a workload as alternatives.
    fn alternative(&mut self, workload: &Workload, route: Route) -> Alternative {
        let part = |class: &Class| Part {
            class: class.name.clone(),
            share: class.share,
            program: self.request(class, workload.working_set, route),
        };
        let parts = workload.classes.iter().map(part).collect();
        Alternative { name: route.name(), what: route.what(), place: route.handler.place(), parts }
    }

    /// The setting of these routes.
    pub fn setting(mut self, workload: &Workload, routes: &[Route]) -> Setting {
        let alternatives = routes.iter().map(|route| self.alternative(workload, *route)).collect();
        self.with(alternatives, workload.keys)
    }

    /// The setting of alternatives that the caller made.
    pub fn with(self, alternatives: Vec<Alternative>, arguments: u64) -> Setting {
        let host_cores = vec![self.processors.at];
        Setting { host_cores, kernel: self.kernel, alternatives, power: Vec::new(), arguments }
    }
}

/// The routes that a workload can take: datagrams carry keys and values, no calls; handlers that only look up have no host threads.
pub fn routes(workload: &Workload) -> Vec<Route> {
    let are_calls = workload.classes.iter().all(|class| class.fields > 0);
    let links: &[Link] = if are_calls {
        &[Link::SharedMemory, Link::Tcp]
    } else {
        &[Link::SharedMemory, Link::Tcp, Link::Udp]
    };
    let handlers: &[Handler] = if are_calls {
        &[Handler::Edge, Handler::Engine, Handler::HostThreads]
    } else {
        &[Handler::Edge, Handler::Engine]
    };
    let of = |link: &Link| {
        handlers.iter().map(|handler| Route { link: *link, handler: *handler }).collect::<Vec<_>>()
    };
    links.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests;
