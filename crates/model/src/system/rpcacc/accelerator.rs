//! The accelerator on a PCIe NIC, as its authors built it and as the rival that they compare with: deserialiser lanes, serialiser lanes, memory of
//! its own, compute units.
//!
//! Deserialising: a lane takes a message and goes from field to field; fields go to memory
//! * of the accelerator: off-chip, at the lane's width;
//! * of the host, *field by field*: a DMA write for each;
//! * of the host, *one-shot*: through a buffer that one DMA write empties when it is full or the message ends. The lane waits for that write,
//!   because the buffer is appended to and emptied as a whole.
//!
//! Serialising: *accelerator-only* walks the host's objects; a lane has so many units that read at once, but what is behind a pointer waits for the
//! pointer. *Memory-affinity* reads what the host's core has laid out, once, and encodes it as it comes.

use super::host::Host;
use super::lanes::{Lanes, Walk};
use super::traffic::Traffic;
use crate::component::Pipeline;
use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;

/// Where fields of a message go, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// To the accelerator's memory.
    OffChip,
    /// To the host's, each as it comes.
    FieldByField,
    /// To the host's, a buffer at a time.
    OneShot,
}

/// An accelerator.
#[derive(Debug)]
pub struct Accelerator {
    /// All resources.
    pub kernel: Kernel,
    /// Its host.
    pub host: Host,
    /// Deserialisers.
    pub lanes: Pipeline,
    /// Serialisers.
    pub serialisers: Pipeline,
    walk: Walk,
    /// Compute units: one serves at a time what it is given.
    pub units: ResourceId,
    numbers: Numbers,
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    field: f64,
    message: f64,
    buffer: u64,
    encode_field: f64,
    depth: f64,
    memory: Picos,
    unit_bits: f64,
    unit_latency: Picos,
}

