//! What `millrace soak kills` prints.

use super::stalls::{Group, Stall};
use super::{Kills, Outcome};
use crate::lab::run::stall::ALLOWANCE;
use base::Nanos;
use protocol::coherence::NodeId;
use serde_json::{Value, json};
use serve::cluster::file::Who;
use std::io::{self, Write};

/// Findings that are printed.
const SHOWN: usize = 3;

/// Roles, in the order of the table.
const ROLES: [&str; 5] = ["node", "box", "rack's controller", "replica", "chain's controller"];

fn role(who: Who) -> &'static str {
    match who {
        Who::Node(NodeId::Home(_)) => ROLES[0],
        Who::Node(NodeId::Box(_)) => ROLES[1],
        Who::Node(_) => ROLES[2],
        Who::Replica(..) => ROLES[3],
        Who::Controller(..) => ROLES[4],
    }
}

/// Of a role and a kind of clients: the longest stall, the bound of that one, how many were longer than theirs, of how many.
struct Line {
    role: &'static str,
    group: Group,
    worst: Stall,
    long: usize,
    of: usize,
}

fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut lines = Vec::new();
    for wanted in ROLES {
        for group in Group::ALL {
            let is_it = |stall: &&Stall| role(stall.who) == wanted && stall.group == group;
            let all: Vec<Stall> = outcome.stalls.iter().filter(is_it).copied().collect();
            if let Some(worst) = all.iter().max_by_key(|stall| stall.worst) {
                let long = all.iter().filter(|stall| !stall.is_bounded()).count();
                lines.push(Line { role: wanted, group, worst: *worst, long, of: all.len() });
            }
        }
    }
    lines
}

/// Prints it.
pub fn print(kills: &Kills, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if kills.json { writeln!(out, "{:#}", to_json(kills, outcome)) } else { text(&mut out, kills, outcome) }
}

fn to_json(kills: &Kills, outcome: &Outcome) -> Value {
    let milliseconds = |span: Nanos| span.0 as f64 / 1e6;
    let stalls: Vec<Value> = lines(outcome)
        .iter()
        .map(|line| {
            json!({
                "killed": line.role,
                "clients": line.group.name(),
                "times": line.of,
                "longest_ms": milliseconds(line.worst.worst),
                "bound_ms": milliseconds(line.worst.bound),
                "longer_than_bound": line.long,
            })
        })
        .collect();
    let deaths: Vec<Value> = outcome
        .deaths
        .iter()
        .map(|death| {
            json!({
                "who": death.who.to_string(),
                "at_ms": milliseconds(death.at),
                "whole_ms": milliseconds(death.back),
            })
        })
        .collect();
    let by_group = |counts: [u64; 3]| {
        Value::Object(Group::ALL.iter().zip(counts).map(|(of, n)| (of.name().to_owned(), n.into())).collect())
    };
    json!({
        "seed": kills.seed,
        "kills": outcome.deaths.len(),
        "violations": outcome.broken(),
        "undecided": outcome.undecided(),
        "keys": outcome.report.good + outcome.report.violations.len() + outcome.report.gave_up.len(),
        "operations": by_group(outcome.begun),
        "answered": by_group(outcome.answered),
        "seconds": outcome.took.as_secs_f64(),
        "judged_ms": milliseconds(outcome.judged),
        "allowance_ms": milliseconds(ALLOWANCE),
        "longer_than_bound": outcome.long(),
        "stalls": stalls,
        "deaths": deaths,
    })
}

fn text(out: &mut impl Write, kills: &Kills, outcome: &Outcome) -> io::Result<()> {
    for (at, group) in Group::ALL.iter().enumerate() {
        let (begun, answered) = (outcome.begun[at], outcome.answered[at]);
        writeln!(out, "{:13} {begun:>8} operations, {} without an answer", group.name(), begun - answered)?;
    }
    writeln!(
        out,
        "\n{:19} {:>6} {:13} {:>13} {:>11} {:>7}",
        "killed", "times", "clients", "longest stall", "may be", "longer"
    )?;
    for Line { role, group, worst, long, of } in lines(outcome) {
        let (worst, bound) = (worst.worst.to_string(), worst.bound.to_string());
        writeln!(out, "{role:19} {of:>6} {:13} {worst:>13} {bound:>11} {long:>7}", group.name())?;
    }
    writeln!(out, "(for this machine's own pauses {ALLOWANCE} more are allowed)")?;
    for finding in outcome.report.violations.iter().chain(&outcome.report.gave_up).take(SHOWN) {
        writeln!(out, "\n{finding}")?;
    }
    let (broken, open) = (outcome.broken(), outcome.undecided());
    let verdict = match (broken, open) {
        (0, 0) => "nothing acknowledged was lost, nothing stale was read",
        (0, _) => "not decided",
        _ => "VIOLATION",
    };
    writeln!(
        out,
        "\n{verdict}: {} kills in {}, {broken} violations, {open} not decided, judged in {}; {} stalls longer than they may be; seed {}",
        outcome.deaths.len(),
        outcome.took,
        outcome.judged,
        outcome.long(),
        kills.seed
    )
}
