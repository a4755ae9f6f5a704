//! Replication of a file system's writes to other machines, and the ways to do it: the study's first case.
//!
//! ```text
//!   file client ─▶ log in host memory ─▶ A1: ③ to the SoC ─▶ digest, compress (④) ─▶ ② to the first backup ─▶ the next, along the chain
//!                                        A2: ③* instead of ③
//!                                        A3: ① from host memory to the first backup; host cores digest
//! ```
//! A1's data leave the SmartNIC's memory side twice over PCIe1's outgoing direction: from host to NIC for ③ and from SoC to NIC for ②. So its
//! bandwidth is at most P / (1 + ratio) of what PCIe carries, which nobody put in: it comes out of the link's occupancy. A2 passes PCIe1 once.
//!
//! File clients are processes of the host, one core each; they append chunks to their log and go on while so many of each are being replicated. A busy
//! host (another program on all its cores) gives them and the host's other work a share of each core.
//!
//! Source: Wei et al. (OSDI 2023), §5.1; LineFS (Kim et al., SOSP 2021).
//!
//! Not modelled: what NVM bounds; what backups do beside receiving and passing on, which delays nobody.

use super::machine::{Card, Machine, Side, port};
use super::verbs::Verb;
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::component::{Cores, Network};
use crate::kernel::{ProgramId, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, transfer};
use crate::workload::{Class, Workload};
use base::Picos;

/// A way to replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// LineFS: ③, the SoC, ②.
    A1,
    /// ③*, the SoC, ②.
    A2,
    /// ① by the host.
    A3,
}

impl Way {
    /// All.
    pub const ALL: [Way; 3] = [Way::A1, Way::A2, Way::A3];

    /// Short.
    pub const fn name(self) -> &'static str {
        match self {
            Way::A1 => "A1",
            Way::A2 => "A2",
            Way::A3 => "A3",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Way::A1 => "the SoC reads the log by RDMA, compresses and sends it (③, ④, ②)",
            Way::A2 => "the SoC reads the log by DMA, compresses and sends it (③*, ④, ②)",
            Way::A3 => "the host sends the log itself (①)",
        }
    }
}

/// Under which circumstances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Processes that write files.
    pub clients: u64,
    /// Compressed over uncompressed bytes; 1: nothing is compressed.
    pub ratio: f64,
    /// Whether another program runs on the host's cores.
    pub busy: bool,
}

/// Who has a part in it.
struct Rig {
    machine: Machine,
    clients: Cores,
    backups: Vec<Network>,
    /// Through a backup's NIC to its memory, or from there.
    hop: Picos,
    append: f64,
    digest_host: f64,
    digest_soc: f64,
    compress: f64,
    ratio: f64,
    /// Of a host core.
    share: f64,
}

/// The ways of a workload that stores in several machines, with the compression of the platform. Clients are as many as keep its window under way.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let clients = workload.window.div_ceil(platform.count("files.window")?).max(1);
    let ratio = platform.ratio("files.ratio")?;
    with(platform, workload, Conditions { clients, ratio, busy: false }, seed)
}

/// The same under conditions.
///
/// # Errors
/// The platform lacks a number.
pub fn with(
    platform: &Platform,
    workload: &Workload,
    conditions: Conditions,
    seed: u64,
) -> Result<Setting, LoadError> {
    let copies = workload.classes.iter().map(|class| class.copies).max().unwrap_or(1);
    let mut rig = Rig::new(platform, conditions, copies.max(2) - 1, seed)?;
    let alternatives = Way::ALL.map(|way| Alternative {
        name: way.name().into(),
        what: way.what().into(),
        place: if way == Way::A3 { Place::Host } else { Place::NicCores },
        parts: workload.classes.iter().map(|class| rig.part(class, way)).collect(),
    });
    let host_cores = vec![rig.machine.processor(Side::Host).cores.at, rig.clients.at];
    Ok(Setting {
        kernel: rig.machine.kernel,
        alternatives: alternatives.into(),
        host_cores,
        power: vec![],
        arguments: ARGUMENTS,
    })
}

/// Arguments beyond any number of banks.
const ARGUMENTS: u64 = 1 << 20;
/// The SoC and the host post the pieces of a chunk with doorbells for so many.
const BATCH: u64 = 16;

