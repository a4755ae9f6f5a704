//! Parts of machines with this NIC's numbers: clients with RDMA, the card with its SoC, the host behind it. It is what the planner asks for any workload;
//! the published case studies have settings of their own that know more.
//!
//! * **host**: SEND/RECV to the host's cores (path ①).
//! * **SoC**: SEND/RECV to the SoC's cores (path ②). Its memory holds what is most popular; what it does not hold it copies from the host with its
//!   DMA engine, access by access (③*), and writes back so.
//! * **READs**: clients read index and value of what needs no core with one READ after the other (path ①); the rest goes to the host.
//!
//! A core works through a class's needs alone: dependent accesses wait for memory one by one, rows and stores as many lines at once as it has fill
//! buffers, protobuf fields take cycles. The SoC's cores need more cycles for the same work. Copies on other machines are WRITEs that the answering side
//! posts together and waits for.
//!
//! A message is one piece on the cable, of so many packets; a READ of more than the network's MTU is a little slower here than one by packets.

use super::client::Client;
use super::machine::{Card, Host, Machine, Side, ports};
use super::verbs::Verb;
use crate::alternative::Place;
use crate::component::WORK_REQUEST;
use crate::kernel::{Kernel, Step};
use crate::machine::piece::{self, Asked, Door, Hop, Offer, Round, Server, Task, Way};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use crate::popularity;
use crate::system::host::Link;
use crate::workload::Class;
use base::Picos;
use std::convert::Infallible;

/// Requester machines, where nothing says how many.
pub const CLIENTS: u64 = 11;
const LINE: u64 = 64;

impl piece::Clients for Client {
    fn asks(&self, class: &Class, _: Link, door: Door) -> Asked {
        let (forth, back) = match door {
            Door::Memory => {
                let mut back = vec![self.port.reply(class.reply)];
                back.extend(self.notice());
                (self.posts(class.request), back)
            }
            _ => (self.posts(class.request), self.takes(class.reply)),
        };
        Asked { forth, card: Vec::new(), back }
    }

    fn can_read(&self) -> bool {
        true
    }
}

/// So many client machines.
///
/// # Errors
/// The platform lacks a number.
pub fn clients(
    k: &mut Kernel,
    platform: &Platform,
    machines: u64,
) -> Result<Box<dyn piece::Clients>, LoadError> {
    Ok(Box::new(Client::new(platform, k, "clients'", machines, ports)?))
}

/// What work costs a core of a side.
#[derive(Clone, Copy, Debug)]
struct Costs {
    hertz: f64,
    /// Cycles for one of the host's.
    slower: f64,
    /// Waiting for memory.
    miss: Picos,
    /// Lines under way at once.
    overlap: u64,
    /// Cycles of a field, decoded or encoded.
    field: f64,
}

impl Costs {
    fn of(platform: &Platform, side: Side) -> Result<Costs, LoadError> {
        let (name, slower) = match side {
            Side::Host => ("host", 1.0),
            Side::Soc => ("soc", platform.ratio("soc.slower")?),
        };
        Ok(Costs {
            hertz: platform.value(&format!("{name}.clock"), Dimension::Frequency)?,
            slower,
            miss: platform.span(&format!("{name}.miss"))?,
            overlap: platform.count(&format!("{name}.overlap"))?.max(1),
            field: platform.value("host.field", Dimension::Cycles)?,
        })
    }

    fn cycles(&self, class: &Class) -> Picos {
        picos((class.cycles + class.fields as f64 * self.field) * self.slower / self.hertz)
    }

    fn lines(&self, bytes: u64) -> Picos {
        Picos(self.miss.0 * bytes.div_ceil(LINE) / self.overlap)
    }

    /// Everything, with the data in this side's memory.
    fn work(&self, class: &Class) -> Picos {
        let lookups = Picos(self.miss.0 * class.lookups);
        let rows = self.lines(class.rows * class.row.div_ceil(LINE) * LINE);
        [self.cycles(class), lookups, rows, self.lines(class.store)]
            .into_iter()
            .fold(Picos::ZERO, Picos::plus)
    }
}

struct Served {
    machine: Machine,
    host: Costs,
    soc: Costs,
    /// Share of the accesses that the SoC's memory serves.
    held: f64,
    /// From a WRITE's last bit on the wire to its acknowledgement, on another machine.
    acknowledged: Picos,
}

