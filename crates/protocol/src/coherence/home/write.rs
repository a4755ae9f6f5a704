//! Writes of a home: told apart, queued, waiting for boxes, applied.

use super::super::compute::{self, Effect, Item, Operation};
use super::super::holders::Boxes;
use super::super::lease::granter_end;
use super::super::ownership::outcome_of;
use super::super::rounds::{Ended, Target};
use super::super::{NodeId, Out, Planted, way_back};
use super::items::Items;
use super::sessions::{Answer, Heard};
use super::{Home, Purpose};
use crate::planted::Bugs;
use crate::wire::{Flags, KeyHash, Message, Status, Ttl, Verb, Version};
use base::Nanos;
use std::collections::VecDeque;

impl<I: Items, B: Bugs<Planted>> Home<I, B> {
    pub(super) fn write(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) {
        if !self.is_new(request, out) {
            return;
        }
        if !self.has_room_for(now, verb, request) {
            return self.refuse(request, out);
        }
        self.sessions.begin(request.header.round, request.header.operation);
        self.enqueue(now, verb, request, out);
    }

    /// Whether a write is to be done. What was done is answered again.
    pub(super) fn is_new(&mut self, request: &Message, out: &mut Out) -> bool {
        let header = &request.header;
        if header.operation.0 == 0 {
            self.answer(request, Status::Bad, out);
            return false;
        }
        let heard = match self.sessions.hear(header.round, header.client, header.operation) {
            Heard::Done(_) | Heard::Running if self.planted.has(Planted::NoSessions) => Heard::New,
            // Told from new by the session's window, which is then too short.
            Heard::Old if self.planted.has(Planted::OutcomeForgotten) => Heard::New,
            heard => heard,
        };
        if header.flags.contains(Flags::OWNABLE) {
            self.sessions.came_by(header.round, header.at);
        }
        match heard {
            Heard::New => return true,
            Heard::Done(answer) => {
                let reply = outcome_of(request, answer);
                out.push((way_back(&reply.header, None), reply));
            }
            Heard::Running | Heard::Old => {}
            Heard::Unknown => self.answer(request, Status::Forgotten, out),
        }
        self.stats.repeated += 1;
        false
    }

    fn has_room_for(&self, now: Nanos, verb: Verb, request: &Message) -> bool {
        if self.queued >= self.config.queue {
            return false;
        }
        if verb == Verb::Flush {
            return !self.flushes.is_empty() || self.rounds.has_room();
        }
        let hash = request.hash();
        match self.writes.get(&hash) {
            Some(waiting) => waiting.len() < self.config.queue_per_key,
            None => self.rounds.has_room() || self.holders.of(hash, now).0.is_empty(),
        }
    }

    fn enqueue(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) {
        if verb == Verb::Flush {
            self.queued += 1;
            self.flushes.push_back(request.clone());
            if self.flushes.len() == 1 {
                self.begin_flush(now, out);
            }
            return;
        }
        let hash = request.hash();
        if let Some(waiting) = self.writes.get_mut(&hash) {
            if self.planted.has(Planted::TwoWritesAtOnce) {
                return self.apply(now, request, false, out);
            }
            self.queued += 1;
            waiting.push_back(request.clone());
            return;
        }
        if self.holders.of(hash, now).0.is_empty() || self.planted.has(Planted::SkipInvalidation) {
            return self.apply(now, request, true, out);
        }
        self.queued += 1;
        self.take_back(now, hash, &request.key, out);
        self.writes.get_mut(&hash).expect("the key's copies are being taken back").push_back(request.clone());
    }

    /// Asks for the copies of a key, unless that is being done or there is no room for it.
    pub(super) fn take_back(&mut self, now: Nanos, hash: KeyHash, key: &[u8], out: &mut Out) {
        if !self.writes.contains_key(&hash) && self.rounds.has_room() {
            let holders = self.holders.of(hash, now);
            self.writes.insert(hash, VecDeque::new());
            self.rounds.begin(now, self.target(key), holders, Purpose::Writes(hash), out);
        }
    }

