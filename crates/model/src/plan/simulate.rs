//! The last word: mixtures run in the kernel.
//!
//! Saturated, clients are closed loops with the workload's window, and each request draws its alternative by the mixture's shares. (Clients that
//! always use one alternative would let the hungriest crowd out the others where they meet.) Where a budget binds, which hardware does not know,
//! requests come at the budget's rate instead. At a rate, requests come at random.
//!
//! Bounds: about [`EVENTS`] events a run, so that a plan takes seconds whatever an operation is.

use super::answer::Figures;
use super::candidate::{Candidate, Operating, excess_of_classes, operate, within};
use super::estimate::Latencies;
use super::graph::{Class, Graph, Kind};
use super::mixture::Most;
use super::{Builder, PlanError, Question, Task};
use crate::alternative::{Offered, Ran};
use crate::load::Seen;
use crate::platform::Platform;
use crate::workload::{Workload, calls};
use base::Picos;

/// Events of a run, about.
const EVENTS: f64 = 1_500_000.0;
/// The fewest and the most operations of a run: enough for a 99th percentile, and no more than that needs.
const OPERATIONS: (f64, f64) = (1_000.0, 30_000.0);
/// Of the rate that a budget allows: at all of it, queues would not end.
const BELOW_BUDGET: f64 = 0.98;

/// A simulation that a plan needs. All of them are independent, each gives the same wherever it runs: whoever plans may run them on threads.
#[derive(Debug)]
pub struct Simulation<'a> {
    builder: Builder,
    platform: Platform,
    workload: &'a Workload,
    question: &'a Question,
    graph: &'a Graph,
    candidate: &'a Candidate,
    load: Load,
}

/// What a mixture is run with.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Clients that wait for answers.
    Saturating,
    /// Requests at random; sought by a limit of latency, or at a rate.
    AtRate { by_limit: bool },
}

/// What a simulation gave.
#[derive(Debug)]
pub struct Simulated(pub(super) Result<Gave, PlanError>);

#[derive(Debug)]
pub(super) enum Gave {
    /// Figures, and the utilisation of each row of resources.
    Saturated(Figures, Vec<Option<f64>>),
    /// How it serves the rate, and figures; of each class by name, where one has limits or calls others.
    AtRate(Operating, Figures, Vec<(String, Latencies)>),
}

impl Simulation<'_> {
    /// Runs it.
    pub fn run(self) -> Simulated {
        let Simulation { builder, workload, question, graph, candidate, .. } = self;
        let task = Task { builder, platform: &self.platform, workload, question };
        Simulated(match (self.load, &candidate.operating) {
            (Load::AtRate { by_limit }, Some(first)) => settle(&task, graph, candidate, first, by_limit),
            _ => {
                saturated(&task, graph, &candidate.most).map(|(figures, used)| Gave::Saturated(figures, used))
            }
        })
    }
}

/// The simulations of a mixture.
pub(super) fn simulations<'a>(
    task: &Task<'a>,
    graph: &'a Graph,
    candidate: &'a Candidate,
    by_limit: bool,
) -> Vec<Simulation<'a>> {
    let Task { builder, workload, question, .. } = *task;
    let one = |load| {
        let platform = task.platform.unread();
        Simulation { builder, platform, workload, question, graph, candidate, load }
    };
    let saturating = (candidate.most.rate > 0.0).then(|| one(Load::Saturating));
    let at_rate = candidate.operating.is_some().then(|| one(Load::AtRate { by_limit }));
    saturating.into_iter().chain(at_rate).collect()
}

/// Runs at the rate. Where the rate was sought by a limit of latency and the simulation does not keep it, a little less is tried.
fn settle(
    task: &Task<'_>,
    graph: &Graph,
    candidate: &Candidate,
    first: &Operating,
    by_limit: bool,
) -> Result<Gave, PlanError> {
    const TRIES: usize = 6;
    const LESS: f64 = 0.94;
    const MUCH_LESS: f64 = 0.5;
    let mut operating = first.clone();
    // Where the estimate keeps it nowhere, it was looked at where waits are shortest; less does not help.
    let tries = if by_limit && candidate.score.is_finite() { TRIES } else { 0 };
    for _ in 0..tries {
        let (figures, classes) = at_rate(task, graph, &operating)?;
        let of = |class: &Class| classes.iter().find(|(name, _)| *name == class.name).map(|(_, seen)| *seen);
        let each: Vec<_> = graph.classes.iter().map(of).collect();
        let keeps = within(&task.question.limits, (figures.mean, figures.p50, figures.p99));
        if keeps && excess_of_classes(graph, &each) <= 1.0 {
            return Ok(Gave::AtRate(operating, figures, classes));
        }
        // Calls that begin at once come in bursts, which the estimate does not see: then much less is needed.
        let missed = excess_of_classes(graph, &each);
        let less = if missed > 1.0 { (1.0 / missed).clamp(MUCH_LESS, LESS) } else { LESS };
        let less = operate(graph, &candidate.ways, operating.rate * less, task.question.objective);
        operating = less.map_err(PlanError::Solver)?.unwrap_or(operating);
    }
    let (figures, classes) = at_rate(task, graph, &operating)?;
    Ok(Gave::AtRate(operating, figures, classes))
}

