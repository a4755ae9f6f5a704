//! Classes that call others: a request of one makes requests of another, and its latency includes theirs.
//!
//! ```text
//!   page ── own work ──┬── GET ──┐                      calls that are parallel begin at once, and the slowest is waited for;
//!                      ├── GET ──┼── log ── log ──▶     then come the others, one after the other
//!                      └── GET ──┘
//! ```
//! A call is a request like a client's: it takes the whole way of its class, network included, at the place that serves the workload. Which of its class's
//! ways it takes (a copy in a box or not, one of several servers) is drawn by their shares, each time.
//!
//! So that every composition of a machine can serve such workloads, it is asked for the classes by themselves ([`flat`], at the rates that they have with
//! calls) and [`compose`] puts their programs together.

use super::Workload;
use crate::alternative::{Alternative, Part};
use crate::kernel::{Kernel, ProgramId, Step};
use serde::{Deserialize, Serialize};

/// Calls of one kind that a request makes at most.
pub const TIMES_MAX: u32 = 1000;

/// What a request asks of another class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The class, by its name.
    pub class: String,
    /// How often.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether they begin at once, together with all other calls that do; else one after the other.
    #[serde(default)]
    pub parallel: bool,
}

fn once() -> u32 {
    1
}

/// Classes that a class calls, by their numbers, and how often. Those that are not there are left out.
fn called(workload: &Workload, class: usize) -> impl Iterator<Item = (usize, &Call)> {
    let at = |call: &Call| workload.classes.iter().position(|other| other.name == call.class);
    workload.classes[class].calls.iter().filter_map(move |call| Some((at(call)?, call)))
}

/// Classes whose calls come back to the first of them.
pub(super) fn cycle(workload: &Workload) -> Option<Vec<usize>> {
    fn visit(workload: &Workload, at: usize, way: &mut Vec<usize>, done: &mut [bool]) -> Option<Vec<usize>> {
        if let Some(from) = way.iter().position(|other| *other == at) {
            return Some(way[from..].to_vec());
        }
        if done[at] {
            return None;
        }
        way.push(at);
        let found = called(workload, at).find_map(|(next, _)| visit(workload, next, way, done));
        way.pop();
        done[at] = true;
        found
    }
    let mut done = vec![false; workload.classes.len()];
    (0..workload.classes.len()).find_map(|at| visit(workload, at, &mut Vec::new(), &mut done))
}

/// Classes in an order in which each comes before those that it calls.
fn callers_first(workload: &Workload) -> Vec<usize> {
    fn visit(workload: &Workload, at: usize, order: &mut Vec<usize>) {
        if !order.contains(&at) {
            called(workload, at).for_each(|(next, _)| visit(workload, next, order));
            order.push(at);
        }
    }
    let mut order = Vec::new();
    (0..workload.classes.len()).for_each(|at| visit(workload, at, &mut order));
    order.reverse();
    order
}

/// Requests of each class that a request of a client comes to on average: its own share, and what is called.
pub fn rates(workload: &Workload) -> Vec<f64> {
    let mut rates: Vec<f64> = workload.classes.iter().map(|class| class.share).collect();
    for at in callers_first(workload) {
        for (other, call) in called(workload, at) {
            rates[other] += rates[at] * f64::from(call.times);
        }
    }
    rates
}

/// Whether any class calls another.
pub fn are_there(workload: &Workload) -> bool {
    workload.classes.iter().any(|class| !class.calls.is_empty())
}

/// The same requests as if clients made all of them; the workload itself, if no class calls another.
pub fn flat(workload: &Workload) -> Workload {
    let mut flat = workload.clone();
    if !are_there(workload) {
        return flat;
    }
    let rates = rates(workload);
    let whole: f64 = rates.iter().sum();
    for (class, rate) in flat.classes.iter_mut().zip(rates) {
        class.share = rate / whole;
        class.calls.clear();
    }
    flat
}

/// Has operations of an alternative that was made for the [`flat`] workload make their calls. A class that clients do not ask has one part, with share 0.
pub fn compose(kernel: &mut Kernel, alternative: &mut Alternative, workload: &Workload) {
    if !are_there(workload) {
        return;
    }
    let mut order = callers_first(workload);
    order.reverse();
    let mut programs: Vec<Vec<(f64, ProgramId)>> = vec![Vec::new(); workload.classes.len()];
    let mut whole: Vec<Option<ProgramId>> = vec![None; workload.classes.len()];
    for at in order {
        let name = &workload.classes[at].name;
        let own = alternative.parts.iter().filter(|part| part.class == *name);
        let own: Vec<(f64, ProgramId)> = own.map(|part| (part.share, part.program)).collect();
        let calls: Vec<(ProgramId, &Call)> =
            called(workload, at).filter_map(|(other, call)| Some((whole[other]?, call))).collect();
        let at_once = calls.iter().filter(|(_, call)| call.parallel);
        let at_once: Vec<(ProgramId, u32)> = at_once.map(|(program, call)| (*program, call.times)).collect();
        let mut after: Vec<Step> = Vec::new();
        if !at_once.is_empty() {
            after.push(Step::Each(kernel.at_once(&format!("calls of {name}"), &at_once), 1));
        }
        for (program, call) in calls.iter().filter(|(_, call)| !call.parallel) {
            after.extend((0..call.times).map(|_| Step::Each(*program, 1)));
        }
        let with_calls = |(share, program): &(f64, ProgramId)| {
            let steps: Vec<Step> =
                [Step::Each(*program, 1)].into_iter().chain(after.iter().copied()).collect();
            (*share, if after.is_empty() { *program } else { kernel.program(name, steps) })
        };
        programs[at] = own.iter().map(with_calls).collect();
        whole[at] = match &programs[at][..] {
            [] => None,
            [(_, only)] => Some(*only),
            several => Some(kernel.one_of(name, several)),
        };
    }
    let mut parts = Vec::new();
    for (at, class) in workload.classes.iter().enumerate() {
        let sum: f64 = programs[at].iter().map(|(share, _)| share).sum();
        let part = |share: f64, program: ProgramId| Part { class: class.name.clone(), share, program };
        if class.share > 0.0 {
            parts.extend(
                programs[at].iter().map(|(share, program)| part(class.share * share / sum, *program)),
            );
        } else {
            parts.extend(whole[at].map(|program| part(0.0, program)));
        }
    }
    alternative.parts = parts;
}

#[cfg(test)]
mod tests;
