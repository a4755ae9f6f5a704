//! How sure an answer is: each number that it rests on is moved to both ends of its range, and the arithmetic is done again (the simulation is not). Beside
//! that stands how wrong the model was where it could be held against results that it was not built on.

use super::answer::{Confidence, Doubt};
use super::candidate::operate;
use super::graph::Graph;
use super::mixture::{most, whole};
use super::model_error::{ModelError, widened};
use super::{Objective, PlanError, Task};
use crate::platform::audit::Audit;
use crate::platform::{Class, LoadError, Platform};
use std::cell::RefCell;

/// Numbers that are named.
const NAMED: usize = 5;

/// What the audit found of several mixtures at once.
pub(super) struct Doubts {
    audit: Audit,
    /// Of each movement of a number, the measure of every mixture: for the numbers in the order of their names the lower end, then the upper.
    moved: Vec<Vec<f64>>,
    unmoved: Vec<f64>,
    objective: Objective,
    model: Option<&'static ModelError>,
}

/// Measures mixtures (each a set of ways) with every number at the ends of its range.
pub(super) fn doubts(task: &Task<'_>, mixtures: &[Vec<usize>], rate: f64) -> Result<Doubts, PlanError> {
    let log: RefCell<Vec<Vec<f64>>> = RefCell::default();
    let audit = Audit::of(task.platform, |platform| {
        let measured = measures(task, platform, mixtures, rate)?;
        let first = measured[0];
        log.borrow_mut().push(measured);
        Ok(first)
    })?;
    let mut moved = log.into_inner();
    let unmoved = moved.remove(0);
    let model = ModelError::of_platform(task.platform);
    Ok(Doubts { audit, moved, unmoved, objective: task.question.objective, model })
}

fn measures(
    task: &Task<'_>,
    platform: &Platform,
    mixtures: &[Vec<usize>],
    rate: f64,
) -> Result<Vec<f64>, LoadError> {
    let setting = task.setting(platform)?;
    let graph = Graph::of(&setting, task.workload, &task.question.limits);
    let failed = |why| LoadError::File { file: platform.name.clone(), line: 0, why };
    let of = |ways: &Vec<usize>| measure(&graph, ways, rate, task.question.objective).map_err(failed);
    mixtures.iter().map(of).collect()
}

/// A rate, or a cost at the rate. Where the rate cannot be served, the cost is that of as many machines as it takes.
fn measure(graph: &Graph, ways: &[usize], rate: f64, objective: Objective) -> Result<f64, String> {
    let most = most(graph, ways, &whole(graph))?;
    if objective == Objective::Throughput {
        return Ok(most.rate);
    }
    let found = operate(graph, ways, rate, objective)?;
    let rates = found.as_ref().map_or(&most.rates, |found| &found.rates);
    let machines = if found.is_some() { 1.0 } else { (rate / most.rate).max(1.0) };
    let latencies = found.as_ref().and_then(|found| found.estimate);
    Ok(match objective {
        Objective::HostCpu => machines * graph.host_cores(rates),
        Objective::Power => machines * graph.watts(rates).unwrap_or(0.0),
        Objective::P99 | Objective::Throughput => {
            latencies.map_or(graph.window as f64 / most.rate, |latencies| latencies.p99)
        }
    })
}

impl Doubts {
    /// By how much the first mixture is better than the one at `other`, and the lowest that this ratio believably is.
    pub(super) fn gain(&self, other: usize) -> (f64, f64) {
        let ratio = |of: &Vec<f64>| self.ratio(of, other);
        let whole = ratio(&self.unmoved);
        let worst_of =
            |ends: &[Vec<f64>]| ends.iter().map(|end| ratio(end) / whole - 1.0).fold(0.0, f64::min);
        let squares: f64 = self.moved.chunks(2).map(worst_of).map(|fall| fall * fall).sum();
        (whole, whole * (1.0 - squares.sqrt()))
    }

    fn ratio(&self, of: &[f64], other: usize) -> f64 {
        match self.objective {
            Objective::Throughput => of[0] / of[other].max(f64::MIN_POSITIVE),
            _ => of[other].max(1e-12) / of[0].max(1e-12),
        }
    }

    /// What is said of the first mixture.
    pub(super) fn confidence(&self, names: &[String]) -> Confidence {
        let reach = |end: &dyn Fn(f64, f64) -> f64| -> f64 {
            let squares = |swing: &crate::platform::audit::Swing| end(swing.low, swing.high).powi(2);
            self.audit.swings.iter().map(squares).sum::<f64>().sqrt()
        };
        let down = reach(&|low, high| low.min(high).min(0.0));
        let up = reach(&|low, high| low.max(high).max(0.0));
        let by_numbers = ((1.0 - down).max(0.0), 1.0 + up);
        let classes = Class::ALL.map(|class| (class.name().to_string(), self.audit.share(class)));
        let doubt = |swing: &crate::platform::audit::Swing| Doubt {
            number: swing.number.clone(),
            class: swing.class.name().into(),
            low: swing.low,
            high: swing.high,
        };
        Confidence {
            of: names[0].clone(),
            answer: self.audit.answer,
            range: widened(by_numbers, self.model),
            by_numbers,
            model: self.model.copied(),
            doubtful: self.audit.doubtful(),
            classes: classes.into(),
            numbers: self.audit.swings.iter().filter(|s| s.size() > 1e-3).take(NAMED).map(doubt).collect(),
            would_change_it: self.changes(names),
        }
    }

    /// Numbers that would put another mixture first: by a hundredth at least, or mixtures that are nearly the same would change places all the time.
    fn changes(&self, names: &[String]) -> Vec<String> {
        let mut numbers: Vec<&str> = self.audit.swings.iter().map(|swing| &*swing.number).collect();
        numbers.sort_unstable();
        let mut said = Vec::new();
        for (number, ends) in numbers.iter().zip(self.moved.chunks(2)) {
            let ahead = |other: &usize| {
                let bar = 0.99 * self.ratio(&self.unmoved, *other).min(1.0);
                ends.iter().any(|end| self.ratio(end, *other) < bar)
            };
            if let Some(other) = (1..names.len()).find(ahead) {
                said.push(format!("{number}: {} would be ahead", names[other]));
            }
        }
        said
    }
}
