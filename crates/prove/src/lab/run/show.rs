//! What a run of the laboratory prints.

use super::record::Class;
use super::stall::{ALLOWANCE, Stall};
use super::{Outcome, Run, counted};
use base::Nanos;
use protocol::coherence::NodeId;
use serve::inc::book;
use std::io::{self, Write};

/// Findings that are printed.
const SHOWN: usize = 3;

/// Prints it.
pub fn print(run: &Run, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Outcome { recorded, scene, stalls, report } = outcome;
    let rate = recorded.answered() as f64 / scene.took.as_secs_f64();
    let (called, took) = (recorded.called, scene.took);
    let unanswered = called - recorded.answered();
    writeln!(out, "{called} operations in {took}, {rate:.0} per second; {unanswered} without an answer")?;
    if called >= run.load.operations {
        writeln!(out, "ended early: --operations {} were done", run.load.operations)?;
    }
    let kills = scene.deaths.len();
    if kills < scene.planned {
        writeln!(out, "killed {kills} of {}: the others were to die later, or dead", scene.planned)?;
    }
    print_latencies(&mut out, outcome)?;
    print_stalls(&mut out, stalls)?;
    print_nodes(&mut out, outcome)?;
    for finding in report.violations.iter().chain(&report.gave_up).take(SHOWN) {
        writeln!(out, "\n{finding}")?;
    }
    let keys = report.good + report.violations.len() + report.gave_up.len();
    let (good, bad, open) = (report.good, report.violations.len(), report.gave_up.len());
    let verdict = match (bad, open) {
        (0, 0) => "linearizable",
        (0, _) => "not decided",
        _ => "VIOLATION",
    };
    let bounded = stalls.iter().filter(|stall| stall.is_bounded()).count();
    let bounds = if kills > 0 { format!(" ({bounded} stalls within bounds)") } else { String::new() };
    writeln!(
        out,
        "\n{verdict}: {good} of {keys} keys linearizable, {bad} not, {open} not decided; {called} operations, {kills} kills{bounds}, seed {}",
        run.load.seed
    )
}

fn print_latencies(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out, "\n{:22} {:>9} {:>10} {:>10}", "", "count", "median", "p99")?;
    for (class, name) in Class::ALL {
        let of = outcome.recorded.latencies.of(class);
        if !of.is_empty() {
            let at = |quantile| Nanos(of.value_at_quantile(quantile)).to_string();
            writeln!(out, "{name:22} {:>9} {:>10} {:>10}", of.len(), at(0.5), at(0.99))?;
        }
    }
    writeln!(out)
}

/// A death in a line.
fn print_stalls(out: &mut impl Write, stalls: &[Stall]) -> io::Result<()> {
    if stalls.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:14} {:>10} {:>10} {:>12} {:>12} {:>10} {:>11}",
        "killed", "at", "back after", "all stood", "one stood", "may stand", "hits after"
    )?;
    for stall in stalls {
        let (death, shown) =
            (&stall.death, |span: Option<Nanos>| span.map_or("-".into(), |span| span.to_string()));
        let back = shown(death.back.map(|back| back.since(death.at)));
        let bound = if stall.bound == Nanos(0) { "no time".into() } else { stall.bound.to_string() };
        let (role, at) = (death.role.to_string(), death.at.to_string());
        let (all, worst, hits) = (stall.all.to_string(), stall.worst.to_string(), shown(stall.hits));
        let excess = if stall.is_bounded() { "" } else { "  LONGER" };
        writeln!(out, "{role:14} {at:>10} {back:>10} {all:>12} {worst:>12} {bound:>10} {hits:>11}{excess}")?;
    }
    writeln!(out, "(for this machine's own pauses {ALLOWANCE} more are allowed)\n")
}

fn print_nodes(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    for (node, line) in &outcome.scene.nodes {
        let hits = counted(line, "hits") + counted(line, "xdp hits");
        let misses = counted(line, "misses");
        if matches!(node, NodeId::Box(_)) && hits + misses > 0 {
            let share = 100.0 * hits as f64 / (hits + misses) as f64;
            writeln!(out, "{}: hits {hits} of {} reads, {share:.1} %", book::name(*node), hits + misses)?;
        }
    }
    outcome.scene.nodes.iter().try_for_each(|(_, line)| writeln!(out, "{line}"))?;
    if outcome.scene.deaths.is_empty() {
        Ok(())
    } else {
        writeln!(out, "(killed processes took their counts with them)")
    }
}
