//! Random streams: one for each (seed, entity, purpose), so that one more draw somewhere changes nothing elsewhere.
//!
//! The purpose is a name, hashed by 64-bit FNV-1a; [`base::Prng::for_entity`] mixes the three. Both are part of the contract: streams
//! are the same in every release and on every machine, or old seeds would no longer show what they showed. A test pins them.

use base::Prng;

/// The stream of `entity` for `purpose` in the run of `seed`.
pub const fn stream(seed: u64, entity: u64, purpose: &str) -> Prng {
    Prng::for_entity(seed, entity, name_hash(purpose))
}

/// 64-bit FNV-1a.
const fn name_hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01B3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_part_of_the_contract() {
        // The published value for this name.
        assert_eq!(name_hash("foobar"), 0x8594_4171_F739_67E8);
        assert_eq!(stream(1, 2, "delay").next_u64(), 2_468_268_364_612_672_019);
    }

    #[test]
    fn neighbours_differ() {
        let mut first: Vec<u64> = Vec::new();
        for seed in 0..10 {
            for entity in 0..10 {
                for purpose in ["delay", "loss", "crash"] {
                    first.push(stream(seed, entity, purpose).next_u64());
                }
            }
        }
        let draws = first.len();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), draws);
    }
}
