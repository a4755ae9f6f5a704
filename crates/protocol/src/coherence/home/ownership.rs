//! Keys that a home gives to a box: which, and how it gets them back.
//!
//! What comes for such a key waits until the box has returned it, has said that it has nothing, or has lost it. Nothing of it is judged
//! before, for the owner may have done it: when the key is back, all that waited comes as if it had come just now.
//!
//! | the key | what it is then | sessions that the owner was told |
//! |---|---|---|
//! | is returned | what the owner says | have done what it says |
//! | was never taken: the box answers, in time, that it has nothing | what it was | as they were |
//! | is lost: the lease is over | gone | are closed: nobody knows what the owner did in them |
//!
//! Invariants: 1. a key is given away when no box can have a copy, no write of it waits, and no flush; 2. while it is away nothing of
//! it is answered here but writes that were done before; 3. what waits in `writes` for a key that is away has not been begun.

use super::super::compute::number;
use super::super::holders::Boxes;
use super::super::lease::{granter_end, runs};
use super::super::ownership::{Grant, MOST_RECORDS, MOST_SESSIONS, Returned, Told};
use super::super::{NodeId, Out, Planted, is_read, way_back};
use super::items::Items;
use super::owners::Mark;
use super::{Home, Purpose, Waiting};
use crate::planted::Bugs;
use crate::wire::{
    BoxId, Control, Flags, Header, KeyHash, Kind, Message, OpNumber, Opcode, Status, Token, Ttl, Verb,
    Version,
};
use base::Nanos;

/// Keys that were lost, until somebody asks for them.
const MOST_LOST: usize = 64;

/// How a box ceases to own a key.
#[derive(Debug)]
pub(super) enum End {
    Returned(Version, Kind, Returned),
    NeverTaken,
    Lost,
}

/// The box by way of which a request came that may be done, or answered, by it.
fn came_by(header: &Header) -> Option<BoxId> {
    if header.flags.contains(Flags::NO_CACHE) {
        return None;
    }
    let at = Some(header.at).filter(|_| header.flags.contains(Flags::OWNABLE));
    at.or_else(|| header.sharers.iter().next().map(|sharer| sharer.at))
}

/// The box that would own the key of this write, and the token with which it asks.
fn suitor(header: &Header) -> Option<(BoxId, Token)> {
    let by =
        came_by(header).filter(|_| header.flags.contains(Flags::OWNABLE) && header.sharers.len() == 1)?;
    Some((by, header.sharers.token_of(by)?))
}

impl<I: Items, B: Bugs<Planted>> Home<I, B> {
    /// Somebody wants this key, which is here.
    pub(super) fn note_suitor(&mut self, request: &Message) {
        let hash = request.hash();
        match suitor(&request.header) {
            Some((by, _)) => self.owners.woo(hash, by),
            None => self.owners.disturb(hash, came_by(&request.header)),
        }
    }

    /// Gives the key of a write that was just done to the box that asked for it, with the reply, if it may have it.
    pub(super) fn give_away(&mut self, now: Nanos, request: &Message, reply: &mut Message) {
        let hash = request.hash();
        let Some((owner, token)) = suitor(&request.header) else { return };
        let is_free = self.items.may_be_given()
            && !self.writes.contains_key(&hash)
            && self.flushes.is_empty()
            && self.holders.of(hash, now).0.is_empty()
            && self.owners.of(hash).is_none();
        if !is_free || !self.owners.has_room() || !self.owners.is_won(hash, owner) {
            return;
        }
        let Some(item) = self.items.read(&request.key, now) else { return };
        let until = granter_end(now, self.config.lease);
        let Some(boxes) = Boxes::of(owner).filter(|boxes| !self.is_leaving(*boxes)) else { return };
        let lasts = item.end > until && number(&item.value).is_some() && item.version == reply.header.version;
        if !lasts || !self.holders.enter(hash, boxes, until) {
            return;
        }
        self.stats.given += 1;
        self.items.remove(&request.key);
        let sessions = self.sessions.told(owner, MOST_SESSIONS);
        let told = sessions.iter().map(|told| told.session).collect();
        let taken = if self.planted.has(Planted::NoVersionBlock) { 0 } else { MOST_RECORDS as u64 };
        let next = self.items.take_versions(taken);
        let grant = Grant {
            before: self.rounds.next_number(),
            next,
            sessions: self.as_told(sessions),
            value: item.value.clone(),
        };
        let header = &mut reply.header;
        header.flags = Flags::OWNED;
        header.deadline_us = u32::try_from(self.config.lease.0 / 1000).unwrap_or(u32::MAX);
        header.item_flags = item.flags;
        header.kind = item.kind;
        header.ttl = Ttl::until(item.end, now);
        reply.value = grant.to_bytes();
        let last = Version(next.0 + MOST_RECORDS as u64 - 1);
        let recall_at = granter_end(now, Nanos(self.config.lease.0 / 4 * 3));
        let key = request.key.clone();
        self.owners.give(hash, Mark { key, item, owner, token, last, told, recall_at, until });
    }

    fn as_told(&self, mut sessions: Vec<Told>) -> Vec<Told> {
        if self.planted.has(Planted::GrantWithoutSessions) {
            sessions.iter_mut().for_each(|told| (told.highest, told.begun) = (OpNumber(0), 0));
        }
        sessions
    }

