//! What the machine itself did before and after: a chain of dependent arithmetic, and copies within the cache.
//!
//! If these drift, so did everything between them, and only the ratios are worth reading.

use std::hint::black_box;

use base::prng::mix64;

use crate::measure::processor_ns;

const STEPS: u32 = 4_000_000;
const COPY_BYTES: usize = 16 * 1024;
const COPIES: u32 = 20_000;

/// Aligned, so that the copy's speed does not depend on where the allocator put it.
#[repr(align(4096))]
struct Pages([u8; COPY_BYTES]);

/// The machine at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// One step of a chain of dependent multiplications.
    pub arithmetic_ns: f64,
    /// Bytes copied within the cache, per nanosecond.
    pub copy_gbps: f64,
}

impl Probe {
    /// Takes a few tens of milliseconds: the best of five of each, since only disturbance can make them slower.
    pub fn take() -> Probe {
        let best = |sample: &dyn Fn() -> f64| (0..5).map(|_| sample()).fold(f64::INFINITY, f64::min);
        Probe {
            arithmetic_ns: best(&arithmetic) / STEPS as f64,
            copy_gbps: (COPIES as usize * COPY_BYTES) as f64 / best(&copies),
        }
    }

    /// How much slower (positive) or faster the machine has become, in percent: arithmetic, copying.
    pub fn drift_percent(&self, later: &Probe) -> [f64; 2] {
        [
            (later.arithmetic_ns / self.arithmetic_ns - 1.0) * 100.0,
            (self.copy_gbps / later.copy_gbps - 1.0) * 100.0,
        ]
    }
}

fn arithmetic() -> f64 {
    let start = processor_ns();
    black_box((0..STEPS).fold(black_box(1), |x, _| mix64(x)));
    (processor_ns() - start) as f64
}

fn copies() -> f64 {
    let from = Pages([1; COPY_BYTES]);
    let mut to = Pages([0; COPY_BYTES]);
    let start = processor_ns();
    for _ in 0..COPIES {
        black_box(&mut to.0).copy_from_slice(black_box(&from.0));
    }
    (processor_ns() - start) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_positive_when_the_machine_became_slower() {
        let before = Probe { arithmetic_ns: 2.0, copy_gbps: 50.0 };
        let after = Probe { arithmetic_ns: 3.0, copy_gbps: 25.0 };
        assert_eq!(before.drift_percent(&after), [50.0, 100.0]);
    }
}
