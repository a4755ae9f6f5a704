//! When to look at every entry and when to watch one line: two-level polling as a state machine without a clock.
//!
//! Why: below some rate of arrivals a summary line costs producers little and saves the core a scan of all its rings; above it,
//! touching a common line per arrival costs more than the scan. The rate is the operator's to set (Dagger, section 3.4, has
//! the threshold programmable and says neither its value, nor the estimator, nor whether there is hysteresis).
//!
//! Shape:
//! ```text
//!            rate ≥ threshold
//!   calm ──────────────────────────▶ busy
//!        ◀──────────────────────────
//!          rate ≤ threshold × (1 - hysteresis)
//! ```
//! The rate is a moving average over windows. A window is as long as [`WINDOW_ARRIVALS`] take at the threshold, so it has the same
//! resolution wherever the threshold is.
//!
//! Invariants:
//! 1. At a constant rate the level changes at most once: a window counts at most one arrival more or less than it should, the
//!    average moves by at most that, 1/16 of the threshold, and the band between the two bounds is at least 1/4 of it.
//! 2. After a silence of four windows nothing of the past counts.
//!
//! Cost: an addition and a comparison; a division per window.

use base::Nanos;

/// Arrivals in a window at the threshold.
pub const WINDOW_ARRIVALS: u64 = 16;
/// The narrowest band, in percent of the threshold.
pub const LEAST_HYSTERESIS_PERCENT: u32 = 25;
/// Estimates are in this many parts of an arrival per window.
const PARTS: u64 = 256;
/// A window counts for this part of the average.
const SMOOTHING: u64 = 4;

/// How entries are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One line is watched; producers touch it.
    Calm,
    /// Every ring is looked at; producers touch nothing else.
    Busy,
}

/// What is set by registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Arrivals per second from which on every ring is looked at; 0 for always.
    pub busy_per_sec: u64,
    /// How far below the threshold it turns calm again, in percent of it; between [`LEAST_HYSTERESIS_PERCENT`] and 100.
    pub hysteresis_percent: u32,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { busy_per_sec: 100_000, hysteresis_percent: 50 }
    }
}

/// The rate, and the level that follows from it.
#[derive(Clone, Debug)]
pub struct Polling {
    thresholds: Thresholds,
    window: Nanos,
    opened: Option<Nanos>,
    arrived: u64,
    /// Parts of an arrival per window.
    average: u64,
    level: Level,
    switches: u64,
}

impl Polling {
    /// Nothing known of the rate; so calm, unless always busy.
    pub fn new(thresholds: Thresholds) -> Polling {
        let mut polling = Polling {
            thresholds,
            window: Nanos::ZERO,
            opened: None,
            arrived: 0,
            average: 0,
            level: Level::Calm,
            switches: 0,
        };
        polling.set(thresholds);
        polling
    }

    /// Other thresholds from now on; the rate that was estimated is kept.
    pub fn set(&mut self, thresholds: Thresholds) {
        let window = Nanos((1_000_000_000 * WINDOW_ARRIVALS / thresholds.busy_per_sec.max(1)).max(1));
        if self.window != Nanos::ZERO {
            let scaled = u128::from(self.average) * u128::from(window.0) / u128::from(self.window.0);
            self.average = u64::try_from(scaled).unwrap_or(u64::MAX);
        }
        let hysteresis_percent = thresholds.hysteresis_percent.clamp(LEAST_HYSTERESIS_PERCENT, 100);
        self.thresholds = Thresholds { hysteresis_percent, ..thresholds };
        self.window = window;
        self.decide();
    }

    /// What is set.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// `arrivals` were taken since the last call; the level from now on.
    #[inline]
    pub fn observe(&mut self, now: Nanos, arrivals: usize) -> Level {
        self.arrived = self.arrived.saturating_add(arrivals as u64);
        let opened = *self.opened.get_or_insert(now);
        if now.since(opened) >= self.window {
            self.close_window(now.since(opened));
            self.opened = Some(now);
        }
        self.level
    }

