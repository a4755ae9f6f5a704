//! What the service of a server reads time from: the clocks of process and machine, or one that is told, as in a simulation.
//!
//! Why not as arguments: a request says no time, and the home wants that of the moment in which it hears a packet, not of the pass before.

use base::{Clock, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 1970 was so many seconds before a clock that is told showed nothing.
const TOLD_SINCE_1970_S: u64 = 1_700_000_000;

/// See the head of the file.
#[derive(Clone, Debug)]
pub enum Clocks {
    /// The process's clock, and the wall clock.
    System(Clock),
    /// Nanoseconds, as [`Clocks::tell`] says; the wall clock runs with them.
    Told(Arc<AtomicU64>),
}

impl Clocks {
    /// Those of process and machine.
    pub fn system() -> Clocks {
        Clocks::System(Clock::shared())
    }

    /// One that is told.
    pub fn told(now: Nanos) -> Clocks {
        Clocks::Told(Arc::new(AtomicU64::new(now.0)))
    }

    /// Tells what time it is.
    ///
    /// # Panics
    /// The system's clocks are told nothing.
    pub fn tell(&self, now: Nanos) {
        let Clocks::Told(time) = self else { panic!("the system's clocks are told nothing") };
        time.store(now.0, Ordering::Relaxed);
    }

    /// Whether they are told, as in a simulation.
    pub fn are_told(&self) -> bool {
        matches!(self, Clocks::Told(_))
    }

    /// Now, by the clock that leases and deadlines are of.
    #[inline]
    pub fn now(&self) -> Nanos {
        match self {
            Clocks::System(clock) => clock.now(),
            Clocks::Told(time) => Nanos(time.load(Ordering::Relaxed)),
        }
    }

    /// The second since 1970 at `now` of one that is told.
    pub fn second(&self, now: Nanos) -> u32 {
        u32::try_from(TOLD_SINCE_1970_S + now.0 / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// Now, by the wall clock.
    pub fn since_1970(&self) -> Duration {
        match self {
            Clocks::System(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Clocks::Told(_) => Duration::from_secs(TOLD_SINCE_1970_S) + Duration::from(self.now()),
        }
    }
}
