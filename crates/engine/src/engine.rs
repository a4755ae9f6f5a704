//! The engine's loop: scan doorbells, admit round-robin, touch, execute in order of admission, answer in a burst.
//!
//! Shape
//! ```text
//!   port 0 ▸ ring ─┐  admit: round-robin,    touch: stage by stage,      execute: in order
//!   port 1 ▸ ring ─┼─▸ quantum per port  ──▸ or one coroutine each  ──▸ of admission ──▸ reply rings
//!   port 2 ▸ ring ─┘  into the queue         (group of them)             flush once per pass
//! ```
//!
//! Why in order of admission: requests of one ring must be answered as if executed one after the other (a client that
//! pipelines `set k` and `get k` relies on it). Only the touches overlap, and those change nothing, like the loads of a
//! processor that retires in order.
//!
//! Invariants
//! 1. A request is executed exactly once, after every earlier request of its port. (The queue is in order of admission. Where
//!    a reply has no room its port is *blocked*: it gets that request and all its later ones back, in order, and nothing
//!    more of it is admitted before the first of them is answered.)
//! 2. A reply is written in the ring for every request admitted. (The response ring has a slot for each by construction.)
//! 3. Between passes the queue is empty, unless the service panicked. A blocked port thus takes no place from the others.
//! 4. A request that is announced before a pass waits for at most one quantum of each other port.
//!
//! Bounds: `in_flight` requests in the queue; at a blocked port, as many as its ring has entries.
//!
//! Cost: 17 ns per request from submission to release at groups of 16, of which a group's clock and histograms are 2 ns; 26 ns
//! as coroutines (`docs/measurements/engine.md`).
//!
//! Sources: ORCA section III-C (scheduler, ring tracker, table of outstanding requests); group prefetching after Chen et al.
//! 2004 and MICA 2; coroutine interleaving after Psaropoulos et al. 2017.

use crate::coroutine::{self, Window};
use crate::port::{EnginePort, Stamped};
use crate::ports::{Admitted, Ports};
use crate::service::Service;
use crate::stages::{StageRun, Stages};
use base::{Clock, Nanos};
use ring::doorbell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The largest group.
const MAX_GROUP: usize = 64;

/// How the engine hides the latency of the memory that requests need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Not at all: execute one request after the other. The baseline.
    Plain,
    /// Touch a whole group step by step (group prefetching), then execute it. Best for single-step operations.
    #[default]
    Staged,
    /// One coroutine per request, polled in turn, a group of them at any time.
    Coroutine,
}

/// What may be changed between two passes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How latency is hidden.
    pub form: Form,
    /// Requests touched together; 1 to 64.
    pub group: usize,
    /// Requests admitted from one port before the next has its turn.
    pub quantum: usize,
    /// Requests that waited longer are answered by [`Service::expire`]; zero waits for ever.
    pub deadline: Nanos,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { form: Form::Staged, group: 16, quantum: 64, deadline: Nanos::ZERO }
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests answered.
    pub answered: usize,
    /// Ports that wait for their edge to make room for replies.
    pub blocked: usize,
    /// Whether requests are left that another pass could take.
    pub more: bool,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests executed.
    pub executed: u64,
    /// Requests whose deadline had passed.
    pub expired: u64,
    /// Times a port had to wait for room for its replies.
    pub blocked: u64,
    /// Passes that answered something.
    pub passes: u64,
}

/// One engine over a service `S`.
pub struct Engine<S: Service> {
    core: Core<S>,
    // Boxed once per engine, not per request: the coroutine's type cannot be written down, and one indirect call per pass
    // is nothing.
    window: Box<dyn Window<S>>,
}

/// Everything but the coroutines.
pub(crate) struct Core<S: Service> {
    pub(crate) service: S,
    pub(crate) queue: VecDeque<Admitted<S>>,
    ports: Ports<S>,
    capacity: usize,
    deadline: Nanos,
    clock: Clock,
    /// When the work at hand began.
    now: Nanos,
    /// The port whose request the service is executing; still set when that panicked.
    executing: Option<u32>,
    stages: Arc<Stages>,
    queued: StageRun,
    counters: Counters,
}

impl<S: Service> Engine<S> {
    /// An engine over `service` with `in_flight` places, fed through the doorbells that `tracker` scans.
    ///
    /// # Panics
    /// When `in_flight` is 0 or beyond [`InFlight::MAX_CAPACITY`](crate::InFlight::MAX_CAPACITY).
    pub fn new(service: S, tracker: doorbell::Tracker, in_flight: usize) -> Engine<S> {
        let window = coroutine::window::<S>(in_flight);
        let clock = Clock::shared();
        let core = Core {
            service,
            queue: VecDeque::with_capacity(in_flight),
            ports: Ports::new(tracker),
            capacity: in_flight,
            deadline: Nanos::ZERO,
            clock,
            now: clock.now(),
            executing: None,
            stages: Arc::default(),
            queued: StageRun::default(),
            counters: Counters::default(),
        };
        Engine { core, window }
    }

    /// Serves `port` from now on.
    ///
    /// # Panics
    /// When another port with the same doorbell is attached.
    pub fn attach(&mut self, port: EnginePort<S>) {
        self.core.ports.attach(port);
    }

