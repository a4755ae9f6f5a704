//! The comparison as a page, whose words and tables are the text for the terminal.

use super::Outcome;
use super::rounds::{Figures, Line};
use crate::contest::{Ratio, Sample, show};
use crate::report::format::{micros, short, whole};
use crate::report::{Block, Report, Section, Table};

type Read = fn(&Figures) -> f64;

/// What is compared round by round.
const METRICS: [(&str, Read); 4] = [
    ("mean", |figures| figures.latency.mean_us),
    ("p50", |figures| figures.latency.p50_us),
    ("p99", |figures| figures.latency.p99_us),
    ("per second", |figures| figures.per_second),
];

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
    let rounds = |line: &Line, read: Read| -> Vec<_> {
        let figure = |sample: &Sample<Figures>| (sample.round, Some(read(&sample.figures)));
        line.samples.iter().map(figure).collect()
    };
    let row = |other: &&Line| {
        let ratio = |(_, read): &(&str, Read)| Ratio::by_round(rounds(first, *read), rounds(other, *read));
        (other.side.clone(), METRICS.iter().map(ratio).collect())
    };
    show::ratios("over", METRICS.iter().map(|(name, _)| *name), others.iter().map(row))
}

fn notes(outcome: &Outcome) -> Vec<String> {
    let distances = outcome.lines.iter().flat_map(|line| &line.samples).flat_map(|sample| &sample.distances);
    let mut notes = vec![
        "figures are of all rounds together; ratios of each round's slices, which are neighbours in time"
            .to_owned(),
        "again: reconnaissances whose values had changed, and locks that were taken; their time counts"
            .to_owned(),
        format!("cores before and after each slice: {}", show::distances(distances.map(Option::as_deref))),
    ];
    notes.extend(outcome.notes.iter().cloned());
    notes
}

/// See the file's head.
pub fn page(outcome: &Outcome) -> Report {
    let section = |(title, lines): (String, Vec<&Line>)| {
        let mut blocks = vec![Block::Table(figures(&lines))];
        if let Some(table) = ratios(&lines) {
            let what =
                format!("{} over each other one in the same round, median (p10 to p90):", lines[0].side);
            blocks.extend([Block::Text(what), Block::Table(table)]);
        }
        let curves = lines.iter().map(|line| (line.side.clone(), &line.curve[..]));
        blocks.push(show::percentiles(&format!("Latency by percentile, {title}"), curves));
        Section { title, blocks }
    };
    let mut sections: Vec<Section> = cells(outcome).into_iter().map(section).collect();
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
