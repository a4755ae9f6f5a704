//! The smallest run that still fails: faults are taken away first, then operations.

use super::trial::{Outcome, Trial};
use sim::faults::Plan;
use sim::shrink::shrink;

/// Runs at most, for each of the two.
const MOST_RUNS: usize = 400;

/// A case that fails, made smaller, and what it then shows.
pub fn minimal<T: Trial>(case: &T) -> (T, T::Played) {
    let fails = |case: &T| case.play(false).violation().is_some();
    let faults = shrink(case.plan().0, MOST_RUNS, |faults| fails(&case.with_plan(Plan(faults.to_vec()))));
    let case = case.with_plan(Plan(faults.items));
    let only = shrink(case.only(), MOST_RUNS, |only| fails(&case.with_only(only.to_vec())));
    let case = case.with_only(only.items);
    let played = case.play(false);
    (case, played)
}
