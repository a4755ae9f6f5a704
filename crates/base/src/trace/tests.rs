//! Whatever is recorded comes out again, as JSON too.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;

fn tracer(spans: usize) -> Tracer {
    Tracer::new(Options { spans, seed: 7 })
}

/// A request: how long until it begins, and its parts, each with its length and the place and thread that it is on.
type Request = (u64, Vec<(u64, usize, bool)>);

const PLACES: [Place; 3] = [Place::Edge, Place::Engine, Place::Host];

/// Records requests that overlap; each part lies behind the one before it, and may have a part of its own.
fn record(tracer: &Tracer, requests: &[Request]) -> usize {
    let (mut now, mut count) = (0, 0);
    for (n, (wait, parts)) in requests.iter().enumerate() {
        now += wait;
        let of = tracer.of(["cache", "rank \"a\""][n % 2]);
        let open = Open::begin(&of, None, Nanos(now));
        let mut at = now;
        for &(length, place, has_part) in parts {
            let part = open.scope().open(Nanos(at));
            if has_part {
                part.scope().part("inner", PLACES[place], Nanos(at), Nanos(at + length / 2));
                count += 1;
            }
            at += length;
            let row: Arc<str> = format!("thread-{place}").into();
            part.end_as(Kind::Part, "part", PLACES[place], Nanos(at), OK, None, row);
            count += 1;
        }
        open.end_as(Kind::Server, "get", Place::Edge, Nanos(at), "late", Some(n as u32), "edge-0".into());
        count += 1;
    }
    count
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let parts = proptest::collection::vec((0..500u64, 0..3usize, any::<bool>()), 0..5);
    proptest::collection::vec((0..300u64, parts), 0..20)
}

fn hex(value: &Value) -> u128 {
    u128::from_str_radix(value.as_str().expect("text"), 16).expect("a number")
}

/// Exact nanoseconds of a JSON number of microseconds with three digits.
fn nanos(value: &Value) -> u64 {
    (value.as_f64().expect("a number") * 1e3).round() as u64
}

