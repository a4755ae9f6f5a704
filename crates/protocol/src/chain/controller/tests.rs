//! Each rule, with scripted signs of life.

use super::*;
use crate::chain::Durability;

const BEAT: Nanos = Nanos::from_millis(50);

/// A controller, a registry that takes everything at once, and replicas that say what the script tells them to.
struct Script {
    controller: Controller<Option<Planted>>,
    now: Nanos,
    beat: u64,
    out: Out,
}

/// A sign of life as most tests need it.
#[derive(Clone, Copy)]
struct Says {
    replica: u16,
    life: u64,
    epoch: u64,
    last: u64,
    committed: u64,
    /// The life that made its log.
    born: u64,
    whole: bool,
    joined: Option<u16>,
    missing: Option<(u64, u64)>,
}

fn says(replica: u16, life: u64) -> Says {
    Says { replica, life, epoch: 0, last: 0, committed: 0, born: 1, whole: true, joined: None, missing: None }
}

fn configuration(epoch: u64, members: &[(u16, u64, Part)]) -> Configuration {
    let member = |(replica, life, part): &(u16, u64, Part)| Member {
        replica: ReplicaId(*replica),
        incarnation: Incarnation(*life),
        part: *part,
    };
    let members = members.iter().map(member).collect();
    Configuration { epoch: Epoch(epoch), members, ..Configuration::default() }
}

/// All of life 1, serving.
fn three() -> Configuration {
    configuration(5, &[(1, 1, Part::Serving), (2, 1, Part::Serving), (3, 1, Part::Serving)])
}

fn ids(count: u16) -> Vec<ReplicaId> {
    (1..=count).map(ReplicaId).collect()
}

impl Script {
    fn new(stored: Option<Configuration>) -> Script {
        Script::with(None, stored)
    }

    fn with(planted: Option<Planted>, stored: Option<Configuration>) -> Script {
        let now = Nanos::from_secs(100);
        let mut controller = Controller::standby(&Config::default(), 0, &ids(3)).with_bugs(planted);
        controller.lead(now, Nanos::MAX, stored);
        Script { controller, now, beat: 0, out: Vec::new() }
    }

    /// Says it; answers are in `out` afterwards. Nothing is stored by itself.
    fn hear(&mut self, what: Says) {
        self.beat += 1;
        let message = Message::Alive {
            epoch: Epoch(what.epoch),
            incarnation: Incarnation(what.life),
            beat: self.beat,
            last: Lsn(what.last),
            last_epoch: Epoch(if what.last > 0 { what.epoch } else { 0 }),
            committed: Lsn(what.committed),
            durability: Durability::PowerLoss,
            born: Incarnation(what.born),
            whole: what.whole,
            joined: what.joined.map(ReplicaId),
            missing: what.missing.map(|(first, last)| Gap { first: Lsn(first), last: Lsn(last) }),
            stalled_ms: 0,
        };
        self.out.clear();
        self.controller.handle(self.now, NodeId::Replica(ReplicaId(what.replica)), message, &mut self.out);
    }

    fn store(&mut self) -> Configuration {
        let proposal = self.controller.proposal().cloned().expect("a proposal");
        self.out.clear();
        self.controller.stored(self.now, Ok(()), &mut self.out);
        proposal
    }

    fn hear_and_store(&mut self, what: Says) {
        self.hear(what);
        while self.controller.proposal().is_some() {
            self.store();
        }
    }

    /// Lets time pass while these live, in their life of the configuration in force; stores what is proposed.
    fn pass(&mut self, span: Nanos, living: &[Says]) {
        let end = self.now.plus(span);
        while self.now < end {
            self.now = self.now.plus(BEAT);
            for what in living {
                let epoch = self.epoch();
                self.hear_and_store(Says { epoch, ..*what });
            }
            self.controller.tick(self.now, &mut self.out);
        }
    }

    fn epoch(&self) -> u64 {
        self.controller.configuration().map_or(0, |configuration| configuration.epoch.0)
    }

    fn members(&self) -> Vec<(u16, u64, Part)> {
        let members = self.controller.configuration().map_or(&[][..], |c| &c.members);
        members.iter().map(|member| (member.replica.0, member.incarnation.0, member.part)).collect()
    }

    fn leads_to(&self, replica: u16) -> Vec<(u64, bool)> {
        let mine = self.out.iter().filter(|(to, _)| *to == NodeId::Replica(ReplicaId(replica)));
        mine.map(|(_, message)| match message {
            Message::Lead { configuration, settled, .. } => (configuration.epoch.0, *settled),
            other => panic!("a controller says {other:?}"),
        })
        .collect()
    }
}

use Part::{Serving, Syncing};

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

#[test]
fn late_and_foreign_messages_change_nothing() {
    let mut script = Script::new(Some(three()));
    script.pass(Nanos::from_millis(100), &[says(1, 1), says(2, 2), says(3, 1)]);
    let before = script.controller.clone();
    script.hear(Says { epoch: 5, ..says(2, 1) });
    script.hear(says(9, 1));
    script.beat = 0;
    script.hear(Says { joined: Some(2), ..says(3, 1) });
    assert_eq!(script.controller, before);
    let lead = Message::Lead { configuration: three(), beat: 1, incarnation: Incarnation(1), settled: true };
    script.controller.handle(script.now, NodeId::Controller(2), lead, &mut script.out);
    assert_eq!(script.controller, before);
    assert!(script.out.is_empty());
}

#[test]
fn planted_bugs_break_what_they_should() {
    let hasty = Some(Planted::DeposeTooSoon);
    let mut script = Script::with(hasty, Some(three()));
    script.pass(Nanos::from_millis(100), &[says(1, 1), says(2, 1), says(3, 1)]);
    script.pass(Nanos::from_millis(200), &[says(1, 1), says(2, 1)]);
    assert_eq!(script.members(), [(1, 1, Serving), (2, 1, Serving)], "3 has a lease of 500 ms");

    let trusting = Some(Planted::TrustEmptyLog);
    let mut script = Script::with(trusting, Some(three()));
    script.pass(Nanos::from_millis(600), &[]);
    let empty = [Says { whole: false, ..says(1, 2) }];
    script.pass(Nanos::from_secs(3), &empty);
    assert_eq!(script.members(), [(1, 2, Serving)]);
}

impl Script {
    /// As [`Script::pass`], with the epochs that they say.
    fn pass_as_they_are(&mut self, span: Nanos, living: &[Says]) {
        let end = self.now.plus(span);
        while self.now < end {
            self.now = self.now.plus(BEAT);
            for what in living {
                self.hear(*what);
            }
            self.controller.tick(self.now, &mut self.out);
        }
    }

    /// As [`Script::pass`], with a registry that does not answer.
    fn pass_without_store(&mut self, span: Nanos, living: &[Says]) {
        let epoch = self.epoch();
        let living: Vec<_> = living.iter().map(|what| Says { epoch, ..*what }).collect();
        self.pass_as_they_are(span, &living);
    }
}
