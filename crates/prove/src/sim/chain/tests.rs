//! The simulator held against what it must find, and must not.

use super::super::campaign::{self, Campaign};
use super::super::minimal::minimal;
use super::super::trial::{Outcome as _, Trial};
use super::super::{OPS, indices};
use super::play::{is_about_claims, is_about_orders};
use super::{Case, Shape};
use protocol::chain::Planted;
use sim::faults::Plan;
use sim::txn::{History, Verdict, order};
use std::num::NonZero;

/// For each planted bug a seed of `three` that shows it, or of `moves` where it is about orders, of `homes` where it is about claims.
const FINDERS: &[(Planted, u64)] = &[
    (Planted::AckBeforeLog, 1),
    (Planted::ForwardBeforeLog, 1),
    (Planted::ReplyBeforeAck, 1),
    (Planted::ForgetReplies, 3),
    (Planted::TakeOutOfOrder, 4),
    (Planted::ServeWithoutLease, 186),
    (Planted::ServeUnsettled, 11),
    (Planted::ReadDirty, 6),
    (Planted::ForgetLocks, 5),
    (Planted::IgnoreLocks, 1),
    (Planted::TakeOldEpoch, 11),
    (Planted::KeepSuffix, 234),
    (Planted::TakeOldChunk, 1),
    (Planted::JoinTooSoon, 185),
    (Planted::DeposeTooSoon, 1414),
    (Planted::TrustEmptyLog, 12),
    (Planted::TruncateMidLog, 2499),
    (Planted::ReplayTooLittle, 5),
    (Planted::ServeRemoved, 1),
    (Planted::SwitchTooSoon, 1),
    (Planted::TellTooSoon, 13),
    (Planted::ObeyStaleController, 128),
    (Planted::PassClaim, 1),
    (Planted::ForgetClaim, 5),
    (Planted::ReadDirtyClaim, 160),
];

fn shape_of(planted: Planted) -> &'static str {
    match planted {
        planted if is_about_orders(planted) => "moves",
        planted if is_about_claims(planted) => "homes",
        _ => "three",
    }
}

fn case(shape: &str) -> Case {
    Case::plain(shape.parse::<Shape>().expect("a shape"), OPS)
}

fn run(shape: &str, seeds: u64, threads: usize) -> Campaign {
    campaign::run(&case(shape), 1..seeds + 1, NonZero::new(threads).expect("threads"), &|_| {})
}

#[test]
fn sound_machines_break_no_promise() {
    for (name, _) in Shape::NAMED {
        let campaign = run(name, 40, 2);
        assert_eq!((campaign.seeds, campaign.gave_up), (40, 0), "{name}");
        assert!(campaign.violations.is_empty(), "{name}: {:?}", campaign.violations);
        let [committed, configurations] = campaign.marks;
        assert!(committed > 1_000 && configurations > 80, "{name}: {committed} {configurations}");
    }
}

/// As long as it says that it lives, nobody takes its place, whatever its medium does. A replica that says nothing as long is replaced.
#[test]
fn a_medium_that_is_slow_for_longer_than_the_lease_costs_no_place() {
    for seed in 1..6 {
        let with = |plan: &str| {
            let plan = Some(plan.parse::<Plan>().expect("a plan"));
            // For several leases.
            Case { plan, ops: 600, ..case("three").seeded(seed, None) }.play(false)
        };
        let (first, last) = (3, 5);
        let usual = with("");
        let paused = with(&format!("pause@20000000000+80000000000:{first}"));
        assert!(paused.configurations > usual.configurations, "seed {seed}: {}", usual.configurations);
        for node in first..=last {
            let slow = with(&format!("slow@20000000000+80000000000:{node}"));
            assert_eq!(slow.violation, None, "seed {seed}, node {node}");
            assert_eq!(slow.configurations, usual.configurations, "seed {seed}, node {node}");
        }
    }
}

#[test]
fn fingerprints_are_the_same_on_one_thread_and_on_two() {
    assert_eq!(run("three", 10, 1).print, run("three", 10, 2).print);
}

#[test]
fn planted_bugs_are_found_and_their_seeds_are_clean_without() {
    let planted: Vec<_> = FINDERS.iter().map(|finder| finder.0).collect();
    assert_eq!(planted, Case::BUGS, "each has its finder");
    for &(planted, seed) in FINDERS {
        let clean = case(shape_of(planted)).seeded(seed, None);
        assert_eq!(clean.play(false).violation, None, "{}", clean.command());
        let buggy = clean.seeded(seed, Some(planted));
        assert!(buggy.play(false).violation.is_some(), "{}", buggy.command());
    }
}

#[test]
fn a_smaller_run_still_fails_and_its_command_replays_it() {
    let whole = case("three").seeded(1, Some(Planted::AckBeforeLog));
    let (small, played) = minimal(&whole);
    let violation = played.violation.expect("it still fails");
    assert!(small.only.as_ref().is_some_and(|only| only.len() < OPS / 2), "{}", small.command());
    // As it is printed, so it is read.
    let (plan, only) = (small.plan.clone().unwrap_or_default(), small.only.clone().unwrap_or_default());
    let replayed = Case {
        plan: Some(plan.to_string().parse::<Plan>().expect("a plan")),
        only: Some(indices::read(&indices::show(&only)).expect("a list")),
        ..whole
    };
    assert_eq!(replayed.play(false).violation, Some(violation));
}

#[test]
fn histories_are_files_that_can_be_judged_again() {
    let played = case("three").seeded(7, None).play(false);
    let mut file = Vec::new();
    played.write_history(&mut file).expect("memory takes it");
    let read = History::read(&mut file.as_slice()).expect("what was written");
    assert!(read == played.history && read.operations().count() > OPS);
    // The file does not say what became of what was not answered.
    let verdict = order::check(&read, &order::Settled::new());
    assert!(!matches!(verdict, Verdict::Violation(_)), "{verdict:?}");
}

#[test]
fn a_trace_tells_what_happened_and_changes_nothing() {
    let case = Case { ops: 20, ..case("two") }.seeded(5, None);
    let (plain, traced) = (case.play(false), case.play(true));
    assert_eq!(plain.print, traced.print);
    assert!(
        plain.trace.is_empty() && traced.trace.iter().any(|line| line.contains("phase         Liveness"))
    );
    assert!(case.command().starts_with("millrace sim --chain=two --seed 5 --ops 20"));
}
