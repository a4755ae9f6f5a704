//! A path through hardware as data: steps, what they demand, and how long they take when nothing else is there.

use super::{Kernel, NOWHERE, OpSlot, ProgramId, ResourceId, Tokens, Waiter, What};
use base::Picos;

/// How long a use of a resource takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Always this.
    Fixed(Picos),
    /// Random, exponentially distributed, with this mean.
    Exponential(Picos),
}

impl Service {
    /// The mean.
    pub const fn mean(self) -> Picos {
        match self {
            Service::Fixed(span) | Service::Exponential(span) => span,
        }
    }
}

/// A step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Queues at a resource, is served, and goes on `after` later: a link's propagation, a pipeline's depth. The resource is free meanwhile.
    Use {
        /// Where.
        at: ResourceId,
        /// How long it is taken.
        service: Service,
        /// For the account: bytes, packets, operations.
        units: u64,
        /// Goes on so long after the service.
        after: Picos,
    },
    /// As `Use`, at one of `count` resources from `first` on: the one that the operation's argument chooses (argument modulo count). Banks,
    /// channels, shards.
    Pick {
        /// The first.
        first: ResourceId,
        /// How many.
        count: u32,
        /// How long it is taken.
        service: Service,
        /// For the account.
        units: u64,
        /// Goes on so long after the service.
        after: Picos,
    },
    /// As `Use`, at whichever of two resources begins it earlier, the first where both do: what is kept for some beside what all share.
    Either {
        /// The first choice.
        first: ResourceId,
        /// The other.
        second: ResourceId,
        /// How long it is taken.
        service: Service,
        /// For the account.
        units: u64,
        /// Goes on so long after the service.
        after: Picos,
    },
    /// Time passes.
    Wait(Picos),
    /// Takes tokens, waiting for them in order.
    Take(Tokens, u64),
    /// Takes a token, a thread, waiting for it in order. One that has been free for longer than `awake` sleeps: its wake-up comes first, holding it.
    Wake {
        /// The threads.
        pool: Tokens,
        /// How long a thread without work looks for some before it sleeps.
        awake: Picos,
        /// The wake-up of one that has just gone to sleep.
        program: ProgramId,
        /// How much longer it takes after a long sleep, and how long that is: of a shorter one its share.
        deep: (Picos, Picos),
    },
    /// Gives tokens back.
    Give(Tokens, u64),
    /// Begins another program that nobody waits for: posted writes, completions off the critical path.
    Fork(ProgramId),
    /// Begins a program so many times at once and goes on when all have ended: the packets of a message, the reads of a fan-out.
    Each(ProgramId, u32),
}

/// How much longer a wake-up takes than that of a thread that has just gone to sleep, if it has slept for so long: `longer` after `long` and more, its share
/// after less.
pub fn deeper(slept: Picos, (longer, long): (Picos, Picos)) -> Picos {
    let share = u128::from(longer.0) * u128::from(slept.min(long).0) / u128::from(long.0.max(1));
    Picos(share as u64)
}

/// What a program asks of a resource, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Of which.
    pub at: ResourceId,
    /// Time of one server.
    pub service: Picos,
    /// Units of the account.
    pub units: u64,
    /// Uses.
    pub uses: u64,
}

/// What becomes of a program's steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// One after the other.
    InTurn,
    /// All begin at once; it ends when the last has ended.
    AtOnce,
    /// One of them, each with its share: shares of all up to and with it.
    OneOf(Box<[f64]>),
}

#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: Box<str>,
    pub(super) steps: Box<[Step]>,
    pub(super) order: Order,
}

impl Program {
    /// Shares of its steps, if it is one of several.
    pub(super) fn shares(&self) -> Option<impl Iterator<Item = (f64, &Step)>> {
        let Order::OneOf(up_to) = &self.order else { return None };
        let before = std::iter::once(&0.0).chain(up_to.iter());
        Some(up_to.iter().zip(before).map(|(to, from)| to - from).zip(&self.steps))
    }
}

