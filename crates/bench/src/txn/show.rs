//! The comparison as text for the terminal, and as a page.

use super::Outcome;
use super::rounds::{Line, Sample};
use crate::contest::Ratio;
use crate::report::axis::{Scale, Unit};
use crate::report::format::{digits, micros, ratio, short, whole};
use crate::report::plot::{self, LinePlot};
use crate::report::{Block, Report, Section, Table};
use std::collections::BTreeMap;
use std::fmt::Write;

type Read = fn(&Sample) -> f64;

/// What is compared round by round.
const METRICS: [(&str, Read); 4] = [
    ("mean", |sample| sample.latency.mean_us),
    ("p50", |sample| sample.latency.p50_us),
    ("p99", |sample| sample.latency.p99_us),
    ("per second", |sample| sample.per_second),
];

/// As text for the terminal.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let mut line = |text: &str| writeln!(out, "{text}").expect("a string takes any text");
    outcome.setup.iter().for_each(|text| line(&format!("  {text}")));
    for (title, lines) in cells(outcome) {
        line(&format!("\n  {title}"));
        line(figures(&lines).to_string().trim_end_matches('\n'));
        if let Some(table) = ratios(&lines) {
            line(&format!(
                "\n  {} over each other one in the same round, median (p10 to p90)",
                lines[0].side
            ));
            line(table.to_string().trim_end_matches('\n'));
        }
    }
    line("");
    notes(outcome).iter().for_each(|note| line(&format!("  {note}")));
    out
}

/// Lines that are compared with each other, with what they have in common.
fn cells(outcome: &Outcome) -> Vec<(String, Vec<&Line>)> {
    let mut cells: Vec<(String, Vec<&Line>)> = Vec::new();
    for line in &outcome.lines {
        let title = format!("{}: {}, {}", line.group, line.workload, line.load);
        match cells.last_mut().filter(|(last, _)| *last == title) {
            Some((_, lines)) => lines.push(line),
            None => cells.push((title, vec![line])),
        }
    }
    cells
}

fn figures(lines: &[&Line]) -> Table {
    let mut table = Table::new(["", "mean", "p50", "p99", "per second", "aborted", "again", "survives"]);
    for line in lines {
        table.row([
            line.side.clone(),
            micros(line.latency.mean_us),
            micros(line.latency.p50_us),
            micros(line.latency.p99_us),
            short(line.per_second),
            whole(line.aborted),
            whole(line.retried),
            line.promise.clone(),
        ]);
    }
    table
}

/// The first side's figures over those of the others, round by round.
fn ratios(lines: &[&Line]) -> Option<Table> {
    let (first, others) = lines.split_first()?;
    let mut table = Table::new(std::iter::once("over").chain(METRICS.iter().map(|(name, _)| *name)));
    for other in others {
        let cell = |read: Read| {
            let same = |sample: &Sample| other.samples.iter().find(|their| their.round == sample.round);
            let pairs: Vec<_> =
                first.samples.iter().map(|sample| (Some(read(sample)), same(sample).map(read))).collect();
            Ratio::of(&pairs).map(|found| found.ratio).map_or(String::new(), |spread| {
                format!("{} ({} to {})", ratio(spread.median), digits(spread.p10), digits(spread.p90))
            })
        };
        table.row(std::iter::once(other.side.clone()).chain(METRICS.iter().map(|(_, read)| cell(*read))));
    }
    (!table.is_empty()).then_some(table)
}

fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![
        "figures are of all rounds together; ratios of each round's slices, which are neighbours in time"
            .to_owned(),
        "again: reconnaissances whose values had changed, and locks that were taken; their time counts"
            .to_owned(),
    ];
    let mut distances = BTreeMap::new();
    for distance in outcome.lines.iter().flat_map(|line| &line.samples).flat_map(|sample| &sample.distances) {
        *distances.entry(distance.as_deref().unwrap_or("unknown")).or_insert(0u32) += 1;
    }
    let distances: Vec<String> = distances.iter().map(|(name, count)| format!("{name} {count}")).collect();
    notes.push(format!("cores before and after each slice: {}", distances.join(", ")));
    notes.extend(outcome.notes.iter().cloned());
    notes
}

/// As a page.
pub fn page(outcome: &Outcome) -> Report {
    let mut sections: Vec<Section> = cells(outcome)
        .into_iter()
        .map(|(title, lines)| {
            let mut blocks = vec![Block::Table(figures(&lines))];
            if let Some(table) = ratios(&lines) {
                let what =
                    format!("{} over each other one in the same round, median (p10 to p90):", lines[0].side);
                blocks.extend([Block::Text(what), Block::Table(table)]);
            }
            blocks.push(Block::Plot(curves(&title, &lines)));
            Section { title, blocks }
        })
        .collect();
    let notes = notes(outcome).into_iter().map(Block::Text).collect();
    sections.push(Section { title: "Notes".to_owned(), blocks: notes });
    let done: u64 = outcome.lines.iter().map(|line| line.latency.count).sum();
    Report {
        title: "millrace txn bench".to_owned(),
        subtitle: outcome.setup.join("\n"),
        verdict: (true, format!("{} transactions, each answered", whole(done))),
        sections,
        environment: outcome.environment.clone(),
    }
}

fn curves(title: &str, lines: &[&Line]) -> String {
    let line = |line: &&Line| plot::Line { name: line.side.clone(), points: line.curve.clone() };
    LinePlot {
        title: format!("Latency by percentile, {title}"),
        x: (Scale::Nines, Unit::Quantile),
        y: (Scale::Log, Unit::Micros),
        lines: lines.iter().map(line).collect(),
        filled: false,
        wide: true,
    }
    .svg()
}
