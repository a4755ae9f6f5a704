//! A controller for these tests: it grants leases and, if it governs, decides as the design says, in few words.

use super::world::{World, ms};
use crate::chain::{Configuration, Epoch, Incarnation, Member, Message, Part, Planted, ReplicaId};
use base::Nanos;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Governor {
    pub(super) configuration: Configuration,
    /// When it decides next; never, unless it governs.
    pub(super) next: Nanos,
    alive: BTreeMap<u16, Alive>,
    /// Leases: of which epoch, until when at the latest.
    grants: BTreeMap<u16, (Epoch, Nanos)>,
    gathers_until: Option<Nanos>,
}

#[derive(Clone, Debug)]
struct Alive {
    incarnation: Incarnation,
    epoch: Epoch,
    born: Incarnation,
    whole: bool,
    joined: Option<ReplicaId>,
    at: Nanos,
}

impl Default for Governor {
    fn default() -> Governor {
        Governor {
            configuration: Configuration::default(),
            next: Nanos::MAX,
            alive: BTreeMap::new(),
            grants: BTreeMap::new(),
            gathers_until: None,
        }
    }
}

impl Governor {
    /// Nobody reads by an earlier epoch.
    pub(super) fn is_settled(&self, now: Nanos) -> bool {
        self.grants.values().all(|(epoch, until)| *epoch >= self.configuration.epoch || *until <= now)
    }
}

impl World {
    /// From now on the world decides on configurations.
    pub(super) fn govern(&mut self) {
        self.governor.next = self.now;
    }

    pub(super) fn hear_alive(&mut self, id: u16, message: &Message) {
        let Message::Alive { epoch, incarnation, beat, born, whole, joined, .. } = message else { return };
        if self.governor.alive.get(&id).is_some_and(|before| before.incarnation > *incarnation) {
            return;
        }
        if self.governor.alive.get(&id).is_some_and(|before| before.incarnation < *incarnation) {
            self.governor.grants.remove(&id);
        }
        let alive = Alive {
            incarnation: *incarnation,
            epoch: *epoch,
            born: *born,
            whole: *whole,
            joined: *joined,
            at: self.now,
        };
        self.governor.alive.insert(id, alive);
        let ours = self.governor.configuration.epoch;
        let lease = self.now.plus(self.config.lease).plus(ms(10));
        let (granted, until) = self.governor.grants.get(&id).copied().unwrap_or((*epoch, Nanos::ZERO));
        // Whoever acts by this epoch has none of an earlier one; whoever does not may take the answer for one of his.
        let granted = if *epoch >= ours { ours } else { granted.min(*epoch) };
        self.governor.grants.insert(id, (granted, until.max(lease)));
        self.lead(id, *beat);
    }

    pub(super) fn govern_now(&mut self) {
        self.governor.next = self.now.plus(ms(25));
        if let Some(members) = self.next_members() {
            let epoch = Epoch(self.governor.configuration.epoch.0 + 1);
            let reset = self.governor.configuration.reset;
            self.decide(Configuration { epoch, reset, members, ..Configuration::default() });
        }
    }

    /// The members of the next configuration, if there is to be one.
    fn next_members(&mut self) -> Option<Vec<Member>> {
        let governor = &self.governor;
        let configuration = &governor.configuration;
        let life = |id: u16| governor.alive.get(&id);
        let member = |id: u16, part| Member {
            replica: ReplicaId(id),
            incarnation: governor.alive[&id].incarnation,
            part,
        };
        if configuration.epoch == Epoch(0) {
            let all = governor.alive.len() == self.running.len();
            return all.then(|| governor.alive.keys().map(|id| member(*id, Part::Serving)).collect());
        }
        let is_same = |m: &Member| life(m.replica.0).is_some_and(|alive| alive.incarnation == m.incarnation);
        let lease_is_over =
            |m: &Member| governor.grants.get(&m.replica.0).is_none_or(|(_, until)| *until <= self.now);
        let is_gone = |m: &Member| !is_same(m) || lease_is_over(m);
        let serving: Vec<Member> = configuration.serving().collect();
        if serving.iter().all(is_gone) {
            return self.gather(&serving);
        }
        let here: Vec<Member> = configuration.members.iter().filter(|m| !is_gone(m)).copied().collect();
        if here.len() < configuration.members.len() {
            return Some(here);
        }
        let mut members = here;
        if let Some(last) = members.last_mut().filter(|last| last.part == Part::Syncing) {
            let before = serving.last().and_then(|tail| life(tail.replica.0));
            let has_joined = before
                .is_some_and(|tail| tail.epoch == configuration.epoch && tail.joined == Some(last.replica));
            last.part = Part::Serving;
            return has_joined.then_some(members);
        }
        let is_new = |id: &u16, alive: &Alive| {
            configuration.position(ReplicaId(*id)).is_none() && alive.at.plus(ms(200)) > self.now
        };
        let new = governor.alive.iter().find(|(id, alive)| is_new(id, alive)).map(|(id, _)| *id)?;
        members.push(member(new, Part::Syncing));
        Some(members)
    }

    /// All that served were down: those that are back and have everything go on, after a while or when all are back.
    fn gather(&mut self, serving: &[Member]) -> Option<Vec<Member>> {
        let now = self.now;
        let trusts = self.planted == Some(Planted::TrustEmptyLog);
        let is_back = |m: &&Member| {
            let alive = self.governor.alive.get(&m.replica.0);
            let has_all = |alive: &Alive| trusts || alive.whole && alive.born <= m.incarnation;
            alive.is_some_and(|alive| has_all(alive) && alive.at.plus(ms(200)) > now)
        };
        let back: Vec<Member> = serving.iter().filter(is_back).copied().collect();
        let until = *self.governor.gathers_until.get_or_insert(now.plus(ms(700)));
        if back.is_empty() || back.len() < serving.len() && now < until {
            return None;
        }
        self.governor.gathers_until = None;
        let alive = &self.governor.alive;
        let renew = |m: Member| Member { incarnation: alive[&m.replica.0].incarnation, ..m };
        Some(back.into_iter().map(renew).collect())
    }
}
