//! The result as a page, whose words and tables are the text for the terminal.

use super::{Outcome, Result};
use crate::contest::show;
use crate::report::format::{digits, micros, percent, short, whole};
use crate::report::plot;
use crate::report::{Block, Report, Section, Table};

fn figures(result: &Result) -> Table {
    let columns = ["", "requests/s", "queries/s", "p50", "p99", "together", "preprocess", "engine", "failed"];
    let mut table = Table::new(columns);
    for line in &result.lines {
        table.row([
            line.name.clone(),
            short(line.requests_per_sec),
            short(line.queries_per_sec),
            micros(line.latency.p50_us),
            micros(line.latency.p99_us),
            digits(line.together),
            percent(line.preprocess_busy),
            percent(line.engine_busy),
            whole(line.failed),
        ]);
    }
    table
}

fn stages(result: &Result) -> Table {
    let names =
        result.lines.first().into_iter().flat_map(|line| &line.stages).map(|stage| stage.name.clone());
    let mut table =
        Table::new(std::iter::once(String::new()).chain(names).chain(["reply (mean)".to_owned()]));
    for line in &result.lines {
        let stage = |stage: &crate::report::StageBreakdown| {
            format!("{} ({})", micros(stage.p50_ns as f64 / 1e3), micros(stage.p99_ns as f64 / 1e3))
        };
        let cells = line.stages.iter().map(stage).chain([micros(line.reply_us)]);
        table.row(std::iter::once(line.name.clone()).chain(cells));
    }
    table
}

fn notes() -> [&'static str; 2] {
    [
        "together: queries that the engine computed at once, on average over requests; preprocess, engine: share of a core",
        "reduce and mlp are of the whole batch; what stages leave of the latency is sockets, reply and wake-ups",
    ]
}

/// See the file's head.
pub fn page(result: &Result) -> Report {
    let curves = result.lines.iter().map(|line| (line.name.clone(), &line.curve[..]));
    let blocks = vec![Block::Table(figures(result)), show::percentiles("Latency by percentile", curves)];
    let bar = |line: &Outcome| Block::Plot(plot::stage_bar(&line.name, &line.stages));
    let mut stage_blocks = vec![Block::Table(stages(result))];
    stage_blocks.extend(result.lines.iter().map(bar));
    stage_blocks.extend(notes().map(|note| Block::Text(note.to_owned())));
    let failed: u64 = result.lines.iter().map(|line| line.failed).sum();
    let count: u64 = result.lines.iter().map(|line| line.latency.count).sum();
    Report {
        title: "millrace rec bench".to_owned(),
        subtitle: result.setup.join("\n"),
        verdict: (failed == 0, format!("{} requests answered, {} failed", whole(count), whole(failed))),
        sections: vec![
            Section { title: "Result".to_owned(), blocks },
            Section { title: "Stages, median (p99)".to_owned(), blocks: stage_blocks },
        ],
        environment: result.environment.clone(),
    }
}
