//! The laboratory: what it must not find, and what it must.

use super::record::{Part, Recorded};
use super::{Outcome, Run, forgive, loopback};
use crate::lab::LabError;
use base::Nanos;
use clap::Parser;
use protocol::coherence::Planted;
use serve::inc::Topology;
use serve::inc::plan::sockets;
use serve::inc::rack::Rack;
use sim::check::{Rules, check};
use sim::kv::{Op, Ret, Status, Value};
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    run: Run,
}

fn run(arguments: &str) -> Run {
    let arguments = ["run", "--loopback"].into_iter().chain(arguments.split_whitespace());
    Command::try_parse_from(arguments).expect("arguments").run
}

fn measure(arguments: &str) -> Result<Outcome, LabError> {
    run(arguments).measure(&AtomicBool::new(false))
}

#[test]
fn nodes_die_under_load_and_nothing_stale_is_seen() {
    let outcome = measure(
        "--seconds 1.6 --back 200ms --set coherence.lease=100000 --operations 1000000 --keys 200 --roots 2 \
         --kill box:1@200ms --kill box:3@500ms --kill home:1@700ms --kill controller:0@900ms --kill box:2@1s",
    )
    .expect("it runs");
    assert!(outcome.report.is_linearizable(), "{:#?}", outcome.report);
    assert!(outcome.report.good > 100);
    assert_eq!(outcome.scene.deaths.len(), 5, "all of them died");
}

/// Two ways to show what is old: a write that does not wait for copies, and a box that says that it dropped what it keeps.
#[test]
fn planted_bugs_are_found() {
    for planted in [Planted::SkipInvalidation, Planted::AckWithoutRemoving] {
        let run = run("--seconds 60 --operations 20000 --keys 20 --writes 10");
        let bound = sockets(&run.plan.shape).expect("ports");
        let registers = run.plan.registers().expect("settings");
        let topology =
            Topology::two_levels(&run.plan.shape, |node| bound[&node].1, &registers).expect("it fits");
        let rack = Rack::of(topology, bound, Some(planted)).expect("it starts");
        let outcome = loopback::measure(&run, rack, &AtomicBool::new(false)).expect("it runs");
        assert!(!outcome.report.violations.is_empty(), "{planted:?} was not found");
    }
}

/// Counters that were acknowledged, and gone after the death of a box: of as many keys as homes count as lost.
#[test]
fn the_judge_forgives_what_owners_lost_and_no_more() {
    let mut part = Part::new(0);
    let at = Nanos::from_millis;
    for (number, key) in [b"a", b"b"].into_iter().enumerate() {
        let from = 10 * number as u64;
        let set = Op::Set { value: Value::of(b"5"), ttl: None };
        let id = part.call(at(from + 1), key, set).expect("memory takes it");
        part.returns(at(from + 2), id, Ret::of(Status::Ok), None).expect("memory takes it");
        let id = part.call(at(from + 60), key, Op::Get).expect("memory takes it");
        part.returns(at(from + 61), id, Ret::of(Status::Miss), None).expect("memory takes it");
    }
    let recorded = Recorded::merge(vec![part], &[], &[at(50)], Nanos::ZERO);
    let rules = Rules::default();
    let judged = |lost| forgive(check(&recorded.history, &rules), &recorded, &rules, lost);
    assert_eq!([0, 1, 2, 3].map(|lost| judged(lost).violations.len()), [2, 2, 0, 0]);
    assert_eq!(judged(2).good, 2);
}

/// A counter that its owner takes with it, in a real run.
#[test]
fn an_owner_that_dies_takes_what_its_home_says() {
    let outcome = measure(
        "--seconds 2 --back 100ms --compute 40 --keys 20 --set coherence.compute=own_lossy \
         --set coherence.lease=100000 --operations 1000000 --kill box:1@300ms --kill box:2@800ms --kill box:1@1300ms",
    )
    .expect("it runs");
    assert!(outcome.report.is_linearizable(), "{:#?}", outcome.report);
    assert_eq!(outcome.scene.deaths.len(), 3);
}

#[test]
fn wrong_laboratories_say_why() {
    for (arguments, words) in [
        ("--writes 60 --compute 60", "more than 100"),
        ("--kill home:7@1s", "no home:7 to kill"),
        ("--set coherence.leese=1", "millrace registers --inc"),
        ("--set coherence.health=1000", "do not fit together"),
    ] {
        let error = measure(arguments).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}

#[test]
fn counts_are_found_by_name() {
    let line = "box:1: misses 2 xdp hits 7 late 1";
    assert_eq!(["misses", "xdp hits", "late", "hits"].map(|name| super::counted(line, name)), [2, 7, 1, 0]);
}
