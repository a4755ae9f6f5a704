//! Channels against a server under faults, all from a seed: links that delay, reorder, fill up, are switched and are cut, servers that
//! start anew; calls and streams of all kinds, deadlines, cancels. [`world`] does it and checks what comes of it.
//!
//! A failing seed prints the one command that replays it. Bugs planted in the channel ([`Planted`]) must be found.

pub(crate) mod cable;
mod peer;
mod real;
mod world;

use std::panic::catch_unwind;
use world::Side;

/// Bugs for the checks to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::channel) enum Planted {
    /// A number names whatever call has its slot now.
    AnyGeneration,
    /// A call that is given up frees its slot at once.
    ZombieForgotten,
    /// Last says one frame less than there were.
    LastMiscounted,
    /// A Credit that finds no room is not sent later.
    CreditLost,
    /// When the link is lost, calls that have their outcome get another one.
    OutcomeTwice,
    /// An item is handed out when it comes, not in its turn.
    ItemsAsTheyCome,
}

/// Seeds of one test run.
const SEEDS: u64 = if cfg!(miri) { 2 } else { 300 };

fn every_call_has_one_outcome(side: Side) {
    // One seed, to see it again; else many.
    let seeds = match std::env::var("FABRIC_SEED").map(|seed| seed.parse()) {
        Ok(Ok(seed)) => seed..seed + 1,
        Ok(Err(_)) => panic!("FABRIC_SEED is a number"),
        Err(_) => 0..SEEDS,
    };
    let test = format!("{side:?}").to_lowercase();
    for seed in seeds {
        if let Err(error) = world::run(seed, side, None) {
            panic!(
                "seed {seed}: {error}\nreplay: FABRIC_SEED={seed} cargo test -p millrace-fabric --lib one_outcome_with_the_{test}"
            );
        }
    }
}

#[test]
fn every_call_has_one_outcome_with_the_model() {
    every_call_has_one_outcome(Side::Model);
}

#[test]
#[cfg_attr(miri, ignore = "eventfds are beyond Miri")]
fn every_call_has_one_outcome_with_the_server() {
    every_call_has_one_outcome(Side::Server);
}

#[test]
#[cfg_attr(miri, ignore = "too many seeds for Miri")]
fn planted_bugs_are_found() {
    for planted in [
        Planted::AnyGeneration,
        Planted::ZombieForgotten,
        Planted::LastMiscounted,
        Planted::CreditLost,
        Planted::OutcomeTwice,
        Planted::ItemsAsTheyCome,
    ] {
        // Found by the ledger, or by an assertion in the channel.
        let is_found =
            |seed| !matches!(catch_unwind(|| world::run(seed, Side::Model, Some(planted))), Ok(Ok(())));
        assert!((0..SEEDS).any(is_found), "{planted:?} is not found");
    }
}
