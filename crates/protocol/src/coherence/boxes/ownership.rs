//! Keys that a box owns: asks for, takes, serves, gives back.
//!
//! Only the box that hears clients directly can own: it asks with a token of its own, as for a copy, in a write that it sends on. What
//! it cannot judge it sends to the home *past the owner* (NO_CACHE), which then takes the key back: a session of which the grant says
//! nothing, a number that the home may have begun.

use super::super::lease::{holder_end, outlived, runs};
use super::super::ownership::{Grant, is_ownable, outcome_of};
use super::super::rounds::Target;
use super::super::{NodeId, Out, Planted, is_read};
use super::Box;
use super::copies::Kept;
use super::invalidate::answer;
use super::owned::Entry;
use crate::planted::Bugs;
use crate::wire::{Control, Flags, Header, KeyHash, Kind, Message, Opcode, Round, Sharers, Token, Ttl, Verb};
use base::Nanos;

impl<B: Bugs<Planted>> Box<B> {
    /// A write that may be done by the owner of its key, from a client.
    pub(super) fn write_ownable(&mut self, now: Nanos, verb: Verb, mut request: Message, out: &mut Out) {
        let hash = request.hash();
        let asked_for = self.frequency.count(hash);
        request.header.at = self.id;
        if self.owned.contains(hash) {
            if !self.write_owned(now, verb, &request, out) {
                self.send_past_owner(request, out);
            }
            return;
        }
        if asked_for >= self.config.admission
            && self.may_keep(NodeId::Client(request.header.client), hash)
            && self.owned.has_room_for(hash)
            && let Some(token) = self.fills.begin_to_own(hash, now)
        {
            request.header.sharers.push(self.id, token);
        }
        self.send_home(request, out);
    }

    /// A request that the home sends back: this box asked for the key, and sent this before it knew that it got it.
    pub(super) fn hear_again(&mut self, now: Nanos, verb: Verb, mut request: Message, out: &mut Out) {
        request.header.sharers = Sharers::default();
        let hash = request.hash();
        let done = if is_read(verb, request.header.flags) {
            self.owns(hash, &request.key, now) && {
                self.read(now, NodeId::Home(request.header.home), verb, request.clone(), out);
                true
            }
        } else {
            self.write_owned(now, verb, &request, out)
        };
        if !done {
            self.send_past_owner(request, out);
        }
    }

    fn send_past_owner(&mut self, mut request: Message, out: &mut Out) {
        request.header.flags = request.header.flags.with(Flags::NO_CACHE);
        self.send_home(request, out);
    }

    /// Does a write, or answers it again. False where only the home can.
    fn write_owned(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) -> bool {
        let hash = request.hash();
        let Some(entry) = self.owned.serving_mut(hash, &request.key, now).filter(|_| is_ownable(verb)) else {
            return false;
        };
        let Some(answer) = entry.write(verb, request) else { return false };
        let is_full = entry.is_full();
        let mut reply = outcome_of(request, answer);
        reply.header.flags = Flags::FROM_BOX;
        self.stats.owned += 1;
        out.push((NodeId::Client(request.header.client), reply));
        if is_full {
            self.give_back(now, hash, out);
        }
        true
    }

    /// Whether this box alone may answer for a key, and is to.
    pub(super) fn owns(&self, hash: KeyHash, key: &[u8], now: Nanos) -> bool {
        self.owned.serving(hash, key, now).is_some()
    }

    /// A reply says that this box owns the key; what is for the client is passed on.
    pub(super) fn hear_grant(
        &mut self,
        now: Nanos,
        token: Token,
        hash: KeyHash,
        reply: &Message,
        out: &mut Out,
    ) {
        match Grant::from_bytes(&reply.value) {
            Some(grant) => self.take_key(now, token, hash, grant, reply),
            None => self.stats.dropped += 1,
        }
        let header = &reply.header;
        let mut plain = Message::new(header.opcode, &reply.key);
        plain.header = Header {
            flags: Flags::NONE,
            deadline_us: 0,
            item_flags: 0,
            kind: Kind::Bytes,
            ttl: Ttl::NEVER,
            ..*header
        };
        self.pass_on(plain, out);
    }

