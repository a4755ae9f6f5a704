//! A trace as text: a bar for each span, over the time of the whole; microseconds since its beginning.

use super::read::{Span, Trace};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Characters of a bar that takes all of the time.
const WIDTH: u64 = 40;

/// A line for the trace, one for each span.
pub fn text(trace: &Trace) -> String {
    let (begin, spent) = (trace.begin_ns(), trace.spent_ns());
    let mut out = format!("trace {}   {} us\n", trace.id, micros(spent));
    let widest = |of: fn(&Span) -> usize| trace.spans.iter().map(of).max().unwrap_or_default();
    let names = widest(|span| 2 * span.depth + span.name.chars().count());
    let places = widest(|span| span.place.chars().count());
    for span in &trace.spans {
        let at = span.begin_ns - begin;
        let name = format!("{:indent$}{}", "", span.name, indent = 2 * span.depth);
        let failed = if span.outcome == "OK" { String::new() } else { format!("   {}", span.outcome) };
        let whose = match span.service.as_str() {
            "" => span.thread.clone(),
            service => format!("{service}/{}", span.thread),
        };
        let _ = writeln!(
            out,
            "  {name:names$}  {:places$}  |{}|{:>11} +{:>11}   {whose}{failed}",
            span.place,
            bar(at, span.spent_ns, spent),
            micros(at),
            micros(span.spent_ns),
        );
    }
    out
}

/// Where `spent` from `at` on lies in `all`; at least one character of it is to be seen.
fn bar(at: u64, spent: u64, all: u64) -> String {
    let column = |time: u64| (u128::from(time) * u128::from(WIDTH) / u128::from(all.max(1))) as u64;
    let first = column(at).min(WIDTH - 1);
    let last = column(at + spent).clamp(first + 1, WIDTH);
    let draw = |n: u64, with: &str| with.repeat(n as usize);
    [draw(first, " "), draw(last - first, "#"), draw(WIDTH - last, " ")].concat()
}

/// Microseconds with three digits, which is exact.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// Traces for programs; times in nanoseconds, those of spans since the trace began.
pub fn json(traces: &[Trace]) -> Value {
    let span = |trace: &Trace, span: &Span| {
        json!({
            "name": span.name, "service": span.service, "place": span.place, "thread": span.thread, "depth": span.depth,
            "begin_ns": span.begin_ns - trace.begin_ns(), "spent_ns": span.spent_ns, "outcome": span.outcome,
        })
    };
    let one = |trace: &Trace| {
        let spans: Vec<Value> = trace.spans.iter().map(|one| span(trace, one)).collect();
        json!({ "trace": trace.id, "spent_ns": trace.spent_ns(), "spans": spans })
    };
    traces.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::some;
    use super::*;

    #[test]
    fn a_trace_is_drawn_to_scale() {
        let traces = some();
        let text = text(&traces[0]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("   100.000 us"), "{text}");
        assert_eq!(
            lines[1..],
            [
                "  infer        edge    |########################################|      0.000 +    100.000   rank/edge-0",
                "    task       engine  |#######################                 |      1.500 +     57.500   rank/engine",
                "      running  host    |################                        |      2.000 +     38.250   rank/host-0   panicked",
            ],
            "{text}"
        );
        let json = json(&traces);
        assert_eq!(
            (&json[0]["spans"][2]["begin_ns"], &json[1]["spans"][0]["name"]),
            (&2_000.into(), &"get".into())
        );
    }

    #[test]
    fn every_bar_can_be_seen() {
        for (at, spent, all) in [(0, 0, 0), (100, 0, 100), (0, 0, 100), (99, 1, 100), (0, u64::MAX, u64::MAX)]
        {
            let bar = bar(at, spent, all);
            assert!(bar.len() as u64 == WIDTH && bar.contains('#'), "{bar:?}");
        }
    }
}
