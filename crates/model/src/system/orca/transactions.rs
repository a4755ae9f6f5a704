//! Chains of two replicas in one box, as the setup has them: each port of the server's NIC is a machine.
//!
//! ```text
//!   client CPU ─▶ port 0 ─▶ unit 0 ─▶ port 0 ─▶ client's DPU (an ARM core routes) ─▶ port 1 ─▶ unit 1 ─▶ client CPU
//! ```
//! * **ORCA**: one pass for a transaction, whatever it reads and writes. The ring in NVM is the log (DDIO is off); the accelerator orders transactions,
//!   the tail reads, writes go to their places after the answer.
//! * **HyperLoop**: one pass for each pair written, one READ of the tail for each pair read, one after the other. An ARM core plays the NIC.
//!
//! One transaction is under way: nothing queues, tails come from what is late.

use super::machine::{pcie_link, port};
use crate::component::{Accelerator, Coherent, Network, Nvm, PcieLink, Towards};
use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use base::Picos;

/// Pairs of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Read.
    pub reads: u64,
    /// Written.
    pub writes: u64,
    /// Bytes of each.
    pub bytes: u64,
}

impl Transaction {
    /// A log entry: a count, then data, length and offset of each; of what is read length and offset.
    pub fn entry(&self) -> u64 {
        1 + self.writes * (self.bytes + TUPLE) + self.reads * TUPLE
    }
}

/// Length and offset of a tuple.
const TUPLE: u64 = 12;

/// One of the two.
#[derive(Clone, Copy, Debug)]
struct Replica {
    port: Network,
    pcie: PcieLink,
    nvm: Nvm,
    arm: ResourceId,
}

/// Both, and the accelerator that serves both.
#[derive(Debug)]
pub struct Chain<'a> {
    /// Its resources are in here.
    pub kernel: Kernel,
    platform: &'a Platform,
    replicas: [Replica; 2],
    endpoint: Coherent,
    unit: Accelerator,
    nic: ResourceId,
    router: ResourceId,
    late: ResourceId,
}

