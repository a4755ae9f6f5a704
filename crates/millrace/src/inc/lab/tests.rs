//! The laboratory: what it must not find, and what it must.

use super::rack::Rack;
use super::{Lab, Outcome};
use crate::inc::plan::{registers, sockets};
use crate::inc::{IncError, Topology};
use clap::Parser;
use protocol::coherence::Planted;
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    lab: Lab,
}

fn lab(arguments: &str) -> Lab {
    let arguments = std::iter::once("lab").chain(arguments.split_whitespace());
    Command::try_parse_from(arguments).expect("arguments").lab
}

fn measure(arguments: &str) -> Result<Outcome, IncError> {
    lab(arguments).measure(&AtomicBool::new(false))
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
    assert_eq!(outcome.kills, 5, "all of them died");
}

/// Two ways to show what is old: a write that does not wait for copies, and a box that says that it dropped what it keeps.
#[test]
fn planted_bugs_are_found() {
    for planted in [Planted::SkipInvalidation, Planted::AckWithoutRemoving] {
        let lab = lab("--seconds 60 --operations 20000 --keys 20 --writes 10");
        let bound = sockets(&lab.shape).expect("ports");
        let registers = registers(&lab.settings).expect("settings");
        let topology = Topology::two_levels(&lab.shape, |node| bound[&node].1, &registers).expect("it fits");
        let rack = Rack::of(topology.planted(Some(planted)), bound).expect("it starts");
        let outcome = lab.measure_on(rack, &AtomicBool::new(false)).expect("it runs");
        assert!(!outcome.report.violations.is_empty(), "{planted:?} was not found");
    }
}

#[test]
fn wrong_laboratories_say_why() {
    for (arguments, words) in [
        ("--writes 60 --compute 60", "more than 100"),
        ("--kill home:7@1s", "no home:7"),
        ("--set coherence.leese=1", "millrace registers --inc"),
        ("--set coherence.health=1000", "do not fit together"),
    ] {
        let error = measure(arguments).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}
