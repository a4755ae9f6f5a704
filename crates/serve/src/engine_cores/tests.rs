//! Services that share cores: each is answered by its core's thread, or by its own edges; they come, go and fail to come without the others noticing.

use super::{EngineCore, EngineCores, EngineError, EnginePlan, EngineWishes, Hosting, OnCore};
use crate::admin::health::stalled;
use base::Nanos;
use engine::{EdgePort, Messages, Service, Settings};
use ring::arena::Producer;
use ring::wait::{WaitPolicy, Waker, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says on which thread it ran, and counts; waits at its gate, if it has one.
#[derive(Default)]
struct Witness(u64, Option<Arc<Mutex<()>>>);

impl Messages for Witness {
    type Request = u64;
    type Reply = (u64, String);
}

impl Service for Witness {
    const TOUCHES: usize = 0;

    fn touch_key(_: &u64) -> u64 {
        0
    }

    fn touch(&self, _: usize, _: u64) {}

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &u64, _: &mut Producer) -> Option<(u64, String)> {
        self.0 += 1;
        // Waits while somebody holds it.
        let _open = self.1.as_ref().map(|gate| gate.lock());
        Some((*request, std::thread::current().name().unwrap_or_default().to_owned()))
    }

    fn expire(&mut self, request: &u64, _: &mut Producer) -> Option<(u64, String)> {
        Some((*request, "late".to_owned()))
    }
}

fn hosting(needs_thread: &Arc<AtomicBool>, waiting: Vec<Waker>) -> Hosting {
    let needs_thread = Arc::clone(needs_thread);
    Hosting {
        in_flight: 16,
        settings: Box::new(Settings::default),
        policies: Box::new(|| [WaitPolicy::default(), WaitPolicy::BLOCK]),
        needs_thread: Box::new(move || needs_thread.load(Ordering::Relaxed)),
        waiting,
    }
}

/// A service on `core`, which needs its thread, and a port to it.
fn witness(core: &Arc<EngineCore>) -> (OnCore<Witness>, EdgePort<Witness>) {
    let on_core = OnCore::add(core, Witness::default(), hosting(&Arc::new(AtomicBool::new(true)), vec![]));
    let on_core = on_core.expect("a place");
    let port = on_core.open(16, 64).expect("a port");
    (on_core, port)
}

/// Asks, and waits for the answer.
fn ask(on_core: &OnCore<Witness>, port: &mut EdgePort<Witness>, number: u64) -> String {
    assert!(port.submit(Nanos::ZERO, number).is_ok());
    port.ring();
    on_core.announce();
    let begun = Instant::now();
    loop {
        if let Some(reply) = port.poll() {
            assert_eq!(reply.body.0, number);
            return reply.body.1;
        }
        assert!(begun.elapsed() < PATIENCE, "no answer to {number}");
        std::thread::yield_now();
    }
}

fn cores(cores: usize) -> EngineCores {
    EngineCores::new(&EnginePlan { cores, ..EnginePlan::default() }, []).expect("no host threads")
}

#[test]
fn services_of_a_core_have_its_thread_and_leave_one_by_one() {
    let cores = cores(2);
    let mut all = [0, 0, 0, 1].map(|core| witness(cores.core(core)));
    for round in 0..50 {
        let threads: Vec<_> = all.iter_mut().map(|(on_core, port)| ask(on_core, port, round)).collect();
        assert_eq!(threads, ["engine-0", "engine-0", "engine-0", "engine-1"]);
    }
    // What was asked of one that goes stays without an answer; the others have theirs.
    let (gone, mut port) = {
        let [_, middle, _, _] = &mut all;
        std::mem::replace(middle, witness(cores.core(1)))
    };
    gone.leave();
    assert!(port.is_closed() && port.submit(Nanos::ZERO, 1).is_ok());
    port.ring();
    let threads: Vec<_> = all.iter_mut().map(|(on_core, port)| ask(on_core, port, 7)).collect();
    assert_eq!(threads, ["engine-0", "engine-1", "engine-0", "engine-1"]);
    assert!(port.poll().is_none());
    // It is asked for its figures all the same.
    assert_eq!(gone.ask(|witness, counters| (witness.0, counters.executed)), (50, 50));
    assert_eq!(all[0].0.ask(|witness, counters| (witness.0, counters.executed)), (51, 51));
    drop(all);
    // The thread is there for who comes then.
    let (on_core, mut port) = witness(cores.core(0));
    assert_eq!(ask(&on_core, &mut port, 3), "engine-0");
}

#[test]
fn a_service_comes_while_the_thread_is_busy() {
    let cores = cores(1);
    let core = cores.core(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let (on_core, mut port) = witness(core);
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                ask(&on_core, &mut port, number);
                number += 1;
            }
        });
        for number in 0..200 {
            let (on_core, mut port) = witness(core);
            ask(&on_core, &mut port, number);
        }
        over.store(true, Ordering::Relaxed);
        busy.join().expect("answered");
    });
}

