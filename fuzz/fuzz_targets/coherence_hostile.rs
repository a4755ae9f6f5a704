//! A home, three boxes, a controller and a client of the in-network cache, whose messages are lost, doubled, changed and mixed with strangers': no
//! machine panics, says more than it may, speaks to whom it does not know, or has a deadline that its tick does not serve.
//!
//! Half of the runs are without keys: every message that arrives is well formed, with any fields, which is what the wire's reader lets through. A
//! member that lies can bring down what is promised, so answers are not judged there; the machines' own assertions are. In the other half all have
//! keys but the stranger, and he changes nothing (`guarded`).
//! `cargo +nightly fuzz run coherence_hostile`
#![no_main]

mod dress;
mod guarded;

use base::{Nanos, Prng};
use dress::{Input, packet, scribble};
use guarded::{Guards, KEYS, Promise, Watched};
use libfuzzer_sys::fuzz_target;
use protocol::coherence::client::Call;
use protocol::coherence::table::Layout;
use protocol::coherence::{CacheBox, Client, Compute, Config, Controller, Home, Life, NodeId, Out};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Message, Packet, Verb};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

const CLIENT: NodeId = NodeId::Client(ClientId(7));
const HOME: NodeId = NodeId::Home(HomeId(1));
const BOXES: [NodeId; 3] = [NodeId::Box(BoxId(1)), NodeId::Box(BoxId(2)), NodeId::Box(BoxId(3))];
/// Messages under way at most: others are lost.
const UNDER_WAY: usize = 400;
/// What one event may bring a machine to say.
const MOST_SAID: usize = 2_000;

struct World {
    now: Nanos,
    home: Home<Watched>,
    boxes: Vec<CacheBox>,
    controller: Controller,
    client: Client,
    /// Who ever spoke, or was named in a message: replies go there.
    heard: BTreeSet<NodeId>,
    /// From, to, and what.
    network: VecDeque<(NodeId, NodeId, Vec<u8>)>,
    out: Out,
    /// None: without keys.
    guards: Option<Guards>,
    promise: Promise,
}

impl World {
    fn new(compute: Compute, is_guarded: bool) -> World {
        let config = Config {
            copies: 8,
            fills: 4,
            holders: 8,
            rounds: 4,
            queue: 8,
            queue_per_key: 4,
            sessions: 4,
            window: 8,
            operations: 8,
            owned: 2,
            compute,
            ..Config::default()
        };
        let layout = Arc::new(Layout::two_levels(2, 1, 1, 8).expect("a layout"));
        let now = Nanos::from_secs(1);
        let first = (Incarnation(1), Life::First);
        World {
            now,
            home: Home::new(&config, HomeId(1), layout.clone(), first, now, Watched::new(8, is_guarded)),
            boxes: (1..=3).map(|id| CacheBox::new(&config, BoxId(id), layout.clone(), first, now)).collect(),
            controller: Controller::new(&config, 0, 1, layout.clone(), now),
            client: Client::new(&config, ClientId(7), BoxId(1), layout, Prng::new(1)),
            heard: BTreeSet::new(),
            network: VecDeque::new(),
            out: Out::new(),
            guards: is_guarded
                .then(|| Guards::new(&[&[HOME, NodeId::Controller(0), CLIENT][..], &BOXES].concat())),
            promise: Promise::default(),
        }
    }

