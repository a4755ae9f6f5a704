//! Who is a member and who serves: how a chain begins, who is left out, who joins, and who is waited for.

use super::*;

#[test]
fn a_new_chain_begins_when_all_are_there_and_nobody_hears_of_it_before_it_is_durable() {
    let mut script = Script::new(None);
    script.hear(says(2, 7));
    script.hear(says(1, 9));
    assert_eq!(script.controller.waiting(), Some(&Waiting::Begin(vec![ReplicaId(3)])));
    script.hear(says(3, 8));
    assert!(script.out.is_empty(), "not durable yet");
    script.store();
    assert_eq!(script.members(), [(1, 9, Serving), (2, 7, Serving), (3, 8, Serving)]);
    for replica in 1..=3 {
        assert_eq!(script.leads_to(replica), [(1, true)], "told at once");
    }
    assert_eq!(script.controller.waiting(), None);
}

#[test]
fn a_silent_member_is_left_out_when_its_lease_is_over() {
    for silent in 1..=3u16 {
        let mut script = Script::new(Some(three()));
        let all: Vec<_> = (1..=3).map(|id| says(id, 1)).collect();
        script.pass(Nanos::from_secs(2), &all);
        assert_eq!(script.epoch(), 5);
        let others: Vec<_> = all.iter().copied().filter(|what| what.replica != silent).collect();
        script.pass(Nanos::from_millis(500), &others);
        assert_eq!(script.epoch(), 5, "its lease may run: clocks drift");
        script.pass(Nanos::from_millis(100), &others);
        assert_eq!(script.epoch(), 6);
        assert!(script.members().iter().all(|(id, _, part)| *id != silent && *part == Serving));
        // It was cut off only, and comes back as it was: like a new one.
        script.hear_and_store(Says { epoch: 5, ..says(silent, 1) });
        assert_eq!(script.members().last(), Some(&(silent, 1, Syncing)));
    }
}

#[test]
fn the_last_that_serves_is_waited_for() {
    let mut script = Script::new(Some(configuration(5, &[(1, 1, Serving), (2, 1, Syncing)])));
    script.pass(Nanos::from_secs(30), &[says(2, 1), says(3, 1)]);
    assert_eq!(script.members(), [(1, 1, Serving), (2, 1, Syncing)]);
    assert_eq!(script.controller.waiting(), Some(&Waiting::Silent(vec![ReplicaId(1)])));
    script.hear_and_store(Says { epoch: 5, ..says(1, 1) });
    assert_eq!(script.controller.waiting(), None);
    assert_eq!(script.leads_to(1).len(), 1, "its lease is renewed");
}

#[test]
fn when_all_fall_silent_the_last_of_them_is_not_left_alone() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_secs(1), &[says(1, 1), says(2, 1), says(3, 1)]);
    // Power fails. Their last signs of life are some milliseconds apart, and so are the ends of their leases.
    for id in [1, 2, 3] {
        script.now = script.now.plus(Nanos::from_millis(9));
        script.hear(Says { epoch: 5, ..says(id, 1) });
    }
    script.pass(Nanos::from_secs(1), &[]);
    assert_eq!(script.epoch(), 5);
    assert_eq!(script.controller.waiting(), Some(&Waiting::Silent(ids(3))));
}

#[test]
fn a_new_life_is_left_out_and_joins() {
    let mut script = Script::new(Some(three()));
    let living = [says(1, 1), says(3, 1)];
    script.pass(Nanos::from_millis(200), &[says(1, 1), says(2, 1), says(3, 1)]);
    script.now = script.now.plus(Nanos::from_millis(10));
    script.hear(says(2, 2));
    assert!(script.controller.proposal().is_none(), "whether another lives is not known for now");
    script.hear(Says { epoch: 5, ..living[0] });
    script.store();
    assert_eq!(script.members(), [(1, 1, Serving), (3, 1, Serving), (2, 2, Syncing)]);
    // Its predecessor says that it caught up; so says the head, whom it is not to believe, and somebody of an earlier epoch.
    script.hear_and_store(Says { joined: Some(2), epoch: 6, ..living[0] });
    script.hear_and_store(Says { joined: Some(2), epoch: 5, ..living[1] });
    script.hear_and_store(Says { joined: Some(1), epoch: 6, ..living[1] });
    assert_eq!(script.epoch(), 6);
    script.hear_and_store(Says { joined: Some(2), epoch: 6, ..living[1] });
    assert_eq!(script.members(), [(1, 1, Serving), (3, 1, Serving), (2, 2, Serving)]);
}

#[test]
fn one_joins_at_a_time_and_one_that_dies_joining_makes_room() {
    let mut script = Script::new(Some(configuration(5, &[(1, 1, Serving)])));
    let all = [says(1, 1), says(2, 1), says(3, 1)];
    script.pass(Nanos::from_millis(200), &all);
    assert_eq!(script.members(), [(1, 1, Serving), (2, 1, Syncing)]);
    script.pass(Nanos::from_secs(1), &[all[0], all[2]]);
    assert_eq!(script.members(), [(1, 1, Serving), (3, 1, Syncing)]);
    script.pass(Nanos::from_millis(200), &all);
    assert_eq!(script.members(), [(1, 1, Serving), (3, 1, Syncing)], "the other waits");
    let epoch = script.epoch();
    script.hear_and_store(Says { epoch, joined: Some(3), ..all[0] });
    assert_eq!(script.members(), [(1, 1, Serving), (3, 1, Serving), (2, 1, Syncing)]);
}

#[test]
fn what_has_caught_up_serves_though_its_predecessor_dies() {
    let mut script =
        Script::new(Some(configuration(5, &[(1, 1, Serving), (2, 1, Serving), (3, 1, Syncing)])));
    for id in [1, 3, 2] {
        script.hear(Says { epoch: 5, joined: (id == 2).then_some(3), ..says(id, 1) });
    }
    // The registry is slow, and has something else in the end: nobody heard of the first attempt.
    script.controller.stored(script.now, Err(Some(three())), &mut Vec::new());
    assert_eq!(script.members().len(), 3);
    assert!(script.members().iter().all(|(_, _, part)| *part == Serving));
}
