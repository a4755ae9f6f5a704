//! The rival beside the cores: a (de)serialiser on the processor's interconnect, close to memory and far from the NIC.
//!
//! It walks objects at the latency of memory. What it makes lies in memory, so a message crosses PCIe once more in full, behind the NIC's DMA, and
//! a core is between: it polls the NIC and hands messages to the accelerator.

use super::host::Host;
use super::lanes::{Lanes, Walk};
use super::traffic::Traffic;
use crate::component::Pipeline;
use crate::kernel::{Kernel, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};

/// A host with such an accelerator and a plain NIC.
#[derive(Debug)]
pub struct OnChip {
    /// All resources.
    pub kernel: Kernel,
    /// The host.
    pub host: Host,
    lanes: Pipeline,
    serialisers: Pipeline,
    walk: Walk,
    field: f64,
    message: f64,
    encode_field: f64,
    command: f64,
}

impl OnChip {
    /// With so many host cores, or all.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, cores: Option<u64>, seed: u64) -> Result<OnChip, LoadError> {
        let mut kernel = Kernel::new(seed);
        let host = Host::load(&mut kernel, platform, cores)?;
        let cycles = |name: &str| platform.value(&format!("accelerator.{name}"), Dimension::Cycles);
        let Lanes { deserialisers, serialisers, walk } = Lanes::load(&mut kernel, platform, host.memory)?;
        Ok(OnChip {
            lanes: deserialisers,
            serialisers,
            walk,
            field: cycles("field")?,
            message: cycles("message")?,
            encode_field: cycles("encode_field")?,
            command: cycles("command")?,
            host,
            kernel,
        })
    }

    /// The NIC writes a message to memory.
    pub fn arrive(&self, of: &dyn Traffic) -> [Step; 2] {
        [self.host.dma.write(of.wire()), Step::Wait(self.host.dma.one_way())]
    }

    /// The accelerator deserialises it from memory to memory.
    pub fn deserialise(&self, of: &dyn Traffic) -> [Step; 3] {
        let cycles = self.message + of.writes().len() as f64 * self.field;
        let memory = Step::Wait(self.host.memory);
        [memory, self.lanes.work(cycles, of.wire()), memory]
    }

    /// The accelerator walks objects and writes the message to memory.
    pub fn serialise(&mut self, of: &dyn Traffic) -> Vec<Step> {
        let cycles = of.shape().fields() as f64 * self.encode_field;
        let mut steps = vec![self.host.cores.work(self.command), self.serialisers.enter()];
        steps.extend(self.walk.steps(&mut self.kernel, of));
        steps.extend([
            self.serialisers.work(cycles, of.wire()),
            self.serialisers.leave(),
            Step::Wait(self.host.memory),
        ]);
        steps
    }

    /// The NIC is told and reads it.
    pub fn depart(&self, of: &dyn Traffic) -> [Step; 3] {
        let [tell, wait] = self.host.tell(0.0);
        [tell, wait, self.host.dma.read(of.wire())]
    }

    /// From packets to objects, with the RPC layer's work on a core.
    pub fn receive(&self, of: &dyn Traffic) -> Vec<Step> {
        let mut steps = self.arrive(of).to_vec();
        steps.push(Step::Wait(self.host.memory));
        steps.push(self.host.cores.work(self.host.software.stack + self.command));
        steps.extend(self.deserialise(of));
        steps.push(Step::Wait(self.host.memory));
        steps
    }

    /// From objects to packets, so too.
    pub fn send(&mut self, of: &dyn Traffic) -> Vec<Step> {
        let mut steps = self.serialise(of);
        steps.push(self.host.cores.work(self.host.software.stack));
        steps.extend(self.depart(of));
        steps
    }
}
