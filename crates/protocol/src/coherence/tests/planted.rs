//! Every mistake that can be planted is found by a scenario.

use super::super::Planted;
use super::draining;
use super::failures;
use super::gaps::{self, Scenario};
use super::guarded;
use super::moving;
use super::owned;
use super::ranges;
use super::shards;
use super::slow;
use super::tickets;
use super::transactions;

/// Which scenario finds it.
fn finder(planted: Planted) -> Scenario {
    match planted {
        Planted::SkipInvalidation | Planted::AckWithoutRemoving => gaps::sibling,
        Planted::FillWithoutToken => gaps::reply_twice,
        Planted::TokenSurvives => gaps::late_fill,
        Planted::AckBeforeChildren => gaps::slow_child,
        Planted::LoseSharer => gaps::second_sharer,
        Planted::GrantWhileWriting => gaps::read_while_writing,
        Planted::GrantWhileAsking => gaps::doubled_invalidation,
        Planted::LeaseFromReply | Planted::LifeFromReply => failures::slow_reply,
        Planted::WholeLeaseToChildren => failures::short_lease_below,
        Planted::ReplyRevalidates => failures::revalidation,
        Planted::NoSessions | Planted::OutcomeForgotten => failures::repeated_write,
        Planted::ServeAtOnce | Planted::VersionsRestart => failures::home_crash,
        Planted::FlushSkipsBoxes => failures::flush,
        Planted::AnswerChanges => gaps::computed,
        Planted::TwoWritesAtOnce => gaps::two_writers,
        Planted::AnyRound => gaps::old_answer,
        Planted::ApplyAtTimeout => failures::dead_box,
        Planted::ForgetChildren => failures::forgotten_children,
        Planted::MissWhileHeld => failures::eviction_at_home,
        Planted::OwnerServesOn => owned::owner_cut_off,
        Planted::ReturnWithoutRecords => owned::repeated_at_home,
        Planted::ReturnOnce | Planted::AckBeforeReturn => owned::return_lost,
        Planted::GrantWithoutSessions => owned::late_first_copies,
        Planted::ReadWhileOwned => owned::counting,
        Planted::LentTwice => owned::doubled,
        Planted::LentKept => owned::two_owners,
        Planted::LentVersions => owned::returned_version,
        Planted::LentServesOn => owned::owner_cut_off,
        Planted::LentForgotten => owned::repeated_at_home,
        Planted::TicketSkipsBoxes => tickets::copies_first,
        Planted::TicketOvertakes => tickets::in_turn,
        Planted::TicketReadsOwned => tickets::of_owned_keys,
        Planted::TicketTooEarly => tickets::after_a_crash,
        Planted::OwnVersions => tickets::one_counter,
        Planted::GrantWhileUnderWay => slow::while_under_way,
        Planted::GrantWhatIsOld => transactions::read_behind_time,
        Planted::UnknownForgotten => slow::unknown,
        Planted::UnknownUndone => slow::asked_again,
        Planted::TagNotChecked
        | Planted::NoReplayWindow
        | Planted::AnyReceiver
        | Planted::PlainWrites
        | Planted::LongAnswers => guarded::guarded,
        Planted::DrainedEarly | Planted::GrantToDraining => draining::drained,
        Planted::KeepOutsideRange | Planted::TellOnlyInRange => ranges::kept_and_told,
        Planted::OldAddressBelieved | Planted::LowerEpochTaken | Planted::MovedServesAtOnce => {
            moving::in_order
        }
        Planted::FlushByOneShard | Planted::StrayServed => shards::divided,
        Planted::NoVersionBlock | Planted::LostValueReturns | Planted::LostKeepsSessions => owned::owner_dies,
    }
}

#[test]
fn every_mistake_is_found_by_its_scenario() {
    let missed: Vec<_> = Planted::ALL
        .iter()
        .filter(|planted| finder(**planted)(Some(**planted)).violations.is_empty())
        .map(|planted| planted.name())
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
