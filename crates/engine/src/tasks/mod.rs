//! A task service on an engine: admit into slots, line up by key, poll a window of tasks in turn, answer as they finish.
//!
//! Shape
//! ```text
//!  ports ─▶ admit ─▶ [slot] ─▶ line of its port ─▶ line of its key ─▶ ready ─▶ window ─▶ done ─▶ reply ─▶ ports
//!                              (Order::Port only)                       ▲         │              no room: stuck
//!                                                                       └─ wait ◀─┘
//!                                                      (time, log, host threads, another service)
//! ```
//! | file | what it does |
//! |---|---|
//! | `admit` | requests into slots and lines |
//! | `wake` | who waited long enough is ready; who waited too long is ended |
//! | `poll` | the window: a group of tasks, polled in turn |
//! | `retire` | replies, slots given back, lines moved on |
//!
//! Invariants
//! 1. A request is handled once; it gets one reply: what its task ended with, or why that failed.
//! 2. Of the tasks of one key one at most was started and has not ended; they are started in order of admission. So of one port
//!    with [`Order::Port`], whose replies too come in that order.
//! 3. A slot is in one place: a line (behind its head), `ready`, the window, or waiting.
//! 4. A task that panics, and one whose deadline passes, costs nobody else anything.
//!
//! Bounds: `in_flight` of the engine and of the service, and [`CALLS`] calls from other tasks; at a port without room for replies, as
//! many outputs as its ring has entries. A pass polls [`POLLS`] times at most.
//!
//! Cost: `docs/measurements/engine.md`.

mod admit;
mod poll;
mod retire;
mod wake;

use crate::call::{CALLS, Callee};
use crate::cores::Core;
use crate::cx::Cx;
use crate::hosted::{Common, Hosted};
use crate::inflight::Slot;
use crate::lines::Lines;
use crate::port::EnginePort;
use crate::ports::{Admitted, Ports};
use crate::service::{Failure, TaskService};
use crate::settings::{EngineOptions, MAX_GROUP, Order};
use crate::slab::Slab;
use crate::traced::TracedTask;
use base::Nanos;
use ring::pair::Tag;
use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;

/// Polls of one pass at most, about: what a task that never ends may cost the other services before it is their turn.
const POLLS: usize = if cfg!(miri) { 256 } else { 4096 };

/// Where the task of a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Free,
    /// In the line of its port, not its head.
    BehindPort,
    /// In the line of its key, not its head.
    BehindKey,
    /// To be polled, or in the window.
    Ready,
    /// For a moment, an entry of the log, or somebody who resumes it.
    Waiting,
}

/// What is known of a slot beside its request and task.
#[derive(Clone, Copy)]
struct Meta {
    port: u32,
    tag: Tag,
    stand: Stand,
    /// It leaves spans.
    traced: bool,
    generation: u32,
    /// The bucket of its key.
    key: Option<u32>,
    submitted: Nanos,
    admitted: Nanos,
    /// When it wants to be polled again.
    until: Nanos,
    /// The entry of the log that it waits for.
    entry: u64,
}

/// How a task ended.
enum Outcome<S: TaskService> {
    Output(S::Output),
    Failed(Failure),
}

/// A task that ended and whose reply had no room.
struct Stuck<S: TaskService> {
    tag: Tag,
    request: S::Request,
    outcome: Outcome<S>,
}

/// A task service with its ports; `F` is the type of its tasks, made by `G`.
pub(crate) struct Tasks<S: TaskService, G, F, L: Lines> {
    service: S,
    start: G,
    slab: Slab<S::Request, F>,
    metas: Vec<Meta>,
    /// By slot: those that leave spans, but for the one that is polled.
    traced: Vec<Option<TracedTask>>,
    /// Lines of tasks with the same key.
    keys: L,
    key_mask: u32,
    /// Lines of tasks of the same port.
    port_lines: L,
    order: Order,
    ports: Ports<S>,
    admitted: VecDeque<Admitted<S>>,
    ready: VecDeque<Slot>,
    window: Vec<Slot>,
    done: Vec<(Slot, Outcome<S>)>,
    /// By port: what waits for room, and the ports where something does.
    stuck: Vec<VecDeque<Stuck<S>>>,
    stuck_ports: Vec<u32>,
    /// Waiting tasks, and no later than the first moment, entry and deadline that any of them has.
    waiting: usize,
    next_wake: Nanos,
    next_entry: u64,
    next_expiry: Nanos,
    /// The deadline of the last pass.
    deadline: Nanos,
    number: usize,
    /// The port of calls from other tasks.
    local: Option<u32>,
    callee: Option<Callee<S>>,
}