#[test]
fn who_needs_no_thread_runs_its_own_passes_and_no_others() {
    let core = EngineCore::by_hand();
    let (other, mut port_of_other) = witness(&core);
    let needs = Arc::new(AtomicBool::new(false));
    let on_core = OnCore::add(&core, Witness::default(), hosting(&needs, vec![])).expect("a place");
    let mut port = on_core.open(16, 64).expect("a port");
    for (port, number) in [(&mut port, 1), (&mut port_of_other, 2)] {
        assert!(port.submit(Nanos::ZERO, number).is_ok());
        port.ring();
    }
    assert!(on_core.try_pass() && !on_core.is_led() && other.is_led());
    assert_eq!(port.poll().map(|reply| reply.body.0), Some(1));
    assert!(port_of_other.poll().is_none());
    let own = on_core.ask(|_, counters| counters);
    assert_eq!((own.executed, own.passes, other.ask(|_, counters| counters.executed)), (1, 1, 0));
    needs.store(true, Ordering::Relaxed);
    assert!(on_core.is_led());
}

/// One edge sleeps for the thread, another runs a pass and so answers it: the first is woken.
#[test]
fn who_counts_on_the_thread_is_woken_by_whoever_answers() {
    let core = EngineCore::by_hand();
    let (mut sleeper, waker) = waiting_on_eventfd().expect("a descriptor");
    let needs = Arc::new(AtomicBool::new(false));
    let on_core = OnCore::add(&core, Witness::default(), hosting(&needs, vec![waker])).expect("a place");
    let mut port = on_core.open(16, 64).expect("a port");
    for is_counting in [false, true] {
        if is_counting {
            on_core.count_on_thread();
        }
        assert!(port.submit(Nanos::ZERO, 5).is_ok());
        port.ring();
        sleeper.arm();
        assert_eq!(on_core.is_led(), is_counting);
        assert!(on_core.try_pass());
        let descriptor = sleeper.descriptor().expect("it has one");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        let rung = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a descriptor");
        assert_eq!(rung, usize::from(is_counting));
        sleeper.disarm();
        assert!(port.poll().is_some());
    }
}

#[test]
fn a_full_core_refuses_with_a_word() {
    let core = EngineCore::by_hand();
    let (on_core, first) = witness(&core);
    let mut ports = vec![first];
    let refused = loop {
        match on_core.open(2, 64) {
            Ok(port) => ports.push(port),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, EngineError::Ports(0)) && ports.len() == super::engine_core::PORTS);
    assert!(refused.to_string().contains("engine core 0 has no room for another of 512 edges"), "{refused}");
    ports.pop();
    assert!(on_core.open(2, 64).is_ok(), "the place of an edge that went");

    let add = || OnCore::add(&core, Witness::default(), hosting(&Arc::default(), vec![]));
    let services: Vec<_> = (1..16).map(|_| add().expect("a place")).collect();
    let refused = add().err().expect("there are sixteen");
    assert!(matches!(refused, EngineError::Services(0)), "{refused}");
    drop(services);
    assert!(add().is_ok());
}

/// A core whose service does not come back is the one that is named.
#[test]
fn a_core_that_stalls_is_seen_by_its_name() {
    let plan = EnginePlan { cores: 3, host_threads: Some(1), ..EnginePlan::default() };
    let cores = EngineCores::new(&plan, []).expect("a host thread");
    let pulses = cores.pulses();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let begun = Instant::now();
    let until = |expected: &[&str]| loop {
        let stalled = runtime.block_on(stalled(&pulses, Duration::from_millis(200)));
        if stalled == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{stalled:?} and not {expected:?}");
    };
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("nobody panicked");
    let (_other, _port) = witness(cores.core(0));
    let (on_core, mut port) = witness(cores.core(1));
    until(&[]);
    on_core.ask(|witness, _| witness.1 = Some(Arc::clone(&gate)));
    assert!(port.submit(Nanos::ZERO, 1).is_ok());
    port.ring();
    on_core.announce();
    until(&["engine-1"]);
    drop(closed);
    until(&[]);
}

#[test]
fn plans_are_before_wishes() {
    let wish = |pin, host_threads| EngineWishes { pin, host_threads, ..EngineWishes::default() };
    let names =
        |cores: &EngineCores| cores.pulses().iter().map(|pulse| pulse.name().to_owned()).collect::<Vec<_>>();
    let wished = [(0, wish(Some(0), 1)), (0, wish(Some(1), 2))];
    let cores = EngineCores::new(&EnginePlan::default(), wished).expect("threads");
    assert_eq!(names(&cores), ["engine-0", "host-0", "host-1", "host-2"]);
    let plan = EnginePlan { cores: 2, pin: vec![], host_threads: Some(1) };
    let cores = EngineCores::new(&plan, wished).expect("a thread");
    assert_eq!(names(&cores), ["engine-0", "engine-1", "host-0"]);
    assert_eq!([0, 1].map(|core| cores.core(core).pin()), [Some(0), None]);
    let plan = EnginePlan { pin: vec![1, 0], ..plan };
    let cores = EngineCores::new(&plan, wished).expect("a thread");
    assert_eq!([0, 1].map(|core| cores.core(core).pin()), [Some(1), Some(0)]);
}
