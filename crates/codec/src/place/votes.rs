//! When the target bit of a field follows the program that moves it.
//!
//! The paper turns the bit at every move (RPCAcc III-F: right again "after one incorrect placement") and leaves open what
//! happens when two threads disagree: the bit, and with it the field, would go back and forth with every message. Here a
//! move is an *objection* to where a message's field was put, and the bit turns when objections are
//! 1. as many as the field's threshold, which begins at one, and
//! 2. more than three quarters of the messages of the class since the first of them.
//!
//! Each turn doubles the threshold, up to 64; each `64 × threshold` messages without any objection halve it. So a change of the
//! program's mind is followed at once, a program of two minds is followed rarely and then not at all, and one that is
//! stable again is followed at once again. Counted in messages, never in time: the same messages give the same placement.
//!
//! Bounds: a field that is fought over turns at most six times before its threshold is 64; it does
//! not turn at all while objections are three quarters or less: a field that half of the messages want elsewhere stays.

/// The most objections that a turn ever needs.
const MOST: u32 = 64;

/// Objections to where one field is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Votes {
    /// Objections since the last turn, and the class's message count before the first of them.
    objections: u32,
    since: u64,
    /// Objections needed.
    threshold: u32,
    /// Message count at the last objection.
    quiet: u64,
}

impl Default for Votes {
    fn default() -> Votes {
        Votes { objections: 0, since: 0, threshold: 1, quiet: 0 }
    }
}

impl Votes {
    /// An objection when `messages` of the class have been decoded, the objecting one included: true if the bit turns.
    pub fn object(&mut self, messages: u64) -> bool {
        self.calm(messages);
        if self.objections == 0 {
            self.since = messages.saturating_sub(1);
        }
        self.objections += 1;
        if u64::from(self.objections) * 4 <= (messages - self.since) * 3 {
            // Too few object: they are outvoted, and counting begins anew with the next one.
            self.objections = 0;
            return false;
        }
        if self.objections < self.threshold {
            return false;
        }
        *self = Votes {
            objections: 0,
            since: messages,
            threshold: (self.threshold * 2).min(MOST),
            quiet: messages,
        };
        true
    }

    /// A time without objections makes the next turn easier.
    fn calm(&mut self, messages: u64) {
        let mut quiet = messages.saturating_sub(self.quiet);
        while self.threshold > 1 && quiet >= 64 * u64::from(self.threshold) {
            quiet -= 64 * u64::from(self.threshold);
            self.threshold /= 2;
        }
        self.quiet = messages;
    }

    /// Objections that the next turn needs.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn a_change_of_mind_is_followed_at_once_and_again_after_a_quiet_time() {
        let mut votes = Votes::default();
        assert!(votes.object(4), "the first wrong placement turns the bit");
        assert!(!votes.object(5), "turning back needs two");
        assert!(votes.object(6));
        assert_eq!(votes.threshold(), 4);
        assert!(votes.object(6 + 64 * (4 + 2)), "after a quiet time one is enough again");
    }

    /// Every message objects to where the one before wanted the field.
    fn turns(messages: u64, mut objects: impl FnMut(u64, bool) -> bool) -> Vec<u64> {
        let (mut votes, mut acc, mut turns) = (Votes::default(), false, Vec::new());
        for message in 1..=messages {
            if objects(message, acc) && votes.object(message) {
                acc = !acc;
                turns.push(message);
            }
        }
        turns
    }

    #[test]
    fn two_threads_that_alternate_do_not_thrash() {
        // Even messages want the accelerator, odd ones the host.
        let turns = turns(100_000, |message, acc| (message % 2 == 0) != acc);
        assert!(turns.len() <= 3, "turned at {turns:?}");
    }

    #[test]
    fn two_threads_in_random_order_do_not_thrash() {
        let mut prng = Prng::new(7);
        let turns = turns(100_000, |_, acc| prng.chance(0.5) != acc);
        assert!(turns.len() <= 8, "turned {} times", turns.len());
    }

    #[test]
    fn a_rare_exception_never_turns_the_bit_for_long() {
        let turns = turns(10_000, |message, acc| (message % 50 == 0) != acc);
        // An exception turns the bit, the messages after it turn it back, and exceptions are outvoted from then on.
        assert!(turns.len() <= 4, "turned {} times", turns.len());
        assert!(turns.len() % 2 == 0, "it ends where most want it");
    }

    #[test]
    fn without_hysteresis_it_would_thrash() {
        let mut acc = false;
        let mut turned = 0;
        for message in 1..=1000 {
            let wants = message % 2 == 0;
            turned += u32::from(wants != acc);
            acc = wants;
        }
        assert!(turned > 990, "the published rule turns {turned} times in 1000 messages");
    }
}
