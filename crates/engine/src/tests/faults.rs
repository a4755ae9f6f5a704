//! A handler that panics or never ends costs its own call and nothing else.

use super::script::{Op, Request, Rig, Sum};
use crate::{Beat, Failure, Form, ServiceOptions, Settings};
use base::Nanos;

const PANICKED: Option<Result<Vec<u64>, Failure>> = Some(Err(Failure::Panicked));
const EXPIRED: Option<Result<Vec<u64>, Failure>> = Some(Err(Failure::Expired));

fn with_deadline(ns: u64) -> Settings {
    Settings { deadline: Nanos(ns), ..Settings::default() }
}

#[test]
fn a_task_that_panics_ends_its_own_call() {
    let mut rig = Rig::simple();
    let before = rig.ask(Some(1), &[Op::Touch, Op::Touch]);
    let at_once = rig.ask(Some(1), &[Op::Panic]);
    let later = rig.ask(None, &[Op::Touch, Op::Panic]);
    let asleep = rig.ask(Some(2), &[Op::Sleep(5), Op::Panic]);
    let in_reply = rig.ask(None, &[Op::PanicInReply]);
    let after = rig.ask(Some(1), &[Op::Touch]);
    let behind = rig.ask(Some(2), &[]);
    rig.settle_at(0);
    rig.settle_at(5);
    for number in [before, after, behind] {
        assert_eq!(rig.said(number), Some(Ok(vec![])));
    }
    for number in [at_once, later, asleep, in_reply] {
        assert_eq!(rig.said(number), PANICKED);
    }
    assert_eq!(rig.engine.service(rig.script).ended, [1, 1, 2]);
    let counters = rig.engine.totals();
    assert_eq!((counters.executed, counters.panicked, rig.alive(), rig.engine.in_flight()), (3, 4, 0, 0));
}

#[test]
fn a_panic_over_the_reply_to_a_panic_closes_the_port() {
    let mut rig = Rig::simple();
    rig.ask(None, &[Op::Panic, Op::PanicInFailed]);
    let other = rig.ask(None, &[]);
    rig.settle_at(0);
    assert!(rig.edge.is_closed());
    assert_eq!((rig.alive(), rig.engine.in_flight()), (0, 0));
    // The engine and its other ports live on.
    let _ = other;
    assert!(rig.adds.submit(Nanos(0), 1).is_ok());
    rig.adds.ring();
    rig.settle_at(0);
    assert_eq!(rig.adds.poll().map(|sum| sum.body.0), Some(2));
}

#[test]
fn tasks_that_do_not_end_are_ended_and_leave_nothing() {
    let mut rig = Rig::simple();
    rig.settings = with_deadline(100);
    let forever = rig.ask(Some(1), &[Op::Forever]);
    let behind = rig.ask(Some(1), &[Op::Touch]);
    let spins = rig.ask(None, &[Op::Spin]);
    let sleeps = rig.ask(None, &[Op::Sleep(200)]);
    let calls = rig.ask(None, &[Op::Call(vec![Op::Forever], 0)]);
    let logs = rig.ask(None, &[Op::Durable]);
    let fine = rig.ask(None, &[Op::Touch]);
    assert!(rig.pass_at(0).more, "one spins");
    assert_eq!(rig.engine.next_deadline(), Nanos(101));
    rig.pass_at(100);
    assert_eq!((rig.replies.len(), rig.said(fine)), (1, Some(Ok(vec![]))));
    rig.settle_at(101);
    for number in [forever, spins, sleeps, calls, logs] {
        assert_eq!(rig.said(number), EXPIRED);
    }
    // It had waited behind the first for as long.
    assert_eq!(rig.said(behind), EXPIRED);
    assert_eq!((rig.alive(), rig.engine.in_flight()), (0, 0));
    assert_eq!(rig.engine.totals().expired, 7, "the call has a deadline too");
    assert_eq!(rig.engine.next_deadline(), Nanos::MAX);
    let next = rig.ask(Some(1), &[]);
    rig.settle_at(150);
    assert_eq!(rig.said(next), Some(Ok(vec![])), "its line moves on");
}

