//! The monitor as its users see it.

use super::recorder::MAX_OPEN;
use super::*;
use crate::frame::push_metadata;
use crate::link::Transport;
use crate::status::Code;
use base::Nanos;
use proptest::prelude::*;
use serde_json::Value;

const ALL: Sampling = Sampling { timed: 1, traced: 1 };
const NONE: Sampling = Sampling { timed: 0, traced: 0 };

fn monitor(spans: usize) -> Monitor {
    Monitor::new(Options { spans, seed: 7 })
}

/// One call in full.
fn call(recorder: &mut Recorder, method: MethodId, metadata: &[u8], code: Code) -> Stamp {
    let stamp = recorder.started(method, 5, metadata);
    for point in [Point::Sent, Point::Noticed] {
        recorder.pass(stamp, point);
    }
    recorder.ended(stamp, method, code);
    stamp
}

fn with_parent(sampled: bool) -> Vec<u8> {
    let mut metadata = vec![];
    let context = Context { trace: 0xABC, span: 0xDEF, sampled };
    assert!(push_metadata(&mut metadata, trace::TRACEPARENT, context.emit().as_bytes()));
    metadata
}

proptest! {
    /// Against a model that counts by itself: recorders come and go, and the totals are those of all calls ever made.
    #[test]
    fn totals_are_of_every_call(calls in proptest::collection::vec((0..3usize, 0..4usize, 0..17u16, 0..20u8), 0..200)) {
        let monitor = monitor(8);
        let methods = [0, 1, 2, 3].map(|n| monitor.method(&format!("/m/{n}")));
        let mut recorders = [0, 1, 2].map(|_| monitor.recorder(Side::Client, Sampling { timed: 3, traced: 0 }));
        let mut model = [[0u64; 17]; 4];
        for &(who, which, code, fate) in &calls {
            if fate == 0 {
                recorders[who] = monitor.recorder(Side::Client, ALL);
            }
            call(&mut recorders[who], methods[which], &[], Code::of(code));
            model[which][usize::from(code)] += 1;
        }
        let seen = monitor.snapshot();
        for (n, expected) in model.iter().enumerate() {
            let calls = seen.calls.get(&(Side::Client, format!("/m/{n}"))).cloned().unwrap_or_default();
            prop_assert_eq!(&calls.ended, expected);
            prop_assert_eq!(calls.in_flight(), 0);
        }
        drop(recorders);
        prop_assert_eq!(monitor.snapshot().calls, seen.calls);
        prop_assert!(lock(&monitor.shared.lanes).is_empty());
    }
}

#[test]
fn one_call_of_so_many_is_sampled() {
    let monitor = monitor(100);
    let method = monitor.method("/a/B");
    let mut recorder = monitor.recorder(Side::Server, Sampling { timed: 10, traced: 50 });
    let sampled = (0..1000).filter(|_| call(&mut recorder, method, &[], Code::Ok).is_sampled()).count();
    assert_eq!(sampled, 100);
    let seen = monitor.snapshot();
    assert_eq!(seen.calls[&(Side::Server, "/a/B".into())].latency.count(), 100);
    assert_eq!((seen.stages[&(Side::Server, "handle")].count(), seen.spans), (100, 20));
    recorder.set_sampling(NONE);
    assert!((0..1000).all(|_| !call(&mut recorder, method, &[], Code::Ok).is_sampled()));
    assert_eq!(monitor.snapshot().calls[&(Side::Server, "/a/B".into())].started, 2000);
}

#[test]
fn a_caller_that_asks_for_it_gets_a_span_of_its_trace() {
    let monitor = monitor(100);
    let method = monitor.method("/a/B");
    let mut recorder = monitor.recorder(Side::Client, NONE);
    call(&mut recorder, method, &with_parent(false), Code::Ok);
    assert!(monitor.spans().is_empty());
    let metadata = with_parent(true);
    let stamp = recorder.started(method, 9, &metadata);
    let forward = recorder.traceparent(stamp).expect("it is traced");
    recorder.pass_at(stamp, Point::Noticed, Nanos::MAX);
    recorder.ended(stamp, method, Code::NotFound);
    let [span] = &monitor.spans()[..] else { panic!("one span") };
    assert_eq!(
        (span.context.trace, span.parent, span.connection, span.code),
        (0xABC, Some(0xDEF), 9, Code::NotFound)
    );
    assert_eq!(
        Context::parse(forward.as_bytes()),
        Some(span.context),
        "the server's span becomes this one's child"
    );
    assert_eq!(span.at[1], span.at[0], "a point that was not passed takes no time");
}

#[test]
fn stamps_of_forgotten_calls_and_old_stamps_do_no_harm() {
    let monitor = monitor(0);
    let method = monitor.method("/a/B");
    let mut recorder = monitor.recorder(Side::Client, ALL);
    let forgotten: Vec<_> = (0..MAX_OPEN).map(|_| recorder.started(method, 0, &[])).collect();
    let fresh: Vec<_> = (0..MAX_OPEN / 2).map(|_| recorder.started(method, 0, &[])).collect();
    for stamp in forgotten.into_iter().chain(fresh) {
        recorder.pass(stamp, Point::Sent);
        recorder.ended(stamp, method, Code::Ok);
        recorder.ended(stamp, method, Code::Ok);
    }
    let timed = monitor.snapshot().calls[&(Side::Client, "/a/B".into())].latency.count();
    assert_eq!(timed, MAX_OPEN as u64, "each place once: half of the old calls lost theirs");
}

