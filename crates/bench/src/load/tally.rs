//! What one thread measured, and how several become one.
//!
//! Latencies go into HDR histograms of nanoseconds with three significant digits, one per kind of operation and made on
//! first use; a second, coarser one per interval gives the series over time. Recording costs two array increments.
//!
//! Bounds: 262 KiB per kind used, 16 KiB per interval, at most [`Timeline::MOST`] intervals: later ones widen the last.

use super::dialect::Refusal;
use super::ledger::{EXAMPLES, Finding, Wrong};
use super::mix::OpKind;
use base::Nanos;
use hdrhistogram::Histogram;

/// Ways in which an operation failed without a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server does not know the command.
    Unknown,
    /// The server called the request bad.
    Client,
    /// The server failed.
    Server,
    /// The bytes were no answer, or to nothing asked.
    Protocol,
    /// The connection was lost with the operation under way.
    Disconnected,
    /// No answer came in time.
    TimedOut,
}

impl Failure {
    /// All of them, for tables.
    pub const ALL: [Failure; 6] = [
        Failure::Unknown,
        Failure::Client,
        Failure::Server,
        Failure::Protocol,
        Failure::Disconnected,
        Failure::TimedOut,
    ];

    /// A name for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Unknown => "unknown command",
            Failure::Client => "client error",
            Failure::Server => "server error",
            Failure::Protocol => "protocol",
            Failure::Disconnected => "disconnected",
            Failure::TimedOut => "timed out",
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Unknown => Failure::Unknown,
            Refusal::Client => Failure::Client,
            Refusal::Server => Failure::Server,
            Refusal::Unanswered => Failure::TimedOut,
        }
    }
}

/// Longer latencies count as this long.
const LONGEST_NS: u64 = 1_000_000_000_000;

fn fine() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are good")
}

/// Latencies and counts by interval of time.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin: Nanos,
    step: Nanos,
    bins: Vec<Histogram<u32>>,
}

impl Timeline {
    /// The most intervals that are kept.
    pub const MOST: usize = 600;

    /// Intervals of `step` from `origin` on.
    pub fn new(origin: Nanos, step: Nanos) -> Timeline {
        Timeline { origin, step: step.max(Nanos(1)), bins: Vec::new() }
    }

    #[inline]
    fn record(&mut self, now: Nanos, latency_ns: u64) {
        let bin = ((now.since(self.origin).0 / self.step.0) as usize).min(Self::MOST - 1);
        while self.bins.len() <= bin {
            self.bins.push(Histogram::new_with_bounds(128, LONGEST_NS, 2).expect("the bounds are good"));
        }
        self.bins[bin].saturating_record(latency_ns);
    }

    fn merge(&mut self, other: &Timeline) {
        for (bin, theirs) in other.bins.iter().enumerate() {
            match self.bins.get_mut(bin) {
                Some(ours) => ours.add(theirs).expect("same bounds"),
                None => self.bins.push(theirs.clone()),
            }
        }
    }

    /// The intervals' length.
    pub fn step(&self) -> Nanos {
        self.step
    }

    /// The latencies of each interval.
    pub fn bins(&self) -> &[Histogram<u32>] {
        &self.bins
    }
}

/// Everything measured in one phase.
#[derive(Clone, Debug)]
pub struct Tally {
    kinds: [Option<Box<Histogram<u64>>>; OpKind::ALL.len()],
    failures: [u64; Failure::ALL.len()],
    wrongs: [u64; Wrong::ALL.len()],
    /// The first few failures and wrong values in words.
    pub examples: Vec<String>,
    /// Keys asked for and found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Conditional writes whose condition did not hold.
    pub conflicts: u64,
    /// Values held against what may be read, good or bad.
    pub verified: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// CPU time of the threads that drove the load.
    pub client_cpu: Nanos,
    /// From the first operation to the last answer: of the slowest thread.
    pub elapsed: Nanos,
    /// Latencies of the reads that a box answered on the way.
    pub by_box: Option<Box<Histogram<u64>>>,
    /// Requests that were sent again because nothing came.
    pub sent_again: u64,
    /// Open loop: how much later than intended requests were sent.
    pub lag: Option<Box<Histogram<u64>>>,
    /// Open loop: requests whose time had come but that were never sent.
    pub unsent: u64,
    /// By interval.
    pub timeline: Timeline,
    /// Why the phase could not go on.
    pub fatal: Option<String>,
}

