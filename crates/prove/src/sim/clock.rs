//! The clock of a node: begins anywhere and runs a little fast or slow, within what the leases allow for.
//!
//! Real time is that of the event queue, in picoseconds; clocks show nanoseconds.
//!
//! Invariant: `read` never goes back, and `when(t)` is the first moment at which `read` shows `t` or more.

use base::{Nanos, Picos, Prng};

/// Clocks run at most so many millionths fast or slow: two that differ most differ by just less than
/// one part in [`DRIFT`](protocol::coherence::lease::DRIFT).
const MOST_PPM: u64 = 5_000;
/// No run is longer; what is due later is never due. Products of times and rates stay below 2⁶⁴.
const LONGEST: Nanos = Nanos::from_secs(15);

const MILLION: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// How a node's clock runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: u64,
    /// Nanoseconds that it counts in a millisecond.
    rate: u64,
}

impl Clock {
    /// One in two clocks is as wrong as it may be.
    pub fn draw(random: &mut Prng) -> Clock {
        let offset = random.below(Nanos::from_secs(1000).0);
        let rate = match random.below(4) {
            0 => MILLION - MOST_PPM,
            1 => MILLION + MOST_PPM,
            _ => MILLION - MOST_PPM + random.below(2 * MOST_PPM + 1),
        };
        Clock { offset, rate }
    }

    /// One that runs the same, and shows a whole second at that moment.
    pub fn with_second_at(self, moment: Picos) -> Clock {
        let passed = moment.0 * self.rate / (1_000 * MILLION);
        Clock { offset: (self.offset + passed).next_multiple_of(SECOND) + SECOND - passed, ..self }
    }

    /// What it shows at `now`.
    pub fn read(&self, now: Picos) -> Nanos {
        Nanos(self.offset + now.0 * self.rate / (1_000 * MILLION))
    }

    /// When it will show `moment`. None where that is after every run.
    pub fn when(&self, moment: Nanos) -> Option<Picos> {
        let since = moment.since(Nanos(self.offset));
        (since < LONGEST).then(|| self.real(since))
    }

    /// How long, really, a span takes that it measures.
    pub fn real(&self, span: Nanos) -> Picos {
        assert!(span < LONGEST, "no span of a run is {span}");
        Picos((span.0 * 1_000 * MILLION).div_ceil(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::coherence::lease::DRIFT;

    #[test]
    fn the_worst_two_are_within_the_promise() {
        let ratio = (MILLION + MOST_PPM) as f64 / (MILLION - MOST_PPM) as f64;
        assert!(ratio < DRIFT as f64 / (DRIFT - 1) as f64, "{ratio}");
    }

    proptest! {
        #[test]
        fn when_is_the_first_moment(seed: u64, now in 0u64..10_000_000_000_000) {
            let clock = Clock::draw(&mut Prng::new(seed));
            let shown = clock.read(Picos(now));
            let when = clock.when(shown).expect("in a run");
            prop_assert!(when.0 <= now && clock.read(when) >= shown);
            prop_assert!(when.0 == 0 || clock.read(Picos(when.0 - 1)) < shown);
            prop_assert_eq!(clock.when(Nanos::MAX), None);
            let second = clock.with_second_at(Picos(now));
            prop_assert_eq!(second.read(Picos(now)).0 % SECOND, 0);
            prop_assert!(now < 1_000_000 || !second.read(Picos(now - 1_000_000)).0.is_multiple_of(SECOND));
        }
    }
}
