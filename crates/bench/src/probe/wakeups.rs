//! How long a sleeping thread takes to run after it was woken, and how late a timed sleep ends.
//!
//! Why: it decides how long a polling thread spins before it sleeps. A spin shorter than the wake-up it saves is always
//! worth it.
//!
//! Shape: `sleeper: announce, sleep …………… wake, stamp` / `waker: see announcement, idle 60 µs, stamp, wake`
//!
//! Ordering: (W1) release store of `asleep` by the sleeper, acquired by the waker: the round has begun. (W2) release
//! store of `awake_at`, acquired by the waker: the stamp is there. Both clocks are the same counter.

use super::cores;
use super::session::{Session, Unit};
use base::{Clock, Nanos};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 5;

/// How long the sleeper has been asleep when it is woken: enough for its core to go idle.
const ASLEEP: Nanos = Nanos::from_micros(60);

/// So soon that its core has not halted.
const JUST_ASLEEP: Nanos = Nanos::from_micros(1);
/// Times between these.
const IDLE_MICROS: [u64; 5] = [2, 4, 8, 16, 32];

/// What a thread sleeps on.
enum Bed {
    Futex(AtomicU32),
    Eventfd(OwnedFd),
}

impl Bed {
    /// Sleeps until round `round` is called.
    fn sleep(&self, round: u32) -> io::Result<()> {
        match self {
            Bed::Futex(word) => {
                while word.load(Ordering::Acquire) != round {
                    // Woken for another reason or too late to sleep: the loop looks again.
                    let _ = futex::wait(word, futex::Flags::PRIVATE, round.wrapping_sub(1), None);
                }
                Ok(())
            }
            Bed::Eventfd(fd) => rustix::io::read(fd, &mut [0u8; 8]).map(drop).map_err(io::Error::from),
        }
    }

    fn wake(&self, round: u32) -> io::Result<()> {
        match self {
            Bed::Futex(word) => {
                word.store(round, Ordering::Release);
                futex::wake(word, futex::Flags::PRIVATE, 1)?;
            }
            Bed::Eventfd(fd) => {
                rustix::io::write(fd, &1u64.to_ne_bytes())?;
            }
        }
        Ok(())
    }
}

/// How long wake-ups took.
#[derive(Default)]
pub struct Woken {
    /// Microseconds from before the wake call to the sleeper's first instruction.
    pub to_run: Vec<f64>,
    /// Microseconds in the wake call.
    pub call: Vec<f64>,
}

/// Wakes a thread on `sleeper` from `waker`, each time when it has slept for `idle`, until `span` is over, at least three times.
fn wake_ups(bed: &Bed, waker: usize, sleeper: usize, (idle, span): (Nanos, Nanos)) -> io::Result<Woken> {
    cores::on(waker, || ())?; // Before anybody sleeps who would not be woken.
    let (asleep, awake_at) = (AtomicU32::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let clock = Clock::shared();
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| -> io::Result<()> {
            let pinned = base::cpu::pin_to(sleeper);
            for round in 1.. {
                asleep.store(round, Ordering::Release); // (W1)
                bed.sleep(round)?;
                let last = over.load(Ordering::Relaxed); // Ordered by the wake-up that ended the sleep.
                awake_at.store(clock.now().0.max(1), Ordering::Release); // (W2)
                if last {
                    break;
                }
            }
            pinned
        });
        let woken = cores::on(waker, || {
            let mut woken = Woken::default();
            let start = clock.now();
            for round in 1.. {
                let last = round >= 3 && clock.now().since(start) >= span;
                while asleep.load(Ordering::Acquire) != round {
                    rustix::thread::sched_yield(); // (W1); on one core the sleeper needs it to get there.
                }
                let settled = clock.now();
                while clock.now().since(settled) < idle {
                    std::hint::spin_loop();
                }
                awake_at.store(0, Ordering::Relaxed);
                over.store(last, Ordering::Relaxed);
                let before = clock.now();
                bed.wake(round)?;
                let after = clock.now();
                let ran = loop {
                    match awake_at.load(Ordering::Acquire) {
                        0 => rustix::thread::sched_yield(),
                        at => break Nanos(at), // (W2)
                    }
                };
                woken.to_run.push(ran.since(before).0 as f64 / 1e3);
                woken.call.push(after.since(before).0 as f64 / 1e3);
                if last {
                    break;
                }
            }
            Ok(woken)
        });
        sleeping.join().expect("the sleeper does not panic")?;
        woken?
    })
}

/// Wake-ups through an eventfd of a thread on `sleeper` by one on `waker`.
///
/// # Errors
/// The system gives no eventfd, or a thread cannot be pinned.
pub fn by_eventfd(waker: usize, sleeper: usize, span: Nanos) -> io::Result<Woken> {
    wake_ups(&Bed::Eventfd(eventfd(0, EventfdFlags::CLOEXEC)?), waker, sleeper, (ASLEEP, span))
}

