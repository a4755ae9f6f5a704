//! Clients, a server and what is between them, put together.

use super::client::Client;
use super::fabric::Fabric;
use super::nic::Nic;
use crate::component::{Cores, DescriptorDma, Doorbell, Network, PcieLink};
use crate::kernel::Kernel;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use base::Picos;

/// What is in the server's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// A plain RDMA NIC: ConnectX-6.
    Rnic,
    /// The SmartNIC: the same NIC units with switch and SoC.
    Snic,
}

/// The machine around the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The study's servers: PCIe 4.0, DDIO.
    Server,
    /// A client machine with the card in it: PCIe 3.0, where DDIO can be switched off.
    Client {
        /// Whether the NIC writes to the cache.
        ddio: bool,
    },
}

/// Whose memory, whose cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host's: path ①.
    Host,
    /// The SoC's: path ②.
    Soc,
}

impl Side {
    /// The other.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::Host => Side::Soc,
            Side::Soc => Side::Host,
        }
    }
}

/// Cores of a side and what posting and answering costs them.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// The cores.
    pub cores: Cores,
    /// What a request of its own costs.
    pub doorbell: Doorbell,
    /// Cycles to take a message and to post the answer.
    pub echo: f64,
    /// From the message in memory to a core that works on it, beside cycles.
    pub wake: Picos,
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
    /// The server's NIC.
    pub nic: Nic,
    /// What is behind it.
    pub fabric: Fabric,
    /// The SoC's DMA engine: path ③*.
    pub dma: DescriptorDma,
    /// Cycles of an SoC core to give the engine a descriptor and to see that it is done.
    pub(super) dma_post: f64,
    /// A poll finds what has come.
    pub(super) poll: Picos,
    processors: [Processor; 2],
}

impl Machine {
    /// With so many clients, in the study's servers.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, card: Card, clients: usize, seed: u64) -> Result<Machine, LoadError> {
        Machine::within(platform, (card, Host::Server), clients, seed)
    }

    /// With so many clients, in a machine of this kind.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn within(
        platform: &Platform,
        (card, host): (Card, Host),
        clients: usize,
        seed: u64,
    ) -> Result<Machine, LoadError> {
        let mut kernel = Kernel::new(seed);
        let clients = (0..clients)
            .map(|number| Client::new(platform, &mut kernel, &format!("client {number}"), 1, port))
            .collect::<Result<_, LoadError>>()?;
        Machine::around(platform, (card, host), clients, kernel)
    }

    /// With so many client machines as one: operations are any of them's.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn of_fleet(platform: &Platform, card: Card, machines: u64, seed: u64) -> Result<Machine, LoadError> {
        let mut kernel = Kernel::new(seed);
        let fleet = Client::new(platform, &mut kernel, "clients'", machines, port)?;
        Machine::around(platform, (card, Host::Server), vec![fleet], kernel)
    }

    /// A server whose clients are these, and in this kernel already with all that is between.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn around(
        platform: &Platform,
        (card, host): (Card, Host),
        clients: Vec<Client>,
        mut kernel: Kernel,
    ) -> Result<Machine, LoadError> {
        let k = &mut kernel;
        Ok(Machine {
            clients,
            port: port(platform, k, "server port", ("network.server_bandwidth", 1))?,
            nic: Nic::new(platform, k, card)?,
            fabric: Fabric::new(platform, k, card, host)?,
            dma: dma_engine(platform, k)?,
            dma_post: platform.value("dma.post", Dimension::Cycles)?,
            poll: platform.span("client.poll")?,
            processors: [host_processor(platform, k, card)?, soc_processor(platform, k)?],
            kernel,
        })
    }

    /// A side's cores.
    pub fn processor(&self, side: Side) -> Processor {
        self.processors[side as usize]
    }

    /// Blocks of neighbouring addresses that a range of so many bytes lies in: arguments of operations are drawn below it.
    pub fn blocks(&self, side: Side, bytes: u64) -> u64 {
        self.fabric.blocks(side, bytes)
    }

    /// PCIe1 and PCIe0.
    pub fn links(&self) -> [PcieLink; 2] {
        [self.fabric.pcie1, self.fabric.pcie0]
    }
}

/// So many cables side by side: a message takes one of them.
pub(super) fn ports(
    platform: &Platform,
    k: &mut Kernel,
    name: &str,
    (bits, cables): (&str, u64),
) -> Result<Network, LoadError> {
    let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
    let half = Picos(platform.span("network.latency")?.0 / 2);
    let bits = platform.bandwidth(bits)? * platform.ratio("network.efficiency")?;
    Ok(Network::side_by_side(k, name, (bits, cables), packet, half))
}

/// A cable, or so many as one of so many times the bits.
pub(super) fn port(
    platform: &Platform,
    k: &mut Kernel,
    name: &str,
    (bits, cables): (&str, u64),
) -> Result<Network, LoadError> {
    let one = ports(platform, k, name, (bits, 1))?;
    Ok(Network { bits: one.bits * cables as f64, ..one })
}

fn dma_engine(platform: &Platform, k: &mut Kernel) -> Result<DescriptorDma, LoadError> {
    let channels = platform.count("dma.channels")?;
    let per_descriptor = platform.service("dma.rate", channels)?;
    let places = (platform.count("dma.places")?, platform.span("dma.latency")?);
    Ok(DescriptorDma::new(k, "DMA", (channels, per_descriptor), platform.bandwidth("dma.bandwidth")?, places))
}

fn host_processor(platform: &Platform, k: &mut Kernel, card: Card) -> Result<Processor, LoadError> {
    let clock = platform.value("host.clock", Dimension::Frequency)?;
    let cycles = |name: &str| platform.value(name, Dimension::Cycles);
    let post = if card == Card::Rnic { "host.post_rnic" } else { "host.post_snic" };
    // An answer is a request too: with the SmartNIC posting it costs so much more.
    let dearer = cycles(post)? - cycles("host.post_rnic")?;
    Ok(Processor {
        cores: Cores::new(k, "host cores", platform.count("host.cores")?, clock),
        doorbell: Doorbell { build: cycles("host.build")?, mmio: cycles(post)? },
        echo: cycles("host.echo")? + dearer,
        wake: Picos::ZERO,
    })
}

fn soc_processor(platform: &Platform, k: &mut Kernel) -> Result<Processor, LoadError> {
    let clock = platform.value("soc.clock", Dimension::Frequency)?;
    let cycles = |name: &str| platform.value(name, Dimension::Cycles);
    Ok(Processor {
        cores: Cores::new(k, "SoC cores", platform.count("soc.cores")?, clock),
        doorbell: Doorbell { build: cycles("soc.build")?, mmio: cycles("soc.mmio")? },
        echo: cycles("soc.echo")?,
        wake: platform.span("soc.wake")?,
    })
}
