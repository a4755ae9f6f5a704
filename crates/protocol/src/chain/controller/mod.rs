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
//! 6. Who is left out by an order serves until then, and hears of it first: 2 holds for when the others hear of it (`orders`).
//!
//! It leaves a member out only after another serving one was heard from *later* than the moment it was lost. When the power fails, all fall
//! silent within a heartbeat, in some order; the last of them must not be left as the only one that serves.
//!
//! Bounds: one entry for each replica of the chain ([`MOST_REPLICAS`](super::order::MOST_REPLICAS) by orders); nothing is kept of others. One order at a time.
//! Tests: `tests.rs` (each rule), `random.rs` (replicas, clocks, registry and network at random).

mod decide;
mod leases;
mod orders;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
mod waiting;

pub use waiting::{ResetRefused, Waiting};

use super::{
    Config, Configuration, Epoch, Gap, Incarnation, Lsn, Member, Message, NodeId, Out, Part, Planted,
    ReplicaAddress, ReplicaId,
};
use crate::planted::{Bugs, NoBugs};
use base::Nanos;
use orders::Asker;
use std::collections::BTreeMap;

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller<B = NoBugs> {
    config: Config,
    bugs: B,
    number: u16,
    /// All that belong to the chain before the first order, as a new one begins with them.
    replicas: Vec<ReplicaAddress>,
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
    /// The configuration was kept from its members, and is still.
    held_back: bool,
    /// Whose order the proposal is.
    asker: Option<Asker>,
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
    /// The members do not hear of the configuration yet: one that an order left out may still read.
    pub held_back: bool,
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
        let unknown =
            |id: &ReplicaId| ReplicaAddress { replica: *id, peers: String::new(), clients: String::new() };
        Controller::standby_at(config, number, replicas.iter().map(unknown))
    }

    /// The same, where it is known where the replicas are: who joins by an order is told.
    pub fn standby_at(
        config: &Config,
        number: u16,
        replicas: impl IntoIterator<Item = ReplicaAddress>,
    ) -> Controller<B> {
        let mut unique: Vec<ReplicaAddress> = Vec::new();
        for at in replicas {
            if unique.iter().all(|known| known.replica != at.replica) {
                unique.push(at);
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
            held_back: false,
            asker: None,
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
        self.asker = None;
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
        match (from, message) {
            (NodeId::Client(_), Message::Order { token, order }) => {
                self.hear_order(now, from, token, order, out);
                self.deadline = self.earliest_after(now);
            }
            (NodeId::Replica(replica), message @ Message::Alive { .. }) if self.leads(now) => {
                if !self.belonging().any(|id| id == replica) && !self.was_left(replica) {
                    return self.answer_other(now, replica, &message, out);
                }
                if self.hear(now, replica, message) {
                    self.answer(now, replica, out);
                }
                self.tick(now, out);
            }
            _ => {}
        }
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.leads(now) {
            if self.proposal.is_none() && !self.holds_back(now) {
                self.decide(now);
            }
            if self.held_back && !self.holds_back(now) {
                self.held_back = false;
                self.answer_all(now, out);
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
        let is_stored = result.is_ok();
        match result {
            Ok(()) => self.adopt(now, proposal),
            Err(found) => self.adopt_unknown(now, found),
        }
        self.answer_asker(now, is_stored, out);
        if self.leads(now) {
            self.answer_all(now, out);
        }
        self.tick(now, out);
    }

    /// Says how it is to all that were heard.
    fn answer_all(&mut self, now: Nanos, out: &mut Out) {
        let heard: Vec<ReplicaId> = self.heard.keys().copied().collect();
        heard.into_iter().for_each(|replica| self.answer(now, replica, out));
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
        let begun = Configuration { slots: self.config.slots.clone(), ..Configuration::default() };
        let orders = self.configuration.clone().unwrap_or(begun);
        let (kept, left) = (Lsn::ZERO, Vec::new());
        self.proposal = Some(Configuration { epoch, reset: epoch, kept, members, left, ..orders });
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
            held_back: self.holds_back(now),
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
        self.note_told(replica, epoch);
        true
    }

    fn member(&self, replica: ReplicaId) -> Option<Member> {
        let configuration = self.configuration.as_ref()?;
        configuration.position(replica).map(|place| configuration.members[place])
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
