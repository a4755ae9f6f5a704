//! Requests that leave spans: what is in them, and that nothing of it is another's.

use super::script::{Adder, HOST_PANICKED, Op, Reply, Request, Rig, Script};
use crate::{EdgePort, Engine, EngineOptions, Handle, HostPool, ServiceOptions, Stamped};
use base::trace::{Kind, Open, Options, Place, Span, Tracer};
use base::{Clock, Nanos};
use proptest::prelude::*;
use ring::wait::WaitPolicy;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

fn tracer() -> Tracer {
    Tracer::new(Options { spans: 10_000, seed: 7 })
}

/// The parts of a span, in the order of their beginning.
fn parts<'s>(spans: &'s [Span], of: &Span) -> Vec<&'s Span> {
    let mut parts: Vec<&Span> = spans.iter().filter(|span| span.parent == Some(of.context.span)).collect();
    parts.sort_by_key(|span| (span.begin, span.end));
    parts
}

fn names<'s>(parts: &[&'s Span]) -> Vec<&'s str> {
    parts.iter().map(|span| &*span.name).collect()
}

/// The requests themselves.
fn requests(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.kind == Kind::Server).collect()
}

/// Each part lies within what it is part of, and is of the same trace.
fn check_nesting(spans: &[Span]) {
    for span in spans {
        let Some(parent) = span.parent else { continue };
        let parent = spans.iter().find(|other| other.context.span == parent).expect("it was recorded");
        assert_eq!(parent.context.trace, span.context.trace);
        assert!(parent.begin <= span.begin && span.end <= parent.end, "{span:?} in {parent:?}");
    }
}

impl Rig {
    /// Submits one that leaves spans.
    fn ask_traced(&mut self, ops: &[Op], tracer: &Tracer) -> (u32, Open) {
        let now = self.engine.now();
        let open = Open::begin(tracer, None, now);
        let request = Request { ops: ops.to_vec(), ..Request::default() };
        let tag = self.edge.submit_traced(now, request, open.scope());
        self.edge.ring();
        (tag.expect("the ring has room").0, open)
    }
}

fn end(open: Open, now: u64) {
    open.end_as(Kind::Server, "ask", Place::Edge, Nanos(now), "OK", None, "edge".into());
}

#[test]
fn a_task_has_its_waits_in_it_in_order() {
    let (mut rig, tracer) = (Rig::simple(), tracer());
    rig.engine.core().now = Nanos(5);
    let untraced = rig.ask(None, &[Op::Sleep(7), Op::Durable]);
    let ops = [Op::Touch, Op::Sleep(100), Op::Durable, Op::Add(1), Op::Call(vec![Op::Sleep(10)], 3)];
    let (number, open) = rig.ask_traced(&ops, &tracer);
    rig.settle_at(20);
    rig.settle_at(120);
    rig.engine.service(rig.script).log.clone().sync(2);
    rig.settle_at(150);
    rig.settle_at(160);
    assert!(rig.said(number).is_some() && rig.said(untraced).is_some());
    end(open, 170);

    let spans = tracer.spans();
    check_nesting(&spans);
    let [request] = &requests(&spans)[..] else { panic!("one request") };
    let of_request = parts(&spans, request);
    assert_eq!(names(&of_request), ["queue", "task"]);
    let times = |span: &Span| (span.begin.0, span.end.0);
    assert_eq!((times(of_request[0]), times(of_request[1])), ((5, 20), (20, 160)));
    let waits = parts(&spans, of_request[1]);
    assert_eq!(names(&waits), ["sleep", "durable", "call", "call"]);
    assert_eq!([0, 1].map(|at| times(waits[at])), [(20, 120), (120, 150)]);
    // What is called has its own stages within the call: a staged service and a task.
    assert_eq!(names(&parts(&spans, waits[2])), ["queue", "execute"]);
    let called = parts(&spans, waits[3]);
    assert_eq!(names(&called), ["queue", "task"]);
    assert_eq!(names(&parts(&spans, called[1])), ["sleep"]);
    assert_eq!(times(called[1]), (150, 160));
    assert_eq!(spans.len(), 12, "and nothing of the other: {spans:?}");
}

