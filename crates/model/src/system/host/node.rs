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
use crate::kernel::{Kernel, ProgramId, Step, Tokens};
use crate::platform::{LoadError, Platform, transfer};
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
    /// (docs/measurements/check-host.md, Services by place).
    pub const fn known_error(self) -> f64 {
        match self {
            Handler::Edge => 0.23,
            Handler::Engine => 0.44,
            Handler::HostThreads => 0.17,
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

/// A node and its clients, as resources.
#[derive(Debug)]
pub struct Node<'a> {
    host: &'a Host,
    threads: Threads,
    kernel: Kernel,
    processors: Cores,
    client_processors: Cores,
    clients: Tokens,
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
    client_at_sockets: WakeUp,
    client_at_ring: WakeUp,
    within: WakeUp,
    /// Who is awake.
    none: WakeUp,
}

impl WakeUps {
    fn new(host: &Host, kernel: &mut Kernel, node: Cores, clients: Cores, is_shared: bool) -> WakeUps {
        let mut wake_up = |name: &str, by: Cores, bell: Picos, after: Step| {
            let way = Step::Wait(host.wake_soon.since(host.wake_call));
            let program = kernel.program(name, [by.busy(host.wake_call.plus(bell)), way, after]);
            (program, host.wake.since(host.wake_soon))
        };
        // Who sleeps on sockets looks at them; a ring's end is told by a byte through a socket, and takes it.
        let (rings, taken) = (host.bell_send, host.bell_receive.plus(host.epoll));
        let nothing = Step::Wait(Picos::ZERO);
        WakeUps {
            edge_at_sockets: wake_up("edge wakes at sockets", clients, Picos::ZERO, node.busy(host.epoll)),
            edge_at_ring: wake_up("edge wakes at a ring", clients, rings, node.busy(taken)),
            client_at_sockets: wake_up(
                "client wakes at sockets",
                node,
                Picos::ZERO,
                clients.busy(host.epoll),
            ),
            client_at_ring: wake_up("client wakes at a ring", node, rings, clients.busy(taken)),
            within: if is_shared {
                (kernel.program("switch", [node.busy(host.switch)]), Picos::ZERO)
            } else {
                wake_up("wake-up", node, Picos::ZERO, nothing)
            },
            none: (kernel.program("awake", []), Picos::ZERO),
        }
    }
}

impl<'a> Node<'a> {
    /// With nothing under way.
    pub fn new(host: &'a Host, threads: Threads, seed: u64) -> Node<'a> {
        let mut kernel = Kernel::new(seed);
        let processors = Cores::new(&mut kernel, "processors", threads.processors.max(1), host.clock);
        let client_processors =
            Cores::new(&mut kernel, "clients' processors", threads.clients.max(1), host.clock);
        let clients = kernel.tokens("client threads", threads.clients.max(1));
        let edge = kernel.tokens("edge", threads.edges.max(1));
        let engine = kernel.tokens("engine", 1);
        let host_threads = kernel.tokens("host threads", threads.host.max(1));
        let wakes = WakeUps::new(host, &mut kernel, processors, client_processors, threads.processors < 2);
        Node {
            host,
            threads,
            kernel,
            processors,
            client_processors,
            clients,
            edge,
            engine,
            host_threads,
            wakes,
        }
    }

    /// A thread's turn: it is woken if it sleeps, has a processor for so long, and is free.
    fn turn(&self, pool: Tokens, (awake, wake_up): (Picos, WakeUp), work: Picos) -> [Step; 3] {
        [self.wake(pool, awake, wake_up), self.processors.busy(work), Step::Give(pool, 1)]
    }

    fn wake(&self, pool: Tokens, awake: Picos, (program, longer): WakeUp) -> Step {
        Step::Wake { pool, awake, program, deep: (longer, self.host.long_sleep) }
    }

    fn client_turn(&self, link: Link, work: Picos) -> [Step; 3] {
        let wake_up =
            if link == Link::SharedMemory { self.wakes.client_at_ring } else { self.wakes.client_at_sockets };
        let wake = self.wake(self.clients, self.threads.client_awake, wake_up);
        [wake, self.client_processors.busy(work), Step::Give(self.clients, 1)]
    }

    fn send(&self, link: Link, bytes: u64) -> Picos {
        match link {
            Link::SharedMemory => self.half(bytes),
            Link::Tcp => self.host.tcp_send.plus(transfer(bytes, self.host.tcp_copy)),
            Link::Udp => self.host.udp_send.plus(transfer(bytes, self.host.tcp_copy)),
        }
    }

    fn receive(&self, link: Link, bytes: u64) -> Picos {
        match link {
            Link::SharedMemory => self.half(bytes),
            Link::Tcp => self.host.tcp_receive.plus(transfer(bytes, self.host.tcp_copy)),
            Link::Udp => self.host.udp_receive.plus(transfer(bytes, self.host.tcp_copy)),
        }
    }

    /// One end's half of a message through a ring.
    fn half(&self, bytes: u64) -> Picos {
        Picos(self.host.ring.0 / 2).plus(transfer(bytes, self.host.stream))
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

    /// The code of a request at the edge, and at the client.
    fn code(&self, class: &Class) -> [Picos; 2] {
        // A call is measured as both ends' code.
        if class.fields > 0 { [Picos(self.host.call.0 / 2); 2] } else { [self.host.request, Picos::ZERO] }
    }

    /// A request of this class by this route, from the client's thread back to it.
    pub fn request(&mut self, class: &Class, working_set: u64, route: Route) -> ProgramId {
        let Route { link, handler } = route;
        let handling = self.handling(class, working_set);
        let [code, client_code] = self.code(class);
        let line = Step::Wait(Picos(self.host.ping_pong.0 / 2));
        let (edge_awake, edge_wake) = match link {
            Link::SharedMemory => (self.threads.shared_awake, self.wakes.edge_at_ring),
            Link::Tcp | Link::Udp => (self.threads.edge_awake, self.wakes.edge_at_sockets),
        };
        let over = |steps: &mut Vec<Step>| {
            if link == Link::SharedMemory {
                steps.push(line);
            }
        };
        let mut steps: Vec<Step> = Vec::new();
        steps.extend(self.client_turn(link, client_code.plus(self.send(link, class.request))));
        over(&mut steps);
        let taken = self.receive(link, class.request).plus(code);
        let sent = self.send(link, class.reply);
        steps.extend(self.served((edge_awake, edge_wake), [taken, sent], &[(handler, handling)]));
        over(&mut steps);
        steps.extend(self.client_turn(link, self.receive(link, class.reply)));
        self.kernel.program(&class.name, steps)
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
        let [code, _] = self.code(class);
        [self.receive(link, class.request).plus(code), self.send(link, class.reply)]
    }

    /// The routes of a workload as alternatives.
    fn alternative(&mut self, workload: &Workload, route: Route) -> Alternative {
        let part = |class: &Class| Part {
            class: class.name.clone(),
            share: class.share,
            program: self.request(class, workload.working_set, route),
        };
        let parts = workload.classes.iter().map(part).collect();
        let place = match route.handler {
            Handler::Edge => Place::Edge,
            Handler::Engine => Place::Engine,
            Handler::HostThreads => Place::Host,
        };
        let Route { link, handler } = route;
        let what = match handler {
            Handler::Edge => "the thread that owns the connections answers by itself",
            Handler::Engine => "an engine core answers what the edge hands it through a ring",
            Handler::HostThreads => "host threads answer what the edge hands them through rings",
        };
        Alternative { name: format!("{handler}, {link}"), what: format!("{link}; {what}"), place, parts }
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

/// The setting of a workload on a host: see [`crate::plan::families`].
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let host = Host::of(platform)?;
    // One is the clients', if there are several.
    let processors = host.processors.saturating_sub(1).clamp(1, workload.host_cores.unwrap_or(u64::MAX));
    let threads = Threads { processors, host: processors, ..Threads::default() };
    Ok(Node::new(&host, threads, seed).setting(workload, &routes(workload)))
}

#[cfg(test)]
mod tests;
