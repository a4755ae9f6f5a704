//! The path of each kind of request: the hops that its traces show, and how long a request was at each.
//!
//! A hop is a thread of a service, or a part of the chain: head, middle or tail, whichever replica that is. Each moment of a request belongs to the part
//! that began last of those under way, and so to its thread: the hops of a request add up to its own span.

use super::clients::Kind;
use serve::trace::{Span, Trace, together};
use std::collections::{BTreeMap, BTreeSet};

/// Traces of a kind that are kept.
const KEPT: usize = 400;

/// The part in which a request of memcached's waits for the chain: the replicas record nothing of it.
const WAIT: &str = "wait";

/// The place of what is done at the chain.
const CHAIN: &str = "chain";
/// The place of who asks.
pub const CLIENT: &str = "client";
/// The place of a request's own span at whoever serves it.
const EDGE: &str = "edge";
/// The thread of gRPC's gateways.
const GATEWAY: &str = "gateway";

/// One hop of a kind's path.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Hop {
    /// The service; of what is at no service, its place.
    pub service: String,
    /// The thread there.
    pub thread: String,
    /// Client, edge, engine, host, chain.
    pub place: String,
    /// What was done there, in the order in which it began.
    pub parts: Vec<String>,
    /// Microseconds of a request that came there: the median.
    pub us: f64,
}

impl Hop {
    /// For people.
    pub fn name(&self) -> String {
        match self.place.as_str() {
            CHAIN | CLIENT => self.thread.clone(),
            _ => format!("{}/{}", self.service, self.thread),
        }
    }
}

/// Traces by the name of the request's own span.
#[derive(Debug, Default)]
pub struct Paths {
    seen: BTreeSet<String>,
    by_name: BTreeMap<String, Vec<Trace>>,
}

/// Two threads that do the same are one hop.
fn without_number(thread: &str) -> &str {
    thread.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

impl Paths {
    /// Adds what the processes show at `GET /trace`: first the node, then those that its requests go on to or come from, which have all that is over there.
    ///
    /// # Errors
    /// They are no such pages.
    pub fn add<'a>(&mut self, pages: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        for trace in together(pages)? {
            let Some(own) = trace.spans.first() else { continue };
            // A part that is there before its request is over belongs to a trace that is not whole.
            let is_own =
                |span: &Span| span.name == own.name && (span.place == EDGE || span.thread == GATEWAY);
            let is_whole =
                Kind::ALL.iter().any(|kind| kind.span() == Some(&own.name)) && trace.spans.iter().any(is_own);
            if !is_whole || !self.seen.insert(trace.id.clone()) {
                continue;
            }
            let kept = self.by_name.entry(own.name.clone()).or_default();
            if kept.len() < KEPT {
                kept.push(trace);
            }
        }
        Ok(())
    }

    /// Of a kind: those that came by the gateway, or not.
    fn of(&self, kind: Kind) -> Vec<&Trace> {
        let Some(all) = kind.span().and_then(|name| self.by_name.get(name)) else { return Vec::new() };
        let is_grpc = |trace: &Trace| trace.spans.iter().any(|span| span.thread == GATEWAY);
        let wanted = |trace: &&Trace| match kind {
            Kind::Profile => !is_grpc(trace),
            Kind::GrpcProfile => is_grpc(trace),
            _ => true,
        };
        all.iter().filter(wanted).collect()
    }

    /// How many traces there are of it.
    pub fn count(&self, kind: Kind) -> usize {
        self.of(kind).len()
    }

    /// Its hops, in the order in which requests come to them.
    pub fn hops(&self, kind: Kind) -> Vec<Hop> {
        hops(&self.of(kind))
    }

    /// The hops of the one of its traces that comes by most.
    pub fn most_hops(&self, kind: Kind) -> usize {
        self.of(kind).into_iter().map(count).max().unwrap_or_default()
    }

    /// The trace that comes by most hops, and by how many; of those, that of median length.
    pub fn longest(&self) -> Option<(&Trace, usize)> {
        let all = || self.by_name.values().flatten();
        let most = all().map(count).max()?;
        let mut those: Vec<&Trace> = all().filter(|trace| count(trace) == most).collect();
        those.sort_by_key(|trace| trace.spent_ns());
        Some((those[those.len() / 2], most))
    }
}

/// Hops of one trace.
fn count(trace: &Trace) -> usize {
    trace.spans.iter().map(place).collect::<BTreeSet<_>>().len()
}

