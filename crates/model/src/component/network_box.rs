//! A network accelerator beside a switch: a port, a traffic manager that moves packets between port and memory, and cores that take them.
//!
//! Discipline: the port serves each direction in order of arrival; the scheduler gives packets to whichever core is free, in order of arrival. The
//! traffic manager is latency on both sides; cores wait for the memory that a packet's work touches, one access after the other, and are
//! taken meanwhile.
//!
//! Not modelled: the order that a scheduler keeps among packets of a flow, hash and crypto engines of their own (their time is in the work's cycles).
//!
//! Source: Liu et al., "IncBricks" (ASPLOS 2017), §2.2, §3.1.

use super::{Cores, Network};
use crate::kernel::{Kernel, ResourceId, Step};
use base::Picos;

/// An accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkBox {
    /// The cable to its switch; `forth` leads to the box.
    pub port: Network,
    cores: Cores,
    /// From the port to a core, and back.
    manager: Picos,
    /// Of one access to its memory.
    memory: Picos,
}

impl NetworkBox {
    /// With so many cores of so many cycles per second; `times`: traffic manager one way, one access to memory.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        (count, hertz): (u64, f64),
        times: (Picos, Picos),
        port: Network,
    ) -> NetworkBox {
        let cores = Cores::new(kernel, &format!("{name} cores"), count, hertz);
        NetworkBox { port, cores, manager: times.0, memory: times.1 }
    }

    /// Its cores.
    pub fn cores(&self) -> ResourceId {
        self.cores.at
    }

    /// A packet of so many bytes comes in, and a core works on it: so many cycles, so many accesses to memory.
    pub fn enter(&self, bytes: u64, cycles: f64, accesses: u64) -> [Step; 3] {
        let work = self.cores.span(cycles).plus(Picos(self.memory.0 * accesses));
        [self.port.send(bytes), Step::Wait(self.manager), self.cores.busy(work)]
    }

    /// A packet of so many bytes leaves.
    pub fn leave(&self, bytes: u64) -> [Step; 2] {
        [Step::Wait(self.manager), self.port.reply(bytes)]
    }
}
