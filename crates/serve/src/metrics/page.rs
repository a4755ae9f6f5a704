//! Samples of one moment: counted when somebody asks, gathered family by family, written as Prometheus' text or as OpenMetrics by `prometheus-client`.
//!
//! Invariants: a family's head is written once, before all its samples; a family without samples is not on the page.
//!
//! Sources: <https://prometheus.io/docs/instrumenting/exposition_formats/>;
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>.

use super::{Buckets, Family, Kind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// What a page is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics' text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that the header `Accept` of a request wants more; Prometheus' text if it says nothing of either.
    pub fn accepted(accept: &str) -> Format {
        let weight = |name: &str| {
            let of = |range: &str| {
                let mut parts = range.split(';').map(str::trim);
                let is_it = parts.next().is_some_and(|media| media.eq_ignore_ascii_case(name));
                let weight =
                    parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
                weight.filter(|_| is_it)
            };
            accept.split(',').filter_map(of).fold(0.0_f32, f32::max)
        };
        match weight("application/openmetrics-text") {
            open if open > 0.0 && open >= weight("text/plain") => Format::OpenMetrics,
            _ => Format::Prometheus,
        }
    }

    /// The type of a page, for HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => prometheus_text::CONTENT_TYPE,
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count, exact.
    Whole(u64),
    /// Seconds, a ratio.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Number {
        Number::Whole(number as u64)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Number {
        Number::Whole(number.into())
    }
}

impl From<bool> for Number {
    fn from(is: bool) -> Number {
        Number::Whole(is.into())
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

impl Number {
    /// As it is written: a whole one without a point, wherever it came from.
    fn written(self) -> Number {
        match self {
            Number::Real(real) if real.fract() == 0.0 && (0.0..9e15).contains(&real) => {
                Number::Whole(real as u64)
            }
            other => other,
        }
    }
}

/// What a sample says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(Number),
    /// Of a histogram.
    Buckets(Buckets),
}

/// A sample: names and values of its labels, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The service's first, where a process has several.
    pub labels: Vec<(&'static str, Arc<str>)>,
    /// What it says.
    pub value: Value,
}

/// Samples of one moment.
#[derive(Debug, Default)]
pub struct Page {
    /// In the order in which they were first met.
    families: Vec<(&'static Family, Vec<Sample>)>,
    /// Of which service the samples are that come.
    service: Option<Arc<str>>,
}

impl Page {
    /// Samples from now on are of this service, and say so by a label; of none: of the process, or of its only service.
    pub fn set_service(&mut self, name: Option<&str>) {
        self.service = name.map(Arc::from);
    }

    /// Adds a sample of a counter or gauge; `labels` are values, one for each name that the family has.
    pub fn add(&mut self, family: &'static Family, labels: &[&str], value: impl Into<Number>) {
        debug_assert_ne!(family.kind, Kind::Histogram, "{}", family.name);
        self.sample(family, labels, Value::Number(value.into()));
    }

    /// Adds a distribution to a histogram.
    pub fn add_buckets(&mut self, family: &'static Family, labels: &[&str], buckets: &Buckets) {
        debug_assert_eq!(family.kind, Kind::Histogram, "{}", family.name);
        self.sample(family, labels, Value::Buckets(buckets.clone()));
    }

    fn sample(&mut self, family: &'static Family, values: &[&str], value: Value) {
        debug_assert_eq!(family.labels.len(), values.len(), "{}", family.name);
        let known = self.families.iter().position(|(other, _)| other.name == family.name);
        let at = known.unwrap_or_else(|| {
            self.families.push((family, Vec::new()));
            self.families.len() - 1
        });
        let own = self.service.iter().map(|service| ("service", Arc::clone(service)));
        let named = family.labels.iter().zip(values).map(|(name, value)| (*name, Arc::from(*value)));
        let labels = own.chain(named).collect();
        self.families[at].1.push(Sample { labels, value });
    }

    /// Families in the order in which they were first met, with their samples.
    pub fn families(&self) -> impl Iterator<Item = (&'static Family, &[Sample])> {
        self.families.iter().map(|(family, samples)| (*family, &samples[..]))
    }

    /// As Prometheus' text.
    pub fn text(self) -> String {
        self.written(Format::Prometheus)
    }