impl Tally {
    /// Nothing yet, in a phase that starts at `origin` and is cut into intervals of `step`.
    pub fn new(origin: Nanos, step: Nanos) -> Tally {
        Tally {
            kinds: Default::default(),
            failures: [0; Failure::ALL.len()],
            wrongs: [0; Wrong::ALL.len()],
            examples: Vec::new(),
            hits: 0,
            misses: 0,
            conflicts: 0,
            verified: 0,
            sent: 0,
            received: 0,
            client_cpu: Nanos::ZERO,
            elapsed: Nanos::ZERO,
            by_box: None,
            sent_again: 0,
            lag: None,
            unsent: 0,
            timeline: Timeline::new(origin, step),
            fatal: None,
        }
    }

    /// An operation that began at `start` (was intended then, in an open loop) is done.
    #[inline]
    pub fn record(&mut self, kind: OpKind, start: Nanos, now: Nanos) {
        let ns = now.since(start).0.max(1);
        self.kinds[kind as usize].get_or_insert_with(|| Box::new(fine())).saturating_record(ns);
        self.timeline.record(now, ns);
    }

    /// A read that began at `start` was answered by a box; it is recorded as an operation besides.
    pub fn record_by_box(&mut self, start: Nanos, now: Nanos) {
        self.by_box.get_or_insert_with(|| Box::new(fine())).saturating_record(now.since(start).0.max(1));
    }

    /// A request intended for `due` was sent at `now`.
    pub fn record_lag(&mut self, due: Nanos, now: Nanos) {
        self.lag.get_or_insert_with(|| Box::new(fine())).saturating_record(now.since(due).0.max(1));
    }

    /// Operations failed.
    #[cold]
    pub fn fail(&mut self, failure: Failure, count: u64, why: impl FnOnce() -> String) {
        self.failures[failure as usize] += count;
        self.example(why);
    }

    /// A wrong value was read.
    #[cold]
    pub fn wrong(&mut self, (wrong, text): Finding) {
        self.wrongs[wrong as usize] += 1;
        self.example(|| format!("{}: {text}", wrong.name()));
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }

