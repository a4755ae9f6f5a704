//! Clients, servers, switches with boxes, and the legs that messages travel.
//!
//! ```text
//!   within a cluster          across clusters                           the full cluster
//!   20 clients ─ ToR ─ server  20 clients ─ 2 ToRs ═ 2 roots ═ 2 ToRs ─ 4 servers   5 clients and a server at each of 4 ToRs
//!   (5 and 1 at each of 4)    each ToR to both roots; a key's root is its own
//! ```
//!
//! Every switch has its box beside it. A message enters a switch, which passes its pipeline once, and either goes on or makes a detour: to the box and
//! back, which is the pipeline once more.
//!
//! A [`Leg`] is what happens to a message between two decisions: [`Rack::steps`] says it as steps, each of which belongs to a [`Part`] of the
//! published breakdown. Experiments have machines decide which
//! follows which; the planner puts them in a row.
//!
//! Which deployment the paper had is printed as "within-cluster" and "cross-cluster" only; the counts are our reading.
//! Each ToR has an accelerator of its own, one
//! of both kinds at each physical switch; the larger one serves the root too, without being shared in the model, for it is nowhere near full.

use crate::component::{Network, NetworkBox, Switch};
use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;
use std::ops::Deref;

/// Who is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// A client's server is at its own ToR: one box between them.
    Within,
    /// All servers are behind other ToRs: three boxes.
    Cross,
    /// Keys are everywhere: every fourth operation within, the others across.
    Full,
}

impl Deployment {
    /// As rows write it.
    pub const fn name(self) -> &'static str {
        match self {
            Deployment::Within => "within-cluster",
            Deployment::Cross => "cross-cluster",
            Deployment::Full => "full cluster",
        }
    }
}

/// Switches that emulate tops of racks; beyond them in numbers are roots.
pub const TORS: usize = 4;
/// Switches that emulate roots.
pub const ROOTS: usize = 2;

/// Of what the published breakdown consists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Operating systems of client and server.
    Stack,
    /// The server's work.
    Server,
    /// Switches and cables.
    Switch,
    /// Boxes.
    Box,
}

/// Of several equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// This.
    One(usize),
    /// The one that the operation's argument chooses.
    Any,
}

/// Switches on a way, the client's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    at: [usize; 3],
    count: usize,
}

impl Deref for Switches {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.at[..self.count]
    }
}

/// What a box does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Parses it, looks for the key, does what it says.
    Key,
    /// Nothing: it has no key.
    Bounce,
}

/// A message of so many bytes, from one decision to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leg {
    /// A client's program to the pipeline of its switch.
    ClientSends(Which, u64),
    /// From there to the client's program.
    ClientReceives(Which, u64),
    /// Switch to server's program.
    ServerReceives(Which, u64),
    /// The server's work for an operation.
    Serves(Which),
    /// The server's program to the pipeline of its switch.
    ServerSends(Which, u64),
    /// Switch to server, without the stack's time.
    ToServer(Which, u64),
    /// And back.
    FromServer(Which, u64),
    /// Switch to switch, ToR and root.
    Trunk(usize, usize, u64),
    /// Switch to its box, which works.
    Enter(usize, u64, Work),
    /// And back.
    Leave(usize, u64),
}

/// A row of equal hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    /// One resource for each, in a row; so are the others.
    pub(super) cores: ResourceId,
    /// Host to switch.
    pub(super) up: ResourceId,
    pub(super) down: ResourceId,
    pub(super) count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    crossing: Picos,
    processing: Picos,
    host_bits: f64,
    overhead: u64,
    mtu: u64,
    cycles: f64,
    bounce_cycles: f64,
    accesses: u64,
}

/// Sizes of messages, without headers of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Neither key nor value.
    pub bare: u64,
    /// A key: GET, INVALIDATE, the answer to a SET.
    pub key: u64,
    /// Key and value.
    pub value: u64,
    /// Key and number.
    pub number: u64,
}

/// Everything.
#[derive(Debug)]
pub struct Rack {
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Who is where.
    pub deployment: Deployment,
    /// Of messages.
    pub sizes: Sizes,
    clients: Hosts,
    servers: Hosts,
    boxes: Vec<NetworkBox>,
    /// Of ToR and root: `tor * ROOTS + root`.
    trunks: Vec<Network>,
    switch: Switch,
    numbers: Numbers,
}

