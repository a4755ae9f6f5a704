//! A DMA engine between two memories that cores command by descriptors.
//!
//! Discipline: a descriptor waits for one of the engine's places (what may be under way), then for a channel, which is busy so long with each;
//! its data then pass the engine's data path in pieces, both directions of copying sharing it. Which links and memories a piece crosses the machine
//! says.
//!
//! Not modelled: what makes bandwidth fall for requests beyond a megabyte (Wei et al., OSDI 2023, Fig. 11): nobody knows.

use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Step, Tokens};
use crate::platform::transfer;
use base::Picos;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescriptorDma {
    channels: ResourceId,
    per_descriptor: Picos,
    data: ResourceId,
    bits: f64,
    places: Tokens,
    /// From the descriptor to the first piece, beside the channel's time.
    latency: Picos,
}

/// Bytes that go through the data path at once.
pub const PIECE: u64 = 4096;

impl DescriptorDma {
    /// `channels` that take so long for a descriptor, a data path of so many bits per second, and places for descriptors.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        (channels, per_descriptor): (u64, Picos),
        bits: f64,
        (places, latency): (u64, Picos),
    ) -> DescriptorDma {
        DescriptorDma {
            channels: kernel.resource(&format!("{name} channels"), channels as usize),
            per_descriptor,
            data: kernel.resource(&format!("{name} data path"), 1),
            bits,
            places: kernel.tokens(&format!("{name} places"), places),
            latency,
        }
    }

    /// Steps of a copy of `bytes`; `crossing` is what a piece of so many bytes does beyond the engine.
    pub fn copy(
        &self,
        kernel: &mut Kernel,
        bytes: u64,
        crossing: impl FnOnce(&mut Kernel, u64) -> Vec<Step>,
    ) -> Vec<Step> {
        let pieces = bytes.div_ceil(PIECE).max(1);
        let piece = bytes.div_ceil(pieces);
        let service = Service::Fixed(transfer(piece, self.bits));
        let mut steps = vec![Step::Use { at: self.data, service, units: piece, after: Picos::ZERO }];
        steps.extend(crossing(kernel, piece));
        let piece: ProgramId = kernel.program("DMA piece", steps);
        let descriptor = Service::Fixed(self.per_descriptor);
        vec![
            Step::Take(self.places, 1),
            Step::Use { at: self.channels, service: descriptor, units: 1, after: self.latency },
            Step::Each(piece, pieces as u32),
            Step::Give(self.places, 1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Loop, closed};
    use crate::sim::Sim;

    /// Copies per second of 64 always under way.
    fn rate(bytes: u64, places: u64) -> f64 {
        let mut kernel = Kernel::new(1);
        let engine = DescriptorDma::new(
            &mut kernel,
            "dma",
            (2, Picos::from_nanos(100)),
            80e9,
            (places, Picos::from_nanos(900)),
        );
        let steps = engine.copy(&mut kernel, bytes, |_, _| vec![]);
        let copy = kernel.program("copy", steps);
        let one = Loop { mix: copy.into(), window: 64, arguments: 1 };
        closed(&Sim::new(kernel), 1, &[one], Picos::from_micros(50), Picos::from_micros(500))[0].rate()
    }

    #[test]
    fn descriptors_bytes_and_places_each_bound_it() {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
        assert!(near(rate(64, 1000), 20e6), "two channels of 10 M/s");
        assert!(near(rate(65_536, 1000), 10e9 / 65_536.0), "80 Gbps");
        assert!(near(rate(64, 4), 4.0 / 1006.4e-9), "four places: Little's law");
    }
}
