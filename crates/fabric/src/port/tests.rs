//! Ports against a model in one thread, and across threads that sleep at every step.

use super::polling::{Level, Thresholds};
use super::*;
use base::Nanos;
use proptest::prelude::*;
use ring::wait::{Outcome, WaitPolicy};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

const MODES: [Mode; 4] =
    [Mode::Inline, Mode::Doorbell { batch: 1 }, Mode::Doorbell { batch: 3 }, Mode::Coherent];
const LONG: Option<Duration> = Some(Duration::from_secs(600));

fn options(mode: Mode, entries: u32) -> PortOptions {
    PortOptions { mode, entries, boxed_bytes: 4096 }
}

/// A core that is busy from the first packet on, or calm whatever comes.
fn core(level: Level) -> Ports {
    let busy_per_sec = if level == Level::Busy { 0 } else { u64::MAX };
    let thresholds = Thresholds { busy_per_sec, hysteresis_percent: 50 };
    Ports::new(&PortsOptions { max_ports: 8, quantum: 4, thresholds })
}

fn number(n: u32) -> Packet {
    Packet::new(n, &[&n.to_le_bytes()])
}

/// Polls at `now` until nothing comes, and returns the tags.
fn poll_all(ports: &mut Ports, now: &mut Nanos) -> Vec<u32> {
    let mut tags = Vec::new();
    loop {
        *now = now.plus(Nanos(1_000));
        if ports.poll(*now, usize::MAX, |_, packet| tags.push(packet.tag())) == 0 {
            return tags;
        }
    }
}

#[test]
fn every_mode_and_level_passes_packets_both_ways() {
    for (mode, level) in MODES.into_iter().flat_map(|mode| [(mode, Level::Calm), (mode, Level::Busy)]) {
        let (mut ports, mut now) = (core(level), Nanos::ZERO);
        let mut port = ports.opener().open(&options(mode, 8)).expect("there is room");
        poll_all(&mut ports, &mut now);
        assert_eq!((port.mode(), port.entries(), ports.len()), (mode, 8, 1));
        for n in 0..8 {
            port.try_send(number(n)).expect("there is room");
        }
        assert_eq!(port.try_send(number(9)), Err(SendError::Full(number(9))));
        assert_eq!(poll_all(&mut ports, &mut now), [0, 1, 2, 3, 4, 5, 6, 7]);
        let id = port.id();
        for n in 0..8 {
            ports.try_send(id, number(n)).expect("there is room");
        }
        assert_eq!(ports.try_send(id, number(9)), Err(SendError::Full(number(9))));
        ports.flush();
        for n in 0..8 {
            assert_eq!(port.recv(), Some(number(n)));
        }
        assert_eq!(port.recv(), None);
        // What the last wait reported is not reported again.
        assert_eq!(ports.wait(WaitPolicy::BLOCK, LONG, || false), Outcome::Ready, "there is room again");
        assert_eq!(port.wait(WaitPolicy::BLOCK, LONG), Outcome::Ready, "there is room again");
        poll_all(&mut ports, &mut now);
        assert_eq!(port.wait(WaitPolicy::BLOCK, Some(Duration::ZERO)), Outcome::TimedOut);
        assert_eq!(ports.wait(WaitPolicy::BLOCK, Some(Duration::ZERO), || false), Outcome::TimedOut);
    }
}

/// While the core is busy, nobody touches it when there is room again; it must look by itself, also for ports with doorbells.
#[test]
fn a_spinning_core_finds_room_again() {
    for mode in MODES {
        let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
        let mut port = ports.opener().open(&options(mode, 2)).expect("there is room");
        poll_all(&mut ports, &mut now);
        while ports.try_send(port.id(), number(1)).is_ok() {}
        poll_all(&mut ports, &mut now);
        assert_eq!(ports.wait(WaitPolicy::SPIN, Some(Duration::ZERO), || false), Outcome::TimedOut);
        while port.recv().is_some() {}
        assert_eq!(ports.wait(WaitPolicy::SPIN, LONG, || false), Outcome::Ready, "{mode:?}");
    }
}