    /// What `from` said goes on its way.
    fn said(&mut self, from: NodeId) {
        assert!(self.out.len() <= MOST_SAID, "{from:?} says {} messages at once", self.out.len());
        for (to, message) in self.out.drain(..) {
            let is_known = match to {
                NodeId::Box(id) => (1..=3).contains(&id.0) || self.heard.contains(&to),
                NodeId::Home(_) => to == HOME || self.heard.contains(&to),
                NodeId::Controller(_) => to == NodeId::Controller(0) || self.heard.contains(&to),
                NodeId::Client(_) => self.heard.contains(&to),
            };
            assert!(is_known, "{from:?} says something to {to:?}: {message:?}");
            if self.network.len() < UNDER_WAY {
                let bytes = match &mut self.guards {
                    Some(guards) => guards.emit(from, to, message),
                    None => Some(emitted(&message)),
                };
                self.network.extend(bytes.map(|bytes| (from, to, bytes)));
            }
        }
        if self.guards.is_some() {
            // A key that its owner has is away, and lost with it.
            self.promise.check(self.home.items(), self.home.stats().given > 0);
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let heard = match &mut self.guards {
            Some(guards) => guards.open(from, to, bytes),
            None => Packet::parse(bytes).map(|packet| (from, packet.to_message())).map_err(|_| None),
        };
        match heard {
            Ok((sender, message)) => self.hear(sender, to, &message),
            Err(Some(refusal)) => {
                let to_whom = NodeId::Client(refusal.header.client);
                self.heard.insert(to_whom);
                self.out.push((to_whom, refusal));
                self.said(to);
            }
            Err(None) => {}
        }
    }

    fn hear(&mut self, from: NodeId, to: NodeId, message: &Message) {
        self.heard.insert(from);
        // A reply goes to the client, and to the boxes, that a message names; a request to its home, which a driver does not find if it is none.
        self.heard.extend([NodeId::Client(message.header.client), NodeId::Home(message.header.home)]);
        self.heard.extend(message.header.sharers.iter().map(|sharer| NodeId::Box(sharer.at)));
        let (now, out) = (self.now, &mut self.out);
        match to {
            HOME => self.home.handle(now, from, message, out),
            NodeId::Box(BoxId(id @ 1..=3)) => self.boxes[usize::from(id) - 1].handle(now, from, message, out),
            NodeId::Controller(0) => self.controller.handle(now, from, message, out),
            CLIENT => self.client.handle(now, from, message, out),
            _ => return,
        }
        while self.client.poll_outcome().is_some() {}
        while self.home.poll_lost().is_some() {}
        self.said(to);
    }

    fn pass(&mut self, span: Nanos) {
        self.now = self.now.plus(span);
        let now = self.now;
        macro_rules! serve {
            ($machine:expr, $node:expr) => {
                let mut ticks = 0;
                while ticks == 0 || $machine.next_deadline() <= now {
                    $machine.tick(now, &mut self.out);
                    ticks += 1;
                    assert!(ticks < 50, "{:?} has a deadline that is not served", $node);
                }
                self.said($node);
            };
        }
        serve!(self.home, HOME);
        for id in 1..=3 {
            serve!(self.boxes[usize::from(id) - 1], NodeId::Box(BoxId(id)));
        }
        serve!(self.controller, NodeId::Controller(0));
        serve!(self.client, CLIENT);
        while self.client.poll_outcome().is_some() {}
        while self.home.poll_lost().is_some() {}
    }

    fn step(&mut self, input: &mut Input) {
        match input.byte() % 8 {
            0..=2 => {
                if let Some((from, to, bytes)) = self.network.pop_front() {
                    self.arrive(from, to, &bytes);
                }
            }
            3 => {
                // Changed on its way, or by whom it comes from, or led elsewhere.
                let Some((from, to, mut bytes)) = self.network.pop_front() else { return };
                if self.guards.is_some() && input.byte() % 2 == 0 {
                    bytes = guarded::stolen(&bytes, input.byte() % 2 == 0);
                }
                scribble(input, &mut bytes);
                let from = if input.byte() % 2 == 0 { from } else { node(input) };
                let to = if input.byte() % 4 > 0 { to } else { node(input) };
                self.hostile(from, to, bytes);
            }
            4 => match self.network.pop_front() {
                Some(twice) if input.byte() % 2 == 0 => {
                    self.network.push_back(twice.clone());
                    self.network.push_front(twice);
                }
                _ => {}
            },
            5 => self.pass(Nanos::from_millis(u64::from(input.byte()))),
            6 => {
                let (from, to) = (node(input), node(input));
                let length = usize::from(input.byte());
                let bytes = input.bytes(length + protocol::wire::HEADER).to_vec();
                self.hostile(from, to, bytes);
            }
            _ => {
                let (call, number) = call(input);
                self.promise.note(&call, number);
                let _ = self.client.start(self.now, call, &mut self.out);
                self.said(CLIENT);
            }
        }
    }

    fn hostile(&mut self, from: NodeId, to: NodeId, mut bytes: Vec<u8>) {
        packet(&mut bytes, true);
        if let (Some(guards), Ok(packet), 1) = (&self.guards, Packet::parse(&bytes), bytes.len() % 2) {
            // As if it were sealed.
            bytes = guards.forge(from, to, packet.to_message());
        }
        self.arrive(from, to, &bytes);
    }
}

fn emitted(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}

/// Something to ask, and the number in it.
fn call(input: &mut Input) -> (Call, u64) {
    let key = KEYS[usize::from(input.byte() % 3)];
    let number = u64::from(input.byte());
    let call = match input.byte() % 8 {
        0..=2 => Call::new(Verb::Get, key),
        3 | 4 => Call::new(Verb::Set, key).value(number.to_string().as_bytes()),
        5 => Call::new(Verb::Delete, key),
        6 => Call::new(Verb::CondPut, key).operand(number),
        _ => Call::new(Verb::Incr, key).value(b"0").operand(number),
    };
    (call, number)
}

/// Anybody.
fn node(input: &mut Input) -> NodeId {
    match input.byte() % 8 {
        0 => CLIENT,
        1 => NodeId::Client(ClientId(u64::from(input.byte()))),
        2 => HOME,
        3 => NodeId::Controller(0),
        4 => NodeId::Box(BoxId(u16::from(input.byte()))),
        id => NodeId::Box(BoxId(u16::from(id) - 4)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let how = input.byte();
    let compute = if how % 2 == 0 { Compute::TryFirst } else { Compute::Own };
    let mut world = World::new(compute, how & 2 > 0);
    while !input.is_empty() {
        world.step(&mut input);
    }
});
