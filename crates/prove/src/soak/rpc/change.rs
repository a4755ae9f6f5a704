//! A random legal value of a random register.
//!
//! Counts and sizes are drawn evenly over their orders of magnitude, within what a small machine has: all that is legal
//! would be threads and rings by the gigabyte.

use base::prng::Prng;
use fabric::registers::{Id, Register, Registers};

/// Registers whose whole range is more than a soak can have: name, least, most.
const BOUNDS: [(&str, u64, u64); 9] = [
    ("workers.count", 0, 4),
    ("ring.entries", 16, 4096),
    ("ring.arena", 64 << 10, 4 << 20),
    ("wait.spin", 0, 1 << 14),
    ("wait.pause", 0, 1 << 14),
    ("wait.monitor", 0, 16),
    // A client that the machine does not let run is no idle one.
    ("connections.idle", 60, 3600),
    ("monitor.sample", 0, 1 << 12),
    ("trace.sample", 0, 1 << 12),
];

/// Sets a register; its name.
pub(super) fn any(registers: &Registers, random: &mut Prng) -> &'static str {
    let at = random.below(Id::SPECS.len() as u64) as usize;
    let spec = &Id::SPECS[at];
    let bounds = BOUNDS.iter().find(|(name, ..)| *name == spec.name);
    let (least, most) = bounds.map_or((spec.min, spec.max), |&(_, least, most)| (least, most));
    let value = between(least, most, random);
    registers.set_live(spec.name, &spec.show(value)).expect("it is legal");
    spec.name
}

/// A number from `least` to `most`, evenly over the powers of two between.
fn between(least: u64, most: u64, random: &mut Prng) -> u64 {
    let span = most - least;
    let bits = random.below(u64::from(u64::BITS - span.leading_zeros()) + 1);
    let below = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    least + random.below(below.min(span) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_registers_are_set_to_legal_values() {
        let (registers, mut random) = (Registers::default(), Prng::new(1));
        let names: std::collections::BTreeSet<_> = (0..2000).map(|_| any(&registers, &mut random)).collect();
        assert_eq!(names.len(), Id::SPECS.len());
        for (name, least, most) in BOUNDS {
            let spec = Id::SPECS.iter().find(|spec| spec.name == name).expect("a register");
            assert!(spec.min <= least && most <= spec.max, "{name}");
        }
        assert!((0..100).all(|_| (3..=3).contains(&between(3, 3, &mut random))));
    }
}