impl Rig {
    fn new(platform: &Platform, conditions: Conditions, backups: u64, seed: u64) -> Result<Rig, LoadError> {
        let mut machine = Machine::new(platform, Card::Snic, 0, seed)?;
        let clock = platform.value("host.clock", Dimension::Frequency)?;
        let k = &mut machine.kernel;
        let backups = (1..=backups)
            .map(|i| port(platform, k, &format!("backup {i} port"), ("network.server_bandwidth", 1)));
        Ok(Rig {
            backups: backups.collect::<Result<_, LoadError>>()?,
            clients: Cores::new(&mut machine.kernel, "file clients", conditions.clients, clock),
            hop: platform.span("nic.latency")?.plus(platform.span("pcie.pass")?),
            append: platform.bandwidth("files.append")?,
            digest_host: platform.bandwidth("files.digest_host")?,
            digest_soc: platform.bandwidth("files.digest_soc")?,
            compress: platform.bandwidth("files.compress")?,
            ratio: conditions.ratio,
            share: if conditions.busy { platform.ratio("files.busy_share")? } else { 1.0 },
            machine,
        })
    }

    fn part(&mut self, class: &Class, way: Way) -> Part {
        let program = self.chunk(class.store.max(1), way);
        Part { class: class.name.clone(), share: class.share, program }
    }

    /// A chunk from the client's append to the acknowledgement of all backups.
    fn chunk(&mut self, bytes: u64, way: Way) -> ProgramId {
        let mut steps = vec![self.clients.busy(transfer(bytes, self.append * self.share))];
        match way {
            Way::A1 | Way::A2 => {
                // The SoC is told, fetches the log, digests it aside, compresses and sends.
                steps.extend(self.machine.fabric.mmio(Side::Host, crate::component::WORK_REQUEST));
                steps.extend(match way {
                    Way::A1 => self.machine.through_nic_steps(Side::Soc, Verb::Read, bytes, BATCH),
                    _ => self.machine.by_dma_steps(Verb::Read, bytes),
                });
                steps.push(self.aside(Side::Soc, transfer(bytes, self.digest_soc)));
                if self.ratio < 1.0 {
                    let soc = self.machine.processor(Side::Soc).cores;
                    steps.push(soc.busy(transfer(bytes, self.compress)));
                }
                let compressed = (bytes as f64 * self.ratio).ceil() as u64;
                steps.extend(self.send(Side::Soc, compressed));
                steps.extend(self.along_the_chain(compressed));
            }
            Way::A3 => {
                steps.push(self.aside(Side::Host, transfer(bytes, self.digest_host * self.share)));
                steps.extend(self.send(Side::Host, bytes));
                steps.extend(self.along_the_chain(bytes));
            }
        }
        self.machine.kernel.program(way.name(), steps)
    }

    /// Work of that side's cores that nobody waits for.
    fn aside(&mut self, side: Side, span: Picos) -> Step {
        let work = self.machine.processor(side).cores.busy(span);
        Step::Fork(self.machine.kernel.program("digest", [work]))
    }

    /// A side's memory to the first backup's.
    fn send(&mut self, from: Side, bytes: u64) -> Vec<Step> {
        let packets = self.machine.port.packets(bytes);
        let payload = bytes.div_ceil(packets);
        let mut packet = self.machine.fabric.nic_reads(from, payload);
        packet.extend([self.machine.port.reply(payload), self.backups[0].send(payload)]);
        let packet = self.machine.kernel.program("packet", packet);
        let mut steps = self.machine.posted_by(from, BATCH);
        steps.extend([self.machine.nic.pass(from), Step::Each(packet, packets as u32), Step::Wait(self.hop)]);
        steps
    }

    /// From backup to backup, and the acknowledgement all the way back.
    fn along_the_chain(&mut self, bytes: u64) -> Vec<Step> {
        let mut steps = vec![];
        for pair in self.backups.windows(2) {
            let packets = pair[0].packets(bytes);
            let payload = bytes.div_ceil(packets);
            let hop = self.machine.kernel.program("packet", [pair[0].reply(payload), pair[1].send(payload)]);
            steps.extend([Step::Wait(self.hop), Step::Each(hop, packets as u32), Step::Wait(self.hop)]);
        }
        steps.extend(self.backups.iter().rev().map(|backup| backup.reply(0)));
        steps.push(self.machine.port.send(0));
        steps.push(self.machine.nic.pass_by());
        steps
    }
}
