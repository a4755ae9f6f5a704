//! Where the cores are and how much of them this process has: the ping-pong round trip by placement, and the gaps in
//! which a spinning thread did not run.

use super::lines;
use super::session::{Session, Unit};
use base::spread::quantile;
use base::{Clock, Nanos};

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 3;

/// Round trips within this factor fall into one bin.
const BIN: f64 = 1.15;
/// A bin with less than this share of the samples only bridges two placements: the cores moved during the sample.
const BIN_SHARE: f64 = 0.02;
/// A placement seen in less than this share of the samples is not reported as one.
const CLASS_SHARE: f64 = 0.03;

/// Round trips that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The samples, ascending, in nanoseconds.
    pub sorted: Vec<f64>,
    /// Their part of all samples.
    pub share: f64,
}

/// Splits round trips into placements, nearest first: runs of neighbouring bins that are well filled. No labels are
/// assumed: the machine says how many there are.
pub fn classes(samples: &[f64]) -> Vec<Class> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|&s| s >= 1.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let all = sorted.len() as f64;
    let bin = |rtt: f64| (rtt.ln() / BIN.ln()).floor() as i64;
    let filled = (BIN_SHARE * all).max(2.0);
    let mut runs: Vec<(i64, Vec<f64>)> = Vec::new();
    for own in sorted.chunk_by(|a, b| bin(*a) == bin(*b)).filter(|own| own.len() as f64 >= filled) {
        let at = bin(own[0]);
        match runs.last_mut() {
            Some((last, run)) if *last + 1 == at => {
                run.extend_from_slice(own);
                *last = at;
            }
            _ => runs.push((at, own.to_vec())),
        }
    }
    let classes = runs.into_iter().map(|(_, sorted)| Class { share: sorted.len() as f64 / all, sorted });
    classes.filter(|c| c.share >= CLASS_SHARE).collect()
}

/// Ping-pong and gaps.
pub fn measure(session: &mut Session) {
    session.step("ping-pong between two cores");
    match session.two_cores() {
        Some((a, b)) => ping_pong(session, a, b),
        None => session.skip("ping-pong", "this process may run on one core only"),
    }
    session.step("lines streamed between two cores");
    match session.two_cores() {
        Some(at) => streams(session, at),
        None => session.skip("streamed lines", "this process may run on one core only"),
    }
    session.step("gaps in a spinning thread");
    gaps(session);
}

fn streams(session: &mut Session, at: (usize, usize)) {
    for (batch, key, label, reading) in [
        (1, "line_single", "lines streamed, one by one", "what a message between cores costs at least"),
        (32, "line_batch", "lines streamed, 32 at a time", "the same in bursts"),
    ] {
        let samples = lines::stream(at, batch, session.span(Nanos::from_millis(300)));
        let method = "written by one core, read by the other, in order";
        session.record(key, label, &samples, Unit::Nanos, method, reading);
    }
}

fn ping_pong(session: &mut Session, a: usize, b: usize) {
    let sample = Nanos::from_millis(2);
    let span = session.span(Nanos::from_millis(1_200));
    let (clock, mut trips) = (Clock::shared(), Vec::new());
    let start = clock.now();
    while trips.len() < 300 && clock.now().since(start) < span {
        // On a busy machine a game may find nobody to play with; others do.
        let game = ring::probe::ping_pong([a, b], sample.into());
        trips.extend(game.map(|game| game.round_trip.0 as f64));
    }
    if trips.is_empty() {
        return session.skip("ping-pong", format!("cores {a} and {b} cannot be had together"));
    }
    let method = "one line both ways, 2 ms samples";
    session.record(
        "ping_pong",
        format!("ping-pong, cores {a} and {b}"),
        &trips,
        Unit::Nanos,
        method,
        "round trip of one cache line, all samples",
    );
    let classes = classes(&trips);
    let many = classes.len();
    for (i, class) in classes.into_iter().enumerate() {
        let reading =
            format!("{:.0} % of the samples{}", 100.0 * class.share, placement(quantile(&class.sorted, 0.5)));
        session.record(
            format!("ping_pong_class_{}", i + 1),
            format!("  placement {} of {many}", i + 1),
            &class.sorted,
            Unit::Nanos,
            method,
            reading,
        );
    }
}

