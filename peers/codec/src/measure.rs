//! Timing a contest: short samples of everyone in turn, many rounds, and ratios within each round.
//!
//! Why so: the host gives this thread more or less of a core from one tenth of a second to the next, and code layout or a
//! neighbour moves absolute times by a tenth. Within a round all contestants meet the same machine, so the ratio of a round is
//! worth more than the ratio of two medians. Each round starts at another contestant.
//!
//! A sample is a whole number of passes over the corpus, calibrated once per contestant to last about [`Plan::sample_ns`], and
//! is timed by the thread's own processor time: what other programs take of the core while they share it is not counted.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

use crate::contest::{CORPUS, Contest, Contestant};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Samples of each kind per contestant.
    pub rounds: usize,
    /// How long a sample should be.
    pub sample_ns: f64,
}

/// A median, and how far the samples lie around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The tenth percentile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// The ninetieth percentile.
    pub p90: f64,
}

impl Spread {
    /// The spread of `samples`, of which there must be one at least.
    pub fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize];
        Spread { p10: at(0.1), p50: at(0.5), p90: at(0.9) }
    }
}

/// One thing a contestant did: its nanoseconds per message, one sample per round.
#[derive(Clone, Debug)]
pub struct Figure(Vec<f64>);

impl Figure {
    /// Nanoseconds per message.
    pub fn ns(&self) -> Spread {
        Spread::of(self.0.clone())
    }

    /// How many times as fast this was as `other`, round by round. Both are of one contest.
    pub fn times(&self, other: &Figure) -> Spread {
        Spread::of(other.0.iter().zip(&self.0).map(|(other, own)| other / own).collect())
    }
}

/// A contestant's row.
pub struct Row {
    /// Decode to usable fields and drop.
    pub decode: Figure,
    /// Decode, read every field once, drop.
    pub read: Figure,
    /// Encode into a reused buffer, where the mode has something of its own to encode.
    pub encode: Option<Figure>,
}

/// What a pass does.
#[derive(Clone, Copy)]
enum Work {
    Decode,
    Read,
    Encode,
}

/// Measures every contestant of `contest`, in the order of its list.
pub fn measure(contest: &mut Contest, plan: Plan) -> Vec<Row> {
    let mut out = Vec::new();
    let decode = figures(contest, plan, Work::Decode, &mut out);
    let read = figures(contest, plan, Work::Read, &mut out);
    let encode = figures(contest, plan, Work::Encode, &mut out);
    let all = decode.into_iter().zip(read).zip(encode);
    all.map(|((decode, read), encode)| Row {
        decode: decode.expect("everyone decodes"),
        read: read.expect("everyone reads"),
        encode,
    })
    .collect()
}

/// One figure per contestant, none for those who do not do this work.
fn figures(contest: &mut Contest, plan: Plan, work: Work, out: &mut Vec<u8>) -> Vec<Option<Figure>> {
    let corpus = contest.corpus;
    let mut pass = |contestant: &mut Contestant| match work {
        Work::Decode => contestant.decoder.decode(corpus),
        Work::Read => drop(black_box(contestant.decoder.read(corpus))),
        Work::Encode => contestant.encoder.iter_mut().for_each(|encoder| encoder.encode(out)),
    };
    let contestants = &mut contest.contestants;
    in_turns(plan, contestants.len(), CORPUS, |who, passes| {
        let takes_part = !matches!(work, Work::Encode) || contestants[who].encoder.is_some();
        takes_part.then(|| time(passes, || pass(&mut contestants[who])))
    })
}

/// Samples of many contestants in turns, one figure for each: `time` lets one of them work so many times, each time on `messages` messages, and
/// says how many nanoseconds that took, or nothing if this one does not do such work.
pub fn in_turns(
    plan: Plan,
    contestants: usize,
    messages: usize,
    mut time: impl FnMut(usize, u32) -> Option<f64>,
) -> Vec<Option<Figure>> {
    let times: Vec<Option<u32>> =
        (0..contestants).map(|who| calibrate(plan.sample_ns, |times| time(who, times))).collect();
    let mut samples = vec![Vec::with_capacity(plan.rounds); contestants];
    for round in 0..plan.rounds {
        for turn in 0..contestants {
            let who = (round + turn) % contestants;
            let Some(times) = times[who] else { continue };
            samples[who].extend(time(who, times).map(|ns| ns / (times as usize * messages) as f64));
        }
    }
    samples.into_iter().map(|own| (!own.is_empty()).then_some(Figure(own))).collect()
}

/// How often to work to last about `sample_ns`; warms the caches on the way.
fn calibrate(sample_ns: f64, mut time: impl FnMut(u32) -> Option<f64>) -> Option<u32> {
    let mut times = 1;
    loop {
        let ns = time(times)?;
        if ns * 4.0 > sample_ns {
            return Some(((times as f64 * sample_ns / ns) as u32).max(1));
        }
        times *= 2;
    }
}

fn time(passes: u32, mut pass: impl FnMut()) -> f64 {
    let start = processor_ns();
    (0..passes).for_each(|_| pass());
    (processor_ns() - start) as f64
}

/// Nanoseconds that this thread has run.
pub fn processor_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_read_off_the_sorted_samples() {
        let spread = Spread::of((0..=10).rev().map(f64::from).collect());
        assert_eq!(spread, Spread { p10: 1.0, p50: 5.0, p90: 9.0 });
        assert_eq!(Spread::of(vec![7.0]), Spread { p10: 7.0, p50: 7.0, p90: 7.0 });
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let (slow, fast) = (Figure(vec![10.0, 100.0, 12.0]), Figure(vec![5.0, 50.0, 4.0]));
        assert_eq!(fast.times(&slow), Spread { p10: 2.0, p50: 2.0, p90: 3.0 });
    }

    #[test]
    fn every_contestant_has_a_row() {
        let mut contest = Contest::of::<crate::families::UniqueId>(1);
        let rows = measure(&mut contest, Plan { rounds: 2, sample_ns: 10_000.0 });
        assert_eq!(rows.len(), contest.contestants.len());
        let itself = rows[0].decode.times(&rows[0].decode);
        assert_eq!(itself, Spread { p10: 1.0, p50: 1.0, p90: 1.0 });
        for (row, contestant) in rows.iter().zip(&contest.contestants) {
            assert_eq!(row.encode.is_some(), contestant.encoder.is_some());
            assert!(row.decode.ns().p50 > 0.0 && row.read.ns().p50 > 0.0);
        }
    }
}