impl Accelerator {
    /// With so many host cores, or all.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, cores: Option<u64>, seed: u64) -> Result<Accelerator, LoadError> {
        let mut kernel = Kernel::new(seed);
        let host = Host::load(&mut kernel, platform, cores)?;
        let cycles = |name: &str| platform.value(&format!("accelerator.{name}"), Dimension::Cycles);
        let Lanes { deserialisers, serialisers, walk } =
            Lanes::load(&mut kernel, platform, host.dma.round_trip)?;
        let units = platform.count("accelerator.compute_units")? as usize;
        Ok(Accelerator {
            lanes: deserialisers,
            serialisers,
            walk,
            units: kernel.resource("compute units", units),
            numbers: Numbers {
                field: cycles("field")?,
                message: cycles("message")?,
                buffer: platform.bytes("accelerator.buffer")?,
                encode_field: cycles("encode_field")?,
                depth: cycles("depth")?,
                memory: platform.span("accelerator.memory")?,
                unit_bits: platform.bandwidth("accelerator.unit_rate")?,
                unit_latency: platform.span("accelerator.unit_latency")?,
            },
            host,
            kernel,
        })
    }

    /// Objects are behind another latency: a sweep's.
    pub fn walk_latency(&mut self, latency: Picos) {
        self.walk.latency = latency;
    }

    /// A message goes from the transport to memory.
    pub fn deserialise(&self, of: &dyn Traffic, placing: Placing) -> Vec<Step> {
        let n = &self.numbers;
        let mut steps = vec![self.lanes.enter()];
        match placing {
            Placing::OffChip => {
                let cycles = n.message + of.writes().len() as f64 * n.field;
                steps.push(self.lanes.work(cycles, of.wire()));
                steps.extend(of.left_to_host().into_iter().map(|bytes| self.host.dma.write(bytes)));
            }
            Placing::FieldByField => {
                steps.push(self.lanes.work(n.message, 0));
                for bytes in of.writes() {
                    // Characters stream through the lane as the link takes them.
                    steps.extend([self.lanes.work(n.field, 0), self.host.dma.write(bytes)]);
                }
            }
            Placing::OneShot => {
                let (flushes, writes) = (of.flushes(n.buffer), of.writes().len() as u64);
                let count = flushes.len() as u64;
                let share = |whole: u64, i: u64| whole * (i + 1) / count - whole * i / count;
                for (i, bytes) in (0..).zip(flushes) {
                    let cycles = share(writes, i) as f64 * n.field + if i == 0 { n.message } else { 0.0 };
                    steps.push(self.lanes.work(cycles, share(of.wire(), i)));
                    steps.push(self.host.dma.write(bytes));
                }
            }
        }
        steps.push(self.lanes.leave());
        steps
    }

    /// … and a core is told.
    pub fn receive(&self, of: &dyn Traffic, placing: Placing) -> Vec<Step> {
        let mut steps = self.deserialise(of, placing);
        steps.extend(self.host.notified());
        steps
    }

    /// Transactions on PCIe that deserialising a message takes, and the notification.
    pub fn transactions(&self, of: &dyn Traffic, placing: Placing) -> u64 {
        let write = |step: &&Step| matches!(step, Step::Use { at, .. } if *at == self.host.dma.to_host);
        self.deserialise(of, placing).iter().filter(write).count() as u64 + 1
    }

    /// The serialiser walks the host's objects alone.
    pub fn walk(&mut self, of: &dyn Traffic) -> Vec<Step> {
        let mut steps = vec![self.serialisers.enter()];
        steps.extend(self.walk.steps(&mut self.kernel, of));
        let cycles = of.shape().fields() as f64 * self.numbers.encode_field;
        steps.extend([
            self.host.dma.stream_in(of.walked()),
            self.serialisers.work(cycles, of.wire()),
            self.serialisers.leave(),
        ]);
        steps
    }

    /// Accelerator-only: a core says where, the serialiser does the rest.
    pub fn send_walking(&mut self, of: &dyn Traffic) -> Vec<Step> {
        let mut steps = self.host.tell(0.0).to_vec();
        steps.extend(self.walk(of));
        steps
    }

    /// The accelerator reads what a core laid out; a serialiser encodes it, `resident` bytes from its own memory beside, at its width.
    pub fn encode(&self, of: &dyn Traffic, resident: u64) -> Vec<Step> {
        let n = &self.numbers;
        let bytes = of.presented() - resident.min(of.shape().characters());
        let mut steps = vec![self.host.dma.read(bytes), self.serialisers.enter()];
        if resident > 0 {
            steps.push(Step::Wait(n.memory));
        }
        // What comes over PCIe was encoded as it came.
        steps.extend([self.serialisers.work(n.depth, resident), self.serialisers.leave()]);
        steps
    }

    /// Memory-affinity: a core pre-serialises, the serialiser encodes.
    pub fn send_presented(&self, of: &dyn Traffic, copies: bool) -> Vec<Step> {
        let mut steps = self.host.present(of.shape(), copies);
        steps.extend(self.encode(of, 0));
        steps
    }

    /// A compute unit takes `bytes` from the accelerator's memory and writes its result there; a core submits and polls.
    pub fn compute(&self, bytes: u64) -> Vec<Step> {
        let n = &self.numbers;
        let mut steps = self.host.tell(0.0).to_vec();
        steps.push(Step::Use {
            at: self.units,
            service: Service::Fixed(transfer(bytes, n.unit_bits)),
            units: bytes,
            after: n.memory.plus(n.unit_latency),
        });
        steps.extend(self.host.notified());
        steps
    }

    /// `moveToAcc`: a core tells, the content of a field crosses.
    pub fn move_to_device(&self, bytes: u64) -> Vec<Step> {
        let mut steps = self.host.tell(0.0).to_vec();
        steps.push(self.host.dma.read(bytes));
        steps.extend(self.host.notified());
        steps
    }

    /// `moveToCPU`.
    pub fn move_to_host(&self, bytes: u64) -> Vec<Step> {
        let mut steps = self.host.tell(0.0).to_vec();
        steps.extend([Step::Wait(self.numbers.memory), self.host.dma.write(bytes)]);
        steps.extend(self.host.notified());
        steps
    }
}
