use super::*;
use crate::wire::{Control, Kind, Opcode, RequestId, Status, Version};
use base::Nanos;
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
        let one = |id| (id, PublishedBox::new(id, layout.clone(), clients.clone(), 100));
        let boxes = layout.boxes().map(one);
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
                NodeId::Box(id) => self.boxes.get_mut(&id).expect("a box").handle(message, &mut out),
                NodeId::Home(_) => self.home.handle(message, &mut out),
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

    fn compute(&mut self, client: u64, verb: Verb, operand: u64) -> Message {
        let mut message = Message::request(verb, b"k");
        message.header.operand = operand;
        self.ask(client, message, NodeId::Box(BoxId(client as u16)));
        self.answered.last().expect("it was answered").clone()
    }

    fn stored(&self) -> String {
        let item = self.home.stored(b"k").expect("it was set");
        String::from_utf8_lossy(&item.value).into_owned()
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
    assert_eq!(rack.stored(), "new");
}

#[test]
fn g2_a_read_while_a_write_waits_is_forgotten() {
    let mut rack = Rack::new();
    rack.get(1);
    rack.hold = Some((NodeId::Box(BoxId(1)), INVALIDATE));
    rack.set(3, "new");
    rack.get(2);
    rack.release();
    assert_eq!(rack.stored(), "new");
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
    assert_eq!(rack.stored(), "two");
    assert_eq!(rack.read(2), "one", "a stale read, after both were answered");
}

#[test]
fn a_write_is_answered_over_the_boxes_and_by_all_of_them_at_once() {
    let mut rack = Rack::new();
    let client = |of: &Rack| of.answered.last().map(|m| (m.header.client, m.header.at));
    rack.get(1);
    assert_eq!(client(&rack), Some((ClientId(1), BoxId::NONE)));
    rack.get(1);
    assert_eq!(client(&rack), Some((ClientId(1), BoxId(1))));
    rack.get(2);
    assert_eq!(client(&rack), Some((ClientId(2), BoxId(4))), "what box 1 has, box 4 above it has");
    let write = Message { value: b"new".into(), ..Message::request(Verb::Set, b"k") };
    rack.hold = Some((NodeId::Box(BoxId(2)), Opcode::Reply(Verb::Set)));
    rack.ask(2, write, NodeId::Box(BoxId(2)));
    assert_eq!(rack.held.len(), 1, "its reply comes by the boxes");
    rack.release();
    assert_eq!(rack.answered.last().map(|m| m.header.version), Some(Version(2)));
    assert_eq!(rack.home.counts(), (2, 1), "one sharer was known");
}

#[test]
fn g5_what_a_box_computes_it_answers_and_the_home_hears_of_it() {
    let mut rack = Rack::new();
    rack.set(3, "10");
    let number = |reply: &Message| (reply.header.status, reply.header.operand, reply.header.at);
    assert_eq!(number(&rack.compute(1, Verb::Incr, 1)), (Status::Ok, 11, BoxId::NONE));
    rack.get(1);
    assert_eq!(number(&rack.compute(1, Verb::Incr, 1)), (Status::Ok, 12, BoxId(1)));
    assert_eq!(rack.stored(), "12");
    assert_eq!(number(&rack.compute(1, Verb::CondPut, 12)), (Status::NotStored, 12, BoxId(1)));
    assert_eq!(number(&rack.compute(1, Verb::CondPut, 20)), (Status::Ok, 20, BoxId(1)));
    assert_eq!((rack.stored().as_str(), rack.read(1).as_str()), ("20", "20"));
    // Box 4 has what the read brought by; nobody told it.
    assert_eq!(number(&rack.compute(2, Verb::Incr, 1)), (Status::Ok, 12, BoxId(4)), "two increments are one");
    assert_eq!(rack.stored(), "12", "and the conditional put is undone");
}

#[test]
fn a_computation_at_the_home_takes_copies_back_only_if_it_changes_something() {
    let mut rack = Rack::new();
    rack.set(3, "10");
    rack.get(1);
    // From past the boxes, as a client that is below none.
    let mut request = Message::request(Verb::CondPut, b"k");
    request.header.operand = 5;
    rack.ask(9, request.clone(), NodeId::Home(HomeId(1)));
    assert_eq!(rack.home.counts().1, 0);
    request.header.operand = 50;
    rack.ask(9, request, NodeId::Home(HomeId(1)));
    assert_eq!((rack.home.counts().1, rack.read(1).as_str()), (1, "50"));
}

#[test]
fn tables_are_bounded_and_can_begin_full() {
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
    let clients: Places = Arc::new([(ClientId(1), BoxId(1))].into());
    let mut one = PublishedBox::new(BoxId(1), layout, clients, 2);
    let item = Item { value: b"v".into(), flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos::MAX };
    assert!(one.is_empty() && one.keep(b"a", &item, 5) && one.keep(b"b", &item, 2));
    assert!(!one.keep(b"b", &item, 9) && !one.keep(b"c", &item, 9), "it is full");
    let mut reply = Message::request(Verb::Get, b"c").reply(Status::Ok);
    reply.header.client = ClientId(1);
    one.handle(reply, &mut Out::new());
    assert_eq!(one.len(), 2);
    assert!(one.kept(b"a").is_some() && one.kept(b"b").is_none(), "of two the least used went");
}
