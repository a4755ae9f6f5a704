//! Every mistake of a replica that can be planted is found by a scenario, or by seeds.

use super::world::World;
use super::{claims, failures, joining, serving};
use crate::chain::Planted;

fn finder(planted: Planted) -> Option<fn(Option<Planted>) -> World> {
    Some(match planted {
        Planted::AckBeforeLog => failures::power_cut,
        Planted::ForwardBeforeLog => failures::slow_disk,
        Planted::ReplyBeforeAck => failures::lonely_head,
        Planted::ForgetReplies => serving::late_copy,
        Planted::TakeOutOfOrder => serving::disorder,
        Planted::ServeWithoutLease => failures::deposed_tail,
        Planted::ServeUnsettled => failures::unsettled,
        Planted::ReadDirty => serving::dirty_read,
        Planted::ForgetLocks => failures::head_dies,
        Planted::IgnoreLocks => serving::overlap,
        Planted::TakeOldEpoch => failures::late_append,
        Planted::KeepSuffix => joining::stale_suffix,
        Planted::TakeOldChunk => joining::copied,
        Planted::JoinTooSoon => joining::hasty,
        Planted::PassClaim => claims::passed,
        Planted::ForgetClaim => claims::forgotten,
        Planted::ReadDirtyClaim => claims::dirty,
        Planted::ServeOthers => serving::anothers_key,
        // The controller's, and the store's; and what only orders show.
        Planted::DeposeTooSoon
        | Planted::ServeRemoved
        | Planted::SwitchTooSoon
        | Planted::TellTooSoon
        | Planted::ObeyStaleController
        | Planted::TrustEmptyLog
        | Planted::TruncateMidLog
        | Planted::ReplayTooLittle => {
            return None;
        }
    })
}

#[test]
fn every_mistake_is_found_by_its_scenario() {
    let mut missed = Vec::new();
    for planted in Planted::ALL {
        let Some(finder) = finder(*planted) else { continue };
        let mut well = finder(None);
        well.judge_answers();
        let mut world = finder(Some(*planted));
        world.judge_answers();
        if world.judge.violations.is_empty() || !well.judge.violations.is_empty() {
            missed.push(planted.name());
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
