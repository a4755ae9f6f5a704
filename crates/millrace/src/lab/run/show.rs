//! What a run of the laboratory prints.

use super::record::Class;
use super::{Outcome, Run};
use crate::inc::book;
use crate::inc::run::show;
use base::Nanos;
use protocol::coherence::NodeId;
use std::io::{self, Write};

/// Findings that are printed.
const SHOWN: usize = 3;

/// Prints it.
pub fn print(run: &Run, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Outcome { recorded, rack, took, kills, report } = outcome;
    let rate = recorded.answered as f64 / took.as_secs_f64();
    let unanswered = recorded.called - recorded.answered;
    writeln!(
        out,
        "{} operations in {took}, {rate:.0} per second; {unanswered} without an answer",
        recorded.called
    )?;
    if recorded.called >= run.load.operations {
        writeln!(out, "ended early: --operations {} were done", run.load.operations)?;
    }
    if *kills < run.kill.len() {
        writeln!(out, "killed {kills} of {}: the others were to die later, or dead", run.kill.len())?;
    }
    writeln!(out, "\n{:22} {:>9} {:>10} {:>10}", "", "count", "median", "p99")?;
    for (class, name) in Class::ALL {
        let of = recorded.latencies.of(class);
        if !of.is_empty() {
            let at = |quantile| Nanos(of.value_at_quantile(quantile)).to_string();
            writeln!(out, "{name:22} {:>9} {:>10} {:>10}", of.len(), at(0.5), at(0.99))?;
        }
    }
    writeln!(out)?;
    for node in rack.counted().keys() {
        let (hits, misses) = (rack.count(*node, "hits"), rack.count(*node, "misses"));
        if matches!(node, NodeId::Box(_)) && hits + misses > 0 {
            let share = 100.0 * hits as f64 / (hits + misses) as f64;
            writeln!(out, "{}: hits {hits} of {} reads, {share:.1} %", book::name(*node), hits + misses)?;
        }
    }
    for (node, counters) in rack.counted() {
        writeln!(out, "{}", show(*node, counters))?;
    }
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
    writeln!(
        out,
        "\n{verdict}: {good} of {keys} keys linearizable, {bad} not, {open} not decided; {} operations, {kills} kills, seed {}",
        recorded.called, run.load.seed
    )
}
