//! Events, resources, and the interpreter of programs.
//!
//! ```text
//!   begin(program) ─▶ operation ── step, step, … ──▶ needs time ──▶ event in the queue ─┐
//!                        ▲                                                              │
//!                        └───────────────── due: the next step ◀────────────────────────┘
//!                     its last step: whoever waits for it goes on
//! ```
//!
//! Invariants
//! 1. An operation is in one place: in the queue, in a token pool's line, waiting for what it began, or ended and free.
//! 2. Whatever happens at one moment happens in the order (source, sequence); the source of an event is the resource that the operation
//!    was at, so that one resource's operations come in order.
//!
//! Cost: an event is a pop, a step or a few, a push: see `benches/events.rs`. Operations live in a slab; nothing is allocated once it
//! has grown to the most that were under way at once.
//!
//! Bounds: 2³² operations under way. A closed loop bounds itself; an open one is its user's to bound.
//!
//! Files: [`program`] steps and what they add up to, [`path`] what an operation's end waits for, [`resource`] who serves, `account` what a run did.

mod account;
pub mod path;
pub mod program;
pub mod resource;

use base::{Picos, Prng};
pub use path::{Hold, Visit};
use path::{add_holds, add_visits};
pub use program::{Demand, Service, Step};
use program::{Order, Program, add_demand, deeper, unloaded_program};
pub use resource::Usage;
use resource::{Resource, TokenPool};
use sim::{Fingerprint, Queue, random::stream};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);
    )*};
}

ids! {
    /// A resource of a [`Kernel`].
    ResourceId;
    /// A program of a [`Kernel`].
    ProgramId;
    /// A pool of tokens of a [`Kernel`].
    Tokens;
    /// An operation under way.
    OpSlot;
}

/// Who waits for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// Nobody.
    Nobody,
    /// An operation that began it.
    Op(OpSlot),
    /// Somebody outside: the number is his.
    Ticket(u32),
}

#[derive(Debug)]
struct Op {
    program: ProgramId,
    next: u32,
    argument: u64,
    waiter: Waiter,
    /// Operations that it waits for.
    children: u32,
}

/// What is to happen.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The operation's next step.
    Go(OpSlot),
    /// The process of this number goes on.
    Wake(u32),
}

/// What [`Kernel::turn`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something happened inside.
    Inside,
    /// This process is to be polled.
    Process(u32),
    /// Nothing is due.
    Nothing,
}

/// Sources of events that belong to processes begin here; below are resources.
const PROCESSES: u32 = 1 << 24;
/// Source of operations that begin, or wait at no resource.
const NOWHERE: u32 = PROCESSES - 1;
/// Source of operations that waited for tokens: after those of resources.
const TOKENS: u32 = 1 << 23;

/// The model's machinery.
pub struct Kernel {
    queue: Queue<What>,
    now: Picos,
    seed: u64,
    resources: Vec<Resource>,
    /// Which one of several programs it is.
    draws: Prng,
    pools: Vec<TokenPool>,
    programs: Vec<Program>,
    ops: Vec<Op>,
    free_ops: Vec<OpSlot>,
    /// Tickets whose operations ended in this turn.
    ended: Vec<u32>,
    fingerprint: Fingerprint,
    events: u64,
    /// Before the names of resources and pools.
    label: String,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Kernel");
        shown.field("now", &self.now).field("events", &self.events).field("under_way", &self.under_way());
        shown.finish_non_exhaustive()
    }
}

impl Kernel {
    /// With nothing in it, at time 0.
    pub fn new(seed: u64) -> Kernel {
        Kernel {
            queue: Queue::new(),
            now: Picos::ZERO,
            seed,
            resources: Vec::new(),
            draws: stream(seed, u64::MAX, "draws"),
            pools: Vec::new(),
            programs: Vec::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            ended: Vec::new(),
            fingerprint: Fingerprint::new(),
            events: 0,
            label: String::new(),
        }
    }

