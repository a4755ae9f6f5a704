//! The report as Prometheus text.
//!
//! Every number in the JSON report becomes `millrace_<path>`, so a counter added to the report is in the metrics at once.
//! Engine stages become summaries with quantiles, registers one gauge family with the register's name as label.

use super::shared::Report;
use crate::node::registers::Shown;
use serde_json::Value;
use std::fmt::Write;

/// What goes up and down; everything else in the report only grows.
const GAUGES: &[&str] =
    &["curr_", "_bytes", "uptime", "items", "segments", "buckets", "connections", "limit", "pid"];

/// Prometheus text format 0.0.4.
pub fn text(report: &Report, registers: &[Shown]) -> String {
    let mut out = String::with_capacity(16 << 10);
    let value = serde_json::to_value(report).expect("a report of numbers and strings is JSON");
    flatten(&mut out, "millrace", &value);
    out.push_str("# TYPE millrace_stage_nanoseconds summary\n");
    for stage in &report.stages {
        for (quantile, ns) in [("0.5", stage.p50_ns), ("0.99", stage.p99_ns)] {
            let _ = writeln!(
                out,
                "millrace_stage_nanoseconds{{stage=\"{}\",quantile=\"{quantile}\"}} {ns}",
                stage.name
            );
        }
        let _ =
            writeln!(out, "millrace_stage_nanoseconds_sum{{stage=\"{}\"}} {}", stage.name, stage.total_ns());
        let _ = writeln!(out, "millrace_stage_nanoseconds_count{{stage=\"{}\"}} {}", stage.name, stage.count);
    }
    out.push_str("# HELP millrace_register The registers of this node.\n# TYPE millrace_register gauge\n");
    for register in registers {
        let _ = writeln!(
            out,
            "millrace_register{{name=\"{}\",unit=\"{}\"}} {}",
            register.name, register.unit, register.number
        );
    }
    out
}

fn flatten(out: &mut String, path: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| *name != "stages") {
                flatten(out, &format!("{path}_{name}"), field);
            }
        }
        Value::Number(number) => {
            let kind = if GAUGES.iter().any(|part| path.contains(part)) { "gauge" } else { "counter" };
            let _ = writeln!(out, "# TYPE {path} {kind}\n{path} {number}");
        }
        Value::Bool(on) => {
            let _ = writeln!(out, "# TYPE {path} gauge\n{path} {}", u8::from(*on));
        }
        Value::String(text) => {
            let clean = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
            let _ = writeln!(out, "# TYPE {path}_info gauge\n{path}_info{{value=\"{clean}\"}} 1");
        }
        Value::Array(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let text = text(&Report::default(), &crate::node::registers::Registers::default().show());
        assert!(text.contains("millrace_net_bytes_read 0"));
        assert!(text.contains("millrace_register{name=\"engine.group\",unit=\"count\"} 16"));
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (name, number) = line.rsplit_once(' ').expect(line);
            assert!(name.starts_with("millrace_"), "{line}");
            assert!(number.parse::<f64>().is_ok(), "{line}");
        }
    }
}
