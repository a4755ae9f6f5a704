//! How often a key was asked for lately, in a fixed amount of memory: decides what a box keeps.
//!
//! A count-min sketch with *conservative update*: a key has a cell in each of four rows, only the lowest of them are counted up, and the lowest
//! is the estimate. So the many keys that are seen once do not add up in cells that others use. After so many requests all counts are
//! halved, so that old fame fades.
//!
//! Error: never too low (but by ageing); too high by a share that falls with the width. Cost: four loads and stores; 64 bytes per copy.
//!
//! Width and age are measured (`docs/measurements/box.md`, "Cache size and skew"): narrower, or with a Bloom filter before it for first
//! sights (as TinyLFU has), hits are lost where popularity is flat; older ones gain little and learn slowly that popularity has changed.
//!
//! Sources: Cormode and Muthukrishnan, "An improved data stream summary" (2005); Estan and Varghese, "New directions in traffic measurement
//! and accounting" (2002), for conservative update; Einziger, Friedman, Manes, "TinyLFU" (2017).

use crate::wire::KeyHash;
use base::prng::mix64;

const ROWS: usize = 4;
/// Cells of a row for each copy.
const CELLS_PER_COPY: usize = 16;
/// Requests for each copy until counts are halved for the first time; then after half as many each.
const AGE_PER_COPY: usize = 40;

/// The estimate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frequency {
    /// `ROWS` rows of a power of two.
    counts: Vec<u8>,
    width: usize,
    seen: usize,
    age_after: usize,
}

impl Frequency {
    /// Counts go no higher.
    pub const MOST: u64 = u8::MAX as u64;

    /// For a table of `entries` copies.
    pub fn new(entries: usize) -> Frequency {
        let entries = entries.max(4);
        let width = (CELLS_PER_COPY * entries).next_power_of_two();
        Frequency { counts: vec![0; ROWS * width], width, seen: 0, age_after: AGE_PER_COPY * entries }
    }

    /// One more request; the count with it.
    pub fn count(&mut self, hash: KeyHash) -> u32 {
        self.seen += 1;
        if self.seen >= self.age_after {
            self.age();
        }
        let cells = self.cells(hash);
        let least = self.least(&cells);
        let more = least.saturating_add(1);
        for i in cells {
            // Those above the least were counted up by other keys too.
            self.counts[i] = self.counts[i].max(more);
        }
        u32::from(more)
    }

    /// The count, without adding to it.
    pub fn estimate(&self, hash: KeyHash) -> u32 {
        u32::from(self.least(&self.cells(hash)))
    }

    fn least(&self, cells: &[usize; ROWS]) -> u8 {
        cells.iter().map(|i| self.counts[*i]).min().expect("there are rows")
    }

    fn cells(&self, hash: KeyHash) -> [usize; ROWS] {
        let mixed = mix64(u64::from(hash.0));
        let (a, b) = (mixed as usize, (mixed >> 32) as usize | 1);
        std::array::from_fn(|row| row * self.width + (a.wrapping_add(row.wrapping_mul(b)) & (self.width - 1)))
    }

    fn age(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
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