    /// Names of the resources and pools that follow begin with these words: which of several equal machines they belong to.
    pub fn label(&mut self, words: &str) {
        self.label = if words.is_empty() { String::new() } else { format!("{words} ") };
    }

    /// Adds a resource of `servers` equal servers that take requests in order of arrival.
    ///
    /// # Panics
    /// Without servers, or beyond 2²³ resources.
    pub fn resource(&mut self, name: &str, servers: usize) -> ResourceId {
        let id = u32::try_from(self.resources.len()).ok().filter(|id| *id < TOKENS);
        let id = id.expect("a model has fewer than 2^23 resources");
        let prng = stream(self.seed, u64::from(id), "service");
        self.resources.push(Resource::new(&format!("{}{name}", self.label), servers, prng));
        ResourceId(id)
    }

    /// Adds `count` resources of one server each, named `name 0`, `name 1`, …: for [`Step::Pick`].
    pub fn resources(&mut self, name: &str, count: u32) -> ResourceId {
        assert!(count > 0, "{name} needs at least one");
        let first = self.resource(&format!("{name} 0"), 1);
        for i in 1..count {
            self.resource(&format!("{name} {i}"), 1);
        }
        first
    }

    /// Adds a pool of tokens, all free.
    pub fn tokens(&mut self, name: &str, count: u64) -> Tokens {
        self.pools.push(TokenPool::new(&format!("{}{name}", self.label), count));
        Tokens(self.pools.len() as u32 - 1)
    }

    /// Adds a program.
    ///
    /// # Panics
    /// If it names what is not there.
    pub fn program(&mut self, name: &str, steps: impl Into<Box<[Step]>>) -> ProgramId {
        let steps = steps.into();
        for step in &steps {
            let there = match *step {
                Step::Use { at, .. } => (at.0 as usize) < self.resources.len(),
                Step::Pick { first, count, .. } => {
                    count > 0 && first.0 as usize + count as usize <= self.resources.len()
                }
                Step::Either { first, second, .. } => {
                    first != second && (first.max(second).0 as usize) < self.resources.len()
                }
                Step::Take(pool, _) | Step::Give(pool, _) => (pool.0 as usize) < self.pools.len(),
                Step::Wake { pool, program, .. } => {
                    (pool.0 as usize) < self.pools.len() && (program.0 as usize) < self.programs.len()
                }
                Step::Fork(program) | Step::Each(program, _) => (program.0 as usize) < self.programs.len(),
                Step::Wait(_) => true,
            };
            assert!(there, "{name}: {step:?} names what is not there");
        }
        for step in &steps {
            if let Step::Wake { pool, .. } = step {
                self.pools[pool.0 as usize].be_threads();
            }
        }
        self.programs.push(Program { name: name.into(), steps, order: Order::InTurn });
        ProgramId(self.programs.len() as u32 - 1)
    }

    /// The time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Events handled.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Of all events so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Operations under way.
    pub fn under_way(&self) -> usize {
        self.ops.len() - self.free_ops.len()
    }

    /// A resource's name.
    pub fn name_of(&self, id: ResourceId) -> &str {
        &self.resources[id.0 as usize].name
    }

    /// A program's name.
    pub fn program_name(&self, id: ProgramId) -> &str {
        &self.programs[id.0 as usize].name
    }

    /// A resource's servers.
    pub fn servers(&self, id: ResourceId) -> usize {
        self.resources[id.0 as usize].servers()
    }

