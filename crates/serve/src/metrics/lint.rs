//! The rules that every page of metrics keeps: Prometheus' own and its naming practice. Text in, findings out.
//!
//! Sources: <https://prometheus.io/docs/practices/naming/>; what `promtool check metrics` refuses.

use std::collections::{BTreeMap, BTreeSet};

/// Names of units that are no base units, as parts of a name.
const NOT_BASE: &[&str] = &[
    "ns",
    "nanos",
    "nanoseconds",
    "us",
    "micros",
    "microseconds",
    "ms",
    "millis",
    "milliseconds",
    "minutes",
    "hours",
    "kb",
    "mb",
    "gb",
    "kib",
    "mib",
    "gib",
    "kilobytes",
    "megabytes",
    "percent",
];
/// Base units, which stand at the end.
const UNITS: &[&str] = &["seconds", "bytes", "ratio"];

/// What is known of the family whose samples are read.
#[derive(Default)]
struct Head {
    name: String,
    kind: String,
    has_help: bool,
}

/// What is wrong with a page.
pub fn findings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut head, mut families, mut series) = (Head::default(), BTreeSet::new(), BTreeSet::new());
    let mut histograms: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if help.trim().is_empty() {
                found.push(format!("{name} has no help"));
            }
            // OpenMetrics has them escaped, and Prometheus' text not all of them: nothing needs them.
            if help.contains(['"', '\\']) {
                found.push(format!("{name}: a quotation mark or a backslash in its help"));
            }
            head = Head { name: name.to_owned(), has_help: true, ..Head::default() };
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            if !head.has_help || head.name != name || !head.kind.is_empty() {
                found.push(format!("{name} has no HELP before its TYPE"));
            }
            if !families.insert(name.to_owned()) {
                found.push(format!("{name} has a second TYPE"));
            }
            head = Head { name: name.to_owned(), kind: kind.to_owned(), has_help: head.has_help };
            found.extend(name_findings(name, kind));
        } else if !line.starts_with('#') {
            match sample(line) {
                Ok((name, labels, value)) => {
                    let suffix = name.strip_prefix(&*head.name);
                    let allowed: &[&str] =
                        if head.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                    if head.kind.is_empty() || !suffix.is_some_and(|suffix| allowed.contains(&suffix)) {
                        found.push(format!("no TYPE of its own right before: {line}"));
                    }
                    if !series.insert(format!("{name}{labels:?}")) {
                        found.push(format!("twice: {line}"));
                    }
                    if head.kind == "histogram" && suffix == Some("_bucket") {
                        let (ends, others): (Vec<_>, Vec<_>) =
                            labels.into_iter().partition(|(name, _)| name == "le");
                        let end = ends.first().and_then(|(_, end)| end.replace("+Inf", "inf").parse().ok());
                        match end {
                            Some(end) => {
                                histograms.entry(format!("{name}{others:?}")).or_default().push((end, value))
                            }
                            None => found.push(format!("no le: {line}")),
                        }
                    }
                }
                Err(why) => found.push(format!("{why}: {line}")),
            }
        }
    }
    for (name, steps) in histograms {
        let rises = steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        if !rises || steps.last().is_none_or(|(end, _)| end.is_finite()) {
            found.push(format!("{name} does not rise to +Inf"));
        }
    }
    found
}

/// Fails with all findings.
pub fn hold(text: &str) {
    let found = findings(text);
    assert!(found.is_empty(), "{}\nin\n{text}", found.join("\n"));
}

fn name_findings(name: &str, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is = |wrong: bool, why: &str| {
        if wrong {
            found.push(format!("{name} ({kind}): {why}"));
        }
    };
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    is(name.is_empty() || !name.chars().all(good), "lower-case letters, digits and underscores only");
    is(
        !name.starts_with("millrace_") && !name.starts_with("process_"),
        "it begins with neither millrace_ nor process_",
    );
    is(!["counter", "gauge", "histogram"].contains(&kind), "no such type");
    is((kind == "counter") != name.ends_with("_total"), "counters end in _total, and nothing else does");
    let parts: Vec<&str> = name.strip_suffix("_total").unwrap_or(name).split('_').collect();
    is(parts.iter().any(|part| part.is_empty()), "an empty part");
    is(parts.iter().any(|part| NOT_BASE.contains(part)), "a unit that is no base unit");
    let (last, before) = parts.split_last().expect("there is one part at least");
    is(before.iter().any(|part| UNITS.contains(part)), "the unit is not at the end");
    is(kind == "histogram" && !UNITS.contains(last), "a histogram without unit");
    found
}

type Sample = (String, Vec<(String, String)>, f64);

