//! Client machine, network, server: the parts of one machine of the family, and the ways of a message.

use crate::component::{Accelerator, Coherent, Memory, Network, PcieLink, Towards};
use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Step};
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

/// A client machine.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its cores that post.
    pub cores: ResourceId,
    /// Its cores that find responses.
    receivers: Own,
    nic: ResourceId,
    nic_unit: Picos,
    nic_latency: Picos,
    doorbell: Picos,
    poll: Picos,
    software: Picos,
}

impl Client {
    /// By itself, as a part of a machine: so many machines of it as one.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(k: &mut Kernel, platform: &Platform, machines: u64) -> Result<Client, LoadError> {
        let nic = k.resource("client nic", machines as usize);
        let count = platform.count("client.instances")? * machines;
        let cores = k.resources("client core", count as u32);
        Client::with(k, platform, (cores, count as u32), nic)
    }

    fn with(
        k: &mut Kernel,
        platform: &Platform,
        (cores, count): (ResourceId, u32),
        nic: ResourceId,
    ) -> Result<Client, LoadError> {
        Ok(Client {
            cores,
            receivers: Own { first: k.resources("client receiver", count), count },
            nic,
            nic_unit: platform.service("nic.rate", 1)?,
            nic_latency: platform.span("nic.latency")?,
            doorbell: platform.span("client.doorbell")?,
            poll: platform.span("client.poll")?,
            software: platform.span("jitter.software")?,
        })
    }

    fn through_nic(&self) -> Step {
        let service = Service::Fixed(self.nic_unit);
        Step::Use { at: self.nic, service, units: 1, after: self.nic_latency }
    }

    /// Posts a request, up to its NIC having sent it.
    pub(super) fn posts(&self) -> Vec<Step> {
        vec![Step::Wait(self.doorbell), self.through_nic()]
    }

    /// A response comes in: what its NIC does, then what it takes until the client knows.
    pub(super) fn notices(&self) -> [Vec<Step>; 2] {
        let known = Step::Wait(self.doorbell.plus(self.poll));
        [vec![self.through_nic()], vec![known, late(self.receivers, self.software)]]
    }
}

/// Everything.
#[derive(Debug)]
pub struct Machine {
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Clients, where they are this machine's.
    pub client: Option<Client>,
    /// Acknowledgements, to the server and back.
    acks: [ProgramId; 2],
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
    pub nic_unit: Picos,
    pub nic: Picos,
    pub reth: u64,
    pub rpc: u64,
    pub two_sided: u64,
    pub llc: Picos,
    pub home: Picos,
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
    /// With so many host cores that serve, and clients.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, host_cores: u64, seed: u64) -> Result<Machine, LoadError> {
        let mut kernel = Kernel::new(seed);
        let count = platform.count("client.instances")? as u32;
        let cores = kernel.resources("client core", count);
        let nic = kernel.resource("client nic", 1);
        let clients = move |k: &mut Kernel| Client::with(k, platform, (cores, count), nic).map(Some);
        Machine::build(platform, host_cores, kernel, clients)
    }

    /// The server alone, whose clients and all between are in this kernel already.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn around(platform: &Platform, host_cores: u64, kernel: Kernel) -> Result<Machine, LoadError> {
        Machine::build(platform, host_cores, kernel, |_| Ok(None))
    }

    fn build(
        platform: &Platform,
        host_cores: u64,
        mut kernel: Kernel,
        client: impl FnOnce(&mut Kernel) -> Result<Option<Client>, LoadError>,
    ) -> Result<Machine, LoadError> {
        let k = &mut kernel;
        let numbers = Numbers {
            nic_unit: platform.service("nic.rate", 1)?,
            nic: platform.span("nic.latency")?,
            reth: platform.bytes("network.reth")?,
            rpc: platform.bytes("rpc.header")?,
            two_sided: platform.bytes("rpc.two_sided_header")?,
            llc: platform.span("host.llc_latency")?,
            home: platform.span("host.core_to_home")?,
            hardware: platform.span("jitter.hardware")?,
        };
        let ports = platform.count("network.ports")? as f64;
        let network = port(k, platform, "network", platform.bandwidth("network.port_bandwidth")? * ports)?;
        let nic = k.resource("nic", 1);
        let soc = match platform.count_or_none("soc.cores")? as u32 {
            0 => None,
            count => {
                let reads = platform.count("soc.reads_in_flight")? * u64::from(count);
                let first = k.resources("SoC core", count);
                Some((Own { first, count }, k.tokens("SoC's reads", reads)))
            }
        };
        let host = Own { first: k.resources("host core", host_cores as u32), count: host_cores as u32 };
        let client = client(k)?;
        let late = Own { first: k.resources("lateness", LATE), count: LATE };
        Ok(Machine {
            client,
            acks: acknowledgements(k, platform, &network)?,
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
    pub fn request(&self, kind: Message, bytes: u64) -> Vec<Step> {
        let client = self.client.iter().flat_map(Client::posts);
        client.chain(self.arrives(kind, bytes)).collect()
    }

    /// A message of `bytes` comes over the cable, and the server's NIC has it.
    pub(super) fn arrives(&self, kind: Message, bytes: u64) -> [Step; 3] {
        let send = self.network.send(bytes + self.headers(kind));
        [send, self.pass_nic(), Step::Fork(self.acks[1])]
    }

    /// A message of `bytes` that the server's NIC has, to the client's knowing of it.
    pub fn response(&self, kind: Message, bytes: u64) -> Vec<Step> {
        let mut steps = self.leaves(kind, bytes).to_vec();
        let [first, rest] = self.client.map_or_else(Default::default, |client| client.notices());
        steps.extend(first);
        steps.push(self.acknowledged());
        steps.extend(rest);
        steps
    }

    /// A message of `bytes` that the server's NIC has goes over the cable.
    pub(super) fn leaves(&self, kind: Message, bytes: u64) -> [Step; 2] {
        [self.pass_nic(), self.network.reply(bytes + self.headers(kind))]
    }

    /// The client's NIC acknowledges a response.
    pub(super) fn acknowledged(&self) -> Step {
        Step::Fork(self.acks[0])
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
}

/// Of messages to the client, and to the server.
fn acknowledgements(
    k: &mut Kernel,
    platform: &Platform,
    network: &Network,
) -> Result<[ProgramId; 2], LoadError> {
    let bytes = platform.bytes("network.ack")? / platform.count("network.batched_ack")?;
    let service = Service::Fixed(transfer(bytes, network.bits));
    Ok([network.forth, network.back].map(|at| {
        k.program("acknowledgement", [Step::Use { at, service, units: bytes, after: Picos::ZERO }])
    }))
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
    let link = Link {
        generation: Generation::numbered(platform.count("pcie.generation")?),
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
