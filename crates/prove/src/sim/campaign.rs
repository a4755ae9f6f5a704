//! Many seeds on many threads, and each planted bug until it is found.
//!
//! A seed's run depends on nothing but the seed, so threads take the next one that is free, and results are put together in the order of
//! seeds: the fingerprint of a campaign is the same however many threads there are.

use super::trial::{Outcome, Summary, Trial};
use sim::Fingerprint;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// Seeds that were run.
    pub seeds: u64,
    /// Of these, those with a violation, lowest first.
    pub violations: Vec<u64>,
    /// Parts of histories of which the judge knows nothing.
    pub gave_up: u64,
    /// Events, and operations.
    pub events: u64,
    /// Operations that began.
    pub operations: u64,
    /// What the simulation counts beside.
    pub marks: [u64; 2],
    /// Of all seeds, in their order.
    pub print: Fingerprint,
}

impl Campaign {
    /// Of one seed: its own fingerprint.
    pub fn of_one(seed: u64, played: &impl Outcome) -> Campaign {
        let mut campaign = Campaign::default();
        let summary = played.summary();
        campaign.add(seed, &summary);
        Campaign { print: Fingerprint::from_value(summary.print), ..campaign }
    }

    fn add(&mut self, seed: u64, played: &Summary) {
        self.seeds += 1;
        self.violations.extend(played.violated.then_some(seed));
        self.gave_up += played.gave_up;
        self.events += played.events;
        self.operations += played.operations;
        self.marks.iter_mut().zip(played.marks).for_each(|(mark, more)| *mark += more);
        self.print.number(seed);
        self.print.number(played.print);
    }
}

/// How far it is.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// Runs `seeds` of cases like `case`.
pub fn run<T: Trial>(
    case: &T,
    seeds: Range<u64>,
    threads: NonZero<usize>,
    progress: Progress<'_>,
) -> Campaign {
    let next = AtomicU64::new(seeds.start);
    // Results that wait for a lower seed, and what was put together.
    let state = Mutex::new((BTreeMap::new(), seeds.start, Campaign::default()));
    let total = (seeds.end - seeds.start).max(1) as f64;
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            let played = case.seeded(seed, None).play(false).summary();
            let mut state = state.lock().expect("nobody panics with it");
            let (waiting, due, campaign) = &mut *state;
            waiting.insert(seed, played);
            while let Some(played) = waiting.remove(due) {
                campaign.add(*due, &played);
                *due += 1;
            }
            progress(campaign.seeds as f64 / total);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(work);
        }
    });
    state.into_inner().expect("nobody panics with it").2
}

/// A planted bug, and which seed found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunt<B> {
    /// Which.
    pub planted: B,
    /// The first seed that shows it, where one of those allowed does.
    pub found: Option<u64>,
}

/// Looks for each of `bugs` in seeds from `first`, at most `most` of them.
pub fn hunt<T: Trial>(
    case: &T,
    bugs: &[T::Bug],
    (first, most): (u64, u64),
    threads: NonZero<usize>,
    progress: Progress<'_>,
) -> Vec<Hunt<T::Bug>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(vec![None; bugs.len()]);
    let work = || {
        loop {
            let i = next.fetch_add(1, Relaxed);
            let Some(&planted) = bugs.get(i) else { return };
            let fails = |seed: &u64| case.seeded(*seed, Some(planted)).play(false).violation().is_some();
            let seed = (first..first.saturating_add(most)).find(fails);
            found.lock().expect("nobody panics with it")[i] = seed;
            progress((done.fetch_add(1, Relaxed) + 1) as f64 / bugs.len() as f64);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.get().min(bugs.len()) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().expect("nobody panics with it");
    bugs.iter().zip(found).map(|(&planted, found)| Hunt { planted, found }).collect()
}
