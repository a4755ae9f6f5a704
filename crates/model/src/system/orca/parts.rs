//! Parts of machines with these systems' numbers: clients, the card with its SmartNIC cores if it has any, the accelerator, the host.
//!
//! They offer host cores; the SmartNIC's cores; the accelerator with its data in host memory, and with its data in local memory, where the working
//! set fits. Protobuf needs cores: no accelerator here decodes it. Cycles that a class asks for beside rows are a host core's, to which the accelerator
//! hands requests over its ring.
//!
//! Power is what rises with work; a polling core is idle here when it polls in vain.

use super::machine::{Client, Message};
use super::serve::{Data, Popularity, Servers, Work};
use crate::alternative::{Place, Power};
use crate::kernel::{Kernel, ResourceId};
use crate::machine::piece::{self, Asked, Door, Hop, Offer, Server, Task, Way};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::system::host::Link;
use crate::workload::Class;

/// The most requests of a batch.
const MOST_BATCHED: u64 = 32;

impl From<&Class> for Work {
    fn from(class: &Class) -> Work {
        Work {
            request: class.request,
            reply: class.reply,
            accesses: class.lookups,
            access: class.lookup.max(1),
            rows: class.rows,
            row: class.row,
            store: class.store,
            copies: class.copies,
            cycles: class.cycles,
            fields: class.fields,
        }
    }
}

impl piece::Clients for Client {
    fn asks(&self, _: &Class, _: Link, _: Door) -> Asked {
        let [card, back] = self.notices();
        Asked { forth: self.posts(), card, back }
    }
}

/// Clients: `client.instances` of them on each of so many machines.
///
/// # Errors
/// The platform lacks a number.
pub fn clients(
    k: &mut Kernel,
    platform: &Platform,
    machines: u64,
) -> Result<Box<dyn piece::Clients>, LoadError> {
    Ok(Box::new(Client::new(k, platform, machines)?))
}

/// A server with this card, this accelerator, this host, or several of them.
///
/// # Errors
/// The platform lacks a number.
pub fn server(
    kernel: Kernel,
    platform: &Platform,
    task: &Task<'_>,
    server: &mut Server,
) -> Result<Kernel, LoadError> {
    let workload = task.workload;
    let cores = task.cores(platform.count("host.cores")?);
    let entry = (workload.working_set / workload.keys.max(1)).max(1);
    let popularity = Popularity { keys: workload.keys, skew: workload.skew, entry };
    let batch = (workload.window / task.servers / cores).clamp(1, MOST_BATCHED);
    let mut servers = Servers::around(platform, cores, (popularity, batch), kernel)?;
    let offers = &mut server.offers;
    let mut offer = |name: &str, what: &str, place, ways| {
        offers.push(Offer { name: name.into(), what: what.into(), place, link: Link::Udp, ways });
    };
    if task.parts.host {
        let ways = task.each(|class| {
            Ok::<_, LoadError>(vec![Way::message(Door::Cores, class, servers.at_host(&class.into())?)])
        })?;
        offer("host cores", "two-sided RPC, each core its clients", Place::Host, ways);
    }
    if task.parts.card && servers.machine.soc.is_some() {
        let ways = task.each(|class| by_card(&mut servers, class))?;
        let what = "a cache of the host's data on the NIC, RDMA reads for the rest";
        offer("SmartNIC cores", what, Place::NicCores, ways);
    }
    let by_host = workload.classes.iter().any(|class| class.rows == 0 && class.cycles > 0.0);
    let is_able = workload.classes.iter().all(|class| class.fields == 0) && (task.parts.host || !by_host);
    if task.parts.accelerator && servers.machine.fabric.is_some() && is_able {
        let place = if by_host { Place::Several } else { Place::Accelerator };
        let mut way = |data| {
            task.each(|class| {
                let steps = servers.at_accelerator(&class.into(), data)?;
                Ok::<_, LoadError>(vec![Way::message(Door::Ring, class, steps)])
            })
        };
        offer("accelerator", "rings and cpoll, data in host memory", place, way(Data::Host)?);
        if platform.has("local.capacity") && workload.working_set <= platform.bytes("local.capacity")? {
            let ways = way(Data::Local)?;
            offer("accelerator, local memory", "rings and cpoll, data beside it", place, ways);
        }
    }
    if task.parts.host {
        let host = servers.machine.host;
        server.tells = vec![servers.host_core(&Work::default())?];
        server.host_cores.extend(all_of(host.first, host.count));
    }
    server.power.extend(power(platform, task, &servers)?);
    if task.parts.card {
        server.passes(task.told, |door, request, reply| hop(&servers, door, request, reply));
    }
    Ok(servers.machine.kernel)
}

fn by_card(servers: &mut Servers<'_>, class: &Class) -> Result<Vec<Way>, LoadError> {
    let hits = servers.soc_hits()?.into_iter();
    let way = |(share, hit)| {
        let steps = servers.at_soc(&class.into(), hit)?;
        Ok(Way { share, ..Way::message(Door::Card, class, steps) })
    };
    hits.map(way).collect()
}

/// The card, from the cable to the ring, to the host's memory or to its own cores, and back.
fn hop(servers: &Servers<'_>, door: Door, request: u64, reply: u64) -> Hop {
    let machine = &servers.machine;
    let kind = if door == Door::Ring { Message::OneSided } else { Message::TwoSided };
    let mut forth = machine.arrives(kind, request).to_vec();
    let mut back = Vec::new();
    match door {
        Door::Ring => {
            forth.extend(servers.ring_and_pointer(request));
            back.extend(servers.posted_by_accelerator(reply));
        }
        Door::Cores | Door::Memory => {
            forth.push(servers.memory_written(request));
            back.extend(servers.posted_by_host(reply));
        }
        Door::Card => {}
    }
    back.extend(machine.leaves(kind, reply));
    Hop { forth, back, acknowledged: vec![machine.acknowledged()] }
}

fn all_of(first: ResourceId, count: u32) -> Vec<ResourceId> {
    (0..count).map(|i| ResourceId(first.0 + i)).collect()
}

fn power(platform: &Platform, task: &Task<'_>, servers: &Servers<'_>) -> Result<Vec<Power>, LoadError> {
    let of = |name: &str| platform.value(name, Dimension::Power);
    let each = |first, count, watts: f64| all_of(first, count).into_iter().map(|at| (at, watts)).collect();
    let mut power = Vec::new();
    if task.parts.host {
        let host = servers.machine.host;
        let busy = each(host.first, host.count, of("host.power_core")?);
        power.push(Power { name: "host package".into(), idle: of("host.power_idle")?, busy });
    }
    if let Some((cores, _)) = servers.machine.soc.filter(|_| task.parts.card) {
        let busy = each(cores.first, cores.count, of("soc.power_core")?);
        power.push(Power { name: "SmartNIC".into(), idle: of("soc.power_idle")?, busy });
    }
    if let Some(fabric) = servers.machine.fabric.filter(|_| task.parts.accelerator) {
        let idle = of("accelerator.power_idle")?;
        let busy = vec![(fabric.unit.units, of("accelerator.power")? - idle)];
        power.push(Power { name: "accelerator".into(), idle, busy });
    }
    Ok(power)
}
