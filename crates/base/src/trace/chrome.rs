//! Spans as Chrome trace events: JSON that Perfetto and chrome://tracing open.
//!
//! ```text
//! process  a service      rows    its threads: edge-0, engine, host-0; where several requests are under way on one at the same time,
//!                                 further rows of the same thread, edge-0 (2)
//! ```
//! Why several rows: events of one row must lie in each other or apart. Spans of one trace that lie in each other share a row, and so are
//! drawn one below the other; requests that overlap do not.
//!
//! Times are microseconds with three digits, which is exact.

use super::Span;
use crate::Nanos;
use crate::json::Text;
use std::collections::HashMap;
use std::fmt::Write;

/// The name of what begins of events are to be advanced by, in nanoseconds.
pub const MONOTONIC: &str = "monotonic_ns";

/// How deep parents are looked for, so that numbers that lead in a circle end.
const DEPTH_MAX: usize = 64;

/// The events, as one JSON object. `monotonic` is what the clock of this process must be advanced by to be the machine's `CLOCK_MONOTONIC`: by that
/// whoever reads the events of several processes of a machine puts them together.
pub fn chrome<'a>(spans: impl IntoIterator<Item = &'a Span>, monotonic: Nanos) -> String {
    let mut spans: Vec<&Span> = spans.into_iter().collect();
    let services = in_order(spans.iter().map(|span| &*span.service));
    let parents: HashMap<u64, Option<u64>> =
        spans.iter().map(|span| (span.context.span, span.parent)).collect();
    let depth = |span: &Span| {
        std::iter::successors(span.parent, |parent| *parents.get(parent)?).take(DEPTH_MAX).count()
    };
    // Parents before their parts, also where they begin and end at the same time.
    spans.sort_by_cached_key(|span| (span.begin, std::cmp::Reverse(span.end), depth(span)));
    let mut out = format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"{MONOTONIC}\":{}}},\"traceEvents\":[",
        monotonic.0
    );
    let mut comma = "";
    for (process, service) in services.iter().enumerate() {
        let process = process + 1;
        named(&mut out, &mut comma, "process_name", process, 0, service);
        let mut rows = Rows::default();
        let own: Vec<_> = spans.iter().filter(|span| *span.service == **service).collect();
        let placed: Vec<usize> = own.iter().map(|span| rows.place(span)).collect();
        for (at, row) in rows.0.iter().enumerate() {
            named(&mut out, &mut comma, "thread_name", process, at + 1, &row.name);
        }
        for (span, row) in own.into_iter().zip(placed) {
            event(&mut out, &mut comma, span, process, row + 1);
        }
    }
    out.push_str("]}");
    out
}

/// Each once, as they came first.
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The rows of one service.
#[derive(Default)]
struct Rows<'a>(Vec<Row<'a>>);

struct Row<'a> {
    thread: &'a str,
    name: String,
    /// The spans that are not over where the row has come to, each in the one before it.
    open: Vec<&'a Span>,
}

impl<'a> Rows<'a> {
    /// The row that a span has: the first of its thread in which it lies apart from all others, or in one of its own trace. They come by their
    /// beginnings.
    fn place(&mut self, span: &'a Span) -> usize {
        let mut of_thread = 0;
        for (at, row) in self.0.iter_mut().enumerate() {
            if row.thread != &*span.row {
                continue;
            }
            of_thread += 1;
            while row.open.last().is_some_and(|open| open.end <= span.begin) {
                row.open.pop();
            }
            let lies_in = |open: &&Span| open.context.trace == span.context.trace && span.end <= open.end;
            if row.open.last().is_none_or(lies_in) {
                row.open.push(span);
                return at;
            }
        }
        let thread = &*span.row;
        let name = if of_thread == 0 { thread.to_owned() } else { format!("{thread} ({})", of_thread + 1) };
        self.0.push(Row { thread, name, open: vec![span] });
        self.0.len() - 1
    }
}

/// Gives a process or a row its name.
fn named(out: &mut String, comma: &mut &str, what: &str, process: usize, row: usize, name: &str) {
    let comma = std::mem::replace(comma, ",");
    let _ = write!(
        out,
        "{comma}{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{row},\"args\":{{\"name\":{}}}}}",
        Text(name)
    );
}

/// One complete event.
fn event(out: &mut String, comma: &mut &str, span: &Span, process: usize, row: usize) {
    let comma = std::mem::replace(comma, ",");
    let (begin, spent) = (span.begin.0, span.end.since(span.begin).0);
    let _ = write!(
        out,
        "{comma}{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{process},\"tid\":{row},\"ts\":{}.{:03},\"dur\":{}.{:03},\
         \"args\":{{\"trace\":\"{:032x}\",\"span\":\"{:016x}\",\"parent\":\"{:016x}\",\"place\":\"{}\",\"outcome\":{}",
        Text(&span.name),
        span.place.name(),
        begin / 1000,
        begin % 1000,
        spent / 1000,
        spent % 1000,
        span.context.trace,
        span.context.span,
        span.parent.unwrap_or(0),
        span.place.name(),
        Text(&span.outcome),
    );
    if let Some(connection) = span.connection {
        let _ = write!(out, ",\"connection\":{connection}");
    }
    out.push_str("}}");
}