    fn close_window(&mut self, lasted: Nanos) {
        let (lasted, window) = (u128::from(lasted.0), u128::from(self.window.0));
        let rate = u128::from(self.arrived) * u128::from(PARTS) * window / lasted;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX) as i128;
        // A window that lasted n times as long counts n times, up to all.
        let weight = (lasted / window).min(u128::from(SMOOTHING)) as i128;
        let average = i128::from(self.average);
        self.average = (average + (rate - average) * weight / i128::from(SMOOTHING)) as u64;
        self.arrived = 0;
        self.decide();
    }

    fn decide(&mut self) {
        let up = WINDOW_ARRIVALS * PARTS;
        let down = up * u64::from(100 - self.thresholds.hysteresis_percent) / 100;
        let level = match self.level {
            _ if self.thresholds.busy_per_sec == 0 => Level::Busy,
            Level::Calm if self.average >= up => Level::Busy,
            // Not quite zero is where an average that is rounded stays.
            Level::Busy if self.average <= down.max(SMOOTHING) => Level::Calm,
            same => same,
        };
        self.switches += u64::from(level != self.level);
        self.level = level;
    }

    /// The level now.
    #[inline]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Arrivals per second, as estimated.
    pub fn rate_per_sec(&self) -> u64 {
        let rate = u128::from(self.average) * 1_000_000_000 / u128::from(self.window.0 * PARTS);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// How often the level changed.
    pub fn switches(&self) -> u64 {
        self.switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arrivals one by one, `gap` apart, seen by a core that looks every `look`.
    fn run(polling: &mut Polling, from: Nanos, gap: u64, look: u64, for_ns: u64) -> Nanos {
        let (mut now, mut next) = (from.0, from.0 + gap);
        while now < from.0 + for_ns {
            now += look;
            let arrived = if next <= now { (now - next) / gap + 1 } else { 0 };
            next += arrived * gap;
            polling.observe(Nanos(now), arrived as usize);
        }
        Nanos(now)
    }

    #[test]
    fn it_turns_busy_above_the_threshold_and_calm_below_the_band() {
        let mut polling = Polling::new(Thresholds { busy_per_sec: 100_000, hysteresis_percent: 50 });
        assert_eq!(polling.level(), Level::Calm);
        let now = run(&mut polling, Nanos(0), 11_000, 500, 10_000_000); // 91 thousand a second
        assert_eq!((polling.level(), polling.switches()), (Level::Calm, 0));
        let now = run(&mut polling, now, 9_000, 500, 10_000_000); // 111 thousand
        assert_eq!(polling.level(), Level::Busy);
        assert!((100_000..120_000).contains(&polling.rate_per_sec()), "{}", polling.rate_per_sec());
        let now = run(&mut polling, now, 18_000, 500, 10_000_000); // 56 thousand: inside the band
        assert_eq!((polling.level(), polling.switches()), (Level::Busy, 1));
        let now = run(&mut polling, now, 22_000, 500, 10_000_000); // 45 thousand
        assert_eq!((polling.level(), polling.switches()), (Level::Calm, 2));
        // A silence is noticed with the first look after it.
        let now = run(&mut polling, now, 5_000, 500, 10_000_000);
        assert_eq!(polling.level(), Level::Busy);
        assert_eq!(polling.observe(now.plus(Nanos::from_secs(1)), 1), Level::Calm);
    }

    #[test]
    fn zero_is_always_busy_and_thresholds_change_while_it_runs() {
        let mut polling = Polling::new(Thresholds { busy_per_sec: 0, hysteresis_percent: 0 });
        run(&mut polling, Nanos(0), 1 << 40, 1 << 34, 1 << 40);
        assert_eq!(polling.level(), Level::Busy);
        polling.set(Thresholds { busy_per_sec: 1_000_000, hysteresis_percent: 7 });
        assert_eq!(polling.thresholds().hysteresis_percent, LEAST_HYSTERESIS_PERCENT);
        let now = run(&mut polling, Nanos(1 << 41), 2_000, 100, 10_000_000);
        assert_eq!(polling.level(), Level::Calm);
        let before = polling.rate_per_sec();
        polling.set(Thresholds { busy_per_sec: 300_000, hysteresis_percent: 50 });
        assert!(before.abs_diff(polling.rate_per_sec()) <= before / 50, "{before} is kept");
        run(&mut polling, now, 2_000, 100, 1_000_000);
        assert_eq!(polling.level(), Level::Busy);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_constant_rate_switches_at_most_once(
            busy_per_sec in 1_000u64..10_000_000, percent in 10u64..300, hysteresis_percent in 0u32..100,
            look_parts in 1u64..400,
        ) {
            let mut polling = Polling::new(Thresholds { busy_per_sec, hysteresis_percent });
            let gap = (1_000_000_000 * 100 / (busy_per_sec * percent)).max(1);
            // It looks more often than arrivals come, or up to four times in a window.
            let look = (gap * look_parts / 100).max(1);
            run(&mut polling, Nanos(0), gap, look, gap * if cfg!(miri) { 200 } else { 4_000 });
            prop_assert!(polling.switches() <= 1, "{} switches", polling.switches());
            if percent >= 115 {
                prop_assert_eq!(polling.level(), Level::Busy);
            } else if percent <= 85 {
                prop_assert_eq!(polling.level(), Level::Calm);
            }
        }
    }
}
