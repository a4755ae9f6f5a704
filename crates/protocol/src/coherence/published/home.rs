//! The home: the items, the source addresses of those who read them, and writes that wait for answers to their invalidations.

use super::{ByKey, Effect, Item, Layout, Out, Places, Ways, computes, done, show};
use crate::wire::{
    BoxId, ClientId, Control, HomeId, Kind, Message, Opcode, RequestId, Status, Verb, Version,
};
use base::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A write that waits for so many answers.
#[derive(Clone, Debug)]
struct Pending {
    request: Message,
    answers: usize,
}

/// The home.
#[derive(Clone, Debug)]
pub struct PublishedHome {
    id: HomeId,
    ways: Ways,
    /// Never iterated; nor are sharers.
    items: ByKey<Vec<u8>, Item>,
    /// What is under every key that nobody has written yet.
    stock: Option<Item>,
    /// Source addresses of those who read a key, each once.
    sharers: ByKey<Vec<u8>, Vec<ClientId>>,
    /// By the request that they are for.
    pending: BTreeMap<(ClientId, RequestId), Pending>,
    version: u64,
    writes: u64,
    invalidations: u64,
}

impl PublishedHome {
    /// An empty one.
    pub fn new(id: HomeId, layout: Arc<Layout>, clients: Places) -> PublishedHome {
        PublishedHome {
            id,
            ways: Ways::new(layout, &clients),
            items: ByKey::default(),
            stock: None,
            sharers: ByKey::default(),
            pending: BTreeMap::new(),
            version: 0,
            writes: 0,
            invalidations: 0,
        }
    }

    /// One that has this item under every key that nobody has written yet.
    #[must_use]
    pub fn with_stock(self, item: Item) -> PublishedHome {
        PublishedHome { version: item.version.0, stock: Some(item), ..self }
    }

    /// What is stored under `key`.
    pub fn stored(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key).or(self.stock.as_ref())
    }

    /// Writes that it was asked for, and invalidations that it sent for them.
    pub fn counts(&self) -> (u64, u64) {
        (self.writes, self.invalidations)
    }

    /// Boxes between a client and here for a key, the client's first.
    pub fn way(&self, client: ClientId, key: &[u8]) -> &[BoxId] {
        self.ways.of(client, key)
    }

    /// Notes who reads a key. Who is below no box has no copy that could be dropped.
    pub fn note(&mut self, client: ClientId, key: &[u8]) {
        if self.way(client, key).is_empty() {
            return;
        }
        match self.sharers.get_mut(key) {
            Some(sharers) if sharers.contains(&client) => {}
            Some(sharers) => sharers.push(client),
            None => drop(self.sharers.insert(key.into(), vec![client])),
        }
    }

    /// Takes a message.
    pub fn handle(&mut self, message: Message, out: &mut Out) {
        let header = &message.header;
        match header.opcode {
            Opcode::Request(Verb::Get) => {
                let item = self.stored(&message.key);
                let mut reply = message.reply(if item.is_some() { Status::Ok } else { Status::Miss });
                if let Some(item) = item {
                    show(item, &mut reply);
                    self.note(header.client, &message.key);
                }
                self.answer(reply, out);
            }
            Opcode::Request(verb) if verb == Verb::Set || computes(verb) => self.write(verb, message, out),
            Opcode::Control(Control::InvalidateAck) => {
                // The write that asked is named in the operation's place: clients' numbers say whose it is.
                let asked = (ClientId(header.operand), header.request);
                let Some(pending) = self.pending.get_mut(&asked) else { return };
                pending.answers -= 1;
                if pending.answers == 0
                    && let Some(Pending { request, .. }) = self.pending.remove(&asked)
                {
                    self.apply(request, out);
                }
            }
            Opcode::Control(Control::Return) => {
                self.store(message.key, (message.value, header.item_flags, header.kind));
            }
            _ => {}
        }
    }

    fn write(&mut self, verb: Verb, request: Message, out: &mut Out) {
        self.writes += 1;
        let changes = done(verb, &request, self.stored(&request.key)).0.effect != Effect::Nothing;
        let sharers = self.sharers.get(&request.key).filter(|sharers| changes && !sharers.is_empty());
        let Some(sharers) = sharers else { return self.apply(request, out) };
        for sharer in sharers {
            let mut message = Message::new(Opcode::Control(Control::Invalidate), &request.key);
            message.header.home = self.id;
            message.header.client = *sharer;
            message.header.request = request.header.request;
            message.header.operand = request.header.client.0;
            out.push((self.ways.down(None, *sharer, &request.key), message));
        }
        self.invalidations += sharers.len() as u64;
        let asked = (request.header.client, request.header.request);
        self.pending.insert(asked, Pending { answers: sharers.len(), request });
    }

    fn apply(&mut self, request: Message, out: &mut Out) {
        let Opcode::Request(verb) = request.header.opcode else { return };
        let (outcome, mut reply) = done(verb, &request, self.stored(&request.key));
        if let Effect::Store { value, flags, kind, .. } = outcome.effect {
            self.sharers.remove(&request.key);
            reply.header.version = self.store(request.key, (value, flags, kind));
        }
        self.answer(reply, out);
    }

    fn store(&mut self, key: Vec<u8>, (value, flags, kind): (Vec<u8>, u32, Kind)) -> Version {
        self.version += 1;
        let (version, end) = (Version(self.version), Nanos::MAX);
        self.items.insert(key, Item { value, flags, kind, version, end });
        version
    }

    fn answer(&self, reply: Message, out: &mut Out) {
        out.push((self.ways.down(None, reply.header.client, &reply.key), reply));
    }
}
