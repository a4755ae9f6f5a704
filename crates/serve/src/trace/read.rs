//! Chrome's events, as `base::trace` writes them, as traces: trees of spans.

use base::trace::MONOTONIC;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was done.
    pub name: String,
    /// Whose request it is.
    pub service: String,
    /// Where: client, edge, engine, host, acc or chain.
    pub place: String,
    /// The thread, without the number of its row.
    pub thread: String,
    /// When it began, by the machine's monotonic clock.
    pub begin_ns: u64,
    /// How long it took.
    pub spent_ns: u64,
    /// `OK`, or how it ended else.
    pub outcome: String,
    /// How many spans it lies in, of those that are there.
    pub depth: usize,
    id: String,
    parent: String,
}

impl Span {
    /// When it was over.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.spent_ns
    }
}

/// The spans of one trace, each behind the one that it is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its number, in hex.
    pub id: String,
    /// The request's own first.
    pub spans: Vec<Span>,
}

impl Trace {
    /// When its first span began.
    pub fn begin_ns(&self) -> u64 {
        self.spans.iter().map(|span| span.begin_ns).min().unwrap_or_default()
    }

    /// Until its last span has ended.
    pub fn spent_ns(&self) -> u64 {
        let end = self.spans.iter().map(Span::end_ns).max().unwrap_or_default();
        end.saturating_sub(self.begin_ns())
    }
}

/// All traces of one process, by their beginnings.
///
/// # Errors
/// The text is not what `GET /trace` answers. A sentence.
pub fn traces(chrome: &str) -> Result<Vec<Trace>, String> {
    together([chrome])
}

/// All traces of several processes of one machine, by their beginnings: the spans of a trace that goes through several are put together, by the
/// machine's monotonic clock.
///
/// # Errors
/// As [`traces`].
pub fn together<'a>(pages: impl IntoIterator<Item = &'a str>) -> Result<Vec<Trace>, String> {
    let mut by_trace: HashMap<String, Vec<Span>> = HashMap::new();
    for page in pages {
        collect(page, &mut by_trace)?;
    }
    let mut traces: Vec<Trace> =
        by_trace.into_iter().map(|(id, spans)| Trace { id, spans: as_tree(spans) }).collect();
    traces.sort_by(|a, b| (a.begin_ns(), &a.id).cmp(&(b.begin_ns(), &b.id)));
    Ok(traces)
}

/// Adds the spans of a process.
fn collect(chrome: &str, by_trace: &mut HashMap<String, Vec<Span>>) -> Result<(), String> {
    let json: Value =
        serde_json::from_str(chrome).map_err(|error| format!("what was read is no trace: {error}"))?;
    let events = json["traceEvents"].as_array().ok_or("what was read is no trace: it has no traceEvents")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nanos = |value: &Value| (value.as_f64().unwrap_or_default() * 1e3).round() as u64;
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let advance = number(&json["otherData"][MONOTONIC]);
    let mut names: HashMap<(u64, Option<u64>), String> = HashMap::new();
    for event in events {
        let (process, row) = (number(&event["pid"]), number(&event["tid"]));
        match event["name"].as_str() {
            Some("process_name") => names.insert((process, None), text(&event["args"]["name"])),
            Some("thread_name") => names.insert((process, Some(row)), text(&event["args"]["name"])),
            _ => None,
        };
    }
    let name = |process, row| names.get(&(process, row)).cloned().unwrap_or_default();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (arguments, process) = (&event["args"], number(&event["pid"]));
        let row = name(process, Some(number(&event["tid"])));
        by_trace.entry(text(&arguments["trace"])).or_default().push(Span {
            name: text(&event["name"]),
            service: name(process, None),
            place: text(&arguments["place"]),
            thread: row.split(" (").next().unwrap_or_default().to_owned(),
            begin_ns: nanos(&event["ts"]).saturating_add(advance),
            spent_ns: nanos(&event["dur"]),
            outcome: text(&arguments["outcome"]),
            depth: 0,
            id: text(&arguments["span"]),
            parent: text(&arguments["parent"]),
        });
    }
    Ok(())
}

