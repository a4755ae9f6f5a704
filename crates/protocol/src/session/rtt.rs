//! How long a round trip takes, and therefore when an answer is late.
//!
//! Packet numbers are never used twice, so every sample belongs to one sending (Karn's problem does not arise).
//!
//! Sources: RFC 6298 (the estimate); RFC 9002, 5 and 6.2 (the peer's delay is taken off, probe timeout, time threshold).

use base::units::Nanos;

/// Below this no variance or loss delay is believed: clocks and wake-ups are not finer.
const GRANULARITY: Nanos = Nanos::from_micros(100);

/// The estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) smoothed: Nanos,
    variance: Nanos,
    pub(super) min: Nanos,
    latest: Nanos,
    sampled: bool,
}

impl Rtt {
    pub(super) fn new(initial: Nanos) -> Rtt {
        Rtt {
            smoothed: initial,
            variance: Nanos(initial.0 / 2),
            min: Nanos::MAX,
            latest: initial,
            sampled: false,
        }
    }

    /// A packet was acknowledged `rtt` after it was sent; the peer says that it kept it for `delay`.
    pub(super) fn sample(&mut self, rtt: Nanos, delay: Nanos) {
        self.min = self.min.min(rtt);
        self.latest = rtt;
        if !self.sampled {
            self.sampled = true;
            self.smoothed = rtt;
            self.variance = Nanos(rtt.0 / 2);
            return;
        }
        let adjusted = if rtt >= self.min.plus(delay) { rtt.since(delay) } else { rtt };
        let off = self.smoothed.0.abs_diff(adjusted.0);
        self.variance = Nanos(self.variance.0 - self.variance.0 / 4 + off / 4);
        self.smoothed = Nanos(self.smoothed.0 - self.smoothed.0 / 8 + adjusted.0 / 8);
    }

    /// After so long without any answer one asks again: without backoff.
    pub(super) fn timeout(&self) -> Nanos {
        self.smoothed.plus(Nanos(self.variance.0.saturating_mul(4)).max(GRANULARITY))
    }

    /// A packet so much older than one that was acknowledged is lost.
    pub(super) fn loss_delay(&self) -> Nanos {
        let longest = self.smoothed.max(self.latest);
        Nanos(longest.0.saturating_add(longest.0 / 8)).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_settles_on_a_steady_round_trip() {
        let mut rtt = Rtt::new(Nanos::from_millis(5));
        for _ in 0..100 {
            rtt.sample(Nanos::from_micros(50), Nanos::ZERO);
        }
        assert_eq!(rtt.min, Nanos::from_micros(50));
        assert!(rtt.smoothed.0.abs_diff(50_000) < 1000, "{rtt:?}");
        assert!(rtt.timeout() < Nanos::from_micros(200), "{rtt:?}");
        assert_eq!(rtt.loss_delay(), GRANULARITY);
    }

    #[test]
    fn the_peers_delay_does_not_count() {
        let mut rtt = Rtt::new(Nanos::from_millis(5));
        rtt.sample(Nanos::from_micros(200), Nanos::ZERO);
        for _ in 0..100 {
            rtt.sample(Nanos::from_micros(700), Nanos::from_micros(500));
        }
        assert!(rtt.smoothed.0.abs_diff(200_000) < 2000, "{rtt:?}");
    }
}
