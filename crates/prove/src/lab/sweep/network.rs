//! The machines of a small network, joined in this process: no socket, no thread, no loss, no delay, and time only as it is told.
//!
//! ```text
//!   client 1 ── box 1 ─┐
//!   client 2 ── box 2 ─┼─ root ── home          with one level no root: each box before the home itself
//! ```
//!
//! A request is followed until nothing more is to be delivered; then the next one begins. So what is counted depends on the order of
//! requests and the time between them, and on nothing else.

use base::{Nanos, Prng};
use protocol::coherence::boxes::Stats;
use protocol::coherence::client::Call;
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::{Items, Tree};
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::coherence::{CacheBox, Client, Config, Home, Life, NodeId, Out};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Message, Verb, Version};
use std::collections::VecDeque;
use std::sync::Arc;

const HOME: HomeId = HomeId(1);
const FIRST_LIFE: (Incarnation, Life) = (Incarnation(1), Life::First);

/// How many boxes there are, and how large.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Boxes that clients ask; each has one client.
    pub tors: u16,
    /// Copies of each of these.
    pub copies: usize,
    /// Copies of the box above them; none: there is none.
    pub root: Option<usize>,
}

/// The machines.
pub struct Network {
    now: Nanos,
    clients: Vec<Client>,
    /// By id, from 1.
    boxes: Vec<CacheBox>,
    home: Home<Tree>,
    tors: usize,
    keys: Vec<Vec<u8>>,
    out: Out,
    under_way: VecDeque<(NodeId, NodeId, Message)>,
}

impl Network {
    /// Of this shape; the home has all of `keys`.
    pub fn new(shape: Shape, config: &Config, keys: u64, random: &mut Prng) -> Network {
        let layout = Arc::new(layout(shape));
        let boxes = layout.boxes().map(|id| {
            let is_root = id.0 > shape.tors;
            let copies = if is_root { shape.root.unwrap_or(0) } else { shape.copies };
            let config = Config { copies, ..config.clone() };
            CacheBox::new(&config, id, layout.clone(), FIRST_LIFE, Nanos::ZERO)
        });
        let boxes: Vec<CacheBox> = boxes.collect();
        let client = |tor| {
            let prng = Prng::new(random.next_u64());
            Client::new(config, ClientId(u64::from(tor)), BoxId(tor), layout.clone(), prng)
        };
        let clients = (1..=shape.tors).map(client).collect();
        let keys: Vec<Vec<u8>> = (0..keys).map(|key| format!("key:{key:09}").into_bytes()).collect();
        let items = stocked(&keys);
        Network {
            now: Nanos::ZERO,
            clients,
            boxes,
            home: Home::new(config, HOME, layout, FIRST_LIFE, Nanos::ZERO, items),
            tors: usize::from(shape.tors),
            keys,
            out: Vec::new(),
            under_way: VecDeque::new(),
        }
    }

    /// Time goes on by so much.
    pub fn pass(&mut self, span: Nanos) {
        self.now = self.now.plus(span);
    }

    /// The client of the `at`-th box reads a key.
    pub fn read(&mut self, at: usize, key: u64) {
        let call = Call::new(Verb::Get, &self.keys[key as usize]);
        self.call(at, call);
    }

    /// The client of the `at`-th box stores a value.
    pub fn write(&mut self, at: usize, key: u64) {
        let call = Call::new(Verb::Set, &self.keys[key as usize]).value(b"another");
        self.call(at, call);
    }

    /// What the boxes that clients ask counted, and what the one above them did.
    pub fn stats(&self) -> (Vec<Stats>, Option<Stats>) {
        let (tors, root) = self.boxes.split_at(self.tors);
        (tors.iter().map(CacheBox::stats).collect(), root.first().map(CacheBox::stats))
    }

    fn call(&mut self, at: usize, call: Call) {
        let client = &mut self.clients[at];
        let id = NodeId::Client(client.id());
        client.start(self.now, call, &mut self.out).expect("the one before it has ended");
        self.sent_by(id);
        while let Some((from, to, message)) = self.under_way.pop_front() {
            self.deliver(from, to, &message);
        }
        let (_, outcome) = self.clients[at].poll_outcome().expect("all was delivered, so it has ended");
        outcome.expect("nothing is lost, so it is done");
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, message: &Message) {
        let (now, out) = (self.now, &mut self.out);
        match to {
            NodeId::Client(id) => self.clients[id.0 as usize - 1].handle(now, from, message, out),
            NodeId::Box(id) => self.boxes[usize::from(id.0) - 1].handle(now, from, message, out),
            NodeId::Home(_) => self.home.handle(now, from, message, out),
            NodeId::Controller(_) => unreachable!("nobody is asked for signs of life"),
        }
        self.sent_by(to);
    }

    fn sent_by(&mut self, from: NodeId) {
        self.under_way.extend(self.out.drain(..).map(|(to, message)| (from, to, message)));
    }
}

/// Without a root every box is before a home; there is one home, so its own box is the first, and the others ask it directly.
fn layout(shape: Shape) -> Layout {
    let root = BoxId(shape.tors + 1);
    let above: Vec<BoxId> = shape.root.map(|_| root).into_iter().collect();
    let mut boxes: Vec<BoxPlace> =
        (1..=shape.tors).map(|id| BoxPlace { id: BoxId(id), above: above.clone() }).collect();
    boxes.extend(above.iter().map(|id| BoxPlace { id: *id, above: vec![] }));
    let before = above.first().copied().unwrap_or(BoxId(1));
    Layout::new(&boxes, &[(HOME, before)], 1).expect("two levels are a layout")
}

fn stocked(keys: &[Vec<u8>]) -> Tree {
    let mut items = Tree::new(keys.len());
    for key in keys {
        let item = Item {
            value: b"value".to_vec(),
            flags: 0,
            kind: Kind::Bytes,
            version: Version(1),
            end: Nanos::MAX,
        };
        assert!(items.store(key, item), "there is room for all keys");
    }
    items
}
