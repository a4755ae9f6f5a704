//! When to send something again: after a time that doubles.

use crate::chain::Config;
use base::Nanos;

/// A timer. It begins stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    at: Nanos,
    wait: Nanos,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { at: Nanos::MAX, wait: Nanos::ZERO }
    }
}

impl Backoff {
    /// It runs, from the shortest time on.
    pub(super) fn restart(&mut self, now: Nanos, config: &Config) {
        *self = Backoff { at: now.plus(config.retransmit), wait: config.retransmit };
    }

    /// As [`Backoff::restart`], unless it runs.
    pub(super) fn start(&mut self, now: Nanos, config: &Config) {
        if self.at == Nanos::MAX {
            self.restart(now, config);
        }
    }

    /// It runs no more.
    pub(super) fn stop(&mut self) {
        *self = Backoff::default();
    }

    /// Whether it is time. Then it runs on, for twice as long.
    pub(super) fn is_due(&mut self, now: Nanos, config: &Config) -> bool {
        let is_due = self.at <= now && self.at != Nanos::MAX;
        if is_due {
            self.wait = Nanos(self.wait.0.saturating_mul(2)).min(config.retransmit_max);
            self.at = now.plus(self.wait);
        }
        is_due
    }

    /// When it is time.
    pub(super) fn at(&self) -> Nanos {
        self.at
    }
}
