//! Clients, a server and what is between them.

use crate::component::{Cores, Memory, Network, PcieLink, Towards};
use crate::kernel::{Kernel, ResourceId, Service, Step, Tokens};
use crate::pcie::{Generation, Link};
use crate::platform::{LoadError, Platform};
use base::{Bytes, Picos};

/// What is in the server's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// A plain RDMA NIC: ConnectX-6.
    Rnic,
    /// The SmartNIC: the same NIC units with switch and SoC.
    Snic,
}

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host's: path ①.
    Host,
    /// The SoC's: path ②.
    Soc,
}

/// A client machine.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its cores.
    pub cores: Cores,
    /// Its NIC.
    pub nic: ResourceId,
    /// Its cable.
    pub port: Network,
}

/// Everything.
#[derive(Debug)]
pub struct Machine {
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Requesters.
    pub clients: Vec<Client>,
    /// The server's cable: both ports together.
    pub port: Network,
    card: Card,
    shared: ResourceId,
    reserved: [ResourceId; 2],
    pcie1: PcieLink,
    pcie0: PcieLink,
    soc: Memory,
    /// Posted writes that the SoC's memory has not done yet.
    soc_writes: Tokens,
    interleave: u64,
    numbers: Numbers,
}

/// Numbers that steps are made of.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    client_post: f64,
    client_pcie: Picos,
    client_nic: Picos,
    client_nic_unit: Picos,
    poll: Picos,
    nic: Picos,
    nic_unit: Picos,
    switch: Picos,
    host_memory: Picos,
    soc_write_longer: Picos,
}

