//! What both accelerators have: lanes that deserialise, lanes that serialise, and units of the latter that read objects.

use super::traffic::Traffic;
use crate::component::Pipeline;
use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use base::Picos;

/// Reads of objects: so many units of a serialiser, each waiting for one read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    /// The units of all lanes.
    pub at: ResourceId,
    /// Of one lane.
    pub units: u64,
    /// Of a read.
    pub latency: Picos,
}

impl Walk {
    /// Follows all pointers of a message, level by level.
    pub fn steps(&self, kernel: &mut Kernel, of: &dyn Traffic) -> Vec<Step> {
        let read =
            Step::Use { at: self.at, service: Service::Fixed(self.latency), units: 1, after: Picos::ZERO };
        let level = |count: &u64| {
            let turns = kernel.program("unit", vec![read; (count / self.units) as usize]);
            let last = kernel.program("unit", [read]);
            let mut steps = vec![];
            if *count >= self.units {
                steps.push(Step::Each(turns, self.units as u32));
            }
            steps.push(Step::Each(last, (count % self.units) as u32));
            steps
        };
        of.dereferences().iter().flat_map(level).collect()
    }
}

/// Lanes of an accelerator.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// They take messages apart.
    pub deserialisers: Pipeline,
    /// They put them together.
    pub serialisers: Pipeline,
    /// Of the serialisers.
    pub walk: Walk,
}

impl Lanes {
    /// As the platform has them, with objects behind this latency.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn load(kernel: &mut Kernel, platform: &Platform, latency: Picos) -> Result<Lanes, LoadError> {
        let clock = platform.value("accelerator.clock", Dimension::Frequency)?;
        let count = |name: &str| platform.count(&format!("accelerator.{name}"));
        let width = platform.bytes("accelerator.width")?;
        let (serialisers, units) = (count("serialisers")?, count("read_units")?);
        Ok(Lanes {
            deserialisers: Pipeline::new(kernel, "deserialisers", count("lanes")?, clock, width),
            serialisers: Pipeline::new(kernel, "serialisers", serialisers, clock, width),
            walk: Walk { at: kernel.resource("read units", (serialisers * units) as usize), units, latency },
        })
    }
}
