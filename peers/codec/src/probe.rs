//! What the machine itself did before and after: a chain of dependent arithmetic, and copies within the cache.
//!
//! If these drift, so did everything between them, and only the ratios are worth reading.

use std::hint::black_box;
use std::time::Instant;

use base::prng::mix64;

const STEPS: u32 = 4_000_000;
const COPY_BYTES: usize = 16 * 1024;
const COPIES: u32 = 20_000;

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
    let start = Instant::now();
    black_box((0..STEPS).fold(black_box(1), |x, _| mix64(x)));
    start.elapsed().as_nanos() as f64
}

fn copies() -> f64 {
    let from = vec![1u8; COPY_BYTES];
    let mut to = vec![0u8; COPY_BYTES];
    let start = Instant::now();
    for _ in 0..COPIES {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    start.elapsed().as_nanos() as f64
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
