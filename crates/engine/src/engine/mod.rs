//! The engine: services on one core, fed by ports.
//!
//! Shape
//! ```text
//!   port ▸ ring ─┐                 service 0 (staged): touch a group, execute in order of admission ─┐
//!   port ▸ ring ─┼─▸ scan, share ─▸                                                                  ├─▸ reply rings,
//!   port ▸ ring ─┘   out the pass  service 1 (tasks): poll a window in turn, finish as ready ────────┘   one flush a pass
//! ```
//! | file | what it does |
//! |---|---|
//! | `build` | an engine, its services, their ports |
//! | `pass` | one pass, over all services or of one |
//! | `share` | how much of a pass each service gets |
//! | `report` | what is set, and what it says of itself and of each service |
//! | `../staged`, `../tasks` | one service in its form |
//!
//! Invariants
//! 1. Every request gets one reply, unless its port is closed.
//! 2. A pass never waits. It says whether another one now would find something, and [`Engine::next_deadline`] when one is due anyhow.
//! 3. Of all services together, at most `in_flight` requests of edges are in flight; staged ones only while a pass runs.
//! 4. Settings, counters and histograms are a service's own; the scheduler and the bound of all requests are the engine's.
//! 5. A handle of a service that was removed reaches no other: its number comes with a generation.
//!
//! Cost: 17 ns per staged request from submission to release at groups of 16, of which a group's clock and histograms are 2 ns; one
//! virtual call per pass and service (`docs/measurements/engine.md`).
//!
//! Sources: ORCA section III-C (scheduler, ring tracker, table of outstanding requests); group prefetching after Chen et al.
//! 2004 and MICA 2; coroutine interleaving after Psaropoulos et al. 2017.

mod build;
mod pass;
mod report;
mod share;

use crate::cores::{Core, CycleCore};
use crate::hosted::{Common, Hosted};
use crate::settings::{EngineOptions, Scheduler};
use ring::doorbell::Tracker;
use std::marker::PhantomData;

/// Services at most on one engine.
pub(crate) const MAX_SERVICES: usize = 16;
/// Requests of one service in flight at most: slots have numbers of 16 bits.
const MAX_IN_FLIGHT: usize = 65_000;

/// One engine on a core `C`.
///
/// It is a value and no thread: a dedicated thread may run it for ever, or every edge in turn behind a lock.
pub struct Engine<C: Core = CycleCore> {
    common: Common<C>,
    tracker: Tracker,
    /// The service of each doorbell.
    routes: Vec<u16>,
    /// `None`: the one that had this number was removed.
    services: Vec<Option<Box<dyn Hosted<C>>>>,
    options: EngineOptions,
    scheduler: Scheduler,
    /// Services that tasks call: each has a port more.
    callees: usize,
    /// Which services this pass goes to, and how much each may admit.
    plan: Vec<(u16, usize)>,
    /// Who was first in the last pass.
    turn: usize,
}

/// Which service of an engine.
pub struct Handle<S> {
    number: u16,
    generation: u16,
    _service: PhantomData<fn() -> S>,
}

impl<S> Handle<S> {
    /// Its bit in [`Progress::services`](crate::Progress::services).
    pub fn bit(self) -> u16 {
        1 << self.number
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Handle<S> {
        *self
    }
}

impl<S> Copy for Handle<S> {}
