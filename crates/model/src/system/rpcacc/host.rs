//! The host's part: cores, their copy engines, the network before them, and what Protobuf costs in software.
//!
//! Software costs are cycles for each kind of field and copies at a core's bandwidth. *Encoding* is what protoc's C++ does: a pass for sizes and a
//! pass that writes. *Pre-serialising* is the walk that remains when nothing is encoded: for each field a descriptor, values copied as they are.
//! Strings beyond a threshold can be left to copy engines in either: the core then pays for a batch and its descriptors, and misses no cache.
//! What has just arrived is in the cache (DDIO); what is sent is not.

use super::shape::Shape;
use crate::component::{CopyEngine, Cores, DeviceDma, Network};
use crate::kernel::{Kernel, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use base::Picos;

/// Bytes of a notification: a line.
pub const NOTIFICATION: u64 = 64;

/// What Protobuf and RPCs cost a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Software {
    encode: Costs,
    decode: Costs,
    /// Of the walk without encoding, for each field.
    walk: f64,
    /// Of a message in the RPC layer, either way: header, session, dispatch, queue of the NIC.
    pub stack: f64,
    /// The same where an accelerator does it: a notification is read, a handler called.
    pub dispatch: f64,
    /// Of a write to a device.
    pub mmio: f64,
    /// To give a batch of copies to an engine, and for each copy in it.
    submit: f64,
    descriptor: f64,
    threshold: u64,
    /// Cycles to copy a byte, and until the first bytes are in the cache.
    copy: f64,
    miss: f64,
}

/// Cycles by kind of field.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    scalar: f64,
    string: f64,
    object: f64,
}

impl Costs {
    fn load(platform: &Platform, verb: &str) -> Result<Costs, LoadError> {
        let cycles = |kind: &str| platform.value(&format!("cpu.{verb}_{kind}"), Dimension::Cycles);
        Ok(Costs { scalar: cycles("scalar")?, string: cycles("string")?, object: cycles("object")? })
    }

    fn of(&self, shape: &Shape) -> f64 {
        shape.scalars as f64 * self.scalar
            + shape.strings.len() as f64 * self.string
            + shape.objects as f64 * self.object
    }
}

/// What a processor hands over to others when it serialises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Copies of large fields, to copy engines.
    pub copies: bool,
    /// Encoding, to the accelerator.
    pub encoding: bool,
}

impl Software {
    /// From tables `cpu` and `dsa`; copies as `clock` has it.
    ///
    /// # Errors
    /// A number is missing.
    pub fn load(platform: &Platform) -> Result<Software, LoadError> {
        let cycles = |name: &str| platform.value(name, Dimension::Cycles);
        let clock = platform.value("host.clock", Dimension::Frequency)?;
        Ok(Software {
            encode: Costs::load(platform, "encode")?,
            decode: Costs::load(platform, "decode")?,
            walk: cycles("cpu.walk")?,
            stack: cycles("cpu.stack")?,
            dispatch: cycles("cpu.dispatch")?,
            mmio: cycles("cpu.mmio")?,
            submit: cycles("dsa.submit")?,
            descriptor: cycles("dsa.descriptor")?,
            threshold: platform.bytes("dsa.threshold")?,
            copy: clock * 8.0 / platform.bandwidth("cpu.copy")?,
            miss: clock
                * platform.value("host.memory", Dimension::Time)?
                * platform.ratio("cpu.miss_exposed")?,
        })
    }

