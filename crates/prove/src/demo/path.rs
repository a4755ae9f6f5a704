//! The path of each kind of request: the hops that its traces show, and how long a request was at each.
//!
//! A hop is a thread of a service. Each moment of a request belongs to the part that began last of those under way, and so to its thread: the hops of a
//! request add up to its own span.

use super::clients::Kind;
use serve::trace::{Span, Trace, traces};
use std::collections::{BTreeMap, BTreeSet};

/// Traces of a kind that are kept.
const KEPT: usize = 400;

/// Parts in which the shop's threads wait for the store, its home and the chain behind it; and the home for the chain.
const STORE: [&str; 4] = ["read items", "transaction", "store", "wait"];

/// The place of what waits for the chain.
const CHAIN: &str = "chain";
/// The thread of gRPC's gateways.
const GATEWAY: &str = "gateway";

/// One hop of a kind's path.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Hop {
    /// The service.
    pub service: String,
    /// The thread there.
    pub thread: String,
    /// Client, edge, engine, host, chain.
    pub place: String,
    /// What was done there, in the order in which it began.
    pub parts: Vec<String>,
    /// Microseconds of a request, on average.
    pub us: f64,
}

impl Hop {
    /// For people.
    pub fn name(&self) -> String {
        match self.place.as_str() {
            CHAIN => self.thread.clone(),
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
    /// Adds what a node shows at `GET /trace`.
    ///
    /// # Errors
    /// It is no such page.
    pub fn add(&mut self, page: &str) -> Result<(), String> {
        for trace in traces(page)? {
            let Some(own) = trace.spans.first() else { continue };
            // A part that is there before its request is over belongs to a trace that is not whole.
            let is_whole = Kind::ALL.iter().any(|kind| kind.span() == Some(&own.name));
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

/// Where a span was: what the shop's threads wait for at the store is a hop, though its spans are theirs.
fn place(span: &Span) -> (String, String, String) {
    if STORE.contains(&&*span.name) {
        return ("cache".to_owned(), "home, chain".to_owned(), CHAIN.to_owned());
    }
    // A gateway is the client of the server behind it, and an edge for everybody else.
    let place = if span.thread == GATEWAY { "edge" } else { &span.place };
    (span.service.clone(), without_number(&span.thread).to_owned(), place.to_owned())
}

/// Of a hop, over all traces: how long requests were there, how long after their beginning they came, and how many did.
#[derive(Default)]
struct Sums {
    parts: Vec<String>,
    spent_ns: u64,
    after_ns: u64,
    came: u64,
}

fn hops(traces: &[&Trace]) -> Vec<Hop> {
    let mut found: BTreeMap<(String, String, String), Sums> = BTreeMap::new();
    for trace in traces {
        let begin = trace.begin_ns();
        let mut here = BTreeSet::new();
        for (span, own) in trace.spans.iter().zip(own_times(&trace.spans)) {
            let key = place(span);
            let sums = found.entry(key.clone()).or_default();
            if !sums.parts.contains(&span.name) {
                sums.parts.push(span.name.clone());
            }
            sums.spent_ns += own;
            if here.insert(key) {
                sums.after_ns += span.begin_ns - begin;
                sums.came += 1;
            }
        }
    }
    let mut hops: Vec<(u64, Hop)> = found
        .into_iter()
        .map(|((service, thread, place), sums)| {
            let us = sums.spent_ns as f64 / 1e3 / traces.len() as f64;
            (sums.after_ns / sums.came.max(1), Hop { service, thread, place, parts: sums.parts, us })
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
        paths.add(&page(&[own, part, beside])).expect("it is a page");
        let hops = paths.hops(Kind::Rank);
        let shown: Vec<_> = hops.iter().map(|hop| (&*hop.thread, hop.us)).collect();
        assert_eq!(shown, [("rpc-server", 15.0), ("shop", 35.0)]);
        assert_eq!(hops[1].parts, ["waiting", "rank"]);
        assert_eq!(paths.longest().map(|(trace, hops)| (trace.spent_ns(), hops)), Some((50_000, 2)));
        assert_eq!((paths.count(Kind::Rank), paths.count(Kind::Order)), (1, 0));
        assert!(paths.add("no page").is_err());
    }
}
