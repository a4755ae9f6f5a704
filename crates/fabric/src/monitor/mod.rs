//! The packet monitor: what travels, how calls end, where their time goes, and single calls in full.
//!
//! ```text
//!  Channel ─ Recorder ─┐ lane: counters by method, stage histograms, connections     Snapshot ─ plain values, JSON
//!  Server ── Recorder ─┼─▶ Monitor ──────────────────────────────────────────────▶ (merged over lanes and monitors)
//!  worker ── Recorder ─┘ sampled calls: spans                                        Tracer ─ of the whole process
//! ```
//!
//! Every thread that drives calls has a [`Recorder`] of its own, which writes a *lane* of relaxed atomics that nobody else
//! writes; whoever wants figures reads all lanes and adds them up. Counters count every call; clocks are read for one call of
//! `monitor.sample`, and spans are kept for one of `trace.sample` and for those whose caller asks for it.
//!
//! Invariants:
//! 1. One writer per lane and per connection's counters, so counting is a load and a store. Nothing is ordered: each number is exact
//!    by itself once its writer rests, and two of them need not be of the same moment.
//! 2. What a recorder or connection had counted stays in the totals when it is dropped.
//!
//! Bounds: [`MAX_METHODS`] methods (the others share one line), per recorder [`recorder::MAX_OPEN`] sampled calls in flight, about 4.4 KiB a
//! method that it uses and 13 KiB for its stages; spans as their tracer says. Dropped recorders and connections leave nothing but totals.
//!
//! Cost: a call with both its frames 1.4 ns, with one of 64 timed 2.3 ns, a timed call 48 ns (Zen, `cargo bench -p millrace-fabric
//! --bench monitor`, on a busy machine); the goal is 5 ns. On the whole way of a 64-byte echo with a monitor on both sides, generated stubs and all:
//! 9 to 13 % of the processor time over shm and memory links at windows 1 to 64 (medians of four runs of `--bench path` on a machine
//! under load, where a call took 210 to 380 ns; so 8 to 20 ns a side).
//!
//! Sources: Dagger item 12; W3C Trace Context; OTLP/JSON.

mod counters;
mod histogram;
mod points;
pub mod recorder;
mod snapshot;
pub mod trace;
mod watched;

#[cfg(test)]
mod tests;

pub use counters::{Connection, Event};
pub use histogram::Distribution;
pub use points::{Point, STAGES, Side};
pub use recorder::{Recorder, Sampling, Stamp};
pub use snapshot::{Calls, ConnectionTraffic, Snapshot, Traffic};
pub(crate) use watched::Watched;

pub use base::trace::{Context, Options, Span, Tracer};

use crate::registers::Registers;
use crate::server::{AcceleratorFigures, Shown};
use base::recording::{Recording, Request};
use counters::Lane;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Methods that have a line of their own.
pub const MAX_METHODS: usize = 4096;

/// A method, as the monitor numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodId(u16);

impl MethodId {
    /// The line of all methods that have none of their own: those beyond [`MAX_METHODS`], and calls for methods that do not exist.
    pub const OTHER: MethodId = MethodId(0);
}

/// What was recorded; clones are the same monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    registers: Arc<Registers>,
    methods: Mutex<Vec<String>>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// What dropped lanes had counted.
    past: Mutex<Snapshot>,
    tracer: Mutex<Tracer>,
    /// Calls that have left spans.
    traced: AtomicU64,
    /// Of the servers that tell it what they do, as long as they are there.
    accelerators: Mutex<Vec<Weak<Shown>>>,
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor::new(Options::default())
    }
}

impl Monitor {
    /// A monitor that has recorded nothing, with registers of its own.
    pub fn new(options: Options) -> Monitor {
        Monitor::tuned(options, Arc::default())
    }

