//! What is said of mixtures beside their figures: what bounds them, what they use, the ways through the machine, when which alternative is needed.

use super::answer::{Bottleneck, Greedy, Link, Path, Single, Switch};
use super::candidate::Candidate;
use super::graph::{Graph, Stop};
use super::mixture::{alone, costs, greedy, headroom, most, whole};
use super::{Objective, PlanError};

/// Resources used less than this are not shown.
const UNUSED: f64 = 0.005;

/// An alternative on its own.
pub(super) fn single(graph: &Graph, way: usize) -> Single {
    let most = alone(graph, way);
    let of = &graph.ways[way];
    let mut rates = vec![0.0; graph.ways.len()];
    rates[way] = if most.is_finite() { most } else { 0.0 };
    let used = graph.utilisation(&rates);
    let fullest = (0..used.len()).max_by(|a, b| used[*a].total_cmp(&used[*b]).then(b.cmp(a)));
    Single {
        name: of.name.clone(),
        what: of.what.clone(),
        place: of.place.to_string(),
        unloaded: of.unloaded,
        most: rates[way],
        bound_by: fullest.map_or(String::new(), |row| graph.rows[row].name.clone()),
        host_core_seconds: of.host_cores,
    }
}

/// Limits that are reached, and what a tenth more of each would buy.
pub(super) fn bottlenecks(graph: &Graph, candidate: &Candidate) -> Result<Vec<Bottleneck>, PlanError> {
    let used = graph.utilisation(&candidate.most.rates);
    let mut found = Vec::new();
    for (at, row) in graph.rows.iter().enumerate().filter(|(at, _)| used[*at] > 0.999) {
        let mut shares = whole(graph);
        shares[at] = 1.1;
        let more = most(graph, &candidate.ways, &shares).map_err(PlanError::Solver)?;
        found.push(Bottleneck {
            name: row.name.clone(),
            elasticity: candidate.most.elasticity[at],
            gain_of_tenth: (more.rate / candidate.most.rate - 1.0).max(0.0),
        });
    }
    found.sort_by(|a, b| {
        b.gain_of_tenth.total_cmp(&a.gain_of_tenth).then(b.elasticity.total_cmp(&a.elasticity))
    });
    Ok(found)
}

/// What the mixture uses, by arithmetic and as simulated.
pub(super) fn links(
    graph: &Graph,
    (candidate, rates): (&Candidate, &[f64]),
    simulated: &[Option<f64>],
) -> Vec<Link> {
    let used = graph.utilisation(rates);
    let shown = (0..graph.rows.len()).filter(|row| used[*row] >= UNUSED);
    let link = |row: usize| {
        let by = |way: &usize| {
            let taken = graph.ways[*way].demand[row] * rates[*way];
            taken / graph.rows[row].capacity / used[row]
        };
        Link {
            name: graph.rows[row].name.clone(),
            kind: graph.rows[row].kind,
            utilisation: used[row],
            simulated: simulated[row],
            by: candidate.ways.iter().map(by).collect(),
        }
    };
    shown.map(link).collect()
}

/// The way of one alternative through the machine.
pub(super) fn path(graph: &Graph, way: usize) -> Path {
    let of = &graph.ways[way];
    let mut stops: Vec<&Stop> = Vec::new();
    for stop in of.parts.iter().flat_map(|part| &part.stops) {
        match stops.iter_mut().find(|known| known.row == stop.row) {
            // One class waits there, though another does not.
            Some(known) if known.visits == 0.0 => *known = stop,
            Some(_) => {}
            None => stops.push(stop),
        }
    }
    let names = |waited: bool| {
        let those = stops.iter().filter(|stop| (stop.visits > 0.0) == waited);
        those.map(|stop| graph.rows[stop.row].name.clone()).collect()
    };
    Path { alternative: of.name.clone(), what: of.what.clone(), steps: names(true), behind: names(false) }
}

/// The mixture's alternatives in the order of what they cost; each next one is needed when those before are full.
pub(super) fn switches(
    graph: &Graph,
    candidate: &Candidate,
    objective: Objective,
) -> Result<Vec<Switch>, PlanError> {
    let mut ways = order(graph, objective);
    ways.retain(|way| candidate.ways.contains(way));
    let names =
        |ways: &[usize]| -> Vec<String> { ways.iter().map(|way| graph.ways[*way].name.clone()).collect() };
    let mut switches = Vec::new();
    for count in 1..ways.len() {
        let before = &ways[..count];
        let full = most(graph, before, &headroom(graph, 1.0)).map_err(PlanError::Solver)?;
        let under_way = graph.ways.iter().zip(&full.rates).map(|(way, rate)| way.unloaded * rate).sum();
        let add = graph.ways[ways[count]].name.clone();
        switches.push(Switch { before: names(before), add, rate: full.rate, under_way });
    }
    Ok(switches)
}

/// What the published guideline gives, beside the linear programme over all alternatives.
pub(super) fn guideline(graph: &Graph, objective: Objective) -> Result<Greedy, PlanError> {
    let order = order(graph, objective);
    let rates = greedy(graph, &order);
    let all = graph.allowed();
    Ok(Greedy {
        order: order.iter().map(|way| graph.ways[*way].name.clone()).collect(),
        throughput: rates.iter().sum(),
        rates: order.iter().map(|way| rates[*way]).collect(),
        programme: most(graph, &all, &whole(graph)).map_err(PlanError::Solver)?.rate,
    })
}

/// The order in which the guideline takes alternatives: what an operation costs, least first.
fn order(graph: &Graph, objective: Objective) -> Vec<usize> {
    let cost = costs(graph, objective);
    let mut order = graph.allowed();
    order.sort_by(|a, b| cost[*a].total_cmp(&cost[*b]).then(a.cmp(b)));
    order
}
