//! Cores of a processor, an SoC or an accelerator, and any other k equal units with a clock.
//!
//! Discipline: one queue before all of them, in order of arrival. What is bound to one core is a set of `Cores` of its own.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use base::Picos;

/// Cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Their resource.
    pub at: ResourceId,
    hertz: f64,
}

impl Cores {
    /// `count` cores of so many cycles per second.
    pub fn new(kernel: &mut Kernel, name: &str, count: u64, hertz: f64) -> Cores {
        Cores { at: kernel.resource(name, count as usize), hertz }
    }

    /// How long so many cycles take.
    pub fn span(&self, cycles: f64) -> Picos {
        crate::platform::picos(cycles / self.hertz)
    }

    /// Cycles of so many seconds.
    pub fn cycles(&self, seconds: f64) -> f64 {
        seconds * self.hertz
    }

    /// Work of so many cycles on any of them.
    pub fn work(&self, cycles: f64) -> Step {
        self.busy(self.span(cycles))
    }

    /// Work of so long on any of them.
    pub fn busy(&self, span: Picos) -> Step {
        Step::Use { at: self.at, service: Service::Fixed(span), units: 1, after: Picos::ZERO }
    }
}