    /// A monitor that has recorded nothing. Channels and servers sample as these registers say at the time.
    pub fn tuned(options: Options, registers: Arc<Registers>) -> Monitor {
        let shared = Shared {
            registers,
            methods: Mutex::new(vec!["other".into()]),
            lanes: Mutex::default(),
            past: Mutex::default(),
            tracer: Mutex::new(Tracer::new(options)),
            traced: AtomicU64::new(0),
            accelerators: Mutex::default(),
        };
        Monitor { shared: Arc::new(shared) }
    }

    /// The registers that say how many calls are sampled.
    pub fn registers(&self) -> &Arc<Registers> {
        &self.shared.registers
    }

    /// The number of a method, given by its path: `/shop.Cart/Add`. Ask once, not for each call.
    pub fn method(&self, path: &str) -> MethodId {
        let mut methods = lock(&self.shared.methods);
        let known = methods.iter().position(|method| method == path);
        let at = known.unwrap_or_else(|| {
            let room = methods.len() < MAX_METHODS;
            if room {
                methods.push(path.to_string());
            }
            if room { methods.len() - 1 } else { 0 }
        });
        MethodId(at as u16)
    }

    /// A recorder for one thread's calls on this side.
    pub fn recorder(&self, side: Side, sampling: Sampling) -> Recorder {
        let lane = Arc::new(Lane::new(side));
        lock(&self.shared.lanes).push(lane.clone());
        Recorder::new(self.clone(), lane, sampling)
    }

    /// Everything counted since the start.
    pub fn snapshot(&self) -> Snapshot {
        // All locks at once: no method that the names lack can be opened, and a lane that is being dropped is in one place.
        let methods = lock(&self.shared.methods);
        let lanes = lock(&self.shared.lanes);
        let mut all = lock(&self.shared.past).clone();
        lanes.iter().for_each(|lane| lane.add_to(&mut all, &methods));
        drop((lanes, methods));
        all.spans = self.shared.traced.load(Ordering::Relaxed);
        all
    }

    /// What the accelerators do of the servers that it watches.
    pub fn accelerators(&self) -> Vec<AcceleratorFigures> {
        let mut all = lock(&self.shared.accelerators);
        all.retain(|shown| shown.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).map(|shown| shown.figures()).collect()
    }

    fn show_accelerator(&self, shown: &Arc<Shown>) {
        let mut all = lock(&self.shared.accelerators);
        if !all.iter().any(|other| other.as_ptr() == Arc::as_ptr(shown)) {
            all.push(Arc::downgrade(shown));
        }
    }

    /// Where spans go.
    pub fn tracer(&self) -> Tracer {
        lock(&self.shared.tracer).clone()
    }

    /// From now on spans go there: to what the program's other services leave.
    pub fn set_tracer(&self, tracer: Tracer) {
        *lock(&self.shared.tracer) = tracer;
    }

    /// Where calls are recorded, if they are to be.
    pub(crate) fn recording(&self) -> Recording {
        lock(&self.shared.tracer).recording().clone()
    }

    /// Records a call of this method, as `of` makes it of service and name.
    fn record(&self, method: MethodId, of: impl FnOnce(Arc<str>, String) -> Request) {
        let recording = self.recording();
        let name = lock(&self.shared.methods)[usize::from(method.0)].clone();
        recording.add(of(Arc::clone(recording.service()), name));
    }

    /// A call of this method leaves spans: its name.
    fn traced(&self, method: MethodId) -> String {
        self.shared.traced.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.methods)[usize::from(method.0)].clone()
    }

    /// A recorder is gone: its lane becomes part of the past.
    fn retire(&self, lane: &Arc<Lane>) {
        let methods = lock(&self.shared.methods);
        let mut lanes = lock(&self.shared.lanes);
        lane.close();
        lane.add_to(&mut lock(&self.shared.past), &methods);
        lanes.retain(|other| !Arc::ptr_eq(other, lane));
    }
}

/// What is behind these locks is sound after a panic too: each is held for a push or a sum.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to a counter that this thread alone writes.
#[inline(always)]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}
