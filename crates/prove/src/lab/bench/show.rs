//! The comparison as a page, whose words and tables are the text for the terminal.

use super::Outcome;
use super::mode::Mode;
use super::rounds::{Line, Slice};
use base::spread::{self, Spread};
use bench::contest::{Ratio, show};
use bench::report::format::{digits, micros, percent, short, whole};
use bench::report::{Block, Report, Section, Table};

type Read = fn(&Slice) -> f64;

/// What is compared: name, figure, and how it is written.
const METRICS: [(&str, Read); 5] = [
    ("p50", |slice| slice.gets.p50_us),
    ("p99", |slice| slice.gets.p99_us),
    ("mean", |slice| slice.gets.mean_us),
    ("throughput", |slice| slice.ops_per_sec),
    ("requests per CPU second", |slice| slice.ops_per_cpu_sec),
];

fn loads(outcome: &Outcome) -> Vec<String> {
    let mut loads: Vec<String> = Vec::new();
    for line in &outcome.lines {
        if !loads.contains(&line.load()) {
            loads.push(line.load());
        }
    }
    loads
}

fn of<'a>(outcome: &'a Outcome, load: &'a str) -> impl Iterator<Item = &'a Line> {
    outcome.lines.iter().filter(move |line| line.load() == load)
}

fn median(line: &Line, read: impl Fn(&Slice) -> f64) -> f64 {
    spread::median(line.slices.iter().map(read))
}

fn figures(outcome: &Outcome, load: &str) -> Table {
    let mut table = Table::new([
        "",
        "p50",
        "p99",
        "mean",
        "hit p50",
        "hit p99",
        "hits",
        "per second",
        "server",
        "box",
        "server's core",
        "per CPU second",
        "sent again",
        "wrong",
    ]);
    let us = |line: &Line, read: Read| micros(median(line, read));
    let hit = |line: &Line, read: fn(&Slice) -> Option<f64>| {
        Spread::of(line.slices.iter().filter_map(read)).map_or(String::new(), |spread| micros(spread.median))
    };
    for line in of(outcome, load) {
        table.row([
            line.mode.to_string(),
            us(line, |s| s.gets.p50_us),
            us(line, |s| s.gets.p99_us),
            us(line, |s| s.gets.mean_us),
            hit(line, |s| Some(s.hits?.p50_us)),
            hit(line, |s| Some(s.hits?.p99_us)),
            percent(line.hit_share()),
            short(median(line, |s| s.ops_per_sec)),
            format!("{} µs", digits(median(line, |s| s.server_us))),
            format!("{} µs", digits(median(line, |s| s.box_us))),
            format!("{} µs", digits(line.server_core_us)),
            short(median(line, |s| s.ops_per_cpu_sec)),
            whole(line.total.sent_again),
            whole(line.total.wrong_count() + line.total.failed_count()),
        ]);
    }
    table
}

/// Each mode's figures over those of `base`, round by round.
fn ratios(outcome: &Outcome, load: &str, base: Mode) -> Option<Table> {
    let base_line = of(outcome, load).find(|line| line.mode == base)?;
    let rounds = |line: &Line, read: &dyn Fn(&Slice) -> Option<f64>| -> Vec<_> {
        line.slices.iter().map(|slice| (slice.round, read(slice))).collect()
    };
    let row = |line: &Line| {
        let ratio = |own: &dyn Fn(&Slice) -> Option<f64>, bases: Read| {
            Ratio::by_round(rounds(line, own), rounds(base_line, &|slice| Some(bases(slice))))
        };
        let metrics = METRICS.iter().map(|(_, read)| ratio(&|slice| Some(read(slice)), *read));
        let hit = ratio(&|slice| Some(slice.hits?.p50_us), |slice| slice.gets.p50_us);
        (line.mode.to_string(), metrics.chain([hit]).collect())
    };
    let metrics = METRICS.iter().map(|(name, _)| *name).chain(["hit p50"]);
    show::ratios("", metrics, of(outcome, load).filter(|line| line.mode != base).map(row))
}

fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![
        "server, box: processor time of the process for each operation. server's core: that core's busy time, whoever it worked for, in ticks of 10 ms".to_string(),
        "what the client's core does for a box (its XDP program, the first hop) is in no column: the client spins".to_string(),
    ];
    let distances = outcome.lines.iter().flat_map(|line| &line.slices).map(|slice| Some(&slice.distance[..]));
    notes.push(format!("cores before each slice: {}", show::distances(distances)));
    let checked: u64 = outcome.lines.iter().map(|line| line.total.verified).sum();
    notes.push(format!("{} values checked", whole(checked)));
    notes.extend(outcome.counted.iter().filter_map(|said| tiers(said)));
    notes.extend(outcome.counted.iter().cloned());
    notes.extend(outcome.notes.iter().cloned());
    for line in &outcome.lines {
        notes.extend(line.total.examples.iter().map(|example| format!("! {}: {example}", line.mode)));
        notes.extend(
            line.total.ended_early.iter().map(|cause| format!("! {} ended early: {cause}", line.mode)),
        );
    }
    notes
}

/// How a box's answers were shared out between its tiers, of what it counted.
fn tiers(said: &str) -> Option<String> {
    let count = |name: &str| -> Option<f64> {
        let rest = said.split(name).nth(1)?;
        rest.split(' ').next()?.parse().ok()
    };
    let (fast, slow) = (count(" xdp hits ")?, count(": hits ").unwrap_or(0.0));
    Some(format!(
        "of all that the box answered, warm-ups too, its XDP program did {}",
        percent(fast / (fast + slow))
    ))
}

/// See the file's head.
pub fn page(outcome: &Outcome) -> Report {
    let checked: u64 = outcome.lines.iter().map(|line| line.total.verified).sum();
    let verdict = match outcome.verdict() {
        Ok(()) => (true, format!("{} values checked, none wrong", whole(checked))),
        Err(error) => (false, error.to_string()),
    };
    let mut sections = Vec::new();
    for load in loads(outcome) {
        let mut blocks = vec![Block::Table(figures(outcome, &load))];
        for base in [Mode::NoBox, Mode::Tcp] {
            if let Some(table) = ratios(outcome, &load, base) {
                blocks.push(Block::Text(format!("Over {base} in the same round, median (p10 to p90):")));
                blocks.push(Block::Table(table));
            }
        }
        let curves = of(outcome, &load).map(|line| (line.mode.to_string(), &line.total.curve[..]));
        blocks.push(show::percentiles(&format!("Latency of all operations by percentile, {load}"), curves));
        sections.push(Section { title: format!("{load}: medians over rounds"), blocks });
    }
    let notes = notes(outcome).into_iter().map(Block::Text).collect();
    sections.push(Section { title: "Notes".to_string(), blocks: notes });
    Report {
        title: "millrace lab bench".to_string(),
        subtitle: outcome.setup.join("\n"),
        verdict,
        sections,
        environment: outcome.environment.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_share_the_hits_that_the_box_counted() {
        let said = tiers("box, XDP: box:1: hits 25 misses 7 xdp hits 75 xdp datagrams 90");
        assert!(said.is_some_and(|said| said.ends_with("75.00 %")));
        assert_eq!(tiers("box: box:1: hits 25 misses 7"), None);
    }
}
