//! The 64-bit hash of a key.
//!
//! One function for the whole house, so that a client, a box and a store agree on a key's hash. It is rapidhash V3,
//! which is specified and the same on every machine; the seed is a parameter because a store that faces strangers draws
//! a random one (hash flooding), while places that must agree use [`WIRE_SEED`].

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The seed wherever several machines must compute the same hash.
pub const WIRE_SEED: u64 = 0;

/// A keyed 64-bit hash: build it once per store, the secrets derive from the seed.
#[derive(Clone, Copy)]
pub struct Hasher64(RapidSecrets);

impl std::fmt::Debug for Hasher64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher64")
    }
}

impl Hasher64 {
    /// The hash function of `seed`.
    pub const fn new(seed: u64) -> Hasher64 {
        Hasher64(RapidSecrets::seed(seed))
    }

    /// The hash of `key`. Cost: 2–5 ns for keys to 64 bytes.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_different_functions_and_the_wire_one_is_fixed() {
        let wire = Hasher64::new(WIRE_SEED);
        assert_ne!(wire.hash(b"key"), Hasher64::new(1).hash(b"key"));
        // Frozen: a change here breaks every peer that computes the same hash.
        assert_eq!(wire.hash(b"millrace"), WIRE_MILLRACE);
    }

    const WIRE_MILLRACE: u64 = 15_690_546_588_494_522_648;
}
