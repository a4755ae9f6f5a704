//! Non-volatile memory with granules larger than a line (Optane: 256 B).
//!
//! Discipline: reads and writes each serve in order of arrival at the medium's bandwidth, in whole granules; their latency follows, and the medium is
//! free meanwhile. A write is done when the power-safe queue before the medium has it.
//!
//! Source: Yang et al., "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory" (FAST 2020). Not modelled: the
//! module's write-combining buffer beyond one message, wear levelling.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;

/// Of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    at: ResourceId,
    bits: f64,
    latency: Picos,
}

/// A module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nvm {
    granule: u64,
    reads: Way,
    writes: Way,
}

impl Nvm {
    /// Of a platform's section `nvm`.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(kernel: &mut Kernel, name: &str, platform: &Platform) -> Result<Nvm, LoadError> {
        let mut way = |what: &str| {
            Ok::<_, LoadError>(Way {
                at: kernel.resource(&format!("{name} {what}s"), 1),
                bits: platform.bandwidth(&format!("nvm.{what}_bandwidth"))?,
                latency: platform.span(&format!("nvm.{what}"))?,
            })
        };
        let (reads, writes) = (way("read")?, way("write")?);
        Ok(Nvm { granule: platform.bytes("nvm.granule")?, reads, writes })
    }

    /// Reads `bytes` that lie together.
    pub fn read(&self, bytes: u64) -> Step {
        self.carry(self.reads, bytes)
    }

    /// Writes `bytes` that lie together.
    pub fn write(&self, bytes: u64) -> Step {
        self.carry(self.writes, bytes)
    }

    fn carry(&self, way: Way, bytes: u64) -> Step {
        let whole = bytes.div_ceil(self.granule).max(1) * self.granule;
        let service = Service::Fixed(transfer(whole, way.bits));
        Step::Use { at: way.at, service, units: whole, after: way.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;

    #[test]
    fn a_line_costs_a_granule() {
        let mut kernel = Kernel::new(1);
        let platform = shipped("bluefield2-eth").expect("it is shipped").expect("it is right");
        let nvm = Nvm::new(&mut kernel, "NVM", &platform).expect("it is complete");
        let units = |kernel: &mut Kernel, step| {
            let program = kernel.program("access", [step]);
            kernel.demand(program)[0].units
        };
        assert_eq!(units(&mut kernel, nvm.write(64)), 256);
        assert_eq!(units(&mut kernel, nvm.write(257)), 512);
        assert_eq!(units(&mut kernel, nvm.read(1024)), 1024);
    }
}
