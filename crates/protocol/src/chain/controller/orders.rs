//! Orders: what an operator wants becomes part of the next configuration, and who is left out alive hears of it before anybody else.
//!
//! ```text
//!  ORDER ──▶ obey ──▶ proposal ──registry──▶ in force ──LEAD──▶ who was left out ──ALIVE of this epoch, or its lease is over──▶ LEAD to all
//! ```
//! The others go on by the configuration before meanwhile: they cannot commit without the one that was left out, so nothing is shown by anybody
//! that it could contradict. That costs the chain two trips, and a lease where the one that was left out cannot be heard. A controller that takes
//! over finds in the registry who was left out, and waits likewise.

use super::Controller;
use crate::chain::order::{MAX_ADDRESS, MOST_REPLICAS};
use crate::chain::{
    Action, Configuration, Epoch, Member, Message, NodeId, Order, OrderRefused, OrderReply, Out, Part,
    Planted, ReplicaAddress, ReplicaId,
};
use crate::planted::Bugs;
use base::Nanos;

/// Who is to be told what became of the order that is being made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    from: NodeId,
    token: u64,
}

impl<B: Bugs<Planted>> Controller<B> {
    /// Takes an order, or a question.
    pub(super) fn hear_order(
        &mut self,
        now: Nanos,
        from: NodeId,
        token: u64,
        order: Option<Order>,
        out: &mut Out,
    ) {
        let asker = Asker { from, token };
        let reply = match order {
            None if self.leads(now) => OrderReply::Known,
            None => OrderReply::Refused(OrderRefused::NotLeading),
            Some(order) => match self.obey(now, order) {
                Ok(Some(epoch)) => OrderReply::Done(epoch),
                Ok(None) => {
                    // One at a time: the proposal is this order's.
                    self.asker = Some(asker);
                    return;
                }
                Err(why) => OrderReply::Refused(why),
            },
        };
        self.reply_to(now, asker, reply, out);
    }

    fn reply_to(&self, now: Nanos, asker: Asker, reply: OrderReply, out: &mut Out) {
        let configuration = self.configuration.clone().filter(|_| self.leads(now));
        out.push((asker.from, Message::Ordered { token: asker.token, reply, configuration }));
    }

    /// What became of the proposal is known, and so of the order if it was one.
    pub(super) fn answer_asker(&mut self, now: Nanos, is_stored: bool, out: &mut Out) {
        let Some(asker) = self.asker.take() else { return };
        let epoch = self.configuration.as_ref().map(|configuration| configuration.epoch);
        let reply = match epoch.filter(|_| is_stored) {
            Some(epoch) => OrderReply::Done(epoch),
            None => OrderReply::Refused(OrderRefused::NotNow),
        };
        self.reply_to(now, asker, reply, out);
    }

    /// Proposes what an order asks for; the epoch in which it is so, if it is already.
    fn obey(&mut self, now: Nanos, order: Order) -> Result<Option<Epoch>, OrderRefused> {
        if !self.leads(now) {
            return Err(OrderRefused::NotLeading);
        }
        let Some(current) = self.configuration.clone() else { return Err(OrderRefused::NotBegun) };
        if let Some(last) = &current.ordered {
            if *last == order {
                return Ok(Some(current.epoch));
            }
            if order.number <= last.number {
                return Err(OrderRefused::Late(last.number));
            }
        }
        if self.proposal.is_some() || self.holds_back(now) || self.registry_behind(now).is_some() {
            return Err(OrderRefused::NotNow);
        }
        let next = match &order.action {
            Action::Add(at) => self.with(&current, at)?,
            Action::Remove(replica, least) => self.without(now, &current, *replica, *least)?,
        };
        let Some(next) = next else { return Ok(Some(current.epoch)) };
        let epoch = Epoch(current.epoch.0 + 1);
        let kept = self.kept(&current);
        self.proposal = Some(Configuration { epoch, kept, ordered: Some(order), ..next });
        Ok(None)
    }

    /// The configuration with one more that belongs to the chain; nothing if it does.
    fn with(
        &self,
        current: &Configuration,
        at: &ReplicaAddress,
    ) -> Result<Option<Configuration>, OrderRefused> {
        let mut roster = self.roster();
        let is_long = at.peers.len().max(at.clients.len()) > MAX_ADDRESS;
        if at.replica == ReplicaId(0) || at.peers.is_empty() || is_long {
            return Err(OrderRefused::BadAddress);
        }
        let is_same = |known: &&ReplicaAddress| {
            !known.peers.is_empty() && known.peers == at.peers
                || !at.clients.is_empty() && known.clients == at.clients
        };
        if let Some(other) = roster.iter().filter(|known| known.replica != at.replica).find(is_same) {
            return Err(OrderRefused::Occupied(other.replica));
        }
        match roster.iter().position(|known| known.replica == at.replica) {
            Some(place) if roster[place] == *at => return Ok(None),
            // What was not known is learned; who is known to be elsewhere is another one.
            Some(place) if roster[place].peers.is_empty() => roster[place] = at.clone(),
            Some(_) => return Err(OrderRefused::Elsewhere(at.replica)),
            None if roster.len() >= MOST_REPLICAS => return Err(OrderRefused::Full(MOST_REPLICAS as u16)),
            None => roster.push(at.clone()),
        }
        Ok(Some(Configuration { roster, left: Vec::new(), ..current.clone() }))
    }

