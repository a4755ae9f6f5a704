//! What a cache could answer at best, from the popularity of keys alone.
//!
//! **Coverage**: the share of requests that go to the `C` most popular of `N` keys. It is what a cache of `C` entries answers that knows
//! popularity, keeps what is asked for most, and never loses it.
//!
//! **With leases and writes**: a copy ends with its lease, or with a write, and the read after that is a miss. For a key that is read `r`
//! times per second and written `w` times, both at random, with leases of `L` seconds, a copy lives `t = (1 − e^(−wL)) / w` on average (`L`
//! without writes); between two misses it answers `r·t` reads, and so of all reads of this key the share `h = r·t / (1 + r·t)`. That is
//! also the share of time in which a copy of it is there. So a cache of `C` entries has room for the most popular keys until the `h` of
//! them add up to `C`, which may be more than `C` keys. (That what ended makes room at once is what the box does.)
//!
//! Cost: a sum over all keys.
//!
//! Source for the first: the published coverage of 4096 and 16384 of a million keys at skew 0.99, in the tests.

/// What is asked for, how often.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Keys.
    pub keys: u64,
    /// Of their popularity, by Zipf's law.
    pub skew: f64,
    /// Requests per second at a box, writes included.
    pub rate: f64,
    /// Of these, the share of writes.
    pub writes: f64,
    /// Boxes that are asked alike: a write that comes by one ends the copies of all.
    pub boxes: f64,
}

impl Load {
    fn weight(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-self.skew)
    }

    fn whole(&self) -> f64 {
        (0..self.keys).map(|rank| self.weight(rank)).sum()
    }

    /// The share of requests for the `entries` most popular keys.
    pub fn coverage(&self, entries: usize) -> f64 {
        let covered = (entries as u64).min(self.keys);
        (0..covered).map(|rank| self.weight(rank)).sum::<f64>() / self.whole()
    }

    /// The share of reads that `entries` copies answer at best, each of which lives for `lease_s` seconds or until its key is written.
    pub fn answered(&self, entries: usize, lease_s: f64) -> f64 {
        let whole = self.whole();
        let (mut room, mut share) = (entries as f64, 0.0);
        for rank in 0..self.keys {
            let popularity = self.weight(rank) / whole;
            let there = self.there(popularity, lease_s);
            // The last key that there is room for is there for a part of the time.
            let kept = (room / there).min(1.0);
            share += popularity * there * kept;
            room -= there * kept;
            if room <= 0.0 {
                break;
            }
        }
        share
    }

    /// In what share of time a copy of a key is there, if there is always room for one.
    fn there(&self, popularity: f64, lease_s: f64) -> f64 {
        let rate = self.rate * popularity;
        let (reads, writes) = (rate * (1.0 - self.writes), rate * self.writes * self.boxes);
        let life = if writes > 0.0 { -(-writes * lease_s).exp_m1() / writes } else { lease_s };
        reads * life / (1.0 + reads * life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: Load = Load { keys: 1_000_000, skew: 0.99, rate: 1e6, writes: 0.0, boxes: 1.0 };

    #[test]
    fn coverage_is_as_published() {
        let is = |entries, published: f64| (PUBLISHED.coverage(entries) - published).abs() < 0.0006;
        assert!(is(4096, 0.601) && is(16384, 0.6995));
        assert_eq!(PUBLISHED.coverage(2_000_000), 1.0);
    }

    #[test]
    fn long_leases_without_writes_are_plain_coverage() {
        let load = Load { keys: 10_000, ..PUBLISHED };
        let difference = load.answered(512, 1e9) - load.coverage(512);
        assert!(difference.abs() < 1e-4, "{difference}");
    }

    #[test]
    fn writes_and_leases_take_their_share() {
        let load = Load { keys: 10_000, ..PUBLISHED };
        let writing = Load { writes: 0.05, ..load };
        // Leases that never end: of each read key the share of reads is answered that no write came before.
        assert!((writing.answered(512, 1e9) / load.coverage(512) - 0.95).abs() < 0.01);
        let fourfold = Load { boxes: 4.0, ..writing };
        // Each copy is there for a smaller share of time: there is room for more of them.
        let (there, more) = (0.95 / 1.15, load.coverage((512.0 * 1.15 / 0.95) as usize));
        assert!((fourfold.answered(512, 1e9) - there * more).abs() < 0.005);
        let shorter: Vec<f64> = [1.0, 0.1, 0.01, 0.001].map(|lease| writing.answered(512, lease)).into();
        assert!(shorter.windows(2).all(|pair| pair[0] > pair[1]), "{shorter:?}");
        // So short that all keys together never fill it: every key keeps what it can.
        let rare = Load { rate: 1000.0, ..load };
        let by_hand: f64 = (0..rare.keys)
            .map(|rank| rare.weight(rank) / rare.whole())
            .map(|popularity| popularity * (popularity * 10.0) / (1.0 + popularity * 10.0))
            .sum();
        assert!((rare.answered(512, 0.01) - by_hand).abs() < 1e-9);
    }
}