#[test]
fn memory_is_bounded() {
    let monitor = monitor(16);
    let methods: Vec<_> = (0..2 * MAX_METHODS).map(|n| monitor.method(&format!("/m/{n}"))).collect();
    assert_eq!(methods[MAX_METHODS - 1..].iter().filter(|&&m| m != MethodId::OTHER).count(), 0);
    assert_eq!(monitor.method("/m/0"), methods[0], "known ones stay");
    for number in 0..100 {
        let mut recorder = monitor.recorder(Side::Server, ALL);
        let mut connection = recorder.connection(number, Transport::Shm);
        connection.sent(100);
        for _ in 0..3 {
            call(&mut recorder, methods[0], &[], Code::Ok);
        }
        let survivor = if number % 2 == 0 { Some(recorder) } else { None };
        drop((connection, survivor));
    }
    let seen = monitor.snapshot();
    assert_eq!((monitor.spans().len(), seen.spans, seen.spans_dropped), (16, 300, 284));
    assert!(lock(&monitor.shared.lanes).is_empty() && seen.connections.is_empty());
    let shm = &seen.traffic[&(Side::Server, "shm")];
    assert_eq!((shm.opened, shm.open, shm.frames[0], shm.bytes[0]), (100, 0, 100, 10_000));
}

/// A monitor in which every kind of figure occurs.
fn busy() -> (Monitor, Recorder, Connection) {
    let monitor = monitor(16);
    let method = monitor.method("/shop.Cart/Add \"all\"\n");
    let mut recorder = monitor.recorder(Side::Client, ALL);
    let mut connection = recorder.connection(5, Transport::Udp);
    connection.sent(80);
    connection.received(2, 200);
    connection.happened(Event::Full);
    connection.passed_through(Event::Retransmit, 7);
    call(&mut recorder, method, &[], Code::Ok);
    call(&mut recorder, method, &with_parent(true), Code::DeadlineExceeded);
    recorder.started(method, 5, &[]);
    (monitor, recorder, connection)
}

#[test]
fn snapshots_are_json_and_add_up() {
    let (monitor, _recorder, _connection) = busy();
    let mut twice = monitor.snapshot();
    twice.merge(&monitor.snapshot());
    let json: Value = serde_json::from_str(&twice.to_json()).expect("JSON");
    assert_eq!(json["calls"][0]["method"], "/shop.Cart/Add \"all\"\n");
    assert_eq!(json["calls"][0]["ended"]["DEADLINE_EXCEEDED"], 2);
    assert_eq!(json["calls"][0]["latency"]["count"], 4);
    assert_eq!(json["traffic"][0]["bytes_received"], 400);
    assert_eq!(json["traffic"][0]["retransmit"], 14);
    assert_eq!(json["connections"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["spans"], 4);
}

#[test]
fn chrome_traces_are_read_back() {
    let (monitor, _recorder, _connection) = busy();
    let json: Value = serde_json::from_str(&monitor.chrome_trace()).expect("JSON");
    let events = json["traceEvents"].as_array().expect("a list");
    assert_eq!(events.len(), 2 * 4, "a call and its three stages, twice");
    for call in events.chunks(4) {
        let number = |event: &Value, key: &str| event[key].as_f64().expect("a number");
        let end = |event: &Value| number(event, "ts") + number(event, "dur");
        for stage in &call[1..] {
            assert_eq!((&stage["ph"], &stage["tid"]), (&call[0]["ph"], &call[0]["tid"]));
            // Times have three digits after the point, so sums of two differ by the last.
            assert!(number(stage, "ts") >= number(&call[0], "ts") && end(stage) <= end(&call[0]) + 0.002);
        }
    }
    assert_eq!(events[4]["args"]["parent"], format!("{:016x}", 0xDEF));
    assert_eq!(events[4]["args"]["code"], "DEADLINE_EXCEEDED");
}

#[test]
fn otlp_traces_are_read_back() {
    let (monitor, _recorder, _connection) = busy();
    let json: Value = serde_json::from_str(&monitor.otlp_trace("shop")).expect("JSON");
    let spans = &json["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&spans[0]["status"]["code"], &spans[1]["status"]["code"]),
        (&Value::from(0), &Value::from(2))
    );
    assert_eq!(spans[1]["parentSpanId"], format!("{:016x}", 0xDEF));
    assert_eq!(spans[1]["events"][2]["name"], "end of deliver");
    let time = |key: &str| spans[1][key].as_str().and_then(|t| t.parse::<u64>().ok()).expect("a time");
    assert!(time("endTimeUnixNano") >= time("startTimeUnixNano") && time("startTimeUnixNano") > 0);
}
