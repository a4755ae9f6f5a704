//! The protocol as it was published, to show what it leaves open: boxes keep whatever reply passes, the home knows sharers by
//! their source address, and counts the answers to a write's invalidations. No tokens, no leases, no queue of writes.
//!
//! ```text
//!  GET  client → ToR → … → home    any box that has the key answers; else the home notes the client, and every box on the
//!                                  way back keeps the reply
//!  SET  client → home              an INVALIDATE along the way to each client noted; boxes on it drop the key, the last one
//!                                  answers; when all have, the home stores, forgets its notes, and answers
//! ```
//!
//! For scenarios and simulations only. Lost messages are not sent again here: what goes wrong goes wrong without loss. GET and SET
//! only; single path (the way that [`Table::designated`] names).
//!
//! Source: IncBricks (ASPLOS 2017), section 4.3, figure 5.

use super::table::{Layout, Table};
use super::{NodeId, Out};
use crate::wire::{
    BoxId, ClientId, Control, HomeId, Message, Opcode, RequestId, Status, Verb, Version, key_hash,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where clients are: what a network's addresses say.
pub type Places = Arc<BTreeMap<ClientId, BoxId>>;

/// The way between a client and the home of a key.
#[derive(Clone, Debug)]
struct Ways {
    table: Table,
    clients: Places,
}

impl Ways {
    fn of(&self, client: ClientId, key: &[u8]) -> Vec<BoxId> {
        self.clients.get(&client).map_or(Vec::new(), |tor| self.table.designated(*tor, key_hash(key)))
    }

    /// Towards the client: the box before `here`, or itself.
    fn down(&self, here: Option<BoxId>, client: ClientId, key: &[u8]) -> NodeId {
        let way = self.of(client, key);
        let before = way.iter().take_while(|id| Some(**id) != here).last();
        before.map_or(NodeId::Client(client), |id| NodeId::Box(*id))
    }
}

/// A box. It keeps everything: what it evicts would only hide what goes wrong.
#[derive(Clone, Debug)]
pub struct PublishedBox {
    id: BoxId,
    ways: Ways,
    kept: BTreeMap<Vec<u8>, (Vec<u8>, Version)>,
}

impl PublishedBox {
    /// An empty one.
    pub fn new(id: BoxId, layout: Arc<Layout>, clients: Places) -> PublishedBox {
        PublishedBox { id, ways: Ways { table: Table::first(layout), clients }, kept: BTreeMap::new() }
    }

    /// What it keeps under `key`.
    pub fn kept(&self, key: &[u8]) -> Option<&[u8]> {
        self.kept.get(key).map(|(value, _)| value.as_slice())
    }

    /// Takes a message.
    pub fn handle(&mut self, message: &Message, out: &mut Out) {
        let (client, key) = (message.header.client, &message.key);
        match message.header.opcode {
            Opcode::Request(verb) => {
                if verb == Verb::Get
                    && let Some((value, version)) = self.kept.get(key)
                {
                    let mut reply = message.reply(Status::Ok);
                    reply.value.clone_from(value);
                    reply.header.version = *version;
                    out.push((self.ways.down(Some(self.id), client, key), reply));
                    return;
                }
                let way = self.ways.of(client, key);
                let after = way.iter().skip_while(|id| **id != self.id).nth(1);
                let next = after.map_or(NodeId::Home(message.header.home), |id| NodeId::Box(*id));
                out.push((next, message.clone()));
            }
            Opcode::Reply(verb) => {
                if verb == Verb::Get && message.header.status == Status::Ok {
                    self.kept.insert(key.clone(), (message.value.clone(), message.header.version));
                }
                out.push((self.ways.down(Some(self.id), client, key), message.clone()));
            }
            Opcode::Control(Control::Invalidate) => {
                self.kept.remove(key);
                match self.ways.down(Some(self.id), client, key) {
                    NodeId::Client(_) => {
                        let mut ack = message.clone();
                        ack.header.opcode = Opcode::Control(Control::InvalidateAck);
                        out.push((NodeId::Home(message.header.home), ack));
                    }
                    below => out.push((below, message.clone())),
                }
            }
            Opcode::Control(_) => {}
        }
    }
}

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
    items: BTreeMap<Vec<u8>, (Vec<u8>, Version)>,
    /// Source addresses of those who read a key.
    sharers: BTreeMap<Vec<u8>, BTreeSet<ClientId>>,
    /// By the request that they are for.
    pending: BTreeMap<(ClientId, RequestId), Pending>,
    version: u64,
}

