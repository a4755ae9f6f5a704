//! What came of the contest, as tables and as a page: of a node, or of machines of the model.

use super::script::Load;
use super::{Figures, IN_TIME, Outcome};
use base::spread::Spread;
use bench::report::chart::{Bar, Series, bars, lines};
use bench::report::format::{digits, micros, ratio};
use bench::report::{Block, Report, Section, Table, Tile};

/// A placer is to reach this part of the best fixed placement, and of `leave`, in every phase.
const GOALS: [f64; 2] = [0.9, 0.95];

/// Scores that are nothing.
const NOTHING: f64 = 1e-3;

/// A policy's score divided by another's, phase by phase after the first change. A phase in which neither answers anything in time says nothing.
fn ratios(of: &[Figures], over: impl Fn(usize) -> f64) -> Vec<f64> {
    let from = usize::from(of.len() > 1);
    let both = (from..of.len()).map(|phase| (of[phase].score(), over(phase)));
    both.filter(|(own, other)| own.max(*other) > NOTHING).map(|(own, other)| own / other.max(1e-9)).collect()
}

fn least(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Outcome {
    /// Policies that are not fixed: those that move, and `leave`.
    fn rivals(&self) -> &[(String, Vec<Figures>)] {
        &self.policies[..self.policies.len() - self.fixed]
    }

    fn fixed(&self) -> &[(String, Vec<Figures>)] {
        &self.policies[self.policies.len() - self.fixed..]
    }

    /// The best score of a fixed placement in a phase, and whose: of equals the first.
    fn best_fixed(&self, phase: usize) -> (f64, &str) {
        let fixed = self.fixed().iter().rev();
        let scores = fixed.filter_map(|(name, figures)| Some((figures.get(phase)?.score(), &**name)));
        scores.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, "–"))
    }

    fn of(&self, name: &str) -> &[Figures] {
        self.policies.iter().find(|(of, _)| of == name).map_or(&[], |(_, figures)| figures)
    }

    pub(super) fn over_best_fixed(&self, of: &[Figures]) -> Vec<f64> {
        ratios(of, |phase| self.best_fixed(phase).0)
    }

    pub(super) fn over(&self, of: &[Figures], other: &str) -> Vec<f64> {
        let other = self.of(other);
        if other.is_empty() {
            return Vec::new();
        }
        ratios(of, |phase| other.get(phase).map_or(0.0, Figures::score))
    }

    /// The host's placement that is best on average over the phases, where there are others than the host's.
    fn host(&self) -> Option<&str> {
        let hosts = self.hosts.iter().rev();
        hosts.map(|name| &**name).max_by(|a, b| mean(self.of(a)).total_cmp(&mean(self.of(b))))
    }

    pub(super) fn lost(&self) -> u64 {
        self.policies.iter().flat_map(|(_, figures)| figures).map(Figures::lost).sum()
    }

    /// How often a policy reaches the goals.
    fn reached(&self, (name, figures): &(String, Vec<Figures>)) -> String {
        let (best, leave) = (self.over_best_fixed(figures), self.over(figures, "leave"));
        let reach = |ratios: &[f64], goal: f64| ratios.iter().filter(|ratio| **ratio >= goal).count();
        format!(
            "{name}: {} of the best fixed placement at least in {} of {} phases (least {}), {} of leave in {} (least {})",
            digits(GOALS[0]),
            reach(&best, GOALS[0]),
            best.len(),
            digits(least(&best)),
            digits(GOALS[1]),
            reach(&leave, GOALS[1]),
            digits(least(&leave)),
        )
    }
}

/// The mean score after the first change, in percent.
fn mean(figures: &[Figures]) -> f64 {
    let after = figures.get(1..).unwrap_or_default();
    100.0 * after.iter().map(Figures::score).sum::<f64>() / after.len().max(1) as f64
}

/// Median and least.
fn median_and_least(ratios: &[f64]) -> Option<(String, String)> {
    Spread::of_all(ratios).map(|spread| (ratio(spread.median), digits(least(ratios))))
}

