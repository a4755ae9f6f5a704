//! What lies between the NIC and the two memories: PCIe1, the switch, PCIe0, the SoC's internal link, and the memories themselves.
//!
//! ```text
//!   NIC ── PCIe1 ── switch ── PCIe0 ── host memory (LLC by DDIO, or DRAM without)
//!                     └── internal link ── SoC memory (DRAM)
//! ```
//! Packets have the size that the memory's side takes (512 B host, 128 B SoC), on every link of the way. A pass is a link and the switch, about
//! 300 ns; an RNIC is one link away from the host.
//!
//! Discipline: writes are posted: whoever waits goes on when they are at the memory's door. A DRAM takes so many writes before its banks and
//! then holds the NIC back.
//!
//! Source: Wei et al. (OSDI 2023), §2.3, §3.1, Table 4, Fig. 4 and 6.

use super::machine::{Card, Host, Side};
use crate::component::{Memory, PcieLink, Towards};
use crate::kernel::{Kernel, Step, Tokens};
use crate::pcie::{Generation, Link, Load};
use crate::platform::{LoadError, Platform};
use base::{Bytes, Picos};

/// A memory as the NIC finds it.
#[derive(Clone, Copy, Debug)]
enum Store {
    /// A cache that takes everything; so long for a read.
    Cache(Picos),
    /// DRAM.
    Dram { memory: Memory, write_cycle: Picos, writes: Tokens, interleave: u64 },
}

impl Store {
    fn dram(
        platform: &Platform,
        kernel: &mut Kernel,
        name: &str,
        (channels, interleave): (u64, u64),
    ) -> Result<Store, LoadError> {
        let banks = platform.count("dram.banks")?;
        let times = (platform.span("dram.read_cycle")?, platform.span("dram.latency")?);
        let bits = platform.bandwidth("dram.channel_bandwidth")?;
        let buffer = platform.count("dram.write_buffer")? * channels;
        Ok(Store::Dram {
            memory: Memory::new(kernel, name, (channels, banks), times, bits),
            write_cycle: platform.span("dram.write_cycle")?,
            writes: kernel.tokens(&format!("{name} write buffer"), buffer),
            interleave,
        })
    }

    fn read(&self, bytes: u64) -> Vec<Step> {
        match self {
            Store::Cache(latency) => vec![Step::Wait(*latency)],
            Store::Dram { memory, .. } => memory.access(bytes).into(),
        }
    }
}

/// Links, switch and memories.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    card: Card,
    /// Between NIC and switch; an RNIC has none.
    pub pcie1: PcieLink,
    /// Between switch, or RNIC, and host.
    pub pcie0: PcieLink,
    switch: Picos,
    host: Store,
    soc: Store,
}

impl Fabric {
    pub(super) fn new(
        platform: &Platform,
        k: &mut Kernel,
        card: Card,
        host: Host,
    ) -> Result<Fabric, LoadError> {
        let latency = platform.span("pcie.latency")?;
        let usable = platform.ratio("pcie.usable")?;
        let mut link = |name: &str, mtu: &str, generation| {
            let mtu = Bytes(platform.bytes(mtu)?);
            let max_read_request = Bytes(platform.bytes("pcie.read_request")?);
            let lanes = platform.count("pcie.lanes")? as u32;
            let link = Link { generation, lanes, max_payload: mtu, max_read_request, completion: mtu };
            Ok::<_, LoadError>(PcieLink::new(k, name, link, (Picos::ZERO, latency)).usable(usable))
        };
        // Clients' machines are older; the card's own link is of its generation.
        let card_generation = Generation::numbered(platform.count("pcie.generation")?);
        let generation = if host == Host::Server { card_generation } else { Generation::Three };
        let pcie1 = link("PCIe1", "pcie.soc_mtu", card_generation)?;
        let pcie0 = link("PCIe0", "pcie.host_mtu", generation)?;
        let near = (platform.count("soc.channels")?, platform.bytes("soc.interleave")?);
        let far = (platform.count("host.channels")?, platform.bytes("host.interleave")?);
        Ok(Fabric {
            card,
            pcie1,
            pcie0,
            switch: platform.span("pcie.pass")?.since(latency),
            host: match host {
                Host::Client { ddio: false } => Store::dram(platform, k, "host DRAM", far)?,
                Host::Server | Host::Client { ddio: true } => Store::Cache(platform.span("host.memory")?),
            },
            soc: Store::dram(platform, k, "SoC DRAM", near)?,
        })
    }

