//! When operations start: as answers come, or at times that do not depend on them.

use base::{Nanos, Prng};
use serde::Serialize;

/// When operations start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Closed loop: as answers come, each place in the pipeline after a pause.
    Closed {
        /// The pause, in nanoseconds.
        think_ns: u64,
    },
    /// Open loop: at times that do not depend on the answers. Latency counts from the intended time.
    Open {
        /// Operations per second, over all connections.
        rate: f64,
        /// Exponential gaps instead of equal ones.
        poisson: bool,
    },
}

impl Pace {
    /// As fast as answers come.
    pub const FULL: Pace = Pace::Closed { think_ns: 0 };
}

/// The times at which an open loop starts operations.
#[derive(Clone, Debug)]
pub struct Schedule {
    due: f64,
    gap_ns: f64,
    poisson: bool,
    prng: Prng,
}

impl Schedule {
    /// Operations from `start` on, `rate` per second (above 0); `share` of `shares` schedules that add up to one rate,
    /// whose equal gaps interleave.
    pub fn new(start: Nanos, rate: f64, poisson: bool, share: u64, shares: u64, prng: Prng) -> Schedule {
        let gap_ns = 1e9 * shares as f64 / rate;
        let mut schedule = Schedule { due: start.0 as f64, gap_ns, poisson, prng };
        if poisson {
            schedule.advance();
        } else {
            schedule.due += gap_ns * share as f64 / shares as f64;
        }
        schedule
    }

    /// When the next operation is intended to start.
    pub fn due(&self) -> Nanos {
        Nanos(self.due as u64)
    }

    /// The next operation was started: on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        let gaps = if self.poisson { -(1.0 - self.prng.unit_f64()).ln() } else { 1.0 };
        self.due += self.gap_ns * gaps;
    }

    /// How many operations were due by `now` but not started.
    pub fn behind(mut self, now: Nanos) -> u64 {
        let mut count = 0;
        while self.due() <= now {
            self.advance();
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_schedule_keeps_its_rate(rate in 10.0f64..1e7, poisson: bool, shares in 1u64..5, seed: u64) {
            let span = Nanos((1e9 * 20_000.0 / rate) as u64);
            let started: u64 = (0..shares)
                .map(|s| {
                    let prng = Prng::for_entity(seed, s, 0);
                    Schedule::new(Nanos(77), rate, poisson, s, shares, prng).behind(span.plus(Nanos(77)))
                })
                .sum();
            // 20000 expected; six standard deviations of a Poisson count are 850.
            let slack = if poisson { 850 } else { 10 };
            prop_assert!(started.abs_diff(20_000) <= slack, "{started}");
        }
    }
}