fn both(ratios: &[f64]) -> String {
    median_and_least(ratios).map_or("–".to_owned(), |(median, least)| format!("{median} (least {least})"))
}

fn summary(outcome: &Outcome) -> Table {
    let host = outcome.host();
    let heads = ["policy", outcome.counts, "over best fixed", "over leave", "over greedy"];
    let heads = heads.into_iter().chain(host.map(|_| "over host only"));
    let mut table = Table::new(heads.chain(["cores", "moves", "lost"]));
    for (name, figures) in &outcome.policies {
        let after = figures.get(1..).unwrap_or_default();
        let cores = after.iter().map(|one| one.cores).sum::<f64>() / after.len().max(1) as f64;
        let over = |other: &str| both(&outcome.over(figures, other));
        let mut row = vec![
            name.clone(),
            format!("{:.1} %", mean(figures)),
            both(&outcome.over_best_fixed(figures)),
            over("leave"),
            over("greedy"),
        ];
        row.extend(host.map(over));
        row.extend([
            format!("{cores:.2}"),
            figures.iter().map(|one| one.moves).sum::<u32>().to_string(),
            figures.iter().map(Figures::lost).sum::<u64>().to_string(),
        ]);
        table.row(row);
    }
    table
}

fn phases(outcome: &Outcome) -> Table {
    // A machine of the model has the key-value store alone.
    let asked = outcome.script.first().map(Load::asked).unwrap_or_default();
    let services: Vec<&str> = match &outcome.platform {
        None => asked.into_iter().map(|(service, _)| service).collect(),
        Some(_) => vec!["store"],
    };
    let heads =
        std::iter::once("phase").chain(services.iter().copied()).chain(["best fixed", outcome.counts]);
    let rivals = outcome.rivals().iter().map(|(name, _)| &**name);
    let mut table = Table::new(heads.chain(rivals).chain(["model stands"]));
    for (phase, load) in outcome.script.iter().enumerate() {
        let Some(model) = outcome.of("model").get(phase) else { break };
        let score = |(_, of): &(String, Vec<Figures>)| {
            of.get(phase).map_or("–".to_owned(), |one| format!("{:.1} %", 100.0 * one.score()))
        };
        let (best, whose) = outcome.best_fixed(phase);
        let mut row = vec![format!("{phase} {}", load.change)];
        row.extend(load.asked().into_iter().take(services.len()).map(|(_, asked)| asked));
        row.extend([whose.to_owned(), format!("{:.1} %", 100.0 * best)]);
        row.extend(outcome.rivals().iter().map(score));
        row.push(model.placement.clone());
        table.row(row);
    }
    table
}

fn latencies(outcome: &Outcome) -> Table {
    let first = outcome.policies.iter().flat_map(|(_, figures)| figures.first()).next();
    let services: Vec<&str> = first.iter().flat_map(|of| of.services.iter().map(|one| one.service)).collect();
    let mut table = Table::new(std::iter::once("p99, median of phases").chain(services.iter().copied()));
    for (name, figures) in &outcome.policies {
        let of = |service: &&str| {
            let after = figures.iter().skip(1);
            let all: Vec<f64> = after
                .flat_map(|one| &one.services)
                .filter(|served| served.service == *service)
                .map(|served| served.p99_us)
                .collect();
            Spread::of_all(&all).map_or("–".to_owned(), |spread| micros(spread.median))
        };
        table.row(std::iter::once(name.clone()).chain(services.iter().map(of)));
    }
    table
}

fn head(outcome: &Outcome) -> String {
    let changes = outcome.script.len().saturating_sub(1);
    let (what, of) = match &outcome.platform {
        _ if outcome.counts != IN_TIME => {
            return format!(
                "gets that found their key as a share of what was asked, mean of two caches; {changes} changes of load"
            );
        }
        Some(platform) => (format!("on {platform}, in virtual time: "), ""),
        None => (String::new(), ", mean of three services"),
    };
    format!(
        "{what}answers within {} as a share of what was asked{of}; {changes} changes of load, seed {}",
        micros(outcome.slo_us),
        outcome.seed
    )
}

