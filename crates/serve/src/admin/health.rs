//! Whether a server's loops turn, and whether it serves: `/healthz` and `/readyz`.
//!
//! A loop counts its turns ([`Beat`]: a load and a store that nobody else writes). Whoever asks wakes the loops that sleep and looks whether all
//! counts move ([`Pulse`]), so nothing is done while nobody asks, and a clock is read by no loop for it.

use super::collector::Collector;
use super::shown::Owner;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A loop that has not turned for so long, though it was woken, stalls. A prober's own timeout should be longer.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause between two looks.
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(20);

/// A loop's end of its pulse.
#[derive(Clone, Debug, Default)]
pub struct Beat(Arc<AtomicU64>);

impl Beat {
    /// The loop turns.
    #[inline]
    pub fn turn(&self) {
        // One writer.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The other end, of a loop of this name that turns by itself at least every [`STALL_TIMEOUT`].
    pub fn pulse(&self, name: impl Into<String>) -> Pulse {
        Pulse { name: name.into(), turns: Arc::clone(&self.0), wake: Arc::new(|| {}) }
    }
}

/// Whoever wants to know whether a loop turns.
#[derive(Clone)]
pub struct Pulse {
    name: String,
    turns: Arc<AtomicU64>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Pulse {
    /// Of a loop that sleeps until it is woken so.
    #[must_use]
    pub fn woken_by(self, wake: impl Fn() + Send + Sync + 'static) -> Pulse {
        Pulse { wake: Arc::new(wake), ..self }
    }

    /// The loop's name.
    #[cfg(test)]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Under another name.
    pub(super) fn renamed(self, name: impl FnOnce(String) -> String) -> Pulse {
        Pulse { name: name(self.name), ..self }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Names of the loops that stall.
pub(crate) async fn stalled(pulses: &[Pulse], within: Duration) -> Vec<&str> {
    let mut left: Vec<(&Pulse, u64)> = pulses.iter().map(|pulse| (pulse, pulse.turns())).collect();
    left.iter().for_each(|(pulse, _)| (pulse.wake)());
    let (end, mut pause) = (Instant::now() + within, Duration::from_millis(1));
    loop {
        left.retain(|(pulse, before)| pulse.turns() == *before);
        if left.is_empty() || Instant::now() >= end {
            return left.iter().map(|(pulse, _)| pulse.name.as_str()).collect();
        }
        sleep(pause).await;
        pause = (2 * pause).min(LOOK_INTERVAL_MAX);
    }
}

/// What is asked for a verdict; no, and why.
pub(super) type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// All that `/healthz` and `/readyz` go by, each with the service that it is of, if it is one's of several.
#[derive(Clone, Default)]
pub(super) struct Checks {
    pub(super) ready: Vec<(Owner, Check)>,
    pub(super) alive: Vec<(Owner, Check)>,
    pub(super) pulses: Vec<Pulse>,
}

impl Checks {
    /// Whether clients are served, else why not. It may wait.
    pub(super) fn ready(&self) -> Result<(), String> {
        self.ready.iter().try_for_each(|(_, check)| check())
    }

    /// Whether it may serve again, if it does not now, else why not. It does not wait.
    pub(super) fn alive(&self) -> Result<(), String> {
        self.alive.iter().try_for_each(|(_, check)| check())
    }
}

/// The same health for protocols that say it in their own words, asked from a thread that may not wait.
pub struct Readiness {
    checks: Arc<Checks>,
    /// The service that asks, where the process has several.
    owner: Owner,
    collector: Collector,
}

impl Readiness {
    pub(super) fn of(checks: Checks, owner: Option<&str>) -> io::Result<Readiness> {
        Ok(Readiness {
            checks: Arc::new(checks),
            owner: owner.map(Arc::from),
            collector: Collector::start(None)?,
        })
    }

    /// Of who has nothing that could fail: for tests.
    ///
    /// # Errors
    /// The system gives no thread.
    #[cfg(test)]
    pub fn always() -> io::Result<Readiness> {
        Readiness::of(Checks::default(), None)
    }

    /// Whether the whole process serves, and whether the service that asks does: its loops turn, nothing is over, and clients are served. `turns`
    /// is called once while loops are looked at: the loop of whoever asks is one of them.
    pub async fn look(&self, turns: impl FnOnce()) -> (bool, bool) {
        let turned = async {
            tokio::task::yield_now().await;
            turns();
        };
        let (stalled, ()) = tokio::join!(stalled(&self.checks.pulses, STALL_TIMEOUT), turned);
        if !stalled.is_empty() || self.checks.alive().is_err() {
            return (false, false);
        }
        let (checks, owner) = (Arc::clone(&self.checks), self.owner.clone());
        let verdicts = move || {
            let failed = checks.ready.iter().filter(|(_, check)| check().is_err());
            let failed: Vec<&Owner> = failed.map(|(of, _)| of).collect();
            let concerns = |of: &Owner| of.is_none() || *of == owner;
            (failed.is_empty(), !failed.into_iter().any(concerns))
        };
        self.collector.run(verdicts).await.unwrap_or((false, false))
    }
}
