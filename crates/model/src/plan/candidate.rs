//! Mixtures that are worth a look: of one, two and three alternatives, each with the most that it serves and how it would serve the rate.

use super::estimate::{Latencies, by_class, latencies};
use super::graph::{Class, Graph};
use super::mixture::{Most, Rates, cheapest, costs, headroom, most, whole};
use super::{Limits, Objective, Question};

/// Where no rate keeps the limits of latency, mixtures are looked at with this share of the most: waits are next to nothing.
const LIGHT_LOAD: f64 = 0.02;
/// A mixture has to be better by this share than each part of it, or it is not worth its trouble.
pub(super) const WORTH: f64 = 0.01;
/// The most alternatives in a mixture: more is more trouble than any case was worth.
const LARGEST: usize = 3;

/// A mixture.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Ways of the graph, in order.
    pub(super) ways: Vec<usize>,
    pub(super) most: Most,
    pub(super) operating: Option<Operating>,
    /// More is better; minus infinity where it cannot serve the rate.
    pub(super) score: f64,
}

/// How it serves a rate.
#[derive(Clone, Debug)]
pub(super) struct Operating {
    pub(super) rate: f64,
    pub(super) rates: Rates,
    pub(super) estimate: Option<Latencies>,
    /// Of each class, where one has limits.
    pub(super) classes: Vec<Option<Latencies>>,
}

impl Operating {
    fn of(graph: &Graph, rate: f64, rates: Rates) -> Operating {
        let classes = if graph.has_slo() { by_class(graph, &rates) } else { Vec::new() };
        Operating { rate, estimate: latencies(graph, &rates), rates, classes }
    }
}

/// How many times the limit of a class that is missed most, or that is nearest, is what was seen of it; 0 where there is none.
pub(super) fn excess_of_classes(graph: &Graph, seen: &[Option<Latencies>]) -> f64 {
    let of = |(class, seen): (&Class, &Option<Latencies>)| {
        seen.and_then(|seen| class.slo.excess((seen.mean, seen.p50, seen.p99)))
    };
    graph.classes.iter().zip(seen).filter_map(of).fold(0.0, f64::max)
}

impl Candidate {
    /// The rates that the objective is about: the most, or those at which costs are compared.
    pub(super) fn rates(&self, objective: Objective) -> &Rates {
        match &self.operating {
            Some(operating) if objective != Objective::Throughput => &operating.rates,
            _ => &self.most.rates,
        }
    }

    /// How many times the limits of latency it has at least, as estimated.
    pub(super) fn excess(&self, graph: &Graph, limits: &Limits) -> f64 {
        let Some(operating) = &self.operating else { return f64::INFINITY };
        let Some(seen) = operating.estimate else { return f64::INFINITY };
        let times = [(limits.mean, seen.mean), (limits.p50, seen.p50), (limits.p99, seen.p99)];
        let times = times.into_iter().filter_map(|(limit, seen)| Some(seen / limit?));
        times.fold(1.0, f64::max).max(excess_of_classes(graph, &operating.classes))
    }

    /// Whether only the host answers.
    pub(super) fn host_only(&self, graph: &Graph) -> bool {
        self.ways.iter().all(|way| graph.ways[*way].place.is_host())
    }
}

/// How these ways serve a rate best; `None` if they cannot.
pub(super) fn operate(
    graph: &Graph,
    ways: &[usize],
    rate: f64,
    objective: Objective,
) -> Result<Option<Operating>, String> {
    let cost = costs(graph, objective);
    let by_latency = matches!(objective, Objective::Throughput | Objective::P99) && ways.len() > 1;
    // Where cost counts, fill up; where latency counts, try how full is best.
    let fill: &[f64] = if by_latency { &[0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.999] } else { &[0.9, 0.999] };
    let mut best: Option<Operating> = None;
    for share in fill {
        let Some(rates) = cheapest(graph, ways, rate, &cost, &headroom(graph, *share))? else { continue };
        let found = Operating::of(graph, rate, rates);
        let p99 = |of: &Operating| of.estimate.map_or(f64::INFINITY, |latencies| latencies.p99);
        if best.as_ref().is_none_or(|best| p99(&found) < p99(best)) {
            best = Some(found);
        }
        if !by_latency {
            break;
        }
    }
    Ok(best)
}

/// Whether latencies keep their limits.
pub(super) fn within(limits: &Limits, seen: (f64, f64, f64)) -> bool {
    let keeps = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
    keeps(limits.mean, seen.0) && keeps(limits.p50, seen.1) && keeps(limits.p99, seen.2)
}