/// What each span took itself: every moment of the trace belongs to the span that began last of those that are under way then, and deepest of these.
fn own_times(spans: &[Span]) -> Vec<u64> {
    let mut moments: Vec<u64> = spans.iter().flat_map(|span| [span.begin_ns, span.end_ns()]).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut own = vec![0; spans.len()];
    for pair in moments.windows(2) {
        let under_way = |(_, span): &(usize, &Span)| span.begin_ns <= pair[0] && pair[1] <= span.end_ns();
        let last = spans
            .iter()
            .enumerate()
            .filter(under_way)
            .max_by_key(|(at, span)| (span.begin_ns, span.depth, *at));
        if let Some((at, _)) = last {
            own[at] += pair[1] - pair[0];
        }
    }
    own
}

/// Where a span was.
fn place(span: &Span) -> (String, String, String) {
    if span.name == WAIT {
        return (CHAIN.to_owned(), CHAIN.to_owned(), CHAIN.to_owned());
    }
    if span.place == CLIENT && span.thread != GATEWAY {
        return (CLIENT.to_owned(), CLIENT.to_owned(), CLIENT.to_owned());
    }
    // A gateway is the client of the server behind it, and an edge for everybody else.
    let place = if span.thread == GATEWAY { EDGE } else { &span.place };
    let service = if place == CHAIN { CHAIN } else { &span.service };
    (service.to_owned(), without_number(&span.thread).to_owned(), place.to_owned())
}

/// Of a hop, over all traces that came there: how long each was there, and how long after its beginning all of them came.
#[derive(Default)]
struct Sums {
    parts: Vec<String>,
    spent_ns: Vec<u64>,
    after_ns: u64,
}

fn hops(traces: &[&Trace]) -> Vec<Hop> {
    let mut found: BTreeMap<(String, String, String), Sums> = BTreeMap::new();
    for trace in traces {
        let begin = trace.begin_ns();
        let mut here: BTreeMap<(String, String, String), (u64, u64)> = BTreeMap::new();
        for (span, own) in trace.spans.iter().zip(own_times(&trace.spans)) {
            let key = place(span);
            let sums = found.entry(key.clone()).or_default();
            if !sums.parts.contains(&span.name) {
                sums.parts.push(span.name.clone());
            }
            here.entry(key).or_insert((0, span.begin_ns - begin)).0 += own;
        }
        for (key, (spent, after)) in here {
            let sums = found.entry(key).or_default();
            sums.spent_ns.push(spent);
            sums.after_ns += after;
        }
    }
    let mut hops: Vec<(u64, Hop)> = found
        .into_iter()
        .map(|((service, thread, place), Sums { parts, mut spent_ns, after_ns })| {
            let came = spent_ns.len();
            let (_, median, _) = spent_ns.select_nth_unstable(came / 2);
            let us = *median as f64 / 1e3;
            (after_ns / came as u64, Hop { service, thread, place, parts, us })
        })
        .collect();
    hops.sort_by_key(|(after, _)| *after);
    hops.into_iter().map(|(_, hop)| hop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, thread: &str, depth: usize, begin_us: u64, spent_us: u64) -> Value {
        json!({"ph": "X", "pid": 1, "tid": tid(thread), "name": name, "ts": begin_us, "dur": spent_us,
            "args": {"trace": "t", "span": format!("{name}{depth}"), "parent": "", "place": "edge", "outcome": "OK"}})
    }

    use serde_json::{Value, json};

    fn tid(thread: &str) -> u64 {
        if thread == "rpc-server" { 1 } else { 2 }
    }

    fn page(spans: &[Value]) -> String {
        let names = [
            json!({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "shop"}}),
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "rpc-server"}}),
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "shop-1"}}),
        ];
        let events: Vec<&Value> = names.iter().chain(spans).collect();
        json!({ "traceEvents": events }).to_string()
    }

    #[test]
    fn hops_add_up_to_the_request() {
        let mut own = span("/shop.Shop/Rank", "rpc-server", 0, 100, 50);
        own["args"]["span"] = "a".into();
        let mut part = span("rank", "shop-1", 1, 110, 30);
        part["args"]["parent"] = "a".into();
        let mut beside = span("waiting", "shop-1", 1, 105, 10);
        beside["args"]["parent"] = "a".into();
        let mut paths = Paths::default();
        paths.add([&*page(&[own, part, beside])]).expect("it is a page");
        let hops = paths.hops(Kind::Rank);
        let shown: Vec<_> = hops.iter().map(|hop| (&*hop.thread, hop.us)).collect();
        assert_eq!(shown, [("rpc-server", 15.0), ("shop", 35.0)]);
        assert_eq!(hops[1].parts, ["waiting", "rank"]);
        assert_eq!(paths.longest().map(|(trace, hops)| (trace.spent_ns(), hops)), Some((50_000, 2)));
        assert_eq!((paths.count(Kind::Rank), paths.count(Kind::Order)), (1, 0));
        assert!(paths.add(["no page"]).is_err());
    }
}