impl Kernel {
    /// Adds a program that begins these at once, each so many times, and ends when all have ended.
    ///
    /// # Panics
    /// Without one, or if it names what is not there.
    pub fn at_once(&mut self, name: &str, programs: &[(ProgramId, u32)]) -> ProgramId {
        assert!(!programs.is_empty(), "{name} needs a program");
        let steps: Vec<Step> = programs.iter().map(|(program, times)| Step::Each(*program, *times)).collect();
        self.ordered(name, steps, Order::AtOnce)
    }

    /// Adds a program that is one of these, drawn by their weights every time.
    ///
    /// # Panics
    /// Without a positive weight, or if it names what is not there.
    pub fn one_of(&mut self, name: &str, weighted: &[(f64, ProgramId)]) -> ProgramId {
        let sum: f64 = weighted.iter().map(|(weight, _)| *weight).sum();
        assert!(sum > 0.0 && weighted.iter().all(|(weight, _)| *weight >= 0.0), "{name} needs a weight");
        let mut below = 0.0;
        let up_to = weighted.iter().map(|(weight, _)| {
            below += weight / sum;
            below
        });
        let up_to: Box<[f64]> = up_to.collect();
        let steps: Vec<Step> = weighted.iter().map(|(_, program)| Step::Each(*program, 1)).collect();
        self.ordered(name, steps, Order::OneOf(up_to))
    }

    fn ordered(&mut self, name: &str, steps: Vec<Step>, order: Order) -> ProgramId {
        let id = self.program(name, steps);
        self.programs[id.0 as usize].order = order;
        id
    }

    /// Begins all steps of a program, each a program so many times.
    pub(super) fn all_at_once(&mut self, slot: OpSlot) {
        let op = &mut self.ops[slot.0 as usize];
        let (argument, steps) = (op.argument, self.programs[op.program.0 as usize].steps.clone());
        let all = steps.iter().filter_map(|step| {
            if let Step::Each(program, times) = *step { Some((program, times)) } else { None }
        });
        op.next = steps.len() as u32;
        op.children = all.clone().map(|(_, times)| times).sum();
        if op.children == 0 {
            self.queue.push(self.now, NOWHERE, What::Go(slot));
        }
        for (program, times) in all {
            for i in 0..u64::from(times) {
                self.start(program, argument.wrapping_add(i), Waiter::Op(slot));
            }
        }
    }

    /// The program itself, or which one of several it is this time.
    pub(super) fn drawn(&mut self, mut id: ProgramId) -> ProgramId {
        while let Order::OneOf(up_to) = &self.programs[id.0 as usize].order {
            let at = self.draws.unit_f64();
            let which = up_to.iter().position(|below| at < *below).unwrap_or(up_to.len() - 1);
            let Step::Each(next, _) = self.programs[id.0 as usize].steps[which] else {
                unreachable!("they are programs")
            };
            id = next;
        }
        id
    }
}

