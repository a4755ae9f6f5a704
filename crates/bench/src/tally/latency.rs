//! Latencies as figures: what tables, plots and JSON show of a histogram.

use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many operations.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90 % are at most this.
    pub p90_us: f64,
    /// 99 % are at most this.
    pub p99_us: f64,
    /// 99.9 % are at most this.
    pub p999_us: f64,
    /// 99.99 % are at most this.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// From a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        let us = |q: f64| histogram.value_at_quantile(q) as f64 / 1e3;
        Latency {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            p9999_us: us(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

/// A point of the percentile curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The quantile, from 0 to 1.
    pub quantile: f64,
    /// The latency there.
    pub us: f64,
}

/// Points at equal distances in "nines", up to what the number of samples supports.
pub fn curve(all: &Histogram<u64>) -> Vec<CurvePoint> {
    if all.is_empty() {
        return Vec::new();
    }
    let nines = (all.len() as f64).log10().min(7.0);
    let steps = (nines * 20.0).floor() as u32;
    let point = |step: u32| {
        let quantile = 1.0 - 10f64.powf(-f64::from(step) / 20.0);
        CurvePoint { quantile, us: all.value_at_quantile(quantile) as f64 / 1e3 }
    };
    (0..=steps).map(point).collect()
}
