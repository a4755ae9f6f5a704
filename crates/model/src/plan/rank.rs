//! From candidates to a plan: simulates the best few, ranks them by what they did, and says what bounds the first.

use super::answer::{Advice, Figures, Plan, Ranked, Share};
use super::candidate::{Candidate, Operating, candidates, operate, within};
use super::confidence::{Doubts, doubts};
use super::describe::{bottlenecks, guideline, links, path, single, switches};
use super::graph::Graph;
use super::mixture::alone;
use super::{Objective, PlanError, Task, simulate};
use crate::alternative::Place;
use std::cmp::Ordering;

/// Where no rate is given: this share of what the best single alternative can serve.
const USUAL_LOAD: f64 = 0.7;
/// Mixtures whose values are this near are equal: the one of fewer alternatives is ahead.
const EQUAL: f64 = 0.02;
/// Offloading has to gain at least this.
const WORTH_OFFLOADING: f64 = 1.05;

/// Does it.
pub(super) fn plan(task: &Task<'_>) -> Result<Plan, PlanError> {
    let Task { platform, workload, question, .. } = *task;
    let setting = task.setting(platform)?;
    let graph = Graph::of(&setting, workload, &question.limits);
    drop(setting);
    check(task, &graph)?;
    let best_single = graph.allowed().into_iter().map(|way| alone(&graph, way)).fold(0.0, f64::max);
    let given = question.rate.or(workload.rate);
    let rate = given.unwrap_or(best_single * USUAL_LOAD);
    let by_limit =
        question.objective == Objective::Throughput && question.limits.of_latency() && given.is_none();
    let compared_at = (!by_limit).then_some(rate);
    let (mut found, weighed) = candidates(&graph, compared_at, question).map_err(PlanError::Solver)?;
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.most.rate.total_cmp(&a.most.rate)));
    let chosen = choose(&graph, found, question.top.max(1));
    let mut ranked = Vec::new();
    for candidate in chosen {
        ranked.push((rank_one(task, &graph, &candidate, by_limit)?, candidate));
    }
    sort(&mut ranked, question.objective);
    let mixtures: Vec<Vec<usize>> = ranked.iter().map(|(_, candidate)| candidate.ways.clone()).collect();
    let names: Vec<String> = ranked.iter().map(|(ranked, _)| ranked.name.clone()).collect();
    let doubts = doubts(task, &mixtures, rate)?;
    let ranking: Vec<Ranked> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    Ok(Plan {
        platform: platform.name.clone(),
        platform_title: platform.title.clone(),
        workload: workload.name.clone(),
        workload_title: workload.title.clone(),
        objective: question.objective,
        limits: question.limits,
        rate,
        rate_given: given.is_some(),
        window: workload.window,
        alternatives: graph.allowed().into_iter().map(|way| single(&graph, way)).collect(),
        weighed,
        advice: advise(&graph, &ranking, &doubts, question.objective),
        greedy: guideline(&graph, question.objective)?,
        confidence: doubts.confidence(&names),
        ranking,
    })
}

fn check(task: &Task<'_>, graph: &Graph) -> Result<(), PlanError> {
    let question = task.question;
    let no = |why: String| Err(PlanError::Question(why));
    let (platform, workload) = (&task.platform.name, &task.workload.name);
    if graph.ways.is_empty() {
        return no(format!("platform {platform} has no way to serve workload {workload}"));
    }
    if graph.allowed().is_empty() {
        return no(format!(
            "workload {workload} leaves the host no cores, and every way on {platform} needs some"
        ));
    }
    if !graph.has_power && (question.objective == Objective::Power || question.limits.watts.is_some()) {
        return no(format!("platform {platform} knows no watts: ask for throughput, p99 or host-cpu"));
    }
    if question.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return no("the rate must be above 0, in requests per second".into());
    }
    Ok(())
}

/// The best, and the best that leaves everything to the host: whatever is advised is held against it.
fn choose(graph: &Graph, found: Vec<Candidate>, top: usize) -> Vec<Candidate> {
    let host = found.iter().position(|candidate| candidate.host_only(graph));
    let keep = |at: &usize| *at < top || Some(*at) == host;
    found.into_iter().enumerate().filter(|(at, _)| keep(at)).map(|(_, candidate)| candidate).collect()
}

