//! A controller: decides who is in the chain, as "Configurations" in `docs/design/006-chain.md` says.
//!
//! ```text
//!  ALIVE ──▶ handle ──▶ decide ──▶ proposal() ──driver: registry, compare-and-swap on the epoch──▶ stored(Ok) ──▶ LEAD to all
//!                │                                                                        └──▶ stored(Err(what is there))
//!                └──LEAD: the configuration, a lease                                                  adopted, nothing known of leases
//! ```
//!
//! Invariants:
//! 1. Nobody hears of a configuration before it is durable.
//! 2. No serving member is left out while its lease may run, except for a new life of itself: an old life's lease ended with it.
//! 3. Who is about to be left out is granted nothing.
//! 4. Who serves was serving before and has everything, or caught up as a syncing member.
//! 5. Without leadership ([`Controller::lead`]) it proposes, grants and says nothing.
//!
//! It leaves a member out only after another serving one was heard from *later* than the moment it was lost. When the power fails, all fall
//! silent within a heartbeat, in some order; the last of them must not be left as the only one that serves.
//!
//! Bounds: one entry for each replica of the chain; messages of others are dropped.
//! Tests: `tests.rs` (each rule), `random.rs` (replicas, clocks, registry and network at random).

mod decide;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
mod waiting;

pub use waiting::{ResetRefused, Waiting};

use super::{
    Config, Configuration, Epoch, Gap, Incarnation, Lsn, Member, Message, NodeId, Out, Part, Planted,
    ReplicaId,
};
use crate::planted::{Bugs, NoBugs};
use base::Nanos;
use std::collections::BTreeMap;

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller<B = NoBugs> {
    config: Config,
    bugs: B,
    number: u16,
    /// All that belong to the chain, as the operator orders them.
    replicas: Vec<ReplicaId>,
    /// The one that is in force. Durable.
    configuration: Option<Configuration>,
    /// The next one, which the driver makes durable.
    proposal: Option<Configuration>,
    /// It may act before this.
    leads_until: Nanos,
    /// Others may have granted leases before this that it does not know of.
    knows_since: Nanos,
    /// It says nothing of the configuration before this.
    quiet_until: Nanos,
    heard: BTreeMap<ReplicaId, Heard>,
    /// Of members, and of others while one may run.
    grants: BTreeMap<ReplicaId, Grant>,
    /// After all were down: how long it waits for more.
    gathers_until: Option<Nanos>,
    waiting: Option<Waiting>,
    /// The tail was told that the configuration is settled.
    told_settled: bool,
    deadline: Nanos,
}

/// What a replica said last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Heard {
    incarnation: Incarnation,
    beat: u64,
    epoch: Epoch,
    last: Lsn,
    last_epoch: Epoch,
    committed: Lsn,
    born: Incarnation,
    whole: bool,
    joined: Option<ReplicaId>,
    missing: Option<Gap>,
    stalled: Nanos,
    /// When it came.
    at: Nanos,
    /// When the first of this life came.
    since: Nanos,
}

/// A lease that a replica may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Grant {
    incarnation: Incarnation,
    /// It may run until then; the replica is silent from then on.
    until: Nanos,
    /// One granted under an earlier epoch may run until then.
    earlier: Nanos,
}

/// What a controller knows, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The configuration in force.
    pub configuration: Option<Configuration>,
    /// Until when it leads; the past if it does not.
    pub leads_until: Nanos,
    /// No lease of an earlier epoch runs.
    pub settled: bool,
    /// Why nobody serves, if so.
    pub waiting: Option<Waiting>,
    /// Replicas that are there and whose logs have been at a write for long, and how long.
    pub slow: Vec<(ReplicaId, Nanos)>,
    /// Replicas that were heard: life, epoch they act by, when they were heard last.
    pub heard: Vec<(ReplicaId, Incarnation, Epoch, Nanos)>,
}

