//! Lanes of a hardware pipeline with a clock: each takes an item, item by item, for cycles that depend on its parts and on its bytes.
//!
//! Discipline: a lane works on one item until it has passed; items wait for an idle lane in order of arrival. A lane that waits for something else
//! in between (a link, a memory) stays taken: [`Pipeline::enter`] and [`Pipeline::leave`] around it.

use crate::kernel::{Kernel, ResourceId, Service, Step, Tokens};
use crate::platform::picos;
use base::Picos;

/// Lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// Its lanes.
    pub at: ResourceId,
    idle: Tokens,
    hertz: f64,
    /// Bytes that pass in a cycle.
    width: u64,
}

impl Pipeline {
    /// `lanes` with a clock and a width in bytes.
    pub fn new(kernel: &mut Kernel, name: &str, lanes: u64, hertz: f64, width: u64) -> Pipeline {
        let at = kernel.resource(name, lanes as usize);
        Pipeline { at, idle: kernel.tokens(&format!("idle {name}"), lanes), hertz, width }
    }

    /// How long so many cycles and then so many bytes take.
    pub fn span(&self, cycles: f64, bytes: u64) -> Picos {
        picos((cycles + bytes.div_ceil(self.width) as f64) / self.hertz)
    }

    /// Takes an idle lane.
    pub fn enter(&self) -> Step {
        Step::Take(self.idle, 1)
    }

    /// The lane is idle again.
    pub fn leave(&self) -> Step {
        Step::Give(self.idle, 1)
    }

    /// Work of the lane that was entered.
    pub fn work(&self, cycles: f64, bytes: u64) -> Step {
        let service = Service::Fixed(self.span(cycles, bytes));
        Step::Use { at: self.at, service, units: bytes, after: Picos::ZERO }
    }
}
