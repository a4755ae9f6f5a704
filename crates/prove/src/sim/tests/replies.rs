//! Methods whose replies the cache keeps, held against what must be found there.

use super::super::bugs::{self, Bug};
use super::super::campaign;
use super::super::homes::Homes;
use super::super::play::Case;
use super::super::trial::{Outcome as _, Trial};
use protocol::replies::Planted;
use std::num::NonZero;

/// For each planted bug a seed of `rooted` that shows it.
const FINDERS: &[(Planted, u64)] = &[
    (Planted::FillWithoutClaim, 1),
    (Planted::InvalidateAfterwards, 1),
    (Planted::MarkOfAnother, 1),
    (Planted::EndAllMarks, 1),
    (Planted::AnyName, 1),
];

fn case(homes: Homes) -> Case {
    Case { replies: true, homes, ..super::case("rooted") }
}

#[test]
fn methods_behave_as_if_there_were_no_cache() {
    for (homes, seeds) in [(Homes::Bare, 300), (Homes::Logged, 100)] {
        let campaign = campaign::run(&case(homes), 1..seeds + 1, NonZero::new(2).expect("threads"), &|_| {});
        assert!(campaign.violations.is_empty(), "{homes:?}: {:?}", campaign.violations);
        let [kept, not_stored] = campaign.marks;
        assert!(kept > 2 * seeds && not_stored > seeds / 4, "{homes:?}: {kept} {not_stored}");
    }
}

#[test]
fn planted_bugs_are_found_and_their_seeds_are_clean_without() {
    let planted: Vec<_> = FINDERS.iter().map(|finder| Bug::Replies(finder.0)).collect();
    assert_eq!(planted, bugs::REPLIES, "each has its finder");
    for &(planted, seed) in FINDERS {
        let clean = Case { seed, ..case(Homes::Bare) };
        assert_eq!(clean.play(false).violation(), None, "{}", clean.command());
        let buggy = Case { planted: Some(Bug::Replies(planted)), ..clean };
        assert!(buggy.play(false).violation().is_some(), "{}", buggy.command());
    }
}