/// Name, labels and value of a line.
fn sample(line: &str) -> Result<Sample, String> {
    let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
    let value = value.replace("+Inf", "inf").parse().map_err(|_| "the value is no number")?;
    let Some((name, rest)) = series.split_once('{') else {
        return Ok((series.to_owned(), Vec::new(), value));
    };
    let mut rest = rest.strip_suffix('}').ok_or("the labels do not end")?;
    let mut labels: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").ok_or("a label without value")?;
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if label.is_empty() || label.starts_with(|c: char| c.is_ascii_digit()) || !label.chars().all(good) {
            return Err(format!("{label:?} is no name of a label"));
        }
        if labels.iter().any(|(known, _)| known == label) {
            return Err(format!("label {label} twice"));
        }
        let (mut content, mut chars, mut end) = (String::new(), after.char_indices(), None);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('\\' | '"' | 'n'))) => content.extend(['\\', escaped]),
                    _ => return Err("a bad escape".to_owned()),
                },
                c => content.push(c),
            }
        }
        labels.push((label.to_owned(), content));
        let after = &after[end.ok_or("a value without end")?..];
        rest = match after.strip_prefix(',') {
            Some(more) => more,
            None if after.is_empty() => after,
            None => return Err("no comma between labels".to_owned()),
        };
    }
    Ok((name.to_owned(), labels, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rule, with a page that breaks it and no other.
    #[test]
    fn each_rule_can_fail() {
        let head = |name: &str, kind: &str| format!("# HELP {name} Help.\n# TYPE {name} {kind}\n");
        let gauge = |rest: &str| format!("{}{rest}\n", head("millrace_x", "gauge"));
        let hist = |rest: &str| format!("{}{rest}", head("millrace_x_seconds", "histogram"));
        let bucket = |end: &str, count: u8| format!("millrace_x_seconds_bucket{{le=\"{end}\"}} {count}\n");
        for (text, part) in [
            ("# HELP millrace_x \n# TYPE millrace_x gauge\n".to_owned(), "no help"),
            ("# HELP millrace_x The \"x\".\n# TYPE millrace_x gauge\n".to_owned(), "quotation mark"),
            ("# TYPE millrace_x gauge\n".to_owned(), "no HELP"),
            (head("millrace_x", "gauge") + &head("millrace_x", "gauge"), "second TYPE"),
            (head("millrace_X", "gauge"), "lower-case"),
            (head("other_x", "gauge"), "neither"),
            (head("millrace_x", "untyped"), "no such type"),
            (head("millrace_x", "counter"), "_total"),
            (head("millrace_x_total", "gauge"), "_total"),
            (head("millrace_x__y", "gauge"), "empty part"),
            (head("millrace_x_ns", "gauge"), "no base unit"),
            (head("millrace_stage_nanoseconds_total", "counter"), "no base unit"),
            (head("millrace_used_percent", "gauge"), "no base unit"),
            (head("millrace_bytes_read_total", "counter"), "not at the end"),
            (head("millrace_x", "histogram"), "without unit"),
            ("millrace_x 1\n".to_owned(), "right before"),
            (gauge("millrace_y 1"), "right before"),
            (gauge("millrace_x_bucket 1"), "right before"),
            (gauge("millrace_x{a=\"1\"} 1\nmillrace_x{a=\"1\"} 2"), "twice"),
            (gauge("millrace_x"), "no value"),
            (gauge("millrace_x one"), "no number"),
            (gauge("millrace_x{a=\"1\" 1"), "do not end"),
            (gauge("millrace_x{a=1} 1"), "without value"),
            (gauge("millrace_x{1a=\"1\"} 1"), "no name of a label"),
            (gauge("millrace_x{a=\"1\",a=\"2\"} 1"), "label a twice"),
            (gauge("millrace_x{a=\"\\t\"} 1"), "bad escape"),
            (gauge("millrace_x{a=\"1} 1"), "without end"),
            (gauge("millrace_x{a=\"1\"b=\"2\"} 1"), "no comma"),
            (hist("millrace_x_seconds_bucket 1\n"), "no le"),
            (hist(&bucket("1", 1)), "does not rise"),
            (hist(&(bucket("2", 1) + &bucket("1", 1) + &bucket("+Inf", 1))), "does not rise"),
            (hist(&(bucket("1", 2) + &bucket("+Inf", 1))), "does not rise"),
        ] {
            let found = findings(&text);
            assert!(
                matches!(&found[..], [one] if one.contains(part)),
                "{part} alone, not {found:?}, in\n{text}"
            );
        }
        hold(&hist(&(bucket("1", 1) + &bucket("+Inf", 2))));
        hold(&gauge("millrace_x{a=\"1, \\\"2\\\" }\"} 1\nmillrace_x{a=\"2\"} 1e-7"));
    }
}
