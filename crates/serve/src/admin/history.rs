//! The last hour of a process's metrics, for its live page: who opens it sees what was before.
//!
//! Every [`INTERVAL`] all samples are taken as a scraper would take them. Of counters what is kept is how much they grew a second, of gauges their value, of
//! histograms how fast their count and their sum grew, which tell a mean, and the quantiles (`_p50`, `_p99`) of what came since. What single connections
//! counted is not kept, since they come and go, nor registers, which change by hand.
//!
//! Bounds: [`SERIES_MAX`] series, the first that were seen; [`SAMPLES`] numbers of four bytes each: 1.5 MB at most, 0.2 MB in a node. Of each
//! histogram its last buckets, as many as there are series at most.

use crate::metrics::process::own::REGISTER;
use crate::metrics::{Buckets, Kind, Number, Page, Sample, Value as Told};
use serde_json::{Value, json};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Samples of each series: an hour.
const SAMPLES: usize = 360;
/// Series at most.
const SERIES_MAX: usize = 1024;

/// Which quantiles of histograms are kept, by what stands behind their names.
const QUANTILES: [(&str, f64); 2] = [("_p50", 0.5), ("_p99", 0.99)];

/// A sample with its labels, over time.
#[derive(Debug)]
struct Series {
    /// What the counter had at the last sample; none of a gauge.
    counted: Option<f64>,
    /// From the oldest on; not a number where nothing was said.
    values: VecDeque<f32>,
}

/// All series.
#[derive(Debug, Default)]
pub(super) struct History {
    series: HashMap<String, Series>,
    /// What each histogram had at the last sample.
    buckets: HashMap<String, Buckets>,
    /// Samples that were taken, [`SAMPLES`] at most.
    taken: usize,
    /// Samples for whose series there was no room.
    left_out: u64,
}

/// A sample's labels as `/metrics` has them; none if it is not kept.
fn labels(sample: &Sample) -> Option<String> {
    let mut text = String::new();
    for (name, value) in &sample.labels {
        if *name == "connection" {
            return None;
        }
        text.push_str(if text.is_empty() { "{" } else { "," });
        let _ = write!(text, "{name}={value:?}");
    }
    text.push_str(if text.is_empty() { "" } else { "}" });
    Some(text)
}

impl History {
    /// Adds a sample of each series, `elapsed` seconds after the one before.
    pub(super) fn sample(&mut self, page: &Page, elapsed: f64) {
        for series in self.series.values_mut() {
            series.values.push_back(f32::NAN);
        }
        let before = std::mem::take(&mut self.buckets);
        for (family, samples) in page.families().filter(|(family, _)| family.name != REGISTER.name) {
            for sample in samples {
                let Some(labels) = labels(sample) else { continue };
                match &sample.value {
                    Told::Number(Number::Whole(value)) => {
                        self.add((family.name, "", &labels), family.kind, *value as f64, elapsed);
                    }
                    Told::Number(Number::Real(value)) => {
                        self.add((family.name, "", &labels), family.kind, *value, elapsed);
                    }
                    Told::Buckets(buckets) => {
                        for (of, value) in [("_count", buckets.count as f64), ("_sum", buckets.sum)] {
                            self.add((family.name, of, &labels), Kind::Counter, value, elapsed);
                        }
                        let name = [family.name, &labels].concat();
                        let grown = before.get(&name).map(|before| buckets.since(before));
                        for (of, q) in QUANTILES {
                            if let Some(value) = grown.as_ref().and_then(|grown| grown.quantile(q)) {
                                self.add((family.name, of, &labels), Kind::Gauge, value, elapsed);
                            }
                        }
                        if self.buckets.len() < SERIES_MAX {
                            self.buckets.insert(name, buckets.clone());
                        }
                    }
                }
            }
        }
        self.taken = (self.taken + 1).min(SAMPLES);
        let taken = self.taken;
        self.series.retain(|_, series| {
            series.values.drain(..series.values.len() - taken);
            series.values.iter().any(|value| !value.is_nan()) || series.counted.is_some()
        });
    }

    /// Adds a value to the series of this name, which is in three parts.
    fn add(&mut self, (family, of, labels): (&str, &str, &str), kind: Kind, value: f64, elapsed: f64) {
        if !value.is_finite() {
            return;
        }
        let (name, is_full) = ([family, of, labels].concat(), self.series.len() == SERIES_MAX);
        let series = match self.series.entry(name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => {
                self.left_out += 1;
                return;
            }
            Entry::Vacant(place) => {
                let values = std::iter::repeat_n(f32::NAN, self.taken + 1).collect();
                place.insert(Series { counted: None, values })
            }
        };
        let told = if kind == Kind::Gauge {
            value as f32
        } else {
            // One that went back began anew.
            let grown = series.counted.map(|before| if value < before { value } else { value - before });
            series.counted = Some(value);
            grown.map_or(f32::NAN, |grown| (grown / elapsed) as f32)
        };
        *series.values.back_mut().expect("each has a place for this sample") = told;
    }

