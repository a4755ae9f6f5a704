//! A service on an engine core, from its coming to its leaving.
//!
//! ```text
//!  add ──▶ open, open, … ──▶ passes, by the core's thread and by edges ──▶ edges end ──▶ leave ──▶ questions about what it was
//! ```
//! A service may come while the thread runs, and goes when its edges have ended; the others of its core go on. It is asked things afterwards, too
//! ([`OnCore::ask`]): the port for operators goes last.

use super::engine_core::{EngineCore, Member, PORTS, Run};
use engine::{
    Core, Counters, CycleCore, EdgePort, Handle, Messages, Service, ServiceOptions, Settings, Stages,
    TaskService,
};
use ring::wait::{WaitPolicy, Waker};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a service is hosted. What are closures is asked again whenever it matters, so registers may be behind it.
pub struct Hosting {
    /// Requests of it that may be in flight.
    pub in_flight: usize,
    /// How its passes are.
    pub settings: Box<dyn FnMut() -> Settings + Send>,
    /// How the core's thread stays awake for it, and how it sleeps when that brought nothing.
    pub policies: Box<dyn Fn() -> [WaitPolicy; 2] + Send + Sync>,
    /// Whether the core's thread is to run the engine for it now.
    pub needs_thread: Box<dyn Fn() -> bool + Send + Sync>,
    /// Who waits for its replies; they are woken when it answered something.
    pub waiting: Vec<Waker>,
}

/// Why a service is not on a core.
#[derive(Debug)]
pub enum EngineError {
    /// The core of this number has as many services as it can.
    Services(usize),
    /// It has as many ports as it can.
    Ports(usize),
    /// The system gives it no thread, or none of what it waits with.
    System(io::Error),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = "put some on another (engine_core)";
        match self {
            EngineError::Services(core) => write!(f, "engine core {core} has 16 services already; {more}"),
            EngineError::Ports(core) => {
                write!(
                    f,
                    "engine core {core} has no room for another of {PORTS} edges of its services; {more}"
                )
            }
            EngineError::System(cause) => {
                write!(f, "the system gives no thread or descriptor for an engine core: {cause}")
            }
        }
    }
}

impl std::error::Error for EngineError {}

/// A service on a core, until it leaves or this is dropped.
pub struct OnCore<S: Messages, C: Core = CycleCore> {
    core: Arc<EngineCore<C>>,
    member: Arc<Member>,
    handle: Handle<S>,
    /// Where its requests spend their time.
    pub stages: Arc<Stages>,
    /// Once it has left, with what was counted of it.
    left: Mutex<Option<(S, Counters)>>,
}

impl<S: Messages, C: Core> OnCore<S, C> {
    /// A staged service comes to `core`.
    ///
    /// # Errors
    /// As [`EngineError`] says.
    pub fn add(core: &Arc<EngineCore<C>>, service: S, hosting: Hosting) -> Result<OnCore<S, C>, EngineError>
    where
        S: Service,
    {
        OnCore::come(core, hosting, |run, options| run.engine.add(service, options))
    }

    /// A service of tasks comes to `core`.
    ///
    /// # Errors
    /// As [`EngineError`] says.
    pub fn add_tasks(
        core: &Arc<EngineCore<C>>,
        service: S,
        hosting: Hosting,
    ) -> Result<OnCore<S, C>, EngineError>
    where
        S: TaskService,
    {
        OnCore::come(core, hosting, |run, options| run.engine.add_task(service, options))
    }