    /// The configuration without a replica; nothing if it does not belong to the chain. One that serves is left out where the rest has everything: so
    /// many serve that were heard, and of whose logs nothing is damaged.
    fn without(
        &self,
        now: Nanos,
        current: &Configuration,
        replica: ReplicaId,
        least: u16,
    ) -> Result<Option<Configuration>, OrderRefused> {
        let mut roster = self.roster();
        let member = self.member(replica);
        if member.is_none() && roster.iter().all(|known| known.replica != replica) {
            return Ok(None);
        }
        roster.retain(|known| known.replica != replica);
        let serving = member.filter(|member| member.part == Part::Serving);
        if serving.is_some() {
            self.check_rest(now, current, replica, least.max(1))?;
        }
        let members = current.members.iter().copied().filter(|member| member.replica != replica).collect();
        let left = serving.into_iter().collect();
        Ok(Some(Configuration { roster, members, left, ..current.clone() }))
    }

    fn check_rest(
        &self,
        now: Nanos,
        current: &Configuration,
        without: ReplicaId,
        least: u16,
    ) -> Result<(), OrderRefused> {
        let hurries = self.bugs.has(Planted::SwitchTooSoon);
        let has_all = |member: &Member| {
            (member.part == Part::Serving || hurries) && self.lives(now, *member) && self.is_whole(*member)
        };
        let others = current.members.iter().filter(|member| member.replica != without);
        let rest = others.clone().filter(|member| has_all(member)).count() as u16;
        if rest >= least {
            return Ok(());
        }
        let syncing = others.clone().find(|member| member.part == Part::Syncing);
        match syncing.filter(|_| rest + 1 >= least) {
            Some(syncing) => Err(OrderRefused::CatchingUp(syncing.replica)),
            None if self.may_serve(now).is_none() => Err(OrderRefused::NobodyServes),
            None => Err(OrderRefused::TooFew(rest, least)),
        }
    }

    fn is_whole(&self, member: Member) -> bool {
        self.bugs.has(Planted::SwitchTooSoon)
            || self.heard.get(&member.replica).is_some_and(|heard| heard.whole)
    }

    /// All that belong to the chain.
    pub(super) fn roster(&self) -> Vec<ReplicaAddress> {
        match &self.configuration {
            Some(configuration) if !configuration.roster.is_empty() => configuration.roster.clone(),
            _ => self.replicas.clone(),
        }
    }

    /// As [`Controller::roster`], their numbers.
    pub(super) fn belonging(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let ordered = self.configuration.as_ref().map(|configuration| &configuration.roster);
        let roster = ordered.filter(|roster| !roster.is_empty()).unwrap_or(&self.replicas);
        roster.iter().map(|at| at.replica)
    }

    /// Whether the order that made the configuration left this one out.
    pub(super) fn was_left(&self, replica: ReplicaId) -> bool {
        self.configuration.iter().flat_map(|c| &c.left).any(|member| member.replica == replica)
    }

    /// Whether somebody may still read who was left out by an order: nobody else hears of the configuration before.
    pub(super) fn holds_back(&self, now: Nanos) -> bool {
        if self.bugs.has(Planted::TellTooSoon) {
            return false;
        }
        let left = self.configuration.iter().flat_map(|configuration| &configuration.left);
        left.into_iter().any(|member| {
            let grant = self.grants.get(&member.replica);
            grant.is_some_and(|grant| grant.incarnation == member.incarnation && grant.earlier > now)
        })
    }

    /// A member acts by this configuration, so somebody was sure that those that it left out do not read any more.
    pub(super) fn note_told(&mut self, replica: ReplicaId, epoch: Epoch) {
        let Some(current) = &self.configuration else { return };
        if epoch < current.epoch || current.position(replica).is_none() {
            return;
        }
        for left in &current.left {
            if let Some(grant) = self.grants.get_mut(&left.replica) {
                grant.earlier = Nanos::ZERO;
            }
        }
    }

    /// A replica that does not belong to the chain, and has proven that it may know, is told how it is: one that was removed while it was away
    /// serves nobody from then on.
    pub(super) fn answer_other(&self, now: Nanos, replica: ReplicaId, message: &Message, out: &mut Out) {
        let (Some(configuration), Message::Alive { beat, incarnation, .. }) = (&self.configuration, message)
        else {
            return;
        };
        if now < self.quiet_until || self.holds_back(now) || self.registry_behind(now).is_some() {
            return;
        }
        let (configuration, beat, incarnation) = (configuration.clone(), *beat, *incarnation);
        let lead = Message::Lead { configuration, beat, incarnation, settled: false };
        out.push((NodeId::Replica(replica), lead));
    }
}
