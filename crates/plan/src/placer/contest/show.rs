//! What came of the contest, as tables and as a page.

use super::{Figures, Outcome};
use base::spread::Spread;
use bench::report::chart::{Bar, bars};
use bench::report::format::{digits, micros, ratio};
use bench::report::{Block, Report, Section, Table, Tile};

/// Policies that are not fixed come first.
const MOVING_POLICIES: usize = 3;

/// A policy's score divided by another's, phase by phase after the first change.
fn ratios(of: &[Figures], over: impl Fn(usize) -> f64) -> Vec<f64> {
    let from = usize::from(of.len() > 1);
    (from..of.len()).map(|phase| of[phase].score() / over(phase).max(1e-9)).collect()
}

impl Outcome {
    /// The best score of a fixed placement in a phase, and whose.
    fn best_fixed(&self, phase: usize) -> (f64, &str) {
        let fixed = self.policies.iter().skip(MOVING_POLICIES);
        let scores = fixed.filter_map(|(name, figures)| Some((figures.get(phase)?.score(), &**name)));
        scores.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, "–"))
    }

    fn of(&self, name: &str) -> &[Figures] {
        self.policies.iter().find(|(of, _)| of == name).map_or(&[], |(_, figures)| figures)
    }

    fn over_best_fixed(&self, of: &[Figures]) -> Vec<f64> {
        ratios(of, |phase| self.best_fixed(phase).0)
    }

    fn over_leave(&self, of: &[Figures]) -> Vec<f64> {
        let leave = self.of("leave");
        ratios(of, |phase| leave.get(phase).map_or(0.0, Figures::score))
    }
}

/// Median and least.
fn median_and_least(ratios: &[f64]) -> Option<(String, String)> {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    Spread::of_all(ratios).map(|spread| (ratio(spread.median), digits(least)))
}

fn both(ratios: &[f64]) -> String {
    median_and_least(ratios).map_or("–".to_owned(), |(median, least)| format!("{median} (least {least})"))
}

fn summary(outcome: &Outcome) -> Table {
    let heads = ["policy", "in time", "over best fixed", "over leave", "cores", "moves", "lost"];
    let mut table = Table::new(heads);
    for (name, figures) in &outcome.policies {
        let after = figures.get(1..).unwrap_or_default();
        let mean =
            |of: &dyn Fn(&Figures) -> f64| after.iter().map(of).sum::<f64>() / after.len().max(1) as f64;
        table.row([
            name.clone(),
            format!("{:.1} %", 100.0 * mean(&|one| one.score())),
            both(&outcome.over_best_fixed(figures)),
            both(&outcome.over_leave(figures)),
            format!("{:.2}", mean(&|one| one.cores)),
            figures.iter().map(|one| one.moves).sum::<u32>().to_string(),
            figures.iter().map(Figures::lost).sum::<u64>().to_string(),
        ]);
    }
    table
}

fn phases(outcome: &Outcome) -> Table {
    let mut table = Table::new([
        "phase",
        "kv",
        "rpc",
        "rec",
        "best fixed",
        "in time",
        "model",
        "greedy",
        "leave",
        "model stands",
    ]);
    for (phase, load) in outcome.script.iter().enumerate() {
        let Some(model) = outcome.of("model").get(phase) else { break };
        let score = |name: &str| {
            let of = outcome.of(name).get(phase);
            of.map_or("–".to_owned(), |one| format!("{:.1} %", 100.0 * one.score()))
        };
        let (best, whose) = outcome.best_fixed(phase);
        let skew = if load.kv_skew > 0.0 { "zipf" } else { "uniform" };
        table.row([
            format!("{phase} {}", load.change),
            format!("{}/s {} B {} % set {skew}", load.kv_rate, load.kv_value, load.kv_sets_percent),
            format!("{}/s {} B", load.rpc_rate, load.rpc_payload),
            format!("{}/s × {}", load.rec_rate, load.rec_queries),
            whose.to_owned(),
            format!("{:.1} %", 100.0 * best),
            score("model"),
            score("greedy"),
            score("leave"),
            model.placement.clone(),
        ]);
    }
    table
}

fn latencies(outcome: &Outcome) -> Table {
    let services = ["cache", "demo", "rank"];
    let mut table = Table::new(std::iter::once("p99, median of phases").chain(services));
    for (name, figures) in &outcome.policies {
        let of = |service: &str| {
            let after = figures.iter().skip(1);
            let all: Vec<f64> = after
                .flat_map(|one| &one.services)
                .filter(|served| served.service == service)
                .map(|served| served.p99_us)
                .collect();
            Spread::of_all(&all).map_or("–".to_owned(), |spread| micros(spread.median))
        };
        table.row(std::iter::once(name.clone()).chain(services.map(of)));
    }
    table
}

fn head(outcome: &Outcome) -> String {
    format!(
        "answers within {} as a share of what was asked, mean of three services; {} changes of load, seed {}",
        micros(outcome.slo_us),
        outcome.script.len().saturating_sub(1),
        outcome.seed
    )
}

/// As text.
pub(super) fn text(outcome: &Outcome) -> String {
    format!("{}\n\n{}\n{}\n{}", head(outcome), phases(outcome), summary(outcome), latencies(outcome))
}

/// As a page.
pub(super) fn page(outcome: &Outcome) -> Report {
    let model = outcome.of("model");
    let (best, leave) = (outcome.over_best_fixed(model), outcome.over_leave(model));
    let tile =
        |label: &str, value: String, note: &str| Tile { label: label.into(), value, note: note.into() };
    let ratio = |label: &str, ratios: &[f64]| match median_and_least(ratios) {
        Some((median, least)) => tile(label, median, &format!("placer, phase by phase; least {least}")),
        None => tile(label, "–".to_owned(), "placer, phase by phase"),
    };
    let moves: u32 = model.iter().map(|one| one.moves).sum();
    let lost: u64 = outcome.policies.iter().flat_map(|(_, all)| all).map(Figures::lost).sum();
    let tiles = vec![
        ratio("over best fixed", &best),
        ratio("over leave", &leave),
        tile("moves", moves.to_string(), "of the placer"),
        tile("lost", lost.to_string(), "requests of all policies"),
    ];
    let mean = |figures: &[Figures]| {
        let after = figures.get(1..).unwrap_or_default();
        100.0 * after.iter().map(Figures::score).sum::<f64>() / after.len().max(1) as f64
    };
    let bar = |(n, (name, figures)): (usize, &(String, Vec<Figures>))| Bar {
        name: name.clone(),
        value: mean(figures),
        group: usize::from(n >= MOVING_POLICIES),
    };
    let all: Vec<Bar> = outcome.policies.iter().enumerate().map(bar).collect();
    Report {
        title: "Placement under a load that changes".into(),
        subtitle: head(outcome),
        verdict: (
            lost == 0,
            if lost == 0 { "No request was lost".into() } else { format!("{lost} requests were lost") },
        ),
        sections: vec![
            Section {
                title: "Policies".into(),
                blocks: vec![
                    Block::Tiles(tiles),
                    Block::Plot(bars("in time, % of what was asked", &all)),
                    Block::Table(summary(outcome)),
                ],
            },
            Section { title: "Phases".into(), blocks: vec![Block::Table(phases(outcome))] },
            Section { title: "Latency".into(), blocks: vec![Block::Table(latencies(outcome))] },
        ],
        environment: outcome.environment.clone(),
    }
}