impl Rack {
    /// Of the platform's numbers.
    ///
    /// # Errors
    /// The platform lacks one.
    pub fn new(platform: &Platform, deployment: Deployment, seed: u64) -> Result<Rack, LoadError> {
        let cores = (platform.count("client.threads")?, platform.count("server.cores")?);
        Rack::with_cores(platform, deployment, cores, seed)
    }

    /// The same, but each client and each server has so many cores for this.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn with_cores(
        platform: &Platform,
        deployment: Deployment,
        (client_cores, server_cores): (u64, u64),
        seed: u64,
    ) -> Result<Rack, LoadError> {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
        let trunk = platform.bandwidth("network.trunk_bandwidth")?;
        let port = platform.bandwidth("box.bandwidth")?;
        let times = (platform.span("box.traffic_manager")?, platform.span("box.memory")?);
        let clients = hosts(k, "client", platform.count("client.count")?, client_cores);
        let servers = hosts(k, "server", platform.count("server.count")?, server_cores);
        let boxes = (0..TORS + ROOTS).map(|at| {
            // Each physical switch has one of both kinds, and emulates two ToRs and a root.
            let kind = if at < TORS && at % 2 == 0 { "liquidio" } else { "board" };
            let count = platform.count(&format!("box.{kind}.cores"))?;
            let hertz = platform.value(&format!("box.{kind}.clock"), Dimension::Frequency)?;
            let name = if at < TORS { format!("ToR box {at}") } else { format!("root box {}", at - TORS) };
            let port = Network::new(k, &format!("{name} port"), port, packet, Picos::ZERO);
            Ok(NetworkBox::new(k, &name, (count, hertz), times, port))
        });
        let boxes = boxes.collect::<Result<_, LoadError>>()?;
        let trunks = (0..TORS * ROOTS)
            .map(|i| format!("trunk of ToR {} and root {}", i / ROOTS, i % ROOTS))
            .map(|name| Network::new(k, &name, trunk, packet, Picos::ZERO))
            .collect();
        let bits = platform.bandwidth("switch.bandwidth")?;
        let switch = Switch::new(k, "switch pipeline", bits, platform.span("switch.latency")?);
        let header = platform.bytes("packet.header")?;
        let key = header + platform.bytes("packet.key")?;
        let sizes = Sizes {
            bare: header,
            key,
            value: key + platform.bytes("packet.item")?,
            number: key + platform.bytes("packet.number")?,
        };
        let numbers = Numbers {
            crossing: platform.span("stack.crossing")?,
            processing: platform.span("server.processing")?,
            host_bits: platform.bandwidth("network.host_bandwidth")?,
            overhead: packet.1,
            mtu: packet.0,
            cycles: platform.value("box.cycles", Dimension::Cycles)?,
            bounce_cycles: platform.value("box.bounce_cycles", Dimension::Cycles)?,
            accesses: platform.count("box.accesses")?,
        };
        Ok(Rack { kernel, deployment, sizes, clients, servers, boxes, trunks, switch, numbers })
    }

    /// Clients.
    pub fn clients(&self) -> usize {
        self.clients.count as usize
    }

    /// Servers.
    pub fn servers(&self) -> usize {
        self.servers.count as usize
    }

    /// ToRs with clients: the first ones.
    pub fn client_tors(&self) -> usize {
        if self.deployment == Deployment::Cross { TORS / 2 } else { TORS }
    }

    /// A client's ToR.
    pub fn tor_of(&self, client: usize) -> usize {
        client % self.client_tors()
    }

    /// Switches that a message passes from a client to the server of this number, for a key of this root.
    pub fn switches(&self, client: usize, server: usize, root: usize) -> Switches {
        let near = self.tor_of(client);
        let far = match self.deployment {
            Deployment::Cross => TORS / 2 + server % (TORS / 2),
            Deployment::Within | Deployment::Full => server % TORS,
        };
        let count = if near == far { 1 } else { 3 };
        Switches { at: [near, TORS + root, far], count }
    }

    /// Resources: cores of servers.
    pub fn server_cores(&self) -> Vec<ResourceId> {
        (0..self.servers.count).map(|i| ResourceId(self.servers.cores.0 + i)).collect()
    }

    /// Cables from servers to switches: what replies take.
    pub fn server_uplinks(&self) -> Vec<ResourceId> {
        (0..self.servers.count).map(|i| ResourceId(self.servers.up.0 + i)).collect()
    }

    /// Threads of clients.
    pub fn client_threads(&self) -> Vec<ResourceId> {
        (0..self.clients.count).map(|i| ResourceId(self.clients.cores.0 + i)).collect()
    }

    /// Cores of boxes, ToRs first.
    pub fn box_cores(&self) -> Vec<ResourceId> {
        self.boxes.iter().map(NetworkBox::cores).collect()
    }

    /// The switches' pipeline: its uses are packets forwarded.
    pub fn pipeline(&self) -> ResourceId {
        self.switch.at
    }

    /// What a leg does, and to which part of the breakdown it counts.
    pub fn steps(&self, leg: Leg) -> Vec<(Part, Step)> {
        let n = &self.numbers;
        let stack =
            |hosts: &Hosts, which| (Part::Stack, visit(hosts.cores, hosts.count, which, n.crossing, 1));
        let cable = |first, hosts: &Hosts, which, bytes| {
            let wire = self.wire(bytes);
            (Part::Switch, visit(first, hosts.count, which, transfer(wire, n.host_bits), wire))
        };
        let pass = |bytes| (Part::Switch, self.switch.pass(self.wire(bytes)));
        let (c, s) = (&self.clients, &self.servers);
        match leg {
            Leg::ClientSends(i, bytes) => vec![stack(c, i), cable(c.up, c, i, bytes), pass(bytes)],
            Leg::ClientReceives(i, bytes) => vec![cable(c.down, c, i, bytes), stack(c, i)],
            Leg::ServerReceives(i, bytes) => vec![cable(s.down, s, i, bytes), stack(s, i)],
            Leg::Serves(i) => vec![(Part::Server, visit(s.cores, s.count, i, n.processing, 1))],
            Leg::ServerSends(i, bytes) => vec![stack(s, i), cable(s.up, s, i, bytes), pass(bytes)],
            Leg::ToServer(i, bytes) => vec![cable(s.down, s, i, bytes)],
            Leg::FromServer(i, bytes) => vec![cable(s.up, s, i, bytes), pass(bytes)],
            Leg::Trunk(from, to, bytes) => {
                let trunk = &self.trunks[from.min(to) * ROOTS + from.max(to) - TORS];
                let step = if from < to { trunk.send(bytes) } else { trunk.reply(bytes) };
                vec![(Part::Switch, step), pass(bytes)]
            }
            Leg::Enter(at, bytes, work) => {
                let (cycles, accesses) = match work {
                    Work::Key => (n.cycles, n.accesses),
                    Work::Bounce => (n.bounce_cycles, 0),
                };
                let [port, manager, cores] = self.boxes[at].enter(bytes, cycles, accesses);
                vec![(Part::Switch, port), (Part::Box, manager), (Part::Box, cores)]
            }
            Leg::Leave(at, bytes) => {
                let [manager, port] = self.boxes[at].leave(bytes);
                vec![(Part::Box, manager), (Part::Switch, port), pass(bytes)]
            }
        }
    }

    /// How long a part of these legs takes when nothing else is there.
    pub fn time_in(&self, part: Part, legs: &[Leg]) -> Picos {
        let steps = legs.iter().flat_map(|leg| self.steps(*leg)).filter(|(its, _)| *its == part);
        steps.map(|(_, step)| alone(step)).fold(Picos::ZERO, Picos::plus)
    }

    fn wire(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(self.numbers.mtu).max(1) * self.numbers.overhead
    }
}

fn alone(step: Step) -> Picos {
    match step {
        Step::Use { service, after, .. } | Step::Pick { service, after, .. } => service.mean().plus(after),
        Step::Wait(span) => span,
        other => unreachable!("a leg has no {other:?}"),
    }
}

pub(super) fn hosts(k: &mut Kernel, name: &str, count: u64, cores: u64) -> Hosts {
    let count = count as u32;
    let mut row = |what: &str, servers: u64| {
        let ids = (0..count).map(|i| k.resource(&format!("{name} {i} {what}"), servers as usize));
        ids.collect::<Vec<_>>()[0]
    };
    Hosts { cores: row("cores", cores), up: row("to switch", 1), down: row("from switch", 1), count }
}

pub(super) fn visit(first: ResourceId, count: u32, which: Which, span: Picos, units: u64) -> Step {
    let (service, after) = (Service::Fixed(span), Picos::ZERO);
    match which {
        Which::One(i) => Step::Use { at: ResourceId(first.0 + i as u32), service, units, after },
        Which::Any => Step::Pick { first, count, service, units, after },
    }
}
