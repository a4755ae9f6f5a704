//! Memory as one core meets it: how long a line takes that the core waits for, and how fast lines come when it waits for many at once.
//!
//! Discipline: lines are fetched in order of arrival, one begins no sooner than `line` after the one before it, and each is there `latency` after it
//! began. So `latency / line` of them overlap, which is what a core's miss buffers, page walks and the memory behind them allow together. The
//! two numbers depend on the working set and are measured with it: what share of accesses meets which cache is in them.
//!
//! Not modelled: other cores at the same memory (their traffic is in what was measured, or not), writes back.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use base::Picos;

/// A core's way to memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreMemory {
    at: ResourceId,
}

impl CoreMemory {
    /// A core's own.
    pub fn new(kernel: &mut Kernel, name: &str) -> CoreMemory {
        CoreMemory { at: kernel.resource(name, 1) }
    }

    /// Fetches a line that takes so long, of which one can begin every `line`.
    pub fn fetch(&self, latency: Picos, line: Picos) -> Step {
        let line = Picos(line.0.min(latency.0));
        Step::Use { at: self.at, service: Service::Fixed(line), units: 1, after: latency.since(line) }
    }

    /// The lines that follow it in the same row: they only take the way up.
    pub fn follow(&self, bytes: u64, bits_per_second: f64) -> Step {
        let service = Service::Fixed(crate::platform::transfer(bytes, bits_per_second));
        Step::Use { at: self.at, service, units: 0, after: Picos::ZERO }
    }

    /// Its resource.
    pub fn resource(&self) -> ResourceId {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_overlap_as_far_as_they_may() {
        let mut kernel = Kernel::new(1);
        let memory = CoreMemory::new(&mut kernel, "misses");
        let (latency, line) = (Picos::from_nanos(100), Picos::from_nanos(10));
        let one = kernel.program("line", [memory.fetch(latency, line)]);
        assert_eq!(kernel.unloaded(one), latency);
        let many = kernel.program("lines", [Step::Each(one, 16)]);
        // The sixteenth begins 150 ns after the first.
        assert_eq!(kernel.unloaded(many), Picos::from_nanos(250));
    }
}
