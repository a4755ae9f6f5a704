//! An accelerator's processing unit: a table of requests under way, and pipelined units that they come back to.
//!
//! Discipline: a request takes an entry of the table when it comes and gives it back with its response; who finds none waits in order. Between,
//! each of its steps passes the units, which begin a new one every few cycles whatever the others wait for: a table-based state machine hides
//! the latency of memory behind other requests (ORCA, Sec. III-C). *Lanes* are units that a request holds for as long as it needs them.
//!
//! Source: ORCA (HPCA 2023), Sec. III-C, IV-C, V.

use super::Cores;
use crate::kernel::{Kernel, ResourceId, Service, Step, Tokens};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use base::Picos;

/// A processing unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accelerator {
    /// The units, as requests enter them.
    pub units: ResourceId,
    /// What a request holds while it reduces rows.
    pub lanes: Cores,
    table: Tokens,
    hertz: f64,
    per_request: Picos,
}

impl Accelerator {
    /// Of a platform's section `accelerator`.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(kernel: &mut Kernel, platform: &Platform) -> Result<Accelerator, LoadError> {
        let hertz = platform.value("accelerator.clock", Dimension::Frequency)?;
        Ok(Accelerator {
            units: kernel.resource("accelerator units", 1),
            lanes: Cores::new(kernel, "accelerator lanes", platform.count("accelerator.lanes")?, hertz),
            table: kernel.tokens("requests in the accelerator", platform.count("accelerator.in_flight")?),
            hertz,
            per_request: platform.cycles("accelerator.per_request", "accelerator.clock")?,
        })
    }

    /// A request comes: an entry of the table, and the units' time for all of its steps.
    pub fn enter(&self) -> [Step; 2] {
        let service = Service::Fixed(self.per_request);
        [Step::Take(self.table, 1), Step::Use { at: self.units, service, units: 1, after: Picos::ZERO }]
    }

    /// It leaves.
    pub fn leave(&self) -> Step {
        Step::Give(self.table, 1)
    }

    /// Latency of so many cycles in a pipeline.
    pub fn pass(&self, cycles: f64) -> Step {
        Step::Wait(picos(cycles / self.hertz))
    }
}
