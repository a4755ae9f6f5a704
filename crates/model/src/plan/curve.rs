//! Latency over load, by arithmetic: for pictures of a plan. The simulation has the last word at single rates; a curve of simulated points would take minutes.

use super::answer::Plan;
use super::candidate::{WORTH, cost_at, operate};
use super::graph::{Graph, Kind};
use super::mixture::{most, whole};
use super::{Builder, PlanError, Question, Task};
use crate::platform::Platform;
use crate::workload::Workload;

/// Loads of a curve.
const POINTS: usize = 20;
/// The highest of them, as a share of the most.
const HIGHEST: f64 = 0.96;

/// A mixture's latency as its load grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The mixture.
    pub name: String,
    /// Requests per second, and seconds of the 99th percentile.
    pub points: Vec<(f64, f64)>,
    /// From which rates on a further alternative is needed, which, and the 99th percentile there.
    pub switches: Vec<(f64, String, f64)>,
}

/// Curves of the best of a ranking, and of the host alone where it is ranked.
///
/// # Errors
/// See [`PlanError`].
pub fn curves(
    builder: Builder,
    platform: &Platform,
    workload: &Workload,
    question: &Question,
    plan: &Plan,
) -> Result<Vec<Curve>, PlanError> {
    const BEST: usize = 3;
    let setting = Task { builder, platform, workload, question }.setting(platform)?;
    let graph = Graph::of(&setting, workload, &question.limits);
    let mut curves = Vec::new();
    let shown = plan.ranking.iter().enumerate().filter(|(at, ranked)| *at < BEST || ranked.host_only);
    for (_, ranked) in shown {
        let is_part = |way: &usize| ranked.parts.iter().any(|part| part.name == graph.ways[*way].name);
        let ways: Vec<usize> = (0..graph.ways.len()).filter(is_part).collect();
        let p99 = |rate: f64| {
            let operating = operate(&graph, &ways, rate, question.objective).map_err(PlanError::Solver)?;
            Ok::<_, PlanError>(operating.and_then(|of| of.estimate).map(|of| of.p99))
        };
        let mut points = Vec::new();
        for step in 1..=POINTS {
            let rate = ranked.most * HIGHEST * step as f64 / POINTS as f64;
            points.extend(p99(rate)?.map(|p99| (rate, p99)));
        }
        let mut switches = Vec::new();
        for switch in &ranked.switches {
            switches.extend(p99(switch.rate)?.map(|p99| (switch.rate, switch.add.clone(), p99)));
        }
        curves.push(Curve { name: ranked.name.clone(), points, switches });
    }
    Ok(curves)
}

/// The best of several mixtures at a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Which.
    pub mixture: usize,
    /// Seconds of the 99th percentile.
    pub p99: f64,
    /// Host cores that are busy.
    pub host_cores: f64,
    /// With what idles; `None` where the platform knows no watts.
    pub watts: Option<f64>,
    /// What is busiest, and the share of its capacity that is used.
    pub busiest: (String, f64),
}

/// What a machine gives over the load.
#[derive(Clone, Debug, PartialEq)]
pub struct OverLoad {
    /// The most requests per second that one of the mixtures serves.
    pub most: f64,
    /// Of each load; `None` where no mixture serves it.
    pub at: Vec<Option<Best>>,
}

/// The best of these mixtures, by the question's objective, at each load (requests per second), by arithmetic. Mixtures are names of alternatives; one that
/// has an alternative which is not there, or not allowed, is left out. A mixture has to be better than those before it by a hundredth.
///
/// # Errors
/// See [`PlanError`].
pub fn over_load(
    builder: Builder,
    platform: &Platform,
    workload: &Workload,
    question: &Question,
    mixtures: &[Vec<String>],
    loads: &[f64],
) -> Result<OverLoad, PlanError> {
    let setting = Task { builder, platform, workload, question }.setting(platform)?;
    let graph = Graph::of(&setting, workload, &question.limits);
    let way = |name: &String| graph.ways.iter().position(|way| way.allowed && way.name == *name);
    let known = mixtures.iter().enumerate().filter_map(|(at, names)| {
        let ways: Option<Vec<usize>> = names.iter().map(way).collect();
        ways.map(|ways| (at, ways))
    });
    let known: Vec<(usize, Vec<usize>)> = known.collect();
    let mut highest = 0.0_f64;
    let mut at: Vec<Option<(Best, f64)>> = vec![None; loads.len()];
    for (mixture, ways) in &known {
        let limit = most(&graph, ways, &whole(&graph)).map_err(PlanError::Solver)?.rate;
        highest = highest.max(limit);
        for (load, best) in loads.iter().zip(&mut at).filter(|(load, _)| **load < limit) {
            let found = operate(&graph, ways, *load, question.objective).map_err(PlanError::Solver)?;
            let Some((found, seen)) = found.and_then(|of| of.estimate.map(|seen| (of, seen))) else {
                continue;
            };
            let new = Best {
                mixture: *mixture,
                p99: seen.p99,
                host_cores: graph.host_cores(&found.rates),
                watts: graph.watts(&found.rates),
                busiest: busiest(&graph, &found.rates),
            };
            let cost = cost_at(&graph, &found, question.objective);
            if best.as_ref().is_none_or(|(_, before)| cost < before * (1.0 - WORTH)) {
                *best = Some((new, cost));
            }
        }
    }
    Ok(OverLoad { most: highest, at: at.into_iter().map(|best| best.map(|(best, _)| best)).collect() })
}

/// What works most; clients that wait for answers are no part of the machine.
fn busiest(graph: &Graph, rates: &[f64]) -> (String, f64) {
    let used = graph.rows.iter().zip(graph.utilisation(rates)).filter(|(row, _)| row.kind != Kind::Window);
    let most = used.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map_or_else(Default::default, |(row, used)| (row.name.clone(), used))
}