/// A task service for an engine of these options, whose number there is `number`, with at most `in_flight` requests of edges.
pub(crate) fn hosted<S: TaskService, L: Lines, C: Core>(
    service: S,
    number: usize,
    options: &EngineOptions,
    (order, in_flight): (Order, usize),
) -> Box<dyn Hosted<C>> {
    // The type of the tasks cannot be written down, but inferred.
    let start = |request: &'static S::Request| S::handle(Cx::new(), request);
    let slots = in_flight + CALLS as usize;
    let buckets = (4 * slots).next_power_of_two();
    let ports = if order == Order::Port { bells(options) } else { 0 };
    let free = Meta {
        port: 0,
        tag: Tag(0),
        stand: Stand::Free,
        traced: false,
        generation: 0,
        key: None,
        submitted: Nanos::ZERO,
        admitted: Nanos::ZERO,
        until: Nanos::MAX,
        entry: u64::MAX,
    };
    Box::new(Tasks::<S, _, _, L> {
        service,
        start,
        slab: Slab::new(slots),
        metas: vec![free; slots],
        traced: (0..slots).map(|_| None).collect(),
        keys: L::new(buckets, slots),
        key_mask: buckets as u32 - 1,
        port_lines: L::new(ports, slots),
        order,
        ports: Ports::new(),
        admitted: VecDeque::with_capacity(slots),
        ready: VecDeque::with_capacity(slots),
        window: Vec::with_capacity(MAX_GROUP),
        done: Vec::with_capacity(MAX_GROUP),
        stuck: Vec::new(),
        stuck_ports: Vec::new(),
        waiting: 0,
        next_wake: Nanos::MAX,
        next_entry: u64::MAX,
        next_expiry: Nanos::MAX,
        deadline: Nanos::ZERO,
        number,
        local: None,
        callee: None,
    })
}

/// Doorbells of an engine, whose numbers its ports have.
pub(crate) fn bells(options: &EngineOptions) -> usize {
    // Each service may be called.
    options.ports + crate::engine::MAX_SERVICES
}

impl<S, C, G, F, L> Hosted<C> for Tasks<S, G, F, L>
where
    S: TaskService,
    C: Core,
    G: Fn(&'static S::Request) -> F + Send,
    F: Future<Output = S::Output> + Send,
    L: Lines,
{
    fn pass(&mut self, common: &mut Common<C>, share: usize) {
        for at in common.desks[self.number].news.drain(..) {
            if self.local != Some(at) {
                self.ports.announced(at);
            }
        }
        self.service.tick(common.now());
        common.turn.durable.set(self.service.log().map_or(u64::MAX, |log| log.durable()));
        if std::mem::replace(&mut self.deadline, common.account.settings.deadline)
            != common.account.settings.deadline
        {
            self.next_expiry = Nanos::ZERO;
        }
        self.retry(common);
        self.wake(common);
        self.admit(common, share);
        self.run(common);
        self.ports.flush();
        if let Some(callee) = &self.callee {
            callee.deliver(common);
        }
        let runnable = !self.ready.is_empty() || !self.window.is_empty();
        let desk = &mut common.desks[self.number];
        // With no place free for more, waiting tasks say when there is something to do.
        let more = self.ports.has_more()
            && desk.in_flight < desk.max_in_flight
            && common.in_flight < common.capacity;
        desk.more = runnable || more;
        desk.blocked = self.stuck_ports.len();
    }

    fn has_work(&self) -> bool {
        self.next_entry != u64::MAX && self.service.log().is_some_and(|log| log.durable() > self.next_entry)
    }

    fn next_deadline(&self) -> Nanos {
        self.next_wake.min(self.next_expiry)
    }

    fn idle(&mut self, now: Nanos, budget: usize) -> bool {
        self.service.tick(now);
        self.service.idle(budget)
    }

    fn attach(&mut self, port: Box<dyn Any>) {
        let port = *port.downcast::<EnginePort<S>>().expect("a port of this service");
        let at = port.index();
        if self.stuck.len() <= at {
            self.stuck.resize_with(at + 1, VecDeque::new);
        }
        self.ports.attach(port);
    }

    fn detach(&mut self, at: u32) -> bool {
        let is_busy = self.metas.iter().any(|meta| meta.stand != Stand::Free && meta.port == at);
        if is_busy || !self.ports.detach(at) {
            return false;
        }
        // Replies without room, which nobody will read.
        self.stuck[at as usize].clear();
        self.stuck_ports.retain(|&other| other != at);
        true
    }

    fn callee(&mut self) -> &mut dyn Any {
        &mut self.callee
    }

    fn set_local(&mut self, at: u32) {
        self.local = Some(at);
        self.ports.unlist(at);
    }

    fn service(&mut self) -> &mut dyn Any {
        &mut self.service
    }

    fn leave(mut self: Box<Self>, common: &mut Common<C>) -> Box<dyn Any> {
        // Host threads and other services learn that nobody waits any more.
        self.end_tasks(common, true);
        common.in_flight -= common.desks[self.number].in_flight;
        let Tasks { service, ports, callee, .. } = *self;
        drop(ports);
        if let Some(callee) = &callee {
            callee.deliver(common);
        }
        Box::new(service)
    }
}
