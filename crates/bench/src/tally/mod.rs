//! What one thread measured, and how several become one.
//!
//! Shape: a histogram of nanoseconds for each kind of operation ([`Kind`]), failures by name, and what else a protocol counts ([`Merge`]).
//! The load on key-value servers has seven kinds and a series over time; other loads have one kind and no series.
//!
//! Latencies go into HDR histograms with three significant digits, made on first use; a second, coarser one per interval gives the series.
//! Recording costs one array increment, or two with a series.
//!
//! Bounds: 262 KiB per kind used, 16 KiB per interval, at most [`Timeline::MAX_INTERVALS`] intervals: later ones widen the last.

mod latency;

pub use latency::{CurvePoint, Latency, curve};

use base::Nanos;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The first few failures and findings are kept in words.
pub const EXAMPLES: usize = 5;

/// Longer latencies count as this long.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// The most kinds of operations that a load has.
pub const KINDS: usize = 7;

/// A histogram of nanoseconds as all tallies have them, so that they can be added.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are good")
}

/// A kind of operation.
pub trait Kind: Copy {
    /// Its number, below [`KINDS`].
    fn index(self) -> usize;
}

/// The only kind there is.
impl Kind for () {
    fn index(self) -> usize {
        0
    }
}

/// Counts that add up over threads and slices.
pub trait Merge: Clone + Default {
    /// Adds what another counted.
    fn merge(&mut self, other: &Self);
}

impl Merge for () {
    fn merge(&mut self, (): &()) {}
}

