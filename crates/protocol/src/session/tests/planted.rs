//! Bugs planted in the sessions: the checker must find each, or it would not find one of ours.

use super::super::Config;
use super::scenarios::{ghosts, weather};
use super::world::{Scenario, World};

/// Bugs that the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Planted {
    /// A message that arrives again is handed out again.
    DuplicateDelivered,
    /// Packets are acknowledged that never arrived.
    AckedUnreceived,
    /// What is sent again gets another message's number.
    ResentAsAnother,
    /// Messages taken give no credit back.
    CreditKept,
    /// Datagrams of an earlier session with the same number are taken.
    OldEpochAccepted,
    /// A changed datagram is read as it is.
    ChecksumIgnored,
}

fn is_found(planted: Planted, within: u64, scenario: impl Fn(u64) -> Scenario) -> Option<(u64, String)> {
    (0..within).find_map(|seed| {
        let scenario = scenario(seed);
        let plant = |config: Config| Config { planted: Some(planted), ..config };
        let bad = Scenario {
            opener: plant(scenario.opener.clone()),
            accepter: plant(scenario.accepter.clone()),
            ..scenario.clone()
        };
        World::new(bad).run().err().map(|why| (seed, why))
    })
}

#[test]
fn the_checker_finds_planted_bugs() {
    for planted in [
        Planted::DuplicateDelivered,
        Planted::AckedUnreceived,
        Planted::ResentAsAnother,
        Planted::CreditKept,
        Planted::ChecksumIgnored,
    ] {
        let (seed, why) =
            is_found(planted, 50, weather).unwrap_or_else(|| panic!("{planted:?} was not found"));
        println!("{planted:?}: seed {seed}: {why}");
    }
}

#[test]
fn the_checker_finds_old_epochs_accepted() {
    let (seed, why) = is_found(Planted::OldEpochAccepted, 50, ghosts).expect("an old epoch was not found");
    println!("seed {seed}: {why}");
}
