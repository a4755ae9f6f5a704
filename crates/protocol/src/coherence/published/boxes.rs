//! A box: it keeps what replies to reads bring by, as far as its table has room, answers what it has, and drops what invalidations name.

use super::lfu::Lfu;
use super::{Effect, Item, Layout, NodeId, Out, Places, Ways, computes, done, show};
use crate::wire::{BoxId, Control, Message, Opcode, Status, Verb};
use base::Nanos;
use std::sync::Arc;

/// A box.
#[derive(Clone, Debug)]
pub struct PublishedBox {
    id: BoxId,
    ways: Ways,
    kept: Lfu<Item>,
}

impl PublishedBox {
    /// One that keeps nothing yet, and later at most so many entries.
    pub fn new(id: BoxId, layout: Arc<Layout>, clients: Places, entries: usize) -> PublishedBox {
        PublishedBox { id, ways: Ways::new(layout, &clients), kept: Lfu::new(entries) }
    }

    /// What it keeps under `key`; to look at it so is no use of it.
    pub fn kept(&self, key: &[u8]) -> Option<&[u8]> {
        self.kept.get(key).map(|item| item.value.as_slice())
    }

    /// Values that it keeps.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether it keeps none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// As if replies had brought it this item before, and it had been used so often: the state that a long run leads to. Whether there was room.
    pub fn keep(&mut self, key: &[u8], item: &Item, uses: u16) -> bool {
        let fits = self.kept.room_left() > 0 && self.kept.get(key).is_none();
        if fits {
            self.kept.put(key, item.clone(), uses);
        }
        fits
    }

    /// Takes a message.
    pub fn handle(&mut self, mut message: Message, out: &mut Out) {
        match message.header.opcode {
            Opcode::Request(Verb::Get) => {
                let Some(item) = self.kept.touch(&message.key) else { return self.pass_up(message, out) };
                let mut reply = message.reply(Status::Ok);
                show(item, &mut reply);
                self.answer(reply, out);
            }
            Opcode::Request(verb) if computes(verb) => {
                if !self.compute(verb, &message, out) {
                    self.pass_up(message, out);
                }
            }
            Opcode::Request(_) | Opcode::Control(Control::InvalidateAck | Control::Return) => {
                self.pass_up(message, out);
            }
            Opcode::Reply(verb) => {
                let Message { header, key, value, .. } = &message;
                if verb == Verb::Get && header.status == Status::Ok {
                    let (flags, kind, version) = (header.item_flags, header.kind, header.version);
                    self.kept.put(
                        key,
                        Item { value: value.clone(), flags, kind, version, end: Nanos::MAX },
                        1,
                    );
                }
                out.push((self.ways.down(Some(self.id), header.client, key), message));
            }
            Opcode::Control(Control::Invalidate) => {
                self.kept.invalidate(&message.key);
                match self.ways.down(Some(self.id), message.header.client, &message.key) {
                    NodeId::Client(_) => {
                        message.header.opcode = Opcode::Control(Control::InvalidateAck);
                        self.pass_up(message, out);
                    }
                    below => out.push((below, message)),
                }
            }
            Opcode::Control(_) => {}
        }
    }

    /// On a copy, if there is one: the result goes to the home, if it is another value, and the answer to the client.
    fn compute(&mut self, verb: Verb, request: &Message, out: &mut Out) -> bool {
        let Some(item) = self.kept.touch(&request.key) else { return false };
        let (outcome, reply) = done(verb, request, Some(item));
        if let Effect::Store { value, flags, kind, .. } = outcome.effect {
            (item.value, item.flags, item.kind) = (value, flags, kind);
            let mut told = Message::new(Opcode::Control(Control::Return), &request.key);
            (told.header.client, told.header.home) = (request.header.client, request.header.home);
            show(item, &mut told);
            self.pass_up(told, out);
        }
        self.answer(reply, out);
        true
    }

    /// A reply of its own says whose it is; the published packet has no place for that, which nobody needs to be answered.
    fn answer(&self, mut reply: Message, out: &mut Out) {
        reply.header.at = self.id;
        out.push((self.ways.down(Some(self.id), reply.header.client, &reply.key), reply));
    }

    fn pass_up(&self, message: Message, out: &mut Out) {
        let (header, key) = (&message.header, &*message.key);
        out.push((self.ways.up(Some(self.id), header.client, (key, header.home)), message));
    }
}