    /// The page. A family that has no samples is not on it.
    pub fn written(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        match format {
            Format::Prometheus => prometheus_text::encode(&mut out, &registry),
            Format::OpenMetrics => text::encode(&mut out, &registry),
        }
        .expect("writing to a string does not fail");
        out
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (family, samples) in self.families() {
            let (kind, unit) =
                (MetricType::from(family.kind), family.unit.map(|unit| Unit::Other(unit.to_owned())));
            let mut described =
                encoder.encode_descriptor(family.base_name(), family.help, unit.as_ref(), kind)?;
            for Sample { labels, value } in samples {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (*name, &**value)).collect();
                let labels = &labels[..];
                let mut labelled = described.encode_family(&labels)?;
                match (value, family.kind) {
                    (Value::Buckets(buckets), _) => labelled.encode_histogram::<NoLabelSet>(
                        buckets.sum,
                        buckets.count,
                        &buckets.each(),
                        None,
                    ),
                    (Value::Number(number), Kind::Counter) => match number.written() {
                        Number::Whole(count) => labelled.encode_counter::<NoLabelSet, _, u64>(&count, None),
                        Number::Real(sum) => labelled.encode_counter::<NoLabelSet, _, u64>(&sum, None),
                    },
                    (Value::Number(number), _) => match number.written() {
                        Number::Whole(level) => labelled.encode_gauge(&level),
                        Number::Real(level) => labelled.encode_gauge(&level),
                    },
                }?;
            }
        }
        Ok(())
    }
}

impl From<Kind> for MetricType {
    fn from(kind: Kind) -> MetricType {
        match kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    crate::families! { "millrace_test_";
        CALLS counter "calls" count ["method"] "Calls by method.";
        OPEN gauge "open" count [] "Open now.";
        TIME histogram "call" seconds ["method"] "How long they took.";
    }

    fn page() -> Page {
        let mut page = Page::default();
        page.add(CALLS, &["a\"b\\c\nd"], 7u64);
        page.add(OPEN, &[], true);
        page.add(CALLS, &["b"], 1.5);
        let times = Buckets { steps: vec![(0.001, 1), (0.1, 2)], count: 3, sum: 4.5 };
        page.add_buckets(TIME, &["b"], &times);
        page
    }

    #[test]
    fn samples_are_gathered_by_family_and_escaped() {
        let text = page().text();
        assert_eq!(
            text,
            r#"# HELP millrace_test_calls_total Calls by method.
# TYPE millrace_test_calls_total counter
millrace_test_calls_total{method="a\"b\\c\nd"} 7
millrace_test_calls_total{method="b"} 1.5
# HELP millrace_test_open Open now.
# TYPE millrace_test_open gauge
millrace_test_open 1
# HELP millrace_test_call_seconds How long they took.
# TYPE millrace_test_call_seconds histogram
millrace_test_call_seconds_bucket{method="b",le="0.001"} 1
millrace_test_call_seconds_bucket{method="b",le="0.1"} 2
millrace_test_call_seconds_bucket{method="b",le="+Inf"} 3
millrace_test_call_seconds_sum{method="b"} 4.5
millrace_test_call_seconds_count{method="b"} 3
"#
        );
        lint::hold(&text);
    }

    #[test]
    fn openmetrics_names_families_without_total_and_says_units_and_the_end() {
        let text = page().written(Format::OpenMetrics);
        for line in [
            "# TYPE millrace_test_calls counter",
            "millrace_test_calls_total{method=\"b\"} 1.5",
            "# TYPE millrace_test_call_seconds histogram",
            "# UNIT millrace_test_call_seconds seconds",
            "millrace_test_call_seconds_bucket{le=\"+Inf\",method=\"b\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn a_reader_gets_the_format_that_it_wants_more() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html,application/xhtml+xml", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
                Format::OpenMetrics,
            ),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text;q=much", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    proptest::proptest! {
        /// Clients send the header: whatever it says is no reason to panic.
        #[test]
        fn any_header_is_understood(accept in "(application/openmetrics-text|text/plain|;|q=|,|0|[.]|9|nan|inf|-| |é){0,20}") {
            let _ = Format::accepted(&accept);
        }
    }

    #[test]
    fn services_share_a_family_and_are_told_apart() {
        let mut page = Page::default();
        for name in ["cache", "sess\"ions"] {
            page.set_service(Some(name));
            page.add(OPEN, &[], true);
            page.add(CALLS, &["get"], 7u64);
            page.add_buckets(TIME, &["get"], &Buckets { steps: vec![], count: 1, sum: 0.5 });
        }
        page.set_service(None);
        page.add(CALLS, &["get"], 1u64);
        let text = page.text();
        lint::hold(&text);
        for sample in [
            "millrace_test_open{service=\"cache\"} 1",
            "millrace_test_open{service=\"sess\\\"ions\"} 1",
            "millrace_test_calls_total{service=\"cache\",method=\"get\"} 7",
            "millrace_test_calls_total{method=\"get\"} 1",
            "millrace_test_call_seconds_count{service=\"cache\",method=\"get\"} 1",
        ] {
            assert!(text.contains(sample), "{sample} in\n{text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 3);
    }
}