    fn store(&self, side: Side) -> Store {
        if side == Side::Host { self.host } else { self.soc }
    }

    fn link_of(&self, side: Side) -> Link {
        if side == Side::Host { self.pcie0.link } else { self.pcie1.link }
    }

    /// Blocks of neighbouring addresses that a range of so many bytes lies in: arguments of operations are drawn below it.
    pub(super) fn blocks(&self, side: Side, bytes: u64) -> u64 {
        match self.store(side) {
            Store::Cache(_) => 1,
            Store::Dram { memory, interleave, .. } => {
                bytes.div_ceil(interleave).clamp(1, u64::from(memory.banks()))
            }
        }
    }

    /// Packets of that side's size, over all links between NIC and memory, that way.
    fn cross(&self, side: Side, load: Load, towards: Towards) -> Vec<Step> {
        let through = Step::Wait(self.switch);
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

    /// The NIC reads `bytes` of that memory. Nothing is read for nothing.
    pub(super) fn nic_reads(&self, side: Side, bytes: u64) -> Vec<Step> {
        if bytes == 0 {
            return vec![];
        }
        let transfer = self.link_of(side).read(bytes);
        let mut steps = self.cross(side, transfer.forth, Towards::Host);
        steps.extend(self.store(side).read(bytes));
        steps.extend(self.cross(side, transfer.back, Towards::Device));
        steps
    }

    /// The NIC writes `bytes` there: to the memory's door; what the memory then does nobody waits for.
    pub(super) fn nic_writes(&self, kernel: &mut Kernel, side: Side, bytes: u64) -> Vec<Step> {
        if bytes == 0 {
            return vec![];
        }
        let transfer = self.link_of(side).write(bytes);
        let way = self.cross(side, transfer.forth, Towards::Host);
        self.stored(kernel, side, bytes, way)
    }

    /// `way`, and at its end a write of that memory, whose place in the buffer was taken before.
    fn stored(&self, kernel: &mut Kernel, side: Side, bytes: u64, way: Vec<Step>) -> Vec<Step> {
        let Store::Dram { memory, write_cycle, writes, .. } = self.store(side) else { return way };
        let [bank, channel] = memory.access_of(write_cycle, bytes);
        let store = kernel.program("store", [bank, channel, Step::Give(writes, 1)]);
        [vec![Step::Take(writes, 1)], way, vec![Step::Fork(store)]].concat()
    }

    /// A core of that side writes `bytes` to the NIC.
    pub(super) fn mmio(&self, side: Side, bytes: u64) -> Vec<Step> {
        self.cross(side, self.link_of(side).write(bytes).forth, Towards::Device)
    }

    /// What a piece of a copy between the memories by the SoC's DMA engine crosses: PCIe0 and the internal link, not PCIe1.
    pub(super) fn copied(&self, kernel: &mut Kernel, from: Side, bytes: u64) -> Vec<Step> {
        let through = Step::Wait(self.switch);
        match from {
            Side::Host => {
                let transfer = self.pcie0.link.read(bytes);
                let mut way = vec![self.pcie0.carry(transfer.forth, Towards::Host)];
                way.extend(self.host.read(bytes));
                way.extend([self.pcie0.carry(transfer.back, Towards::Device), through]);
                self.stored(kernel, Side::Soc, bytes, way)
            }
            Side::Soc => {
                let mut way = self.soc.read(bytes);
                let there = self.pcie0.link.write(bytes).forth;
                way.extend([through, self.pcie0.carry(there, Towards::Host)]);
                self.stored(kernel, Side::Host, bytes, way)
            }
        }
    }
}
