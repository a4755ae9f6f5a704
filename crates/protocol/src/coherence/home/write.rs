//! Writes of a home: told apart, queued, waiting for boxes, applied. What came by ticket waits in the same queues.

use super::super::holders::Boxes;
use super::super::ownership::outcome_of;
use super::super::ranges::Caching;
use super::super::rounds::{Ended, Target};
use super::super::{NodeId, Out, Planted};
use super::items::{Items, perform};
use super::sessions::{Answer, Heard};
use super::{Access, Home, Purpose, Waiting};
use crate::planted::Bugs;
use crate::wire::{Flags, KeyHash, Message, Opcode, Status, Verb, Version};
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
                self.send(request, reply, out);
            }
            Heard::Running | Heard::Old => {}
            Heard::Unknown => self.answer(request, Status::Forgotten, out),
        }
        self.stats.repeated += 1;
        false
    }

    fn has_room_for(&self, now: Nanos, verb: Verb, request: &Message) -> bool {
        if verb == Verb::Flush {
            return self.has_room_for_flush();
        }
        let hash = request.hash();
        let needs_none = !self.writes.contains_key(&hash) && self.holders_of(hash, now).0.is_empty();
        if needs_none { self.queued < self.config.queue } else { self.has_room_to_wait(hash) }
    }

    pub(super) fn has_room_for_flush(&self) -> bool {
        self.queued < self.config.queue && (!self.flushes.is_empty() || self.rounds.has_room())
    }

    /// Whether another may wait for the key with this hash.
    pub(super) fn has_room_to_wait(&self, hash: KeyHash) -> bool {
        self.queued < self.config.queue
            && match self.writes.get(&hash) {
                Some(waiting) => waiting.len() < self.config.queue_per_key,
                None => self.rounds.has_room(),
            }
    }

    fn enqueue(&mut self, now: Nanos, verb: Verb, request: &Message, out: &mut Out) {
        if verb == Verb::Flush {
            return self.wait_for_all(now, Waiting::Packet(request.clone().into()), out);
        }
        let hash = request.hash();
        let waits = self.writes.contains_key(&hash);
        if waits && self.planted.has(Planted::TwoWritesAtOnce) {
            return self.apply(now, request, false, out);
        }
        let held = !self.holders_of(hash, now).0.is_empty();
        if !waits && (!held || self.planted.has(Planted::SkipInvalidation)) {
            return self.apply(now, request, true, out);
        }
        self.wait_for_copies(now, &request.key, Waiting::Packet(request.clone().into()), out);
    }

    /// It waits until no box has a copy of `key`, behind what does so already. There must be room.
    pub(super) fn wait_for_copies(&mut self, now: Nanos, key: &[u8], what: Waiting, out: &mut Out) {
        let hash = crate::wire::key_hash(key);
        self.take_back(now, hash, key, out);
        self.queued += 1;
        self.writes.get_mut(&hash).expect("the key's copies are being taken back").push_back(what);
    }

    /// A flush waits until no box has a copy of anything. There must be room.
    pub(super) fn wait_for_all(&mut self, now: Nanos, what: Waiting, out: &mut Out) {
        self.queued += 1;
        self.flushes.push_back(what);
        if self.flushes.len() == 1 {
            self.begin_flush(now, out);
        }
    }

    /// Who may hold copies of a key: whoever was granted one, whatever a table says of who may keep it.
    fn holders_of(&self, hash: KeyHash, now: Nanos) -> (Boxes, Nanos) {
        let (granted, until) = self.holders.of(hash, now);
        let in_range = match self.layout.ranges().of(self.layout.slot_of(hash)) {
            _ if !self.planted.has(Planted::TellOnlyInRange) => granted,
            Caching::All | Caching::Cluster => granted,
            Caching::Only(boxes) => Boxes(granted.0 & boxes.0),
            Caching::Nowhere => Boxes(0),
        };
        (in_range, until)
    }

    /// Asks for the copies of a key, unless that is being done or there is no room for it.
    pub(super) fn take_back(&mut self, now: Nanos, hash: KeyHash, key: &[u8], out: &mut Out) {
        if !self.writes.contains_key(&hash) && self.rounds.has_room() {
            let holders = self.holders_of(hash, now);
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
                while let Some(next) = waiting.pop_front() {
                    self.queued -= 1;
                    self.stats.waited += 1;
                    match next {
                        Waiting::Packet(request) => self.apply(now, &request, waiting.is_empty(), out),
                        Waiting::Ticket(claim) => {
                            self.goes_on(claim.access());
                            self.items.run(claim.ticket, now);
                        }
                    }
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
        if !self.items.takes_time() {
            self.items.clear();
        }
        for flush in std::mem::take(&mut self.flushes) {
            self.queued -= 1;
            match flush {
                Waiting::Packet(request) if self.items.takes_time() => self.hand_on(now, &request, out),
                Waiting::Packet(request) => {
                    let answer = Answer { status: Status::Ok, version: Version(0), number: 0 };
                    let reply = self.conclude(&request, answer);
                    self.send(&request, reply, out);
                }
                Waiting::Ticket(claim) => {
                    self.goes_on(Access::Flush);
                    self.items.run(claim.ticket, now);
                }
            }
        }
        for hash in away {
            self.reopen(now, hash, out);
        }
    }

    /// Here a write by packet takes effect. `is_last`: nothing else waits for its key.
    fn apply(&mut self, now: Nanos, request: &Message, is_last: bool, out: &mut Out) {
        if self.items.takes_time() {
            return self.hand_on(now, request, out);
        }
        let Opcode::Request(verb) = request.header.opcode else { unreachable!("only requests are queued") };
        // As if the home counted the writes that it applies, beside a store that counts its own.
        let own = (u64::from(self.incarnation.0) << 32) + self.stats.applied + 1;
        let counts_itself = self.planted.has(Planted::OwnVersions);
        let version = |items: &mut I| if counts_itself { Version(own) } else { items.take_versions(1) };
        let answer = perform(&mut self.items, now, (verb, request), version);
        let mut reply = self.conclude(request, answer);
        if is_last {
            self.give_away(now, request, &mut reply);
        }
        self.send(request, reply, out);
    }

    pub(super) fn conclude(&mut self, request: &Message, answer: Answer) -> Message {
        self.stats.applied += 1;
        self.sessions.finish(request.header.round, request.header.operation, answer);
        outcome_of(request, answer)
    }
}
