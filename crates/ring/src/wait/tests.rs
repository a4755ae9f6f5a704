use super::*;
use crate::mapping::tests::anonymous;
use std::sync::atomic::AtomicBool;

const ROUNDS: u32 = if cfg!(miri) { 20 } else { 2_000 };
const LONG: Option<Duration> = Some(Duration::from_secs(600));

/// Two threads hand a number back and forth, sleeping at each step: a lost wake-up hangs (and the timeout says so).
fn a_thousand_wake_ups_lose_none(policy: WaitPolicy, a: (Sleeper, Waker), b: (Sleeper, Waker)) {
    let turn = AtomicU32::new(0);
    let play = |me: u32, mut sleeper: Sleeper, other: Waker| {
        for round in (me..2 * ROUNDS).step_by(2) {
            let outcome = sleeper.wait_on(policy, LONG, &turn, || turn.load(Ordering::Acquire) == round);
            assert_eq!(outcome, Outcome::Ready);
            turn.store(round + 1, Ordering::Release);
            other.wake();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0, a.0, b.1));
        play(1, b.0, a.1);
    });
}

#[test]
fn futex_eventfd_and_mapped_sleepers_lose_no_wake_up() {
    let eager = WaitPolicy { spin: 3, pause: 3, monitor: 1, block: true };
    for policy in [WaitPolicy::BLOCK, eager] {
        a_thousand_wake_ups_lose_none(policy, waiting(), waiting());
        if cfg!(miri) {
            continue; // descriptors and mappings are beyond Miri
        }
        let eventfd = || waiting_on_eventfd().expect("a descriptor");
        a_thousand_wake_ups_lose_none(policy, eventfd(), eventfd());
        let memory = anonymous(4096);
        let mapped = |offset| (Sleeper::mapped(&memory, offset), Waker::mapped(&memory, offset));
        a_thousand_wake_ups_lose_none(policy, mapped(0), mapped(128));
    }
}

#[test]
fn a_wait_ends_with_its_time() {
    let (mut sleeper, waker) = waiting();
    let soon = Some(Duration::from_micros(200));
    for policy in [WaitPolicy::BLOCK, WaitPolicy { block: false, ..WaitPolicy::BLOCK }, WaitPolicy::default()]
    {
        assert_eq!(sleeper.wait_until(policy, soon, || false), Outcome::TimedOut);
        assert_eq!(sleeper.wait_until(policy, Some(Duration::ZERO), || true), Outcome::Ready);
    }
    // Awake again, so waking costs no system call.
    assert!(!waker.wake());
}

/// A core's thread asks so before it sleeps: what is beyond its policy, others on its processor wait for.
#[test]
fn a_wait_of_no_time_looks_as_often_as_its_policy_says() {
    let (mut sleeper, _waker) = waiting();
    for (spin, pause, looks) in [(1, 0, 1), (0, 0, 1), (3, 4, 7)] {
        let policy = WaitPolicy { spin, pause, monitor: 0, block: false };
        let mut looked = 0;
        let outcome = sleeper.wait_until(policy, Some(Duration::ZERO), || {
            looked += 1;
            false
        });
        assert_eq!((outcome, looked), (Outcome::TimedOut, looks), "{policy:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "descriptors are beyond Miri")]
fn an_armed_sleeper_is_rung_once_and_only_while_armed() {
    let (mut sleeper, waker) = waiting_on_eventfd().expect("a descriptor");
    let readable = |sleeper: &Sleeper| {
        let fd = sleeper.descriptor().expect("has one");
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&descriptor::timespec(Duration::ZERO))).expect("poll") == 1
    };
    assert!(!waker.wake() && !readable(&sleeper));
    sleeper.arm();
    assert!(!readable(&sleeper));
    assert!(waker.wake() && readable(&sleeper));
    assert!(!waker.clone().wake(), "one ring is enough");
    sleeper.disarm();
    assert!(!waker.wake() && !readable(&sleeper));
}

#[test]
#[cfg_attr(miri, ignore = "sockets are beyond Miri")]
fn the_end_of_the_peer_ends_the_wait() {
    for policy in [WaitPolicy::BLOCK, WaitPolicy::SPIN] {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        let memory = anonymous(4096);
        let socket = Descriptor::Socket(Arc::new(ours.into()));
        let mut sleeper = Sleeper::mapped_with(&memory, 0, socket);
        assert_eq!(sleeper.wait_until(policy, Some(Duration::ZERO), || false), Outcome::TimedOut);
        let gone = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gone.store(true, Ordering::Release);
                drop(theirs);
            });
            assert_eq!(sleeper.wait_until(policy, LONG, || false), Outcome::PeerGone);
        });
        assert!(gone.load(Ordering::Acquire));
        // What holds counts more than who is gone.
        assert_eq!(sleeper.wait_until(policy, None, || true), Outcome::Ready);
    }
}
