//! What is noted of calls: of each method the sizes of requests and replies, and where the time of its calls went.
//!
//! Bounds: of each method [`SAMPLES`] calls, drawn so that each call of a load point is as likely to be among them (reservoir); sizes in a histogram.

use super::parts::Told;
use base::{Nanos, Prng};
use bench::tally::Merge;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Calls of a method, or requests of a kind, that are kept of a load point.
pub const SAMPLES: usize = 1 << 15;

/// The largest size that is told apart; longer ones count as this long.
pub const LONGEST: usize = 1 << 16;

/// Where one call's or one request's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// All of it.
    pub took: Nanos,
    pub app: Nanos,
    pub codec: Nanos,
}

impl Sample {
    /// All but the application.
    pub fn network(&self) -> Nanos {
        self.took.since(self.app)
    }
}

/// Samples of one thing.
#[derive(Clone, Debug)]
pub struct Samples {
    kept: Vec<Sample>,
    seen: u64,
    random: Prng,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { kept: Vec::new(), seen: 0, random: Prng::new(7) }
    }
}

impl Samples {
    pub fn note(&mut self, sample: Sample) {
        self.seen += 1;
        if self.kept.len() < SAMPLES {
            self.kept.push(sample);
        } else if let Some(place) = self.kept.get_mut(self.random.below(self.seen) as usize) {
            *place = sample;
        }
    }

    /// How many there were, kept or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The mean of those whose time is around a quantile: from half of what lies beyond it below to half of that above, so that 0.5 is the middle
    /// half, and 0.99 from 98.5 to 99.5 %. Nothing of no samples.
    pub fn around(&self, quantile: f64) -> Option<Sample> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable_by_key(|sample| sample.took);
        let last = sorted.len().checked_sub(1)?;
        let at = |quantile: f64| (quantile.clamp(0.0, 1.0) * last as f64).round() as usize;
        let beyond = (1.0 - quantile) / 2.0;
        let near = &sorted[at(quantile - beyond)..=at(quantile + beyond)];
        let mean = |part: fn(&Sample) -> Nanos| {
            Nanos(near.iter().map(|sample| part(sample).0).sum::<u64>() / near.len() as u64)
        };
        Some(Sample { took: mean(|s| s.took), app: mean(|s| s.app), codec: mean(|s| s.codec) })
    }
}

impl Merge for Samples {
    fn merge(&mut self, other: &Samples) {
        let seen = self.seen + other.seen;
        other.kept.iter().for_each(|sample| self.note(*sample));
        self.seen = seen;
    }
}

/// How many messages had which size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes(BTreeMap<usize, u64>);

impl Sizes {
    pub fn note(&mut self, bytes: usize) {
        *self.0.entry(bytes.min(LONGEST)).or_default() += 1;
    }

    pub fn add(&mut self, other: &Sizes) {
        for (&bytes, &count) in &other.0 {
            *self.0.entry(bytes).or_default() += count;
        }
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The share of messages that are smaller than `bytes`.
    pub fn below(&self, bytes: usize) -> f64 {
        self.0.range(..bytes).map(|(_, count)| count).sum::<u64>() as f64 / self.count().max(1) as f64
    }

    /// The size that so many of them do not exceed; 0 of none.
    pub fn quantile(&self, quantile: f64) -> usize {
        let wanted = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().find(|&(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, |(&bytes, _)| bytes)
    }
}

/// One method.
#[derive(Clone, Debug, Default)]
pub struct Method {
    pub requests: Sizes,
    pub replies: Sizes,
    /// Calls as callers saw them, without what the service asked others.
    pub calls: Samples,
}

/// All methods by service and name. Each tier has a book, so that no two threads wait for one.
#[derive(Debug, Default)]
pub struct Book(Mutex<Pages>);

/// By service and method, without the package.
pub type Pages = BTreeMap<(&'static str, &'static str), Method>;

impl Book {
    fn method<T>(&self, service: &'static str, name: &'static str, note: impl FnOnce(&mut Method) -> T) -> T {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        note(pages.entry((service, name)).or_default())
    }

    /// A request that came to a service.
    pub fn request(&self, service: &'static str, method: &'static str, bytes: usize) {
        self.method(service, method, |method| method.requests.note(bytes));
    }

    /// A reply that a service gave, and what its caller saw.
    pub fn call(&self, service: &'static str, method: &'static str, bytes: usize, told: &Told) {
        let (network, app) = (told.own_network(), told.stay.own_app);
        // A thread that sends may lose its processor while the other side is at work already.
        let codec = told.codec.plus(told.stay.own_codec).min(network);
        self.method(service, method, |method| {
            method.replies.note(bytes);
            method.calls.note(Sample { took: network.plus(app), app, codec });
        });
    }

    /// What was noted since it was taken last.
    pub fn take(&self) -> Pages {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds what another book had.
pub fn add(pages: &mut Pages, other: Pages) {
    for (of, method) in other {
        let ours = pages.entry(of).or_default();
        ours.requests.add(&method.requests);
        ours.replies.add(&method.replies);
        ours.calls.merge(&method.calls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_tail_are_means_of_those_around_them() {
        let mut samples = Samples::default();
        assert_eq!(samples.around(0.5), None);
        for took in (0..=100).rev() {
            samples.note(Sample { took: Nanos(took * 10), app: Nanos(took), codec: Nanos(1) });
        }
        let middle = samples.around(0.5).expect("there are some");
        assert_eq!((middle.took, middle.app, middle.codec), (Nanos(500), Nanos(50), Nanos(1)));
        assert_eq!(middle.network(), Nanos(450));
        assert_eq!(samples.around(0.99).expect("the slowest").took, Nanos(995));
    }

    #[test]
    fn the_kept_ones_are_drawn_from_all() {
        let mut samples = Samples::default();
        for took in 0..4 * SAMPLES as u64 {
            samples.note(Sample { took: Nanos(took), ..Sample::default() });
        }
        assert_eq!((samples.kept.len(), samples.seen()), (SAMPLES, 4 * SAMPLES as u64));
        let middle = samples.around(0.5).expect("there are some").took.0 as f64 / (2 * SAMPLES) as f64;
        assert!((0.95..1.05).contains(&middle), "{middle}");
    }

    #[test]
    fn sizes_are_told_as_shares_and_as_quantiles() {
        let mut sizes = Sizes::default();
        [10, 64, 64, 300, usize::MAX].into_iter().for_each(|bytes| sizes.note(bytes));
        assert_eq!((sizes.below(64), sizes.below(65), sizes.below(LONGEST)), (0.2, 0.6, 0.8));
        assert_eq!((sizes.quantile(0.2), sizes.quantile(0.5), sizes.quantile(1.0)), (10, 64, LONGEST));
        assert_eq!((Sizes::default().below(1), Sizes::default().quantile(0.5)), (0.0, 0));
    }
}