    /// All resources.
    pub fn all_resources(&self) -> impl Iterator<Item = ResourceId> + '_ {
        (0..self.resources.len() as u32).map(ResourceId)
    }

    /// What a resource did since the last [`Kernel::reset_usage`].
    pub fn usage(&self, id: ResourceId) -> Usage {
        self.resources[id.0 as usize].usage(self.now)
    }

    /// Accounts begin anew: the warm-up is over.
    pub fn reset_usage(&mut self) {
        self.resources.iter_mut().for_each(|resource| resource.reset(self.now));
    }

    /// What a program and all that it begins ask of each resource, in the mean.
    pub fn demand(&self, program: ProgramId) -> Vec<Demand> {
        let mut demand = Vec::new();
        add_demand(&self.programs, &|id| self.servers(id) as u64, program, 1, &mut demand);
        demand
    }

    /// How long a program takes, in the mean, when nothing else is there. Exact where at most one of what runs at once queues.
    pub fn unloaded(&self, program: ProgramId) -> Picos {
        unloaded_program(&self.programs, &|id| self.servers(id) as u64, program)
    }

    /// Where a program's end waits, in the mean.
    pub fn visits(&self, program: ProgramId) -> Vec<Visit> {
        let mut visits = Vec::new();
        add_visits(&self.programs, &|id| self.servers(id) as u64, program, (1, 1.0), &mut visits);
        visits
    }

    /// Tokens that a program and all that it begins hold, and for how long, when nothing else is there. So many operations per second hold
    /// that many times as many in the mean (Little's law), and a pool has only so many.
    pub fn holds(&self, program: ProgramId) -> Vec<Hold> {
        let mut holds = Vec::new();
        add_holds(&self.programs, &|id| self.servers(id) as u64, program, (0.0, 1.0), &mut holds);
        holds
    }

    /// Whether a pool's tokens are threads: a program wakes them.
    pub fn are_threads(&self, id: Tokens) -> bool {
        self.pools[id.0 as usize].are_threads()
    }

    /// A pool's name and its tokens.
    pub fn pool(&self, id: Tokens) -> (&str, u64) {
        let pool = &self.pools[id.0 as usize];
        (&pool.name, pool.whole)
    }

    /// Begins an operation that nobody waits for. `argument` chooses among picked resources.
    pub fn begin(&mut self, program: ProgramId, argument: u64) {
        self.start(program, argument, Waiter::Nobody);
    }

    /// Handles everything until `until`, which then is now. For models without processes.
    ///
    /// # Panics
    /// If a process is woken: those need [`crate::Sim`].
    pub fn run_until(&mut self, until: Picos) {
        loop {
            match self.turn(until) {
                Turn::Inside => {}
                Turn::Nothing => break,
                Turn::Process(_) => unreachable!("no process was begun"),
            }
        }
        self.now = self.now.max(until);
    }

    pub(crate) fn start(&mut self, program: ProgramId, argument: u64, waiter: Waiter) -> OpSlot {
        self.start_at(self.now, program, argument, waiter)
    }

    fn start_at(&mut self, at: Picos, program: ProgramId, argument: u64, waiter: Waiter) -> OpSlot {
        let program = self.drawn(program);
        let op = Op { program, next: 0, argument, waiter, children: 0 };
        let slot = match self.free_ops.pop() {
            Some(slot) => {
                self.ops[slot.0 as usize] = op;
                slot
            }
            None => {
                self.ops.push(op);
                OpSlot(self.ops.len() as u32 - 1)
            }
        };
        self.queue.push(at, NOWHERE, What::Go(slot));
        slot
    }

    pub(crate) fn wake_at(&mut self, at: Picos, process: u32) {
        self.queue.push(at.max(self.now), PROCESSES + process, What::Wake(process));
    }

    /// One event, if one is due at `until` or before.
    pub(crate) fn turn(&mut self, until: Picos) -> Turn {
        let Some(event) = self.queue.pop_until(until) else { return Turn::Nothing };
        self.now = event.at;
        self.events += 1;
        match event.what {
            What::Go(slot) => {
                self.fingerprint.event(&event, slot.0);
                self.go(slot);
                Turn::Inside
            }
            What::Wake(process) => {
                self.fingerprint.event(&event, process);
                Turn::Process(process)
            }
        }
    }

    /// Everything that happens at once is over: moves to `until`.
    pub(crate) fn pass(&mut self, until: Picos) {
        self.now = self.now.max(until);
    }

    /// A ticket whose operation ended.
    pub(crate) fn next_ended(&mut self) -> Option<u32> {
        self.ended.pop()
    }

    /// Takes steps until one needs time.
    fn go(&mut self, mut slot: OpSlot) {
        loop {
            let op = &mut self.ops[slot.0 as usize];
            let program = &self.programs[op.program.0 as usize];
            if program.order == Order::AtOnce && op.next == 0 {
                return self.all_at_once(slot);
            }
            let Some(step) = program.steps.get(op.next as usize).copied() else {
                match self.finish(slot) {
                    Some(parent) => slot = parent,
                    None => return,
                }
                continue;
            };
            op.next += 1;
            match step {
                Step::Use { at, service, units, after } => {
                    return self.use_at(slot, at, service, units, after);
                }
                Step::Pick { first, count, service, units, after } => {
                    let at = ResourceId(first.0 + (op.argument % u64::from(count)) as u32);
                    return self.use_at(slot, at, service, units, after);
                }
                Step::Either { first, second, service, units, after } => {
                    let begin = |at: ResourceId| self.resources[at.0 as usize].begins(self.now);
                    let at = if begin(first) <= begin(second) { first } else { second };
                    return self.use_at(slot, at, service, units, after);
                }
                Step::Wait(span) => {
                    self.queue.push(self.now.plus(span), NOWHERE, What::Go(slot));
                    return;
                }
                Step::Take(pool, count) => {
                    if !self.pools[pool.0 as usize].take(slot, count) {
                        return;
                    }
                }
                Step::Wake { pool, awake, program, deep } => {
                    let free = self.pools[pool.0 as usize].take_thread(slot, self.now);
                    let Some(free) = free else { return };
                    if free > awake {
                        op.children = 1;
                        let argument = op.argument;
                        let first = self.now.plus(deeper(free.since(awake), deep));
                        self.start_at(first, program, argument, Waiter::Op(slot));
                        return;
                    }
                }
                Step::Give(pool, count) => self.give(pool, count),
                Step::Fork(program) => {
                    let argument = op.argument;
                    self.start(program, argument, Waiter::Nobody);
                }
                Step::Each(_, 0) => {}
                Step::Each(program, times) => {
                    op.children = times;
                    let argument = op.argument;
                    for i in 0..u64::from(times) {
                        self.start(program, argument.wrapping_add(i), Waiter::Op(slot));
                    }
                    return;
                }
            }
        }
    }

    /// A use by a process: when it ends.
    pub(crate) fn serve(&mut self, at: ResourceId, service: Service, units: u64) -> Picos {
        self.resources[at.0 as usize].serve(self.now, service, units)
    }

    fn use_at(&mut self, slot: OpSlot, at: ResourceId, service: Service, units: u64, after: Picos) {
        let end = self.resources[at.0 as usize].serve(self.now, service, units);
        self.queue.push(end.plus(after), at.0, What::Go(slot));
    }

    fn give(&mut self, pool: Tokens, count: u64) {
        let tokens = &mut self.pools[pool.0 as usize];
        tokens.give(count, self.now);
        while let Some(next) = tokens.serve_next() {
            self.queue.push(self.now, TOKENS + pool.0, What::Go(next));
        }
    }

    /// Frees it; the operation that goes on by that.
    fn finish(&mut self, slot: OpSlot) -> Option<OpSlot> {
        let waiter = self.ops[slot.0 as usize].waiter;
        self.free_ops.push(slot);
        match waiter {
            Waiter::Nobody => None,
            Waiter::Ticket(ticket) => {
                self.ended.push(ticket);
                None
            }
            Waiter::Op(parent) => {
                let waiting = &mut self.ops[parent.0 as usize];
                waiting.children -= 1;
                (waiting.children == 0).then_some(parent)
            }
        }
    }
}
