//! What came divided by what was predicted, for each service at each choice: predictions are multiplied by it the next time.
//!
//! A factor follows what comes with a half-life, is bounded, and is forgotten when nothing renewed it for a while: a machine that was slow an hour
//! ago says nothing of now. Of a choice where the service is not any more, what was measured fades into what holds where it is. Capacity is seen
//! only by a service that is full, so it is corrected by the factor of the cores: who needs twice the processor time for a request serves half as
//! many.
//!
//! Bounds: [`FACTORS_MAX`] choices; the one that was not renewed for longest goes first.

use super::choice::Choice;
use super::predict::{Prediction, Range};
use super::verdict::Measured;
use std::collections::BTreeMap;

/// Half of what a factor is comes from this last time.
const HALF_LIFE_US: f64 = 3e6;
/// Of what was not renewed, half is what holds where the service is now after this time: what slows a machine down slows all of its places.
const FADE_HALF_LIFE_US: f64 = 10e6;
/// A factor that nothing renewed for so long is forgotten.
pub(super) const FORGET_US: u64 = 120_000_000;
/// A prediction is not believed to be wrong by more.
const FACTOR_MAX: f64 = 16.0;
/// Choices that factors are kept of.
const FACTORS_MAX: usize = 1024;
/// A factor that has been measured is taken to be this exact at best.
const SPREAD_MIN: f64 = 0.05;

/// One figure's factor, as logarithms: what it is about, and how far single ones strayed.
#[derive(Clone, Copy, Debug)]
struct Factor {
    log: f64,
    spread: f64,
}

impl Factor {
    fn first(log: f64) -> Factor {
        // One value says nothing of how far others stray.
        Factor { log, spread: 2.0 * SPREAD_MIN }
    }

    fn renew(&mut self, log: f64, weight: f64) {
        self.spread += weight * ((log - self.log).abs() - self.spread);
        self.log += weight * (log - self.log);
    }

    fn of(self, range: Range, is_own: bool) -> Range {
        let mid = range.mid * self.log.exp();
        if is_own {
            Range::around(mid, (2.0 * self.spread.max(SPREAD_MIN)).exp())
        } else {
            range.times(self.log.exp())
        }
    }
}

/// The factors of a service at a choice.
#[derive(Clone, Copy, Debug)]
struct Factors {
    at_us: u64,
    p50: Option<Factor>,
    p99: Option<Factor>,
    cores: Option<Factor>,
}

