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
//! 1. A request is executed exactly once, after every earlier request of its port. (The queue is in order of admission; a
//!    blocked port takes all its queued requests back, in order, before anything else of it is admitted.)
//! 2. A reply is written in the ring for every request admitted. (The response ring has a slot for each by construction.)
//! 3. At most `in_flight` requests are admitted and not yet answered, blocked ones included.
//!
//! Cost: 15–25 ns per request beside the service's own work, at groups of 16 (`cargo bench -p millrace-engine`).
//!
//! Sources: ORCA section III-C (scheduler, ring tracker, table of outstanding requests); group prefetching after Chen et al.
//! 2004 and MICA 2; coroutine interleaving after Psaropoulos et al. 2017.

use crate::coroutine::{self, Window};
use crate::port::{EnginePort, Stamped};
use crate::service::Service;
use crate::stages::{StageRun, Stages};
use base::{Clock, Nanos};
use ring::doorbell;
use ring::pair::Tag;
use std::collections::VecDeque;
use std::sync::Arc;

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
    /// Passes that found work.
    pub passes: u64,
}

pub(crate) struct Admitted<S: Service> {
    port: u32,
    tag: Tag,
    pub(crate) request: Stamped<S::Request>,
}

struct Attached<S: Service> {
    port: EnginePort<S>,
    /// Announced by the doorbell and not yet taken from the ring.
    pending: u32,
    /// Taken from the ring and given back because the edge had no room for the reply.
    returned: VecDeque<Admitted<S>>,
    /// Replies were written since the last flush.
    dirty: bool,
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
    ports: Vec<Option<Attached<S>>>,
    tracker: doorbell::Tracker,
    capacity: usize,
    next_port: usize,
    clock: Clock,
    stages: Arc<Stages>,
    counters: Counters,
}

impl<S: Service> Engine<S> {
    /// An engine over `service` with `in_flight` places, fed through the doorbells that `tracker` scans.
    ///
    /// # Panics
    /// When `in_flight` is 0 or beyond [`InFlight::MAX_CAPACITY`](crate::InFlight::MAX_CAPACITY).
    pub fn new(service: S, tracker: doorbell::Tracker, in_flight: usize) -> Engine<S> {
        let core = Core {
            service,
            queue: VecDeque::with_capacity(in_flight),
            ports: Vec::new(),
            tracker,
            capacity: in_flight,
            next_port: 0,
            clock: Clock::shared(),
            stages: Arc::default(),
            counters: Counters::default(),
        };
        Engine { core, window: coroutine::window::<S>(in_flight) }
    }

    /// Serves `port` from now on.
    ///
    /// # Panics
    /// When another port with the same doorbell is attached.
    pub fn attach(&mut self, port: EnginePort<S>) {
        let ports = &mut self.core.ports;
        let at = port.index();
        if ports.len() <= at {
            ports.resize_with(at + 1, || None);
        }
        let old = ports[at].replace(Attached { port, pending: 0, returned: VecDeque::new(), dirty: false });
        assert!(old.is_none(), "two ports with doorbell {at}");
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
    pub fn run(&mut self, settings: &Settings) -> Progress {
        let core = &mut self.core;
        core.scan();
        core.admit(settings.quantum.max(1));
        if core.queue.is_empty() {
            return core.progress(0);
        }
        core.counters.passes += 1;
        let before = core.counters;
        let group = settings.group.clamp(1, 64);
        match settings.form {
            Form::Plain => core.run_groups(group, settings.deadline, false),
            Form::Staged => core.run_groups(group, settings.deadline, true),
            Form::Coroutine => self.window.run(core, group, settings.deadline),
        }
        core.flush();
        let now = core.counters;
        core.progress((now.executed - before.executed + now.expired - before.expired) as usize)
    }

    /// Housekeeping of the service while there is nothing to execute; see [`Service::idle`].
    pub fn idle(&mut self, budget: usize) -> bool {
        let now = self.core.clock.now();
        self.core.service.tick(now);
        self.core.service.idle(budget)
    }
}

impl<S: Service> Core<S> {
    fn progress(&self, answered: usize) -> Progress {
        let ports = || self.ports.iter().flatten();
        let blocked = ports().filter(|p| !p.returned.is_empty()).count();
        Progress { answered, blocked, more: ports().any(|p| p.pending > 0) }
    }

