//! The smallest run that still fails: faults are taken away first, then operations.

use super::play::{Case, Played};
use sim::faults::Plan;
use sim::shrink::shrink;

/// Runs at most, for each of the two.
const MOST_RUNS: usize = 400;

/// A case that fails, made smaller, and what it then shows.
pub fn minimal(case: &Case) -> (Case, Played) {
    let mut case = case.clone();
    let fails = |case: &Case| case.play(false).violation.is_some();
    let faults = shrink(case.script().plan.0, MOST_RUNS, |faults| {
        fails(&Case { plan: Some(Plan(faults.to_vec())), ..case.clone() })
    });
    case.plan = Some(Plan(faults.items));
    let all = case.only.clone().unwrap_or_else(|| (0..case.ops).collect());
    let only = shrink(all, MOST_RUNS, |only| fails(&Case { only: Some(only.to_vec()), ..case.clone() }));
    case.only = Some(only.items);
    let played = case.play(false);
    (case, played)
}