impl<'a> Chain<'a> {
    /// On a platform with an accelerator.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &'a Platform, seed: u64) -> Result<Chain<'a>, LoadError> {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let bits = platform.bandwidth("network.port_bandwidth")?;
        let mut replica = |number: usize| {
            Ok::<_, LoadError>(Replica {
                port: port(k, platform, &format!("port {number}"), bits)?,
                pcie: pcie_link(k, &format!("PCIe {number}"), platform)?,
                nvm: Nvm::new(k, &format!("NVM {number}"), platform)?,
                arm: k.resource(&format!("ARM core {number}"), 1),
            })
        };
        Ok(Chain {
            replicas: [replica(0)?, replica(1)?],
            endpoint: Coherent::new(k, platform)?,
            unit: Accelerator::new(k, platform)?,
            nic: k.resource("nic", 1),
            router: k.resource("client's ARM core", 1),
            late: k.resource("lateness", 1),
            platform,
            kernel,
        })
    }

    /// The whole transaction by ORCA.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn orca(&mut self, of: Transaction) -> Result<ProgramId, LoadError> {
        let entry = of.entry() + self.platform.bytes("rpc.header")? + self.platform.bytes("network.reth")?;
        let mut steps = self.client(0, entry)?;
        steps.extend(self.unit(0, of, false)?);
        steps.extend(self.forward(entry)?);
        steps.extend(self.unit(1, of, true)?);
        let reply = of.reads * of.bytes + self.platform.bytes("rpc.header")?;
        steps.extend(self.answer(1, reply)?);
        Ok(self.kernel.program("ORCA", steps))
    }

    /// The same by HyperLoop.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn hyperloop(&mut self, of: Transaction) -> Result<ProgramId, LoadError> {
        let message = of.bytes + TUPLE + self.platform.bytes("network.reth")?;
        let mut steps = vec![];
        for _ in 0..of.reads {
            steps.extend(self.client(1, self.platform.bytes("network.reth")?)?);
            steps.extend(self.nic_reads(1, of.bytes));
            steps.extend(self.answer(1, of.bytes)?);
        }
        for _ in 0..of.writes {
            steps.extend(self.client(0, message)?);
            steps.extend(self.group_write(0, message)?);
            steps.extend(self.forward(message)?);
            steps.extend(self.group_write(1, message)?);
            steps.extend(self.answer(1, 0)?);
        }
        Ok(self.kernel.program("HyperLoop", steps))
    }

    /// The client's message to a port's NIC.
    fn client(&self, port: usize, bytes: u64) -> Result<Vec<Step>, LoadError> {
        let post = self.platform.cycles("client.post", "client.clock")?;
        let doorbell = self.platform.span("client.doorbell")?;
        let late = self.late("jitter.software")?;
        let send = self.replicas[port].port.send(bytes);
        Ok(vec![late, Step::Wait(post.plus(doorbell)), self.pass_nic()?, send, self.pass_nic()?])
    }

    /// A port's NIC to the client's knowing it.
    fn answer(&self, port: usize, bytes: u64) -> Result<Vec<Step>, LoadError> {
        let known = self.platform.span("client.doorbell")?.plus(self.platform.span("client.poll")?);
        let reply = self.replicas[port].port.reply(bytes);
        Ok(vec![self.pass_nic()?, reply, self.pass_nic()?, Step::Wait(known)])
    }

    /// From port 0 by the client's DPU to port 1.
    fn forward(&self, bytes: u64) -> Result<Vec<Step>, LoadError> {
        let more = Service::Exponential(self.platform.span("soc.route_more")?);
        let route =
            Step::Use { at: self.router, service: more, units: 1, after: self.platform.span("soc.route")? };
        let [from, to] = self.replicas;
        Ok(vec![
            self.pass_nic()?,
            from.port.reply(bytes),
            self.pass_nic()?,
            route,
            self.pass_nic()?,
            to.port.send(bytes),
            self.pass_nic()?,
        ])
    }

    /// The accelerator does its part for a replica: log, order, read at the tail, write to the pairs' places later, next message.
    fn unit(&mut self, number: usize, of: Transaction, tail: bool) -> Result<Vec<Step>, LoadError> {
        let entry = of.entry();
        let Replica { pcie, nvm, .. } = self.replicas[number];
        let cycles = |name: &str| self.platform.value(name, Dimension::Cycles);
        let mut steps = vec![
            pcie.carry(pcie.link.write(entry).forth, Towards::Host),
            nvm.write(entry),
            pcie.carry(pcie.link.write(4).forth, Towards::Host),
        ];
        steps.extend(self.endpoint.signal());
        steps.push(self.late("jitter.hardware")?);
        steps.extend(self.unit.enter());
        steps.extend(self.endpoint.read(entry, &[nvm.read(entry)]));
        steps.push(self.unit.pass(cycles("accelerator.hash")? + cycles("accelerator.step")?));
        if tail && of.reads > 0 {
            let read = self.endpoint.read(of.bytes, &[nvm.read(of.bytes)]);
            let read = self.kernel.program("read a pair", read);
            steps.push(Step::Each(read, of.reads as u32));
        }
        if of.writes > 0 {
            let mut write = self.endpoint.write(of.bytes);
            write.push(nvm.write(of.bytes));
            let write = self.kernel.program("write a pair", write);
            let writes = self.kernel.program("write pairs", [Step::Each(write, of.writes as u32)]);
            steps.push(Step::Fork(writes));
        }
        let next = if tail { of.reads * of.bytes } else { entry };
        steps.extend(self.post(number, next)?);
        steps.push(self.unit.leave());
        Ok(steps)
    }

    /// WQE, fence, doorbell; the NIC fetches WQE and data.
    fn post(&self, number: usize, bytes: u64) -> Result<Vec<Step>, LoadError> {
        let pcie = self.replicas[number].pcie;
        let fence = self.platform.cycles("accelerator.doorbell", "accelerator.clock")?;
        let fetch = pcie.link.read(64 + bytes);
        let llc = self.platform.span("host.llc_latency")?;
        let mut steps = self.endpoint.write(64);
        // The write is half of the fence's round trip.
        let rest = Picos(self.endpoint.round_trip().0 / 2);
        steps.extend([
            Step::Wait(fence.plus(rest)),
            pcie.carry(pcie.link.write(8).forth, Towards::Device),
            pcie.carry(fetch.forth, Towards::Host),
            Step::Wait(llc),
            pcie.carry(fetch.back, Towards::Device),
        ]);
        Ok(steps)
    }

    /// An ARM core as HyperLoop's NIC: writes into the host's NVM by RDMA, flushes by a read, hears of both, sends on.
    fn group_write(&self, number: usize, bytes: u64) -> Result<Vec<Step>, LoadError> {
        let Replica { pcie, nvm, arm, .. } = self.replicas[number];
        let service = Service::Exponential(self.platform.span("jitter.software")?);
        let post = self.platform.span("soc.read_post")?.plus(self.platform.span("soc.internal")?);
        let notice = self.platform.span("soc.read_notice")?;
        let flush = pcie.link.read(0);
        Ok(vec![
            Step::Use { at: arm, service, units: 1, after: post.plus(notice) },
            self.pass_nic()?,
            pcie.carry(pcie.link.write(bytes).forth, Towards::Host),
            nvm.write(bytes),
            pcie.carry(flush.forth, Towards::Host),
            pcie.carry(flush.back, Towards::Device),
            Step::Wait(notice),
        ])
    }

    fn nic_reads(&self, number: usize, bytes: u64) -> Vec<Step> {
        let Replica { pcie, nvm, .. } = self.replicas[number];
        let read = pcie.link.read(bytes);
        vec![pcie.carry(read.forth, Towards::Host), nvm.read(bytes), pcie.carry(read.back, Towards::Device)]
    }

    fn pass_nic(&self) -> Result<Step, LoadError> {
        let service = Service::Fixed(self.platform.service("nic.rate", 1)?);
        Ok(Step::Use { at: self.nic, service, units: 1, after: self.platform.span("nic.latency")? })
    }

    fn late(&self, by: &str) -> Result<Step, LoadError> {
        let service = Service::Exponential(self.platform.span(by)?);
        Ok(Step::Use { at: self.late, service, units: 1, after: picos(0.0) })
    }
}