#[test]
fn who_waits_behind_an_ended_task_goes_on_if_it_has_time() {
    let mut rig = Rig::simple();
    rig.settings = with_deadline(100);
    let forever = rig.ask(Some(1), &[Op::Forever]);
    rig.settle_at(0);
    rig.engine.core().now = Nanos(50);
    let behind = rig.ask(Some(1), &[Op::Touch]);
    rig.settle_at(50);
    assert_eq!(rig.said(behind), None);
    rig.settle_at(101);
    assert_eq!((rig.said(forever), rig.said(behind)), (EXPIRED, Some(Ok(vec![]))));
}

#[test]
fn a_deadline_that_is_set_while_tasks_run_holds_for_them() {
    let mut rig = Rig::simple();
    let forever = rig.ask(None, &[Op::Forever]);
    rig.settle_at(0);
    rig.settings = with_deadline(100);
    rig.settle_at(5);
    assert_eq!(rig.engine.next_deadline(), Nanos(101));
    rig.settle_at(101);
    assert_eq!(rig.said(forever), EXPIRED);
}

#[test]
fn an_edge_that_reads_nothing_holds_no_task() {
    let mut rig = Rig::new(8, ServiceOptions::default());
    let mut other = rig.engine.open(rig.script, 16, 256).expect("a port");
    // Each reply takes a fourth of the arena, and nobody reads them.
    for _ in 0..16 {
        assert!(other.submit(Nanos(0), Request { len: 64, ..Request::default() }).is_ok());
    }
    other.ring();
    for _ in 0..10 {
        rig.pass_at(0);
    }
    assert_eq!((rig.engine.in_flight(), rig.pass_at(0).blocked), (0, 1));
    let mine = rig.ask(None, &[]);
    rig.settle_at(0);
    assert!(rig.said(mine).is_some());
    // It reads again, and gets all that it asked for.
    let mut got = 0;
    while got < 16 {
        while let Some(reply) = other.poll() {
            other.release(reply.body.span);
            other.publish_room();
            got += 1;
        }
        rig.pass_at(0);
    }
    assert_eq!(rig.pass_at(0).blocked, 0);
}

#[test]
fn a_staged_service_that_answers_panics_keeps_its_port() {
    for form in [Form::Plain, Form::Staged, Form::Coroutine] {
        let mut rig = Rig::simple();
        rig.settings.form = form;
        rig.engine.service(rig.adder).touch_panics = form != Form::Plain;
        for number in [1, 13, 3] {
            assert!(rig.adds.submit(Nanos(0), number).is_ok());
        }
        rig.adds.ring();
        rig.settle_at(0);
        let sums: Vec<u64> = std::iter::from_fn(|| rig.adds.poll()).map(|reply| reply.body.0).collect();
        assert_eq!(sums, [2, 0, 4], "{form:?}");
        assert_eq!((rig.engine.totals().panicked, rig.adds.is_closed()), (1, false));
    }
}

#[test]
fn the_reply_to_a_panic_waits_for_room_too() {
    let mut rig = Rig::simple();
    let mut adds = rig.engine.open(rig.adder, 16, 64).expect("a port");
    for _ in 0..12 {
        assert!(adds.submit(Nanos(0), 13).is_ok());
    }
    adds.ring();
    rig.settle_at(0);
    let mut got = 0;
    while got < 12 {
        while let Some(reply) = adds.poll() {
            let Sum(number, span) = reply.body;
            assert_eq!(number, 0);
            adds.release(span);
            adds.publish_room();
            got += 1;
        }
        rig.pass_at(0);
    }
    assert_eq!(rig.engine.totals().panicked, 12, "each panicked once");
}

#[test]
fn an_engine_shows_that_it_lives() {
    let mut rig = Rig::simple();
    let heart = rig.engine.heartbeat();
    rig.pass_at(70);
    assert_eq!(heart.read(Nanos(100)), Beat { passes: 1, since_pass: Nanos(30), running_for: None });
}
