//! Each rule, with scripted signs of life.

mod leases;
mod lost;
mod members;
mod orders;

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