#[test]
fn a_doorbell_is_rung_per_batch_and_on_flush() {
    let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
    let mut port = ports.opener().open(&options(Mode::Doorbell { batch: 3 }, 16)).expect("there is room");
    assert!(poll_all(&mut ports, &mut now).is_empty());
    for n in 0..5 {
        port.try_send(number(n)).expect("there is room");
    }
    assert_eq!(poll_all(&mut ports, &mut now), [0, 1, 2]);
    port.flush();
    assert_eq!(poll_all(&mut ports, &mut now), [3, 4]);
    port.set_batch(1);
    port.try_send(number(5)).expect("there is room");
    assert_eq!(poll_all(&mut ports, &mut now), [5]);
}

#[test]
fn long_packets_are_bounded_by_their_bytes() {
    let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
    let mut port = ports.opener().open(&options(Mode::Coherent, 8)).expect("there is room");
    let long = |len: usize| Packet::from_vec(7, vec![7; len]);
    port.try_send(long(3000)).expect("there is room");
    assert!(matches!(port.try_send(long(1200)), Err(SendError::Full(_))));
    port.try_send(number(1)).expect("short ones pass");
    port.try_send(long(1000)).expect("there is room");
    port.flush();
    assert_eq!(poll_all(&mut ports, &mut now), [7, 1, 7]);
    port.try_send(long(100_000)).expect("one alone passes whatever its length");
    // What is refused flushes what was taken.
    assert!(matches!(port.try_send(long(200)), Err(SendError::Full(_))));
    assert_eq!(poll_all(&mut ports, &mut now), [7]);
    let id = port.id();
    ports.try_send(id, long(4000)).expect("there is room");
    assert!(matches!(ports.try_send(id, long(200)), Err(SendError::Full(_))));
    ports.flush();
    assert_eq!(port.recv().map(|packet| packet.bytes().len()), Some(4000));
    ports.try_send(id, long(200)).expect("there is room again");
}

#[test]
fn who_leaves_is_noticed_after_the_last_packet() {
    let (mut ports, mut now) = (core(Level::Calm), Nanos::ZERO);
    let opener = ports.opener();
    let mut left = opener.open(&options(Mode::Doorbell { batch: 9 }, 8)).expect("there is room");
    let mut closed = opener.open(&options(Mode::Inline, 8)).expect("there is room");
    poll_all(&mut ports, &mut now);
    left.try_send(number(1)).expect("there is room");
    let id = left.id();
    drop(left);
    assert_eq!(poll_all(&mut ports, &mut now), [1]);
    assert_eq!((ports.next_left(), ports.next_left(), ports.len()), (Some(id), None, 1));
    assert_eq!(ports.try_send(id, number(1)), Err(SendError::Gone(number(1))));
    ports.try_send(closed.id(), number(2)).expect("there is room");
    ports.close(closed.id());
    assert!(closed.is_closed() && ports.is_empty());
    assert_eq!(closed.recv(), Some(number(2)));
    assert_eq!(closed.wait(WaitPolicy::BLOCK, LONG), Outcome::PeerGone);
    // Places are used again, under other names; nobody opens more than there are, nor after the end.
    let many: Vec<_> = (0..8).map(|_| opener.open(&options(Mode::Coherent, 2)).expect("a place")).collect();
    assert!(many.iter().all(|port| port.id() != id && port.id().index() < 8));
    assert_eq!(opener.open(&options(Mode::Coherent, 2)).err(), Some(OpenError::TooMany));
    drop(ports);
    assert!(many.iter().all(Port::is_closed));
    assert_eq!(opener.open(&options(Mode::Coherent, 2)).err(), Some(OpenError::Closed));
}

