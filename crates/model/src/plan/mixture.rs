//! Which mixture of some alternatives is best: the linear programmes over the graph, and the published guideline that fills them in turn.

use super::Objective;
use super::graph::{Graph, Kind};
use super::programme::Programme;

/// Rates of each way of the graph, per second; 0 where it has no part.
pub type Rates = Vec<f64>;

/// The most that some alternatives can serve together.
#[derive(Clone, Debug, PartialEq)]
pub struct Most {
    /// Operations per second.
    pub rate: f64,
    /// Of each way.
    pub rates: Rates,
    /// Of each row: by what share the rate grows per share of capacity, at the margin.
    pub elasticity: Vec<f64>,
}

/// Limits are given as shares of rows' capacities, variables in `unit` operations per second: everything near 1.
fn programme(graph: &Graph, ways: &[usize], unit: f64, shares: &[f64]) -> Programme {
    let rows: Vec<usize> = (0..graph.rows.len()).collect();
    let takes = |row: &usize| -> Vec<f64> {
        let capacity = graph.rows[*row].capacity.max(f64::MIN_POSITIVE);
        ways.iter().map(|way| graph.ways[*way].demand[*row] * unit / capacity).collect()
    };
    Programme {
        gain: vec![1.0; ways.len()],
        rows: rows.iter().map(takes).collect(),
        limits: shares.to_vec(),
        total: None,
    }
}

/// What can be served where each way takes this share, all of them together 1: the fullest row is full.
pub fn capacity(graph: &Graph, shares: &[f64]) -> f64 {
    let takes = |row: usize| -> f64 {
        graph.ways.iter().zip(shares).map(|(way, share)| way.demand[row] * share).sum()
    };
    let rows = graph.rows.iter().enumerate().map(|(at, row)| (row.capacity, takes(at)));
    let bounds = rows.filter(|(_, takes)| *takes > 0.0).map(|(capacity, takes)| capacity / takes);
    bounds.fold(f64::INFINITY, f64::min)
}

/// What a way alone can serve.
pub fn alone(graph: &Graph, way: usize) -> f64 {
    let mut shares = vec![0.0; graph.ways.len()];
    shares[way] = 1.0;
    capacity(graph, &shares)
}

/// What an operation of each way costs, as the objective sees it; the guideline ranks by this, and mixtures add alternatives in this order.
/// Equal costs are told apart by latency.
pub(super) fn costs(graph: &Graph, objective: Objective) -> Vec<f64> {
    let of = |way: &super::graph::Way| match objective {
        Objective::Throughput | Objective::P99 => way.unloaded,
        Objective::HostCpu => way.host_cores,
        Objective::Power => way.joules,
    };
    let costs: Vec<f64> = graph.ways.iter().map(of).collect();
    let dearest = costs.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let longest = graph.ways.iter().map(|way| way.unloaded).fold(f64::MIN_POSITIVE, f64::max);
    graph.ways.iter().zip(costs).map(|(way, cost)| cost + 1e-4 * dearest * way.unloaded / longest).collect()
}

/// A way is as full as this at most where a rate is served at the least cost: what is fuller has its requests wait.
const FILL: f64 = 0.9;

/// Shares of the second of two ways that are worth a look: with which they serve most together, and with which they serve `rate` with the fewest host
/// cores. None where one of them does it alone.
///
/// # Errors
/// The solver's.
pub fn shares(graph: &Graph, [one, other]: [usize; 2], rate: f64) -> Result<Vec<f64>, String> {
    let ways = [one, other];
    let unit = alone(graph, one).max(alone(graph, other));
    if !(unit > 0.0 && unit.is_finite() && rate > 0.0) {
        return Ok(Vec::new());
    }
    let most = programme(graph, &ways, unit, &whole(graph)).point()?;
    let most = most.map(|(_, at)| spread(graph, &ways, &at, unit));
    let spared = cheapest(graph, &ways, rate, &costs(graph, Objective::HostCpu), &headroom(graph, FILL))?;
    let share = |rates: Rates| rates[other] / (rates[one] + rates[other]).max(f64::MIN_POSITIVE);
    let all = [most, spared].into_iter().flatten().map(share);
    Ok(all.filter(|share| *share > 0.0 && *share < 1.0).collect())
}

/// The most that these ways serve, where each row may be used up to this share.
///
/// # Errors
/// The solver's.
pub fn most(graph: &Graph, ways: &[usize], shares: &[f64]) -> Result<Most, String> {
    let unit = ways.iter().map(|way| alone(graph, *way)).fold(0.0, f64::max);
    let nothing =
        Most { rate: 0.0, rates: vec![0.0; graph.ways.len()], elasticity: vec![0.0; graph.rows.len()] };
    if !(unit > 0.0 && unit.is_finite()) {
        return Ok(nothing);
    }
    let Some(found) = programme(graph, ways, unit, shares).solve()? else { return Ok(nothing) };
    let elasticity =
        found.prices.iter().zip(shares).map(|(price, share)| price.max(0.0) * share / found.value).collect();
    Ok(Most { rate: found.value * unit, rates: spread(graph, ways, &found.at, unit), elasticity })
}

/// How to serve `rate` at the least cost (of an operation of each way), where each row may be used up to this share. `None`: not at all.
///
/// # Errors
/// The solver's.
pub fn cheapest(
    graph: &Graph,
    ways: &[usize],
    rate: f64,
    cost: &[f64],
    shares: &[f64],
) -> Result<Option<Rates>, String> {
    let dearest = ways.iter().map(|way| cost[*way]).fold(f64::MIN_POSITIVE, f64::max);
    let mut programme = programme(graph, ways, rate, shares);
    programme.gain = ways.iter().map(|way| -cost[*way] / dearest).collect();
    programme.total = Some(1.0);
    Ok(programme.point()?.map(|(_, at)| spread(graph, ways, &at, rate)))
}

/// Values of the ways that took part, as rates of all; what is next to nothing is nothing.
fn spread(graph: &Graph, ways: &[usize], at: &[f64], unit: f64) -> Rates {
    let whole: f64 = at.iter().sum();
    let mut rates = vec![0.0; graph.ways.len()];
    for (way, value) in ways.iter().zip(at) {
        rates[*way] = if *value > 1e-4 * whole { value * unit } else { 0.0 };
    }
    rates
}

/// The published guideline (Wei et al., OSDI 2023, §4.2): rank the alternatives, then take them in turn, each until something it needs is used up.
pub fn greedy(graph: &Graph, order: &[usize]) -> Rates {
    let mut rates = vec![0.0; graph.ways.len()];
    for way in order {
        let used = graph.utilisation(&rates);
        let demand = &graph.ways[*way].demand;
        let left = graph.rows.iter().zip(demand).zip(used).filter(|((_, demand), _)| **demand > 0.0);
        let room = left.map(|((row, demand), used)| row.capacity * (1.0 - used).max(0.0) / demand);
        let room = room.fold(f64::INFINITY, f64::min);
        rates[*way] = if room.is_finite() { room } else { 0.0 };
    }
    rates
}

/// Shares of all rows: whole.
pub fn whole(graph: &Graph) -> Vec<f64> {
    vec![1.0; graph.rows.len()]
}

/// Shares where what queues is used up to `share` only, so that waits stay finite, and budgets wholly. Requests under way are no limit to an open loop.
pub fn headroom(graph: &Graph, share: f64) -> Vec<f64> {
    let of = |kind| match kind {
        Kind::Resource | Kind::Tokens => share,
        Kind::Budget => 1.0,
        Kind::Window => 1e3,
    };
    graph.rows.iter().map(|row| of(row.kind)).collect()
}
