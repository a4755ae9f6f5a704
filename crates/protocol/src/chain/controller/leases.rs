//! Leases: who is told the configuration in force, and until when it may be read by.

use super::{Controller, Grant};
use crate::chain::{Configuration, Member, Message, NodeId, Out, Planted, ReplicaId};
use crate::planted::Bugs;
use base::Nanos;
use std::collections::BTreeMap;

impl<B: Bugs<Planted>> Controller<B> {
    /// Answers what a replica said last: the configuration and, to a member, a lease.
    pub(super) fn answer(&mut self, now: Nanos, replica: ReplicaId, out: &mut Out) {
        let Some(configuration) = &self.configuration else { return };
        let Some(heard) = self.heard.get(&replica) else { return };
        if now < self.quiet_until || self.registry_behind(now).is_some() || self.is_leaving(replica) {
            return;
        }
        if self.holds_back(now) && !self.was_left(replica) {
            return;
        }
        if self.bugs.has(Planted::TellTooSoon) && self.was_left(replica) && !self.is_settled(now) {
            return;
        }
        let is_member = configuration.position(replica).is_some();
        let (beat, incarnation) = (heard.beat, heard.incarnation);
        // The lease counts from when the beat was sent, which was before it was heard.
        let until = heard.at.plus(self.silence());
        let settled = self.is_settled(now);
        self.told_settled |= settled && configuration.tail().is_some_and(|tail| tail.replica == replica);
        let lead = Message::Lead { configuration: configuration.clone(), beat, incarnation, settled };
        let grant = self.grants.get_mut(&replica).filter(|grant| grant.incarnation == incarnation);
        if let Some(grant) = grant.filter(|_| is_member) {
            grant.until = grant.until.max(until);
        }
        out.push((NodeId::Replica(replica), lead));
    }

    /// The tail waits for this word to serve reads: it is sent when it becomes true, not with the next answer.
    pub(super) fn tell_settled(&mut self, now: Nanos, out: &mut Out) {
        if !self.told_settled && self.is_settled(now) {
            self.told_settled = true;
            if let Some(tail) = self.configuration.as_ref().and_then(Configuration::tail) {
                self.answer(now, tail.replica, out);
            }
        }
    }

    /// Whether the proposal leaves this member, or this life of it, out.
    fn is_leaving(&self, replica: ReplicaId) -> bool {
        let stays = |member: Member| {
            self.proposal.as_ref().is_none_or(|proposal| {
                let mut members = proposal.members.iter();
                members.any(|next| (next.replica, next.incarnation) == (replica, member.incarnation))
            })
        };
        self.member(replica).is_some_and(|member| !stays(member))
    }

    /// A configuration of its own is in force.
    pub(super) fn adopt(&mut self, now: Nanos, configuration: Configuration) {
        let silence = self.silence();
        let mut grants = BTreeMap::new();
        for (replica, grant) in &self.grants {
            let is_over = self.heard.get(replica).is_some_and(|heard| heard.incarnation > grant.incarnation);
            let earlier = grant.earlier.max(grant.until);
            if earlier > now && !is_over {
                grants.insert(*replica, Grant { earlier, ..grant.clone() });
            }
        }
        for member in &configuration.members {
            let fresh =
                Grant { incarnation: member.incarnation, until: now.plus(silence), earlier: Nanos::ZERO };
            let grant = grants.entry(member.replica).or_insert_with(|| fresh.clone());
            if grant.incarnation != member.incarnation {
                *grant = fresh;
            }
        }
        self.begin(Some(configuration), grants);
    }

    /// What the registry has is in force, and it is not known what leases were granted under it, or before. Those of whom it leaves out, that
    /// are known here, end before anybody hears of it.
    pub(super) fn adopt_unknown(&mut self, now: Nanos, found: Option<Configuration>) {
        let members = found.iter().flat_map(|configuration| &configuration.members);
        let left = found.iter().flat_map(|configuration| &configuration.left);
        // Who was left out by an order hears of it first.
        let is_member =
            |id: ReplicaId| members.clone().chain(left.clone()).any(|member| member.replica == id);
        let left_out = self.grants.iter().filter(|(replica, _)| !is_member(**replica));
        let quiet_until = left_out.map(|(_, grant)| grant.until).max().unwrap_or_default();
        let until = now.max(quiet_until).plus(self.silence());
        let grant = |member: &Member| {
            (member.replica, Grant { incarnation: member.incarnation, until, earlier: until })
        };
        let grants = members.chain(left).map(grant).collect();
        self.quiet_until = quiet_until;
        self.knows_since = now.max(quiet_until);
        self.begin(found, grants);
    }

    fn begin(&mut self, configuration: Option<Configuration>, grants: BTreeMap<ReplicaId, Grant>) {
        self.configuration = configuration;
        self.grants = grants;
        self.gathers_until = None;
        self.told_settled = false;
        let left = self.configuration.iter().flat_map(|configuration| &configuration.left);
        self.held_back = left.count() > 0;
        let mut known: Vec<ReplicaId> = self.belonging().collect();
        known.extend(self.configuration.iter().flat_map(|c| &c.left).map(|member| member.replica));
        self.heard.retain(|replica, _| known.contains(replica));
    }

    /// Whether no lease runs that was granted under an earlier epoch to somebody who has not heard of this one.
    pub(super) fn is_settled(&self, now: Nanos) -> bool {
        self.grants.values().all(|grant| grant.earlier <= now)
    }

    /// From a sign of life on, so long may a lease run that was granted for it, on any clock.
    pub(super) fn silence(&self) -> Nanos {
        if self.bugs.has(Planted::DeposeTooSoon) {
            return Nanos(self.config.heartbeat.0.saturating_mul(2));
        }
        let lease = self.config.lease;
        let drift = (u128::from(lease.0) * u128::from(self.config.drift_percent)).div_ceil(100);
        lease.plus(Nanos(u64::try_from(drift).unwrap_or(u64::MAX)))
    }
}
