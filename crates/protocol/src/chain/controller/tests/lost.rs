//! What was lost: after a power cut, of logs, of the registry; who may serve then, and what an operator may reset.

use super::*;

#[test]
fn an_empty_registry_beside_a_log_with_entries_is_a_lost_registry() {
    for told in [Says { last: 3, ..says(2, 1) }, Says { epoch: 4, ..says(2, 1) }] {
        let mut script = Script::new(None);
        for what in [told, says(1, 1), says(3, 1)] {
            script.hear(what);
        }
        assert_eq!(script.controller.waiting(), Some(&Waiting::RegistryLost(ReplicaId(2))));
        assert!(script.controller.proposal().is_none() && script.out.is_empty());
    }
}

#[test]
fn after_a_power_cut_only_those_count_that_served() {
    let mut script = Script::new(Some(configuration(5, &[(3, 1, Serving), (1, 1, Serving)])));
    script.pass(Nanos::from_millis(600), &[]);
    // 2 was no member: whatever it has, it waits for the others.
    let outsider = Says { last: 99, ..says(2, 2) };
    script.pass_as_they_are(Nanos::from_secs(5), &[outsider]);
    assert_eq!(script.controller.waiting(), Some(&Waiting::Silent(vec![ReplicaId(3), ReplicaId(1)])));
    script.hear_and_store(Says { last: 9, ..says(1, 2) });
    script.hear_and_store(Says { last: 9, ..says(3, 2) });
    assert_eq!(script.members(), [(3, 2, Serving), (1, 2, Serving), (2, 2, Syncing)]);
}

#[test]
fn all_are_back_and_no_time_is_lost() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    script.hear_and_store(says(3, 2));
    assert_eq!(script.controller.waiting(), Some(&Waiting::Gather(vec![ReplicaId(1), ReplicaId(2)])));
    script.hear_and_store(Says { whole: false, ..says(2, 2) });
    assert_eq!(script.controller.waiting(), Some(&Waiting::Gather(vec![ReplicaId(1)])));
    script.hear_and_store(says(1, 2));
    assert_eq!(
        script.members(),
        [(1, 2, Serving), (3, 2, Serving), (2, 2, Syncing)],
        "the one with a hole joins"
    );
}

#[test]
fn those_that_stay_away_are_waited_for_no_longer_than_gather() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    let back = [Says { last: 4, epoch: 0, ..says(2, 2) }];
    script.hear_and_store(back[0]);
    script.pass(Nanos::from_millis(1900), &back);
    assert_eq!(script.epoch(), 5);
    script.pass(Nanos::from_millis(200), &back);
    assert_eq!(script.members(), [(2, 2, Serving)]);
}

#[test]
fn nobody_serves_who_lost_its_log_until_an_operator_says_so() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    let back: Vec<_> =
        [(1, 0), (2, 7), (3, 0)].map(|(id, last)| Says { whole: false, last, ..says(id, 2) }).to_vec();
    script.pass_as_they_are(Nanos::from_secs(5), &back);
    assert_eq!(script.epoch(), 5);
    assert_eq!(script.controller.waiting(), Some(&Waiting::NoneWhole(Vec::new(), Vec::new())));
    assert_eq!(script.controller.reset(script.now, None), Ok(ReplicaId(2)), "the one with the longest log");
    assert_eq!(script.store().epoch, Epoch(6));
    assert_eq!(script.members()[0], (2, 2, Serving));
}

#[test]
fn what_no_log_has_is_named_and_the_choice_with_it() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    let lacks = |id, missing| Says { whole: false, last: 9, missing, ..says(id, 2) };
    let back = [lacks(1, Some((7, 9))), lacks(2, Some((8, 8))), lacks(3, None)];
    script.pass_as_they_are(Nanos::from_secs(5), &back);
    let waiting = script.controller.waiting().expect("nobody has everything").to_string();
    assert!(waiting.contains("of transactions 7 to 9 the log of replica 1 lacks some"), "{waiting}");
    assert!(waiting.contains("and transaction 8 the log of replica 2 lacks"), "{waiting}");
    assert!(waiting.contains("`millrace chain reset --accept-data-loss`"), "{waiting}");
    // One of them finds its disk again.
    script.hear_and_store(Says { last: 9, ..says(2, 3) });
    assert_eq!(script.members()[0], (2, 3, Serving));
}