impl<B: Bugs<Planted>> Controller<B> {
    /// The only controller of a chain with these replicas: it leads at once and for good. `stored` is what the registry has.
    pub fn new(
        config: &Config,
        number: u16,
        replicas: &[ReplicaId],
        stored: Option<Configuration>,
        now: Nanos,
    ) -> Controller<B> {
        let mut controller = Controller::standby(config, number, replicas);
        controller.lead(now, Nanos::MAX, stored);
        controller
    }

    /// One of several controllers: it does nothing before [`Controller::lead`].
    pub fn standby(config: &Config, number: u16, replicas: &[ReplicaId]) -> Controller<B> {
        let mut unique = Vec::with_capacity(replicas.len());
        for replica in replicas {
            if !unique.contains(replica) {
                unique.push(*replica);
            }
        }
        Controller {
            config: config.clone(),
            bugs: B::default(),
            number,
            replicas: unique,
            configuration: None,
            proposal: None,
            leads_until: Nanos::ZERO,
            knows_since: Nanos::ZERO,
            quiet_until: Nanos::ZERO,
            heard: BTreeMap::new(),
            grants: BTreeMap::new(),
            gathers_until: None,
            waiting: None,
            told_settled: false,
            deadline: Nanos::MAX,
        }
    }

    /// It makes these mistakes, in tests and simulations.
    #[must_use]
    pub fn with_bugs(self, bugs: B) -> Controller<B> {
        Controller { bugs, ..self }
    }

    /// Leadership was won, until `until` at least. `stored` must have been read from the registry after that. What was granted by others is
    /// not known.
    pub fn lead(&mut self, now: Nanos, until: Nanos, stored: Option<Configuration>) {
        self.leads_until = until;
        self.proposal = None;
        self.waiting = None;
        self.heard.clear();
        self.adopt_unknown(now, stored);
        self.deadline = self.earliest_after(now);
    }

    /// Leadership was renewed.
    pub fn extend(&mut self, until: Nanos) {
        self.leads_until = self.leads_until.max(until);
    }

    /// Leadership is given up.
    pub fn resign(&mut self) {
        self.leads_until = Nanos::ZERO;
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        let (NodeId::Replica(replica), Message::Alive { .. }) = (from, &message) else { return };
        if !self.leads(now) || !self.replicas.contains(&replica) {
            return;
        }
        if self.hear(now, replica, message) {
            self.answer(now, replica, out);
        }
        self.tick(now, out);
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.leads(now) {
            if self.proposal.is_none() {
                self.decide(now);
            }
            self.tell_settled(now, out);
        }
        self.deadline = self.earliest_after(now);
    }

