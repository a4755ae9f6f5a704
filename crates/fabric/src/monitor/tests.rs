//! The monitor as its users see it.

use super::recorder::MAX_OPEN;
use super::*;
use crate::frame::push_metadata;
use crate::link::Transport;
use crate::status::Code;
use base::Nanos;
use base::trace::{Counts, Kind, Place};
use proptest::prelude::*;
use serde_json::Value;

const ALL: Sampling = Sampling { timed: 1, traced: 1 };
const NONE: Sampling = Sampling { timed: 0, traced: 0 };

fn monitor(spans: usize) -> Monitor {
    Monitor::new(Options { spans, seed: 7 })
}

/// The spans of calls, without those of their stages.
fn calls(monitor: &Monitor) -> Vec<Span> {
    monitor.tracer().spans().into_iter().filter(|span| span.kind != Kind::Part).collect()
}

/// The stages of a call.
fn stages(monitor: &Monitor, of: &Span) -> Vec<Span> {
    let is_of = |span: &Span| span.kind == Kind::Part && span.parent == Some(of.context.span);
    monitor.tracer().spans().into_iter().filter(is_of).collect()
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
    assert!(monitor.tracer().spans().is_empty());
    let metadata = with_parent(true);
    let stamp = recorder.started(method, 9, &metadata);
    let forward = recorder.traceparent(stamp).expect("it is traced");
    recorder.pass_at(stamp, Point::Noticed, Nanos::MAX);
    recorder.ended(stamp, method, Code::NotFound);
    let [span] = &calls(&monitor)[..] else { panic!("one call") };
    assert_eq!(
        (span.context.trace, span.parent, span.connection, &*span.outcome),
        (0xABC, Some(0xDEF), Some(9), "NOT_FOUND")
    );
    assert_eq!(
        Context::parse(forward.as_bytes()),
        Some(span.context),
        "the server's span becomes this one's child"
    );
    let first = &stages(&monitor, span)[0];
    assert_eq!(
        (first.begin, first.end),
        (span.begin, span.begin),
        "a point that was not passed takes no time"
    );
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
    let counts = Counts { recorded: 1200, dropped: 1184 };
    assert_eq!(
        (monitor.tracer().spans().len(), seen.spans, monitor.tracer().counts()),
        (16, 300, counts),
        "a call and its three stages"
    );
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

/// How traces become JSON is `base::trace`'s; here, what is in them.
#[test]
fn a_call_and_its_stages_nest() {
    let (monitor, _recorder, _connection) = busy();
    let calls = calls(&monitor);
    assert_eq!(
        (calls.len(), monitor.tracer().spans().len()),
        (2, 2 * 4),
        "a call and its three stages, twice"
    );
    for call in &calls {
        let stages = stages(&monitor, call);
        let names: Vec<&str> = stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(names, STAGES[Side::Client as usize]);
        assert_eq!((&*call.name, call.place), ("/shop.Cart/Add \"all\"\n", Place::Client));
        assert_eq!((stages[0].begin, stages[2].end), (call.begin, call.end));
        for pair in stages.windows(2) {
            assert_eq!(pair[0].end, pair[1].begin);
        }
        for stage in &stages {
            assert_eq!((stage.context.trace, &stage.row), (call.context.trace, &call.row));
            assert!(call.begin <= stage.begin && stage.begin <= stage.end && stage.end <= call.end);
        }
    }
    assert_eq!((calls[0].parent, calls[1].parent), (None, Some(0xDEF)));
    assert_eq!((&*calls[0].outcome, &*calls[1].outcome), ("OK", "DEADLINE_EXCEEDED"));
    let json: Value = serde_json::from_str(&base::trace::chrome(&calls, Nanos(0))).expect("JSON");
    assert_eq!(
        json["traceEvents"].as_array().map(|events| events.iter().filter(|e| e["ph"] == "X").count()),
        Some(2)
    );
}

/// Sizes are of the calls that were timed, and of a server's calls one of N is recorded with them, where the tracer says.
#[test]
fn calls_are_recorded_with_their_sizes_and_sizes_are_counted() {
    let monitor = monitor(8);
    let tracer = monitor.tracer().of("shop");
    monitor.set_tracer(tracer.clone());
    let recording = tracer.recording();
    let mut recorder = monitor.recorder(Side::Server, NONE);
    let method = monitor.method("/shop.Cart/Add");
    let calls = |recorder: &mut Recorder, count: usize| {
        for _ in 0..count {
            let stamp = recorder.started(method, 5, &[]);
            recorder.moved(stamp, 0, 30);
            recorder.placed(stamp, Place::Host);
            recorder.moved(stamp, 70, 0);
            recorder.ended(stamp, method, Code::Ok);
        }
    };
    calls(&mut recorder, 10);
    assert_eq!(monitor.snapshot().calls[&(Side::Server, "/shop.Cart/Add".to_owned())].message_bytes, [0, 0]);
    recording.set(4);
    recorder.set_recorded(4);
    calls(&mut recorder, 40);
    let mut taken = Vec::new();
    let counts = recording.take(&mut taken);
    assert_eq!((taken.len(), counts.seen), (10, vec![("shop".into(), 40)]));
    let of = |one: &base::recording::Request| (one.key, one.request, one.reply, one.place);
    assert!(taken.iter().all(|one| of(one) == (None, 30, 70, Place::Host) && one.method == "/shop.Cart/Add"));
    let calls_of = &monitor.snapshot().calls[&(Side::Server, "/shop.Cart/Add".to_owned())];
    assert_eq!((calls_of.message_bytes, calls_of.latency.count()), ([700, 300], 10));
    // Switched off, nothing more is kept, whatever recorders go on sampling.
    recording.set(0);
    calls(&mut recorder, 8);
    recording.take(&mut taken);
    assert!(taken.is_empty());
}