    /// Learns from the doorbells which rings have something new.
    fn scan(&mut self) {
        let ports = &mut self.ports;
        self.tracker.scan(|index, new| {
            if let Some(Some(attached)) = ports.get_mut(index) {
                attached.pending = attached.pending.saturating_add(new);
            }
        });
    }

    /// Fills the queue, a quantum from each port in turn, starting where the last pass stopped.
    fn admit(&mut self, quantum: usize) {
        let n = self.ports.len();
        let mut returned: usize = self.ports.iter().flatten().map(|p| p.returned.len()).sum();
        let mut idle_in_a_row = 0;
        while idle_in_a_row < n {
            let at = self.next_port % n;
            self.next_port = at + 1;
            let taken = self.ports[at].as_mut().map_or(0, |attached| {
                // What came back goes first, and never lacks room: it is counted as admitted all along.
                let back = attached.returned.len();
                self.queue.extend(attached.returned.drain(..));
                returned -= back;
                let room = self.capacity.saturating_sub(self.queue.len() + returned);
                back + attached.take(at as u32, quantum.min(room), &mut self.queue)
            });
            idle_in_a_row = if taken == 0 { idle_in_a_row + 1 } else { 0 };
        }
    }

    /// Plain and staged forms: group after group, each touched (or not) and then executed in order.
    fn run_groups(&mut self, group: usize, deadline: Nanos, touch: bool) {
        while !self.queue.is_empty() {
            let n = group.min(self.queue.len());
            if touch {
                for step in 0..S::TOUCHES {
                    for admitted in self.queue.range(..n) {
                        self.service.touch(step, S::touch_key(&admitted.request.body));
                    }
                }
            }
            self.execute_front(n, deadline);
        }
    }

    /// Sends the replies of this pass on their way, one burst per port.
    fn flush(&mut self) {
        for attached in self.ports.iter_mut().flatten() {
            if std::mem::take(&mut attached.dirty) {
                attached.port.flush();
            }
        }
    }

    /// Executes the first `n` requests of the queue.
    pub(crate) fn execute_front(&mut self, n: usize, deadline: Nanos) {
        let begun = self.clock.now();
        self.service.tick(begun);
        let mut answered = 0;
        let mut queued = StageRun::default();
        for _ in 0..n {
            let Some(admitted) = self.queue.pop_front() else { break };
            let attached =
                self.ports[admitted.port as usize].as_mut().expect("requests come from attached ports");
            let waited = begun.since(admitted.request.at);
            let late = deadline > Nanos::ZERO && waited > deadline;
            let out = attached.port.out();
            let request = &admitted.request.body;
            let reply =
                if late { self.service.expire(request, out) } else { self.service.execute(request, out) };
            let Some(reply) = reply else {
                self.take_back(admitted);
                continue;
            };
            attached.port.reply(admitted.tag, Stamped { at: begun, body: reply });
            attached.dirty = true;
            *(if late { &mut self.counters.expired } else { &mut self.counters.executed }) += 1;
            answered += 1;
            queued.add(waited, |span, n| self.stages.queued(span, n));
        }
        queued.finish(|span, n| self.stages.queued(span, n));
        if answered > 0 {
            self.stages.executed(self.clock.now().since(begun), answered);
        }
    }

    /// Gives `blocked` and every later request of its port back to the port, in order.
    fn take_back(&mut self, blocked: Admitted<S>) {
        self.counters.blocked += 1;
        let at = blocked.port;
        let attached = self.ports[at as usize].as_mut().expect("requests come from attached ports");
        attached.returned.push_back(blocked);
        for _ in 0..self.queue.len() {
            let admitted = self.queue.pop_front().expect("counted");
            if admitted.port == at {
                attached.returned.push_back(admitted)
            } else {
                self.queue.push_back(admitted)
            }
        }
    }
}

impl<S: Service> Attached<S> {
    /// Moves at most `limit` announced requests from the ring to `queue`.
    fn take(&mut self, index: u32, limit: usize, queue: &mut VecDeque<Admitted<S>>) -> usize {
        let want = limit.min(self.pending as usize);
        let got =
            self.port.drain(want, |tag, request| queue.push_back(Admitted { port: index, tag, request }));
        // A doorbell is a hint: where it promised more than the ring holds, the rest will be announced again.
        self.pending = if got < want { 0 } else { self.pending - got as u32 };
        got
    }
}
