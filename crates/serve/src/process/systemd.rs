//! What a service manager is told that speaks systemd's protocol (`sd_notify`, $NOTIFY_SOCKET): that the process serves, drains, and whether its loops turn
//! (`WatchdogSec=`, $WATCHDOG_USEC). Where there is none, nothing.

use crate::admin::health::{Pulse, STALL_TIMEOUT, stalled};
use sd_notify::NotifyState;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Tells it. Whoever does not listen does not stop a server.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!("the service manager at $NOTIFY_SOCKET cannot be told {states:?}: {error}");
    }
}

/// It serves, under these addresses.
pub fn ready(addresses: &[String]) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("serves {}", addresses.join(", ")))]);
}

/// It answers what has come, and ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Whether loops are to be watched.
pub fn has_watchdog() -> bool {
    sd_notify::watchdog_enabled().is_some()
}

/// Tells the manager that all loops turn, as often as it wants to hear it. It is not told while one stalls, and starts the process anew.
pub struct Watchdog {
    pulses: Vec<Pulse>,
    runtime: Runtime,
    interval: Duration,
    next: Instant,
}

impl Watchdog {
    /// One for these loops, where the manager wants to hear of them.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn of(pulses: Vec<Pulse>) -> io::Result<Option<Watchdog>> {
        let Some(limit) = sd_notify::watchdog_enabled() else { return Ok(None) };
        let runtime = Builder::new_current_thread().enable_time().build()?;
        // systemd's advice is half of the limit; a look takes time, too.
        Ok(Some(Watchdog { pulses, runtime, interval: limit / 3, next: Instant::now() }))
    }

    /// How long until the next look.
    pub fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks, if it is time, and tells.
    pub fn turn(&mut self) {
        if !self.patience().is_zero() {
            return;
        }
        self.next = Instant::now() + self.interval;
        let stalled = self.runtime.block_on(stalled(&self.pulses, self.interval.min(STALL_TIMEOUT)));
        match stalled.is_empty() {
            true => tell(&[NotifyState::Watchdog]),
            false => {
                log::error!("the watchdog is not told that all is well: {} does not turn", stalled.join(", "))
            }
        }
    }
}