/// A server with this card, this host, or both.
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
    let entry = (workload.working_set / workload.keys.max(1)).max(1);
    let fitting = platform.bytes("soc.memory")? / entry;
    let mut served = Served {
        machine: Machine::around(platform, (Card::Snic, Host::Server), Vec::new(), kernel)?,
        host: Costs::of(platform, Side::Host)?,
        soc: Costs::of(platform, Side::Soc)?,
        held: popularity::head_share(workload.keys, workload.skew, fitting.max(1)),
        acknowledged: platform.span("network.latency")?.plus(platform.span("pcie.pass")?),
    };
    let mut offer = |name: &str, what: &str, place, ways: &mut dyn FnMut(&Class) -> Vec<Way>| {
        let Ok(ways) = task.each(|class| Ok::<_, Infallible>(ways(class)));
        server.offers.push(Offer { name: name.into(), what: what.into(), place, link: Link::Udp, ways });
    };
    if task.parts.host {
        offer("host", "SEND/RECV to the host's cores", Place::Host, &mut |class| served.by_host(class));
    }
    if task.parts.card {
        let what = "SEND/RECV to the SoC's cores, host memory by DMA";
        offer("SoC", what, Place::NicCores, &mut |class| served.by_soc(class));
    }
    let readable = workload.classes.iter().filter(|class| by_itself(class)).count();
    if readable > 0 && task.can_read && task.parts.host && task.parts.card {
        let place = if readable == workload.classes.len() { Place::Client } else { Place::Several };
        let what = "clients READ index and value in host memory; what needs cores goes to the host";
        offer("READs", what, place, &mut |class| served.by_reads(class));
    }
    if task.parts.host {
        let processor = served.machine.processor(Side::Host);
        server.tells = vec![processor.cores.work(processor.echo)];
        server.host_cores.push(processor.cores.at);
    }
    if task.parts.card {
        server.passes(task.told, |door, request, reply| served.hop(door, request, reply));
        // A range that reaches all banks is as good as any.
        let blocks = served.machine.blocks(Side::Soc, workload.working_set);
        let all = served.machine.blocks(Side::Soc, u64::MAX);
        server.arguments = (blocks < all).then_some(blocks);
    }
    Ok(served.machine.kernel)
}

/// Whether a client can do it with READs alone.
fn by_itself(class: &Class) -> bool {
    class.cacheable && class.store == 0 && class.rows == 0 && class.fields == 0
}

impl Served {
    /// The card, from the cable to the memory or the cores that the door leads to, and back.
    fn hop(&mut self, door: Door, request: u64, reply: u64) -> Hop {
        let side = if door == Door::Card { Side::Soc } else { Side::Host };
        let machine = &mut self.machine;
        let (forth, mut back) = match door {
            Door::Memory => {
                let forth = vec![machine.port.send(request), machine.nic.pass(side)];
                (forth, machine.fabric.nic_reads(side, reply))
            }
            // A doorbell, and what it leads to in memory.
            Door::Ring => {
                let mut back = machine.fabric.mmio(side, 8);
                back.extend(machine.fabric.nic_reads(side, WORK_REQUEST + reply));
                back.push(machine.nic.pass_by());
                (machine.arrives(side, request), back)
            }
            Door::Cores | Door::Card => (machine.arrives(side, request), machine.departs(side, reply)),
        };
        back.push(machine.port.reply(reply));
        Hop { forth, back, acknowledged: Vec::new() }
    }

    fn by_host(&mut self, class: &Class) -> Vec<Way> {
        let mut work = vec![self.machine.processor(Side::Host).cores.busy(self.host.work(class))];
        work.extend(self.copies(Side::Host, class));
        vec![Way::message(Door::Cores, class, self.machine.taken(Side::Host, (0.0, work)))]
    }

    fn by_soc(&mut self, class: &Class) -> Vec<Way> {
        let cores = self.machine.processor(Side::Soc).cores;
        let mut held = vec![cores.busy(self.soc.work(class))];
        held.extend(self.copies(Side::Soc, class));
        let near = Way::message(Door::Card, class, self.machine.taken(Side::Soc, (0.0, held)));
        if self.held >= 1.0 {
            return vec![near];
        }
        // What has been copied is worked through as if it had been there.
        let mut work = Vec::new();
        for _ in 0..class.lookups {
            work.extend(self.machine.by_dma_steps(Verb::Read, class.lookup));
        }
        if class.rows > 0 {
            let row = self.machine.by_dma(Verb::Read, class.row);
            work.push(Step::Each(row, class.rows as u32));
        }
        work.push(cores.busy(self.soc.work(class)));
        if class.store > 0 {
            work.extend(self.machine.by_dma_steps(Verb::Write, class.store));
        }
        work.extend(self.copies(Side::Soc, class));
        let far = Way::message(Door::Card, class, self.machine.taken(Side::Soc, (0.0, work)));
        vec![Way { share: self.held, ..near }, Way { share: 1.0 - self.held, ..far }]
    }

    fn by_reads(&mut self, class: &Class) -> Vec<Way> {
        if !by_itself(class) {
            return self.by_host(class);
        }
        // The last access finds the value; those before it say where it is.
        let read = |reply| Round { door: Door::Memory, request: 0, reply, steps: Vec::new() };
        let before = (1..class.lookups).map(|_| read(class.lookup));
        vec![Way { share: 1.0, rounds: before.chain([read(class.reply)]).collect() }]
    }

    /// WRITEs of what is stored to further machines, all at once.
    fn copies(&mut self, side: Side, class: &Class) -> Option<Step> {
        let further = class.copies.saturating_sub(1);
        if further == 0 || class.store == 0 {
            return None;
        }
        let mut steps = self.machine.posted_by(side, 1);
        steps.extend(self.machine.fabric.nic_reads(side, class.store));
        steps.extend([self.machine.nic.pass(side), self.machine.port.reply(class.store)]);
        steps.push(Step::Wait(self.acknowledged));
        let copy = self.machine.kernel.program("copy", steps);
        Some(Step::Each(copy, further as u32))
    }
}
