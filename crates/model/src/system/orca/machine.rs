//! Client machine, network, server: the parts of one machine of the family, and the ways of a message.

use crate::component::{Accelerator, Coherent, Memory, Network, PcieLink, Towards};
use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::pcie::{Generation, Link};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos, transfer};
use base::{Bytes, Picos};

/// Cores of a processor that each serve the requests that are theirs.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The first.
    pub first: ResourceId,
    /// How many.
    pub count: u32,
}

/// What an accelerator consists of.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    /// Its way to host memory.
    pub endpoint: Coherent,
    /// Its processing unit.
    pub unit: Accelerator,
    /// What posts responses.
    pub responses: ResourceId,
    /// Memory of its own.
    pub local: Option<Memory>,
}

/// Everything.
#[derive(Debug)]
pub struct Machine {
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Clients' cores that post.
    pub client_cores: ResourceId,
    /// Clients' cores that find responses.
    receivers: Own,
    /// What hardware is late by, for requests apart from each other.
    late: Own,
    /// All ports together.
    pub network: Network,
    /// The server's NIC.
    pub nic: ResourceId,
    /// Between NIC and host.
    pub pcie: PcieLink,
    /// The host's.
    pub memory: Memory,
    /// Host cores that serve.
    pub host: Own,
    /// The SmartNIC's cores, and its RDMA reads under way; not of a plain NIC.
    pub soc: Option<(Own, crate::kernel::Tokens)>,
    /// Not of a machine without one.
    pub fabric: Option<Fabric>,
    pub(super) numbers: Numbers,
}

/// Numbers that steps are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub client_doorbell: Picos,
    pub client_poll: Picos,
    pub client_nic: ResourceId,
    pub nic_unit: Picos,
    pub nic: Picos,
    pub reth: u64,
    pub ack: u64,
    pub rpc: u64,
    pub two_sided: u64,
    pub llc: Picos,
    pub home: Picos,
    pub software: Picos,
    pub hardware: Picos,
}

/// A message's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// RDMA WRITE into a ring.
    OneSided,
    /// SEND to whoever posted a RECEIVE.
    TwoSided,
}

impl Machine {
    /// With so many host cores that serve.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, host_cores: u64, seed: u64) -> Result<Machine, LoadError> {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let instances = platform.count("client.instances")? as u32;
        let client_cores = k.resources("client core", instances);
        let numbers = Numbers {
            client_doorbell: platform.span("client.doorbell")?,
            client_poll: platform.span("client.poll")?,
            client_nic: k.resource("client nic", 1),
            nic_unit: platform.service("nic.rate", 1)?,
            nic: platform.span("nic.latency")?,
            reth: platform.bytes("network.reth")?,
            ack: platform.bytes("network.ack")? / platform.count("network.batched_ack")?,
            rpc: platform.bytes("rpc.header")?,
            two_sided: platform.bytes("rpc.two_sided_header")?,
            llc: platform.span("host.llc_latency")?,
            home: platform.span("host.core_to_home")?,
            software: platform.span("jitter.software")?,
            hardware: platform.span("jitter.hardware")?,
        };
        let ports = platform.count("network.ports")? as f64;
        let network = port(k, platform, "network", platform.bandwidth("network.port_bandwidth")? * ports)?;
        let nic = k.resource("nic", 1);
        let soc = match platform.count("soc.cores")? as u32 {
            0 => None,
            count => {
                let reads = platform.count("soc.reads_in_flight")? * u64::from(count);
                let first = k.resources("SoC core", count);
                Some((Own { first, count }, k.tokens("SoC's reads", reads)))
            }
        };
        let host = Own { first: k.resources("host core", host_cores as u32), count: host_cores as u32 };
        let receivers = Own { first: k.resources("client receiver", instances), count: instances };
        let late = Own { first: k.resources("lateness", LATE), count: LATE };
        Ok(Machine {
            client_cores,
            receivers,
            late,
            network,
            nic,
            pcie: pcie_link(k, "PCIe", platform)?,
            memory: memory(
                k,
                "host memory",
                platform,
                [
                    "host.memory_channels",
                    "host.memory_banks",
                    "host.memory_cycle",
                    "host.memory_latency",
                    "host.memory_bandwidth",
                ],
            )?,
            host,
            soc,
            fabric: fabric(k, platform)?,
            numbers,
            kernel,
        })
    }

    /// A client's message of `bytes` to the server's NIC; its acknowledgement goes back.
    pub fn request(&mut self, kind: Message, bytes: u64) -> Vec<Step> {
        let n = self.numbers;
        let send = self.network.send(bytes + self.headers(kind));
        let ack = self.ack(self.network.back);
        let client =
            Step::Use { at: n.client_nic, service: Service::Fixed(n.nic_unit), units: 1, after: n.nic };
        vec![Step::Wait(n.client_doorbell), client, send, self.pass_nic(), ack]
    }

    /// A message of `bytes` that the server's NIC has, to the client's knowing of it.
    pub fn response(&mut self, kind: Message, bytes: u64) -> Vec<Step> {
        let n = self.numbers;
        let reply = self.network.reply(bytes + self.headers(kind));
        let ack = self.ack(self.network.forth);
        let client =
            Step::Use { at: n.client_nic, service: Service::Fixed(n.nic_unit), units: 1, after: n.nic };
        let known = Step::Wait(n.client_doorbell.plus(n.client_poll));
        vec![self.pass_nic(), reply, client, ack, known, late(self.receivers, n.software)]
    }

    /// Hardware is late now and then: another agent has the line, or the ring.
    pub fn hardware_late(&self) -> Step {
        late(self.late, self.numbers.hardware)
    }

    /// Through the server's NIC.
    pub fn pass_nic(&self) -> Step {
        let n = &self.numbers;
        Step::Use { at: self.nic, service: Service::Fixed(n.nic_unit), units: 1, after: n.nic }
    }

    /// The NIC writes `bytes` into host memory, which is its cache.
    pub fn to_host(&self, bytes: u64) -> Step {
        self.pcie.carry(self.pcie.link.write(bytes).forth, Towards::Host)
    }

    /// A doorbell, or a WQE with its data, to the NIC.
    pub fn to_nic(&self, bytes: u64) -> Step {
        self.pcie.carry(self.pcie.link.write(bytes).forth, Towards::Device)
    }

    /// The NIC reads `bytes` of the host's cache: WQE and data.
    pub fn nic_reads(&self, bytes: u64) -> Vec<Step> {
        let read = self.pcie.link.read(bytes);
        vec![
            self.pcie.carry(read.forth, Towards::Host),
            Step::Wait(self.numbers.llc),
            self.pcie.carry(read.back, Towards::Device),
        ]
    }

    fn headers(&self, kind: Message) -> u64 {
        let n = &self.numbers;
        n.rpc + if kind == Message::OneSided { n.reth } else { n.two_sided }
    }

    fn ack(&mut self, at: ResourceId) -> Step {
        let bytes = self.numbers.ack;
        let service = Service::Fixed(transfer(bytes, self.network.bits));
        let steps = [Step::Use { at, service, units: bytes, after: Picos::ZERO }];
        Step::Fork(self.kernel.program("acknowledgement", steps))
    }
}

