//! Methods whose replies the cache keeps, held against what must be found there.

use super::super::bugs;
use super::super::campaign;
use super::super::homes::Homes;
use super::super::play::Case;
use super::super::trial::{Outcome as _, Trial};
use std::num::NonZero;

/// A planted bug must be found within so many seeds.
const WITHIN: u64 = 40;

fn case(homes: Homes) -> Case {
    Case { replies: true, homes, ..super::case("rooted") }
}

#[test]
fn methods_behave_as_if_there_were_no_cache() {
    for (homes, seeds) in [(Homes::Bare, 300), (Homes::Logged, 40)] {
        let campaign = campaign::run(&case(homes), 1..seeds + 1, NonZero::new(2).expect("threads"), &|_| {});
        for &seed in &campaign.violations {
            let violation = Case { seed, ..case(homes) }.play(false).violation().cloned();
            eprintln!("{homes:?}, seed {seed}: {violation:?}");
        }
        assert!(campaign.violations.is_empty(), "{homes:?}: {:?}", campaign.violations);
        let [kept, not_stored] = campaign.marks;
        eprintln!("{homes:?}: {kept} replies were found kept, {not_stored} not stored");
        assert!(kept > seeds && not_stored > seeds / 4, "{homes:?}: {kept} {not_stored}");
    }
}

#[test]
fn planted_bugs_are_found_and_their_seeds_are_clean_without() {
    let mut missed = Vec::new();
    for &planted in bugs::REPLIES {
        let clean = |seed| Case { seed, ..case(Homes::Bare) };
        let buggy = |seed| Case { planted: Some(planted), ..clean(seed) };
        let found = (1..=WITHIN).find(|&seed| buggy(seed).play(false).violation().is_some());
        eprintln!("{} is found by seed {found:?}", planted.name());
        let Some(seed) = found else {
            missed.push(planted.name());
            continue;
        };
        assert_eq!(clean(seed).play(false).violation(), None, "{}", clean(seed).command());
    }
    assert!(missed.is_empty(), "not found within {WITHIN} seeds: {missed:?}");
}
