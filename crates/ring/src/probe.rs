//! How far apart two cores are: one cache line, thrown back and forth.
//!
//! Why: a virtual machine's cores move between the host's every tenth of a second, so a figure for two threads means nothing
//! without a probe before and after, a few milliseconds each; samples are kept when both agree.
//!
//! Cost: two pinned threads for the time asked.

use base::{Clock, Nanos, cpu};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What two cores share, by what a round trip of a line costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Two threads of one core: the line stays in its first-level cache.
    SmtSiblings,
    /// Two cores below one last-level cache.
    SameL3,
    /// Across last-level caches: another complex or socket.
    AcrossL3,
}

impl Distance {
    /// The class of a round-trip time.
    ///
    /// The thresholds lie in the gaps between the values that were seen, none of which is near one: 51 / 125 / 450-550 ns on a
    /// Zen 3 server, 72-115 / 393-450 ns on a Zen 5 one (siblings were not seen there). Look at the raw value too.
    pub fn of(round_trip: Nanos) -> Distance {
        match round_trip.0 {
            0..SAME_L3_FROM => Distance::SmtSiblings,
            SAME_L3_FROM..ACROSS_L3_FROM => Distance::SameL3,
            _ => Distance::AcrossL3,
        }
    }
}

const SAME_L3_FROM: u64 = 58;
const ACROSS_L3_FROM: u64 = 260;

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Distance::SmtSiblings => "SMT siblings",
            Distance::SameL3 => "same L3",
            Distance::AcrossL3 => "across L3",
        })
    }
}

/// What a probe saw.
#[derive(Clone, Copy, Debug)]
pub struct PingPong {
    /// The median round trip.
    pub round_trip: Nanos,
    /// Round trips timed.
    pub rounds: u32,
}

impl PingPong {
    /// What the two cores share.
    pub fn distance(self) -> Distance {
        Distance::of(self.round_trip)
    }
}

/// The line that is thrown, and the word that ends the game. The word has a line of its own: a player who throws back
/// late must not be able to undo the end.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Ball {
    line: Line,
    over: Line,
}

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line(AtomicU32);

impl Ball {
    /// A ball for a new game.
    pub const fn new() -> Ball {
        Ball { line: Line(AtomicU32::new(0)), over: Line(AtomicU32::new(0)) }
    }

    /// Throws for `time` and takes the median of batches of 64 rounds, then ends the game. `None` when nobody answered in time.
    pub fn serve(&self, time: Nanos) -> Option<PingPong> {
        const BATCH: u32 = 64;
        let clock = Clock::shared();
        let until = clock.now().plus(time);
        let mut batches = Vec::with_capacity(1024);
        loop {
            let start = clock.now();
            if !(0..BATCH).all(|_| self.throw(clock, until)) {
                break;
            }
            let end = clock.now();
            batches.push(end.since(start).0);
            if end > until {
                break;
            }
        }
        self.over.0.store(1, Ordering::Release);
        batches.sort_unstable();
        let median = *batches.get(batches.len() / 2)?;
        let rounds = u32::try_from(batches.len()).unwrap_or(u32::MAX).saturating_mul(BATCH);
        Some(PingPong { round_trip: Nanos(median / u64::from(BATCH)), rounds })
    }

    /// One round; false when it took until after `until`.
    #[inline(always)]
    fn throw(&self, clock: Clock, until: Nanos) -> bool {
        self.line.0.store(1, Ordering::Release);
        let mut looks = 0u32;
        // No pause: it would add to what is measured.
        while self.line.0.load(Ordering::Acquire) != 0 {
            looks += 1;
            if looks.is_multiple_of(256) && clock.now() > until {
                return false;
            }
        }
        true
    }

    /// Throws back until the game is over.
    pub fn answer(&self) {
        loop {
            if self.line.0.load(Ordering::Acquire) == 1 {
                self.line.0.store(0, Ordering::Release);
            } else if self.over.0.load(Ordering::Relaxed) == 1 {
                return;
            }
        }
    }

    /// Ready for another game, when both players have left the last.
    pub fn reset(&self) {
        self.line.0.store(0, Ordering::Release);
        self.over.0.store(0, Ordering::Release);
    }
}

/// Probes two cores for `time` (2-5 ms is enough). `None` when they are one core, when a thread cannot be pinned, or when the
/// other did not run in that time.
pub fn ping_pong(cores: [usize; 2], time: Duration) -> Option<PingPong> {
    if cores[0] == cores[1] {
        return None;
    }
    let ball = Ball::new();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = cpu::pin_to(cores[1]).is_ok();
            ball.answer();
            pinned
        });
        let server = scope.spawn(|| {
            let pinned = cpu::pin_to(cores[0]).is_ok();
            (ball.serve(time.into()), pinned)
        });
        let (seen, pinned) = server.join().ok()?;
        (other.join().ok()? && pinned).then_some(seen)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_have_no_gaps() {
        for (ns, class) in [
            (0, Distance::SmtSiblings),
            (51, Distance::SmtSiblings),
            (80, Distance::SameL3),
            (125, Distance::SameL3),
            (450, Distance::AcrossL3),
            (u64::MAX, Distance::AcrossL3),
        ] {
            assert_eq!(Distance::of(Nanos(ns)), class, "{ns}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "pins threads")]
    fn a_game_ends_and_counts_its_rounds() {
        let cores = cpu::allowed_cores();
        if let [a, b, ..] = cores[..] {
            // On a busy machine the other player may not get to run at all; then there is no answer, not a wrong one.
            if let Some(seen) = ping_pong([a, b], Duration::from_millis(2)) {
                assert!(seen.rounds >= 64 && seen.round_trip > Nanos::ZERO);
            }
        }
        assert!(ping_pong([0, 0], Duration::from_millis(1)).is_none());
        assert!(ping_pong([0, usize::MAX], Duration::from_millis(1)).is_none());
    }
}