#[test]
fn a_port_that_leaves_while_it_is_replaced_is_done_with() {
    for steps_over in [false, true] {
        let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
        let mut port = ports.opener().open(&options(Mode::Inline, 4)).expect("there is room");
        poll_all(&mut ports, &mut now);
        port.try_send(number(1)).expect("there is room");
        ports.replace(port.id(), &options(Mode::Doorbell { batch: 8 }, 8)).expect("replaced");
        assert_eq!(ports.replace(port.id(), &options(Mode::Inline, 8)), Err(OpenError::Moving));
        if steps_over {
            port.flush();
            port.try_send(number(2)).expect("there is room");
        }
        drop(port);
        assert_eq!(poll_all(&mut ports, &mut now), if steps_over { vec![1, 2] } else { vec![1] });
        assert_eq!(ports.len(), 0);
        // All doorbells came back.
        let opener = ports.opener();
        let all: Vec<_> = (0..8).map(|_| opener.open(&options(Mode::Doorbell { batch: 1 }, 2))).collect();
        assert!(all.iter().all(Result::is_ok));
    }
}

/// Who leaves before it is seen gives its doorbell back, and that may be another port's by the time it is seen.
#[test]
fn a_doorbell_that_went_to_another_port_tells_of_that_one() {
    let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
    let opener = ports.opener();
    let mut port = opener.open(&options(Mode::Inline, 4)).expect("there is room");
    poll_all(&mut ports, &mut now);
    let doorbell = options(Mode::Doorbell { batch: 1 }, 4);
    drop(opener.open(&doorbell).expect("there is room"));
    ports.replace(port.id(), &doorbell).expect("replaced");
    port.flush();
    poll_all(&mut ports, &mut now);
    port.try_send(number(1)).expect("there is room");
    assert_eq!(poll_all(&mut ports, &mut now), [1]);
}

