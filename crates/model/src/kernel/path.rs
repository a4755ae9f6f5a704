//! What a program's end waits for, and how long it holds tokens: for estimates by queueing theory and by Little's law.
//!
//! [`super::Kernel::demand`] says what an operation costs the machine; this says what delays the operation. What it begins and nobody waits for
//! (`Fork`) costs and does not delay; the packets of an `Each` arrive together, so that they are one visit with all their service.

use super::program::{Order, Program, Step, add_demand, unloaded, unloaded_program};
use super::{ProgramId, ResourceId, Tokens};

/// Waits at a resource that an operation's end waits for, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Where.
    pub at: ResourceId,
    /// How often; a share where one of many is picked.
    pub visits: f64,
    /// Seconds of one server, of all visits.
    pub service: f64,
}

/// Tokens of a pool that an operation holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// Whose.
    pub pool: Tokens,
    /// Tokens times seconds, when nothing else is there and nobody sleeps.
    pub token_seconds: f64,
    /// How often it takes a thread.
    pub threads: f64,
    /// Seconds of these threads' wake-ups, if all sleep.
    pub wake: f64,
    /// What these wake-ups take of resources, in seconds of one server.
    pub wake_work: Vec<(ResourceId, f64)>,
    /// Seconds that a thread without work stays awake: of the last that it takes.
    pub awake: f64,
}

type Servers<'a> = &'a dyn Fn(ResourceId) -> u64;

/// Adds the visits of `id` in the order in which they come, each with the service of `batch` like it, and a share of all that.
pub(super) fn add_visits(
    programs: &[Program],
    servers: Servers<'_>,
    id: ProgramId,
    (batch, share): (u64, f64),
    into: &mut Vec<Visit>,
) {
    let program = &programs[id.0 as usize];
    let all = &mut |steps: &[Step], share: f64| {
        steps.iter().for_each(|step| add_step(programs, servers, step, (batch, share), into));
    };
    match &program.order {
        Order::InTurn => all(&program.steps, share),
        Order::OneOf(_) => {
            let shares = program.shares().into_iter().flatten();
            shares.for_each(|(of, step)| all(std::slice::from_ref(step), share * of));
        }
        // Its end waits for the longest; the others are behind it.
        Order::AtOnce => {
            let span = |step: &&Step| unloaded(programs, servers, std::slice::from_ref(step));
            let longest = program.steps.iter().rev().max_by_key(span);
            longest.into_iter().for_each(|step| all(std::slice::from_ref(step), share));
        }
    }
}

fn add_step(
    programs: &[Program],
    servers: Servers<'_>,
    step: &Step,
    (batch, share): (u64, f64),
    into: &mut Vec<Visit>,
) {
    let span = |mean: base::Picos| mean.as_secs_f64() * batch as f64;
    match *step {
        Step::Use { at, service, .. } => add_visit(into, at, share, span(service.mean())),
        Step::Pick { first, count, service, .. } => {
            for i in 0..count {
                let at = ResourceId(first.0 + i);
                add_visit(into, at, share / f64::from(count), span(service.mean()));
            }
        }
        Step::Either { first, second, service, .. } => {
            let (a, b) = (servers(first) as f64, servers(second) as f64);
            add_visit(into, first, share * (a / (a + b)), span(service.mean()));
            add_visit(into, second, share * (b / (a + b)), span(service.mean()));
        }
        Step::Each(_, 0)
        | Step::Wait(_)
        | Step::Take(..)
        | Step::Wake { .. }
        | Step::Give(..)
        | Step::Fork(_) => {}
        Step::Each(program, count) => {
            add_visits(programs, servers, program, (batch * u64::from(count), share), into);
        }
    }
}

fn add_visit(into: &mut Vec<Visit>, at: ResourceId, visits: f64, span: f64) {
    match into.iter_mut().find(|visit| visit.at == at) {
        Some(visit) => {
            visit.visits += visits;
            visit.service += visits * span;
        }
        None => into.push(Visit { at, visits, service: visits * span }),
    }
}

/// Adds what `id` holds, begun `from` seconds after the operation, `times` over. Between taking and giving, time passes as it does unloaded.
///
/// A token may be given by another program than the one that took it (a posted write's): moments count from the operation's begin, so that the
/// sum of given times less the sum of taken times is what was held.
pub(super) fn add_holds(
    programs: &[Program],
    servers: Servers<'_>,
    id: ProgramId,
    (from, times): (f64, f64),
    into: &mut Vec<Hold>,
) {
    let program = &programs[id.0 as usize];
    if let Some(shares) = program.shares() {
        for (share, step) in shares {
            let Step::Each(program, _) = *step else { continue };
            add_holds(programs, servers, program, (from, times * share), into);
        }
        return;
    }
    let mut at = from;
    for step in &program.steps {
        match *step {
            Step::Take(pool, count) => add_hold(into, pool, -at * times * count as f64),
            Step::Wake { pool, awake, program, deep } => {
                add_hold(into, pool, -at * times);
                let hold = into.iter_mut().find(|hold| hold.pool == pool).expect("it was added");
                hold.threads += times;
                hold.awake = awake.as_secs_f64();
                hold.wake += times * unloaded_program(programs, servers, program).plus(deep.0).as_secs_f64();
                let mut work = Vec::new();
                add_demand(programs, servers, program, 1, &mut work);
                hold.wake_work.extend(work.iter().map(|one| (one.at, times * one.service.as_secs_f64())));
                continue;
            }
            Step::Give(pool, count) => add_hold(into, pool, at * times * count as f64),
            Step::Fork(program) => add_holds(programs, servers, program, (at, times), into),
            Step::Each(program, count) => {
                add_holds(programs, servers, program, (at, times * f64::from(count)), into);
            }
            Step::Use { .. } | Step::Pick { .. } | Step::Either { .. } | Step::Wait(_) => {}
        }
        if program.order == Order::InTurn {
            at += unloaded(programs, servers, std::slice::from_ref(step)).as_secs_f64();
        }
    }
}