    /// When [`Controller::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.deadline
    }

    /// What is to be made durable, if the registry has the epoch of [`Controller::configuration`] (or nothing, before the first). The outcome
    /// goes to [`Controller::stored`]; it must be the true one, however long it takes to find out.
    pub fn proposal(&self) -> Option<&Configuration> {
        self.proposal.as_ref()
    }

    /// What became of the proposal: it is durable, or this is there instead.
    pub fn stored(&mut self, now: Nanos, result: Result<(), Option<Configuration>>, out: &mut Out) {
        let Some(proposal) = self.proposal.take() else { return };
        match result {
            Ok(()) => self.adopt(now, proposal),
            Err(found) => self.adopt_unknown(now, found),
        }
        if self.leads(now) {
            for replica in self.replicas.clone() {
                self.answer(now, replica, out);
            }
        }
        self.tick(now, out);
    }

    /// An operator accepts that data is lost: the replica with the longest log, or `serve`, serves as the only one, whatever it lacks. Who it
    /// is. The proposal says so.
    ///
    /// # Errors
    /// [`ResetRefused`].
    pub fn reset(&mut self, now: Nanos, serve: Option<ReplicaId>) -> Result<ReplicaId, ResetRefused> {
        if !self.leads(now) || self.proposal.is_some() {
            return Err(ResetRefused::NotNow);
        }
        let clear = self.knows_since.plus(self.silence());
        if now < clear {
            return Err(ResetRefused::TooEarly(clear));
        }
        if let Some(member) = self.may_serve(now) {
            return Err(ResetRefused::Serves(member.replica));
        }
        let there = self.heard.iter().filter(|(replica, _)| self.is_there(now, **replica));
        let (replica, heard) = there
            .filter(|(replica, _)| serve.is_none_or(|wanted| wanted == **replica))
            .max_by_key(|(_, heard)| (heard.last_epoch, heard.last))
            .ok_or(ResetRefused::NobodyThere)?;
        let (replica, incarnation) = (*replica, heard.incarnation);
        let seen = self.heard.values().map(|heard| heard.epoch.max(heard.last_epoch));
        let before = seen.chain(self.configuration.iter().map(|c| c.epoch)).max().unwrap_or_default();
        let members = vec![Member { replica, incarnation, part: Part::Serving }];
        let epoch = Epoch(before.0 + 1);
        self.proposal = Some(Configuration { epoch, reset: epoch, kept: Lsn::ZERO, members });
        self.waiting = None;
        Ok(replica)
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.configuration.as_ref()
    }

    /// Why nobody serves, if so.
    pub fn waiting(&self) -> Option<&Waiting> {
        self.waiting.as_ref()
    }

    /// Whether it may act.
    pub fn leads(&self, now: Nanos) -> bool {
        now < self.leads_until
    }

    /// What it knows.
    pub fn view(&self, now: Nanos) -> View {
        let heard = self.heard.iter().map(|(id, heard)| (*id, heard.incarnation, heard.epoch, heard.at));
        View {
            configuration: self.configuration.clone(),
            leads_until: self.leads_until,
            settled: self.is_settled(now),
            waiting: self.waiting.clone(),
            slow: self.slow(now),
            heard: heard.collect(),
        }
    }

    /// Notes a sign of life; whether it was news.
    fn hear(&mut self, now: Nanos, replica: ReplicaId, message: Message) -> bool {
        let Message::Alive {
            epoch,
            incarnation,
            beat,
            last,
            last_epoch,
            committed,
            durability: _,
            born,
            whole,
            joined,
            missing,
            stalled_ms,
        } = message
        else {
            return false;
        };
        let stalled = Nanos::from_millis(stalled_ms.into());
        let before = self.heard.get(&replica);
        let is_late = before.is_some_and(|known| (incarnation, beat) <= (known.incarnation, known.beat));
        if is_late || self.member(replica).is_some_and(|member| incarnation < member.incarnation) {
            return false;
        }
        let since = before.filter(|known| known.incarnation == incarnation).map_or(now, |known| known.since);
        let heard = Heard {
            incarnation,
            beat,
            epoch,
            last,
            last_epoch,
            committed,
            born,
            whole,
            joined,
            missing,
            stalled,
            at: now,
            since,
        };
        self.heard.insert(replica, heard);
        let current = self.configuration.as_ref().map_or(Epoch(0), |configuration| configuration.epoch);
        if let Some(grant) = self.grants.get_mut(&replica)
            && (incarnation > grant.incarnation || epoch >= current)
        {
            grant.earlier = Nanos::ZERO;
        }
        true
    }

    /// Answers what a replica said last: the configuration and, to a member, a lease.
    fn answer(&mut self, now: Nanos, replica: ReplicaId, out: &mut Out) {
        let Some(configuration) = &self.configuration else { return };
        let Some(heard) = self.heard.get(&replica) else { return };
        if now < self.quiet_until || self.registry_behind(now).is_some() || self.is_leaving(replica) {
            return;
        }
        let (beat, incarnation) = (heard.beat, heard.incarnation);
        // The lease counts from when the beat was sent, which was before it was heard.
        let until = heard.at.plus(self.silence());
        let settled = self.is_settled(now);
        self.told_settled |= settled && configuration.tail().is_some_and(|tail| tail.replica == replica);
        let lead = Message::Lead { configuration: configuration.clone(), beat, incarnation, settled };
        if let Some(grant) = self.grants.get_mut(&replica).filter(|grant| grant.incarnation == incarnation) {
            grant.until = grant.until.max(until);
        }
        out.push((NodeId::Replica(replica), lead));
    }

    /// The tail waits for this word to serve reads: it is sent when it becomes true, not with the next answer.
    fn tell_settled(&mut self, now: Nanos, out: &mut Out) {
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
    fn adopt(&mut self, now: Nanos, configuration: Configuration) {
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
    fn adopt_unknown(&mut self, now: Nanos, found: Option<Configuration>) {
        let members = found.iter().flat_map(|configuration| &configuration.members);
        let is_member = |id: ReplicaId| members.clone().any(|member| member.replica == id);
        let left_out = self.grants.iter().filter(|(replica, _)| !is_member(**replica));
        let quiet_until = left_out.map(|(_, grant)| grant.until).max().unwrap_or_default();
        let until = now.max(quiet_until).plus(self.silence());
        let grant = |member: &Member| {
            (member.replica, Grant { incarnation: member.incarnation, until, earlier: until })
        };
        let grants = members.map(grant).collect();
        self.quiet_until = quiet_until;
        self.knows_since = now.max(quiet_until);
        self.begin(found, grants);
    }

    fn begin(&mut self, configuration: Option<Configuration>, grants: BTreeMap<ReplicaId, Grant>) {
        self.configuration = configuration;
        self.grants = grants;
        self.gathers_until = None;
        self.told_settled = false;
    }

    fn member(&self, replica: ReplicaId) -> Option<Member> {
        let configuration = self.configuration.as_ref()?;
        configuration.position(replica).map(|place| configuration.members[place])
    }

    /// Whether no lease runs that was granted under an earlier epoch to somebody who has not heard of this one.
    fn is_settled(&self, now: Nanos) -> bool {
        self.grants.values().all(|grant| grant.earlier <= now)
    }

    /// From a sign of life on, so long may a lease run that was granted for it, on any clock.
    fn silence(&self) -> Nanos {
        if self.bugs.has(Planted::DeposeTooSoon) {
            return Nanos(self.config.heartbeat.0.saturating_mul(2));
        }
        let lease = self.config.lease;
        let drift = (u128::from(lease.0) * u128::from(self.config.drift_percent)).div_ceil(100);
        lease.plus(Nanos(u64::try_from(drift).unwrap_or(u64::MAX)))
    }

    fn is_there(&self, now: Nanos, replica: ReplicaId) -> bool {
        self.heard.get(&replica).is_some_and(|heard| now < heard.at.plus(self.silence()))
    }

    /// Whose medium keeps it waiting for longer than a heartbeat or two.
    fn slow(&self, now: Nanos) -> Vec<(ReplicaId, Nanos)> {
        let least = Nanos(self.config.heartbeat.0.saturating_mul(2));
        let there = self.heard.iter().filter(|(replica, _)| self.is_there(now, **replica));
        let slow = there.filter(|(_, heard)| heard.stalled > least);
        slow.map(|(replica, heard)| (*replica, heard.stalled)).collect()
    }

    /// The next moment at which something may change by itself.
    fn earliest_after(&self, now: Nanos) -> Nanos {
        if !self.leads(now) {
            return Nanos::MAX;
        }
        let grants = self.grants.values().flat_map(|grant| [grant.until, grant.earlier]);
        let heard = self.heard.values().map(|heard| heard.at.plus(self.silence()));
        let moments = grants.chain(heard).chain(self.gathers_until).chain([self.quiet_until]);
        moments.filter(|moment| *moment > now).min().unwrap_or(Nanos::MAX)
    }
}