#[test]
fn a_staged_request_has_its_queue_and_its_execution() {
    let (mut rig, tracer) = (Rig::simple(), tracer());
    for number in 0..3 {
        assert!(rig.adds.submit(Nanos(3), number).is_ok());
    }
    let open = Open::begin(&tracer, None, Nanos(2));
    assert!(rig.adds.submit_traced(Nanos(3), 41, open.scope()).is_ok());
    // Over this one the service panics.
    assert!(rig.adds.submit_traced(Nanos(4), 13, open.scope()).is_ok());
    rig.adds.ring();
    rig.settle_at(9);
    let sums: Vec<u64> = std::iter::from_fn(|| rig.adds.poll()).map(|sum| sum.body.0).collect();
    assert_eq!(sums, [1, 2, 3, 42, 0]);
    end(open, 10);
    let spans = tracer.spans();
    check_nesting(&spans);
    let parts = parts(&spans, requests(&spans)[0]);
    let seen: Vec<_> =
        parts.iter().map(|span| (&*span.name, span.begin.0, span.end.0, &*span.outcome)).collect();
    assert_eq!(
        seen,
        [
            ("queue", 3, 9, "OK"),
            ("queue", 4, 9, "OK"),
            ("execute", 9, 9, "OK"),
            ("execute", 9, 9, "panicked")
        ]
    );
    assert!(parts.iter().all(|span| span.place == Place::Engine));
    assert_eq!(spans.len(), 5);
}