proptest! {
    /// Parts lie in their parents and have their trace; numbers are unique.
    #[test]
    fn spans_nest(requests in requests()) {
        let tracer = tracer(1000);
        let count = record(&tracer, &requests);
        let spans = tracer.spans();
        prop_assert_eq!(spans.len(), count);
        let by_number: HashMap<u64, &Span> = spans.iter().map(|span| (span.context.span, span)).collect();
        prop_assert_eq!(by_number.len(), count);
        for span in &spans {
            prop_assert_eq!(span.parent.is_none(), span.kind == Kind::Server);
            let Some(parent) = span.parent else { continue };
            let parent = by_number[&parent];
            prop_assert_eq!((parent.context.trace, &parent.service), (span.context.trace, &span.service));
            prop_assert!(parent.begin <= span.begin && span.end <= parent.end);
        }
        let traces: std::collections::HashSet<u128> = spans.iter().map(|span| span.context.trace).collect();
        prop_assert_eq!(traces.len(), requests.len());
    }

    /// The ring keeps the last, and counts the others.
    #[test]
    fn the_ring_is_bounded(most in 0..20usize, requests in requests()) {
        let (all, few) = (tracer(1000), tracer(most));
        let count = record(&all, &requests);
        record(&few, &requests);
        let (all, kept) = (all.spans(), few.spans());
        prop_assert_eq!(kept.len(), count.min(most));
        prop_assert_eq!(&all[count - kept.len()..], &kept[..], "one seed, one list");
        let dropped = (count - kept.len()) as u64;
        prop_assert_eq!(few.counts(), Counts { recorded: count as u64, dropped });
    }

    /// Chrome's events are the spans, and those of one row lie in each other or apart.
    #[test]
    fn chrome_traces_are_read_back(requests in requests()) {
        let tracer = tracer(1000);
        record(&tracer, &requests);
        let spans = tracer.spans();
        let json: Value = serde_json::from_str(&chrome(&spans, Nanos(0))).expect("JSON");
        let events = json["traceEvents"].as_array().expect("a list");
        let name = |event: &Value, what: &str| {
            let of = |other: &&Value| {
                other["name"] == what && other["pid"] == event["pid"] && (what == "process_name" || other["tid"] == event["tid"])
            };
            events.iter().find(of).expect("it has a name")["args"]["name"].as_str().expect("text").to_owned()
        };
        let whole: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        prop_assert_eq!(whole.len(), spans.len());
        let by_number: HashMap<u128, &Span> = spans.iter().map(|span| (u128::from(span.context.span), span)).collect();
        for event in &whole {
            let span = by_number[&hex(&event["args"]["span"])];
            prop_assert_eq!(hex(&event["args"]["trace"]), span.context.trace);
            prop_assert_eq!(hex(&event["args"]["parent"]), u128::from(span.parent.unwrap_or(0)));
            prop_assert_eq!((nanos(&event["ts"]), nanos(&event["dur"])), (span.begin.0, span.end.0 - span.begin.0));
            prop_assert_eq!(event["args"]["outcome"].as_str(), Some(&*span.outcome));
            prop_assert_eq!(name(event, "process_name"), &*span.service);
            prop_assert!(name(event, "thread_name").starts_with(&*span.row));
        }
        for (n, one) in whole.iter().enumerate() {
            for other in &whole[n + 1..] {
                if (&one["pid"], &one["tid"]) != (&other["pid"], &other["tid"]) {
                    continue;
                }
                let ends = |event: &Value| (nanos(&event["ts"]), nanos(&event["ts"]) + nanos(&event["dur"]));
                let ((a, b), (c, d)) = (ends(one), ends(other));
                let lies_in = one["args"]["trace"] == other["args"]["trace"] && ((a <= c && d <= b) || (c <= a && b <= d));
                prop_assert!(b <= c || d <= a || lies_in, "{} and {}", one, other);
            }
        }
    }

    /// Whoever takes spans away bit by bit has each once, or is told how many had made room before it came.
    #[test]
    fn spans_are_taken_bit_by_bit(
        most in 1..20usize,
        takes in proptest::collection::vec((0..15usize, 1..9usize), 1..9),
    ) {
        let tracer = tracer(most);
        let (mut end, mut missed, mut taken) = (0, 0, Vec::new());
        for (recorded, at_once) in takes {
            for at in (0..recorded as u64).map(Nanos) {
                Open::begin(&tracer, None, at).end("x", Place::Edge, at, OK);
            }
            let batch = tracer.next(end, at_once);
            prop_assert!(batch.spans.len() <= at_once);
            prop_assert_eq!(batch.end - end, batch.missed + batch.spans.len() as u64);
            (end, missed) = (batch.end, missed + batch.missed);
            taken.extend(batch.spans.iter().map(|span| span.context.span));
        }
        let rest = tracer.next(end, most);
        taken.extend(rest.spans.iter().map(|span| span.context.span));
        let recorded = tracer.counts().recorded;
        prop_assert_eq!(rest.end, recorded);
        prop_assert_eq!(taken.len() as u64 + missed + rest.missed, recorded);
        let all = taken.len();
        taken.sort_unstable();
        taken.dedup();
        prop_assert_eq!(taken.len(), all);
        let none = tracer.next(u64::MAX, 1);
        prop_assert_eq!((none.spans.len(), none.end, none.missed), (0, recorded, 0));
    }

    #[test]
    fn otlp_traces_are_read_back(requests in requests()) {
        let tracer = tracer(1000);
        record(&tracer, &requests);
        let about = [("host.name".to_owned(), "a\"b".to_owned())];
        let json: Value = serde_json::from_str(&otlp(&tracer.spans(), 1_000_000, &about)).expect("JSON");
        let resources = json["resourceSpans"].as_array().expect("a list");
        let mut count = 0;
        for resource in resources {
            let service = resource["resource"]["attributes"][0]["value"]["stringValue"].as_str().expect("a name");
            let host = &resource["resource"]["attributes"][1];
            prop_assert_eq!((&host["key"], &host["value"]["stringValue"]), (&"host.name".into(), &"a\"b".into()));
            let of = tracer.spans_of(service);
            let listed = resource["scopeSpans"][0]["spans"].as_array().expect("a list");
            prop_assert_eq!(listed.len(), of.len());
            count += listed.len();
            for (json, span) in listed.iter().zip(&of) {
                prop_assert_eq!(hex(&json["spanId"]), u128::from(span.context.span));
                prop_assert_eq!(json["startTimeUnixNano"].as_str(), Some(&*(span.begin.0 + 1_000_000).to_string()));
                let kind = if span.kind == Kind::Server { 2 } else { 1 };
                prop_assert_eq!((&json["kind"], &json["status"]["code"]), (&kind.into(), &(if span.is_ok() { 0 } else { 2 }).into()));
                prop_assert_eq!(json["parentSpanId"].as_str().expect("text").is_empty(), span.parent.is_none());
                prop_assert_eq!(json["attributes"][0]["value"]["stringValue"].as_str(), Some(span.place.name()));
            }
        }
        prop_assert_eq!(count, tracer.spans().len());
    }
}

/// A part that ends when its request is long over, and others were opened since, is still that request's.
#[test]
fn a_late_part_belongs_to_its_own_request() {
    let tracer = tracer(1000);
    let first = Open::begin(&tracer, None, Nanos(1));
    let (context, late) = (first.scope().context(), first.scope().clone());
    first.end("first", Place::Edge, Nanos(2), OK);
    for n in 0..300 {
        Open::begin(&tracer, None, Nanos(n)).end("other", Place::Edge, Nanos(n), OK);
    }
    late.part("late", Place::Host, Nanos(1), Nanos(400));
    let spans = tracer.spans();
    let late = spans.last().expect("the last");
    assert_eq!((late.context.trace, late.parent), (context.trace, Some(context.span)));
}

#[test]
fn a_request_is_in_its_callers_trace() {
    let tracer = tracer(2);
    let caller = Context { trace: 5, span: 6, sampled: true };
    let mut open = Open::begin(&tracer.of("a"), Some(caller), Nanos(9));
    open.came_at(Nanos(4));
    open.came_at(Nanos(8));
    open.end("x", Place::Client, Nanos(3), "x");
    let span = &tracer.spans()[0];
    assert_eq!((span.context.trace, span.parent, span.begin, span.end), (5, Some(6), Nanos(4), Nanos(4)));
    assert!(tracer.spans_of("b").is_empty() && !span.is_ok());
}
