//! The image service: a core authorises a request, its image is compressed, and decrypted and encrypted if the service is the long one.
//!
//! A core keeps a request from its dispatch to its reply: while a compute unit works the core polls, as the programming interface has it. So a
//! core's throughput is one over what a request takes, and hardware frees cores only as far as it is faster.

use super::accelerator::{Accelerator, Placing};
use super::host::{Handed, Host};
use super::shape::Shape;
use crate::kernel::{Step, Tokens};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};

/// Where something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the host's memory.
    Host,
    /// In the accelerator's.
    Accelerator,
}

/// What the service does to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Compresses it.
    Compress,
    /// Decrypts, compresses, encrypts.
    DecryptCompressEncrypt,
}

/// The service's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Bytes of an image.
    pub image: u64,
    /// Bytes of what is left of it.
    pub result: u64,
    authorise: f64,
    /// Cycles of a core for a byte.
    compress: f64,
    crypt: f64,
}

impl Service {
    /// For images of so many bytes.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn load(platform: &Platform, image: u64) -> Result<Service, LoadError> {
        let clock = platform.value("host.clock", Dimension::Frequency)?;
        let per_byte = |name: &str| Ok::<_, LoadError>(clock * 8.0 / platform.bandwidth(name)?);
        Ok(Service {
            image,
            result: (image as f64 * platform.ratio("service.ratio")?) as u64,
            authorise: platform.value("service.authorise", Dimension::Cycles)?,
            compress: per_byte("service.compress")?,
            crypt: per_byte("service.crypt")?,
        })
    }

    /// The request: user, token, and the image if it is in there.
    pub fn request(with: Option<u64>) -> Shape {
        Shape::flat("User", 6, &[&[16, 64][..], with.as_slice()].concat())
    }

    /// The reply.
    pub fn reply(with: Option<u64>) -> Shape {
        Shape::flat("Photo", 4, &[&[16][..], with.as_slice()].concat())
    }

    /// Cycles of all kernels on a core.
    pub fn cycles(&self, kernels: Kernels) -> f64 {
        let compress = self.image as f64 * self.compress;
        match kernels {
            Kernels::Compress => compress,
            Kernels::DecryptCompressEncrypt => compress + (self.image + self.result) as f64 * self.crypt,
        }
    }

    /// The same on compute units, one after the other.
    pub fn compute(&self, machine: &Accelerator, kernels: Kernels) -> Vec<Step> {
        let tasks = match kernels {
            Kernels::Compress => vec![self.image],
            Kernels::DecryptCompressEncrypt => vec![self.image, self.image, self.result],
        };
        tasks.iter().flat_map(|bytes| machine.compute(*bytes)).collect()
    }

    /// A core authorises.
    pub fn authorise(&self, host: &Host) -> Step {
        host.cores.work(self.authorise)
    }

    /// A request arrives, its image going to one side; the core is not told yet.
    pub fn arrive(&self, machine: &Accelerator, side: Side) -> Vec<Step> {
        match side {
            Side::Host => machine.deserialise(&Service::request(Some(self.image)), Placing::OneShot),
            Side::Accelerator => {
                let mut steps = machine.deserialise(&Service::request(None), Placing::OneShot);
                let leave = steps.pop().expect("a lane is left at the end");
                steps.extend([machine.lanes.work(0.0, self.image), leave]);
                steps
            }
        }
    }

    /// The reply's fields are laid out by the core; then the accelerator takes it from there.
    pub fn reply_from(&self, machine: &Accelerator, side: Side) -> (Vec<Step>, Vec<Step>) {
        match side {
            Side::Host => {
                let reply = Service::reply(Some(self.result));
                (machine.host.present(&reply, true), machine.encode(&reply, 0))
            }
            Side::Accelerator => {
                let laid_out = machine.host.present(&Service::reply(None), true);
                (laid_out, machine.encode(&Service::reply(Some(self.result)), self.result))
            }
        }
    }
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Everything on cores.
    CpuOnly,
    /// Kernels on the accelerator, messages through the host's memory.
    Walking,
    /// Fields where they are needed.
    Affinity,
}

impl Design {
    /// As the paper writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Design::CpuOnly => "CPU-only",
            Design::Walking => "ProtoACC-PCIe",
            Design::Affinity => "RPCAcc",
        }
    }
}

impl Service {
    /// A request from cable to cable; `idle` are the host's cores.
    pub fn serve(&self, machine: &mut Accelerator, design: Design, idle: Tokens) -> Vec<Step> {
        let kernels = Kernels::DecryptCompressEncrypt;
        let host = machine.host;
        let whole = Service::request(Some(self.image));
        let reply = Service::reply(Some(self.result));
        let mut steps = vec![host.port.send(whole.wire())];
        match design {
            Design::CpuOnly => {
                let software = &host.software;
                let serialise = software.serialise(&reply, Handed { copies: false, encoding: false });
                let cycles = 2.0 * software.stack + software.deserialise(&whole) + serialise;
                steps.extend([
                    host.dma.write(whole.wire()),
                    Step::Wait(host.dma.one_way().plus(host.memory)),
                    Step::Take(idle, 1),
                    self.authorise(&host),
                    host.cores.work(cycles + self.cycles(kernels)),
                ]);
                steps.extend(host.tell(0.0));
                steps.extend([Step::Give(idle, 1), host.dma.read(reply.wire())]);
            }
            Design::Walking => {
                steps.extend(machine.deserialise(&whole, Placing::FieldByField));
                steps.extend(taken(&host, idle));
                steps.push(self.authorise(&host));
                steps.extend(machine.move_to_device(self.image));
                steps.extend(self.compute(machine, kernels));
                steps.extend(machine.move_to_host(self.result));
                steps.extend(host.tell(0.0));
                steps.push(Step::Give(idle, 1));
                steps.extend(machine.walk(&reply));
            }
            Design::Affinity => {
                steps.extend(self.arrive(machine, Side::Accelerator));
                steps.extend(taken(&host, idle));
                steps.push(self.authorise(&host));
                steps.extend(self.compute(machine, kernels));
                let (laid_out, sent) = self.reply_from(machine, Side::Accelerator);
                steps.extend(laid_out);
                steps.push(Step::Give(idle, 1));
                steps.extend(sent);
            }
        }
        steps.push(host.port.reply(reply.wire()));
        steps
    }
}

/// A notification comes and an idle core takes it.
fn taken(host: &Host, idle: Tokens) -> [Step; 5] {
    let [write, way, memory, dispatch] = host.notified();
    [write, way, Step::Take(idle, 1), memory, dispatch]
}
