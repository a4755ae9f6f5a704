//! Parts of machines with this host's numbers: clients with sockets, a cable, a cache of ours on a machine of its own, a node.
//!
//! Where clients are on another machine, nobody there wakes the node's threads: what comes over the cable interrupts a processor of the node, which pays
//! for the wake-up. Nothing is measured over a real cable: sending and taking are those of loopback, where the sender does the kernel's way to the
//! other socket too.

use super::Host;
use super::node::{Clients, Link, Node, Route, Threads, routes};
use crate::component::{Cores, Network};
use crate::kernel::{Kernel, ProgramId, ResourceId, Step, Tokens};
use crate::machine::piece::{self, Asked, Door, Offer, Passed, Server, Task, Way};
use crate::platform::{LoadError, Platform};
use crate::workload::Class;
use base::Picos;
use std::convert::Infallible;

struct Sockets {
    host: Host,
    clients: Clients,
}

impl piece::Clients for Sockets {
    fn asks(&self, class: &Class, link: Link, _: Door) -> Asked {
        let forth = self.clients.asks(&self.host, link, class).into();
        Asked { forth, card: Vec::new(), back: self.clients.takes(&self.host, link, class).into() }
    }
}

/// So many machines of clients: a thread on each processor, which sleeps until its answer comes.
///
/// # Errors
/// The platform lacks a number.
pub fn clients(
    k: &mut Kernel,
    platform: &Platform,
    machines: u64,
) -> Result<Box<dyn piece::Clients>, LoadError> {
    let host = Host::of(platform)?;
    let clients = Clients::new(&host, k, (host.processors * machines, Picos::ZERO), None);
    Ok(Box::new(Sockets { host, clients }))
}

/// A cable.
///
/// # Errors
/// The platform lacks a number.
pub fn link(k: &mut Kernel, platform: &Platform, name: &str) -> Result<Network, LoadError> {
    let packet = (platform.bytes("link.mtu")?, platform.bytes("link.overhead")?);
    Ok(Network::new(k, name, platform.bandwidth("link.bandwidth")?, packet, platform.span("link.latency")?))
}

/// A process that keeps copies, on a machine with a thread on each processor. What it has no part in passes beside it.
struct Cache {
    processors: Cores,
    threads: Tokens,
    wake: (ProgramId, Picos, Picos),
    host: Host,
}

impl Cache {
    fn turn(&self, bytes: u64) -> Vec<Step> {
        let (program, longer, long) = self.wake;
        let work = self.host.receiving(Link::Udp, bytes).plus(self.host.machine);
        let wake = Step::Wake { pool: self.threads, awake: Picos::ZERO, program, deep: (longer, long) };
        vec![
            wake,
            self.processors.busy(work.plus(self.host.sending(Link::Udp, bytes))),
            Step::Give(self.threads, 1),
        ]
    }
}

impl Passed for Cache {
    fn pass(&self, _: u64) -> Vec<Step> {
        Vec::new()
    }

    fn enter(&self, bytes: u64) -> Vec<Step> {
        self.turn(bytes)
    }

    fn leave(&self, _: u64) -> Vec<Step> {
        Vec::new()
    }

    fn bounce(&self, bytes: u64) -> Vec<Step> {
        self.turn(bytes)
    }

    fn cores(&self) -> ResourceId {
        self.processors.at
    }
}

/// A cache of ours.
///
/// # Errors
/// The platform lacks a number.
pub fn cache(k: &mut Kernel, platform: &Platform, name: &str) -> Result<Box<dyn Passed>, LoadError> {
    let host = Host::of(platform)?;
    let processors = Cores::new(k, &format!("{name} processors"), host.processors, host.clock);
    let way = Step::Wait(host.wake_soon.since(host.wake_call));
    let steps = [processors.busy(host.wake_call), way, processors.busy(host.epoll)];
    let wake = (k.program("box wakes at sockets", steps), host.wake.since(host.wake_soon), host.long_sleep);
    let threads = k.tokens(&format!("{name} threads"), host.processors);
    Ok(Box::new(Cache { processors, threads, wake, host }))
}

/// A node: what its threads can answer.
///
/// # Errors
/// The platform lacks a number.
pub fn server(
    kernel: Kernel,
    platform: &Platform,
    task: &Task<'_>,
    server: &mut Server,
) -> Result<Kernel, LoadError> {
    let host = Host::of(platform)?;
    // One is the clients', if there are several and clients are here.
    let own = host.processors.saturating_sub(u64::from(task.is_local)).max(1);
    let processors = task.cores(own);
    let threads = Threads { processors, host: processors, ..Threads::default() };
    let node = if task.is_local {
        Node::with_clients(&host, threads, kernel)
    } else {
        Node::around(&host, threads, kernel)
    };
    let mut here = routes(task.workload);
    here.retain(|route| task.is_local || route.link != Link::SharedMemory);
    server.offers.extend(here.into_iter().map(|route| offer(&node, task, route)));
    let send = host.machine.plus(host.sending(Link::Udp, 0));
    let take = host.receiving(Link::Udp, 0).plus(host.machine);
    server.tells = vec![node.processors.busy(send.plus(take))];
    server.host_cores.push(node.processors.at);
    if let Some(clients) = node.clients {
        server.clients = Some(Box::new(Sockets { clients, host: host.clone() }));
    }
    Ok(node.kernel)
}

fn offer(node: &Node<'_>, task: &Task<'_>, route: Route) -> Offer {
    let ways = task.each(|class| {
        let steps = node.answers(class, task.workload.working_set, route);
        Ok::<_, Infallible>(vec![Way::message(Door::Cores, class, steps)])
    });
    let Ok(ways) = ways;
    Offer { name: route.name(), what: route.what(), place: route.handler.place(), link: route.link, ways }
}