/// So many requests are late apart from each other.
const LATE: u32 = 64;

fn late(at: Own, mean: Picos) -> Step {
    let (first, count, service) = (at.first, at.count, Service::Exponential(mean));
    Step::Pick { first, count, service, units: 1, after: Picos::ZERO }
}

/// A port, or several as one.
pub(super) fn port(k: &mut Kernel, platform: &Platform, name: &str, bits: f64) -> Result<Network, LoadError> {
    let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
    Ok(Network::new(k, name, bits, packet, platform.span("network.latency")?))
}

/// Between NIC and host.
pub(super) fn pcie_link(k: &mut Kernel, name: &str, platform: &Platform) -> Result<PcieLink, LoadError> {
    let payload = Bytes(platform.bytes("pcie.max_payload")?);
    let generation = match platform.count("pcie.generation")? {
        ..=3 => Generation::Three,
        4 => Generation::Four,
        _ => Generation::Five,
    };
    let link = Link {
        generation,
        lanes: platform.count("pcie.lanes")? as u32,
        max_payload: payload,
        max_read_request: Bytes(512),
        completion: payload,
    };
    Ok(PcieLink::new(k, name, link, (Picos::ZERO, platform.span("pcie.latency")?)))
}

/// `numbers`: channels, banks, cycle, latency, bandwidth of a channel.
fn memory(k: &mut Kernel, name: &str, platform: &Platform, numbers: [&str; 5]) -> Result<Memory, LoadError> {
    let [channels, banks, cycle, latency, bandwidth] = numbers;
    let shape = (platform.count(channels)?, platform.count(banks)?);
    let times = (platform.span(cycle)?, platform.span(latency)?);
    Ok(Memory::new(k, name, shape, times, platform.bandwidth(bandwidth)?))
}

fn fabric(k: &mut Kernel, platform: &Platform) -> Result<Option<Fabric>, LoadError> {
    if !platform.has("interconnect.clock") {
        return Ok(None);
    }
    let names = ["local.channels", "local.banks", "local.cycle", "local.latency", "local.bandwidth"];
    let local = match platform.has("local.capacity") {
        true => Some(memory(k, "local memory", platform, names)?),
        false => None,
    };
    let endpoint = Coherent::new(k, platform)?;
    let unit = Accelerator::new(k, platform)?;
    Ok(Some(Fabric { endpoint, unit, responses: k.resource("response poster", 1), local }))
}

/// Cycles of the host's clock as seconds.
pub(super) fn host_seconds(platform: &Platform, cycles: f64) -> Result<f64, LoadError> {
    Ok(cycles / platform.value("host.clock", Dimension::Frequency)?)
}

/// Seconds as a span; shorter to read where spans are computed.
pub(super) fn span(seconds: f64) -> Picos {
    picos(seconds)
}