fn rank_one(
    task: &Task<'_>,
    graph: &Graph,
    candidate: &Candidate,
    by_limit: bool,
) -> Result<Ranked, PlanError> {
    let most = &candidate.most;
    // Where costs are compared at a rate, the machine is shown at that rate.
    let rates = candidate.rates(task.question.objective);
    let at_most = *rates == most.rates;
    let unknown = vec![None; graph.rows.len()];
    let (saturated, simulated) = if most.rate > 0.0 {
        let (figures, used) = simulate::saturated(task, graph, most)?;
        (Some(figures), used)
    } else {
        (None, vec![None; graph.rows.len()])
    };
    let (operating, at_rate) = match &candidate.operating {
        None => (None, None),
        Some(first) => {
            let (operating, figures) = settle(task, graph, candidate, first, by_limit)?;
            (Some(operating), Some(figures))
        }
    };
    let share = |rates: &[f64], way: usize| rates[way] / rates.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let part = |way: &usize| Share {
        name: graph.ways[*way].name.clone(),
        at_most: share(&most.rates, *way),
        at_rate: operating.as_ref().map_or(0.0, |of| share(&of.rates, *way)),
    };
    let names: Vec<&str> = candidate.ways.iter().map(|way| &*graph.ways[*way].name).collect();
    let mut ranked = Ranked {
        name: names.join(" + "),
        host_only: candidate.host_only(graph),
        parts: candidate.ways.iter().map(part).collect(),
        most: most.rate,
        saturated,
        rate: operating.as_ref().map_or(0.0, |of| of.rate),
        estimate: operating.as_ref().and_then(|of| of.estimate),
        at_rate,
        bottlenecks: bottlenecks(graph, candidate)?,
        links: links(graph, (candidate, rates), if at_most { &simulated } else { &unknown }),
        links_at: rates.iter().sum(),
        switches: switches(graph, candidate, task.question.objective)?,
        paths: candidate.ways.iter().map(|way| path(graph, *way)).collect(),
        misses: Vec::new(),
        value: 0.0,
    };
    ranked.value = value(&ranked, task.question.objective, by_limit);
    ranked.misses = misses(task, &ranked);
    Ok(ranked)
}

/// Runs at the rate. Where the rate was sought by a limit of latency and the simulation does not keep it, a little less is tried.
fn settle(
    task: &Task<'_>,
    graph: &Graph,
    candidate: &Candidate,
    first: &Operating,
    by_limit: bool,
) -> Result<(Operating, Figures), PlanError> {
    const TRIES: usize = 6;
    const LESS: f64 = 0.94;
    let mut operating = first.clone();
    for _ in 0..TRIES {
        let figures = simulate::at_rate(task, graph, &operating)?;
        if !by_limit || within(&task.question.limits, (figures.mean, figures.p50, figures.p99)) {
            return Ok((operating, figures));
        }
        let less = operate(graph, &candidate.ways, operating.rate * LESS, task.question.objective);
        operating = less.map_err(PlanError::Solver)?.unwrap_or(operating);
    }
    let figures = simulate::at_rate(task, graph, &operating)?;
    Ok((operating, figures))
}

/// What the objective compares.
fn value(ranked: &Ranked, objective: Objective, by_limit: bool) -> f64 {
    let at_rate = ranked.at_rate;
    match objective {
        Objective::Throughput if by_limit => at_rate.map_or(0.0, |_| ranked.rate),
        Objective::Throughput => ranked.saturated.map_or(0.0, |seen| seen.rate),
        Objective::P99 => at_rate.map_or(f64::INFINITY, |seen| seen.p99),
        Objective::HostCpu => at_rate.map_or(f64::INFINITY, |seen| seen.host_cores),
        Objective::Power => at_rate.and_then(|seen| seen.watts).unwrap_or(f64::INFINITY),
    }
}

/// Limits that a mixture does not keep. Those of cores and watts hold by construction; a run is random.
fn misses(task: &Task<'_>, ranked: &Ranked) -> Vec<String> {
    const SLACK: f64 = 1.05;
    let limits = &task.question.limits;
    let mut misses = Vec::new();
    let given = task.question.rate.or(task.workload.rate);
    if let Some(rate) = given.filter(|rate| ranked.most < *rate) {
        misses.push(format!("serves {:.3e} of {rate:.3e} requests per second", ranked.most));
    }
    if let Some(rate) = limits.throughput.filter(|rate| ranked.most < *rate) {
        misses.push(format!("serves {:.3e} requests per second at most, not {rate:.3e}", ranked.most));
    }
    let figures = ranked.at_rate;
    let latencies = [
        ("mean", limits.mean, figures.map(|of| of.mean)),
        ("p50", limits.p50, figures.map(|of| of.p50)),
        ("p99", limits.p99, figures.map(|of| of.p99)),
    ];
    for (name, limit, seen) in latencies {
        let Some(limit) = limit else { continue };
        match seen {
            Some(seen) if seen <= limit => {}
            Some(seen) => misses.push(format!("{name} of {:.2} us, not {:.2}", seen * 1e6, limit * 1e6)),
            None => misses.push(format!("{name} of {:.2} us at no rate", limit * 1e6)),
        }
    }
    let seen = figures.or(ranked.saturated);
    let over =
        |limit: Option<f64>, seen: Option<f64>| limit.zip(seen).filter(|(limit, seen)| *seen > limit * SLACK);
    let cores = over(limits.host_cores, seen.map(|of| of.host_cores));
    misses.extend(cores.map(|(limit, cores)| format!("{cores:.2} host cores, not {limit}")));
    let watts = over(limits.watts, seen.and_then(|of| of.watts));
    misses.extend(watts.map(|(limit, watts)| format!("{watts:.1} W, not {limit}")));
    misses
}

