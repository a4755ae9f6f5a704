//! What a cache would find with some bytes more, and what it would lose with some less: counts of a window that fades, and arithmetic.
//!
//! ```text
//!   misses of evicted keys
//!   by quarter of ghosts     ██ ▆▆ ▃▃ ▁▁       n bytes more hold n / (bytes of an item) of the keys that are remembered:
//!                            └─more─┘           what they would have found is what was missed of those
//! ```
//! More: of the quarters that the bytes reach, what was missed there. Less: as much as the first bytes of more would find, for a curve of hits is steep where
//! there is little memory; at worst steeper by as much as the first quarter is than the second. Bytes that a cache does not use are lost by nobody.
//! Either is a count, which is as sure as counts are (its root, twice).
//!
//! Source: Cliffhanger (Cidon et al., NSDI 2016): slopes at queues' ends by shadow queues, and memory moved from the flatter to the steeper.

use super::predict::Range;
use crate::observed::{Cache, QUARTERS};

/// What is this old counts half.
const HALF_LIFE_US: f64 = 5e6;
/// A curve is steeper where there is less memory by this factor at most.
const STEEPER_MAX: f64 = 2.0;
/// Deviations of a count that it is not taken to be off by.
const DEVIATIONS: f64 = 2.0;

/// What a cache did lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// Seconds that it is of.
    pub seconds: f64,
    /// Gets in it that found nothing, and those that did.
    pub misses: f64,
    pub hits: f64,
    ghosts: [f64; QUARTERS],
}

impl Window {
    /// Adds what came in a time; what was before fades, if `fades`.
    pub(super) fn add(&mut self, seen: &Cache, span_us: u64, fades: bool) {
        let kept = if fades { f64::powf(0.5, span_us as f64 / HALF_LIFE_US) } else { 1.0 };
        let seconds = span_us as f64 / 1e6;
        let add = |was: &mut f64, rate: f64| *was = *was * kept + rate * seconds;
        add(&mut self.seconds, 1.0);
        add(&mut self.misses, seen.misses.0);
        add(&mut self.hits, seen.hits.0);
        self.ghosts.iter_mut().zip(seen.ghosts).for_each(|(was, rate)| add(was, rate.0));
    }

    /// Gets a second.
    pub(super) fn gets(&self) -> f64 {
        (self.misses + self.hits) / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The share of gets that found nothing.
    pub(super) fn miss_share(&self) -> f64 {
        let gets = self.misses + self.hits;
        if gets > 0.0 { self.misses / gets } else { 0.0 }
    }

    /// Hits a second that so many bytes more would bring to the cache.
    pub(super) fn gain(&self, seen: &Cache, bytes: f64) -> Range {
        let (items, quarter) = (items(seen, bytes), seen.ghost_room.0 / QUARTERS as f64);
        let reach = |nth: usize| ((items - nth as f64 * quarter) / quarter.max(1.0)).clamp(0.0, 1.0);
        let count = self.ghosts.iter().enumerate().map(|(nth, count)| reach(nth) * count).sum();
        self.slope(count, 1.0)
    }

    /// Hits a second that the cache would lose with so many bytes less.
    pub(super) fn loss(&self, seen: &Cache, bytes: f64) -> Range {
        let unused = (seen.limit.0 - seen.memory.0).max(0.0);
        let (items, quarter) = (items(seen, (bytes - unused).max(0.0)), seen.ghost_room.0 / QUARTERS as f64);
        let [first, second, ..] = self.ghosts;
        let steeper = (first.max(1.0) / second.max(1.0)).clamp(1.0, STEEPER_MAX);
        self.slope(first * items / quarter.max(1.0), steeper)
    }

    fn slope(&self, count: f64, steeper: f64) -> Range {
        let off = DEVIATIONS * count.max(0.0).sqrt();
        let per_second = |count: f64| count.max(0.0) / self.seconds.max(f64::MIN_POSITIVE);
        Range {
            low: per_second(count - off),
            mid: per_second(count),
            // Of what was not seen once there may be some.
            high: per_second((count + off) * steeper + f64::from(u8::from(count > 0.0))),
        }
    }
}

/// How far the misses of windows together may be off, as a share of them.
pub(super) fn unsure(windows: &[Window]) -> f64 {
    DEVIATIONS / windows.iter().map(|of| of.misses).sum::<f64>().max(1.0).sqrt()
}

/// Items that so many bytes of a cache hold.
fn items(seen: &Cache, bytes: f64) -> f64 {
    let each = seen.memory.0 / seen.items.0.max(1.0);
    bytes / each.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::Figure;

    /// Full, 64 bytes an item, a thousand keys remembered.
    fn cache(ghosts: [f64; QUARTERS]) -> Cache {
        Cache {
            limit: Figure(64e4),
            memory: Figure(64e4),
            items: Figure(1e4),
            hits: Figure(9e3),
            misses: Figure(1e3),
            ghosts: ghosts.map(Figure),
            ghost_room: Figure(1000.0),
            ..Cache::default()
        }
    }

    fn window(seen: &Cache) -> Window {
        let mut window = Window::default();
        (0..100).for_each(|_| window.add(seen, 500_000, true));
        window
    }

    #[test]
    fn bytes_reach_as_many_keys_as_they_hold() {
        let seen = cache([400.0, 200.0, 100.0, 50.0]);
        let found = window(&seen);
        let near = |slope: Range, wanted: f64| (slope.mid - wanted).abs() < 1e-6 * wanted.max(1.0);
        // 250 items are a quarter of what is remembered.
        assert!(near(found.gain(&seen, 250.0 * 64.0), 400.0), "{:?}", found.gain(&seen, 16e3));
        assert!(near(found.gain(&seen, 375.0 * 64.0), 500.0) && near(found.gain(&seen, 1e9), 750.0));
        assert!(near(found.gain(&seen, 0.0), 0.0));
        let loss = found.loss(&seen, 125.0 * 64.0);
        assert!(near(loss, 200.0) && loss.high > 1.9 * 200.0 && loss.low < 200.0, "{loss:?}");
        assert!((found.gets() - 1e4).abs() < 1e-3 && (found.miss_share() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn nobody_loses_what_is_not_used() {
        let mut seen = cache([400.0, 200.0, 100.0, 50.0]);
        seen.limit = Figure(80e4);
        let found = window(&seen);
        assert_eq!(found.loss(&seen, 16e4).mid, 0.0);
        assert!(found.loss(&seen, 16e4 + 6400.0).mid > 0.0);
    }

    /// Few counts are unsure; what was never missed may be missed some day, and is not counted on.
    #[test]
    fn counts_are_as_sure_as_counts_are() {
        let seen = cache([4.0, 0.0, 0.0, 0.0]);
        let mut few = Window::default();
        few.add(&seen, 1_000_000, true);
        let gain = few.gain(&seen, 1e9);
        assert!(gain.low == 0.0 && (gain.mid - 4.0).abs() < 1e-9 && gain.high >= 8.0, "{gain:?}");
        assert!(unsure(&[few, few]) < 0.05 && unsure(&[Window::default()]) >= 2.0);
        assert_eq!((Window::default().miss_share(), Window::default().gets()), (0.0, 0.0));
    }
}