/// Disks that all went back to an earlier time, with the marks of their logs, looked like a chain that has everything.
#[test]
fn logs_that_end_before_what_was_committed_have_lost_it() {
    let mut script = Script::new(Some(three()));
    let serve = |id| Says { last: 21, committed: 20, ..says(id, 1) };
    script.pass(Nanos::from_millis(600), &[serve(1), serve(2)]);
    assert_eq!(
        script.members(),
        [(1, 1, Serving), (2, 1, Serving)],
        "one was lost, so the registry was written"
    );
    assert_eq!(script.controller.configuration().map(|c| c.kept), Some(Lsn(20)));
    script.pass(Nanos::from_millis(600), &[]);
    let back = |id, last| Says { last, committed: 12, ..says(id, 2) };
    script.pass_as_they_are(Nanos::from_secs(5), &[back(1, 12), back(2, 19)]);
    assert_eq!(script.members(), [(1, 1, Serving), (2, 1, Serving)], "nobody serves");
    let waiting = script.controller.waiting().expect("nobody has everything").to_string();
    assert!(waiting.contains("of transactions 13 to 20 the log of replica 1 lacks some"), "{waiting}");
    assert!(waiting.contains("transaction 20 the log of replica 2 lacks"), "{waiting}");
    // The right disk.
    script.hear_and_store(Says { last: 20, ..says(2, 3) });
    assert_eq!(script.members()[0], (2, 3, Serving));
    assert_eq!(script.controller.configuration().map(|c| c.kept), Some(Lsn(20)), "it is not forgotten");
}

#[test]
fn what_an_operator_gives_up_is_not_missed_any_more() {
    let mut script = Script::new(Some(Configuration { kept: Lsn(20), ..three() }));
    script.pass(Nanos::from_millis(600), &[]);
    script.pass_as_they_are(Nanos::from_secs(5), &[Says { last: 12, ..says(1, 2) }]);
    assert_eq!(script.epoch(), 5, "nobody serves");
    assert_eq!(script.controller.reset(script.now, None), Ok(ReplicaId(1)));
    assert_eq!(script.store().kept, Lsn(0));
}

/// Its directory was lost; then it was started once more, and finds the empty log that the life before made.
#[test]
fn a_log_is_no_older_for_being_opened_twice() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    let back = [Says { born: 2, ..says(3, 3) }];
    script.pass_as_they_are(Nanos::from_secs(5), &back);
    assert_eq!(
        script.controller.waiting(),
        Some(&Waiting::NoneWhole(vec![ReplicaId(1), ReplicaId(2)], Vec::new()))
    );
    script.hear_and_store(says(1, 2));
    assert_eq!(script.members(), [(1, 2, Serving), (3, 3, Syncing)]);
    // It has joined, and served: what it has counts as much as what the others have.
    let tail = Says { epoch: 6, joined: Some(3), ..says(1, 2) };
    script.hear_and_store(tail);
    assert_eq!(script.members(), [(1, 2, Serving), (3, 3, Serving)]);
    script.pass(Nanos::from_millis(600), &[]);
    script.pass_as_they_are(Nanos::from_secs(5), &[Says { born: 2, ..says(3, 4) }]);
    assert_eq!(script.store().members[0].replica, ReplicaId(3));
}

#[test]
fn a_reset_is_refused_while_somebody_serves_or_may() {
    let mut script = Script::new(Some(three()));
    script.hear(Says { epoch: 5, ..says(1, 1) });
    assert!(matches!(script.controller.reset(script.now, None), Err(ResetRefused::TooEarly(_))));
    script.pass(Nanos::from_secs(1), &[says(1, 1)]);
    assert_eq!(script.controller.reset(script.now, None), Err(ResetRefused::Serves(ReplicaId(1))));
    script.pass(Nanos::from_secs(1), &[]);
    assert_eq!(script.controller.reset(script.now, None), Err(ResetRefused::NobodyThere));
}

#[test]
fn a_lost_registry_is_made_anew_by_a_reset_with_a_higher_epoch() {
    let mut script = Script::new(None);
    let there = [Says { last: 8, epoch: 7, ..says(1, 1) }, Says { last: 9, epoch: 7, ..says(2, 1) }];
    script.pass_as_they_are(Nanos::from_secs(1), &there);
    assert_eq!(script.controller.waiting(), Some(&Waiting::RegistryLost(ReplicaId(1))));
    assert_eq!(script.controller.reset(script.now, Some(ReplicaId(3))), Err(ResetRefused::NobodyThere));
    assert_eq!(script.controller.reset(script.now, None), Ok(ReplicaId(2)));
    script.store();
    assert_eq!((script.epoch(), script.members()[0]), (8, (2, 1, Serving)));
}

#[test]
fn a_registry_that_was_put_back_stops_the_controller() {
    let mut script = Script::new(Some(three()));
    script.hear(Says { epoch: 9, ..says(1, 1) });
    assert!(script.out.is_empty(), "no lease under what may be long over");
    assert_eq!(script.controller.waiting(), Some(&Waiting::RegistryBehind(ReplicaId(1), Epoch(9))));
}
