//! What the threads of one node share: registers, counters, the engine behind its lock, and the stop flag.

use super::service::{Kv, KvReport};
use crate::kv::registers::{Id, Register, Registers};
use crate::memcached::accept::Inbox;
use crate::memcached::counters::{NetCounters, NetSnapshot};
use base::Nanos;
use base::budget::Budget;
use engine::{Counters, Engine, Form, Handle, Progress, Settings, StageSummary, Stages};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// What the threads of one node share.
pub struct Shared {
    /// Everything that may be tuned.
    pub registers: Arc<Registers>,
    /// What the edges count.
    pub net: Arc<NetCounters>,
    /// Bytes that connections buffer.
    pub buffered: Arc<Budget>,
    /// Bytes of the segments of shared-memory connections.
    pub segments: Arc<Budget>,
    /// Where requests spend their time.
    pub stages: Arc<Stages>,
    engine: Mutex<Engine>,
    kv: Handle<Kv>,
    /// Threads that wait for the engine without being going to run it.
    guests: AtomicUsize,
    /// Edges that wait for the engine's own thread. Each announces what it submitted after it has counted itself, and is counted until all
    /// is answered.
    pub led: AtomicUsize,
    inboxes: Vec<Arc<Inbox>>,
    stopping: AtomicBool,
    started: Instant,
}

/// The engine, locked.
pub struct EngineGuard<'a>(MutexGuard<'a, Engine>);

/// Everything that a node counts, at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// This program's version.
    pub version: &'static str,
    /// Process id.
    pub pid: u32,
    /// Seconds since the node started.
    pub uptime_s: u64,
    /// The engine's totals.
    pub engine: EngineReport,
    /// The edges' totals.
    pub net: NetSnapshot,
    /// Bytes that connections buffer now.
    pub buffered_bytes: u64,
    /// Bytes of the segments of shared-memory connections.
    pub segment_bytes: u64,
    /// Commands and store.
    pub kv: KvReport,
    /// Where requests spend their time.
    pub stages: Vec<StageReport>,
}

/// [`Counters`] for programs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct EngineReport {
    /// Requests executed.
    pub executed: u64,
    /// Requests whose deadline had passed.
    pub expired: u64,
    /// Times a port waited for room for its replies.
    pub blocked: u64,
    /// Passes that found work.
    pub passes: u64,
}

impl From<Counters> for EngineReport {
    fn from(c: Counters) -> EngineReport {
        EngineReport { executed: c.executed, expired: c.expired, blocked: c.blocked, passes: c.passes }
    }
}

/// [`StageSummary`] for programs.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// `queue`, `execute` or `reply`.
    pub name: &'static str,
    /// Requests recorded.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
}

impl StageReport {
    /// All time spent in the stage, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        (self.mean_ns * self.count as f64) as u64
    }
}

impl From<StageSummary> for StageReport {
    fn from(s: StageSummary) -> StageReport {
        let StageSummary { name, count, p50_ns, p99_ns, mean_ns } = s;
        StageReport { name, count, p50_ns, p99_ns, mean_ns }
    }
}

impl Shared {
    /// A node around `engine`, which hosts `kv`, whose edges look into `inboxes`.
    pub fn new(
        registers: Arc<Registers>,
        net: Arc<NetCounters>,
        buffered: Arc<Budget>,
        (engine, kv): (Engine, Handle<Kv>),
        inboxes: Vec<Arc<Inbox>>,
    ) -> Shared {
        let segments = Arc::new(Budget::new(registers.size(Id::ShmMemory)));
        Shared {
            registers,
            net,
            buffered,
            segments,
            stages: engine.stages(),
            engine: Mutex::new(engine),
            kv,
            guests: AtomicUsize::new(0),
            led: AtomicUsize::new(0),
            inboxes,
            stopping: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// The engine, if nobody runs it now.
    #[inline]
    pub fn try_engine(&self) -> Option<EngineGuard<'_>> {
        match self.engine.try_lock() {
            Ok(guard) => Some(EngineGuard(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(EngineGuard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The engine, once nobody else runs it: for questions, not for passes.
    pub fn engine(&self) -> EngineGuard<'_> {
        self.guests.fetch_add(1, Ordering::Relaxed);
        let guard = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.guests.fetch_sub(1, Ordering::Relaxed);
        EngineGuard(guard)
    }

    /// The engine for the thread that runs it all the time. That thread would take the lock again before a waiting one has
    /// woken up, so it lets guests go first.
    pub fn engine_after_guests(&self) -> EngineGuard<'_> {
        while self.guests.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        EngineGuard(self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether edges are to leave the engine to its own thread.
    #[inline]
    pub fn is_dedicated(&self) -> bool {
        self.registers.read(Id::EngineMode) == 1
    }

    /// Whether the engine's own thread is to drive it, for what is to come or for edges that wait.
    #[inline]
    pub fn is_led(&self) -> bool {
        self.is_dedicated() || self.led.load(Ordering::Relaxed) > 0
    }

    /// Tells every thread of the node to finish.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
    }

    /// Whether the node was told to stop.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Seconds since the node started.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Passes a live register on to whoever does not read it on every pass.
    pub fn register_changed(&self, name: &str) {
        let is = |id: Id| name == Id::SPECS[id as usize].name;
        if is(Id::StoreMemory) {
            self.engine().0.service(self.kv).apply_memory_limit(self.registers.size(Id::StoreMemory));
        } else if is(Id::NetBufferLimit) {
            self.buffered.set_limit(self.registers.size(Id::NetBufferLimit));
        } else if is(Id::ShmMemory) {
            self.segments.set_limit(self.registers.size(Id::ShmMemory));
        }
    }

    /// Leaves the items to the next process, if their memory lies in files. Every thread of the node has ended.
    pub fn leave_memory(&self) {
        self.engine().0.service(self.kv).leave_memory();
    }

    /// Everything counted, now.
    pub fn report(&self) -> Report {
        let (engine, kv) = {
            let mut engine = self.engine();
            (engine.0.counters(), engine.0.service(self.kv).report())
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.uptime_s(),
            engine: engine.into(),
            net: self.net.snapshot(),
            buffered_bytes: self.buffered.taken() as u64,
            segment_bytes: self.segments.taken() as u64,
            kv,
            stages: self.stages.summary().into_iter().map(StageReport::from).collect(),
        }
    }
}

impl EngineGuard<'_> {
    /// One pass of the engine, as the registers say.
    #[inline]
    pub fn pass(&mut self, registers: &Registers) -> Progress {
        self.0.pass(&Settings {
            form: [Form::Plain, Form::Staged, Form::Coroutine][registers.size(Id::EngineForm)],
            group: registers.size(Id::EngineGroup),
            quantum: registers.size(Id::EngineQuantum),
            deadline: Nanos::from_micros(registers.read(Id::EngineDeadline)),
            ..Settings::default()
        })
    }

    /// Whether a pass would find something to admit.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.0.has_work()
    }

    /// When a pass is due though nothing is announced.
    pub fn next_deadline(&self) -> Nanos {
        self.0.next_deadline()
    }

    /// Housekeeping of the store; true if more is waiting.
    pub fn idle(&mut self, steps: usize) -> bool {
        self.0.idle(steps)
    }
}