impl PublishedHome {
    /// An empty one.
    pub fn new(id: HomeId, layout: Arc<Layout>, clients: Places) -> PublishedHome {
        PublishedHome {
            id,
            ways: Ways { table: Table::first(layout), clients },
            items: BTreeMap::new(),
            sharers: BTreeMap::new(),
            pending: BTreeMap::new(),
            version: 0,
        }
    }

    /// What is stored under `key`.
    pub fn stored(&self, key: &[u8]) -> Option<&[u8]> {
        self.items.get(key).map(|(value, _)| value.as_slice())
    }

    /// Takes a message.
    pub fn handle(&mut self, message: &Message, out: &mut Out) {
        let (header, key) = (&message.header, &message.key);
        match header.opcode {
            Opcode::Request(Verb::Get) => {
                let item = self.items.get(key);
                let mut reply = message.reply(if item.is_some() { Status::Ok } else { Status::Miss });
                if let Some((value, version)) = item {
                    reply.value.clone_from(value);
                    reply.header.version = *version;
                    self.sharers.entry(key.clone()).or_default().insert(header.client);
                }
                out.push((self.ways.down(None, header.client, key), reply));
            }
            Opcode::Request(Verb::Set) => self.write(message, out),
            Opcode::Control(Control::InvalidateAck) => {
                // The write that asked is named in the operation's place: clients' numbers say whose it is.
                let asked = (ClientId(header.operand), header.request);
                let Some(pending) = self.pending.get_mut(&asked) else { return };
                pending.answers -= 1;
                if pending.answers == 0
                    && let Some(Pending { request, .. }) = self.pending.remove(&asked)
                {
                    self.apply(&request, out);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, request: &Message, out: &mut Out) {
        let sharers = self.sharers.get(&request.key).cloned().unwrap_or_default();
        if sharers.is_empty() {
            return self.apply(request, out);
        }
        for sharer in &sharers {
            let mut message = Message::new(Opcode::Control(Control::Invalidate), &request.key);
            message.header.home = self.id;
            message.header.client = *sharer;
            message.header.request = request.header.request;
            message.header.operand = request.header.client.0;
            out.push((self.ways.down(None, *sharer, &request.key), message));
        }
        let asked = (request.header.client, request.header.request);
        self.pending.insert(asked, Pending { request: request.clone(), answers: sharers.len() });
    }

    fn apply(&mut self, request: &Message, out: &mut Out) {
        self.version += 1;
        self.items.insert(request.key.clone(), (request.value.clone(), Version(self.version)));
        self.sharers.remove(&request.key);
        out.push((NodeId::Client(request.header.client), request.reply(Status::Ok)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Boxes 1 to 3 with a client each, box 4 above them, the home behind box 3.
    struct Rack {
        boxes: BTreeMap<BoxId, PublishedBox>,
        home: PublishedHome,
        network: VecDeque<(NodeId, Message)>,
        /// What goes there and is this waits.
        hold: Option<(NodeId, Opcode)>,
        held: Vec<(NodeId, Message)>,
        answered: Vec<Message>,
        requests: u16,
    }

    const GET_REPLY: Opcode = Opcode::Reply(Verb::Get);
    const INVALIDATE: Opcode = Opcode::Control(Control::Invalidate);

    impl Rack {
        fn new() -> Rack {
            let layout = Arc::new(Layout::two_levels(3, 1, 1, 1).expect("a layout"));
            let clients: Places = Arc::new((1..=3).map(|c| (ClientId(c), BoxId(c as u16))).collect());
            let boxes = layout.boxes().map(|id| (id, PublishedBox::new(id, layout.clone(), clients.clone())));
            let mut rack = Rack {
                boxes: boxes.collect(),
                home: PublishedHome::new(HomeId(1), layout.clone(), clients),
                network: VecDeque::new(),
                hold: None,
                held: Vec::new(),
                answered: Vec::new(),
                requests: 0,
            };
            rack.set(3, "old");
            rack
        }

        fn run(&mut self) {
            while let Some((to, message)) = self.network.pop_front() {
                if self.hold == Some((to, message.header.opcode)) {
                    self.held.push((to, message));
                    continue;
                }
                let mut out = Vec::new();
                match to {
                    NodeId::Box(id) => self.boxes.get_mut(&id).expect("a box").handle(&message, &mut out),
                    NodeId::Home(_) => self.home.handle(&message, &mut out),
                    _ => self.answered.push(message),
                }
                self.network.extend(out);
            }
        }

        fn release(&mut self) {
            self.hold = None;
            self.network.extend(std::mem::take(&mut self.held));
            self.run();
        }

        fn ask(&mut self, client: u64, mut message: Message, to: NodeId) {
            self.requests += 1;
            message.header.client = ClientId(client);
            message.header.home = HomeId(1);
            message.header.request = RequestId(self.requests);
            self.network.push_back((to, message));
            self.run();
        }

        fn get(&mut self, client: u64) {
            self.ask(client, Message::request(Verb::Get, b"k"), NodeId::Box(BoxId(client as u16)));
        }

        fn set(&mut self, client: u64, value: &str) {
            let message = Message { value: value.into(), ..Message::request(Verb::Set, b"k") };
            self.ask(client, message, NodeId::Home(HomeId(1)));
        }

        /// What the last answer to a read showed.
        fn read(&mut self, client: u64) -> String {
            self.get(client);
            let last = self.answered.last().expect("it was answered");
            String::from_utf8_lossy(&last.value).into_owned()
        }
    }

    #[test]
    fn it_is_coherent_while_nothing_overlaps() {
        let mut rack = Rack::new();
        assert_eq!(rack.read(1), "old");
        rack.set(3, "new");
        assert!(rack.boxes.values().all(|b| b.kept(b"k").is_none()));
        assert_eq!(rack.read(1), "new");
    }

    #[test]
    fn g1_a_sibling_that_was_served_from_above_is_never_invalidated() {
        let mut rack = Rack::new();
        rack.get(1);
        rack.get(2);
        rack.set(3, "new");
        assert_eq!(rack.answered.last().map(|m| m.header.opcode), Some(Opcode::Reply(Verb::Set)));
        assert_eq!(rack.read(2), "old", "a stale read, after the write was answered");
        assert_eq!(rack.read(1), "new");
    }

    #[test]
    fn g2_a_late_reply_fills_after_the_invalidation() {
        let mut rack = Rack::new();
        rack.hold = Some((NodeId::Box(BoxId(1)), GET_REPLY));
        rack.get(1);
        rack.set(3, "new");
        rack.release();
        assert_eq!(rack.read(1), "old", "a stale read, for ever");
        assert_eq!(rack.home.stored(b"k"), Some(&b"new"[..]));
    }

    #[test]
    fn g2_a_read_while_a_write_waits_is_forgotten() {
        let mut rack = Rack::new();
        rack.get(1);
        rack.hold = Some((NodeId::Box(BoxId(1)), INVALIDATE));
        rack.set(3, "new");
        rack.get(2);
        rack.release();
        assert_eq!(rack.home.stored(b"k"), Some(&b"new"[..]));
        assert_eq!(rack.read(2), "old");
    }

    #[test]
    fn g3_of_two_writes_at_once_the_second_misses_who_read_between() {
        let mut rack = Rack::new();
        rack.get(1);
        rack.hold = Some((NodeId::Box(BoxId(1)), INVALIDATE));
        rack.set(3, "one");
        rack.set(2, "two");
        // The first is invalidated, acknowledged and applied; somebody reads; then the second.
        let first = rack.held.remove(0);
        let second = rack.held.remove(0);
        rack.hold = None;
        rack.network.push_back(first);
        rack.run();
        assert_eq!(rack.read(2), "one");
        rack.network.push_back(second);
        rack.run();
        assert_eq!(rack.home.stored(b"k"), Some(&b"two"[..]));
        assert_eq!(rack.read(2), "one", "a stale read, after both were answered");
    }
}