/// Of everybody who moves.
fn goals(outcome: &Outcome) -> Vec<String> {
    let moving = outcome.rivals().iter().filter(|(name, _)| name != "leave");
    moving.map(|policy| outcome.reached(policy)).collect()
}

/// As text.
pub(super) fn text(outcome: &Outcome) -> String {
    let host = outcome.host().map_or(String::new(), |name| format!("\nhost only: {name}"));
    format!(
        "{}\n\n{}\n{}\n{}\n{}{host}\n",
        head(outcome),
        phases(outcome),
        summary(outcome),
        latencies(outcome),
        goals(outcome).join("\n")
    )
}

fn share(outcome: &Outcome) -> String {
    format!("{}, % of what was asked", outcome.counts)
}

/// Score over phases of all that moves, of `leave` and of the best fixed placement of each phase.
fn plot(outcome: &Outcome) -> Block {
    let points = |score: &dyn Fn(usize) -> f64| {
        (0..outcome.script.len()).map(|phase| (phase as f64, 100.0 * score(phase))).collect()
    };
    let series =
        |name: &str, points: Vec<(f64, f64)>| Series { name: name.to_owned(), points, published: Vec::new() };
    let of = |(name, figures): &(String, Vec<Figures>)| {
        series(name, points(&|phase| figures.get(phase).map_or(0.0, Figures::score)))
    };
    let mut all: Vec<Series> = outcome.rivals().iter().map(of).collect();
    all.push(series("best fixed", points(&|phase| outcome.best_fixed(phase).0)));
    Block::Plot(lines(&share(outcome), "phase", &all))
}

fn sections(outcome: &Outcome) -> Vec<Section> {
    let model = outcome.of("model");
    let (best, leave) = (outcome.over_best_fixed(model), outcome.over(model, "leave"));
    let tile =
        |label: &str, value: String, note: &str| Tile { label: label.into(), value, note: note.into() };
    let ratio = |label: &str, ratios: &[f64]| match median_and_least(ratios) {
        Some((median, least)) => tile(label, median, &format!("placer, phase by phase; least {least}")),
        None => tile(label, "–".to_owned(), "placer, phase by phase"),
    };
    let moves: u32 = model.iter().map(|one| one.moves).sum();
    let tiles = vec![
        ratio("over best fixed", &best),
        ratio("over leave", &leave),
        tile("moves", moves.to_string(), "of the placer"),
        tile("lost", outcome.lost().to_string(), "requests of all policies"),
    ];
    let bar = |(n, (name, figures)): (usize, &(String, Vec<Figures>))| Bar {
        name: name.clone(),
        value: mean(figures),
        group: usize::from(n >= outcome.rivals().len()),
    };
    let all: Vec<Bar> = outcome.policies.iter().enumerate().map(bar).collect();
    let title = |what: &str| match &outcome.platform {
        Some(platform) => format!("{what} on {platform}"),
        None => what.to_owned(),
    };
    vec![
        Section {
            title: title("Policies"),
            blocks: vec![
                Block::Tiles(tiles),
                Block::Plot(bars(&share(outcome), &all)),
                Block::Table(summary(outcome)),
            ],
        },
        Section { title: title("Phases"), blocks: vec![plot(outcome), Block::Table(phases(outcome))] },
        Section { title: title("Latency"), blocks: vec![Block::Table(latencies(outcome))] },
    ]
}

/// As a page.
pub(super) fn page(outcomes: &[Outcome]) -> Report {
    let lost: u64 = outcomes.iter().map(Outcome::lost).sum();
    Report {
        title: "Placement under a load that changes".into(),
        subtitle: outcomes.iter().map(head).collect::<Vec<_>>().join("; "),
        verdict: (
            lost == 0,
            if lost == 0 { "No request was lost".into() } else { format!("{lost} requests were lost") },
        ),
        sections: outcomes.iter().flat_map(sections).collect(),
        environment: outcomes.first().map_or_else(Vec::new, |one| one.environment.clone()),
    }
}