/// Those that keep all limits first; then by value; the first is the simplest of those that are as good as the best.
fn sort(ranked: &mut Vec<(Ranked, Candidate)>, objective: Objective) {
    let cost = |of: &Ranked| if objective == Objective::Throughput { -of.value } else { of.value };
    ranked.sort_by(|(a, _), (b, _)| {
        a.misses.is_empty().cmp(&b.misses.is_empty()).reverse().then(cost(a).total_cmp(&cost(b)))
    });
    let Some((best, _)) = ranked.first() else { return };
    let (best_cost, keeps) = (cost(best), best.misses.is_empty());
    let equal = |of: &Ranked| {
        of.misses.is_empty() == keeps && (cost(of) - best_cost).abs() <= EQUAL * best_cost.abs()
    };
    let cores = |of: &Ranked| of.at_rate.or(of.saturated).map_or(0.0, |seen| seen.host_cores);
    let simplest = (0..ranked.len()).filter(|at| equal(&ranked[*at].0)).min_by(|a, b| {
        let (a, b) = (&ranked[*a].0, &ranked[*b].0);
        // Differences of a hundredth are noise; then the machine that has more left.
        let clearly = |a: f64, b: f64| {
            if (a - b).abs() > 0.01 * a.max(b) { a.total_cmp(&b) } else { Ordering::Equal }
        };
        let used = |of: &Ranked| of.links.iter().map(|link| link.utilisation).collect::<Vec<_>>();
        let fullest = |of: &Ranked| used(of).into_iter().fold(0.0, f64::max);
        let all = |of: &Ranked| used(of).into_iter().sum::<f64>();
        a.parts
            .len()
            .cmp(&b.parts.len())
            .then(clearly(cores(a), cores(b)))
            .then(clearly(fullest(a), fullest(b)))
            .then(all(a).total_cmp(&all(b)))
    });
    if let Some(simplest) = simplest {
        let first = ranked.remove(simplest);
        ranked.insert(0, first);
    }
}

fn advise(graph: &Graph, ranking: &[Ranked], doubts: &Doubts, objective: Objective) -> Advice {
    let first = &ranking[0];
    let host = ranking.iter().position(|ranked| ranked.host_only);
    let say = |offload, gain: Option<f64>, why: String| Advice { offload, gain, why };
    let all = graph.ways.iter().all(|way| way.place == Place::Host);
    match host {
        Some(_) if all => say(
            false,
            None,
            format!("the host's cores do the work in every alternative; {} is the best", first.name),
        ),
        Some(0) => say(false, None, format!("the host alone ({}) is best", first.name)),
        None => say(true, None, format!("{} is best, and nothing here leaves all to the host", first.name)),
        Some(host) if !ranking[host].misses.is_empty() && first.misses.is_empty() => {
            let why = ranking[host].misses.join("; ");
            say(
                true,
                None,
                format!("the host alone ({}) does not keep the limits: {why}", ranking[host].name),
            )
        }
        Some(host) => {
            let gain = match objective {
                Objective::Throughput => first.value / ranking[host].value,
                _ => ranking[host].value / first.value.max(1e-12),
            };
            let (_, least) = doubts.gain(host);
            let name = &first.name;
            if gain < WORTH_OFFLOADING {
                let better = (gain - 1.0) * 100.0;
                let why = if better < 0.1 {
                    format!("{name} is no better than the host alone")
                } else {
                    format!("{name} is only {better:.1} % better than the host alone")
                };
                say(false, Some(gain), why)
            } else if least <= 1.0 {
                let why = format!(
                    "{name} is {gain:.2} times as good as the host alone, but the numbers' ranges allow {least:.2}"
                );
                say(false, Some(gain), why)
            } else {
                let why = if gain < 1e3 {
                    format!("{name} is {gain:.2} times as good as the host alone, at least {least:.2} times")
                } else {
                    format!("{name} needs next to nothing of what the host alone needs")
                };
                say(true, Some(gain), why)
            }
        }
    }
}