/// The highest rate at which estimated latencies keep their limits, by halving.
fn highest_within(
    graph: &Graph,
    ways: &[usize],
    most: f64,
    question: &Question,
) -> Result<Option<Operating>, String> {
    let keeps = |found: &Operating| {
        let seen = found.estimate.map(|of| (of.mean, of.p50, of.p99));
        let keeps = seen.is_some_and(|seen| within(&question.limits, seen));
        keeps && excess_of_classes(graph, &found.classes) <= 1.0
    };
    let (mut low, mut high, mut best) = (0.0, most, None);
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        match operate(graph, ways, middle, question.objective)?.filter(keeps) {
            Some(found) => (low, best) = (middle, Some(found)),
            None => high = middle,
        }
    }
    Ok(best)
}

/// One mixture.
pub(super) fn candidate(
    graph: &Graph,
    ways: &[usize],
    rate: Option<f64>,
    question: &Question,
) -> Result<Candidate, String> {
    let most = most(graph, ways, &whole(graph))?;
    let limited = question.limits.of_latency() || graph.has_slo();
    let by_limit = question.objective == Objective::Throughput && limited && rate.is_none();
    let operating = match rate {
        _ if by_limit => highest_within(graph, ways, most.rate, question)?,
        Some(rate) => operate(graph, ways, rate, question.objective)?,
        None => None,
    };
    // Whoever keeps the limits at no rate may still come nearest to them.
    let light = if by_limit && operating.is_none() && most.rate > 0.0 {
        operate(graph, ways, most.rate * LIGHT_LOAD, question.objective)?
    } else {
        None
    };
    let score = match (question.objective, &operating) {
        (Objective::Throughput, None) if by_limit => f64::NEG_INFINITY,
        (Objective::Throughput, Some(found)) if by_limit => found.rate,
        (Objective::Throughput, _) => most.rate,
        (_, None) => f64::NEG_INFINITY,
        (objective, Some(found)) => -cost_at(graph, found, objective),
    };
    Ok(Candidate { ways: ways.into(), most, operating: operating.or(light), score })
}

/// What the objective wants little of.
pub(super) fn cost_at(graph: &Graph, found: &Operating, objective: Objective) -> f64 {
    match objective {
        Objective::HostCpu => graph.host_cores(&found.rates),
        Objective::Power => graph.watts(&found.rates).unwrap_or(0.0),
        Objective::Throughput | Objective::P99 => found.estimate.map_or(f64::INFINITY, |of| of.p99),
    }
}

/// All mixtures that are worth a look, and how many were weighed.
pub(super) fn candidates(
    graph: &Graph,
    rate: Option<f64>,
    question: &Question,
) -> Result<(Vec<Candidate>, usize), String> {
    let (mut kept, mut weighed): (Vec<Candidate>, usize) = (Vec::new(), 0);
    let allowed = graph.allowed();
    for chosen in subsets(allowed.len()) {
        let ways: Vec<usize> = chosen.iter().map(|at| allowed[*at]).collect();
        weighed += 1;
        let found = candidate(graph, &ways, rate, question)?;
        let parts = kept.iter().filter(|other| other.ways.iter().all(|way| ways.contains(way)));
        let beats = |other: &Candidate| {
            match (found.score.is_finite(), other.score.is_finite()) {
                (true, true) => found.score - other.score > WORTH * other.score.abs(),
                // Neither serves the rate: what is said then is the most that can be served.
                (false, false) if found.operating.is_none() => {
                    found.most.rate > (1.0 + WORTH) * other.most.rate
                }
                (serves, _) => serves,
            }
        };
        // A combination that leaves one of its ways idle is a smaller one.
        let all_work = ways.iter().all(|way| found.rates(question.objective)[*way] > 0.0);
        if ways.len() == 1 || (all_work && parts.clone().all(beats)) {
            kept.push(found);
        }
    }
    Ok((kept, weighed))
}

/// Subsets of up to [`LARGEST`], small ones first.
fn subsets(of: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..LARGEST {
        let to = all.len();
        for at in from..to {
            let next = all[at].last().map_or(0, |last| last + 1);
            for way in next..of {
                let mut larger = all[at].clone();
                larger.push(way);
                all.push(larger);
            }
        }
        from = to;
    }
    all.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_come_small_ones_first() {
        let names: Vec<String> =
            subsets(4).iter().map(|set| set.iter().map(usize::to_string).collect()).collect();
        let wanted = ["0", "1", "2", "3", "01", "02", "03", "12", "13", "23", "012", "013", "023", "123"];
        assert_eq!(names, wanted);
    }
}
