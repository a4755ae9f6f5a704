//! Requests that a copy may answer, and the replies that make copies.

use super::super::compute::{self, Effect, Operation};
use super::super::holders::Boxes;
use super::super::lease::{granter_end, holder_end, left};
use super::super::{NodeId, Out, Planted, Policy, way_back};
use super::Box;
use super::copies::Kept;
use super::owned::item_of;
use crate::planted::Bugs;
use crate::wire::{Flags, KeyHash, Message, Round, Sharers, Status, Ttl, Verb};
use base::Nanos;

impl<B: Bugs<Planted>> Box<B> {
    pub(super) fn read(&mut self, now: Nanos, from: NodeId, verb: Verb, request: Message, out: &mut Out) {
        let hash = request.hash();
        let asked_for = self.frequency.count(hash);
        let owned = self.owned.serving(hash, &request.key, now).map(|entry| entry.item().clone());
        let is_owned = owned.is_some();
        let copy = if is_owned { None } else { self.copies.find(hash, &request.key, now).cloned() };
        let Some(kept) = owned.or(copy.filter(|kept| !self.asks_anew(now, kept, &request))) else {
            return self.miss(now, (from, hash, asked_for), request, out);
        };
        self.stats.hits += 1;
        let lease_us = if is_owned { 0 } else { self.grant(now, &kept, &request) };
        let outcome = if verb == Verb::Get { None } else { Some(self.compute(verb, &kept, &request)) };
        let mut reply = request.reply(Status::Ok);
        let header = &mut reply.header;
        header.version = kept.version;
        header.flags = Flags::FROM_BOX;
        match outcome.filter(|(_, changes_nothing)| *changes_nothing && lease_us == 0) {
            Some(((status, number), _)) => {
                header.flags = header.flags.with(Flags::TRY);
                header.status = status;
                header.operand = number;
                self.stats.computed += 1;
            }
            None => {
                header.item_flags = kept.flags;
                header.kind = kept.kind;
                header.ttl = Ttl::new(left(kept.life_end, now));
                header.deadline_us = lease_us;
                reply.value = kept.value;
            }
        }
        out.push((way_back(&reply.header, None), reply));
    }

    /// Whether boxes below want to keep it, and so little of this box's lease is left that all of them had better be granted a new one.
    fn asks_anew(&self, now: Nanos, kept: &Kept, request: &Message) -> bool {
        let worth_granting = self.config.min_grant.min(Nanos(self.config.lease.0 / 2));
        !request.header.sharers.is_empty() && left(kept.lease_end, now) < worth_granting
    }

    /// What the operation answers, and whether it changes nothing.
    fn compute(&self, verb: Verb, kept: &Kept, request: &Message) -> ((Status, u64), bool) {
        // Its life does not matter: it lives, and what changes nothing looks no further.
        let outcome = compute::apply(&Operation::of(verb, request), Some(&item_of(kept)));
        let same = outcome.effect == Effect::Nothing || self.planted.has(Planted::AnswerChanges);
        ((outcome.status, outcome.number), same)
    }

    /// For how many microseconds boxes below may keep it, out of this one's lease; 0: not at all. Who may is in `children`.
    fn grant(&mut self, now: Nanos, kept: &Kept, request: &Message) -> u32 {
        let whole = self.planted.has(Planted::WholeLeaseToChildren);
        let span = if whole { self.config.lease } else { left(kept.lease_end, now) };
        let Some(boxes) = Boxes::named(&request.header.sharers) else { return 0 };
        if boxes.has_any_of(self.table.draining()) {
            return 0;
        }
        let asking = self.rounds.covers(kept.hash) && !self.planted.has(Planted::GrantWhileAsking);
        let span_us = u32::try_from(span.0 / 1000).unwrap_or(u32::MAX);
        if asking || span_us == 0 {
            return 0;
        }
        if !self.children.enter(kept.hash, boxes, granter_end(now, span)) {
            return 0;
        }
        self.stats.granted += 1;
        if self.config.policy == Policy::Exclusive {
            self.copies.drop_hash(kept.hash);
        }
        span_us
    }

    fn miss(
        &mut self,
        now: Nanos,
        (from, hash, asked_for): (NodeId, KeyHash, u32),
        mut request: Message,
        out: &mut Out,
    ) {
        self.stats.misses += 1;
        let may_keep = self.may_keep(from, hash);
        let sharers = &mut request.header.sharers;
        let left_to_others = self.config.policy == Policy::Exclusive && !sharers.is_empty();
        if asked_for >= self.config.admission
            && !left_to_others
            && sharers.len() < Sharers::MAX
            && may_keep
            && self.copies.would_keep(hash, &request.key, now, |hash| self.frequency.estimate(hash))
            && let Some(token) = self.fills.begin(hash, now)
        {
            sharers.push(self.id, token);
        }
        self.send_on(request, out);
    }

    pub(super) fn reply(&mut self, now: Nanos, reply: &Message, out: &mut Out) {
        let Some(token) = reply.header.sharers.token_of(self.id) else {
            self.stats.dropped += 1;
            return;
        };
        let hash = reply.hash();
        if reply.header.flags.contains(Flags::OWNED) {
            return self.hear_grant(now, token, hash, reply, out);
        }
        if reply.header.round != Round(0) {
            // To a write that asked for its key and did not get it.
            self.fills.take(hash, token);
            return self.pass_on(reply.clone(), out);
        }
        let asked = match self.fills.take(hash, token) {
            None if self.planted.has(Planted::FillWithoutToken) => Some(now),
            asked => asked,
        };
        let granted = reply.header.deadline_us > 0 && reply.header.status == Status::Ok;
        match asked {
            Some(asked) if granted => self.fill(now, asked, hash, reply),
            Some(_) => {}
            None => self.hear_late(now, hash, reply),
        }
        self.pass_on(reply.clone(), out);
    }

    /// Sends a reply on the way that its request came.
    pub(super) fn pass_on(&self, mut reply: Message, out: &mut Out) {
        reply.header.hops = reply.header.hops.saturating_add(1);
        out.push((way_back(&reply.header, Some(self.id)), reply));
    }

    fn fill(&mut self, now: Nanos, asked: Nanos, hash: KeyHash, reply: &Message) {
        let header = &reply.header;
        // Never longer than this box's own idea of a lease: after a restart it is silent for just that.
        let lease = Nanos(u64::from(header.deadline_us) * 1000).min(self.config.lease);
        let from = |late: Planted| if self.planted.has(late) { now } else { asked };
        let kept = Kept {
            hash,
            key: reply.key.clone(),
            value: reply.value.clone(),
            flags: header.item_flags,
            kind: header.kind,
            version: header.version,
            lease_end: holder_end(from(Planted::LeaseFromReply), lease),
            life_end: holder_end(from(Planted::LifeFromReply), header.ttl.nanos()),
        };
        if now < kept.end() && self.copies.keep(kept, now, |hash| self.frequency.estimate(hash)) {
            self.stats.fills += 1;
        }
    }

    fn hear_late(&mut self, now: Nanos, hash: KeyHash, reply: &Message) {
        self.stats.late += 1;
        if self.planted.has(Planted::ReplyRevalidates)
            && let Some(kept) = self.copies.find(hash, &reply.key, now)
        {
            kept.lease_end = holder_end(now, self.config.lease);
        }
    }
}