/// Turning calm without looking once more overlooks what was sent just before.
#[test]
fn an_overlooked_packet_would_be_found() {
    let outcome = |planted| {
        let (mut ports, mut now) = (core(Level::Busy), Nanos::ZERO);
        let mut port = ports.opener().open(&options(Mode::Coherent, 8)).expect("there is room");
        poll_all(&mut ports, &mut now);
        ports.planted = planted;
        port.try_send(number(1)).expect("there is room");
        port.flush();
        ports.set_thresholds(Thresholds { busy_per_sec: u64::MAX, hysteresis_percent: 50 });
        ports.poll(now.plus(Nanos::from_secs(1)), 0, |_, _| ());
        ports.wait(WaitPolicy::BLOCK, Some(Duration::ZERO), || false)
    };
    assert_eq!(outcome(false), Outcome::Ready);
    assert_eq!(outcome(true), Outcome::TimedOut);
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Send(usize, u32),
    Flush(usize),
    Answer(usize, u32),
    Recv(usize, usize),
    Poll(usize),
    Replace(usize, usize, u32),
    Leave(usize),
    Thresholds(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let port = 0usize..3;
    proptest::collection::vec(
        prop_oneof![
            2 => (0usize..4).prop_map(Step::Open),
            8 => (port.clone(), 1u32..6).prop_map(|(port, n)| Step::Send(port, n)),
            4 => port.clone().prop_map(Step::Flush),
            6 => (port.clone(), 1u32..6).prop_map(|(port, n)| Step::Answer(port, n)),
            5 => (port.clone(), 1usize..9).prop_map(|(port, n)| Step::Recv(port, n)),
            6 => (1usize..20).prop_map(Step::Poll),
            3 => (port.clone(), 0usize..4, 1u32..20).prop_map(|(p, mode, n)| Step::Replace(p, mode, n)),
            1 => port.prop_map(Step::Leave),
            1 => any::<bool>().prop_map(Step::Thresholds),
        ],
        0..if cfg!(miri) { 60 } else { 300 },
    )
}

/// A port and what its application should still receive, in order.
struct Modelled {
    port: Port,
    down: VecDeque<u32>,
}

/// Everything arrives in the end, replaced or not.
fn all_arrives(
    ports: &mut Ports,
    mut now: Nanos,
    open: &mut [Option<Modelled>],
    up: &mut HashMap<PortId, VecDeque<u32>>,
) {
    for it in open.iter_mut().flatten() {
        it.port.flush();
    }
    for _ in 0..100 {
        now = now.plus(Nanos(500));
        ports.poll(now, usize::MAX, |id, packet| {
            assert_eq!(up.get_mut(&id).and_then(VecDeque::pop_front), Some(packet.tag()));
        });
    }
    assert_eq!(ports.len(), open.iter().flatten().count());
    assert!(up.values().all(VecDeque::is_empty), "{up:?} were lost on their way up");
    for it in open.iter_mut().flatten() {
        let down = &mut it.down;
        it.port.drain(usize::MAX, |packet| assert_eq!(Some(packet.tag()), down.pop_front()));
        assert!(down.is_empty(), "{:?} were lost on their way down", down);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_doubled_or_reordered(steps in steps()) {
        let (mut ports, mut now, mut next) = (core(Level::Busy), Nanos::ZERO, 0u32);
        let opener = ports.opener();
        let mut open: Vec<Option<Modelled>> = vec![None, None, None];
        // What the core should still receive from each port, gone or not.
        let mut up: HashMap<PortId, VecDeque<u32>> = HashMap::new();
        let mut packet = || {
            next += 1;
            Packet::from_vec(next, vec![0; if next.is_multiple_of(5) { 500 } else { 9 }])
        };
        for step in steps {
            match step {
                Step::Open(mode) => if let Some(place) = open.iter_mut().find(|place| place.is_none()) {
                    // While entries of ports that left are not taken, all places may be in use.
                    if let Ok(port) = opener.open(&options(MODES[mode], 4)) {
                        *place = Some(Modelled { port, down: VecDeque::new() });
                    }
                },
                Step::Send(at, n) => if let Some(it) = &mut open[at] {
                    for _ in 0..n {
                        let packet = packet();
                        let tag = packet.tag();
                        match it.port.try_send(packet) {
                            Ok(()) => up.entry(it.port.id()).or_default().push_back(tag),
                            Err(SendError::Full(packet)) => prop_assert_eq!(packet.tag(), tag),
                            Err(SendError::Gone(_)) => prop_assert!(false, "nobody closed it"),
                        }
                    }
                },
                Step::Flush(at) => if let Some(it) = &mut open[at] { it.port.flush() },
                Step::Answer(at, n) => if let Some(it) = &mut open[at] {
                    for _ in 0..n {
                        let packet = packet();
                        let tag = packet.tag();
                        match ports.try_send(it.port.id(), packet) {
                            Ok(()) => it.down.push_back(tag),
                            Err(SendError::Full(packet)) => prop_assert_eq!(packet.tag(), tag),
                            Err(SendError::Gone(_)) => prop_assert!(!ports.ids().any(|id| id == it.port.id())),
                        }
                    }
                },
                Step::Recv(at, n) => if let Some(it) = &mut open[at] {
                    let down = &mut it.down;
                    it.port.drain(n, |packet| assert_eq!(Some(packet.tag()), down.pop_front()));
                },
                Step::Poll(max) => {
                    now = now.plus(Nanos(500));
                    ports.poll(now, max, |id, packet| {
                        let sent = up.get_mut(&id).and_then(VecDeque::pop_front);
                        assert_eq!(sent, Some(packet.tag()));
                    });
                    while let Some(id) = ports.next_left() {
                        prop_assert!(up.remove(&id).is_none_or(|sent| sent.is_empty()));
                    }
                }
                Step::Replace(at, mode, entries) => if let Some(it) = &mut open[at] {
                    let _ = ports.replace(it.port.id(), &options(MODES[mode], entries));
                },
                Step::Leave(at) => open[at] = None,
                Step::Thresholds(busy) => {
                    let busy_per_sec = if busy { 0 } else { u64::MAX };
                    ports.set_thresholds(Thresholds { busy_per_sec, hysteresis_percent: 50 });
                }
            }
        }
        all_arrives(&mut ports, now, &mut open, &mut up);
    }
}

/// Threads with a port each, and a core that echoes, all of them sleeping whenever there is nothing to do, while the core
/// replaces rings and changes level.
fn echoes(policy: WaitPolicy) {
    const THREADS: usize = 3;
    let each: u32 = if cfg!(miri) { 40 } else { 20_000 };
    let mut ports = core(Level::Busy);
    let opener = ports.opener();
    std::thread::scope(|scope| {
        for mode in MODES.into_iter().take(THREADS) {
            let opener = opener.clone();
            scope.spawn(move || {
                let mut port = opener.open(&options(mode, 4)).expect("there is room");
                let (mut sent, mut received) = (0, 0);
                while received < each {
                    while sent < each && port.try_send(number(sent)).is_ok() {
                        sent += 1;
                    }
                    assert_eq!(port.wait(policy, LONG), Outcome::Ready);
                    // Not always all: then the core learns late how far we are, and must learn it nevertheless.
                    port.drain(1 + received as usize % 5, |packet| {
                        assert_eq!(packet.tag(), received);
                        received += 1;
                    });
                }
            });
        }
        let (mut now, mut gone, mut turns) = (Nanos::ZERO, 0, 0usize);
        let mut held: VecDeque<(PortId, Packet)> = VecDeque::new();
        while gone < THREADS {
            turns += 1;
            now = now.plus(Nanos(1_000));
            let room = if held.is_empty() { 1 + turns % 9 } else { 0 };
            ports.poll(now, room, |id, packet| held.push_back((id, packet)));
            while let Some((id, packet)) = held.pop_front() {
                if let Err(SendError::Full(packet)) = ports.try_send(id, packet) {
                    held.push_front((id, packet));
                    break;
                }
            }
            if turns.is_multiple_of(7) {
                let id = ports.ids().nth(turns % THREADS);
                let mode = MODES[turns / 7 % MODES.len()];
                if let Some(id) = id {
                    let _ = ports.replace(id, &options(mode, 1 << (turns / 3 % 5)));
                }
            }
            if turns.is_multiple_of(11) {
                let busy_per_sec = [0, u64::MAX][turns % 2];
                ports.set_thresholds(Thresholds { busy_per_sec, hysteresis_percent: 50 });
            }
            while ports.next_left().is_some() {
                gone += 1;
            }
            if gone < THREADS && held.is_empty() {
                assert_eq!(ports.wait(policy, LONG, || false), Outcome::Ready);
            } else if !held.is_empty() {
                // Nothing is taken while something is held: only room, or a bit, ends this wait.
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn threads_that_sleep_at_every_step_lose_nothing() {
    echoes(WaitPolicy::BLOCK);
}

#[test]
fn threads_that_spin_before_they_sleep_lose_nothing() {
    echoes(WaitPolicy { spin: 8, pause: 8, monitor: 1, block: true });
}

#[test]
#[cfg_attr(miri, ignore = "descriptors are beyond Miri")]
fn armed_ports_make_their_descriptor_readable() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ports = Ports::with_descriptor(&PortsOptions::default()).expect("a descriptor");
    let readable = |ports: &Ports| {
        let fd = ports.descriptor().expect("has one");
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") == 1
    };
    let mut port = ports.opener().open(&PortOptions::default()).expect("there is room");
    assert!(!ports.arm(), "a port was opened");
    let mut now = Nanos::ZERO;
    poll_all(&mut ports, &mut now);
    assert!(ports.arm() && !readable(&ports));
    port.try_send(number(1)).expect("there is room");
    assert!(!readable(&ports));
    port.flush();
    assert!(readable(&ports));
    ports.disarm();
    assert!(!readable(&ports) && !ports.arm());
    assert_eq!(poll_all(&mut ports, &mut now), [1]);
}