    /// Strings that go to copy engines.
    pub fn large<'a>(&self, shape: &'a Shape) -> impl Iterator<Item = u64> + 'a {
        let threshold = self.threshold;
        shape.strings.iter().copied().filter(move |length| *length >= threshold)
    }

    /// Cycles to serialise, with what is handed over.
    pub fn serialise(&self, shape: &Shape, handed: Handed) -> f64 {
        let fields = if handed.encoding { shape.fields() as f64 * self.walk } else { self.encode.of(shape) };
        fields
            + if handed.copies {
                let copied = shape.strings.iter().copied().filter(|length| *length < self.threshold);
                self.copies(copied) + self.submission(self.large(shape).count())
            } else {
                self.copies(shape.strings.iter().copied())
            }
    }

    /// Cycles to copy strings that are in nobody's cache.
    fn copies(&self, lengths: impl Iterator<Item = u64>) -> f64 {
        lengths.map(|length| self.miss + length as f64 * self.copy).sum()
    }

    /// Cycles to copy so many bytes that are at hand.
    pub fn copy(&self, bytes: u64) -> f64 {
        bytes as f64 * self.copy
    }

    /// Cycles to give so many copies away.
    fn submission(&self, copies: usize) -> f64 {
        if copies == 0 { 0.0 } else { self.submit + copies as f64 * self.descriptor }
    }

    /// Cycles to write the varints and tags of what another has walked and copied.
    pub fn encode_presented(&self, shape: &Shape) -> f64 {
        self.encode.of(shape) + shape.characters() as f64 * self.copy
    }

    /// Cycles to deserialise.
    pub fn deserialise(&self, shape: &Shape) -> f64 {
        self.decode.of(shape) + shape.characters() as f64 * self.copy
    }
}

/// A host with a device on PCIe.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Cores.
    pub cores: Cores,
    /// What they cost.
    pub software: Software,
    /// Copy engines.
    pub copies: CopyEngine,
    /// The device's DMA.
    pub dma: DeviceDma,
    /// The cable.
    pub port: Network,
    /// A write to the device is there so long after the core has done it.
    pub mmio: Picos,
    /// Memory to a core: it sees what a device has written.
    pub memory: Picos,
}

impl Host {
    /// With so many cores, or all of them.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn load(kernel: &mut Kernel, platform: &Platform, cores: Option<u64>) -> Result<Host, LoadError> {
        let cores = cores.map_or_else(|| platform.count("host.cores"), Ok)?;
        let clock = platform.value("host.clock", Dimension::Frequency)?;
        let packet = (platform.bytes("network.mtu")?, platform.bytes("network.overhead")?);
        Ok(Host {
            cores: Cores::new(kernel, "host cores", cores, clock),
            software: Software::load(platform)?,
            copies: CopyEngine::load(kernel, platform, "dsa")?,
            dma: DeviceDma::load(kernel, platform, "pcie")?,
            port: Network::new(
                kernel,
                "network",
                platform.bandwidth("network.bandwidth")?,
                packet,
                platform.span("network.latency")?,
            ),
            mmio: platform.span("pcie.mmio")?,
            memory: platform.span("host.memory")?,
        })
    }

    /// A core tells the device to do something, after work of so many cycles.
    pub fn tell(&self, cycles: f64) -> [Step; 2] {
        [self.cores.work(cycles + self.software.mmio), Step::Wait(self.mmio)]
    }

    /// A core pre-serialises, its copy engines do the large copies, and the device is told.
    pub fn present(&self, shape: &Shape, copies: bool) -> Vec<Step> {
        let cycles = self.software.serialise(shape, Handed { copies, encoding: true });
        let mut steps = vec![self.cores.work(cycles)];
        let large: u64 = self.software.large(shape).sum();
        if copies && large > 0 {
            steps.push(self.copies.copy(large));
        }
        steps.extend(self.tell(0.0));
        steps
    }

    /// The last write of a device, of a notification, is there and a core calls the handler.
    pub fn notified(&self) -> [Step; 4] {
        [
            self.dma.write(NOTIFICATION),
            Step::Wait(self.dma.one_way()),
            Step::Wait(self.memory),
            self.cores.work(self.software.dispatch),
        ]
    }

    /// The reference: all in software. A plain NIC writes packets to memory and a core does the rest.
    pub fn receive(&self, shape: &Shape) -> Vec<Step> {
        let software = &self.software;
        vec![
            self.dma.write(shape.wire()),
            Step::Wait(self.dma.one_way().plus(self.memory)),
            self.cores.work(software.stack + software.deserialise(shape)),
        ]
    }

    /// And back: a core serialises, the NIC reads.
    pub fn send(&self, shape: &Shape) -> Vec<Step> {
        let software = &self.software;
        let mut steps =
            self.tell(software.serialise(shape, Handed { copies: false, encoding: false })).to_vec();
        steps.insert(0, self.cores.work(software.stack));
        steps.push(self.dma.read(shape.wire()));
        steps
    }
}