    /// Served is until half of the lease is over; the other half is for giving the key back.
    fn take_key(&mut self, now: Nanos, token: Token, hash: KeyHash, grant: Grant, reply: &Message) {
        let header = &reply.header;
        let Some(asked) = self.fills.take_to_own(hash, token, grant.before) else {
            self.stats.late += 1;
            return;
        };
        let lease = Nanos(u64::from(header.deadline_us) * 1000).min(self.config.lease);
        let serves_on = self.planted.has(Planted::OwnerServesOn);
        let lease_end = if serves_on { Nanos::MAX } else { holder_end(asked, Nanos(lease.0 / 2)) };
        if !runs(lease_end, now) || !self.owned.has_room_for(hash) {
            self.stats.late += 1;
            return;
        }
        let kept = Kept {
            hash,
            key: reply.key.clone(),
            value: grant.value,
            flags: header.item_flags,
            kind: header.kind,
            version: header.version,
            lease_end,
            life_end: holder_end(asked, header.ttl.nanos()),
        };
        // Nothing that runs can be there; what is over need not stay.
        self.copies.drop_hash(hash);
        let forget_at = outlived(now, lease);
        self.owned.take(Entry::new(kept, (header.home, token), forget_at, grant.next, grant.sessions));
    }

    /// Gives back what `target` means.
    pub(super) fn give_back_all(&mut self, now: Nanos, target: &Target, out: &mut Out) {
        for hash in self.owned.kept_of(target) {
            self.give_back(now, hash, out);
        }
    }

    /// Answers an invalidation, now or when what was owned is returned.
    pub(super) fn answer_without_owned(
        &mut self,
        target: Target,
        asker: NodeId,
        round: Round,
        out: &mut Out,
    ) {
        if self.owned.covers(&target) && !self.planted.has(Planted::AckBeforeReturn) {
            self.owned.wait(target, asker, round);
        } else {
            out.push((asker, answer(&target, round)));
        }
    }

    /// Sends a key home, for the first time or once more.
    fn give_back(&mut self, now: Nanos, hash: KeyHash, out: &mut Out) {
        let timeouts = (self.config.retransmit, self.config.retransmit_max);
        let Some(entry) = self.owned.give_back(hash, now, timeouts) else { return };
        let mut returned = entry.returned();
        if self.planted.has(Planted::ReturnWithoutRecords) {
            returned.records.clear();
        }
        let mut message = Message::new(Opcode::Control(Control::Return), &entry.kept.key);
        let header = &mut message.header;
        (header.at, header.incarnation, header.home) = (self.id, self.incarnation, entry.home);
        (header.round, header.version) = (Round(entry.token.0), entry.kept.version);
        (header.item_flags, header.kind) = (entry.kept.flags, entry.kept.kind);
        message.value = returned.to_bytes();
        out.push((NodeId::Home(entry.home), message));
        self.stats.returns += 1;
        if self.planted.has(Planted::ReturnOnce) {
            self.owned.forget(hash);
        }
    }

    /// Gives back what was owned for long enough, again and again.
    pub(super) fn serve_owned(&mut self, now: Nanos, out: &mut Out) {
        while let Some(entry) = self.owned.due(now) {
            let hash = entry.kept.hash;
            if runs(entry.forget_at, now) {
                self.give_back(now, hash, out);
            } else {
                self.owned.forget(hash);
                self.answer_askers(out);
            }
        }
    }

    /// A home has what was returned.
    pub(super) fn hear_return_ack(&mut self, from: NodeId, message: &Message, out: &mut Out) {
        if matches!(from, NodeId::Home(_)) {
            self.owned.acknowledged(message.hash(), message.header.round);
            self.answer_askers(out);
        }
    }

    fn answer_askers(&mut self, out: &mut Out) {
        for (target, asker, round) in self.owned.answerable() {
            out.push((asker, answer(&target, round)));
        }
    }
}