    /// Adds what another thread, or another slice of the same kind, measured. Times are those of the longer one;
    /// use [`Tally::follow`] for slices one after the other.
    pub fn merge(&mut self, other: &Tally) {
        for (ours, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_with(|| Box::new(fine())).add(&**theirs).expect("same bounds");
            }
        }
        for (ours, theirs) in [(&mut self.lag, &other.lag), (&mut self.by_box, &other.by_box)] {
            if let Some(theirs) = theirs {
                ours.get_or_insert_with(|| Box::new(fine())).add(&**theirs).expect("same bounds");
            }
        }
        self.sent_again += other.sent_again;
        self.failures.iter_mut().zip(other.failures).for_each(|(ours, theirs)| *ours += theirs);
        self.wrongs.iter_mut().zip(other.wrongs).for_each(|(ours, theirs)| *ours += theirs);
        other.examples.iter().for_each(|text| self.example(|| text.clone()));
        self.hits += other.hits;
        self.misses += other.misses;
        self.conflicts += other.conflicts;
        self.verified += other.verified;
        self.sent += other.sent;
        self.received += other.received;
        self.unsent += other.unsent;
        self.client_cpu = self.client_cpu.plus(other.client_cpu);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.timeline.merge(&other.timeline);
        self.fatal = self.fatal.take().or_else(|| other.fatal.clone());
    }

    /// Adds a slice that came after this one: as [`Tally::merge`], but the times add up and the intervals follow.
    pub fn follow(&mut self, later: &Tally) {
        let elapsed = self.elapsed.plus(later.elapsed);
        let mut bins = std::mem::take(&mut self.timeline.bins);
        self.merge(later);
        bins.append(&mut self.timeline.bins);
        bins.truncate(Timeline::MOST);
        self.timeline.bins = bins;
        self.elapsed = elapsed;
    }

    /// The latencies of one kind of operation, if there were any.
    pub fn latencies(&self, kind: OpKind) -> Option<&Histogram<u64>> {
        self.kinds[kind as usize].as_deref()
    }

    /// The latencies of all operations.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = fine();
        self.kinds.iter().flatten().for_each(|h| all.add(&**h).expect("same bounds"));
        all
    }

    /// How many operations were done.
    pub fn ops(&self) -> u64 {
        self.kinds.iter().flatten().map(|h| h.len()).sum()
    }

    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        if self.elapsed == Nanos::ZERO { 0.0 } else { self.ops() as f64 / self.elapsed.as_secs_f64() }
    }

    /// How many operations failed in this way.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failures[failure as usize]
    }

    /// How many operations failed at all.
    pub fn all_failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// How many values were wrong in this way.
    pub fn wrongs_of(&self, wrong: Wrong) -> u64 {
        self.wrongs[wrong as usize]
    }

    /// How many values were wrong at all.
    pub fn all_wrongs(&self) -> u64 {
        self.wrongs.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally_of(samples: &[(bool, u64)]) -> Tally {
        let mut tally = Tally::new(Nanos(1_000), Nanos(1_000_000));
        for (at, &(get, ns)) in samples.iter().enumerate() {
            let now = Nanos(1_000 + ns + at as u64 * 40_000);
            tally.record(if get { OpKind::Get } else { OpKind::Set }, Nanos(now.0 - ns), now);
        }
        tally
    }

    proptest! {
        #[test]
        fn merged_tallies_equal_one_that_saw_everything(
            a in proptest::collection::vec((any::<bool>(), 1u64..10_000_000), 0..200),
            b in proptest::collection::vec((any::<bool>(), 1u64..10_000_000), 0..200),
        ) {
            let mut merged = tally_of(&a);
            merged.merge(&tally_of(&b));
            let mut both = tally_of(&a);
            for (at, &(get, ns)) in b.iter().enumerate() {
                let now = Nanos(1_000 + ns + at as u64 * 40_000);
                both.record(if get { OpKind::Get } else { OpKind::Set }, Nanos(now.0 - ns), now);
            }
            prop_assert_eq!(merged.all_latencies(), both.all_latencies());
            prop_assert_eq!(merged.ops(), (a.len() + b.len()) as u64);
            let counts = |t: &Tally| t.timeline.bins().iter().map(|h| h.len()).collect::<Vec<_>>();
            prop_assert_eq!(counts(&merged), counts(&both));
        }
    }

    #[test]
    fn percentiles_keep_three_digits() {
        let samples: Vec<(bool, u64)> = (1..=1_000).map(|i| (true, i * 1_000)).collect();
        let gets = tally_of(&samples);
        let p = |q| gets.latencies(OpKind::Get).expect("gets").value_at_quantile(q) as f64;
        assert!((p(0.5) / 500_000.0 - 1.0).abs() < 0.001, "{}", p(0.5));
        assert!((p(0.99) / 990_000.0 - 1.0).abs() < 0.001, "{}", p(0.99));
        assert!(gets.latencies(OpKind::Set).is_none());
    }

    #[test]
    fn slices_add_their_times_and_threads_do_not() {
        let with = |ms| Tally { elapsed: Nanos::from_millis(ms), ..tally_of(&[(true, 5)]) };
        let mut threads = with(10);
        threads.merge(&with(30));
        assert_eq!(threads.elapsed, Nanos::from_millis(30));
        let mut slices = with(10);
        slices.follow(&with(30));
        assert_eq!((slices.elapsed, slices.ops()), (Nanos::from_millis(40), 2));
    }
}
