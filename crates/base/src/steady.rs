//! Holds the [`Clock`] against the system's, for whoever has or gives leases.
//!
//! Why: the cycle counter stands still while a machine is suspended, and may be another one after a move to other hardware; it was calibrated in the
//! first milliseconds of the process. A lease that is measured with it may then last longer than whoever gave it thinks. `CLOCK_BOOTTIME` counts on.
//!
//! What a jump means for a lease is not known here: whoever sees one stops, as if it had crashed, which every protocol with leases survives.
//!
//! Bounds: what is seen is more than `TOLERANCE` and a hundredth of the time since the last comparison that counted; those are `SPAN` apart. Between
//! two looks a jump is not seen, so look before each use. Cost: three readings of clocks, some 60 ns.

use crate::{Clock, Nanos};
use std::fmt;

/// A difference that is the reading's own.
const TOLERANCE: Nanos = Nanos::from_millis(10);
/// How far apart the comparisons are that others are measured from.
const SPAN: Nanos = Nanos::from_secs(10);

/// The two clocks at one moment: ours before and after the system's.
#[derive(Clone, Copy, Debug)]
struct Reading {
    before: Nanos,
    system: Nanos,
    after: Nanos,
}

/// The comparison.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    clock: Clock,
    last: Reading,
}

/// The clocks went apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// What passed by the cycle counter.
    pub ours: Nanos,
    /// What passed by the system's clock.
    pub system: Nanos,
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this machine's clock jumped: {} passed by its cycle counter and {} by the system's clock (was it suspended or moved?); leases cannot be \
             trusted, start this process again",
            self.ours, self.system
        )
    }
}

impl std::error::Error for Jump {}

impl Steady {
    /// Compares from now on.
    pub fn new(clock: Clock) -> Steady {
        Steady { clock, last: read(&clock) }
    }

    /// Compares the clocks.
    ///
    /// # Errors
    /// They went apart since the last look.
    #[inline]
    pub fn check(&mut self) -> Result<(), Jump> {
        self.compare(read(&self.clock))
    }

    fn compare(&mut self, now: Reading) -> Result<(), Jump> {
        // What passed at least and at most: a thread may lose its core between two readings.
        let least = now.before.since(self.last.after);
        let most = now.after.since(self.last.before);
        let system = now.system.since(self.last.system);
        let slack = |span: Nanos| span.plus(Nanos(span.0 / 100)).plus(TOLERANCE);
        if system > slack(most) || least > slack(system) {
            let ours = if system > most { most } else { least };
            return Err(Jump { ours, system });
        }
        // One that was interrupted says little, and is no beginning.
        if system >= SPAN && now.after.since(now.before) < TOLERANCE {
            self.last = now;
        }
        Ok(())
    }
}

fn read(clock: &Clock) -> Reading {
    let before = clock.now();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let system = Nanos::from_secs(time.tv_sec as u64).plus(Nanos(time.tv_nsec as u64));
    Reading { before, system, after: clock.now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ours_ms: u64, system_ms: u64) -> Reading {
        let ours = Nanos::from_millis(ours_ms);
        Reading { before: ours, system: Nanos::from_millis(system_ms), after: ours }
    }

    fn from(last: Reading) -> Steady {
        Steady { clock: Clock::shared(), last }
    }

    #[test]
    fn clocks_that_go_together_are_steady() {
        let mut steady = from(at(0, 500));
        for second in 1..1000 {
            // Ours is slow by a thousandth: that adds up to nothing.
            assert_eq!(steady.compare(at(second * 999, 500 + second * 1000)), Ok(()));
        }
        assert_eq!(Steady::new(Clock::shared()).check(), Ok(()));
    }

    #[test]
    fn a_suspended_machine_and_a_counter_that_leaps_are_seen_at_the_next_look() {
        let mut steady = from(at(0, 0));
        assert_eq!(steady.compare(at(5000, 5000)), Ok(()));
        let ms = Nanos::from_millis;
        assert_eq!(steady.compare(at(5001, 5101)), Err(Jump { ours: ms(5001), system: ms(5101) }));
        assert_eq!(steady.compare(at(5101, 5001)), Err(Jump { ours: ms(5101), system: ms(5001) }));
        // A counter with another rate, after the next beginning.
        let mut steady = from(at(0, 0));
        assert_eq!(steady.compare(at(10_000, 10_000)), Ok(()));
        assert_eq!(steady.compare(at(10_500, 10_510)), Ok(()));
        assert!(steady.compare(at(11_000, 12_000)).is_err());
        let text = Jump { ours: ms(10), system: Nanos::from_secs(3) }.to_string();
        assert!(text.contains("suspended"), "{text}");
    }

    #[test]
    fn a_thread_that_lost_its_core_is_no_jump() {
        let mut steady = from(at(0, 0));
        let ms = Nanos::from_millis;
        assert_eq!(steady.compare(Reading { before: ms(100), system: ms(100), after: ms(900) }), Ok(()));
        assert_eq!(steady.compare(Reading { before: ms(1000), system: ms(1700), after: ms(1700) }), Ok(()));
        let late = Reading { before: ms(11_000), system: ms(11_500), after: ms(11_500) };
        assert_eq!(steady.compare(late), Ok(()));
        assert_eq!(steady.last.system, Nanos::ZERO);
    }
}
