//! The simulator held against what it must find, and must not.

mod nodes;
mod replies;

use super::bugs::Bug;
use super::campaign::{self, Campaign};
use super::homes::Homes;
use super::minimal::minimal;
use super::play::{Case, RULES};
use super::topology::NAMES;
use super::trial::Trial;
use super::{OPS, indices};
use clap::Parser;
use protocol::coherence::Planted;
use sim::faults::Plan;
use sim::joint;
use std::num::NonZero;
use std::sync::Arc;

/// For each planted bug a seed of `rooted` that shows it.
const FINDERS: &[(Planted, u64)] = &[
    (Planted::SkipInvalidation, 1),
    (Planted::FillWithoutToken, 4),
    (Planted::TokenSurvives, 1),
    (Planted::AckWithoutRemoving, 1),
    (Planted::AckBeforeChildren, 30),
    (Planted::LoseSharer, 2),
    (Planted::GrantWhileWriting, 4),
    (Planted::GrantWhileAsking, 1224),
    (Planted::LeaseFromReply, 144),
    (Planted::WholeLeaseToChildren, 10),
    (Planted::ReplyRevalidates, 144),
    (Planted::NoSessions, 1),
    (Planted::OutcomeForgotten, 1),
    (Planted::ServeAtOnce, 248),
    (Planted::VersionsRestart, 43),
    (Planted::FlushSkipsBoxes, 30),
    (Planted::LifeFromReply, 24),
    (Planted::AnswerChanges, 10),
    (Planted::TwoWritesAtOnce, 4),
    (Planted::AnyRound, 193),
    (Planted::ApplyAtTimeout, 5),
    (Planted::ForgetChildren, 57),
    (Planted::MissWhileHeld, 35),
    (Planted::OwnerServesOn, 417),
    (Planted::ReturnWithoutRecords, 1),
    (Planted::ReturnOnce, 27),
    (Planted::AckBeforeReturn, 75),
    (Planted::GrantWithoutSessions, 193),
    (Planted::NoVersionBlock, 1),
    (Planted::ReadWhileOwned, 31),
    (Planted::LostValueReturns, 74),
    (Planted::LostKeepsSessions, 622),
    (Planted::LentTwice, 354),
    (Planted::LentKept, 2),
    (Planted::LentVersions, 2),
    (Planted::LentServesOn, 423),
    (Planted::LentForgotten, 85),
    (Planted::TicketSkipsBoxes, 1),
    (Planted::TicketOvertakes, 12),
    (Planted::TicketReadsOwned, 2),
    (Planted::TicketTooEarly, 501),
    (Planted::OwnVersions, 1),
    (Planted::TagNotChecked, 2),
    (Planted::NoReplayWindow, 2),
    (Planted::AnyReceiver, 2),
    (Planted::PlainWrites, 2),
    (Planted::LongAnswers, 1),
    (Planted::FlushByOneShard, 30),
    (Planted::StrayServed, 16),
    (Planted::KeepOutsideRange, 9),
    (Planted::TellOnlyInRange, 119),
    (Planted::DrainedEarly, 11),
    (Planted::GrantToDraining, 311),
    (Planted::OldAddressBelieved, 82),
    (Planted::LowerEpochTaken, 231),
    (Planted::MovedServesAtOnce, 36),
];

fn case(topology: &str) -> Case {
    Case::plain(&Arc::new(topology.parse().expect("a topology")), OPS)
}

fn run(topology: &str, seeds: u64, threads: usize) -> Campaign {
    campaign::run(&case(topology), 1..seeds + 1, NonZero::new(threads).expect("threads"), &|_| {})
}

#[test]
fn sound_machines_break_no_promise() {
    for name in NAMES {
        let campaign = run(name, 200, 2);
        assert_eq!((campaign.seeds, campaign.gave_up), (200, 0), "{name}");
        assert!(campaign.violations.is_empty(), "{name}: {:?}", campaign.violations);
    }
}

#[test]
fn boxes_own_keys_in_many_runs() {
    for name in NAMES {
        let campaign = run(name, 100, 2);
        let [given, owned] = campaign.marks;
        assert!(given > 50 && owned > 80, "{name}: {given} {owned}");
    }
}

#[test]
fn fingerprints_are_the_same_everywhere() {
    let (one, two) = (run("rooted", 20, 1), run("rooted", 20, 2));
    assert_eq!(one.print, two.print);
    assert_eq!(one.print.to_string(), "e9b8c45620da6a02");
}

#[test]
fn planted_bugs_are_found_and_their_seeds_are_clean_without() {
    let planted: Vec<_> = FINDERS.iter().map(|finder| Bug::Cache(finder.0)).collect();
    assert_eq!(planted, Bug::of(Homes::Bare), "each has its finder");
    for &(planted, seed) in FINDERS {
        let clean = Case { seed, ..case("rooted") };
        assert_eq!(clean.play(false).violation, None, "{}", clean.command());
        let buggy = Case { planted: Some(Bug::Cache(planted)), ..clean };
        assert!(buggy.play(false).violation.is_some(), "{}", buggy.command());
    }
}

#[test]
fn a_smaller_run_still_fails_and_its_command_replays_it() {
    let planted = Some(Bug::Cache(Planted::FillWithoutToken));
    let cases = (1..).map(|seed| Case { seed, planted, ..case("rooted") });
    let fails = |case: &Case| case.script().plan.0.len() > 3 && case.play(false).violation.is_some();
    let whole = cases.into_iter().find(fails).expect("there are many");
    let (small, played) = minimal(&whole);
    let violation = played.violation.expect("it still fails");
    let faults = small.plan.as_ref().map_or(0, |plan| plan.0.len());
    assert!(faults < whole.script().plan.0.len(), "{}", small.command());
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
    let played = Case { seed: 7, ..case("rooted") }.play(false);
    let mut file = Vec::new();
    played.history.write(&mut file).expect("memory takes it");
    let read = joint::History::read(&mut file.as_slice()).expect("what was written");
    assert!(read == played.history && read.operations().count() > OPS);
    assert!(joint::check(&read, &RULES).is_linearizable());
}

#[test]
fn a_trace_tells_what_happened_and_changes_nothing() {
    let case = Case { seed: 5, ops: 20, ..case("two") };
    let (plain, traced) = (case.play(false), case.play(true));
    assert_eq!(plain.print, traced.print);
    assert!(plain.trace.is_empty() && traced.trace.len() as u64 > case.ops as u64);
    assert!(traced.trace.iter().any(|line| line.contains("phase         Liveness")));
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    sim: super::Sim,
}

#[test]
fn the_command_line_is_read() {
    let read = |line: &str| Cli::try_parse_from(line.split_whitespace());
    let command = Case { seed: 3, plan: Some(Plan::default()), only: Some(vec![]), ..case("two") }.command();
    assert_eq!(command, "millrace sim --seed 3 --topology two --plan '' --only none");
    let good =
        read("sim --seed 3 --topology tors=2,roots=1 --plan crash@5+6:1 --only 3,5-9 --planted any-round");
    assert_eq!(good.map_err(|e| e.to_string()).expect("good").sim.seed, Some(3));
    for bad in
        ["sim --plan crash@5+6:1", "sim --seeds 3 --seed 4", "sim --planted nothing", "sim --topology x"]
    {
        assert!(read(bad).is_err(), "{bad}");
    }
}
