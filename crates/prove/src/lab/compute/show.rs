//! The table of computations.

use super::Outcome;
use super::cell::{Row, Slice};
use base::spread;
use bench::contest::{Ratio, show};
use bench::report::Table;
use bench::report::format::{digits, micros, percent, short};
use std::fmt::Write;

/// As text for the terminal.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let mut line = |text: &str| writeln!(out, "{text}").expect("a string takes any text");
    line(&format!("  {}", outcome.setup));
    line("");
    line(table(outcome).to_string().trim_end_matches('\n'));
    line("");
    line(
        "  medians over rounds of all lines in turns; \"of server\": p50 over that of the same round at the server, median and p10 to p90",
    );
    outcome.note.iter().for_each(|note| line(&format!("  {note}")));
    for row in outcome.rows.iter().filter(|row| !row.is_right()) {
        line(&format!(
            "  ! {} at {} by {}: holds {}, may hold {:?}",
            row.operation, row.way.name, row.clients, row.holds, row.may_hold
        ));
    }
    let right = outcome.rows.iter().filter(|row| row.is_right()).count();
    line(&format!("  results: {right} of {} are what their operations make them", outcome.rows.len()));
    out
}

fn table(outcome: &Outcome) -> Table {
    let columns = [
        "operation",
        "at",
        "clients",
        "p50",
        "p99",
        "per second",
        "of server",
        "conflicts",
        "by boxes",
        "right",
    ];
    let mut table = Table::new(columns);
    for row in &outcome.rows {
        let median = |read: fn(&Slice) -> f64| spread::median(row.slices.iter().map(read));
        let server = outcome.rows.iter().find(|other| {
            other.operation == row.operation && other.clients == row.clients && other.way.is_server()
        });
        let counts = &row.counts;
        table.row([
            row.operation.to_string(),
            row.way.name.clone(),
            row.clients.to_string(),
            micros(median(|slice| slice.p50_us)),
            micros(median(|slice| slice.p99_us)),
            short(median(|slice| slice.ops_per_sec)),
            server.and_then(|server| of_server(row, server)).unwrap_or_default(),
            digits(counts.conflicts as f64 / counts.done.max(1) as f64),
            percent(counts.from_box as f64 / counts.done.max(1) as f64),
            if row.is_right() { "yes" } else { "WRONG" }.to_string(),
        ]);
    }
    table
}

/// Medians of the same rounds, divided.
fn of_server(row: &Row, server: &Row) -> Option<String> {
    let pairs: Vec<_> = row
        .slices
        .iter()
        .zip(&server.slices)
        .map(|(own, theirs)| (Some(own.p50_us), Some(theirs.p50_us)))
        .collect();
    Some(show::spread_of_ratio(&Ratio::of(&pairs)?.ratio))
}