/// A guess, worded as one.
fn placement(rtt: f64) -> &'static str {
    match rtt {
        ..80.0 => ": probably two threads of one core",
        80.0..300.0 => ": probably one last-level cache",
        300.0..5_000.0 => ": probably two last-level caches",
        _ => ": not a placement, another program had a core",
    }
}

/// What a spinning thread missed in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Missed {
    above_1us: u64,
    above_100us: u64,
    lost: Nanos,
    longest: Nanos,
}

impl Missed {
    fn note(&mut self, gap: Nanos) {
        if gap > Nanos(1_000) {
            self.above_1us += 1;
            self.above_100us += u64::from(gap > Nanos(100_000));
            self.lost = self.lost.plus(gap);
            self.longest = self.longest.max(gap);
        }
    }
}

fn window(clock: Clock, length: Nanos) -> Missed {
    let mut missed = Missed::default();
    let start = clock.now();
    let mut last = start;
    while last.since(start) < length {
        let now = clock.now();
        missed.note(now.since(last));
        last = now;
    }
    missed
}

fn gaps(session: &mut Session) {
    let clock = Clock::shared();
    let length = Nanos::from_millis(session.either(100, 20));
    let windows: Vec<Missed> = (0..session.either(15, 5)).map(|_| window(clock, length)).collect();
    let secs = length.as_secs_f64();
    let of = |figure: fn(&Missed) -> f64| windows.iter().map(figure).collect::<Vec<f64>>();
    let per_sec = |figure: fn(&Missed) -> f64| of(figure).iter().map(|n| n / secs).collect::<Vec<f64>>();
    let method = "spin on the clock";
    session.record(
        "gaps_1us",
        "gaps above 1 µs",
        &per_sec(|m| m.above_1us as f64),
        Unit::PerSec,
        method,
        "how often a polling core is interrupted",
    );
    session.record(
        "gaps_100us",
        "gaps above 100 µs",
        &per_sec(|m| m.above_100us as f64),
        Unit::PerSec,
        method,
        "how often a request waits for the host: sets p99.9",
    );
    let lost: Vec<f64> = of(|m| m.lost.0 as f64).iter().map(|ns| 100.0 * ns / length.0 as f64).collect();
    session.record(
        "time_lost",
        "time lost in gaps",
        &lost,
        Unit::Percent,
        method,
        "the part of a core that others take",
    );
    session.record(
        "longest_gap",
        "longest gap per window",
        &of(|m| m.longest.0 as f64 / 1e3),
        Unit::Micros,
        method,
        "tail latency below this cannot be promised here",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_found_without_being_named() {
        let mut samples: Vec<f64> = (0..40).map(|i| 120.0 + f64::from(i) / 4.0).collect();
        samples.extend((0..40).map(|i| 450.0 + f64::from(i)));
        samples.extend((0..10).map(|i| 52.0 + f64::from(i) / 10.0));
        samples.extend([200.0, 300.0, 90_000.0]); // Two that moved half-way, one that was interrupted.
        let classes = classes(&samples);
        assert_eq!(classes.iter().map(|c| c.sorted.len()).collect::<Vec<_>>(), [10, 40, 40]);
        assert!((classes[1].share - 40.0 / 93.0).abs() < 1e-12);
        assert!(super::classes(&[]).is_empty());
    }

    #[test]
    fn gaps_are_counted_by_length() {
        let mut missed = Missed::default();
        [500, 1_000, 1_001, 150_000].map(Nanos).into_iter().for_each(|gap| missed.note(gap));
        let want = Missed { above_1us: 2, above_100us: 1, lost: Nanos(151_001), longest: Nanos(150_000) };
        assert_eq!(missed, want);
    }
}
