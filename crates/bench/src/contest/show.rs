//! What the tables and pages of all comparisons have in common.

use super::Ratio;
use crate::report::axis::{Scale, Unit};
use crate::report::format::{digits, ratio};
use crate::report::plot::{Line, LinePlot};
use crate::report::{Block, Table};
use crate::tally::CurvePoint;
use base::spread::Spread;
use std::collections::BTreeMap;

/// A ratio with its spread: `0.90× (0.8 to 1.0)`.
pub fn spread_of_ratio(spread: &Spread) -> String {
    format!("{} ({} to {})", ratio(spread.median), digits(spread.p10), digits(spread.p90))
}

/// A row for each that is compared, a column for each metric; none without rows.
pub fn ratios<'m>(
    corner: &'m str,
    metrics: impl IntoIterator<Item = &'m str>,
    rows: impl IntoIterator<Item = (String, Vec<Option<Ratio>>)>,
) -> Option<Table> {
    let mut table = Table::new(std::iter::once(corner).chain(metrics));
    for (name, ratios) in rows {
        let cell = |found: Option<Ratio>| found.map_or_else(String::new, |r| spread_of_ratio(&r.ratio));
        table.row(std::iter::once(name).chain(ratios.into_iter().map(cell)));
    }
    (!table.is_empty()).then_some(table)
}

/// How often each distance of the cores was seen: `across L3 3, same L3 41`.
pub fn distances<'s>(seen: impl IntoIterator<Item = Option<&'s str>>) -> String {
    let mut counts = BTreeMap::new();
    for distance in seen {
        *counts.entry(distance.unwrap_or("unknown")).or_insert(0u32) += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

/// Latency by percentile, a line for each side.
pub fn percentiles<'c>(title: &str, curves: impl IntoIterator<Item = (String, &'c [CurvePoint])>) -> Block {
    let points = |curve: &[CurvePoint]| curve.iter().map(|point| (point.quantile, point.us)).collect();
    let lines = curves.into_iter().map(|(name, curve)| Line { name, points: points(curve) }).collect();
    let plot = LinePlot {
        title: title.to_owned(),
        x: (Scale::Nines, Unit::Quantile),
        y: (Scale::Log, Unit::Micros),
        lines,
        filled: false,
        wide: true,
    };
    Block::Plot(plot.draw())
}