    /// A request for a key that is away.
    pub(super) fn request_of_owned(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) {
        let hash = request.hash();
        let mark = self.owners.of(hash).expect("the key is away");
        let (owner, reads) = (mark.owner, is_read(verb, request.header.flags));
        if reads && mark.key == request.key && self.planted.has(Planted::ReadWhileOwned) {
            let mut reply = request.reply(Status::Ok);
            (reply.header.version, reply.value) = (mark.item.version, mark.item.value.clone());
            return out.push((way_back(&reply.header, None), reply));
        }
        if !reads && !self.is_new(request, out) {
            return;
        }
        // It came by the owner before that knew that it is: the owner knows better.
        if came_by(&request.header) == Some(owner) && !self.writes.contains_key(&hash) {
            return out.push((NodeId::Box(owner), request.clone()));
        }
        if !self.wait_for_owner(now, hash, Waiting::Packet(request.clone().into()), out) {
            self.refuse(request, out);
        }
    }

    /// It waits until a key that is away is here. False where there is no room for it.
    pub(super) fn wait_for_owner(&mut self, now: Nanos, hash: KeyHash, what: Waiting, out: &mut Out) -> bool {
        if self.writes.get(&hash).is_some_and(|waiting| waiting.iter().any(|other| other.is_like(&what))) {
            return true;
        }
        if !self.has_room_to_wait(hash) {
            return false;
        }
        if !self.writes.contains_key(&hash) {
            self.recall(now, hash, out);
        }
        self.queued += 1;
        self.writes.get_mut(&hash).expect("it is being taken back").push_back(what);
        true
    }

    /// Asks the owner for a key.
    fn recall(&mut self, now: Nanos, hash: KeyHash, out: &mut Out) {
        let mark = self.owners.of(hash).expect("the key is away");
        let owner = Boxes::of(mark.owner).expect("it was entered as holder");
        let (until, target) = (mark.until, self.target(&mark.key));
        self.writes.insert(hash, Default::default());
        self.rounds.begin(now, target, (owner, until), Purpose::Recall(hash), out);
    }

    /// Asks for keys that their owners have kept for longer than they should. Then it is known in time whether an owner ever knew that
    /// it was one.
    pub(super) fn recall_due(&mut self, now: Nanos, out: &mut Out) {
        while let Some(hash) = self.owners.due(now) {
            let mark = self.owners.of(hash).expect("a timer belongs to a mark");
            if self.writes.contains_key(&hash) {
                // It is being taken back: that round ends with the lease.
            } else if !runs(mark.until, now) {
                self.end_ownership(now, hash, End::Lost, out);
            } else if self.rounds.has_room() {
                self.recall(now, hash, out);
            } else {
                self.owners.postpone(hash);
            }
        }
    }

    /// A box gives a key back.
    pub(super) fn hear_return(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let hash = message.hash();
        let header = &message.header;
        let is_its = |mark: &&Mark| {
            from == NodeId::Box(mark.owner) && header.round.0 == mark.token.0 && message.key == mark.key
        };
        if let Some(mark) = self.owners.of(hash).filter(is_its) {
            let returned = Returned::from_bytes(&message.value).filter(|it| number(&it.value).is_some());
            let Some(returned) =
                returned.filter(|_| (mark.item.version..=mark.last).contains(&header.version))
            else {
                self.stats.dropped += 1;
                return;
            };
            self.end_ownership(now, hash, End::Returned(header.version, header.kind, returned), out);
        }
        let mut ack = Message::new(Opcode::Control(Control::ReturnAck), &message.key);
        (ack.header.round, ack.header.home) = (header.round, self.id);
        out.push((from, ack));
    }

    /// Whom the key's owner is, if that has not answered in time, has it no more; else it never took it.
    pub(super) fn end_of_silence(&self, now: Nanos, hash: KeyHash, silent: Boxes) -> End {
        let in_time = |mark: &Mark| runs(mark.until, now) && !silent.contains(mark.owner);
        if self.owners.of(hash).is_some_and(in_time) { End::NeverTaken } else { End::Lost }
    }

    /// A key is here again, or gone.
    pub(super) fn end_ownership(&mut self, now: Nanos, hash: KeyHash, end: End, out: &mut Out) {
        if let Some(mark) = self.forget_owner(hash, end) {
            // Without room it is gone, as what a store evicts.
            let Mark { key, item, .. } = mark;
            self.items.store(&key, item);
        }
        self.reopen(now, hash, out);
    }

    /// A key is not away any more: all that waited for it comes now.
    pub(super) fn reopen(&mut self, now: Nanos, hash: KeyHash, out: &mut Out) {
        self.holders.clear(hash);
        self.rounds.end_where(|purpose| *purpose == Purpose::Recall(hash));
        for waited in self.writes.remove(&hash).unwrap_or_default() {
            self.queued -= 1;
            self.stats.waited += 1;
            match waited {
                Waiting::Packet(request) => {
                    let Opcode::Request(verb) = request.header.opcode else {
                        unreachable!("only requests are queued")
                    };
                    self.request(now, verb, &request, out);
                }
                Waiting::Ticket(claim) => self.resume(now, claim, out),
            }
        }
    }

    /// Ends a key's ownership: the mark, with what is there now, if anything is.
    pub(super) fn forget_owner(&mut self, hash: KeyHash, end: End) -> Option<Mark> {
        let mut mark = self.owners.end(hash)?;
        match end {
            End::Returned(version, kind, Returned { records, value }) => {
                self.stats.returned += 1;
                (mark.item.version, mark.item.kind, mark.item.value) = (version, kind, value);
                records.iter().for_each(|record| self.sessions.learn(record));
            }
            End::NeverTaken => {}
            End::Lost => {
                self.stats.lost += 1;
                if !self.planted.has(Planted::LostKeepsSessions) {
                    self.sessions.forget(&mark.told);
                }
                if !self.planted.has(Planted::LostValueReturns) {
                    self.lost.truncate(MOST_LOST - 1);
                    self.lost.push_front(mark.key);
                    return None;
                }
            }
        }
        Some(mark)
    }
}
