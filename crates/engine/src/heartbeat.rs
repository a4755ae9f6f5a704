//! Whether an engine lives, for whoever asks from another thread.
//!
//! Cost: two stores per pass.

use base::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// When the engine's last pass began and whether it is over. Written by the engine alone.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// When the last pass began, by the engine's core.
    began: AtomicU64,
    /// Passes begun and ended: odd while one runs.
    edges: AtomicU64,
}

/// What a [`Heartbeat`] says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Passes that are over.
    pub passes: u64,
    /// Since the beginning of the last pass.
    pub since_pass: Nanos,
    /// How long the pass that runs now has been running; `None` between passes.
    pub running_for: Option<Nanos>,
}

impl Heartbeat {
    pub(crate) fn begin(&self, now: Nanos) {
        // A pass that a panic cut short has not ended: the next one begins where it did.
        let edges = self.edges.load(Ordering::Relaxed) | 1;
        self.began.store(now.0, Ordering::Relaxed);
        self.edges.store(edges, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        let edges = self.edges.load(Ordering::Relaxed);
        self.edges.store(edges + 1, Ordering::Release);
    }

    /// What it says at `now`, by the clock of the engine's core.
    pub fn read(&self, now: Nanos) -> Beat {
        let edges = self.edges.load(Ordering::Acquire);
        let since_pass = now.since(Nanos(self.began.load(Ordering::Relaxed)));
        Beat { passes: edges / 2, since_pass, running_for: (edges % 2 == 1).then_some(since_pass) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_runs_too_long_is_seen() {
        let heart = Heartbeat::default();
        heart.begin(Nanos(100));
        let beat = heart.read(Nanos(900));
        assert_eq!(beat, Beat { passes: 0, since_pass: Nanos(800), running_for: Some(Nanos(800)) });
        heart.end();
        assert_eq!(heart.read(Nanos(901)).running_for, None);
        heart.begin(Nanos(1000));
        heart.begin(Nanos(1100)); // the one before it panicked
        assert_eq!(heart.read(Nanos(1100)).passes, 1);
        heart.end();
        assert_eq!(heart.read(Nanos(2100)), Beat { passes: 2, since_pass: Nanos(1000), running_for: None });
    }
}
