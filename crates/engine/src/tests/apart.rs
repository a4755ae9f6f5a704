//! What services of one engine have of their own: settings, figures, passes, and an end that the others do not notice.

use super::ledger::Ledger;
use super::model::ModelCore;
use super::script::{Adder, Op, Rig as Script};
use super::services::Counting;
use crate::{Counters, Engine, EngineOptions, Failure, Handle, HostPool, ServiceOptions, Settings};
use base::Nanos;
use ring::wait::WaitPolicy;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: Nanos = Nanos(1000);

fn engine() -> Engine<ModelCore> {
    Engine::on(ModelCore { now: NOW, ..ModelCore::default() }, EngineOptions { in_flight: 16, ports: 2 })
}

#[test]
fn settings_and_figures_are_a_services_own() {
    let mut engine = engine();
    let handles = [(); 2].map(|()| engine.add(Counting, ServiceOptions::default()));
    let [first, second] = handles;
    let deadline = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&deadline);
    engine.follow(first, move || Settings {
        deadline: Nanos(source.load(Ordering::Relaxed)),
        ..Settings::default()
    });
    let mut edges = handles.map(|handle| engine.open(handle, 64, 64).expect("a port"));
    let stages = handles.map(|handle| engine.stages(handle));
    for (round, limit) in [0, 1, 0].into_iter().enumerate() {
        deadline.store(limit, Ordering::Relaxed);
        for (n, edge) in edges.iter_mut().enumerate() {
            // Submitted long ago, if there is a limit.
            (0..3 + n).for_each(|i| assert!(edge.submit(Nanos(0), i as u32).is_ok()));
            edge.ring();
        }
        let progress = engine.pass();
        assert_eq!((progress.answered, progress.services), (7, first.bit() | second.bit()));
        let late = if round == 0 { 0 } else { 3 };
        let expected = Counters {
            executed: 3 * (round as u64 + 1) - late,
            expired: late,
            passes: round as u64 + 1,
            ..Counters::default()
        };
        assert_eq!(engine.counters(first), expected);
        assert_eq!(engine.counters(second).executed, 4 * (round as u64 + 1));
        let recorded = stages.each_ref().map(|stages| stages.summary()[1].count);
        assert_eq!(recorded, [3, 4].map(|n| n * (round as u64 + 1)), "what waited, of each");
        edges.iter_mut().for_each(|edge| while edge.poll().is_some() {});
    }
    // Of what was set last, however.
    engine.set_settings(first, Settings { deadline: Nanos(1), ..Settings::default() });
    assert!(edges[0].submit(Nanos(0), 1).is_ok());
    edges[0].ring();
    assert_eq!(engine.pass().services, first.bit());
    assert_eq!(engine.counters(first).expired, 4);
    let mut totals = engine.counters(first);
    totals += engine.counters(second);
    assert_eq!(engine.totals(), totals);
    engine.remove(first);
    assert_eq!(engine.totals(), engine.counters(second), "who went takes its figures along");
}

#[test]
fn a_pass_of_one_keeps_what_comes_for_the_others() {
    let mut rig = Script::simple();
    let pool = HostPool::new(1, WaitPolicy::BLOCK).expect("a thread");
    rig.engine.set_host(pool.attach(4, None));
    rig.settle_at(0);
    let number = rig.ask(None, &[Op::Host(|| 3), Op::Add(4)]);
    assert_eq!(rig.engine.pass_of(rig.adder).answered, 0);
    assert!(rig.engine.has_work(), "it was announced, though to a pass that was not the service's");
    rig.pass_at(1);
    // Until the result of the host thread has come.
    while !rig.engine.has_work() {
        std::thread::yield_now();
    }
    rig.engine.pass_of(rig.adder);
    assert!(rig.engine.has_work(), "the result was taken, and the task is to be polled");
    assert_eq!(rig.engine.pass_of(rig.script).answered, 0);
    assert!(rig.engine.has_work(), "the call");
    assert_eq!(rig.engine.pass_of(rig.adder).services, rig.adder.bit());
    assert_eq!(rig.said(number), None);
    rig.settle_at(2);
    assert_eq!(rig.said(number), Some(Ok(vec![3, 5])));
}

