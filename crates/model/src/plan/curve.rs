//! Latency over load, by arithmetic: for pictures of a plan. The simulation has the last word at single rates; a curve of simulated points would take minutes.

use super::answer::Plan;
use super::candidate::operate;
use super::graph::Graph;
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