/// Adds `theirs` to `ours`, if there are any.
pub fn add(ours: &mut Option<Box<Histogram<u64>>>, theirs: Option<&Histogram<u64>>) {
    if let Some(theirs) = theirs {
        ours.get_or_insert_with(|| Box::new(histogram())).add(theirs).expect("same bounds");
    }
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
    pub const MAX_INTERVALS: usize = 600;

    /// Intervals of `step` from `origin` on.
    pub fn new(origin: Nanos, step: Nanos) -> Timeline {
        Timeline { origin, step: step.max(Nanos(1)), bins: Vec::new() }
    }

    #[inline]
    fn record(&mut self, now: Nanos, latency_ns: u64) {
        let bin = ((now.since(self.origin).0 / self.step.0) as usize).min(Self::MAX_INTERVALS - 1);
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

/// Everything measured in one phase or slice.
#[derive(Clone, Debug)]
pub struct Tally<C = ()> {
    kinds: [Option<Box<Histogram<u64>>>; KINDS],
    /// Operations that were done and not timed.
    pub untimed: u64,
    /// Operations that failed, by the failure's name.
    pub failed: BTreeMap<&'static str, u64>,
    /// The first few failures and findings in words.
    pub examples: Vec<String>,
    /// What else the protocol counts.
    pub counts: C,
    /// CPU time of the threads that drove the load.
    pub client_cpu: Nanos,
    /// From the first operation to the last answer: of the slowest thread.
    pub elapsed: Nanos,
    /// Open loop: how much later than intended requests were sent, where that is recorded.
    pub lag: Option<Box<Histogram<u64>>>,
    /// Open loop: requests whose time had come but that were never sent.
    pub unsent: u64,
    /// By interval, where a series was asked for.
    pub timeline: Option<Timeline>,
    /// Why the phase could not go on.
    pub fatal: Option<String>,
}

impl<C: Default> Default for Tally<C> {
    fn default() -> Tally<C> {
        Tally {
            kinds: Default::default(),
            untimed: 0,
            failed: BTreeMap::new(),
            examples: Vec::new(),
            counts: C::default(),
            client_cpu: Nanos::ZERO,
            elapsed: Nanos::ZERO,
            lag: None,
            unsent: 0,
            timeline: None,
            fatal: None,
        }
    }
}

impl<C: Merge> Tally<C> {
    /// Nothing yet, in a phase that starts at `origin` and is cut into intervals of `step`.
    pub fn new(origin: Nanos, step: Nanos) -> Tally<C> {
        Tally { timeline: Some(Timeline::new(origin, step)), ..Tally::default() }
    }

    /// An operation that began at `start` (was intended then, in an open loop) is done.
    #[inline]
    pub fn record(&mut self, kind: impl Kind, start: Nanos, now: Nanos) {
        let ns = now.since(start).0.max(1);
        self.kinds[kind.index()].get_or_insert_with(|| Box::new(histogram())).saturating_record(ns);
        if let Some(timeline) = &mut self.timeline {
            timeline.record(now, ns);
        }
    }

    /// A request intended for `due` was sent at `now`.
    pub fn record_lag(&mut self, due: Nanos, now: Nanos) {
        self.lag.get_or_insert_with(|| Box::new(histogram())).saturating_record(now.since(due).0.max(1));
    }

    /// Operations failed.
    #[cold]
    pub fn fail(&mut self, failure: &'static str, count: u64, why: impl FnOnce() -> String) {
        *self.failed.entry(failure).or_default() += count;
        self.example(why);
    }

    /// Something that is worth a sentence, if there is room for one.
    pub fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }

    /// Adds what another thread, or another slice of the same kind, measured. Times are those of the longer one;
    /// use [`Tally::follow`] for slices one after the other.
    pub fn merge(&mut self, other: &Tally<C>) {
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(ours, theirs)| add(ours, theirs.as_deref()));
        add(&mut self.lag, other.lag.as_deref());
        self.untimed += other.untimed;
        for (&failure, count) in &other.failed {
            *self.failed.entry(failure).or_default() += count;
        }
        other.examples.iter().for_each(|text| self.example(|| text.clone()));
        self.counts.merge(&other.counts);
        self.unsent += other.unsent;
        self.client_cpu = self.client_cpu.plus(other.client_cpu);
        self.elapsed = self.elapsed.max(other.elapsed);
        match (&mut self.timeline, &other.timeline) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours, theirs) => *ours = ours.take().or_else(|| theirs.clone()),
        }
        self.fatal = self.fatal.take().or_else(|| other.fatal.clone());
    }

    /// Adds a slice that came after this one: as [`Tally::merge`], but the times add up and the intervals follow.
    pub fn follow(&mut self, later: &Tally<C>) {
        let elapsed = self.elapsed.plus(later.elapsed);
        let earlier = self.timeline.take();
        self.merge(later);
        self.elapsed = elapsed;
        if let Some(mut earlier) = earlier {
            earlier.bins.extend(self.timeline.take().into_iter().flat_map(|later| later.bins));
            earlier.bins.truncate(Timeline::MAX_INTERVALS);
            self.timeline = Some(earlier);
        }
    }

    /// The latencies of one kind of operation, if there were any.
    pub fn latencies(&self, kind: impl Kind) -> Option<&Histogram<u64>> {
        self.kinds[kind.index()].as_deref()
    }

    /// The latencies of all operations.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.kinds.iter().flatten().for_each(|h| all.add(&**h).expect("same bounds"));
        all
    }

    /// How many operations of a kind were timed.
    pub fn count(&self, kind: impl Kind) -> u64 {
        self.latencies(kind).map_or(0, Histogram::len)
    }

    /// How many operations were done.
    pub fn ops(&self) -> u64 {
        self.untimed + self.kinds.iter().flatten().map(|h| h.len()).sum::<u64>()
    }

    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        if self.elapsed == Nanos::ZERO { 0.0 } else { self.ops() as f64 / self.elapsed.as_secs_f64() }
    }

    /// How many operations failed at all.
    pub fn all_failed(&self) -> u64 {
        self.failed.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::mix::OpKind;
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
            let counts = |t: &Tally| t.timeline.as_ref().expect("asked for").bins().iter().map(|h| h.len()).collect::<Vec<_>>();
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

    #[test]
    fn failures_add_up_by_name_and_the_first_is_kept() {
        let with = |ops, why: &str| {
            let mut tally = Tally::<()> { untimed: ops, elapsed: Nanos(ops), ..Tally::default() };
            tally.fail("NOT_FOUND", 1, || why.to_owned());
            tally
        };
        let mut a = with(3, "one");
        a.merge(&with(4, "two"));
        assert_eq!((a.ops(), a.all_failed(), a.elapsed), (7, 2, Nanos(4)));
        assert_eq!((a.failed["NOT_FOUND"], a.examples[0].as_str()), (2, "one"));
    }
}
