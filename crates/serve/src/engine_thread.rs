//! A thread that drives an engine: pass after pass while there is work, else awake for a while, then housekeeping, then asleep.
//!
//! ```text
//!  edge ── doorbell, Way::announce ──▶ ┌────────┐ scan, pass, flush ── wake ──▶ those that wait for replies
//!                                      │ engine │
//!                                      └────────┘ nothing to do: spin, pause, housekeeping, sleep until a task is due
//! ```
//! Both sides wait by [`ring::wait`]: who publishes (a doorbell, a reply, room for replies) wakes the other side afterwards, who
//! sleeps marks itself and looks once more before it does, so no wake-up is lost. A wake-up costs a system call only when the
//! other side sleeps.
//!
//! Room: a blocked port waits for bytes that *some* edge gives back, so an edge that gave any back counts it ([`Way::made_room`]).
//!
//! The end: edges need the engine to finish, so it is stopped after them. Should the thread die of a bug of ours, those that wait are woken and
//! see [`Way::is_gone`].

use crate::admin::health::Beat;
use base::{Clock, Nanos};
use engine::Progress;
use ring::wait::{Outcome, Sleeper, WaitPolicy, Waker, waiting};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The longest sleep.
const NAP: Nanos = Nanos::from_millis(250);
/// A task that is due sooner than this is not slept for: a sleep takes about as long.
const AWAKE: Nanos = Nanos::from_micros(100);
/// Housekeeping steps of a service per idle moment.
const IDLE_STEPS: usize = 256;

/// An engine with whatever is around it.
pub trait Driven {
    /// One pass, as the registers say.
    fn pass(&mut self) -> Progress;

    /// [`engine::Engine::has_work`].
    fn has_work(&mut self) -> bool;

    /// [`engine::Engine::next_deadline`], by [`Clock::shared`].
    fn next_deadline(&mut self) -> Nanos;

    /// [`engine::Engine::idle`].
    fn idle(&mut self, steps: usize) -> bool;

    /// How it stays awake, and how it sleeps when that brought nothing.
    fn policies(&self) -> [WaitPolicy; 2];
}

/// What the thread and others tell each other beside the rings.
#[derive(Default)]
struct Signals {
    /// Times an edge gave back room for replies.
    rooms: AtomicU64,
    /// The engine shall stop.
    stop: AtomicBool,
    /// The engine has stopped.
    gone: AtomicBool,
}

/// The way to an engine's thread.
#[derive(Clone)]
pub struct Way {
    engine: Waker,
    signals: Arc<Signals>,
}

impl Way {
    /// What wakes the thread.
    pub fn waker(&self) -> &Waker {
        &self.engine
    }

    /// Doorbells were rung.
    #[inline]
    pub fn announce(&self) {
        self.engine.wake();
    }

    /// Replies were read and their room is given back.
    #[inline]
    pub fn made_room(&self) {
        self.signals.rooms.fetch_add(1, Ordering::Release);
        self.engine.wake();
    }

    /// Tells the engine to stop. Every edge has finished.
    pub fn stop(&self) {
        self.signals.stop.store(true, Ordering::Release);
        self.engine.wake();
    }

    /// Whether the engine has stopped.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.signals.gone.load(Ordering::Acquire)
    }
}

/// The thread, before it runs.
pub struct EngineThread {
    sleeper: Sleeper,
    signals: Arc<Signals>,
    /// Those that wait for replies. They are woken after a pass that answered something, and when the thread ends.
    pub waiting: Vec<Waker>,
    /// Says that it turns, also while it waits.
    pub beat: Beat,
}

/// A thread that is to run, and the way to it.
pub fn engine_thread(beat: Beat) -> (EngineThread, Way) {
    let signals = Arc::<Signals>::default();
    let (sleeper, engine) = waiting();
    let thread = EngineThread { sleeper, signals: signals.clone(), waiting: Vec::new(), beat };
    (thread, Way { engine, signals })
}

impl EngineThread {
    /// Drives the engine until it is told to stop.
    pub fn run(mut self, engine: &mut impl Driven) {
        let farewell = Farewell { signals: self.signals.clone(), waiting: std::mem::take(&mut self.waiting) };
        loop {
            self.beat.turn();
            let rooms = self.signals.rooms.load(Ordering::Acquire);
            let progress = engine.pass();
            if progress.answered > 0 {
                farewell.wake_all();
                continue;
            }
            if self.signals.stop.load(Ordering::Acquire) {
                return;
            }
            let rooms = (progress.blocked > 0).then_some(rooms);
            let [awake, then] = engine.policies();
            if self.wait(engine, awake, Nanos::ZERO, rooms) == Outcome::Ready {
                continue;
            }
            if !engine.idle(IDLE_STEPS) {
                self.wait(engine, then, NAP, rooms);
            }
        }
    }

    /// Waits for `time` at most: for work, for the moment at which a task is due, for room since `rooms` was read if a port is blocked, or for
    /// the end.
    fn wait(
        &mut self,
        engine: &mut impl Driven,
        mut policy: WaitPolicy,
        mut time: Nanos,
        rooms: Option<u64>,
    ) -> Outcome {
        let clock = Clock::shared();
        let due = engine.next_deadline();
        if due != Nanos::MAX {
            let left = due.since(clock.now());
            policy.block &= left > AWAKE;
            time = time.min(left);
        }
        let EngineThread { sleeper, signals, beat, .. } = self;
        sleeper.wait_until(policy, Some(Duration::from_nanos(time.0)), || {
            beat.turn();
            rooms.is_some_and(|rooms| signals.rooms.load(Ordering::Acquire) != rooms)
                || signals.stop.load(Ordering::Acquire)
                || engine.has_work()
                || (due != Nanos::MAX && clock.now() >= due)
        })
    }
}

/// Those that wait, who are told when the thread ends, by a panic too.
struct Farewell {
    signals: Arc<Signals>,
    waiting: Vec<Waker>,
}

impl Farewell {
    fn wake_all(&self) {
        for waiting in &self.waiting {
            waiting.wake();
        }
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.signals.gone.store(true, Ordering::Release);
        self.wake_all();
    }
}
