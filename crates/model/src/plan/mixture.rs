//! Which mixture of some alternatives is best: the linear programmes over the graph, and the published guideline that fills them in turn.

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

/// What a way alone can serve: its fullest row is full.
pub fn alone(graph: &Graph, way: usize) -> f64 {
    let demand = &graph.ways[way].demand;
    let bound = |(row, demand): (&super::graph::Row, &f64)| row.capacity / demand;
    graph
        .rows
        .iter()
        .zip(demand)
        .filter(|(_, demand)| **demand > 0.0)
        .map(bound)
        .fold(f64::INFINITY, f64::min)
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