#[test]
fn who_is_removed_leaves_its_place_and_the_others_go_on() {
    let mut engine = engine();
    let first = engine.add(Counting, ServiceOptions::default());
    let second = engine.add(Counting, ServiceOptions::default());
    let mut edges = [first, second].map(|handle| engine.open(handle, 64, 64).expect("a port"));
    assert!(engine.open(second, 64, 64).is_none(), "the table is full");
    for edge in &mut edges {
        assert!(edge.submit(NOW, 7).is_ok());
        edge.ring();
    }
    let Counting = engine.remove(first);
    assert!(edges[0].is_closed() && !edges[1].is_closed());
    assert_eq!(engine.pass().services, second.bit());
    assert_eq!(edges[1].poll().map(|reply| reply.body), Some(7));
    let asked = catch_unwind(AssertUnwindSafe(|| engine.counters(first)));
    assert!(asked.is_err(), "the handle is of nobody");

    // Its number is given again, and its doorbell only when nobody can ring it any more.
    let third: Handle<Adder> = engine.add(Adder::default(), ServiceOptions::default());
    assert_eq!((third.bit(), engine.counters(third)), (first.bit(), Counters::default()));
    let port = engine.open(third, 64, 64).expect("a port less is open");
    edges[0].cry_wolf(3);
    assert!(!engine.has_work() || engine.pass().answered == 0);
    assert!(catch_unwind(AssertUnwindSafe(|| engine.service(first) as *mut Counting)).is_err());
    drop((port, edges));
    for _ in 0..100 {
        let ledger: Handle<Ledger> = engine.add_task(Ledger::new(1), ServiceOptions::default());
        assert!(engine.open(ledger, 4, 64).is_some(), "places are given again and again");
        engine.remove(ledger);
    }
}

#[test]
fn there_are_sixteen_services_at_most() {
    let mut engine = engine();
    let handles: Vec<_> = (0..16).map(|_| engine.add(Counting, ServiceOptions::default())).collect();
    assert!(!engine.has_place());
    engine.remove(handles[9]);
    assert!(engine.has_place());
    assert_eq!(engine.add(Counting, ServiceOptions::default()).bit(), 1 << 9);
}

/// A task that waits for a service which is removed is told so; one that is removed itself takes nothing with it.
#[test]
fn calls_to_a_service_that_is_removed_end() {
    let mut rig = Script::simple();
    rig.settle_at(0);
    let waits = rig.ask(None, &[Op::Add(4)]);
    rig.engine.pass_of(rig.script);
    rig.engine.remove(rig.adder);
    let later = rig.ask(None, &[Op::Add(5)]);
    while rig.engine.pass_of(rig.script).more {}
    rig.collect();
    // What these tasks do when a call ends without a reply.
    assert_eq!([waits, later].map(|number| rig.said(number)), [(); 2].map(|()| Some(Err(Failure::Panicked))));

    let pool = HostPool::new(1, WaitPolicy::BLOCK).expect("a thread");
    rig.engine.set_host(pool.attach(4, None));
    rig.ask(None, &[Op::Host(|| 3), Op::Sleep(1000)]);
    rig.ask(None, &[Op::Forever]);
    rig.engine.pass_of(rig.script);
    assert_eq!((rig.engine.in_flight(), rig.alive()), (2, 2));
    drop(rig.engine.remove(rig.script));
    assert_eq!((rig.engine.in_flight(), Arc::strong_count(&rig.alive)), (0, 1));
    // Its work is done all the same, and nobody is looked for that it was for.
    drop(pool);
    assert!(!rig.engine.pass().more);
}