/// The same spans, parts behind what they are part of. One whose parent is not there (it is a caller's, or has made room for others) is at the top.
fn as_tree(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.spent_ns)));
    let ids: HashSet<String> = spans.iter().map(|span| span.id.clone()).collect();
    let mut parts: HashMap<String, Vec<Span>> = HashMap::new();
    let mut tops = Vec::new();
    for span in spans {
        match ids.contains(&span.parent) && span.parent != span.id {
            true => parts.entry(span.parent.clone()).or_default().push(span),
            false => tops.push(span),
        }
    }
    let mut tree = Vec::new();
    // Each list leaves the map when it is laid down, so parents that lead in a circle end.
    let mut open: Vec<Span> = tops.into_iter().rev().collect();
    while let Some(span) = open.pop() {
        let own = parts.remove(&span.id).unwrap_or_default();
        open.extend(own.into_iter().rev().map(|part| Span { depth: span.depth + 1, ..part }));
        tree.push(span);
    }
    tree
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use base::Nanos;
    use base::trace::{Context, Kind, Open, Options, Place, Tracer, chrome};

    /// A request of two services and a thread of each place, and a second, shorter one in whose trace the caller's span is missing.
    pub fn some() -> Vec<Trace> {
        let tracer = Tracer::new(Options { spans: 100, seed: 7 });
        let (rank, cache) = (tracer.of("rank"), tracer.of("cache"));
        let whole = Open::begin(&rank, None, Nanos(1_000));
        let task = whole.scope().open(Nanos(2_500));
        let work = task.scope().open(Nanos(3_000));
        work.end_as(Kind::Part, "running", Place::Host, Nanos(41_250), "panicked", None, "host-0".into());
        task.end_as(Kind::Part, "task", Place::Engine, Nanos(60_000), "OK", None, "engine".into());
        whole.end_as(Kind::Server, "infer", Place::Edge, Nanos(101_000), "OK", Some(4), "edge-0".into());
        let caller = Context { trace: 5, span: 6, sampled: true };
        let get = Open::begin(&cache, Some(caller), Nanos(200_000));
        get.end_as(Kind::Server, "get", Place::Edge, Nanos(207_000), "OK", None, "edge-0".into());
        traces(&chrome(&tracer.spans(), Nanos(0))).expect("it is one")
    }

    #[test]
    fn events_become_trees() {
        let traces = some();
        let seen: Vec<Vec<(&str, usize)>> = traces
            .iter()
            .map(|trace| trace.spans.iter().map(|span| (&*span.name, span.depth)).collect())
            .collect();
        assert_eq!(seen, [vec![("infer", 0), ("task", 1), ("running", 2)], vec![("get", 0)]]);
        assert_eq!(
            (traces[0].begin_ns(), traces[0].spent_ns(), traces[1].spent_ns()),
            (1_000, 100_000, 7_000)
        );
        let Span { service, place, thread, outcome, .. } = &traces[0].spans[2];
        assert_eq!([service, place, thread, outcome], ["rank", "host", "host-0", "panicked"]);
        assert_eq!(traces[1].id, format!("{:032x}", 5));
        assert!(super::traces("{}").is_err() && super::traces("[").is_err());
    }

    #[test]
    fn processes_are_put_together_by_the_clock_that_they_have_in_common() {
        // The clock of the one began 5 microseconds before that of the other.
        let (one, other) =
            (Tracer::new(Options { spans: 9, seed: 1 }), Tracer::new(Options { spans: 9, seed: 2 }));
        let whole = Open::begin(&one.of("shop"), None, Nanos(7_000));
        let part = Open::begin(&other.of("chain"), Some(whole.scope().context()), Nanos(3_000));
        part.end("head", Place::Chain, Nanos(4_000), "OK");
        whole.end("order", Place::Host, Nanos(10_000), "OK");
        let pages = [chrome(&one.spans(), Nanos(1_000)), chrome(&other.spans(), Nanos(6_000))];
        let found = together(pages.iter().map(|page| &**page)).expect("they are traces");
        let spans: Vec<_> = found.iter().flat_map(|trace| &trace.spans).collect();
        let shown = spans.iter().map(|span| (&*span.name, &*span.place, span.depth, span.begin_ns));
        assert!(shown.eq([("order", "host", 0, 8_000), ("head", "chain", 1, 9_000)]), "{found:?}");
    }

    #[test]
    fn circles_end() {
        let span = |id: &str, parent: &str| Span {
            id: id.to_owned(),
            parent: parent.to_owned(),
            ..some().remove(0).spans.remove(0)
        };
        assert_eq!(as_tree(vec![span("a", "a")]).len(), 1);
        assert!(as_tree(vec![span("a", "b"), span("b", "a")]).is_empty(), "nobody's part is shown nowhere");
    }
}