impl Factors {
    /// What is left of them after a while, beside those of where the service is.
    fn faded(&self, here: &Factors, age_us: f64) -> Factors {
        let kept = f64::powf(0.5, age_us / FADE_HALF_LIFE_US);
        let mix = |own: Option<Factor>, here: Option<Factor>| match (own, here) {
            (Some(own), Some(here)) => Some(Factor {
                log: here.log + kept * (own.log - here.log),
                spread: here.spread.max(own.spread) + (1.0 - kept) * (own.log - here.log).abs(),
            }),
            (own, here) => own.or(here),
        };
        Factors {
            at_us: self.at_us,
            p50: mix(self.p50, here.p50),
            p99: mix(self.p99, here.p99),
            cores: mix(self.cores, here.cores),
        }
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Corrections(BTreeMap<(String, Choice), Factors>);

fn log(measured: f64, predicted: f64) -> Option<f64> {
    let factor = measured / predicted;
    (factor.is_finite() && factor > 0.0).then(|| factor.clamp(1.0 / FACTOR_MAX, FACTOR_MAX).ln())
}

impl Corrections {
    /// Something was predicted for where a service is, and something came.
    pub(super) fn learn(
        &mut self,
        now_us: u64,
        service: &str,
        at: &Choice,
        said: &Prediction,
        came: &Measured,
    ) {
        self.0.retain(|_, factors| now_us.saturating_sub(factors.at_us) < FORGET_US);
        let key = (service.to_owned(), at.clone());
        if !self.0.contains_key(&key) && self.0.len() >= FACTORS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, factors)| factors.at_us).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.0.remove(&key));
        }
        let fresh = Factors { at_us: now_us, p50: None, p99: None, cores: None };
        let factors = self.0.entry(key).or_insert(fresh);
        let age = now_us.saturating_sub(factors.at_us) as f64;
        let weight = 1.0 - f64::powf(0.5, age / HALF_LIFE_US);
        factors.at_us = now_us;
        for (factor, measured, predicted) in [
            (&mut factors.p50, came.p50_ns, said.p50_ns.mid),
            (&mut factors.p99, came.p99_ns, said.p99_ns.mid),
            (&mut factors.cores, Some(came.cores), said.cores.mid),
        ] {
            let Some(log) = measured.and_then(|measured| log(measured, predicted)) else { continue };
            match factor {
                Some(factor) => factor.renew(log, weight),
                None => *factor = Some(Factor::first(log)),
            }
        }
    }

    /// How far what comes strays from one look to the next, as a share: of the p99 where that counts, and of the cores.
    pub(super) fn strays(&self, now_us: u64, service: &str, at: &Choice, with_p99: bool) -> f64 {
        let Some(factors) = self.own(now_us, service, at) else { return 0.0 };
        let p99 = factors.p99.filter(|_| with_p99).map_or(0.0, |factor| factor.spread);
        factors.cores.map_or(0.0, |factor| factor.spread).max(p99).exp() - 1.0
    }

    /// The factors of a choice, as far as they were measured.
    pub(super) fn factors(&self, now_us: u64, service: &str, at: &Choice) -> Vec<(&'static str, f64)> {
        let Some(own) = self.own(now_us, service, at) else { return Vec::new() };
        let all = [("p50", own.p50), ("p99", own.p99), ("cores", own.cores)];
        all.into_iter().filter_map(|(figure, factor)| Some((figure, factor?.log.exp()))).collect()
    }

    /// Whether a choice was tried lately.
    pub(super) fn is_known(&self, now_us: u64, service: &str, at: &Choice) -> bool {
        self.own(now_us, service, at).is_some()
    }

    fn own(&self, now_us: u64, service: &str, at: &Choice) -> Option<&Factors> {
        let factors = self.0.get(&(service.to_owned(), at.clone()))?;
        (now_us.saturating_sub(factors.at_us) < FORGET_US).then_some(factors)
    }

    /// A prediction, corrected by the factors of its choice; where there are none, by those of where the service is, and as unsure as it was.
    pub(super) fn correct(
        &self,
        now_us: u64,
        service: &str,
        (to, present): (&Choice, &Choice),
        said: Prediction,
    ) -> Prediction {
        let (own, here) = (self.own(now_us, service, to), self.own(now_us, service, present));
        let Some(factors) = own.or(here) else { return said };
        let factors = match (own, here) {
            (Some(own), Some(here)) => own.faded(here, now_us.saturating_sub(own.at_us) as f64),
            _ => *factors,
        };
        let by =
            |factor: Option<Factor>, range: Range| factor.map_or(range, |one| one.of(range, own.is_some()));
        let inverse = factors.cores.map(|factor| Factor { log: -factor.log, ..factor });
        Prediction {
            capacity: by(inverse, said.capacity),
            p50_ns: by(factors.p50, said.p50_ns),
            p99_ns: by(factors.p99, said.p99_ns),
            cores: by(factors.cores, said.cores),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::service;
    use super::*;
    use crate::observed::Kind;
    use proptest::prelude::*;

    const SAID: Prediction = Prediction {
        capacity: Range { low: 5e4, mid: 1e5, high: 2e5 },
        p50_ns: Range { low: 5e3, mid: 1e4, high: 2e4 },
        p99_ns: Range { low: 5e4, mid: 1e5, high: 2e5 },
        cores: Range { low: 0.5, mid: 1.0, high: 2.0 },
    };

    fn came(cores: f64) -> Measured {
        Measured { rate: 1e4, p50_ns: Some(1e4), p99_ns: Some(3e5), cores }
    }

    #[test]
    fn what_came_corrects_its_choice_narrowly_and_others_widely() {
        let service = service("s", Kind::Kv);
        let present = Choice::present(&service);
        let other = present.with(&service, &[("engine.mode", "dedicated")]).expect("it can");
        let mut corrections = Corrections::default();
        (0..20).for_each(|n| corrections.learn(n * 500_000, "s", &present, &SAID, &came(2.0)));
        let now = 10_000_000;
        let own = corrections.correct(now, "s", (&present, &present), SAID);
        assert!((own.cores.mid - 2.0).abs() < 1e-9 && own.cores.high < 2.4, "{own:?}");
        assert!((own.capacity.mid - 5e4).abs() < 1e-6 && (own.p99_ns.mid - 3e5).abs() < 1e-3, "{own:?}");
        let elsewhere = corrections.correct(now, "s", (&other, &present), SAID);
        assert!((elsewhere.cores.mid - 2.0).abs() < 1e-9 && elsewhere.cores.high > 3.9, "{elsewhere:?}");
        assert!(corrections.is_known(now, "s", &present) && !corrections.is_known(now, "s", &other));
        assert_eq!(corrections.correct(now, "t", (&present, &present), SAID), SAID);
    }

    #[test]
    fn what_nothing_renews_is_forgotten() {
        let present = Choice::present(&service("s", Kind::Kv));
        let mut corrections = Corrections::default();
        corrections.learn(0, "s", &present, &SAID, &came(2.0));
        assert!(corrections.is_known(FORGET_US - 1, "s", &present));
        assert!(!corrections.is_known(FORGET_US, "s", &present));
        assert_eq!(corrections.correct(FORGET_US, "s", (&present, &present), SAID), SAID);
    }

    #[test]
    fn what_was_measured_elsewhere_fades_into_what_holds_here() {
        let service = service("s", Kind::Kv);
        let here = Choice::present(&service);
        let other = here.with(&service, &[("engine.mode", "dedicated")]).expect("it can");
        let mut corrections = Corrections::default();
        corrections.learn(0, "s", &other, &SAID, &came(1.0));
        let cores = |corrections: &mut Corrections, now| {
            // The machine is slow now: four times what is predicted.
            corrections.learn(now, "s", &here, &SAID, &came(4.0));
            corrections.correct(now, "s", (&other, &here), SAID).cores
        };
        let (soon, later) = (cores(&mut corrections, 1_000_000), cores(&mut corrections, 40_000_000));
        assert!(soon.mid < 1.2 && later.mid > 3.5, "{soon:?} {later:?}");
        assert!(later.low < 1.0, "and nobody is sure of it: {later:?}");
    }

    #[test]
    fn figures_that_stray_are_known_to() {
        let here = Choice::present(&service("s", Kind::Kv));
        let mut corrections = Corrections::default();
        for look in 0..40u64 {
            let cores = if look % 2 == 0 { 1.0 } else { 3.0 };
            corrections.learn(look * 500_000, "s", &here, &SAID, &came(cores));
        }
        let strays = |with_p99| corrections.strays(20_000_000, "s", &here, with_p99);
        assert!(strays(false) > 0.5 && strays(true) >= strays(false), "{}", strays(false));
        assert_eq!(corrections.strays(20_000_000, "t", &here, true), 0.0);
    }

    proptest! {
        /// Whatever comes, predictions stay ranges that can be gone by, and within the bound of a factor.
        #[test]
        fn corrected_predictions_are_sound(came in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<u32>()), 1..40)) {
            let present = Choice::present(&service("s", Kind::Kv));
            let mut corrections = Corrections::default();
            let mut now = 0;
            for (cores, p99, gap) in came {
                now += u64::from(gap);
                let came = Measured { rate: 1.0, p50_ns: Some(p99), p99_ns: Some(p99), cores };
                corrections.learn(now, "s", &present, &SAID, &came);
                let found = corrections.correct(now, "s", (&present, &present), SAID);
                prop_assert!(found.is_sound(), "{:?}", found);
                prop_assert!((1.0 / 16.01..16.01).contains(&found.cores.mid), "{:?}", found);
            }
        }
    }
}
