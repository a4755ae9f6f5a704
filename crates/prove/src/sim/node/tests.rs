//! The simulator of a node held against what it must find, and must not.

use super::super::campaign::{self, Campaign};
use super::super::minimal::minimal;
use super::super::trial::{Outcome as _, Trial};
use super::super::{OPS, indices};
use super::Case;
use serve::kv::by_hand::Planted;
use sim::faults::Plan;
use std::num::NonZero;

/// For each planted bug a seed that shows it.
const FINDERS: &[(Planted, u64)] = &[
    (Planted::ReadsWhileStuck, 3),
    (Planted::ReadsBeforeTurn, 1),
    (Planted::DrainReadsNothing, 1),
    (Planted::DrainLeavesStuck, 1),
    (Planted::DrainForgetsInbox, 85),
    (Planted::KeepsBuffer, 1),
    (Planted::KeepsCount, 19),
    (Planted::IsNotCounted, 39),
    (Planted::KicksNobody, 80),
    (Planted::RepliesCross, 1),
    (Planted::DoesNotGrow, 1),
    (Planted::LaggardsStarve, 2),
    (Planted::ResumesOnly, 1),
];

fn run(seeds: u64, threads: usize) -> Campaign {
    let threads = NonZero::new(threads).expect("threads");
    campaign::run(&Case::plain(OPS), 1..seeds + 1, threads, &|_| {})
}

#[test]
fn a_sound_node_breaks_no_promise() {
    let campaign = run(60, 2);
    assert_eq!(campaign.seeds, 60);
    assert!(campaign.violations.is_empty(), "{:?}", campaign.violations);
    // Of some keys that many change at once, without versions, the judge knows nothing.
    assert!(campaign.gave_up < 30, "{}", campaign.gave_up);
    let [stops, changes] = campaign.marks;
    assert!(stops > 10 && changes > 50, "{stops} {changes}");
    assert!(campaign.operations > 60 * OPS as u64, "{}", campaign.operations);
}

#[test]
fn fingerprints_are_the_same_on_one_thread_and_on_two() {
    assert_eq!(run(10, 1).print, run(10, 2).print);
}

#[test]
fn planted_bugs_are_found_and_their_seeds_are_clean_without() {
    let planted: Vec<_> = FINDERS.iter().map(|finder| finder.0).collect();
    assert_eq!(planted, Case::BUGS, "each has its finder");
    for &(planted, seed) in FINDERS {
        let clean = Case::plain(OPS).seeded(seed, None);
        let violation = clean.play(false).violation().cloned();
        assert_eq!(violation, None, "{}", clean.command());
        let buggy = clean.seeded(seed, Some(planted));
        assert!(buggy.play(false).violation().is_some(), "{}", buggy.command());
    }
}

#[test]
fn a_smaller_run_still_fails_and_its_command_replays_it() {
    let whole = Case::plain(OPS).seeded(1, Some(Planted::RepliesCross));
    let (small, played) = minimal(&whole);
    let violation = played.violation().cloned().expect("it still fails");
    assert!(small.only.as_ref().is_some_and(|only| only.len() < OPS / 2), "{}", small.command());
    // As it is printed, so it is read.
    let (plan, only) = (small.plan.clone().unwrap_or_default(), small.only.clone().unwrap_or_default());
    let replayed = Case {
        plan: Some(plan.to_string().parse::<Plan>().expect("a plan")),
        only: Some(indices::read(&indices::show(&only)).expect("a list")),
        ..whole
    };
    assert_eq!(replayed.play(false).violation(), Some(&violation));
    assert!(small.command().starts_with("millrace sim --node --seed 1 --planted replies-cross"));
}

#[test]
fn a_trace_tells_what_happened_and_changes_nothing() {
    let case = Case::plain(20).seeded(5, None);
    let (plain, traced) = (case.play(false), case.play(true));
    assert_eq!(plain.summary().print, traced.summary().print);
    assert!(
        plain.trace().is_empty() && traced.trace().iter().any(|line| line.contains("phase         Calm"))
    );
}