    fn begin_flush(&mut self, now: Nanos, out: &mut Out) {
        let holders = self.holders.of_all(now);
        let target = self.target(&[]);
        if holders.0.is_empty() || self.planted.has(Planted::FlushSkipsBoxes) {
            self.round_is_over(now, Ended { target, purpose: Purpose::Flush, silent: Boxes(0) }, out);
        } else {
            self.rounds.begin(now, target, holders, Purpose::Flush, out);
        }
    }

    pub(super) fn hear_answer(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let NodeId::Box(id) = from else {
            self.stats.dropped += 1;
            return;
        };
        let round = if self.planted.has(Planted::AnyRound) {
            self.rounds.like(&Target::of(message), id)
        } else {
            Some(message.header.round)
        };
        if let Some(ended) = round.and_then(|round| self.rounds.answered(round, id)) {
            self.round_is_over(now, ended, out);
        }
    }

    pub(super) fn round_is_over(&mut self, now: Nanos, ended: Ended<Purpose>, out: &mut Out) {
        match ended.purpose {
            Purpose::Writes(hash) => {
                self.holders.clear(hash);
                let mut waiting = self.writes.remove(&hash).unwrap_or_default();
                while let Some(request) = waiting.pop_front() {
                    self.queued -= 1;
                    self.stats.waited += 1;
                    self.apply(now, &request, waiting.is_empty(), out);
                }
            }
            Purpose::Recall(hash) => {
                let end = self.end_of_silence(now, hash, ended.silent);
                self.end_ownership(now, hash, end, out);
            }
            Purpose::Flush => self.flush(now, ended.silent, out),
        }
    }

    /// Here flushes take effect, also on keys that are away: those that their owners had, they have returned, or `silent`
    /// is who had them.
    fn flush(&mut self, now: Nanos, silent: Boxes, out: &mut Out) {
        let away = self.owners.hashes();
        for hash in &away {
            let end = self.end_of_silence(now, *hash, silent);
            self.forget_owner(*hash, end);
        }
        self.holders.clear_all();
        self.items.clear();
        for request in std::mem::take(&mut self.flushes) {
            self.queued -= 1;
            let answer = Answer { status: Status::Ok, version: Version(0), number: 0 };
            let reply = self.conclude(&request, answer);
            out.push((way_back(&reply.header, None), reply));
        }
        for hash in away {
            self.reopen(now, hash, out);
        }
    }

    /// Here a write takes effect. `is_last`: no other waits for its key.
    fn apply(&mut self, now: Nanos, request: &Message, is_last: bool, out: &mut Out) {
        let (header, key) = (&request.header, request.key.as_slice());
        let crate::wire::Opcode::Request(verb) = header.opcode else {
            unreachable!("only requests are queued")
        };
        let item = self.items.read(key, now);
        let outcome = compute::apply(&Operation::of(verb, request), item.as_ref());
        let mut answer = Answer { status: outcome.status, version: Version(0), number: outcome.number };
        let end = granter_end(now, header.ttl.nanos());
        match (outcome.effect, item) {
            (Effect::Store { value, flags, kind, lives_on }, old) => {
                let lives_on = lives_on || header.ttl == Ttl::KEPT;
                let end = old.filter(|_| lives_on).map_or(end, |old| old.end);
                self.version += 1;
                let version = Version(self.version);
                if self.items.store(key, Item { value, flags, kind, version, end }) {
                    answer.version = version;
                } else {
                    answer = Answer { status: Status::NoRoom, version: Version(0), number: 0 };
                }
            }
            (Effect::Touch, Some(old)) => {
                answer.version = old.version;
                let end = if header.ttl == Ttl::KEPT { old.end } else { end };
                if !self.items.store(key, Item { end, ..old }) {
                    answer.status = Status::NoRoom;
                }
            }
            (Effect::Remove, _) => self.items.remove(key),
            (Effect::Nothing | Effect::Touch, old) => {
                answer.version = old.map_or(Version(0), |old| old.version)
            }
        }
        let mut reply = self.conclude(request, answer);
        if is_last {
            self.give_away(now, request, &mut reply);
        }
        out.push((way_back(&reply.header, None), reply));
    }

    fn conclude(&mut self, request: &Message, answer: Answer) -> Message {
        self.stats.applied += 1;
        self.sessions.finish(request.header.round, request.header.operation, answer);
        outcome_of(request, answer)
    }
}
