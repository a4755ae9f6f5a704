//! The engine as its users see it: whatever edges do, requests are executed once, in order, and answered where they came from.

mod apart;
mod deserted;
mod faults;
mod ledger;
mod model;
mod order;
mod script;
mod services;
mod toy;
mod traces;
mod waits;

use crate::{Form, Settings};
use base::{Nanos, Prng};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use toy::{Entry, Fault, Outcome, Rig, Shape};

const FORMS: [Form; 3] = [Form::Plain, Form::Staged, Form::Coroutine];
const SMALL: Shape = Shape { ports: 3, entries: 16, arena: 256, in_flight: 40 };
const ROOMY: Shape = Shape { ports: 3, entries: 64, arena: 1 << 14, in_flight: 256 };
/// A deadline that everything submitted at the beginning of time has missed.
const PAST: Nanos = Nanos(1);

/// One step of an edge, or a pass of the engine.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { port: usize, cell: usize, len: u32, late: bool, times: usize },
    Ring(usize),
    Whisper(usize),
    CryWolf(usize, u32),
    Pass,
    Collect(usize, usize),
    Release(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let port = || 0usize..5;
    let step = prop_oneof![
        6 => (port(), 0..toy::CELLS, any::<u32>(), any::<bool>(), 1usize..20)
            .prop_map(|(port, cell, len, late, times)| Step::Submit { port, cell, len, late, times }),
        4 => port().prop_map(Step::Ring),
        1 => port().prop_map(Step::Whisper),
        1 => (port(), any::<u32>()).prop_map(|(port, n)| Step::CryWolf(port, n)),
        5 => Just(Step::Pass),
        3 => (port(), 1usize..30).prop_map(|(port, n)| Step::Collect(port, n)),
        3 => (port(), 1usize..30).prop_map(|(port, n)| Step::Release(port, n)),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 25 } else { 120 })
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1usize..5, 0u32..6, 6u32..11, 1usize..300).prop_map(|(ports, entries, arena, in_flight)| Shape {
        ports,
        entries: 1 << entries,
        arena: 1 << arena,
        in_flight,
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    (1usize..=64, 1usize..70, any::<bool>()).prop_map(|(group, quantum, hurry)| Settings {
        form: Form::Plain,
        group,
        quantum,
        deadline: if hurry { PAST } else { Nanos::ZERO },
    })
}

fn drive(rig: &mut Rig, steps: &[Step]) {
    let ports = rig.edges.len();
    for &step in steps {
        match step {
            Step::Submit { port, cell, len, late, times } => {
                for i in 0..times {
                    rig.edges[port % ports].submit(port % ports, cell + i, len.wrapping_mul(i as u32), late);
                }
            }
            Step::Ring(port) => _ = rig.edges[port % ports].port.ring(),
            Step::Whisper(port) => rig.edges[port % ports].port.whisper(),
            Step::CryWolf(port, n) => rig.edges[port % ports].port.cry_wolf(n),
            Step::Collect(port, n) => {
                rig.edges[port % ports].collect(n);
            }
            Step::Release(port, n) => rig.edges[port % ports].release(n),
            Step::Pass => {
                let before = rig.toy().log.len();
                let progress = rig.pass();
                assert_eq!(progress.answered, rig.toy().log.len() - before);
            }
        }
    }
}

/// The service's log, but for the touches.
fn log(rig: &mut Rig) -> Vec<Entry> {
    rig.toy().log.iter().map(|entry| Entry { touched: 0, ..*entry }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn requests_are_executed_once_in_order_and_answered(
        shape in shapes(), settings in settings(), steps in steps(),
    ) {
        let mut first = None;
        let makes = [Rig::new, Rig::beside_another];
        for (form, make) in FORMS.into_iter().flat_map(|form| makes.map(|make| (form, make))) {
            let mut rig = make(shape, Settings { form, ..settings });
            // Ports that were opened just now are looked at once, and have no turn any more then.
            rig.pass();
            drive(&mut rig, &steps);
            let submitted: usize = rig.edges.iter().map(|edge| edge.submitted.len()).sum();
            // Every pass that has something to do answers something.
            prop_assert!(rig.settle(submitted + 2), "something is lost in {:?}: {:?}", form, rig.check());
            prop_assert_eq!(rig.check(), Ok(()), "{:?}", form);
            let progress = rig.pass();
            prop_assert_eq!((progress.answered, progress.blocked, progress.more), (0, 0, false));
            let log = log(&mut rig);
            match &first {
                None => first = Some(log),
                Some(first) => prop_assert_eq!(first, &log, "{:?} answers otherwise than plain", form),
            }
        }
    }
}

/// Every port submits `each` requests and rings.
fn load(rig: &mut Rig, each: usize) {
    for (at, edge) in rig.edges.iter_mut().enumerate() {
        for i in 0..each {
            assert!(edge.submit(at, i, i as u32 % 20, i % 3 == 2), "the ring has room for {each}");
        }
        edge.port.ring();
    }
}

#[test]
fn the_checker_finds_planted_faults() {
    let faults = [Fault::Twice, Fault::EarlyBird, Fault::Lazy, Fault::Late, Fault::Garbled];
    for form in FORMS {
        let settings = Settings { form, deadline: PAST, ..Settings::default() };
        for fault in faults.map(Some).into_iter().chain([None]) {
            let mut rig = Rig::new(ROOMY, settings);
            rig.toy().fault = fault;
            load(&mut rig, 14);
            assert!(rig.settle(10));
            assert_eq!(rig.check().is_err(), fault.is_some(), "{fault:?} in {form:?}");
        }
        // Replies that go to the wrong port.
        let mut rig = Rig::new(ROOMY, settings);
        load(&mut rig, 14);
        assert!(rig.settle(10));
        let (left, right) = rig.edges.split_at_mut(1);
        std::mem::swap(&mut left[0].replies[4], &mut right[0].replies[4]);
        assert!(rig.check().is_err());
    }
}

#[test]
fn every_request_is_touched_step_by_step_before_it_is_executed() {
    for (form, steps) in FORMS.into_iter().zip([0, 2, 2]) {
        for group in [1, 5, 64] {
            let mut rig = Rig::new(ROOMY, Settings { form, group, ..Settings::default() });
            load(&mut rig, 20);
            assert!(rig.settle(10));
            assert!(rig.toy().log.iter().all(|entry| entry.touched == steps), "{form:?}");
        }
    }
}

/// Ports 1 and up keep their rings full, port 0 asks one thing at a time. Between its asking and its answer every other port
/// has at most one quantum, and all those get equal shares.
#[test]
fn a_flood_delays_another_port_by_at_most_its_quantum() {
    let (passes, entries) = if cfg!(miri) { (2, 16) } else { (200, 128) };
    let turns = [(1, 1), (1, 64), (4, 3), (16, 100), (64, 100), (10, 7), (64, 256)];
    let turns = if cfg!(miri) { &turns[1..3] } else { &turns[..] };
    // With replies of 60 bytes, the arena has room for 8 and the flooding ports block again and again.
    for ((quantum, in_flight), len) in turns.iter().flat_map(|&turn| [(turn, 0), (turn, 60)]) {
        let shape = Shape { ports: 4, entries, arena: 512, in_flight };
        let mut rig = Rig::new(shape, Settings { quantum, ..Settings::default() });
        let mut prng = Prng::for_entity(5, quantum as u64, in_flight as u64);
        let mut asked_at = None;
        for _ in 0..passes {
            for at in 1..4 {
                while rig.edges[at].submit(at, at, len, false) {}
                rig.edges[at].port.ring();
            }
            if asked_at.is_none() && prng.chance(0.3) {
                assert!(rig.edges[0].submit(0, 0, 0, false));
                rig.edges[0].port.ring();
                asked_at = Some(rig.toy().log.len());
            }
            rig.pass();
            rig.edges.iter_mut().for_each(|edge| _ = edge.collect(usize::MAX));
            rig.edges.iter_mut().for_each(|edge| edge.release(usize::MAX));
            if rig.edges[0].is_settled()
                && let Some(asked_at) = asked_at.take()
            {
                let since = &rig.toy().log[asked_at..];
                let before = since.iter().take_while(|entry| entry.request.port != 0);
                let mut of = [0; 4];
                before.for_each(|entry| of[entry.request.port] += 1);
                assert!(of.iter().all(|&n| n <= quantum), "{of:?} with a quantum of {quantum}");
            }
        }
        assert_eq!(rig.engine.totals().blocked > 0, len > 0 && in_flight >= 64);
        if len > 0 {
            continue;
        }
        let shares: Vec<usize> = rig.edges[1..].iter().map(|edge| edge.replies.len()).collect();
        let (least, most) = (shares.iter().min(), shares.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= quantum), "{shares:?}");
    }
}

#[test]
fn what_is_late_is_answered_and_never_executed() {
    for form in FORMS {
        let mut rig = Rig::new(SMALL, Settings { form, deadline: PAST, ..Settings::default() });
        load(&mut rig, 15);
        assert!(rig.settle(100));
        assert_eq!(rig.check(), Ok(()));
        let counters = rig.engine.totals();
        assert_eq!((counters.executed, counters.expired), (30, 15));
        let log = &rig.toy().log;
        assert!(log.iter().all(|e| e.request.late == (e.outcome == Outcome::Expired)));
    }
}

#[test]
fn a_port_without_room_takes_no_place_from_the_others() {
    let shape = Shape { in_flight: 1, ..SMALL };
    let mut rig = Rig::faulty(shape, Settings { quantum: 1, ..Settings::default() }, Fault::Stuck);
    load(&mut rig, 10);
    let mut answered = vec![];
    for _ in 0..22 {
        // Whatever its bell says.
        rig.edges[0].port.cry_wolf(1);
        answered.push(rig.pass().answered);
    }
    assert_eq!(answered[..], [&[0][..], &[1; 20], &[0]].concat());
}

#[test]
fn a_port_without_room_does_not_stop_the_others() {
    for form in FORMS {
        for in_flight in [1, 40] {
            let shape = Shape { in_flight, ..SMALL };
            let mut rig = Rig::faulty(shape, Settings { form, ..Settings::default() }, Fault::Stuck);
            load(&mut rig, 15);
            assert!(!rig.settle(100));
            assert!(rig.edges[1].is_settled() && rig.edges[2].is_settled(), "{form:?} with {in_flight}");
            assert_eq!((rig.edges[0].replies.len(), rig.pass().blocked), (0, 1));
            assert_eq!(rig.engine.totals().blocked, 1);
            rig.toy().fault = None;
            assert!(rig.settle(100));
            assert_eq!(rig.check(), Ok(()), "what was given back kept its order");
        }
    }
}

/// Passes until all is answered or `passes` are over; returns how many panicked.
fn settle_through_panics(rig: &mut Rig, passes: usize) -> usize {
    (0..passes).filter(|_| catch_unwind(AssertUnwindSafe(|| rig.settle(1))).is_err()).count()
}

#[test]
fn a_panicking_touch_costs_its_pass_and_nothing_else() {
    for form in [Form::Staged, Form::Coroutine] {
        let mut rig = Rig::faulty(SMALL, Settings { form, ..Settings::default() }, Fault::TouchPanics);
        load(&mut rig, 15);
        let panics = settle_through_panics(&mut rig, 20);
        assert_eq!(panics, 1, "its pass had the others' fourth requests too");
        assert_eq!(rig.check(), Ok(()), "{form:?}");
        load(&mut rig, 15);
        assert!(rig.settle(100), "the next pass starts anew");
    }
}

#[test]
fn a_panic_over_a_request_closes_its_port_and_no_other() {
    for form in FORMS {
        let mut rig = Rig::faulty(SMALL, Settings { form, ..Settings::default() }, Fault::ExecutePanics);
        load(&mut rig, 15);
        assert_eq!(settle_through_panics(&mut rig, 20), 1);
        let closed: Vec<bool> = rig.edges.iter().map(|edge| edge.port.is_closed()).collect();
        assert_eq!(closed, [true, false, false]);
        assert_eq!(rig.edges[0].replies.len(), 3, "those before it were answered");
        assert!(rig.edges[1].is_settled() && rig.edges[2].is_settled(), "{form:?}");
        rig.edges[0].submitted.truncate(3);
        assert_eq!(rig.check(), Ok(()), "nothing after it was executed");
    }
}
