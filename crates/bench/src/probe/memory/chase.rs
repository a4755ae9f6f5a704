//! Random dependent reads: every line holds the address of the next.
//!
//! Why a linear congruence decides the order: with a multiplier ≡ 5 mod 8 and an odd increment it visits all of a power
//! of two before it repeats (Hull and Dobell, 1962), and is laid out in one sequential pass; shuffling 16 M lines would
//! itself be 16 M misses. Steps are far apart and follow no stride that a prefetcher knows.
//!
//! Invariants: every word at a line's start inside `bytes` is the offset of another such line.

use base::pages::Region;
use base::spread::Spread;
use base::touch::{LINE, prefetch};
use base::{Clock, Nanos, Prng};
use std::hint::black_box;

/// Steps between two readings of the clock, per chain.
const STEPS: usize = 2_000;
/// Bytes read before the first sample: more than a last-level cache holds.
const SETTLED: usize = 256 << 20;
/// Lines known ahead in the prefetched loop.
const AHEAD: usize = 16;

/// A chain through the first `bytes` of a region.
pub struct Chain<'a> {
    region: &'a Region,
    bytes: usize,
}

impl<'a> Chain<'a> {
    /// Lays a chain through all lines of the first `bytes` (a power of two, at least two lines).
    pub fn lay(region: &'a mut Region, bytes: usize) -> Chain<'a> {
        assert!(bytes.is_power_of_two() && bytes >= 2 * LINE && bytes <= region.len(), "{bytes} bytes");
        let lines = (bytes / LINE) as u64;
        let multiplier = ((0x5851_F42D_4C95_7F2D_u64 % lines) & !7) | 5;
        for line in 0..lines {
            let next = line.wrapping_mul(multiplier).wrapping_add(0x1405_7B7E_F767_814F) % lines;
            // SAFETY: `line` is inside the region, aligned, and &mut says that nobody reads it.
            unsafe { region.start().add(line as usize * LINE).cast::<u64>().write(next * LINE as u64) };
        }
        let chain = Chain { region, bytes };
        chain.settle();
        chain
    }

    /// Reads the set in order, to its end or to [`SETTLED`]: a small set is in its cache afterwards, and of a large one
    /// no written line is left in any, which every miss would first have to write back (1.3 times the latency, measured).
    fn settle(&self) {
        black_box((0..self.bytes.min(SETTLED)).step_by(LINE).fold(0, |sum, at| sum ^ self.next(at)));
    }

    #[inline(always)]
    fn next(&self, offset: usize) -> usize {
        // SAFETY: `offset` came from the chain or from `offsets`, so it is a line inside the region.
        unsafe { self.region.start().add(offset).cast::<u64>().read() as usize }
    }

    /// `K` lines to start from.
    fn offsets<const K: usize>(&self, prng: &mut Prng) -> [usize; K] {
        std::array::from_fn(|_| prng.below((self.bytes / LINE) as u64) as usize * LINE)
    }

    /// Nanoseconds per dependent read, one per sample of `STEPS`.
    pub fn latencies(&self, span: Nanos) -> Vec<f64> {
        self.chains::<1>(span)
    }

    /// Nanoseconds per line with 1, 2, 4 … 32 chains in lock-step, `span` for each.
    pub fn parallel(&self, span: Nanos) -> [(usize, Vec<f64>); 6] {
        [
            (1, self.chains::<1>(span)),
            (2, self.chains::<2>(span)),
            (4, self.chains::<4>(span)),
            (8, self.chains::<8>(span)),
            (16, self.chains::<16>(span)),
            (32, self.chains::<32>(span)),
        ]
    }

    /// Nanoseconds per line with as many chains as serve best: how fast lines come to a core that knows its addresses.
    pub fn pace(&self, span: Nanos) -> Vec<f64> {
        let by_median =
            |samples: &Vec<f64>| Spread::of_all(samples).map_or(f64::MAX, |summary| summary.median);
        let each = Nanos(span.0 / 3);
        let forms = [self.chains::<8>(each), self.chains::<16>(each), self.chains::<32>(each)];
        let best = forms.into_iter().min_by(|a, b| by_median(a).total_cmp(&by_median(b)));
        best.expect("there are three forms")
    }

    fn chains<const K: usize>(&self, span: Nanos) -> Vec<f64> {
        let mut at = self.offsets::<K>(&mut Prng::new(K as u64));
        timed(span, STEPS * K, || {
            for _ in 0..STEPS {
                for one in &mut at {
                    *one = self.next(*one);
                }
            }
            black_box(&at);
        })
    }

    /// Nanoseconds per line when the next `AHEAD` addresses are known and prefetched.
    pub fn prefetched(&self, span: Nanos) -> Vec<f64> {
        let mut prng = Prng::new(7);
        let mut queue = self.offsets::<AHEAD>(&mut prng);
        let lines = (self.bytes / LINE) as u64;
        timed(span, STEPS * AHEAD, || {
            for _ in 0..STEPS {
                for slot in &mut queue {
                    let read = self.next(*slot);
                    black_box(read);
                    *slot = prng.below(lines) as usize * LINE;
                    prefetch(self.region.start().wrapping_add(*slot));
                }
            }
        })
    }
}

/// Nanoseconds per one of `reads`, a sample per call of `run`, for `span` and at least three.
fn timed(span: Nanos, reads: usize, mut run: impl FnMut()) -> Vec<f64> {
    let clock = Clock::shared();
    let (start, mut samples) = (clock.now(), Vec::new());
    while samples.len() < 3 || clock.now().since(start) < span {
        let from = clock.now();
        run();
        samples.push(clock.now().since(from).0 as f64 / reads as f64);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::pages::PageKind;

    #[test]
    fn the_chain_visits_every_line_once() {
        for bytes in [2 * LINE, 1 << 12, 1 << 14, 1 << 20] {
            let mut region = Region::map(1 << 20, PageKind::Base).expect("1 MiB");
            let chain = Chain::lay(&mut region, bytes);
            let mut seen = vec![false; bytes / LINE];
            let mut at = 0;
            for _ in 0..seen.len() {
                assert!(!std::mem::replace(&mut seen[at / LINE], true), "{bytes}: {at} again");
                at = chain.next(at);
            }
            assert_eq!(at, 0, "{bytes}");
        }
    }

    #[test]
    fn every_form_gives_samples() {
        let mut region = Region::map(1 << 20, PageKind::Base).expect("1 MiB");
        let chain = Chain::lay(&mut region, 1 << 14);
        assert_eq!(chain.latencies(Nanos::ZERO).len(), 3);
        assert!(chain.parallel(Nanos::ZERO).iter().all(|(_, s)| s.len() == 3));
        assert_eq!(chain.prefetched(Nanos::ZERO).len(), 3);
    }
}
