//! The rules: what the next configuration is, if there is to be one.

use super::{Controller, Waiting};
use crate::chain::{Configuration, Epoch, Gap, Incarnation, Lsn, Member, Part, Planted, ReplicaId};
use crate::planted::Bugs;
use base::Nanos;

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// It was heard, last at that moment, and has a lease.
    Lives(Nanos),
    /// It was not heard by this controller, but may have a lease.
    Unheard,
    /// Its lease was over at that moment.
    Silent(Nanos),
    /// A new life of it was first heard at that moment.
    Returned(Nanos),
}

impl Sign {
    /// When it was lost, if it was.
    fn lost_at(self) -> Option<Nanos> {
        match self {
            Sign::Silent(at) | Sign::Returned(at) => Some(at),
            Sign::Lives(_) | Sign::Unheard => None,
        }
    }

    fn heard_at(self) -> Option<Nanos> {
        match self {
            Sign::Lives(at) => Some(at),
            Sign::Unheard | Sign::Silent(_) | Sign::Returned(_) => None,
        }
    }
}

impl<B: Bugs<Planted>> Controller<B> {
    /// Proposes what is due.
    pub(super) fn decide(&mut self, now: Nanos) {
        let next = match &self.configuration {
            None => self.first(now),
            Some(configuration) => {
                let configuration = configuration.clone();
                self.following(now, &configuration)
            }
        };
        match next {
            Ok(next) => {
                self.waiting = None;
                self.proposal = next
                    .filter(|next| Some(&next.members) != self.configuration.as_ref().map(|c| &c.members));
            }
            Err(waiting) => self.waiting = Some(waiting),
        }
    }

    /// The first configuration: all replicas, when all have said that they have nothing. All, since one that is not there might have
    /// something, and would lose it by joining.
    fn first(&self, now: Nanos) -> Result<Option<Configuration>, Waiting> {
        let has_data = |replica: &&ReplicaId| {
            self.heard.get(replica).is_some_and(|heard| heard.last > Lsn::ZERO || heard.epoch > Epoch(0))
        };
        if let Some(replica) = self.belonging().find(|id| has_data(&id)) {
            return Err(Waiting::RegistryLost(replica));
        }
        let missing: Vec<_> = self.belonging().filter(|id| !self.is_there(now, *id)).collect();
        if !missing.is_empty() {
            return Err(Waiting::Begin(missing));
        }
        let members = self.belonging().map(|id| self.as_member(id, Part::Serving)).collect();
        let slots = self.config.slots.clone();
        Ok(Some(Configuration { epoch: Epoch(1), members, slots, ..Configuration::default() }))
    }

    /// The one after `current`, the same members if none is due.
    fn following(&mut self, now: Nanos, current: &Configuration) -> Result<Option<Configuration>, Waiting> {
        if let Some((replica, epoch)) = self.registry_behind(now) {
            return Err(Waiting::RegistryBehind(replica, epoch));
        }
        let serving: Vec<(Member, Sign)> =
            current.serving().map(|member| (member, self.sign(now, member))).collect();
        let mut members = match serving.iter().filter_map(|(_, sign)| sign.heard_at()).max() {
            Some(heard_at) => {
                self.gathers_until = None;
                let is_lost = |sign: Sign| sign.lost_at().is_some_and(|lost_at| lost_at <= heard_at);
                serving.iter().filter(|(_, sign)| !is_lost(*sign)).map(|(member, _)| *member).collect()
            }
            None => self.after_all_were_lost(now, current.kept, &serving)?,
        };
        members.extend(self.last_member(now, current, &members));
        let epoch = Epoch(current.epoch.0 + 1);
        let kept = self.kept(current);
        Ok(Some(Configuration { epoch, kept, members, left: Vec::new(), ..current.clone() }))
    }

    /// What is known to be committed: what a member said in this configuration, or was known before.
    pub(super) fn kept(&self, current: &Configuration) -> Lsn {
        let said = current.members.iter().filter_map(|member| {
            let heard = self.heard.get(&member.replica)?;
            let is_now = (heard.incarnation, heard.epoch) == (member.incarnation, current.epoch);
            is_now.then_some(heard.committed)
        });
        said.fold(current.kept, Lsn::max)
    }