    /// Seconds between samples, and each series from its oldest sample on: null where nothing was said.
    pub(super) fn json(&self) -> Value {
        let values = |series: &Series| -> Vec<Value> {
            let shorter = |value: f32| format!("{value:.4e}").parse::<f64>().ok();
            series.values.iter().map(|value| shorter(*value).filter(|v| v.is_finite()).into()).collect()
        };
        let series: serde_json::Map<String, Value> =
            self.series.iter().map(|(name, series)| (name.clone(), values(series).into())).collect();
        json!({ "interval_seconds": INTERVAL.as_secs(), "left_out": self.left_out, "series": series })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Buckets;

    crate::families! { "millrace_test_";
        CALLS counter "calls" count ["method"] "Calls by method.";
        LEVEL gauge "level" count ["of"] "How much there is.";
        TIME histogram "call" seconds [] "How long they took.";
        OF_ONE counter "of_one" count ["connection"] "Of a connection.";
    }

    fn page(write: impl FnOnce(&mut Page)) -> Page {
        let mut page = Page::default();
        write(&mut page);
        page
    }

    #[test]
    fn counters_are_rates_and_gauges_are_values() {
        let mut history = History::default();
        let sum = |sum| Buckets { steps: vec![(1.0, 1)], count: 4, sum };
        let later = Buckets { steps: vec![(1.0, 2)], count: 5, sum: 2.0 };
        let first = page(|page| {
            page.add(CALLS, &["a\"b"], 10_u64);
            page.add(LEVEL, &["x"], 3_u64);
            page.add_buckets(TIME, &[], &sum(1.0));
            page.add(OF_ONE, &["1"], 9_u64);
            page.add(REGISTER, &["a.b", "count"], 1_u64);
        });
        let second = page(|page| {
            page.add(CALLS, &["a\"b"], 60_u64);
            page.add(LEVEL, &["x"], 4.5);
            page.add_buckets(TIME, &[], &later);
        });
        let third = page(|page| {
            page.add(CALLS, &["a\"b"], 20_u64);
            page.add(LEVEL, &["new"], f64::INFINITY);
            page.add(LEVEL, &["y"], 1_u64);
        });
        [first, second, third].iter().for_each(|page| history.sample(page, 10.0));
        let series = &history.json()["series"];
        assert_eq!(
            series[r#"millrace_test_calls_total{method="a\"b"}"#],
            json!([null, 5.0, 2.0]),
            "it began anew at last: {series}"
        );
        assert_eq!(series[r#"millrace_test_level{of="x"}"#], json!([3.0, 4.5, null]));
        assert_eq!(series["millrace_test_call_seconds_sum"], json!([null, 0.1, null]));
        assert_eq!(series["millrace_test_call_seconds_count"], json!([null, 0.1, null]));
        assert_eq!(series["millrace_test_call_seconds_p50"], json!([null, 0.5, null]));
        assert_eq!(series["millrace_test_call_seconds_p99"], json!([null, 0.99, null]));
        assert_eq!(series[r#"millrace_test_level{of="y"}"#], json!([null, null, 1.0]));
        assert_eq!(series.as_object().map(serde_json::Map::len), Some(7), "{series}");
    }

    #[test]
    fn an_hour_is_kept_and_what_is_gone_goes() {
        let mut history = History::default();
        history.sample(&page(|page| page.add(LEVEL, &["once"], 1_u64)), 10.0);
        for number in 0..SAMPLES + 5 {
            history.sample(&page(|page| page.add(LEVEL, &["x"], number)), 10.0);
        }
        let json = history.json();
        let values = json["series"][r#"millrace_test_level{of="x"}"#].as_array().expect("a list");
        assert_eq!((values.len(), &values[0], &values[SAMPLES - 1]), (SAMPLES, &json!(5.0), &json!(364.0)));
        assert_eq!(json["series"].as_object().map(serde_json::Map::len), Some(1));
    }

    #[test]
    fn series_are_bounded() {
        let mut history = History::default();
        let many = page(|page| {
            (0..SERIES_MAX + 10).for_each(|n| page.add(LEVEL, &[&n.to_string()], 1_u64));
        });
        history.sample(&many, 10.0);
        history.sample(&many, 10.0);
        assert_eq!((history.series.len(), history.left_out), (SERIES_MAX, 20));
    }
}
