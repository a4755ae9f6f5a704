//! The rival with cores on the NIC: a SmartNIC whose Arm cores run the software stack and reach the host's memory by DMA.
//!
//! The cores encode and decode as a host's do, in more cycles. What lies in the host's memory costs them a DMA, which a core starts by writing a
//! descriptor and ends by polling; it has so many under way at once. So the same two cures help: a host that pre-serialises (one DMA in place of one
//! for each pointer) and one DMA for a buffer of fields in place of one for each.

use super::host::{Handed, Host};
use super::lanes::Walk;
use super::shape::Shape;
use crate::component::Cores;
use crate::kernel::{Kernel, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};

/// How the SmartNIC's cores serialise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serialising {
    /// They walk the host's objects.
    Walking,
    /// The host pre-serialises, its cores copying.
    Presented,
    /// The host pre-serialises, its copy engines copying.
    PresentedWithCopies,
}

/// A host with a SmartNIC.
#[derive(Debug)]
pub struct SmartNic {
    /// All resources.
    pub kernel: Kernel,
    /// The host.
    pub host: Host,
    /// The SmartNIC's cores.
    pub cores: Cores,
    walk: Walk,
    /// Its cycles for one of a host's core.
    slower: f64,
    /// Cycles for a descriptor and its completion.
    descriptor: f64,
    buffer: u64,
}

impl SmartNic {
    /// With so many host cores, or all.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, cores: Option<u64>, seed: u64) -> Result<SmartNic, LoadError> {
        let mut kernel = Kernel::new(seed);
        let host = Host::load(&mut kernel, platform, cores)?;
        let (count, clock) =
            (platform.count("soc.cores")?, platform.value("soc.clock", Dimension::Frequency)?);
        let units = platform.count("soc.dma_window")?;
        Ok(SmartNic {
            cores: Cores::new(&mut kernel, "SmartNIC cores", count, clock),
            walk: Walk {
                at: kernel.resource("DMA window", (units * count) as usize),
                units,
                latency: host.dma.round_trip,
            },
            slower: platform.ratio("soc.cycles")?,
            descriptor: platform.value("soc.descriptor", Dimension::Cycles)?,
            buffer: platform.bytes("soc.buffer")?,
            host,
            kernel,
        })
    }

    /// Work of so many cycles of a host's core.
    fn work(&self, cycles: f64) -> Step {
        self.cores.work(cycles * self.slower)
    }

    /// From packets in the SmartNIC's memory to objects in the host's.
    pub fn receive(&self, shape: &Shape, one_shot: bool) -> Vec<Step> {
        let software = &self.host.software;
        let mut steps = vec![self.work(software.stack + software.deserialise(shape))];
        let writes = if one_shot {
            let flushes = shape.memory().div_ceil(self.buffer);
            vec![shape.memory().div_ceil(flushes); flushes as usize]
        } else {
            shape.writes()
        };
        for bytes in writes {
            steps.extend([self.cores.work(self.descriptor), self.host.dma.write(bytes)]);
        }
        steps.extend(self.host.notified());
        steps
    }

    /// From objects in the host's memory to packets in the SmartNIC's.
    pub fn send(&mut self, shape: &Shape, how: Serialising) -> Vec<Step> {
        let software = self.host.software;
        let mut steps = match how {
            Serialising::Walking => self.host.tell(0.0).to_vec(),
            Serialising::Presented => self.host.present(shape, false),
            Serialising::PresentedWithCopies => self.host.present(shape, true),
        };
        let encode = if how == Serialising::Walking {
            let reads: u64 = shape.dereferences().iter().sum();
            steps.push(self.cores.work(reads as f64 * self.descriptor));
            steps.extend(self.walk.steps(&mut self.kernel, shape));
            steps.push(self.host.dma.stream_in(shape.memory()));
            software.serialise(shape, Handed { copies: false, encoding: false })
        } else {
            steps.extend([self.cores.work(self.descriptor), self.host.dma.read(shape.presented())]);
            software.encode_presented(shape)
        };
        steps.push(self.work(software.stack + encode));
        steps
    }
}