/// Adds what `id` and all that it begins demand, `times` over.
///
/// Where a step has the choice of two resources, each is charged by its servers' share of both: what it comes to when both are full.
pub(super) fn add_demand(
    programs: &[Program],
    servers: &dyn Fn(ResourceId) -> u64,
    id: ProgramId,
    times: u64,
    into: &mut Vec<Demand>,
) {
    if let Some(shares) = programs[id.0 as usize].shares() {
        for (share, step) in shares {
            let Step::Each(program, _) = *step else { continue };
            let mut whole = Vec::new();
            add_demand(programs, servers, program, times, &mut whole);
            let part = |of: u64| (of as f64 * share).round() as u64;
            for demand in whole {
                let (service, units) = (Picos(part(demand.service.0)), part(demand.units));
                add(into, Demand { at: demand.at, service, units, uses: part(demand.uses) }, 1);
            }
        }
        return;
    }
    for step in &programs[id.0 as usize].steps {
        match *step {
            Step::Use { at, service, units, .. } => {
                add(into, Demand { at, service: service.mean(), units, uses: 1 }, times)
            }
            Step::Pick { first, count, service, units, .. } => {
                // Each of them has its share; what is left over of a division falls on the first ones.
                for i in 0..count {
                    let at = ResourceId(first.0 + i);
                    let share = |whole: u64| (whole * times + u64::from(count - 1 - i)) / u64::from(count);
                    let demand = Demand {
                        at,
                        service: Picos(share(service.mean().0)),
                        units: share(units),
                        uses: share(1),
                    };
                    add(into, demand, 1);
                }
            }
            Step::Either { first, second, service, units, .. } => {
                let (a, b) = (servers(first), servers(second));
                let part = |at, has: u64| {
                    let share = |whole: u64| whole * times * has / (a + b);
                    Demand {
                        at,
                        service: Picos(share(service.mean().0)),
                        units: share(units),
                        uses: share(1),
                    }
                };
                add(into, part(first, a), 1);
                add(into, part(second, b), 1);
            }
            Step::Fork(program) => add_demand(programs, servers, program, times, into),
            Step::Each(program, count) => {
                add_demand(programs, servers, program, times * u64::from(count), into)
            }
            // A machine that is busy has no thread that sleeps.
            Step::Wait(_) | Step::Take(..) | Step::Wake { .. } | Step::Give(..) => {}
        }
    }
}

fn add(into: &mut Vec<Demand>, more: Demand, times: u64) {
    let (service, units, uses) = (Picos(more.service.0 * times), more.units * times, more.uses * times);
    match into.iter_mut().find(|demand| demand.at == more.at) {
        Some(demand) => {
            demand.service = demand.service.plus(service);
            demand.units += units;
            demand.uses += uses;
        }
        None => into.push(Demand { at: more.at, service, units, uses }),
    }
}

/// How long a program takes, in the mean, when nothing else is there.
pub(super) fn unloaded_program(
    programs: &[Program],
    servers: &dyn Fn(ResourceId) -> u64,
    id: ProgramId,
) -> Picos {
    let program = &programs[id.0 as usize];
    let of = |step: &Step| unloaded(programs, servers, std::slice::from_ref(step));
    match &program.order {
        Order::InTurn => unloaded(programs, servers, &program.steps),
        Order::AtOnce => program.steps.iter().map(of).max().unwrap_or_default(),
        Order::OneOf(_) => {
            let shares = program.shares().into_iter().flatten();
            Picos(shares.map(|(share, step)| share * of(step).0 as f64).sum::<f64>().round() as u64)
        }
    }
}

/// From the first step's beginning to the last one's end, in the mean, when nothing else is there. Of programs that run at once at the same
/// resource the slowest resource delays the last.
pub(super) fn unloaded(programs: &[Program], servers: &dyn Fn(ResourceId) -> u64, steps: &[Step]) -> Picos {
    let span = |step: &Step| match *step {
        Step::Use { service, after, .. }
        | Step::Pick { service, after, .. }
        | Step::Either { service, after, .. } => service.mean().plus(after),
        Step::Wait(span) => span,
        Step::Take(..) | Step::Give(..) | Step::Fork(_) => Picos::ZERO,
        Step::Wake { program, deep, .. } => unloaded_program(programs, servers, program).plus(deep.0),
        Step::Each(program, count) => {
            let mut demand = Vec::new();
            add_demand(programs, servers, program, 1, &mut demand);
            let behind = |d: &Demand| {
                let turns = u64::from(count).div_ceil(servers(d.at)).saturating_sub(1);
                Picos(d.service.0 * turns)
            };
            let last = demand.iter().map(behind).max().unwrap_or_default();
            if count == 0 { Picos::ZERO } else { unloaded_program(programs, servers, program).plus(last) }
        }
    };
    steps.iter().map(span).fold(Picos::ZERO, Picos::plus)
}
