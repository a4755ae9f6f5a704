//! Which of two figures is better: more throughput within the limit; of equal ones, fewer cores.
//!
//! ```text
//!   throughput within the limit = min(capacity, demand) · min(1, limit / p99, share in time)
//! ```
//! The share in time is taken from the median and the 99th percentile. Where a service is full, all its requests wait alike: half of them may be late by
//! little, which p99 alone does not say.
//!
//! Demand is somewhat more than what comes now, since clients that wait for answers ask for more as soon as they get them. That is worth something to a
//! service that may be full. One that has room serves all that it is asked: less room than demand is a loss, and more than it has no gain. Without a limit
//! the p99 does not count.

use super::predict::{Prediction, Range};
use serde::{Deserialize, Serialize};

/// How much more than now may be asked for.
const DEMAND_FACTOR: f64 = 1.5;
/// A service may be full from this part of the least that it is predicted to serve.
const NEARLY_FULL: f64 = 0.9;
/// Throughputs that differ by less are equal.
const TIE_SHARE: f64 = 0.03;
/// So much of a core is nothing: places that all use less of the host are equal.
const CORES_MIN: f64 = 0.01;
/// No gain counts as more.
pub(super) const GAIN_MAX: f64 = 100.0;

/// What was measured of a service, over some observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests per second.
    pub rate: f64,
    /// Median stay in nanoseconds, where it is known.
    pub p50_ns: Option<f64>,
    /// 99th percentile, where it is known.
    pub p99_ns: Option<f64>,
    /// Cores of the service.
    pub cores: f64,
}

/// How much better something is than what is now, as a share: at worst, as expected, at best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// If all that is unsure comes out badly.
    pub low: f64,
    /// As expected.
    pub mid: f64,
    /// If all comes out well.
    pub high: f64,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
struct Side {
    throughput: f64,
    cores: f64,
}

fn within(limit_ns: Option<f64>, p50_ns: Option<f64>, p99_ns: Option<f64>) -> f64 {
    match (limit_ns, p99_ns) {
        (Some(limit), Some(p99)) if p99 > limit => {
            let in_time = p50_ns.map_or(1.0, |p50| in_time(limit, p50, p99));
            (limit / p99).min(in_time)
        }
        _ => 1.0,
    }
}

/// The share of requests that take no longer than a limit below their 99th percentile: between that and the median by the logarithm of times.
fn in_time(limit: f64, p50: f64, p99: f64) -> f64 {
    if limit < p50 {
        return 0.5 * limit / p50;
    }
    let part = (limit / p50).ln() / (p99 / p50).ln();
    if part.is_finite() { 0.5 + 0.49 * part } else { 0.99 }
}

fn gain(of: Side, over: Side) -> f64 {
    let throughput = of.throughput / over.throughput.max(f64::MIN_POSITIVE) - 1.0;
    let by_cores = || {
        let is_nothing = of.cores.max(over.cores) < CORES_MIN;
        if is_nothing { 0.0 } else { 1.0 - of.cores / over.cores.max(1e-9) }
    };
    let gain = if throughput.abs() >= TIE_SHARE { throughput } else { by_cores() };
    if gain.is_nan() { 0.0 } else { gain.clamp(-GAIN_MAX, GAIN_MAX) }
}

/// What a choice would gain over what is now, which has this capacity by its own prediction.
pub(super) fn expected(to: &Prediction, now: &Measured, capacity: Range, limit_ns: Option<f64>) -> Gain {
    let demand = now.rate * DEMAND_FACTOR;
    let own = capacity.mid.max(now.rate).min(demand);
    let most = if now.rate >= NEARLY_FULL * capacity.low { demand } else { own };
    let present = Side { throughput: own * within(limit_ns, now.p50_ns, now.p99_ns), cores: now.cores };
    let side = |capacity: f64, (p50, p99): (f64, f64), cores: f64| {
        let throughput = capacity.min(most) * within(limit_ns, Some(p50), Some(p99));
        gain(Side { throughput, cores }, present)
    };
    Gain {
        low: side(to.capacity.low, (to.p50_ns.high, to.p99_ns.high), to.cores.high),
        mid: side(to.capacity.mid, (to.p50_ns.mid, to.p99_ns.mid), to.cores.mid),
        high: side(to.capacity.high, (to.p50_ns.low, to.p99_ns.low), to.cores.low),
    }
}

