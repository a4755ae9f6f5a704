//! Parts of machines with this rack's numbers: clients and servers with their operating systems and cables, a switch with its box.

use super::rack::{Hosts, Which, hosts, visit};
use crate::alternative::Place;
use crate::component::{Network, NetworkBox, Switch};
use crate::kernel::{Kernel, ResourceId, Step};
use crate::machine::piece::{self, Asked, Door, Hop, Offer, Passed, Server, Task, Way};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos, transfer};
use crate::system::host::Link;
use crate::workload::Class;
use base::Picos;
use std::convert::Infallible;

/// A row of equal hosts: what a message takes at any of them.
struct Row {
    hosts: Hosts,
    crossing: Picos,
    bits: f64,
    packet: (u64, u64),
}

impl Row {
    fn of(platform: &Platform, hosts: Hosts) -> Result<Row, LoadError> {
        Ok(Row {
            hosts,
            crossing: platform.span("stack.crossing")?,
            bits: platform.bandwidth("network.host_bandwidth")?,
            packet: (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?),
        })
    }

    fn stack(&self) -> Step {
        visit(self.hosts.cores, self.hosts.count, Which::Any, self.crossing, 1)
    }

    fn cable(&self, first: ResourceId, bytes: u64) -> Step {
        let wire = bytes + bytes.div_ceil(self.packet.0).max(1) * self.packet.1;
        visit(first, self.hosts.count, Which::Any, transfer(wire, self.bits), wire)
    }
}

impl piece::Clients for Row {
    fn asks(&self, class: &Class, _: Link, _: Door) -> Asked {
        Asked {
            forth: vec![self.stack(), self.cable(self.hosts.up, class.request)],
            card: vec![self.cable(self.hosts.down, class.reply)],
            back: vec![self.stack()],
        }
    }
}

/// So many times the paper's clients, with all of their cores.
///
/// # Errors
/// The platform lacks a number.
pub fn clients(
    k: &mut Kernel,
    platform: &Platform,
    times: u64,
) -> Result<Box<dyn piece::Clients>, LoadError> {
    let count = platform.count("client.count")? * times;
    let hosts = hosts(k, "client", count, platform.count("client.cores")?);
    Ok(Box::new(Row::of(platform, hosts)?))
}

/// A cable between switches and hosts.
///
/// # Errors
/// The platform lacks a number.
pub fn link(k: &mut Kernel, platform: &Platform, name: &str) -> Result<Network, LoadError> {
    let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
    Ok(Network::new(k, name, platform.bandwidth("network.host_bandwidth")?, packet, Picos::ZERO))
}

/// A switch, and the box beside it.
struct Switched {
    switch: Switch,
    beside: NetworkBox,
    cycles: f64,
    bounce_cycles: f64,
    accesses: u64,
}

impl Passed for Switched {
    fn pass(&self, bytes: u64) -> Vec<Step> {
        vec![self.switch.pass(self.beside.port.wire_bytes(bytes))]
    }

    fn enter(&self, bytes: u64) -> Vec<Step> {
        self.beside.enter(bytes, self.cycles, self.accesses).into()
    }

    fn leave(&self, bytes: u64) -> Vec<Step> {
        let mut steps = self.beside.leave(bytes).to_vec();
        steps.extend(self.pass(bytes));
        steps
    }

    fn bounce(&self, bytes: u64) -> Vec<Step> {
        let mut steps = self.beside.enter(bytes, self.bounce_cycles, 0).to_vec();
        steps.extend(self.leave(bytes));
        steps
    }

    fn cores(&self) -> ResourceId {
        self.beside.cores()
    }
}

/// A switch with a box: of `box.cores` and `box.clock` where there are such numbers, else the smaller of the paper's two.
///
/// # Errors
/// The platform lacks a number.
pub fn cache(k: &mut Kernel, platform: &Platform, name: &str) -> Result<Box<dyn Passed>, LoadError> {
    let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
    let kind = if platform.has("box.cores") { "box" } else { "box.liquidio" };
    let cores = platform.count(&format!("{kind}.cores"))?;
    let cores = (cores, platform.value(&format!("{kind}.clock"), Dimension::Frequency)?);
    let times = (platform.span("box.traffic_manager")?, platform.span("box.memory")?);
    let port = platform.bandwidth("box.bandwidth")?;
    let port = Network::new(k, &format!("{name} port"), port, packet, Picos::ZERO);
    let switch = platform.bandwidth("switch.bandwidth")?;
    Ok(Box::new(Switched {
        switch: Switch::new(k, &format!("{name} switch"), switch, platform.span("switch.latency")?),
        beside: NetworkBox::new(k, name, cores, times, port),
        cycles: platform.value("box.cycles", Dimension::Cycles)?,
        bounce_cycles: platform.value("box.bounce_cycles", Dimension::Cycles)?,
        accesses: platform.count("box.accesses")?,
    }))
}

/// A row of the paper's servers. Of a class, what the host does for an operation is the published server's time, or its cycles if they are more.
///
/// # Errors
/// The platform lacks a number.
pub fn server(
    mut kernel: Kernel,
    platform: &Platform,
    task: &Task<'_>,
    server: &mut Server,
) -> Result<Kernel, LoadError> {
    let count = platform.count("server.count")?;
    let each = platform.count("server.cores")?;
    let cores = task.cores(count * each).div_ceil(count);
    let row = Row::of(platform, hosts(&mut kernel, "server", count, cores))?;
    let clock = platform.value("server.clock", Dimension::Frequency)?;
    let processing = platform.span("server.processing")?;
    let ways = task.each(|class| {
        let served = picos(class.cycles / clock).max(processing);
        let steps =
            vec![row.stack(), visit(row.hosts.cores, row.hosts.count, Which::Any, served, 1), row.stack()];
        Ok::<_, Infallible>(vec![Way::message(Door::Cores, class, steps)])
    });
    let Ok(ways) = ways;
    let what = "servers answer; switches only forward".into();
    server.offers.push(Offer { name: "server".into(), what, place: Place::Host, link: Link::Udp, ways });
    server.host_cores.extend((0..row.hosts.count).map(|i| ResourceId(row.hosts.cores.0 + i)));
    server.passes(task.told, |_, request, reply| Hop {
        forth: vec![row.cable(row.hosts.down, request)],
        back: vec![row.cable(row.hosts.up, reply)],
        acknowledged: Vec::new(),
    });
    Ok(kernel)
}