#[test]
fn requests_that_fail_say_so() {
    let (mut rig, tracer) = (Rig::simple(), tracer());
    rig.settings.deadline = Nanos(50);
    let (panics, first) = rig.ask_traced(&[Op::Sleep(1), Op::Panic], &tracer);
    let (late, second) = rig.ask_traced(&[Op::Forever], &tracer);
    for now in [0, 1, 100] {
        rig.settle_at(now);
    }
    assert!(
        rig.said(panics).is_some_and(|said| said.is_err())
            && rig.said(late).is_some_and(|said| said.is_err())
    );
    end(first, 100);
    end(second, 100);
    let spans = tracer.spans();
    check_nesting(&spans);
    let outcome = |name: &str, nth: usize| {
        let of: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
        of[nth].outcome.clone()
    };
    assert_eq!((outcome("task", 0), outcome("task", 1)), ("panicked".into(), "expired".into()));
    assert_eq!((outcome("sleep", 0), outcome("sleep", 1)), ("OK".into(), "given up".into()));
    assert_eq!(spans.len(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]

    /// Some leave spans and others none, over few slots and ring places that are used again and again: each has its own, and all of them.
    #[test]
    fn everybody_has_their_own(asked in proptest::collection::vec((any::<bool>(), 0..4u64, 0..3usize), 1..60)) {
        let mut rig = Rig::new(4, ServiceOptions::default());
        let (tracer, mut open, mut now) = (tracer(), Vec::new(), 0);
        for (n, &(traced, sleep, sleeps)) in asked.iter().enumerate() {
            let ops = vec![Op::Sleep(sleep + 1); sleeps];
            if traced {
                let (_, request) = rig.ask_traced(&ops, &tracer);
                open.push((request, sleeps));
            } else {
                rig.ask(None, &ops);
            }
            now += 1;
            rig.settle_at(now);
            prop_assert!(rig.replies.len() <= n + 1);
        }
        while rig.replies.len() < asked.len() {
            now += 1;
            rig.settle_at(now);
        }
        let wanted: Vec<usize> = open.iter().map(|(_, sleeps)| *sleeps).collect();
        open.into_iter().for_each(|(request, _)| end(request, now));
        let spans = tracer.spans();
        check_nesting(&spans);
        let of = |request: &&Span| {
            let parts = parts(&spans, request);
            assert_eq!(names(&parts), ["queue", "task"]);
            self::parts(&spans, parts[1]).len()
        };
        let seen: Vec<usize> = requests(&spans).iter().map(of).collect();
        prop_assert_eq!(spans.len(), 3 * wanted.len() + wanted.iter().sum::<usize>());
        prop_assert_eq!(seen, wanted);
    }
}

/// The script on the core that runs this, with a host thread.
struct Real {
    engine: Engine,
    edge: EdgePort<Script>,
    tracer: Tracer,
    _script: Handle<Script>,
}

impl Real {
    fn new(pool: &HostPool) -> Real {
        let mut engine = Engine::new(EngineOptions { in_flight: 1, ports: 1 });
        let script = engine.add_task(Script::default(), ServiceOptions::default());
        let adder = engine.add(Adder::default(), ServiceOptions::default());
        let callee = engine.callee(adder);
        engine.service(script).adder = Some(callee);
        engine.set_host(pool.attach(8, None));
        let edge = engine.open(script, 8, 1 << 10).expect("a port");
        Real { engine, edge, tracer: tracer(), _script: script }
    }

    /// Asks, and waits for the answer.
    fn ask(&mut self, name: &'static str, ops: &[Op]) -> Reply {
        let clock = Clock::shared();
        let open = Open::begin(&self.tracer, None, clock.now());
        let request = Request { ops: ops.to_vec(), ..Request::default() };
        assert!(self.edge.submit_traced(clock.now(), request, open.scope()).is_ok());
        self.edge.ring();
        loop {
            self.engine.pass();
            if let Some(Stamped { body, .. }) = self.edge.poll() {
                self.edge.release(body.span);
                open.end_as(Kind::Server, name, Place::Edge, clock.now(), "OK", None, "edge".into());
                return body;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "its threads sleep on futexes")]
fn work_on_a_host_thread_lies_in_the_wait_for_it() {
    let pool = HostPool::new(1, WaitPolicy::BLOCK).expect("a thread");
    let mut real = Real::new(&pool);
    let ops = [Op::Touch, Op::Host(|| 42), Op::Add(1), Op::Sleep(1000), Op::Host(|| panic!("planted"))];
    let reply = real.ask("ask", &ops);
    let said = reply.outcome.expect("no failure");
    assert_eq!((said[0], said[1], said[3]), (42, 2, HOST_PANICKED));
    let spans = real.tracer.spans();
    check_nesting(&spans);
    let task = parts(&spans, requests(&spans)[0])[1];
    let waits = parts(&spans, task);
    assert_eq!(names(&waits), ["host", "call", "sleep", "host"]);
    assert!(waits.windows(2).all(|pair| pair[0].end <= pair[1].begin));
    for (wait, outcome) in [(waits[0], "OK"), (waits[3], "panicked")] {
        let work = parts(&spans, wait);
        assert_eq!(names(&work), ["waiting", "running"]);
        assert_eq!((&*work[1].outcome, &*work[1].row, work[1].place), (outcome, "host-0", Place::Host));
        assert_eq!(work[0].end, work[1].begin);
    }
}

/// Holds host work until it is told to go on.
static GATE: Mutex<Option<Receiver<()>>> = Mutex::new(None);

/// Work that nobody waits for any more is recorded when it is over; others have had the task's slot and the host's entry by then.
#[test]
#[cfg_attr(miri, ignore = "its threads sleep on futexes")]
fn work_that_was_given_up_is_nobody_elses() {
    let pool = HostPool::new(1, WaitPolicy::BLOCK).expect("a thread");
    let mut real = Real::new(&pool);
    let (go, gate): (Sender<()>, _) = channel();
    *GATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    let gated: fn() -> u64 = || {
        let gate = GATE.lock().unwrap_or_else(PoisonError::into_inner).take();
        gate.map_or(0, |gate| gate.recv().map_or(1, |()| 2))
    };
    real.ask("first", &[Op::HostForgotten(gated)]);
    for _ in 0..20 {
        real.ask("other", &[Op::Touch]);
    }
    let before = real.tracer.spans();
    go.send(()).expect("it waits");
    real.ask("last", &[Op::Host(|| 3)]);
    let spans = real.tracer.spans();
    let first = *requests(&spans).iter().find(|span| span.name == "first").expect("it ended");
    let wait = parts(&spans, parts(&spans, first)[1])[0];
    assert_eq!((&*wait.name, &*wait.outcome), ("host", "given up"));
    let work = parts(&spans, wait);
    assert_eq!(names(&work), ["waiting", "running"]);
    assert!(work[1].end > first.end && before.iter().all(|span| span.name != "running"));
    for request in requests(&spans) {
        let waits = parts(&spans, parts(&spans, request)[1]);
        assert_eq!(waits.len(), usize::from(request.name != "other"), "{}", request.name);
    }
}