/// What was gained: of what came after a move over what was before it.
pub(super) fn gained(after: &Measured, before: &Measured, limit_ns: Option<f64>) -> f64 {
    let side = |of: &Measured| Side {
        throughput: of.rate * within(limit_ns, of.p50_ns, of.p99_ns),
        cores: of.cores,
    };
    gain(side(after), side(before))
}

#[cfg(test)]
mod tests {
    use super::super::predict::Range;
    use super::*;

    const NOW: Measured = Measured { rate: 1e5, p50_ns: Some(5e4), p99_ns: Some(1e5), cores: 1.0 };

    #[test]
    fn throughput_within_the_limit_goes_before_cores() {
        let cheaper = Measured { cores: 0.7, ..NOW };
        assert!((gained(&cheaper, &NOW, None) - 0.3).abs() < 1e-9);
        let slower = Measured { rate: 0.5e5, cores: 0.1, ..NOW };
        assert!((gained(&slower, &NOW, None) + 0.5).abs() < 1e-9);
        let late = Measured { p99_ns: Some(4e5), cores: 0.1, ..NOW };
        assert!((gained(&late, &NOW, Some(2e5)) + 0.5).abs() < 1e-9, "half of it is within the limit");
        assert!(gained(&late, &NOW, None) > 0.8);
    }

    /// All requests of a full service wait alike: nearly half of them are late, though p99 is only a hundredth beyond the limit.
    #[test]
    fn a_full_service_is_late_for_most() {
        let full = Measured { p50_ns: Some(1.99e5), p99_ns: Some(2.02e5), ..NOW };
        let gain = gained(&full, &NOW, Some(2e5));
        assert!((-0.4..-0.2).contains(&gain), "{gain}");
        let beyond = Measured { p50_ns: Some(2.5e5), p99_ns: Some(2.52e5), ..NOW };
        assert!((gained(&beyond, &NOW, Some(2e5)) + 0.6).abs() < 1e-9);
        // A long tail alone is as it was.
        let tail = Measured { p50_ns: Some(1e4), p99_ns: Some(4e5), ..NOW };
        assert!((gained(&tail, &NOW, Some(2e5)) + 0.5).abs() < 1e-9);
        let alike = Measured { p50_ns: Some(2e5), p99_ns: Some(2e5 + 1e-9), ..NOW };
        assert!(gained(&alike, &NOW, Some(2e5)).is_finite());
    }

    /// A card or an accelerator serves without the host, and so does another: there is nothing to gain by it.
    #[test]
    fn places_without_cores_are_equal() {
        let none = Measured { cores: 0.0, ..NOW };
        let hardly = Measured { cores: 0.002, ..NOW };
        assert_eq!(
            [gained(&none, &none, None), gained(&none, &hardly, None), gained(&hardly, &none, None)],
            [0.0; 3]
        );
        assert!(gained(&none, &NOW, None) > 0.99 && gained(&NOW, &none, None) < -1.0);
    }

    /// More room is worth something to a service that is full, or may be by what predictions err, and nothing to another.
    #[test]
    fn room_is_worth_nothing_to_who_has_it() {
        let exact = |number: f64| Range::around(number, 1.0);
        let to =
            Prediction { capacity: exact(4e5), p50_ns: exact(5e4), p99_ns: exact(1e5), cores: exact(1.5) };
        let over = |capacity| expected(&to, &NOW, capacity, None).mid;
        assert!(
            (over(exact(1.05e5)) - 3.0 / 7.0).abs() < 1e-2,
            "of 1.05e5 to 1.5e5: {}",
            over(exact(1.05e5))
        );
        assert!(over(Range::around(1.3e5, 1.2)) > 0.1, "it may be full: 1.08e5 is the least");
        assert!((over(exact(1.3e5)) + 0.5).abs() < 1e-9, "half a core more, for nothing");
        let tight = Prediction { capacity: exact(1.2e5), cores: exact(0.5), ..to };
        let gain = expected(&tight, &NOW, exact(4e5), None).mid;
        assert!((gain + 0.2).abs() < 1e-9, "no room for half as many again, for half a core: {gain}");
    }

    #[test]
    fn an_unsure_prediction_gains_little_at_worst() {
        let to = Prediction {
            capacity: Range::around(4e5, 2.0),
            p50_ns: Range::around(5e4, 2.0),
            p99_ns: Range::around(1e5, 2.0),
            cores: Range::around(0.8, 2.0),
        };
        let found = expected(&to, &NOW, Range::around(2e5, 1.2), Some(3e5));
        assert!(found.low < -0.5 && (found.mid - 0.2).abs() < 1e-9 && found.high > 0.5, "{found:?}");
    }
}
