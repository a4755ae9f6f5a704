//! The result for people: a table, and a page with plots.

use super::trial::{Outcome, RSS_LIMIT, Sample};
use base::Bytes;
use bench::report::Drawing;
use bench::report::axis::{Scale, Unit};
use bench::report::environment;
use bench::report::format::{micros, short, whole};
use bench::report::html::{Block, Report, Section};
use bench::report::plot::{Line, LinePlot};
use bench::report::table::Table;

/// The result as text.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut text = format!("\n{}", table(outcomes));
    for outcome in outcomes {
        text.push_str(&format!("\n  {}: {}\n", outcome.mode, verdict(outcome)));
        outcome.examples.iter().for_each(|example| text.push_str(&format!("    {example}\n")));
        if let Some(note) = note(outcome) {
            text.push_str(&format!("    {note}\n"));
        }
    }
    text
}

fn verdict(o: &Outcome) -> String {
    match o.faults {
        0 => "every promise was kept".to_string(),
        n => format!("{} promises were broken", whole(n)),
    }
}

/// What a reader should know before trusting the verdict.
fn note(o: &Outcome) -> Option<&'static str> {
    match (o.mode, o.occupied) {
        ("store", x) if x < 0.88 => Some("the memory was not 90 % full in the second half: run for longer"),
        ("cache", _) if o.evictions == 0 => Some("nothing was evicted: run for longer"),
        _ => None,
    }
}

/// A share that may be more than a whole.
fn of_limit(share: f64) -> String {
    format!("{:.2} % of the limit", share * 100.0)
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(std::iter::once("").chain(outcomes.iter().map(|o| o.mode)));
    let mut row = |name: &str, cell: fn(&Outcome) -> String| {
        table.row(std::iter::once(name.to_string()).chain(outcomes.iter().map(cell)));
    };
    row("time", |o| format!("{:.0} s", o.seconds));
    row("memory limit", |o| Bytes(o.limit).to_string());
    row("items and index, second half", |o| of_limit(o.occupied));
    row("resident memory, most", |o| of_limit(o.rss_peak));
    row("resident memory, before clients", |o| of_limit(o.rss_at_start));
    row("operations", |o| whole(o.ops));
    row("reads checked", |o| whole(o.reads));
    row("writes acknowledged", |o| whole(o.writes));
    row("writes refused, memory full", |o| whole(o.refusals));
    row("items evicted", |o| whole(o.evictions));
    row("keys read at the end", |o| format!("{} of {}", whole(o.checked_at_end), whole(o.keys)));
    row("of these present for certain", |o| whole(o.present_at_end));
    row("clients killed / stopped / strangers", |o| {
        format!("{} / {} / {}", whole(o.chaos.kills), whole(o.chaos.stops), whole(o.chaos.strangers))
    });
    row("writes cut off by a kill", |o| whole(o.cut_off));
    row("connections closed, buffers full", |o| whole(o.closed));
    row("threads at start / most", |o| format!("{} / {}", o.threads.0, o.threads.1));
    row("descriptors at start / most / end", |o| {
        format!("{} / {} / {}", o.descriptors.0, o.descriptors.1, o.descriptors.2)
    });
    row("server CPU", |o| format!("{:.1} s, {}/op", o.cpu_s, micros(o.cpu_us_per_op)));
    row("answer in a batch, p50 / p99", |o| {
        format!("{} / {}", micros(o.p50_us as f64), micros(o.p99_us as f64))
    });
    row("SIGTERM to the end", |o| micros(o.drain_ms * 1e3));
    row("promises broken", |o| whole(o.faults));
    table
}

/// The result as a page.
pub fn page(outcomes: &[Outcome]) -> Report {
    let mut sections = vec![section("Result", vec![Block::Table(table(outcomes))])];
    for outcome in outcomes {
        let mut blocks: Vec<Block> = outcome.examples.iter().cloned().map(Block::Text).collect();
        blocks.extend(note(outcome).map(|note| Block::Text(note.to_string())));
        let memory: [Course; 2] =
            [("resident memory", |s| s.rss * 100.0), ("items and index", |s| s.occupied * 100.0)];
        blocks.push(Block::Plot(over_time("Memory, % of the limit", outcome, &memory)));
        sections.push(section(&format!("Mode {}", outcome.mode), blocks));
    }
    let faults: u64 = outcomes.iter().map(|o| o.faults).sum();
    let kept = format!(
        "{} reads checked, every promise kept, resident memory at most {}",
        short(outcomes.iter().map(|o| o.reads as f64).sum()),
        of_limit(outcomes.iter().map(|o| o.rss_peak).fold(0.0, f64::max))
    );
    Report {
        title: "millrace soak".to_string(),
        subtitle: format!(
            "clients killed, stopped and misbehaving; at most {} allowed as resident memory",
            of_limit(RSS_LIMIT)
        ),
        verdict: (faults == 0, if faults == 0 { kept } else { format!("{} promises broken", whole(faults)) }),
        sections,
        environment: environment::facts(),
    }
}

fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.to_string(), blocks }
}

/// Plots keep to some hundred points.
const POINTS: usize = 400;

/// A line: its name, and what of a sample it shows.
type Course = (&'static str, fn(&Sample) -> f64);

fn over_time(title: &str, outcome: &Outcome, lines: &[Course]) -> Drawing {
    let step = outcome.samples.len().div_ceil(POINTS).max(1);
    let line = |(name, read): &Course| Line {
        name: (*name).to_string(),
        points: outcome.samples.iter().step_by(step).map(|s| (s.at_s, read(s))).collect(),
    };
    LinePlot {
        title: title.to_string(),
        x: (Scale::Linear, Unit::Seconds),
        y: (Scale::Linear, Unit::Count),
        lines: lines.iter().map(line).collect(),
        filled: false,
        wide: true,
    }
    .draw()
}
