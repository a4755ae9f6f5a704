//! Replies that a client hears.

use super::super::compute::{self, Effect, Item, Operation};
use super::super::{NodeId, Out, is_well_formed};
use super::{Answer, Client, Failed, Phase, READ};
use crate::wire::{Flags, MAX_DATAGRAM, Message, Opcode, Status, Verb, Version};
use base::Nanos;

impl Client {
    /// Takes a message. Who sent it does not matter, but where homes are boxes say: a reply is known by its operation.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.tick(now, out);
        let Opcode::Reply(verb) = message.header.opcode else { return };
        if message.header.client != self.id || !is_well_formed(message) {
            return;
        }
        let number = message.header.operation;
        if verb == Verb::Noop {
            self.hear_whereabouts(now, from, message, out);
        } else if verb == Verb::Session {
            self.hear_session(now, message, out);
        } else if number.0 & READ != 0 {
            self.hear_read(now, number.0 & !READ, verb, message, out);
        } else {
            self.hear_write(now, verb, message, out);
        }
    }

    fn hear_read(&mut self, now: Nanos, id: u64, verb: Verb, reply: &Message, out: &mut Out) {
        let Some(op) = self.ops.get(&id) else { return };
        let header = &reply.header;
        let asked = op.phase == Phase::Reading && op.call.verb == verb && op.call.key == reply.key;
        if asked {
            self.note_draining(id, header.flags);
        }
        let op = &self.ops[&id];
        // Asked again, by the timer, with more patience each time.
        if !asked || header.status == Status::Busy {
            return;
        }
        if header.status == Status::Pad {
            return self.make_room(now, id, header.operand, out);
        }
        if op.by_box {
            self.worth.note(header.flags.contains(Flags::FROM_BOX));
            if header.attempt == 0 && op.attempt == 0 {
                self.silent = 0;
            }
        }
        if verb == Verb::Get || header.flags.contains(Flags::TRY) || header.status == Status::NotHome {
            return self.end(now, id, Ok(answer(reply)), out);
        }
        // A try that nobody answered: what is there came instead.
        let item = Item {
            value: reply.value.clone(),
            flags: header.item_flags,
            kind: header.kind,
            version: header.version,
            end: Nanos::MAX,
        };
        let operation = Operation {
            verb,
            value: &op.call.value,
            operand: op.call.operand,
            version: op.call.version,
            flags: op.call.flags,
            kind: crate::wire::Kind::Bytes,
        };
        let outcome = match header.status {
            Status::Ok => Some(compute::apply(&operation, Some(&item))),
            Status::Miss => Some(compute::apply(&operation, None)),
            _ => None,
        };
        match outcome.filter(|outcome| outcome.effect == Effect::Nothing) {
            Some(outcome) => {
                let version = if header.status == Status::Ok { item.version } else { Version(0) };
                let answer = Answer {
                    status: outcome.status,
                    number: outcome.number,
                    version,
                    value: Vec::new(),
                    ..answer(reply)
                };
                self.end(now, id, Ok(answer), out);
            }
            None => self.begin_write(now, id, out),
        }
    }

    /// What a reply to an operation says of the client's box.
    fn note_draining(&mut self, id: u64, flags: Flags) {
        let asked = self.ops[&id].around;
        if flags.contains(Flags::DRAINING) || (asked && !flags.contains(Flags::FROM_BOX)) {
            self.around = flags.contains(Flags::DRAINING);
        }
    }

    /// The reply is longer than its request was: asked again at once, with as much room. Each time for more, so that it ends.
    fn make_room(&mut self, now: Nanos, id: u64, bytes: u64, out: &mut Out) {
        let op = self.ops.get_mut(&id).expect("it was looked up");
        let room = usize::try_from(bytes).unwrap_or(MAX_DATAGRAM).min(MAX_DATAGRAM);
        if room > op.room {
            op.room = room;
            self.send(now, id, out);
        }
    }

    fn hear_write(&mut self, now: Nanos, verb: Verb, reply: &Message, out: &mut Out) {
        let header = &reply.header;
        let Some(session) = self.sessions.known(header.home) else { return };
        let Some(id) = session.operation(header.round, header.operation) else { return };
        let op = &self.ops[&id];
        if op.call.verb != verb || op.call.key != reply.key {
            return;
        }
        if header.attempt == 0 && op.attempt == 0 && op.by_box {
            self.silent = 0;
        }
        self.note_draining(id, header.flags);
        match header.status {
            Status::Busy => {}
            Status::Forgotten => {
                // All that was sent in it: it may have been done before the home forgot.
                for id in self.sessions.of(header.home).refused() {
                    self.end(now, id, Err(Failed::Unknown), out);
                }
            }
            _ => self.end(now, id, Ok(answer(reply)), out),
        }
    }
}

pub(super) fn answer(reply: &Message) -> Answer {
    let header = &reply.header;
    Answer {
        status: header.status,
        value: reply.value.clone(),
        flags: header.item_flags,
        kind: header.kind,
        life: header.ttl.nanos(),
        version: header.version,
        number: header.operand,
        from_box: header.flags.contains(Flags::FROM_BOX),
    }
}
