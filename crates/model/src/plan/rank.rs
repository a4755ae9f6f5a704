//! From candidates to a plan: simulates the best few, ranks them by what they did, and says what bounds the first.

use super::answer::{Advice, ClassAnswer, Plan, Ranked, Share};
use super::candidate::{Candidate, Operating, candidates};
use super::confidence::{Doubts, doubts};
use super::describe::{bottlenecks, guideline, links, path, single, switches};
use super::estimate::{Latencies, by_class};
use super::graph::{Class, Graph};
use super::mixture::alone;
use super::simulate::{Gave, Simulated, Simulation, simulations};
use super::{Objective, PlanError, Task};
use crate::workload::calls;
use std::cmp::Ordering;

/// Where no rate is given: this share of what the best single alternative can serve.
const USUAL_LOAD: f64 = 0.7;
/// Mixtures whose values are this near are equal: the one of fewer alternatives is ahead.
const EQUAL: f64 = 0.02;
/// Values that differ by no more than this are no difference to anybody.
const TIE: f64 = 0.01;
/// Offloading has to gain at least this.
const WORTH_OFFLOADING: f64 = 1.05;

/// Runs simulations and gives what came out in their order.
pub type Runner<'r> = &'r mut dyn FnMut(Vec<Simulation<'_>>) -> Vec<Simulated>;

/// Does it.
pub(super) fn plan(task: &Task<'_>, run: Runner<'_>) -> Result<Plan, PlanError> {
    let Task { platform, workload, question, .. } = *task;
    let setting = task.setting(platform)?;
    let graph = Graph::of(&setting, workload, &question.limits);
    drop(setting);
    check(task, &graph)?;
    let best_single = graph.allowed().into_iter().map(|way| alone(&graph, way)).fold(0.0, f64::max);
    let given = question.rate.or(workload.rate);
    let rate = given.unwrap_or(best_single * USUAL_LOAD);
    let limited = question.limits.of_latency() || graph.has_slo();
    let by_limit = question.objective == Objective::Throughput && limited && given.is_none();
    let compared_at = (!by_limit).then_some(rate);
    let (mut found, weighed) = candidates(&graph, compared_at, question).map_err(PlanError::Solver)?;
    let excess = |of: &Candidate| if limited { of.excess(&graph, &question.limits) } else { 1.0 };
    found.sort_by(|a, b| {
        let nearer = excess(a).total_cmp(&excess(b));
        nearer.then(b.score.total_cmp(&a.score)).then(b.most.rate.total_cmp(&a.most.rate))
    });
    let chosen = choose(&graph, found, question.top.max(1));
    let wanted: Vec<Vec<_>> = chosen.iter().map(|one| simulations(task, &graph, one, by_limit)).collect();
    let counts: Vec<usize> = wanted.iter().map(Vec::len).collect();
    let mut gave = run(wanted.into_iter().flatten().collect()).into_iter();
    let mut ranked = Vec::new();
    for (candidate, count) in chosen.iter().zip(counts) {
        let its = gave.by_ref().take(count).map(|one| one.0).collect::<Result<Vec<_>, _>>()?;
        ranked.push((rank_one(task, &graph, candidate, by_limit, its)?, candidate));
    }
    sort(&mut ranked, question.objective);
    let mixtures: Vec<Vec<usize>> = ranked.iter().map(|(_, candidate)| candidate.ways.clone()).collect();
    let names: Vec<String> = ranked.iter().map(|(ranked, _)| ranked.name.clone()).collect();
    let doubts = doubts(task, &mixtures, rate)?;
    let mut ranking: Vec<Ranked> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    tie(&mut ranking, question.objective, by_limit);
    Ok(Plan {
        platform: platform.name.clone(),
        platform_title: platform.title.clone(),
        workload: workload.name.clone(),
        workload_title: workload.title.clone(),
        objective: question.objective,
        limits: question.limits,
        rate,
        by_limit,
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
        let places = if task.workload.places.is_some() { " at the places that it allows" } else { "" };
        return no(format!("platform {platform} has no way to serve workload {workload}{places}"));
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
    gave: Vec<Gave>,
) -> Result<Ranked, PlanError> {
    let most = &candidate.most;
    // Where costs are compared at a rate, the machine is shown at that rate.
    let rates = candidate.rates(task.question.objective);
    let at_most = *rates == most.rates;
    let unknown = vec![None; graph.rows.len()];
    let (mut saturated, mut simulated) = (None, unknown.clone());
    let (mut operating, mut at_rate, mut each) = (None, None, Vec::new());
    for one in gave {
        match one {
            Gave::Saturated(figures, used) => (saturated, simulated) = (Some(figures), used),
            Gave::AtRate(how, figures, classes) => {
                (operating, at_rate, each) = (Some(how), Some(figures), classes);
            }
        }
    }
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
        classes: classes(task, graph, operating.as_ref(), &each),
        paths: candidate.ways.iter().map(|way| path(graph, *way)).collect(),
        misses: Vec::new(),
        excess: 0.0,
        tie: false,
        value: 0.0,
    };
    let missed = misses(task, &ranked);
    ranked.excess = missed.iter().map(|(times, _)| *times).fold(0.0, f64::max);
    ranked.misses = missed.into_iter().map(|(_, sentence)| sentence).collect();
    ranked.value = value(&ranked, task.question.objective, by_limit);
    Ok(ranked)
}

/// What is said of classes, where one calls others or has limits.
fn classes(
    task: &Task<'_>,
    graph: &Graph,
    operating: Option<&Operating>,
    simulated: &[(String, Latencies)],
) -> Vec<ClassAnswer> {
    let Some(operating) = operating.filter(|_| graph.has_slo() || calls::are_there(task.workload)) else {
        return Vec::new();
    };
    let estimates = by_class(graph, &operating.rates);
    let of = |(class, estimate): (&Class, Option<Latencies>)| {
        let simulated = simulated.iter().find(|(name, _)| *name == class.name).map(|(_, seen)| *seen);
        let excess = simulated.or(estimate).and_then(|of| class.slo.excess((of.mean, of.p50, of.p99)));
        let (name, rate, slo) = (class.name.clone(), class.rate * operating.rate, class.slo);
        let kept = excess.map(|excess| excess <= 1.0);
        ClassAnswer { name, rate, estimate, simulated, slo, excess, kept, binds: false }
    };
    let mut all: Vec<ClassAnswer> = graph.classes.iter().zip(estimates).map(of).collect();
    let worst = all.iter_mut().filter(|class| class.excess.is_some());
    if let Some(worst) = worst.max_by(|a, b| a.excess.unwrap_or(0.0).total_cmp(&b.excess.unwrap_or(0.0))) {
        worst.binds = true;
    }
    all
}

/// What the objective compares.
fn value(ranked: &Ranked, objective: Objective, by_limit: bool) -> f64 {
    let at_rate = ranked.at_rate;
    match objective {
        Objective::Throughput if by_limit && !ranked.misses.is_empty() => 0.0,
        Objective::Throughput if by_limit => at_rate.map_or(0.0, |_| ranked.rate),
        Objective::Throughput => ranked.saturated.map_or(0.0, |seen| seen.rate),
        Objective::P99 => at_rate.map_or(f64::INFINITY, |seen| seen.p99),
        Objective::HostCpu => at_rate.map_or(f64::INFINITY, |seen| seen.host_cores),
        Objective::Power => at_rate.and_then(|seen| seen.watts).unwrap_or(f64::INFINITY),
    }
}

/// Limits that a mixture does not keep: how many times what is allowed, and a sentence. Those of cores and watts hold by construction; a run is random.
fn misses(task: &Task<'_>, ranked: &Ranked) -> Vec<(f64, String)> {
    const SLACK: f64 = 1.05;
    let limits = &task.question.limits;
    let mut misses = Vec::new();
    let given = task.question.rate.or(task.workload.rate);
    let times = |rate: f64| rate / ranked.most.max(f64::MIN_POSITIVE);
    if let Some(rate) = given.filter(|rate| ranked.most < *rate) {
        let why = format!("serves {:.3e} of {rate:.3e} requests per second", ranked.most);
        misses.push((times(rate), why));
    }
    if let Some(rate) = limits.throughput.filter(|rate| ranked.most < *rate) {
        let why = format!("serves {:.3e} requests per second at most, not {rate:.3e}", ranked.most);
        misses.push((times(rate), why));
    }
    let figures = ranked.at_rate;
    let latencies = [
        ("mean", limits.mean, figures.map(|of| of.mean)),
        ("p50", limits.p50, figures.map(|of| of.p50)),
        ("p99", limits.p99, figures.map(|of| of.p99)),
    ];
    for (name, limit, seen) in latencies {
        let Some(limit) = limit else { continue };
        let at_most = limit * 1e6;
        match seen {
            Some(seen) if seen <= limit => {}
            Some(seen) => {
                let why = format!("{name} of {:.2} us, not {at_most:.2}", seen * 1e6);
                misses.push((seen / limit, why));
            }
            // It cannot serve the rate, which is said already where one is given.
            None => misses.push((1.0, format!("{name} of {at_most:.2} us at no rate"))),
        }
    }
    for class in ranked.classes.iter().filter(|class| class.kept == Some(false)) {
        let Some(seen) = class.simulated.or(class.estimate) else { continue };
        let all = [
            ("mean", class.slo.mean, seen.mean),
            ("p50", class.slo.p50, seen.p50),
            ("p99", class.slo.p99, seen.p99),
        ];
        for (name, limit, seen) in all {
            if let Some(limit) = limit.filter(|limit| seen > *limit) {
                let why =
                    format!("{name} of class {}: {:.2} us, not {:.2}", class.name, seen * 1e6, limit * 1e6);
                misses.push((seen / limit, why));
            }
        }
    }
    let seen = figures.or(ranked.saturated);
    let over =
        |limit: Option<f64>, seen: Option<f64>| limit.zip(seen).filter(|(limit, seen)| *seen > limit * SLACK);
    let cores = over(limits.host_cores, seen.map(|of| of.host_cores));
    misses.extend(cores.map(|(limit, cores)| (cores / limit, format!("{cores:.2} host cores, not {limit}"))));
    let watts = over(limits.watts, seen.and_then(|of| of.watts));
    misses.extend(watts.map(|(limit, watts)| (watts / limit, format!("{watts:.1} W, not {limit}"))));
    misses
}

/// Those that keep all limits first, then those that come nearest; then by value; the first is the simplest of those that are as good as the best.
fn sort(ranked: &mut Vec<(Ranked, &Candidate)>, objective: Objective) {
    let cost = |of: &Ranked| if objective == Objective::Throughput { -of.value } else { of.value };
    ranked.sort_by(|(a, _), (b, _)| {
        let keeps = a.misses.is_empty().cmp(&b.misses.is_empty()).reverse();
        keeps.then(a.excess.total_cmp(&b.excess)).then(cost(a).total_cmp(&cost(b)))
    });
    let Some((best, _)) = ranked.first() else { return };
    if !best.misses.is_empty() {
        return;
    }
    let best_cost = cost(best);
    let equal = |of: &Ranked| of.misses.is_empty() && (cost(of) - best_cost).abs() <= EQUAL * best_cost.abs();
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

/// Says which are as good as the first: nearer to it than a hundredth, or than what the simulations can tell apart.
fn tie(ranking: &mut [Ranked], objective: Objective, by_limit: bool) {
    let error = |of: &Ranked| match objective {
        Objective::Throughput if !by_limit => of.saturated.map_or(0.0, |seen| seen.rate_error),
        Objective::P99 => of.at_rate.map_or(0.0, |seen| seen.p99_error),
        _ => of.at_rate.map_or(0.0, |seen| seen.rate_error),
    };
    let Some((first, others)) = ranking.split_first_mut() else { return };
    if !first.misses.is_empty() {
        return;
    }
    for other in others.iter_mut().filter(|other| other.misses.is_empty()) {
        let apart = error(first).hypot(error(other)).max(TIE);
        other.tie = (other.value - first.value).abs() <= apart * first.value.abs();
    }
}

/// Why there is nothing to advise: which comes nearest, and by how much.
fn nobody(ranking: &[Ranked]) -> String {
    let nearest = &ranking[0];
    let why = nearest.misses.join("; ");
    let by_rate = ranking.iter().all(|of| of.at_rate.is_none());
    if by_rate {
        let most = ranking.iter().max_by(|a, b| a.most.total_cmp(&b.most)).unwrap_or(nearest);
        return format!(
            "nothing here serves so much: the most is {:.3e} requests per second, by {}, which is 1/{:.2} of it",
            most.most, most.name, most.excess
        );
    }
    format!(
        "nothing here keeps the limits: {} comes nearest, {:.2} times what is allowed: {why}",
        nearest.name, nearest.excess
    )
}

fn advise(graph: &Graph, ranking: &[Ranked], doubts: &Doubts, objective: Objective) -> Advice {
    let first = &ranking[0];
    let host = ranking.iter().position(|ranked| ranked.host_only);
    let ties: Vec<String> = ranking.iter().filter(|of| of.tie).map(|of| of.name.clone()).collect();
    let possible = first.misses.is_empty();
    let say =
        |offload, gain: Option<f64>, why: String| Advice { possible, ties: ties.clone(), offload, gain, why };
    if !possible {
        return say(false, None, nobody(ranking));
    }
    let all = graph.ways.iter().all(|way| way.place.is_host());
    let Some(host) = host else {
        return say(true, None, format!("{} is best, and nothing here leaves all to the host", first.name));
    };
    let alone = &ranking[host];
    if all {
        let why = format!("the host's cores do the work in every alternative; {} is the best", first.name);
        return say(false, None, why);
    }
    if host == 0 {
        return say(false, None, format!("the host alone ({}) is best", first.name));
    }
    if !alone.misses.is_empty() {
        let why = alone.misses.join("; ");
        let why = format!("the host alone ({}) does not keep the limits: {why}", alone.name);
        return say(true, None, why);
    }
    let gain = match objective {
        Objective::Throughput => first.value / alone.value.max(f64::MIN_POSITIVE),
        _ => alone.value / first.value.max(1e-12),
    };
    let (_, least) = doubts.gain(host);
    let name = &first.name;
    let better = (gain - 1.0) * 100.0;
    if alone.tie {
        say(false, Some(gain), format!("the host alone ({}) is as good as {name}", alone.name))
    } else if gain < WORTH_OFFLOADING {
        say(false, Some(gain), format!("{name} is only {better:.1} % better than the host alone"))
    } else if least <= 1.0 {
        let why = format!(
            "{name} is {gain:.2} times as good as the host alone, but the numbers' ranges allow {least:.2}"
        );
        say(false, Some(gain), why)
    } else if gain < 1e3 {
        let why = format!("{name} is {gain:.2} times as good as the host alone, at least {least:.2} times");
        say(true, Some(gain), why)
    } else {
        let why = format!("{name} needs next to nothing of what the host alone needs");
        say(true, Some(gain), why)
    }
}
