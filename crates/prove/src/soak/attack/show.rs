//! The result for people.

use super::Outcome;
use super::kinds::KINDS;
use base::Bytes;
use bench::contest::Ratio;
use bench::report::format::{micros, whole};
use bench::report::table::Table;

/// All attacks.
pub fn list() -> String {
    let mut table = Table::new(["name", "server", "what happens"]);
    for kind in KINDS {
        table.row([kind.name, kind.role.name(), kind.says].map(str::to_owned));
    }
    table.to_string()
}

/// The result as text.
pub fn text(outcomes: &[Outcome], bound: f64) -> String {
    let mut table = Table::new([
        "attack",
        "p50 quiet",
        "attacked",
        "ratio [p10..p90]",
        "p99 quiet",
        "attacked",
        "ratio [p10..p90]",
        "longest",
        "failed",
        "memory, most of budget",
        "verdict",
    ]);
    for outcome in outcomes {
        let [quiet50, attacked50, ratio50] = cells(&outcome.p50);
        let [quiet99, attacked99, ratio99] = cells(&outcome.p99);
        let memory = outcome.memory.iter().max_by(|a, b| a.share().total_cmp(&b.share()));
        let memory = memory.map_or("–".to_owned(), |memory| {
            format!(
                "{} of {} ({:.0} %), {}",
                Bytes(memory.peak),
                Bytes(memory.budget),
                memory.share() * 100.0,
                memory.process
            )
        });
        table.row([
            outcome.attack.to_owned(),
            quiet50,
            attacked50,
            ratio50,
            quiet99,
            attacked99,
            ratio99,
            micros(outcome.longest_us),
            format!("{} of {}", whole(outcome.failed.0), whole(outcome.failed.0 + outcome.answers)),
            memory,
            match (outcome.is_attack, outcome.is_good) {
                (false, _) => "to compare",
                (true, true) => "good",
                (true, false) => "NOT GOOD",
            }
            .to_owned(),
        ]);
    }
    let mut text = format!("\n{table}");
    for outcome in outcomes {
        for why in outcome.failed.1.iter().chain(&outcome.died) {
            text.push_str(&format!("  {}: {why}\n", outcome.attack));
        }
    }
    text.push_str(&format!(
        "\n  good: nobody died, no polite request failed, memory within its budget and 10 %, median ratios at most {bound}\n"
    ));
    text
}

fn cells(ratio: &Option<Ratio>) -> [String; 3] {
    let Some(ratio) = ratio else { return ["–", "–", "–"].map(str::to_owned) };
    let spread = ratio.ratio;
    [
        micros(ratio.b.median),
        micros(ratio.a.median),
        format!("{:.2} [{:.2}..{:.2}]", spread.median, spread.p10, spread.p90),
    ]
}
