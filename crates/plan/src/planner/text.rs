//! A plan on the terminal.

use super::{Answer, money};
use bench::report::Table;
use bench::report::format::{digits, micros, short};
use model::plan::answer::{Confidence, Greedy, Plan, Ranked, Switch};
use model::plan::{Limits, Objective};
use model::workload::Slo;

/// All of it.
pub(super) fn plan(answer: &Answer, remarks: &[String]) -> String {
    let plan = &answer.plan;
    let mut text = format!("{}\non {}\n", plan.workload_title, plan.platform_title);
    text += &format!("  {}\n", asked(plan));
    text += &remarks.iter().map(|remark| format!("  {remark}\n")).collect::<String>();
    text += &format!("\n{}\n{}\n", alternatives(plan), ranking(plan));
    text += &classes(plan).map_or(String::new(), |classes| format!("{classes}\n"));
    for sentence in all_sentences(answer) {
        text += &format!("  {sentence}\n");
    }
    text
}

/// What to do and to know, with what it costs.
pub(super) fn all_sentences(answer: &Answer) -> Vec<String> {
    let mut said = sentences(&answer.plan);
    // Before how much was weighed.
    said.insert(said.len() - 1, money::sentence(&answer.cost, answer.plan.advice.possible));
    said
}

/// What was asked of any machine.
pub(super) fn wanted(plan: &Plan) -> String {
    let best = best(plan);
    let rate = if plan.rate_given { format!("; at {}/s", short(plan.rate)) } else { String::new() };
    format!("wanted: {best}{}{rate}; {} requests under way", limits(&plan.limits), plan.window)
}

fn best(plan: &Plan) -> &'static str {
    match plan.objective {
        Objective::Throughput if plan.by_limit => "the most requests per second within the limits",
        Objective::Throughput => "the most requests per second",
        Objective::P99 => "the lowest p99",
        Objective::Power => "the fewest watts",
        Objective::HostCpu => "the fewest host cores",
    }
}

/// What was asked, in a line.
pub(super) fn asked(plan: &Plan) -> String {
    let best = best(plan);
    let rate = match (plan.by_limit, plan.rate_given) {
        (true, _) => String::new(),
        (_, true) => format!("; latencies at {}/s", short(plan.rate)),
        (_, false) => {
            format!("; latencies at {}/s, 70 % of the best single alternative", short(plan.rate))
        }
    };
    format!("wanted: {best}{}{rate}; {} requests under way", limits(&plan.limits), plan.window)
}

fn limits(limits: &Limits) -> String {
    let span =
        |name: &str, limit: Option<f64>| limit.map(|limit| format!("{name} ≤ {}", micros(limit * 1e6)));
    let all = [
        span("mean", limits.mean),
        span("p50", limits.p50),
        span("p99", limits.p99),
        limits.host_cores.map(|cores| format!("host cores ≤ {cores}")),
        limits.watts.map(|watts| format!("≤ {watts} W")),
        limits.throughput.map(|rate| format!("≥ {}/s", short(rate))),
    ];
    all.into_iter().flatten().map(|limit| format!(", {limit}")).collect()
}

/// Single alternatives.
pub(super) fn alternatives(plan: &Plan) -> Table {
    let mut table = Table::new(["alternative", "answered by", "unloaded", "most", "bound by", "host core"]);
    for single in &plan.alternatives {
        table.row([
            single.name.clone(),
            single.place.clone(),
            micros(single.unloaded * 1e6),
            format!("{}/s", short(single.most)),
            single.bound_by.clone(),
            micros(single.host_core_seconds * 1e6),
        ]);
    }
    table
}

/// The ranking.
pub(super) fn ranking(plan: &Plan) -> Table {
    let mut table = Table::new([
        "mixture",
        "simulated",
        "computed",
        "at",
        "p50",
        "p99",
        "p99 est.",
        "host cores",
        "watts",
        "full",
    ]);
    for (at, ranked) in plan.ranking.iter().enumerate() {
        table.row(row(at, ranked));
    }
    table
}

/// Classes of the first of the ranking, where one calls others or has limits of its own.
pub(super) fn classes(plan: &Plan) -> Option<Table> {
    let all = plan.ranking.first().map(|first| &first.classes).filter(|all| !all.is_empty())?;
    let mut table = Table::new(["class", "rate", "p50", "p99", "p99 est.", "is to keep", "kept"]);
    let none = || "–".to_string();
    let span = |span: Option<f64>| span.map_or_else(none, |span| micros(span * 1e6));
    for class in all {
        let Slo { mean, p50, p99 } = class.slo;
        let kept = match (class.kept, class.binds) {
            (None, _) => none(),
            (Some(true), false) => "yes".into(),
            (Some(true), true) => "yes, and binds".into(),
            (Some(false), false) => "no ✗".into(),
            (Some(false), true) => "no ✗, and binds".into(),
        };
        let limit = limits(&Limits { mean, p50, p99, ..Limits::default() });
        table.row([
            class.name.clone(),
            format!("{}/s", short(class.rate)),
            span(class.simulated.map(|seen| seen.p50)),
            span(class.simulated.map(|seen| seen.p99)),
            span(class.estimate.map(|estimate| estimate.p99)),
            if limit.is_empty() { none() } else { limit.trim_start_matches(", ").to_owned() },
            kept,
        ]);
    }
    Some(table)
}

