//! One engine core: an engine behind a lock, who is on it, and its thread.
//!
//! The thread would take the lock again before a waiting one has woken up, so it lets *guests* go first: those who ask something, or come and go.
//! Edges never wait for the lock: they try, since whoever has it works for them too.
//!
//! Room: a blocked port waits for bytes that *some* edge gives back, so an edge that gave any back counts it ([`OnCore::made_room`](super::OnCore::made_room)).
//!
//! Bounds: [`PORTS`] ports and 16 services; requests in flight: what its services may have, together.

use super::HOST_ENTRIES;
use super::thread::{self, IDLE_STEPS, Members};
use crate::admin::health::{Beat, Pulse};
use crate::guard::AbortOnPanic;
use engine::{Core, CycleCore, Engine, EngineOptions, HostPool};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Ports of one core at most: edges of all its services.
pub const PORTS: usize = 512;

/// One core. Services come to it by [`OnCore::add`](super::OnCore::add).
pub struct EngineCore<C: Core = CycleCore> {
    /// As in `engine-0`.
    pub(super) number: usize,
    pin: Option<usize>,
    engine: Mutex<Run<C>>,
    /// Threads that wait for the lock without being going to run the engine.
    guests: AtomicUsize,
    /// Counts services that came and went.
    pub(super) changes: AtomicU64,
    /// Times an edge gave back room for replies.
    pub(super) rooms: AtomicU64,
    /// The thread shall end.
    pub(super) stop: AtomicBool,
    is_running: AtomicBool,
    pub(super) waker: Waker,
    /// Of the thread. What takes long in a pass may turn it, too.
    pub beat: Beat,
}

/// What the lock is about.
pub(super) struct Run<C: Core> {
    pub(super) engine: Engine<C>,
    pub(super) members: Vec<Arc<Member>>,
    thread: Thread,
}

enum Thread {
    /// With what it will sleep on.
    Waits(Sleeper),
    Runs(JoinHandle<()>),
    Over,
}

/// What a core's thread knows of a service.
pub(super) struct Member {
    /// On the engine.
    pub(super) bit: u16,
    pub(super) in_flight: usize,
    /// Who waits for replies.
    pub(super) waiting: Vec<Waker>,
    pub(super) policies: Box<dyn Fn() -> [WaitPolicy; 2] + Send + Sync>,
    pub(super) needs_thread: Box<dyn Fn() -> bool + Send + Sync>,
    /// Edges that count on the thread.
    pub(super) counted: AtomicUsize,
}

impl Member {
    /// Whether the thread is to drive the engine for it.
    #[inline]
    pub(super) fn is_led(&self) -> bool {
        (self.needs_thread)() || self.counted.load(Ordering::Relaxed) > 0
    }
}

impl EngineCore {
    pub(super) fn new(number: usize, pin: Option<usize>) -> EngineCore {
        EngineCore::on(CycleCore::default(), number, pin)
    }

    /// One without a thread: who tests drives it by hand.
    #[cfg(test)]
    pub fn by_hand() -> Arc<EngineCore> {
        EngineCore::by_hand_on(CycleCore::default(), 0)
    }

    /// The processor of its thread, if it is kept to one.
    #[cfg(test)]
    pub(super) fn pin(&self) -> Option<usize> {
        self.pin
    }

    /// The engine itself.
    #[cfg(test)]
    pub fn with_engine<R>(&self, work: impl FnOnce(&mut Engine) -> R) -> R {
        work(&mut self.as_guest().engine)
    }

    pub(super) fn set_host(&self, pool: &HostPool) {
        let port = pool.attach(HOST_ENTRIES, Some(self.waker.clone()));
        self.as_guest().engine.set_host(port);
    }
}

impl<C: Core> EngineCore<C> {
    fn on(core: C, number: usize, pin: Option<usize>) -> EngineCore<C> {
        let (sleeper, waker) = waiting();
        let options = EngineOptions { ports: PORTS, ..EngineOptions::default() };
        let run =
            Run { engine: Engine::on(core, options), members: Vec::new(), thread: Thread::Waits(sleeper) };
        EngineCore {
            number,
            pin,
            engine: Mutex::new(run),
            guests: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            rooms: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            waker,
            beat: Beat::default(),
        }
    }

    /// One without a thread, whose time `core` tells: whoever has it drives it by hand ([`EngineCore::pass`]).
    pub fn by_hand_on(core: C, number: usize) -> Arc<EngineCore<C>> {
        let core = EngineCore::on(core, number, None);
        core.as_guest().thread = Thread::Over;
        Arc::new(core)
    }

    /// What its thread does when it is awake, once: a pass, if any service needs it, or else housekeeping. Whether anything was answered.
    pub fn pass(&self, members: &mut Members) -> bool {
        let progress = members.pass(self);
        if progress.answered == 0 && members.need() {
            self.after_guests().engine.idle(IDLE_STEPS);
        }
        progress.answered > 0
    }

    /// The engine, if nobody has it now.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Run<C>>> {
        match self.engine.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The engine, once nobody else has it: for questions, and to come and go.
    pub(super) fn as_guest(&self) -> MutexGuard<'_, Run<C>> {
        self.guests.fetch_add(1, Ordering::Relaxed);
        let guard = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.guests.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The engine for the core's thread.
    pub(super) fn after_guests(&self) -> MutexGuard<'_, Run<C>> {
        while self.guests.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, if it does not run yet.
    pub(super) fn start(self: &Arc<EngineCore<C>>, run: &mut Run<C>) -> io::Result<()> {
        let Thread::Waits(_) = run.thread else { return Ok(()) };
        let Thread::Waits(sleeper) = std::mem::replace(&mut run.thread, Thread::Over) else {
            unreachable!("looked at just now")
        };
        let core = Arc::clone(self);
        let work = move || {
            let _guard = AbortOnPanic("an engine core");
            if let Some(pin) = core.pin {
                // Where it cannot be kept to its processor it runs all the same.
                let _ = base::cpu::pin_to(pin);
            }
            thread::run(&core, sleeper);
        };
        let thread = std::thread::Builder::new().name(format!("engine-{}", self.number)).spawn(work)?;
        run.thread = Thread::Runs(thread);
        self.is_running.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A service came or went.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let thread = std::mem::replace(&mut self.as_guest().thread, Thread::Over);
        if let Thread::Runs(thread) = thread {
            // A panic in it ended the process.
            let _ = thread.join();
        }
    }

    /// What says that it turns; all is well while there is no thread.
    pub(super) fn pulse(self: &Arc<EngineCore<C>>) -> Pulse {
        let core = Arc::clone(self);
        self.beat.pulse(format!("engine-{}", self.number)).woken_by(move || {
            if core.is_running.load(Ordering::Relaxed) {
                core.waker.wake();
            } else {
                core.beat.turn();
            }
        })
    }
}