    /// The service, for questions between passes.
    pub fn service(&mut self) -> &mut S {
        &mut self.core.service
    }

    /// The stage histograms, shared.
    pub fn stages(&self) -> Arc<Stages> {
        self.core.stages.clone()
    }

    /// Totals since the start.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// One pass: admits at most `in_flight` requests and answers all of them that have room for their replies.
    ///
    /// # Panics
    /// When the service does. The next pass goes on: after a panic of [`Service::touch`] with the same requests, untouched;
    /// after one of [`Service::execute`] or [`Service::expire`] without the port whose request that was, which is closed, so
    /// that no other reply is taken for the missing one.
    pub fn run(&mut self, settings: &Settings) -> Progress {
        let core = &mut self.core;
        let before = core.counters;
        let group = settings.group.clamp(1, MAX_GROUP);
        core.deadline = settings.deadline;
        core.recover(group);
        core.ports.scan();
        core.retry();
        core.ports.admit(&mut core.queue, core.capacity, settings.quantum.max(1));
        if !core.queue.is_empty() {
            core.now = core.clock.now();
            match settings.form {
                Form::Plain => core.run_groups(group, false),
                Form::Staged => core.run_groups(group, true),
                Form::Coroutine => self.window.run(core, group),
            }
        }
        core.ports.flush();
        core.progress(before)
    }

    /// Whether the next pass would find something to admit. Blocked ports do not count: their edges say when they made room.
    pub fn has_work(&self) -> bool {
        self.core.ports.has_work()
    }

    /// Housekeeping of the service while there is nothing to execute; see [`Service::idle`].
    pub fn idle(&mut self, budget: usize) -> bool {
        let now = self.core.clock.now();
        self.core.service.tick(now);
        self.core.service.idle(budget)
    }
}

impl<S: Service> Core<S> {
    fn progress(&mut self, before: Counters) -> Progress {
        let now = &mut self.counters;
        let answered = (now.executed - before.executed + now.expired - before.expired) as usize;
        now.passes += u64::from(answered > 0);
        Progress { answered, blocked: self.ports.blocked(), more: self.ports.has_more() }
    }

    /// Clears up after a pass that the service ended by a panic; otherwise there is nothing to do.
    fn recover(&mut self, group: usize) {
        if let Some(at) = self.executing.take() {
            self.queue.retain(|admitted| admitted.port != at);
            self.ports.close(at);
        }
        self.run_groups(group, false);
    }

    /// Tries the oldest request of each blocked port again.
    fn retry(&mut self) {
        let blocked = self.ports.blocked();
        if blocked == 0 {
            return;
        }
        self.now = self.clock.now();
        self.service.tick(self.now);
        let mut answered = 0;
        for _ in 0..blocked {
            let Some(request) = self.ports.retry() else { break };
            if self.answer(&request) {
                self.ports.unblock(request.port);
                answered += 1;
            } else {
                self.ports.still_blocked(request);
            }
        }
        self.record(answered);
    }

    /// Plain and staged forms: group after group, each touched (or not) and then executed in order.
    fn run_groups(&mut self, group: usize, touch: bool) {
        while !self.queue.is_empty() {
            let n = group.min(self.queue.len());
            if touch {
                for step in 0..S::TOUCHES {
                    for admitted in self.queue.range(..n) {
                        self.service.touch(step, S::touch_key(&admitted.request.body));
                    }
                }
            }
            self.execute_front(n);
        }
    }

    /// Executes the first `n` requests of the queue, or as many as it has.
    pub(crate) fn execute_front(&mut self, n: usize) {
        self.service.tick(self.now);
        let mut answered = 0;
        for _ in 0..n {
            let Some(request) = self.queue.pop_front() else { break };
            if self.answer(&request) {
                answered += 1;
            } else {
                self.counters.blocked += u64::from(self.ports.give_back(request));
            }
        }
        self.record(answered);
    }

    /// Executes one request and writes its reply, which leaves with the pass; false where there is no room for it.
    #[inline]
    fn answer(&mut self, admitted: &Admitted<S>) -> bool {
        let attached = self.ports.of(admitted.port);
        if attached.blocked {
            return false;
        }
        let (port, body) = (&mut attached.port, &admitted.request.body);
        let waited = self.now.since(admitted.request.at);
        let late = self.deadline > Nanos::ZERO && waited > self.deadline;
        self.executing = Some(admitted.port);
        let reply =
            if late { self.service.expire(body, port.out()) } else { self.service.execute(body, port.out()) };
        self.executing = None;
        let Some(body) = reply else { return false };
        port.reply(admitted.tag, Stamped { at: self.now, body });
        *(if late { &mut self.counters.expired } else { &mut self.counters.executed }) += 1;
        self.queued.add(waited, |span, n| self.stages.queued(span, n));
        true
    }

    /// Records a group that is done; the next one begins now.
    fn record(&mut self, answered: usize) {
        let begun = std::mem::replace(&mut self.now, self.clock.now());
        self.queued.finish(|span, n| self.stages.queued(span, n));
        if answered > 0 {
            self.stages.executed(self.now.since(begun), answered);
        }
    }
}
