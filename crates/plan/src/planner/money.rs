//! What an answer costs, in a line.

use bench::report::format::{digits, short};
use model::plan::cost::Cost;

/// `9 800 USD …: 0.012 USD a million requests`, or what is missing.
pub(super) fn sentence(cost: &Cost, possible: bool) -> String {
    let missing = || format!("no {}: --set price.machine=9000USD gives one", cost.unknown[0]);
    let Some(million) = cost.per_million else {
        let why = if possible { missing() } else { "nothing serves it".into() };
        return format!("cost: not known: {why}");
    };
    let energy = match cost.watts {
        Some(watts) => {
            let share = cost.energy_share * 100.0;
            format!("{} W at {} USD/kWh, {share:.0} % of it", digits(watts), cost.economy.kwh)
        }
        None => "energy not known, and left out".into(),
    };
    let range = cost.range.map_or(String::new(), |(low, high)| {
        format!(
            ", {:+.0} % to {:+.0} % by the numbers' ranges and the model's error",
            (low - 1.0) * 100.0,
            (high - 1.0) * 100.0
        )
    });
    format!(
        "cost: {} USD a million requests at {}/s: {} USD over {} years, {energy}{range}",
        dollars(million),
        short(cost.rate),
        cost.price.map_or("–".into(), |price| format!("{price:.0}")),
        cost.economy.years
    )
}

/// Small sums with three digits that count.
pub(super) fn dollars(sum: f64) -> String {
    if sum >= 0.001 { format!("{sum:.4}") } else { format!("{sum:.2e}") }
}