/// As much as possible; beside the figures the utilisation of each row of resources.
fn saturated(task: &Task<'_>, graph: &Graph, most: &Most) -> Result<(Figures, Vec<Option<f64>>), PlanError> {
    let used = graph.utilisation(&most.rates);
    let budget = graph.rows.iter().zip(&used).any(|(row, used)| row.kind == Kind::Budget && *used > 0.99);
    let ran = if budget {
        run(task, graph, &most.rates, Offered::Rate(most.rate * BELOW_BUDGET))?
    } else {
        run(task, graph, &most.rates, Offered::Drawn(graph.window))?
    };
    let utilisation = graph.rows.iter().map(|row| {
        let of = |name: &String| ran.resources.iter().find(|busy| busy.name == *name);
        let sum: f64 = row.members.iter().filter_map(of).map(|busy| busy.utilisation).sum();
        (row.kind == Kind::Resource).then(|| sum / row.members.len() as f64)
    });
    Ok((figures(graph, &ran), utilisation.collect()))
}

/// Requests at random.
fn at_rate(
    task: &Task<'_>,
    graph: &Graph,
    of: &Operating,
) -> Result<(Figures, Vec<(String, Latencies)>), PlanError> {
    let by_class = graph.has_slo() || calls::are_there(task.workload);
    let offered = if by_class { Offered::ByClass(of.rate) } else { Offered::Rate(of.rate) };
    let ran = run(task, graph, &of.rates, offered)?;
    let class = |(name, seen): &(String, Seen)| {
        (name.clone(), Latencies { mean: seen.mean(), p50: seen.quantile(0.5), p99: seen.quantile(0.99) })
    };
    Ok((figures(graph, &ran), ran.classes.iter().map(class).collect()))
}

/// Runs a mixture with these weights.
fn run(task: &Task<'_>, graph: &Graph, weights: &[f64], offered: Offered) -> Result<Ran, PlanError> {
    let setting = task.setting(task.platform)?;
    let whole: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / whole).collect();
    let mean = |of: fn(&super::graph::Way) -> f64| -> f64 {
        graph.ways.iter().zip(&shares).map(|(way, share)| share * of(way)).sum()
    };
    let (latency, uses) = (mean(|way| way.unloaded), mean(|way| way.uses));
    let rate = match offered {
        Offered::Rate(rate) | Offered::ByClass(rate) => rate,
        Offered::Window(window) | Offered::Drawn(window) => {
            let full = graph.utilisation(&shares).into_iter().fold(f64::MIN_POSITIVE, f64::max);
            (1.0 / full).min(window as f64 / latency)
        }
    };
    // A use is an event, and so is about every wait between two.
    let operations = (EVENTS / (1.5 * uses + 2.0)).clamp(OPERATIONS.0, OPERATIONS.1);
    let span = operations / rate;
    let turn = if matches!(offered, Offered::Rate(_) | Offered::ByClass(_)) {
        0.0
    } else {
        graph.window as f64 / rate
    };
    let warm_up = (span / 4.0).max(3.0 * latency).max(2.0 * turn);
    let picos = crate::platform::picos;
    let (warm_up, span): (Picos, Picos) = (picos(warm_up), picos(span.max(10.0 * latency)));
    Ok(setting.run(&shares, offered, task.question.seed, warm_up, span))
}

fn figures(graph: &Graph, ran: &Ran) -> Figures {
    Figures {
        rate: ran.all.rate(),
        mean: ran.all.mean(),
        p50: ran.all.quantile(0.5),
        p99: ran.all.quantile(0.99),
        host_cores: ran.host_cores,
        watts: graph.has_power.then(|| ran.watts.iter().sum()),
        operations: ran.all.count(),
        rate_error: ran.all.rate_error(),
        p99_error: ran.all.quantile_error(0.99),
    }
}
