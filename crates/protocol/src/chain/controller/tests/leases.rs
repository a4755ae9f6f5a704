//! Leases: what is granted while a configuration changes, who leads, and when an epoch is settled.

use super::*;

#[test]
fn who_is_about_to_be_left_out_is_granted_nothing() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(100), &[says(1, 1), says(2, 1), says(3, 1)]);
    script.pass_without_store(Nanos::from_millis(600), &[says(1, 1), says(2, 1)]);
    assert!(script.controller.proposal().is_some());
    script.hear(Says { epoch: 5, ..says(3, 1) });
    assert!(script.out.is_empty(), "it was silent, and the next configuration is on its way");
    script.hear(Says { epoch: 5, ..says(1, 1) });
    assert_eq!(script.leads_to(1), [(5, true)], "the others go on");
    // The registry had something else: it stays.
    script.out.clear();
    script.controller.stored(script.now, Err(Some(three())), &mut script.out);
    assert_eq!(script.leads_to(3), [(5, false)]);
}

#[test]
fn a_configuration_of_somebody_else_is_taken_and_all_members_may_have_leases() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(100), &[says(1, 1), says(2, 1), says(3, 1)]);
    script.pass_without_store(Nanos::from_millis(600), &[says(1, 1), says(2, 1)]);
    let theirs = configuration(6, &[(2, 1, Serving), (3, 1, Serving), (1, 1, Syncing)]);
    script.controller.stored(script.now, Err(Some(theirs)), &mut script.out);
    script.pass(Nanos::from_millis(450), &[says(2, 1)]);
    assert_eq!(script.members(), [(2, 1, Serving), (3, 1, Serving), (1, 1, Syncing)], "cautious");
    script.pass(Nanos::from_millis(150), &[says(2, 1)]);
    assert_eq!(script.members(), [(2, 1, Serving)]);
}

#[test]
fn a_configuration_of_somebody_else_is_not_told_while_leases_run_that_it_does_not_know_of() {
    let mut script = Script::new(Some(three()));
    let living = [says(1, 1), says(2, 1), says(3, 1)];
    script.pass(Nanos::from_millis(100), &living);
    script.hear(says(2, 2));
    script.hear(Says { epoch: 5, ..says(1, 1) });
    // An operator's work, while 1 has a lease.
    let theirs = configuration(6, &[(3, 1, Serving)]);
    script.out.clear();
    script.controller.stored(script.now, Err(Some(theirs)), &mut script.out);
    script.hear(Says { epoch: 5, ..says(3, 1) });
    assert!(script.out.is_empty());
    script.now = script.now.plus(Nanos::from_millis(506));
    script.hear(Says { epoch: 5, ..says(3, 1) });
    assert_eq!(script.leads_to(3).len(), 1);
}

#[test]
fn without_leadership_it_says_nothing_and_a_successor_waits() {
    let config = Config::default();
    let mut script = Script::new(None);
    script.controller = Controller::standby(&config, 1, &ids(3));
    script.hear(says(1, 1));
    assert!(script.out.is_empty() && script.controller.next_deadline() == Nanos::MAX);
    let until = script.now.plus(Nanos::from_millis(200));
    script.controller.lead(script.now, until, Some(three()));
    script.pass(Nanos::from_millis(150), &[says(1, 1), says(2, 1)]);
    script.hear(Says { epoch: 5, ..says(1, 1) });
    assert_eq!(script.leads_to(1), [(5, false)], "3 may have a lease of an earlier epoch");
    script.now = until;
    script.hear(Says { epoch: 5, ..says(1, 1) });
    assert!(script.out.is_empty());
    // It is another one's turn for long, and then its own again.
    script.pass(Nanos::from_secs(9), &[says(1, 1), says(2, 1)]);
    assert!(script.controller.proposal().is_none());
    script.controller.lead(script.now, Nanos::MAX, Some(three()));
    script.pass(Nanos::from_millis(450), &[says(1, 1), says(2, 1)]);
    assert_eq!(script.epoch(), 5);
    script.pass(Nanos::from_millis(150), &[says(1, 1), says(2, 1)]);
    assert_eq!(script.members(), [(1, 1, Serving), (2, 1, Serving)]);
}

#[test]
fn an_epoch_is_settled_when_no_lease_of_an_earlier_one_runs() {
    let mut script =
        Script::new(Some(configuration(5, &[(1, 1, Serving), (2, 1, Serving), (3, 1, Syncing)])));
    script.pass(Nanos::from_millis(1000), &[says(1, 1), says(2, 1), says(3, 1)]);
    script.hear_and_store(Says { epoch: 5, joined: Some(3), ..says(2, 1) });
    assert_eq!(script.epoch(), 6);
    for id in 1..=3 {
        assert_eq!(script.leads_to(id), [(6, false)]);
    }
    script.hear(Says { epoch: 6, ..says(1, 1) });
    script.hear(Says { epoch: 6, ..says(3, 1) });
    assert_eq!(script.leads_to(3), [(6, false)]);
    script.hear(Says { epoch: 6, ..says(2, 1) });
    assert_eq!(
        (script.leads_to(2), script.leads_to(3)),
        (vec![(6, true)], vec![(6, true)]),
        "the tail hears it at once"
    );
}

#[test]
fn a_lease_that_nobody_answers_for_settles_when_it_is_over() {
    let mut script = Script::new(Some(configuration(5, &[(1, 1, Serving), (2, 1, Serving)])));
    script.hear(Says { epoch: 5, ..says(1, 1) });
    assert_eq!(script.leads_to(1), [(5, false)]);
    // The tail is heard, but acts by what was before.
    for _ in 0..11 {
        script.hear(Says { epoch: 4, ..says(2, 1) });
        assert_eq!(script.leads_to(2), [(5, false)]);
        script.now = script.now.plus(Nanos::from_millis(46));
    }
    script.controller.tick(script.now, &mut script.out);
    script.hear(Says { epoch: 4, ..says(2, 1) });
    assert_eq!(script.leads_to(2), [(5, true)]);
}
