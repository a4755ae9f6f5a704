//! A path through hardware as data: steps, what they demand, and how long they take when nothing else is there.

use super::{ProgramId, ResourceId, Tokens};
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

#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: Box<str>,
    pub(super) steps: Box<[Step]>,
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

/// From the first step's beginning to the last one's end, in the mean, when nothing else is there. Of programs that run at once at the same
/// resource the slowest resource delays the last.
pub(super) fn unloaded(programs: &[Program], servers: &dyn Fn(ResourceId) -> u64, steps: &[Step]) -> Picos {
    let span = |step: &Step| match *step {
        Step::Use { service, after, .. }
        | Step::Pick { service, after, .. }
        | Step::Either { service, after, .. } => service.mean().plus(after),
        Step::Wait(span) => span,
        Step::Take(..) | Step::Give(..) | Step::Fork(_) => Picos::ZERO,
        Step::Wake { program, deep, .. } => {
            unloaded(programs, servers, &programs[program.0 as usize].steps).plus(deep.0)
        }
        Step::Each(program, count) => {
            let mut demand = Vec::new();
            add_demand(programs, servers, program, 1, &mut demand);
            let behind = |d: &Demand| {
                let turns = u64::from(count).div_ceil(servers(d.at)).saturating_sub(1);
                Picos(d.service.0 * turns)
            };
            let last = demand.iter().map(behind).max().unwrap_or_default();
            let one = &programs[program.0 as usize].steps;
            if count == 0 { Picos::ZERO } else { unloaded(programs, servers, one).plus(last) }
        }
    };
    steps.iter().map(span).fold(Picos::ZERO, Picos::plus)
}
