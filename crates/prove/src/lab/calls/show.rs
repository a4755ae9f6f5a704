//! The table of ways.

use super::rig::Way;
use super::{Figures, Outcome, Row};
use base::spread;
use bench::contest::{Ratio, show};
use bench::report::Table;
use bench::report::format::{micros, percent, short, whole};

/// As text for the terminal.
pub fn text(outcome: &Outcome) -> String {
    let columns = ["way", "p50", "p99", "per second", "of server", "of gRPC", "kept", "right"];
    let mut table = Table::new(columns);
    let other = |way| outcome.rows.iter().find(|row| row.way == way).expect("all ways are measured");
    for row in &outcome.rows {
        let median = |read: fn(&Figures) -> f64| spread::median(row.rounds.iter().map(read));
        table.row([
            row.way.to_string(),
            micros(median(|round| round.p50_us)),
            micros(median(|round| round.p99_us)),
            short(median(|round| round.per_sec)),
            of(row, other(Way::Handler)),
            of(row, other(Way::Grpc)),
            percent(row.counts.kept as f64 / row.counts.done.max(1) as f64),
            if row.counts.wrong == 0 { "yes" } else { "WRONG" }.to_string(),
        ]);
    }
    let boxes = ["box, XDP", "box"].into_iter().zip(&outcome.boxes).map(|(name, answered)| {
        format!(
            "  {name}: {} replies by its program, {} by its process\n",
            whole(answered.program),
            whole(answered.process)
        )
    });
    format!(
        "  {}\n\n{}\n{}  medians over rounds of all ways in turns; \"of\": p50 over that of the same round, median and p10 to p90; \"kept\": answered by the cache, as far as the client sees\n",
        outcome.setup,
        table.to_string().trim_end_matches('\n'),
        boxes.collect::<String>(),
    )
}

/// Medians of the same rounds, divided.
fn of(row: &Row, other: &Row) -> String {
    let pairs: Vec<_> = row
        .rounds
        .iter()
        .zip(&other.rounds)
        .map(|(own, theirs)| (Some(own.p50_us), Some(theirs.p50_us)))
        .collect();
    Ratio::of(&pairs).map(|ratio| show::spread_of_ratio(&ratio.ratio)).unwrap_or_default()
}