    /// Of those that served, the ones that came back with everything.
    fn after_all_were_lost(
        &mut self,
        now: Nanos,
        kept: Lsn,
        serving: &[(Member, Sign)],
    ) -> Result<Vec<Member>, Waiting> {
        let is_back = |(member, sign): &(Member, Sign)| {
            matches!(sign, Sign::Returned(_)) && self.is_there(now, member.replica)
        };
        let (back, missing): (Vec<_>, Vec<_>) = serving.iter().partition(|member| is_back(member));
        let missing: Vec<_> = missing.iter().map(|(member, _)| member.replica).collect();
        if back.is_empty() || serving.iter().any(|(_, sign)| *sign == Sign::Unheard) {
            self.gathers_until = None;
            return Err(Waiting::Silent(missing));
        }
        let until = *self.gathers_until.get_or_insert(now.plus(self.config.gather));
        if !missing.is_empty() && now < until {
            return Err(Waiting::Gather(missing));
        }
        let trusts_all = self.bugs.has(Planted::TrustEmptyLog);
        // A log that was made after its replica began to serve is one in place of what was lost.
        let has_all = |member: &Member| {
            let heard = &self.heard[&member.replica];
            trusts_all || heard.whole && heard.born <= member.incarnation && heard.last >= kept
        };
        let back = back.iter().map(|(member, _)| member).filter(|member| has_all(member));
        let whole: Vec<_> = back.map(|member| self.as_member(member.replica, Part::Serving)).collect();
        if !whole.is_empty() {
            return Ok(whole);
        }
        let gap = |(member, _): &(Member, Sign)| {
            let heard = self.heard.get(&member.replica).filter(|heard| heard.born <= member.incarnation)?;
            let cut = (heard.last < kept).then_some(Gap { first: heard.last.next(), last: kept });
            Some((member.replica, heard.missing.or(cut)?))
        };
        Err(Waiting::NoneWhole(missing, serving.iter().filter_map(gap).collect()))
    }

    /// The syncing member, promoted if it has caught up; or one that joins.
    fn last_member(&self, now: Nanos, current: &Configuration, serving: &[Member]) -> Option<Member> {
        let syncing = current.members.iter().copied().find(|member| member.part == Part::Syncing);
        if let Some(member) = syncing {
            match self.sign(now, member) {
                Sign::Lives(_) if self.has_joined(current, member) => {
                    return Some(Member { part: Part::Serving, ..member });
                }
                Sign::Lives(_) | Sign::Unheard => return Some(member),
                Sign::Silent(_) | Sign::Returned(_) => {}
            }
        }
        let is_in = |id: ReplicaId| serving.iter().any(|member| member.replica == id);
        let comes = self.belonging().find(|id| self.is_there(now, *id) && !is_in(*id));
        comes.map(|replica| self.as_member(replica, Part::Syncing))
    }

    /// Its predecessor, the tail, said so in this epoch: nothing was committed since without the syncing member's word.
    fn has_joined(&self, current: &Configuration, syncing: Member) -> bool {
        let hurries = self.bugs.has(Planted::SwitchTooSoon);
        hurries
            || current.tail().is_some_and(|tail| {
                self.heard.get(&tail.replica).is_some_and(|heard| {
                    heard.incarnation == tail.incarnation
                        && heard.epoch == current.epoch
                        && heard.joined == Some(syncing.replica)
                })
            })
    }

    fn sign(&self, now: Nanos, member: Member) -> Sign {
        let heard = self.heard.get(&member.replica);
        if let Some(heard) = heard.filter(|heard| heard.incarnation > member.incarnation) {
            return Sign::Returned(heard.since);
        }
        let until = self.grants.get(&member.replica).map_or(Nanos::ZERO, |grant| grant.until);
        if now >= until {
            return Sign::Silent(until);
        }
        heard
            .filter(|heard| heard.incarnation == member.incarnation)
            .map_or(Sign::Unheard, |heard| Sign::Lives(heard.at))
    }

    /// It was heard in this life, and its lease is not over.
    pub(super) fn lives(&self, now: Nanos, member: Member) -> bool {
        matches!(self.sign(now, member), Sign::Lives(_))
    }

    /// A serving member that serves, or may without being let in anew.
    pub(super) fn may_serve(&self, now: Nanos) -> Option<Member> {
        let mut serving = self.configuration.iter().flat_map(Configuration::serving);
        serving.find(|member| self.sign(now, *member).lost_at().is_none())
    }

    /// A replica that is there and knows of a later epoch than the registry: that one was put back, or another chain's.
    pub(super) fn registry_behind(&self, now: Nanos) -> Option<(ReplicaId, Epoch)> {
        let current = self.configuration.as_ref()?.epoch;
        let there = self.heard.iter().filter(|(replica, _)| self.is_there(now, **replica));
        let mut knows = there.map(|(replica, heard)| (*replica, heard.epoch.max(heard.last_epoch)));
        knows.find(|(_, epoch)| *epoch > current)
    }

    /// As it was heard last.
    fn as_member(&self, replica: ReplicaId, part: Part) -> Member {
        let incarnation = self.heard.get(&replica).map_or(Incarnation(0), |heard| heard.incarnation);
        Member { replica, incarnation, part }
    }
}