/// Wake-ups of a thread that has just gone to sleep, and how long its core is idle until they take about as long as those of one that has slept for
/// long: the first of some times, in microseconds, at which nine tenths of what is between are reached.
///
/// # Errors
/// As [`by_eventfd`].
pub fn just_asleep(waker: usize, sleeper: usize, span: Nanos) -> io::Result<(Woken, f64)> {
    let median = |woken: &Woken| base::spread::median(woken.to_run.iter().copied());
    let after = |idle| {
        let bed = Bed::Eventfd(eventfd(0, EventfdFlags::CLOEXEC)?);
        wake_ups(&bed, waker, sleeper, (idle, Nanos(span.0 / (IDLE_MICROS.len() as u64 + 2))))
    };
    let (soon, late) = (after(JUST_ASLEEP)?, after(ASLEEP)?);
    let near = median(&soon) + 0.9 * (median(&late) - median(&soon));
    for idle in IDLE_MICROS.map(Nanos::from_micros) {
        if median(&after(idle)?) >= near {
            return Ok((soon, idle.0 as f64 / 1e3));
        }
    }
    Ok((soon, ASLEEP.0 as f64 / 1e3))
}

/// Wake-ups by futex and eventfd, across cores and on one, and timed sleeps.
pub fn measure(session: &mut Session) {
    let futex = || Ok(Bed::Futex(AtomicU32::new(0)));
    let event = || eventfd(0, EventfdFlags::CLOEXEC).map(Bed::Eventfd).map_err(io::Error::from);
    let core = session.cores[0];
    match session.two_cores() {
        Some((a, b)) => {
            across(session, "futex", futex(), (a, b), "spin about this long before sleeping");
            across(session, "eventfd", event(), (a, b), "the same through a descriptor that epoll can watch");
            soon(session, (a, b));
        }
        None => session.skip("wake-up across cores", "this process may run on one core only"),
    }
    across(
        session,
        "futex_same_core",
        futex(),
        (core, core),
        "a context switch: the wake-up without the idle core",
    );
    sleeps(session);
}

fn soon(session: &mut Session, (waker, sleeper): (usize, usize)) {
    session.step("wake-up of who has just gone to sleep");
    match just_asleep(waker, sleeper, session.span(Nanos::from_millis(300))) {
        Ok((woken, long)) => {
            let method = "eventfd, sleeper idle 1 us";
            let label = "wake to run, just asleep";
            session.record(
                "eventfd_soon",
                label,
                &woken.to_run,
                Unit::Micros,
                method,
                "the core has not halted",
            );
            let method = "idle for 2, 4, … us: where a wake-up takes as long as after 60";
            session.record("long_sleep", "idle until a core sleeps deep", &[long], Unit::Micros, method, "");
        }
        Err(e) => session.skip("wake-up of who has just gone to sleep", e),
    }
}

fn across(session: &mut Session, key: &str, bed: io::Result<Bed>, at: (usize, usize), reading: &str) {
    let label = key.replace('_', " ");
    session.step(format!("wake-up by {label}"));
    let span = session.span(Nanos::from_millis(300));
    match bed.and_then(|bed| wake_ups(&bed, at.0, at.1, (ASLEEP, span))) {
        Ok(woken) => {
            let method = "sleeper idle 60 us";
            session.record(
                key,
                format!("wake to run, {label}"),
                &woken.to_run,
                Unit::Micros,
                method,
                reading,
            );
            let label = format!("  the waker's call, {label}");
            session.record(
                format!("{key}_call"),
                label,
                &woken.call,
                Unit::Micros,
                method,
                "what waking costs the one who wakes",
            );
        }
        Err(e) => session.skip(format!("wake-up by {label}"), e),
    }
}

fn sleeps(session: &mut Session) {
    session.step("timed sleeps");
    let rounds = session.either(1_000, 50);
    for (key, label, slack) in [
        ("nanosleep", "overshoot of a 50 µs sleep", None),
        ("nanosleep_slack_1ns", "  with a timer slack of 1 ns", NonZeroU64::new(1)),
    ] {
        let run = || -> io::Result<Vec<f64>> {
            if slack.is_some() {
                rustix::thread::set_current_timer_slack(slack)?;
            }
            Ok((0..rounds).map(|_| overshoot(Nanos::from_micros(50))).collect())
        };
        match cores::on(session.cores[0], run).and_then(|samples| samples) {
            Ok(samples) => session.record(
                key,
                label,
                &samples,
                Unit::Micros,
                "nanosleep",
                "how late a thread that sleeps for a time wakes",
            ),
            Err(e) => session.skip(label, e),
        }
    }
}

fn overshoot(span: Nanos) -> f64 {
    let clock = Clock::shared();
    let start = clock.now();
    std::thread::sleep(span.into());
    clock.now().since(start).since(span).0 as f64 / 1e3
}
