//! A page of metrics: samples are added in any order, and written family by family in Prometheus text format 0.0.4.
//!
//! Invariants: a family's head is written once, before all its samples; label values are escaped as the format wants it.
//!
//! Sources: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use super::{Buckets, Family, Kind};
use std::fmt::{self, Write as _};

/// The type of a page, for HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Real(number) if number.is_infinite() && *number > 0.0 => f.write_str("+Inf"),
            Number::Real(number) => number.fmt(f),
        }
    }
}

/// Samples of one moment.
#[derive(Debug, Default)]
pub struct Page {
    /// In the order in which they were first met, each with its samples' lines.
    families: Vec<(&'static Family, String)>,
    /// Of which service the samples are that come.
    service: Option<String>,
}

impl Page {
    /// Samples from now on are of this service, and say so by a label; of none: of the process, or of its only service.
    pub fn set_service(&mut self, name: Option<&str>) {
        self.service = name.map(str::to_owned);
    }

    /// Adds a sample of a counter or gauge; `labels` are values, one for each name that the family has.
    pub fn add(&mut self, family: &'static Family, labels: &[&str], value: impl Into<Number>) {
        debug_assert_ne!(family.kind, Kind::Histogram, "{}", family.name);
        self.sample(family, "", labels, None, value.into());
    }

    /// Adds a distribution to a histogram.
    pub fn add_buckets(&mut self, family: &'static Family, labels: &[&str], buckets: &Buckets) {
        debug_assert_eq!(family.kind, Kind::Histogram, "{}", family.name);
        for (end, count) in &buckets.steps {
            self.sample(family, "_bucket", labels, Some(Number::Real(*end)), (*count).into());
        }
        self.sample(family, "_bucket", labels, Some(Number::Real(f64::INFINITY)), buckets.count.into());
        self.sample(family, "_sum", labels, None, buckets.sum.into());
        self.sample(family, "_count", labels, None, buckets.count.into());
    }

    fn sample(
        &mut self,
        family: &'static Family,
        suffix: &str,
        values: &[&str],
        end: Option<Number>,
        value: Number,
    ) {
        debug_assert_eq!(family.labels.len(), values.len(), "{}", family.name);
        let known = self.families.iter().position(|(other, _)| other.name == family.name);
        let at = known.unwrap_or_else(|| {
            self.families.push((family, String::new()));
            self.families.len() - 1
        });
        let out = &mut self.families[at].1;
        let _ = write!(out, "{}{suffix}", family.name);
        let own = self.service.as_deref().map(|service| ("service", Label(service)));
        let named = family.labels.iter().zip(values).map(|(name, value)| (*name, Label(value)));
        let named = own.into_iter().chain(named);
        let mut before = '{';
        for (name, value) in named {
            let _ = write!(out, "{before}{name}=\"{value}\"");
            before = ',';
        }
        if let Some(end) = end {
            let _ = write!(out, "{before}le=\"{end}\"");
            before = ',';
        }
        let _ = writeln!(out, "{} {value}", if before == ',' { "}" } else { "" });
    }

    /// The text. A family that has no samples is not on it.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(self.families.iter().map(|(_, lines)| lines.len() + 200).sum());
        for (family, lines) in &self.families {
            let Family { name, kind, help, .. } = family;
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
            out.push_str(lines);
        }
        out
    }
}

/// A label's value, escaped.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' | '"' => write!(f, "\\{c}"),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    crate::families! { "millrace_test_";
        CALLS counter "calls" count ["method"] "Calls\nby method.";
        OPEN gauge "open" count [] "Open now.";
        TIME histogram "call" seconds ["method"] "How long they took.";
    }

    #[test]
    fn samples_are_gathered_by_family_and_escaped() {
        let mut page = Page::default();
        page.add(CALLS, &["a\"b\\c\nd"], 7u64);
        page.add(OPEN, &[], true);
        page.add(CALLS, &["b"], 1.5);
        let times = Buckets { steps: vec![(0.001, 1), (0.1, 2)], count: 3, sum: 4.5 };
        page.add_buckets(TIME, &["b"], &times);
        let text = page.text();
        assert_eq!(
            text,
            r#"# HELP millrace_test_calls_total Calls\nby method.
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
