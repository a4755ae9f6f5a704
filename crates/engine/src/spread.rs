//! Which of several engines a key belongs to.
//!
//! Why by multiplication and not modulo: all of a hash's upper bits count, and the count of engines need not be a power of two.
//! The hash is mixed first, so that an index that uses the same hash's bits for its buckets still fills all of them.

use base::prng::mix64;

/// A number of engines with the keys spread over them by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    engines: u32,
}

impl Spread {
    /// Over `engines` of them.
    ///
    /// # Panics
    /// When there are none.
    pub fn over(engines: u32) -> Spread {
        assert!(engines > 0, "keys cannot be spread over no engines");
        Spread { engines }
    }

    /// The engine, from 0, of the key with this hash.
    #[inline]
    pub fn engine_of(self, hash: u64) -> usize {
        ((u128::from(mix64(hash)) * u128::from(self.engines)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly_and_stay() {
        for engines in [1u32, 2, 3, 7] {
            let spread = Spread::over(engines);
            let mut of = vec![0u32; engines as usize];
            (0..7000u64).for_each(|hash| of[spread.engine_of(hash)] += 1);
            let fair = 7000 / engines;
            assert!(of.iter().all(|n| n.abs_diff(fair) < fair / 5), "{of:?}");
            assert_eq!(spread.engine_of(77), Spread::over(engines).engine_of(77));
        }
    }
}