fn add_hold(into: &mut Vec<Hold>, pool: Tokens, token_seconds: f64) {
    match into.iter_mut().find(|hold| hold.pool == pool) {
        Some(hold) => hold.token_seconds += token_seconds,
        None => {
            let (threads, wake, awake, wake_work) = (0.0, 0.0, 0.0, Vec::new());
            into.push(Hold { pool, token_seconds, threads, wake, wake_work, awake });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::{Kernel, Service, Step};
    use base::Picos;

    #[test]
    fn forks_do_not_delay_and_packets_arrive_together() {
        let mut kernel = Kernel::new(1);
        let (link, memory) = (kernel.resource("link", 1), kernel.resources("bank", 4));
        let pool = kernel.tokens("buffer", 8);
        let (ten, span) = (Service::Fixed(Picos::from_nanos(10)), Picos::from_nanos(5));
        let write = kernel.program(
            "write",
            [
                Step::Pick { first: memory, count: 4, service: ten, units: 1, after: span },
                Step::Give(pool, 1),
            ],
        );
        let packet = kernel.program(
            "packet",
            [
                Step::Take(pool, 1),
                Step::Use { at: link, service: ten, units: 1, after: span },
                Step::Fork(write),
            ],
        );
        let all = kernel.program("all", [Step::Wait(span), Step::Each(packet, 3)]);
        let visits = kernel.visits(all);
        assert_eq!(visits.len(), 1, "the memory delays nobody: {visits:?}");
        assert!(visits[0].at == link && visits[0].visits == 1.0 && (visits[0].service - 30e-9).abs() < 1e-15);
        // Each packet holds its token for the link's 15 ns and the bank's 15 ns.
        let holds = kernel.holds(all);
        assert!(holds.len() == 1 && (holds[0].token_seconds - 90e-9).abs() < 1e-15, "{holds:?}");
        assert_eq!(kernel.pool(pool), ("buffer", 8));
        assert_eq!(kernel.unloaded(all), Picos::from_nanos(5 + 15 + 20));
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_first() {
        let mut kernel = Kernel::new(1);
        let (core, pool) = (kernel.resource("core", 1), kernel.tokens("thread", 1));
        let ten = Picos::from_nanos(10);
        let wake_up = kernel.program("wake-up", [Step::Wait(ten)]);
        let wake = Step::Wake { pool, awake: ten, program: wake_up, deep: (ten, Picos::from_nanos(100)) };
        let work = Step::Use { at: core, service: Service::Fixed(ten), units: 1, after: Picos::ZERO };
        let turn = kernel.program("turn", [wake, work, Step::Give(pool, 1)]);
        // Of one that sleeps deep: 10 ns of waking up and 10 ns more. What is held for is without, and so is what a full machine does.
        assert_eq!(kernel.unloaded(turn), Picos::from_nanos(30));
        let holds = kernel.holds(turn);
        assert!((holds[0].token_seconds - 10e-9).abs() < 1e-15 && (holds[0].wake - 20e-9).abs() < 1e-15);
        assert!(kernel.are_threads(pool) && holds[0].threads == 1.0);
        let ended = |kernel: &mut Kernel, at: u64| {
            kernel.run_until(Picos::from_nanos(at));
            kernel.begin(turn, 0);
            kernel.begin(turn, 0);
            let mut now = at;
            while kernel.under_way() > 0 {
                now += 1;
                kernel.run_until(Picos::from_nanos(now));
            }
            now - at
        };
        // Asleep for 1 us: 20 to wake up, and the second needs no wake-up. Then awake for 5 ns, then asleep for 50 of 100.
        assert_eq!(ended(&mut kernel, 1000), 20 + 20);
        assert_eq!(ended(&mut kernel, 1000 + 40 + 5), 20);
        assert_eq!(ended(&mut kernel, 1065 + 10 + 50), 10 + 5 + 20);
        // Who takes it without a wake-up leaves no trace of its sleep.
        let take = kernel.program("take", [Step::Take(pool, 1), work, Step::Give(pool, 1)]);
        kernel.run_until(Picos::from_nanos(2000));
        kernel.begin(take, 0);
        assert_eq!(ended(&mut kernel, 2005), 5 + 20);
    }
}
