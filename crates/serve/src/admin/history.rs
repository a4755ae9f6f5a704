//! The last hour of a process's metrics, for its live page: who opens it sees what was before.
//!
//! Every [`INTERVAL`] the page of metrics is read as any scraper would read it. Of counters what is kept is how much they grew a second, of gauges their
//! value. Buckets of histograms and what single connections counted are not kept: a mean is told by `_sum` and `_count`, and connections come and go.
//!
//! Bounds: [`SERIES_MAX`] series, the first that were seen; [`SAMPLES`] numbers of four bytes each: 1.5 MB at most, 0.2 MB in a node.

use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Samples of each series: an hour.
const SAMPLES: usize = 360;
/// Series at most.
const SERIES_MAX: usize = 1024;

/// A sample with its labels, over time.
#[derive(Debug)]
struct Series {
    /// What the counter had at the last sample; none of a gauge.
    counted: Option<f64>,
    /// From the oldest on; not a number where nothing was said.
    values: VecDeque<f32>,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct History {
    series: HashMap<String, Series>,
    /// Samples that were taken, [`SAMPLES`] at most.
    taken: usize,
    /// Series for which there was no room.
    left_out: u64,
}

/// Whether it only grows.
fn is_counter(name: &str) -> bool {
    ["_total", "_count", "_sum"].iter().any(|end| name.ends_with(end))
}

/// Name with labels, and value, of what is kept of a line.
fn kept(line: &str) -> Option<(&str, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let name = series.split('{').next()?;
    let is_left_out = line.starts_with('#') || name.ends_with("_bucket") || series.contains("connection=\"");
    let value: f64 = value.parse().ok()?;
    (!is_left_out && value.is_finite()).then_some((series, value))
}

impl History {
    /// Adds a sample: the page of metrics, `elapsed` seconds after the one before.
    pub(super) fn sample(&mut self, page: &str, elapsed: f64) {
        for series in self.series.values_mut() {
            series.values.push_back(f32::NAN);
        }
        for (name, value) in page.lines().filter_map(kept) {
            if !self.series.contains_key(name) {
                if self.series.len() == SERIES_MAX {
                    self.left_out += 1;
                    continue;
                }
                let values = std::iter::repeat_n(f32::NAN, self.taken + 1).collect();
                self.series.insert(name.to_owned(), Series { counted: None, values });
            }
            let series = self.series.get_mut(name).expect("it is there now");
            let told = if is_counter(name.split('{').next().unwrap_or(name)) {
                // One that went back began anew.
                let grown = series.counted.map(|before| if value < before { value } else { value - before });
                series.counted = Some(value);
                grown.map_or(f32::NAN, |grown| (grown / elapsed) as f32)
            } else {
                value as f32
            };
            *series.values.back_mut().expect("each has a place for this sample") = told;
        }
        self.taken = (self.taken + 1).min(SAMPLES);
        let taken = self.taken;
        self.series.retain(|_, series| {
            series.values.drain(..series.values.len() - taken);
            series.values.iter().any(|value| !value.is_nan()) || series.counted.is_some()
        });
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
    use proptest::prelude::*;

    #[test]
    fn counters_are_rates_and_gauges_are_values() {
        let mut history = History::default();
        history.sample("# TYPE a counter\na_total{x=\"1\"} 10\ng 3\nh_bucket{le=\"1\"} 4\nh_sum 1\nc{connection=\"1\"} 9\n", 10.0);
        history.sample("a_total{x=\"1\"} 60\ng 4.5\nh_sum 2\n", 10.0);
        history.sample("a_total{x=\"1\"} 20\nnew 1\n", 10.0);
        let series = &history.json()["series"];
        assert_eq!(series["a_total{x=\"1\"}"], json!([null, 5.0, 2.0]), "which began anew at last");
        assert_eq!((&series["g"], &series["h_sum"]), (&json!([3.0, 4.5, null]), &json!([null, 0.1, null])));
        assert_eq!(series["new"], json!([null, null, 1.0]));
        assert_eq!(series.as_object().map(serde_json::Map::len), Some(4));
    }

    #[test]
    fn an_hour_is_kept_and_what_is_gone_goes() {
        let mut history = History::default();
        history.sample("once 1\n", 10.0);
        for number in 0..SAMPLES + 5 {
            history.sample(&format!("g {number}\n"), 10.0);
        }
        let json = history.json();
        let values = json["series"]["g"].as_array().expect("a list");
        assert_eq!((values.len(), &values[0], &values[SAMPLES - 1]), (SAMPLES, &json!(5.0), &json!(364.0)));
        assert_eq!(json["series"].get("once"), None);
    }

    #[test]
    fn series_are_bounded() {
        let mut history = History::default();
        let page: String = (0..SERIES_MAX + 10).map(|n| format!("g{{n=\"{n}\"}} 1\n")).collect();
        history.sample(&page, 10.0);
        assert_eq!((history.series.len(), history.left_out), (SERIES_MAX, 10));
    }

    proptest! {
        #[test]
        fn any_page_is_a_sample(pages in proptest::collection::vec("(a|_total|\\{|\\}|\"| |1|#|NaN|\n|é){0,60}", 0..4)) {
            let mut history = History::default();
            pages.iter().for_each(|page| history.sample(page, 10.0));
            let _ = history.json();
        }
    }
}