    fn come(
        core: &Arc<EngineCore<C>>,
        hosting: Hosting,
        add: impl FnOnce(&mut Run<C>, ServiceOptions) -> Handle<S>,
    ) -> Result<OnCore<S, C>, EngineError> {
        let Hosting { in_flight, settings, policies, needs_thread, waiting } = hosting;
        let mut run = core.as_guest();
        if !run.engine.has_place() {
            return Err(EngineError::Services(core.number));
        }
        core.start(&mut run).map_err(EngineError::System)?;
        // Each may have its own in flight, whatever the others have.
        let others: usize = run.members.iter().map(|member| member.in_flight).sum();
        run.engine.set_in_flight(others + in_flight);
        let handle = add(&mut run, ServiceOptions { in_flight, ..ServiceOptions::default() });
        run.engine.follow(handle, settings);
        let stages = run.engine.stages(handle);
        let counted = AtomicUsize::new(0);
        let member = Member { bit: handle.bit(), in_flight, waiting, policies, needs_thread, counted };
        let member = Arc::new(member);
        run.members.push(Arc::clone(&member));
        drop(run);
        core.changed();
        Ok(OnCore { core: Arc::clone(core), member, handle, stages, left: Mutex::default() })
    }

    /// A port to it, of `entries` requests and `arena_bytes` of replies (powers of two).
    ///
    /// # Errors
    /// The core has no more ports.
    ///
    /// # Panics
    /// After it has left.
    pub fn open(&self, entries: u32, arena_bytes: u64) -> Result<EdgePort<S>, EngineError> {
        let port = self.core.as_guest().engine.open(self.handle, entries, arena_bytes);
        port.ok_or(EngineError::Ports(self.core.number))
    }

    /// Doorbells were rung.
    #[inline]
    pub fn announce(&self) {
        self.core.waker.wake();
    }

    /// Replies were read and their room is given back.
    #[inline]
    pub fn made_room(&self) {
        self.core.rooms.fetch_add(1, Ordering::Release);
        self.core.waker.wake();
    }

    /// Who calls it waits for the core's thread from now on, whatever registers say. To be followed by [`OnCore::announce`].
    #[inline]
    pub fn count_on_thread(&self) {
        self.member.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// All is answered that [`OnCore::count_on_thread`] was called for.
    #[inline]
    pub fn count_no_more(&self) {
        self.member.counted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the core's thread runs the engine for this service, for what is to come or for those that count on it.
    #[inline]
    pub fn is_led(&self) -> bool {
        self.member.is_led()
    }

    /// A pass of this service alone, unless somebody else has the engine: who passes, for all services or for this one. Then it is false.
    ///
    /// # Panics
    /// After it has left.
    #[inline]
    pub fn try_pass(&self) -> bool {
        let Some(mut run) = self.core.try_lock() else { return false };
        let progress = run.engine.pass_of(self.handle);
        drop(run);
        if progress.answered > 0 && self.member.counted.load(Ordering::Relaxed) > 0 {
            // Some of it may be what another edge sleeps for, which thinks that the thread will answer it.
            self.member.waiting.iter().for_each(|waker| _ = waker.wake());
        }
        true
    }

    /// Housekeeping of this service, unless somebody else has the engine; true if more is waiting.
    ///
    /// # Panics
    /// After it has left.
    pub fn try_idle(&self, steps: usize) -> bool {
        self.core.try_lock().is_some_and(|mut run| run.engine.idle_of(self.handle, steps))
    }

    /// Asks it something, between two passes or after its end; with what was counted of it.
    pub fn ask<R>(&self, question: impl FnOnce(&mut S, Counters) -> R) -> R {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((service, counters)) = &mut *left {
            return question(service, *counters);
        }
        let mut run = self.core.as_guest();
        let counters = run.engine.counters(self.handle);
        question(run.engine.service(self.handle), counters)
    }

    /// It leaves its core: its edges have ended. What they had not been answered never is.
    pub fn leave(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.is_some() {
            return;
        }
        let mut run = self.core.as_guest();
        let counters = run.engine.counters(self.handle);
        let service = run.engine.remove(self.handle);
        run.members.retain(|member| !Arc::ptr_eq(member, &self.member));
        let in_flight: usize = run.members.iter().map(|member| member.in_flight).sum();
        run.engine.set_in_flight(in_flight);
        drop(run);
        *left = Some((service, counters));
        self.core.changed();
    }
}

impl<S: Messages, C: Core> Drop for OnCore<S, C> {
    fn drop(&mut self) {
        self.leave();
    }
}
