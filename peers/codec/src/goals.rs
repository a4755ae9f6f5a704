//! The codec's three goals, each met or missed, in words with figures.
//!
//! 1. Decoding is at least twice as fast as prost's owned decoding, in whichever complete mode of ours is faster.
//! 2. Each mode of ours is not slower than the fastest peer that makes the same promise (`Mode::compares_with`).
//! 3. Encoding is at least 1.3 times as fast as prost's.
//!
//! Ratios are those of the rounds, and the median decides; the spread is printed beside it.

use crate::contest::Mode;
use crate::measure::Spread;
use crate::report::{Outcome, ratio};

/// The library whose goals these are.
pub const OURS: &str = "millrace";

/// What decoding should reach.
pub const DECODE_TIMES_PROST: f64 = 2.0;
/// What encoding should reach.
pub const ENCODE_TIMES_PROST: f64 = 1.3;

/// One goal on one family.
pub struct Verdict {
    /// What was asked, and of whom.
    pub asked: String,
    /// How many times as fast as asked about.
    pub times: Spread,
    /// How many times as fast it should be.
    pub goal: f64,
}

impl Verdict {
    /// True if the median reaches the goal.
    pub fn is_met(&self) -> bool {
        self.times.p50 >= self.goal
    }

    /// A line of the list.
    pub fn line(&self, name: &str) -> String {
        let word = if self.is_met() { "met" } else { "missed" };
        let (asked, times, goal) = (&self.asked, ratio(self.times), self.goal);
        format!("{name:<16} {word:<7} {times:>21} of {goal:.1}  {asked}\n")
    }
}

/// All verdicts on one family; none if ours did not take part.
pub fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    let prost = &outcome.rows[0];
    let all: Vec<_> = outcome.contest.contestants.iter().zip(&outcome.rows).collect();
    let own = || all.iter().filter(|(contestant, _)| contestant.library == OURS);
    let peers = || all.iter().filter(|(contestant, _)| contestant.library != OURS);
    let mut verdicts = Vec::new();

    let complete = own().filter(|(contestant, _)| contestant.mode != Mode::Lazy);
    let against = complete.map(|(contestant, row)| (contestant, row.decode.times(&prost.decode)));
    if let Some((contestant, times)) = against.max_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50)) {
        let asked = format!("decode ({}) against prost owned", contestant.mode.name());
        verdicts.push(Verdict { asked, times, goal: DECODE_TIMES_PROST });
    }
    for (contestant, row) in own() {
        let alike = peers().filter(|(peer, _)| peer.mode.compares_with(contestant.mode));
        let against = alike.map(|(peer, theirs)| (peer, row.decode.times(&theirs.decode)));
        if let Some((peer, times)) = against.min_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50)) {
            verdicts.push(Verdict {
                asked: format!(
                    "decode ({}) against the fastest alike, {}",
                    contestant.mode.name(),
                    peer.name()
                ),
                times,
                goal: 1.0,
            });
        }
    }
    let encoders = own().filter_map(|(contestant, row)| {
        Some((contestant, row.encode.as_ref()?.times(prost.encode.as_ref()?)))
    });
    if let Some((contestant, times)) = encoders.max_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50)) {
        let asked = format!("encode ({}) against prost", contestant.mode.name());
        verdicts.push(Verdict { asked, times, goal: ENCODE_TIMES_PROST });
    }
    verdicts
}

/// The verdicts on all families as text.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        for verdict in verdicts(outcome) {
            out.push_str(&verdict.line(outcome.contest.name));
        }
    }
    if out.is_empty() { out } else { format!("\ngoals, times as fast:\n{out}") }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;
    use crate::contest::{Contest, Contestant};
    use crate::families::Follow;
    use crate::measure::{Plan, measure};
    use crate::peers::{prost, quick};

    #[test]
    fn ours_is_held_against_prost_and_against_those_who_promise_the_same() {
        let mut contest = Contest::of::<Follow>(1);
        contest.contestants.retain(|contestant| contestant.library != OURS);
        let encoder = Box::new(prost::Encode::<Follow>::new(contest.corpus));
        let view = quick::Borrowed::<Follow>(PhantomData);
        contest.contestants.push(Contestant::new(OURS, Mode::View, view, Some(encoder)));
        let rows = measure(&mut contest, Plan { rounds: 1, sample_ns: 1e4 });
        let verdicts = verdicts(&Outcome { contest, rows });
        let asked: Vec<&str> = verdicts.iter().map(|verdict| verdict.asked.as_str()).collect();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[0], "decode (view) against prost owned");
        assert!(asked[1].starts_with("decode (view) against the fastest alike, "), "{asked:?}");
        assert!(!asked[1].contains("owned") && !asked[1].contains("lazy"), "{asked:?}");
        assert_eq!(asked[2], "encode (view) against prost");
        assert_eq!(verdicts.iter().map(|verdict| verdict.goal).collect::<Vec<_>>(), [2.0, 1.0, 1.3]);
    }
}
