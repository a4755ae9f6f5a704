//! One workload on several platforms, in one table: what is best on each, what it gives and costs.

use super::live::{AtNodes, Placed};
use super::money::dollars;
use super::sliders::Shown;
use super::{Answer, text};
use bench::report::chart::{Series, lines};
use bench::report::format::{digits, micros, short};
use bench::report::{Block, Report, Section, Table, environment};
use model::Platform;
use model::plan::Objective;
use model::plan::answer::Plan;
use model::plan::curve::Curve;
use serde_json::json;

/// A platform, and what there is to say of it: an answer with its curves, or why there is none.
pub(super) struct Machine {
    pub(super) name: String,
    /// With what was set.
    pub(super) platform: Platform,
    pub(super) outcome: Result<(Answer, Vec<Curve>), String>,
}

impl Machine {
    /// For a page's sliders, where there is an answer.
    pub(super) fn shown(&self) -> Option<Shown<'_>> {
        let (answer, _) = self.outcome.as_ref().ok()?;
        Some(Shown { platform: &self.platform, answer })
    }
}

/// Figures that differ by no more than this are no difference to anybody.
const TIE: f64 = 0.01;

/// The best first; those that cannot serve it at the end.
pub(super) fn sort(machines: &mut [Machine]) {
    machines.sort_by(|a, b| match (serving(a), serving(b)) {
        (Some(a), Some(b)) => cost_of(a).total_cmp(&cost_of(b)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
}

/// A plan that serves what is asked.
fn serving(machine: &Machine) -> Option<&Plan> {
    machine.outcome.as_ref().ok().map(|(answer, _)| &answer.plan).filter(|plan| plan.advice.possible)
}

/// What the objective wants little of.
fn cost_of(plan: &Plan) -> f64 {
    let value = plan.ranking[0].value;
    if plan.objective == Objective::Throughput { -value } else { value }
}

/// How much of the first's value a simulation cannot tell.
fn error(plan: &Plan) -> f64 {
    let first = &plan.ranking[0];
    match plan.objective {
        Objective::P99 => first.at_rate.map_or(0.0, |seen| seen.p99_error),
        _ => first.saturated.map_or(0.0, |seen| seen.rate_error),
    }
}

/// Whether it is as good as the first of the table.
fn is_tie(first: &Plan, other: &Plan) -> bool {
    let (a, b) = (first.ranking[0].value, other.ranking[0].value);
    (a - b).abs() <= error(first).hypot(error(other)).max(TIE) * a.abs()
}

fn ties(machines: &[Machine]) -> Vec<bool> {
    let first = machines.first().and_then(serving);
    let tie = |at: usize, machine: &Machine| {
        at > 0 && first.zip(serving(machine)).is_some_and(|(first, other)| is_tie(first, other))
    };
    machines.iter().enumerate().map(|(at, machine)| tie(at, machine)).collect()
}

const HEADS: [&str; 10] = [
    "platform",
    "best",
    "throughput",
    "at",
    "p99",
    "host cores",
    "watts",
    "price",
    "USD a million",
    "advice",
];

/// The table.
pub(super) fn table(machines: &[Machine]) -> Table {
    let mut table = Table::new(HEADS);
    for ((at, machine), tie) in machines.iter().enumerate().zip(ties(machines)) {
        let number = if tie { "1= ".into() } else { format!("{} ", at + 1) };
        row(machine, &number).into_iter().for_each(|row| {
            table.row(row);
        });
    }
    table
}

/// What was asked of one machine that serves it at nodes, and of others: as measured, as predicted where it serves, then the machines in their order.
pub(super) fn show_what_ifs(
    title: &str,
    machines: &[Machine],
    first: Option<&(&AtNodes, Option<Placed>)>,
    remarks: &[String],
) -> String {
    let mut table = Table::new(HEADS);
    if let Some((measured, placed)) = first {
        let AtNodes { rate, p99, cores, placement, .. } = measured;
        let name = placement.clone().unwrap_or("several placements".into());
        let figures = |rate: f64, p99: Option<f64>, cores: f64, most: Option<f64>| {
            let most = most.map_or_else(none, |most| format!("{}/s", short(most)));
            [
                most,
                format!("{}/s", short(rate)),
                p99.map_or_else(none, |p99| micros(p99 * 1e6)),
                digits(cores),
            ]
        };
        let mut add = |what: &str, [most, rate, p99, cores]: [String; 4]| {
            table.row([what.into(), name.clone(), most, rate, p99, cores, none(), none(), none(), none()]);
        };
        add("as measured", figures(*rate, *p99, *cores, None));
        if let Some(placed) = placed {
            add("as predicted there", figures(placed.rate, Some(placed.p99), placed.cores, placed.most));
        }
    }
    for machine in machines {
        row(machine, "").into_iter().for_each(|row| {
            table.row(row);
        });
    }
    let asked = machines.iter().find_map(|of| of.outcome.as_ref().ok());
    let asked = asked.map_or(String::new(), |(answer, _)| format!("  {}\n", text::wanted(&answer.plan)));
    let mut out = format!("{title}\n{asked}\n{table}\n");
    for sentence in each(machines).iter().chain(remarks) {
        out += &format!("  {sentence}\n");
    }
    if first.is_some() {
        out += "  measured within the server; predicted from the client and back\n";
    }
    out
}

fn none() -> String {
    "–".into()
}

/// The row of a machine that serves it.
fn row(machine: &Machine, number: &str) -> Option<[String; 10]> {
    let Ok((Answer { plan, cost, .. }, _)) = &machine.outcome else { return None };
    let first = &plan.ranking[0];
    let seen = first.at_rate.or(first.saturated);
    let most = if plan.objective == Objective::Throughput { first.value } else { first.most };
    let advice = match (plan.advice.possible, plan.advice.offload) {
        (false, _) => "none: nothing serves it",
        (true, true) => "offload",
        (true, false) => "do not offload",
    };
    Some([
        format!("{number}{}{}", machine.name, if plan.advice.possible { "" } else { " ✗" }),
        first.name.clone(),
        format!("{}/s", short(if plan.advice.possible { most } else { first.most })),
        first.at_rate.map_or_else(none, |_| format!("{}/s", short(first.rate))),
        first.at_rate.map_or_else(none, |seen| micros(seen.p99 * 1e6)),
        seen.map_or_else(none, |seen| digits(seen.host_cores)),
        cost.watts.map_or_else(none, digits),
        cost.price.map_or_else(none, |price| format!("{price:.0} USD")),
        cost.per_million.map_or_else(none, dollars),
        advice.into(),
    ])
}

/// What a table has no room for.
pub(super) fn sentences(machines: &[Machine]) -> Vec<String> {
    let mut said = Vec::new();
    let tied: Vec<&str> =
        machines.iter().zip(ties(machines)).filter(|(_, tie)| *tie).map(|(of, _)| &*of.name).collect();
    if let Some(first) = machines.first().filter(|_| !tied.is_empty()) {
        let tied = tied.join(", ");
        said.push(format!(
            "a tie: {tied}, by no more than the simulation's noise or 1 % behind {}",
            first.name
        ));
    }
    said.extend(each(machines));
    let rates: Vec<_> = machines.iter().filter_map(serving).map(|plan| plan.rate_given).collect();
    if rates.contains(&false) {
        said.push(
            "latencies, host cores and watts are at each machine's own rate: --rate asks all for the same"
                .into(),
        );
    }
    said
}

/// What is to be said of each machine by itself.
fn each(machines: &[Machine]) -> Vec<String> {
    let mut said = Vec::new();
    for machine in machines {
        match &machine.outcome {
            Err(why) => said.push(format!("{} cannot serve it: {why}", machine.name)),
            Ok((Answer { plan, .. }, _)) if !plan.advice.possible => {
                said.push(format!("{}: {}", machine.name, plan.advice.why));
            }
            Ok((Answer { cost, .. }, _)) if cost.price.is_none() => {
                said.push(format!("cost on {} is not known: no {}", machine.name, cost.unknown[0]));
            }
            Ok(_) => {}
        }
    }
    said
}

/// As text.
pub(super) fn show(title: &str, machines: &[Machine]) -> String {
    let asked = machines.iter().find_map(|of| of.outcome.as_ref().ok());
    let asked = asked.map_or(String::new(), |(answer, _)| format!("  {}\n", text::wanted(&answer.plan)));
    let mut out = format!("{title}\n{asked}\n{}\n", table(machines));
    for sentence in sentences(machines) {
        out += &format!("  {sentence}\n");
    }
    out
}

/// For programs.
pub(super) fn json(machines: &[Machine]) -> serde_json::Value {
    let one = |(machine, tie): (&Machine, bool)| match &machine.outcome {
        Ok((answer, _)) => json!({"platform": machine.name, "tie": tie, "answer": answer.json()}),
        Err(why) => json!({"platform": machine.name, "cannot": why}),
    };
    json!({"platforms": machines.iter().zip(ties(machines)).map(one).collect::<Vec<_>>()})
}

/// A page: the table, and for each platform latency over load with the points from which on a further alternative is needed.
pub(super) fn page(title: &str, machines: &[Machine]) -> Report {
    let mut blocks = vec![Block::Table(table(machines))];
    blocks.extend(sentences(machines).into_iter().map(Block::Text));
    let mut sections = vec![Section { title: "Platforms".into(), blocks }];
    for machine in machines {
        let Ok((answer, curves)) = &machine.outcome else { continue };
        let drawn: Vec<Series> = curves.iter().flat_map(series).collect();
        let picture = lines("p99 over load, by arithmetic, µs", "million requests/s", &drawn);
        let mut blocks = vec![Block::Plot(picture)];
        blocks.extend(text::sentences(&answer.plan).into_iter().map(Block::Text));
        sections.push(Section { title: answer.plan.platform_title.clone(), blocks });
    }
    let first = machines.first().and_then(serving);
    let verdict = first.map_or("No platform serves it".into(), |plan| {
        format!("{} on {}", plan.ranking[0].name, plan.platform)
    });
    let subtitle = machines.iter().find_map(|of| of.outcome.as_ref().ok());
    Report {
        title: title.into(),
        subtitle: subtitle.map_or(String::new(), |(answer, _)| text::wanted(&answer.plan)),
        verdict: (first.is_some(), verdict),
        sections,
        environment: environment::facts(),
    }
}

/// A line, and a point for each switch.
fn series(curve: &Curve) -> Vec<Series> {
    let at = |(rate, p99): (f64, f64)| (rate / 1e6, p99 * 1e6);
    let line = |name: String, points: Vec<(f64, f64)>| Series { name, points, published: vec![] };
    let whole = line(curve.name.clone(), curve.points.iter().copied().map(at).collect());
    let switches = curve.switches.iter().map(|(rate, add, p99)| {
        line(format!("{}: from here on {add} as well", curve.name), vec![at((*rate, *p99))])
    });
    std::iter::once(whole).chain(switches).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Plan as Command;
    use super::*;
    use clap::{Args, FromArgMatches};

    fn machines(arguments: &[&str]) -> Vec<Machine> {
        let command = Command::augment_args(clap::Command::new("plan"));
        let matches = command.try_get_matches_from([&["plan"], arguments].concat()).expect("they are right");
        let command = Command::from_arg_matches(&matches).expect("they are right");
        let platforms = command.platforms().expect("they are shipped");
        let asked = command.workload(&platforms[0]).expect("it is shipped");
        let (mut machines, _) = command.machines(&platforms, &asked).expect("it is answered");
        sort(&mut machines);
        machines
    }

    #[test]
    fn machines_stand_beside_each_other_and_those_that_cannot_say_why() {
        let machines = machines(&[
            "-w",
            "file-replication",
            "-p",
            "connectx6",
            "-p",
            "xpliant-octeon",
            "-p",
            "u280-ddr4",
            "--top",
            "1",
            "--set",
            "price.machine=9000USD",
            "--report",
            "none.html",
        ]);
        assert_eq!(machines.len(), 3);
        assert_eq!(machines[2].name, "xpliant-octeon");
        let table = table(&machines);
        assert_eq!(table.rows().len(), 2);
        let shown = show("a title", &machines);
        assert!(
            shown.contains("xpliant-octeon cannot serve it: platform xpliant-octeon serves no workload"),
            "{shown}"
        );
        assert!(shown.contains("9000 USD") && shown.contains("--rate asks all for the same"), "{shown}");
        let json = json(&machines);
        assert_eq!(json["platforms"][2]["platform"], "xpliant-octeon");
        assert!(json["platforms"][0]["answer"]["cost"]["per_million"].is_number(), "{json}");
        assert!(json["platforms"][0]["answer"]["ranking"].is_array());
        let page = page("a title", &machines);
        assert_eq!(page.sections.len(), 3);
        let html = page.html();
        assert!(html.contains("p99 over load") && html.contains("stroke-dasharray") && !html.contains("NaN"));
    }

    #[test]
    fn one_machine_twice_is_a_tie_and_nobody_is_no_advice() {
        let same = ["-w", "file-replication", "-p", "connectx6", "-p", "connectx6", "--top", "1"];
        let tied = machines(&same);
        assert_eq!(ties(&tied), [false, true]);
        assert!(
            table(&tied).rows()[1][0].starts_with("1=")
                && sentences(&tied)[0].starts_with("a tie: connectx6")
        );
        let nobody = machines(&[&same[..], &["--rate", "900G"]].concat());
        assert_eq!(ties(&nobody), [false, false]);
        let shown = show("a title", &nobody);
        assert!(shown.contains("nothing here serves so much: the most is") && shown.contains("✗"), "{shown}");
    }

    #[test]
    fn a_what_if_says_what_changes() {
        let platform =
            model::platform::shipped::shipped("connectx6").expect("it is shipped").expect("it is sound");
        let command = Command::augment_args(clap::Command::new("plan"));
        let arguments =
            ["plan", "-w", "key-value-cache", "-p", "connectx6", "--top", "1", "--set", "workload.window=1"];
        let matches = command.try_get_matches_from(arguments).expect("they are right");
        let command = Command::from_arg_matches(&matches).expect("they are right");
        let asked = command.workload(&platform).expect("it is shipped");
        let (answer, remarks) = command.compared(&platform, &asked).expect("it is answered");
        let said = remarks.join("\n");
        assert!(said.contains("what if workload.window were 1 and not 256"), "{said}");
        assert!(
            said.contains("throughput: ") && said.contains("(-") && said.contains("price: not known"),
            "{said}"
        );
        let json = answer.json();
        assert_eq!(json["what_if"]["set"][0]["number"], "workload.window");
        let values =
            |side: &str| json["what_if"][side]["values"]["throughput"].as_f64().expect("it is a number");
        assert!(values("after") < values("before"));
    }
}