fn row(at: usize, ranked: &Ranked) -> [String; 10] {
    let none = || "–".to_string();
    let seen = ranked.at_rate;
    let span = |span: Option<f64>| span.map_or_else(none, |span| micros(span * 1e6));
    let figures = seen.or(ranked.saturated);
    // As in sports: who is as good as the first is first.
    let number = if ranked.tie { "1= ".into() } else { format!("{} ", at + 1) };
    [
        format!("{}{}{}", number, ranked.name, if ranked.misses.is_empty() { "" } else { " ✗" }),
        ranked.saturated.map_or_else(none, |seen| format!("{}/s", short(seen.rate))),
        format!("{}/s", short(ranked.most)),
        seen.map_or_else(none, |_| format!("{}/s", short(ranked.rate))),
        span(seen.map(|seen| seen.p50)),
        span(seen.map(|seen| seen.p99)),
        span(ranked.estimate.map(|estimate| estimate.p99)),
        figures.map_or_else(none, |seen| digits(seen.host_cores)),
        figures.and_then(|seen| seen.watts).map_or_else(none, digits),
        ranked.bottlenecks.first().map_or_else(none, |first| first.name.clone()),
    ]
}

/// What to do, and what to know.
pub(super) fn sentences(plan: &Plan) -> Vec<String> {
    let first = &plan.ranking[0];
    let head = match (plan.advice.possible, plan.advice.offload) {
        (false, _) => "no advice",
        (true, true) => "advice: offload",
        (true, false) => "advice: do not offload",
    };
    let mut said = vec![format!("{head}: {}", plan.advice.why)];
    if !plan.advice.ties.is_empty() {
        let ties = plan.advice.ties.join(", ");
        said.push(format!(
            "a tie: {ties}, by no more than the simulation's noise or 1 % behind {}",
            first.name
        ));
    }
    let shares = |of: fn(&model::plan::answer::Share) -> f64| {
        let one = |part: &model::plan::answer::Share| format!("{} {:.0} %", part.name, of(part) * 100.0);
        first.parts.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    if first.parts.len() > 1 {
        said.push(format!("shares: {} at most", shares(|part| part.at_most)));
        if first.at_rate.is_some() {
            said.push(format!("        {} at {}/s", shares(|part| part.at_rate), short(first.rate)));
        }
    }
    said.extend(first.bottlenecks.iter().take(3).map(|limit| {
        let gain = if limit.gain_of_tenth > 5e-4 {
            format!("buys {:.1} % more throughput", limit.gain_of_tenth * 100.0)
        } else {
            "alone buys nothing: others are full as well".into()
        };
        format!("full: {}; 10 % more of it {gain}", limit.name)
    }));
    said.extend(first.switches.iter().map(switch));
    said.push(guideline(&plan.greedy));
    if plan.advice.possible {
        said.extend(confidence(&plan.confidence));
    }
    said.extend(plan.ranking.iter().flat_map(|ranked| {
        ranked.misses.iter().map(|miss| format!("✗ {}: {miss}", ranked.name)).collect::<Vec<_>>()
    }));
    said.push(format!("{} mixtures were weighed, {} simulated", plan.weighed, plan.ranking.len()));
    said
}

fn switch(switch: &Switch) -> String {
    format!(
        "switch: {} up to {}/s (about {} requests under way), from there on {} as well",
        switch.before.join(" + "),
        short(switch.rate),
        short(switch.under_way),
        switch.add
    )
}

fn guideline(greedy: &Greedy) -> String {
    let taken = greedy.order.iter().zip(&greedy.rates).filter(|(_, rate)| **rate > 1e-3 * greedy.throughput);
    let taken: Vec<_> = taken.map(|(name, rate)| format!("{name} {}/s", short(*rate))).collect();
    let share = greedy.throughput / greedy.programme.max(f64::MIN_POSITIVE);
    format!(
        "the published guideline, in the order {}, takes {}: {:.1} % of what the linear programme finds",
        greedy.order.join(", "),
        taken.join(", "),
        share * 100.0
    )
}

fn confidence(sure: &Confidence) -> Vec<String> {
    let ends =
        |(low, high): (f64, f64)| format!("{:+.0} % to {:+.0} %", (low - 1.0) * 100.0, (high - 1.0) * 100.0);
    let model = match &sure.model {
        Some(model) => format!(
            "the model's own error ±{:.0} % ({}: {:.0} % over {} predictions, root mean square; {:.0} % over results in no file, median)",
            model.size() * 100.0,
            model.system,
            model.predictions * 100.0,
            model.count,
            model.unseen * 100.0
        ),
        None => "the model's own error is not known: nothing published to hold it against".into(),
    };
    let mut said = vec![
        format!("confidence: {}, of which", ends(sure.range)),
        format!(
            "  {} if numbers err within their ranges; {:.0} % of that from assumed, chosen or fitted ones",
            ends(sure.by_numbers),
            sure.doubtful * 100.0
        ),
        format!("  {model}"),
    ];
    let moves = |doubt: &model::plan::answer::Doubt| {
        let (low, high) = (doubt.low * 100.0, doubt.high * 100.0);
        format!("{} ({}) {low:+.0}/{high:+.0} %", doubt.number, doubt.class)
    };
    let numbers: Vec<_> = sure.numbers.iter().map(moves).collect();
    if !numbers.is_empty() {
        said.push(format!("what moves it: {}", numbers.join(", ")));
    }
    if !sure.would_change_it.is_empty() {
        said.push(format!("the first place depends on {}", sure.would_change_it.join("; ")));
    }
    said
}
