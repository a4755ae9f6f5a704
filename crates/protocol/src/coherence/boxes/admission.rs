//! How often a key was asked for lately, in a fixed amount of memory: decides what a box keeps.
//!
//! A doorkeeper (Bloom filter) takes the first sight of a key, a count-min sketch the others; after so many requests all counts
//! are halved and the doorkeeper is emptied, so that old fame fades. Most keys of a skewed workload are seen once and never
//! reach the sketch.
//!
//! Error: never too low (but by ageing); too high by a share that falls with the width. Cost: four loads and stores.
//!
//! Sources: Cormode and Muthukrishnan, "An improved data stream summary" (2005); Einziger, Friedman, Manes, "TinyLFU" (2017).

use crate::wire::KeyHash;
use base::prng::mix64;

const ROWS: usize = 4;

/// The estimate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frequency {
    /// `ROWS` rows of a power of two.
    counts: Vec<u8>,
    door: Vec<u64>,
    width: usize,
    seen: usize,
    age_after: usize,
}

impl Frequency {
    /// Counts go no higher.
    pub const MOST: u64 = 15;

    /// For a table of `entries` copies.
    pub fn new(entries: usize) -> Frequency {
        let width = (4 * entries.max(16)).next_power_of_two();
        Frequency {
            counts: vec![0; ROWS * width],
            door: vec![0; 2 * width / 64],
            width,
            seen: 0,
            age_after: 10 * width,
        }
    }

    /// One more request; the count with it.
    pub fn count(&mut self, hash: KeyHash) -> u32 {
        self.seen += 1;
        if self.seen >= self.age_after {
            self.age();
        }
        if self.enter(hash) {
            for i in self.cells(hash) {
                self.counts[i] = (self.counts[i] + 1).min(Frequency::MOST as u8);
            }
        }
        self.estimate(hash)
    }

    /// The count, without adding to it.
    pub fn estimate(&self, hash: KeyHash) -> u32 {
        let least = self.cells(hash).map(|i| self.counts[i]).into_iter().min().unwrap_or(0);
        u32::from(least) + u32::from(self.is_known(hash))
    }

    fn cells(&self, hash: KeyHash) -> [usize; ROWS] {
        let mixed = mix64(u64::from(hash.0));
        let (a, b) = (mixed as usize, (mixed >> 32) as usize | 1);
        std::array::from_fn(|row| row * self.width + (a.wrapping_add(row.wrapping_mul(b)) & (self.width - 1)))
    }

    fn door_bits(&self, hash: KeyHash) -> [(usize, u64); 2] {
        let mixed = mix64(!u64::from(hash.0));
        [mixed, mixed >> 32].map(|bit| {
            let bit = bit as usize & (2 * self.width - 1);
            (bit / 64, 1 << (bit % 64))
        })
    }

    fn is_known(&self, hash: KeyHash) -> bool {
        self.door_bits(hash).iter().all(|&(word, bit)| self.door[word] & bit != 0)
    }

    /// Whether it was known already.
    fn enter(&mut self, hash: KeyHash) -> bool {
        let known = self.is_known(hash);
        for (word, bit) in self.door_bits(hash) {
            self.door[word] |= bit;
        }
        known
    }

    fn age(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.door.fill(0);
        self.seen /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_often_asked_for_stand_out() {
        let mut frequency = Frequency::new(256);
        for i in 0..4000u32 {
            frequency.count(KeyHash(i));
            if i % 400 == 0 {
                frequency.count(KeyHash(1 << 20));
            }
        }
        assert!(frequency.estimate(KeyHash(1 << 20)) >= 9);
        let loud = (0..4000).filter(|i| frequency.estimate(KeyHash(*i)) > 5).count();
        assert!(loud < 40, "{loud} of 4000 that were seen once");
        assert!((0..4000).all(|i| frequency.estimate(KeyHash(i)) >= 1));
    }

    #[test]
    fn fame_fades() {
        let mut frequency = Frequency::new(16);
        (0..15).for_each(|_| {
            frequency.count(KeyHash(9));
        });
        let before = frequency.estimate(KeyHash(9));
        for i in 0..frequency.age_after as u32 * 2 {
            frequency.count(KeyHash(1000 + i % 50));
        }
        assert!(frequency.estimate(KeyHash(9)) < before / 2);
    }
}