impl Machine {
    /// With so many clients.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, card: Card, clients: usize, seed: u64) -> Result<Machine, LoadError> {
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
        let half = Picos(platform.span("network.latency")?.0 / 2);
        let port = |k: &mut Kernel, name: &str, bits: &str| {
            let bits = platform.bandwidth(bits)? * platform.ratio("network.efficiency")?;
            Ok::<_, LoadError>(Network::new(k, name, bits, packet, half))
        };
        let machines = (0..clients)
            .map(|i| {
                Ok(Client {
                    cores: Cores::new(
                        k,
                        &format!("client {i} cores"),
                        platform.count("client.cores")?,
                        platform.value("client.clock", crate::platform::unit::Dimension::Frequency)?,
                    ),
                    nic: k.resource(&format!("client {i} nic"), 1),
                    port: port(k, &format!("client {i} port"), "network.client_bandwidth")?,
                })
            })
            .collect::<Result<_, LoadError>>()?;
        let link = |mtu: &str| {
            let mtu = Bytes(platform.bytes(mtu)?);
            let lanes = platform.count("pcie.lanes")? as u32;
            let max_read_request = Bytes(512);
            Ok::<_, LoadError>(Link {
                generation: Generation::Four,
                lanes,
                max_payload: mtu,
                max_read_request,
                completion: mtu,
            })
        };
        let latency = platform.span("pcie.latency")?;
        let units = |name: &str| platform.count(name).map(|count| count as usize);
        let all = units("nic.shared_units")? + units("nic.host_units")? + units("nic.soc_units")?;
        let shared = match card {
            Card::Rnic => k.resource("nic units", all),
            Card::Snic => k.resource("nic units, shared", units("nic.shared_units")?),
        };
        let reserved = [
            k.resource("nic units, host's", units("nic.host_units")?),
            k.resource("nic units, SoC's", units("nic.soc_units")?),
        ];
        let (read, write) = (platform.span("soc.read_cycle")?, platform.span("soc.write_cycle")?);
        let numbers = Numbers {
            client_post: platform.value("client.post", crate::platform::unit::Dimension::Cycles)?,
            client_pcie: platform.span("client.pcie_latency")?,
            client_nic: platform.span("client.nic_latency")?,
            client_nic_unit: platform.service("client.nic_rate", 1)?,
            poll: platform.span("client.poll")?,
            nic: platform.span("nic.latency")?,
            nic_unit: platform.service("nic.unit_rate", 1)?,
            switch: platform.span("pcie.pass")?.since(latency),
            host_memory: platform.span("host.memory")?,
            soc_write_longer: write.since(read),
        };
        Ok(Machine {
            clients: machines,
            port: port(k, "server port", "network.server_bandwidth")?,
            card,
            shared,
            reserved,
            pcie1: PcieLink::new(k, "PCIe1", link("pcie.soc_mtu")?, (Picos::ZERO, latency)),
            pcie0: PcieLink::new(k, "PCIe0", link("pcie.host_mtu")?, (Picos::ZERO, latency)),
            soc: Memory::new(
                k,
                "SoC",
                (platform.count("soc.channels")?, platform.count("soc.banks")?),
                (read, platform.span("soc.memory")?),
                platform.bandwidth("soc.channel_bandwidth")?,
            ),
            soc_writes: k.tokens("SoC write buffer", platform.count("soc.write_buffer")?),
            interleave: platform.bytes("soc.interleave")?,
            numbers,
            kernel,
        })
    }

    /// Banks that a range of so many bytes of the SoC's memory lies in: arguments of operations are drawn below it.
    pub fn banks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.interleave).clamp(1, u64::from(self.soc.banks()))
    }

    /// Packets that went over PCIe1 and PCIe0, both directions, since the account began.
    pub fn pcie_packets(kernel: &Kernel, of: &[PcieLink; 2]) -> [u64; 2] {
        of.map(|link| kernel.usage(link.to_host).units + kernel.usage(link.to_device).units)
    }

    /// PCIe1 and PCIe0.
    pub fn links(&self) -> [PcieLink; 2] {
        [self.pcie1, self.pcie0]
    }

    pub(super) fn post(&self, client: &Client) -> [Step; 3] {
        let n = &self.numbers;
        [client.cores.work(n.client_post), Step::Wait(n.client_pcie), self.client_nic(client)]
    }

    pub(super) fn client_nic(&self, client: &Client) -> Step {
        let n = &self.numbers;
        Step::Use {
            at: client.nic,
            service: Service::Fixed(n.client_nic_unit),
            units: 1,
            after: n.client_nic,
        }
    }

    /// The client's NIC has what it needs; the data go to memory, and the client notices.
    pub(super) fn notice(&self) -> Step {
        Step::Wait(self.numbers.client_pcie.plus(self.numbers.poll))
    }

    /// A packet goes through the server's NIC.
    pub(super) fn nic(&self, side: Side) -> Step {
        let n = &self.numbers;
        let service = Service::Fixed(n.nic_unit);
        match self.card {
            Card::Rnic => Step::Use { at: self.shared, service, units: 1, after: n.nic },
            Card::Snic => {
                let first = self.reserved[side as usize];
                Step::Either { first, second: self.shared, service, units: 1, after: n.nic }
            }
        }
    }

    fn link_of(&self, side: Side) -> Link {
        if side == Side::Host { self.pcie0.link } else { self.pcie1.link }
    }

    /// Packets of the size that `side` takes, over all links between NIC and memory, that way.
    fn cross(&self, side: Side, load: crate::pcie::Load, towards: Towards) -> Vec<Step> {
        let through = Step::Wait(self.numbers.switch);
        let pcie0 = || self.pcie0.carry(load, towards);
        let pcie1 = || self.pcie1.carry(load, towards);
        match (self.card, side, towards) {
            (Card::Rnic, ..) => vec![pcie0()],
            (Card::Snic, Side::Soc, Towards::Host) => vec![pcie1(), through],
            (Card::Snic, Side::Soc, Towards::Device) => vec![through, pcie1()],
            (Card::Snic, Side::Host, Towards::Host) => vec![pcie1(), through, pcie0()],
            (Card::Snic, Side::Host, Towards::Device) => vec![pcie0(), through, pcie1()],
        }
    }

    /// The NIC reads `bytes` of that memory.
    pub(super) fn nic_reads(&self, side: Side, bytes: u64) -> Vec<Step> {
        let transfer = self.link_of(side).read(bytes);
        let mut steps = self.cross(side, transfer.forth, Towards::Host);
        match side {
            Side::Host => steps.push(Step::Wait(self.numbers.host_memory)),
            Side::Soc => steps.extend(self.soc.access(bytes)),
        }
        steps.extend(self.cross(side, transfer.back, Towards::Device));
        steps
    }

    /// The NIC writes `bytes` there: to the memory's door, and what the memory then does with nobody waiting.
    pub(super) fn nic_writes(&self, side: Side, bytes: u64) -> (Vec<Step>, Vec<Step>) {
        let transfer = self.link_of(side).write(bytes);
        let mut there = self.cross(side, transfer.forth, Towards::Host);
        let memory = match side {
            Side::Host => vec![],
            Side::Soc => {
                let [bank, channel] = self.soc.access(bytes);
                let longer = self.numbers.soc_write_longer;
                let bank = match bank {
                    Step::Pick { first, count, service: Service::Fixed(span), units, after } => {
                        Step::Pick { first, count, service: Service::Fixed(span.plus(longer)), units, after }
                    }
                    other => other,
                };
                there.insert(0, Step::Take(self.soc_writes, 1));
                vec![bank, channel, Step::Give(self.soc_writes, 1)]
            }
        };
        (there, memory)
    }
}
