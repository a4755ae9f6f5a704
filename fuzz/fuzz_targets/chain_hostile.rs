//! Three replicas, their controller and a client, whose messages are lost, doubled, changed and mixed with strangers': no machine panics, says
//! more than it may, speaks to whom it does not know, or has a deadline that its tick does not serve.
//!
//! Every message that arrives is well formed, with any fields: what the wire's reader lets through. A member that lies can bring down what is
//! promised, so answers are not judged here; the machines' own assertions are.
//! `cargo +nightly fuzz run chain_hostile`
#![no_main]

mod dress;

use base::Nanos;
use base::key::Key;
use dress::{Input, chain_message, scribble};
use libfuzzer_sys::fuzz_target;
use protocol::chain::image::plain::Plain;
use protocol::chain::log::memory::Memory;
use protocol::chain::replica::Recovered;
use protocol::chain::{
    Action, Client, Config, Controller, Durability, Incarnation, Message, NodeId, Order, Out, Replica,
    ReplicaAddress, ReplicaId, Transaction, wire,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const CLIENT: u64 = 7;
/// Messages under way at most: others are lost.
const UNDER_WAY: usize = 400;
/// What one event may bring a machine to say.
const MOST_SAID: usize = 2_000;

struct World {
    now: Nanos,
    config: Config,
    replicas: BTreeMap<u16, Replica<Plain, Memory>>,
    controller: Controller,
    client: Client,
    /// Who ever spoke: replies go there.
    heard: BTreeSet<NodeId>,
    network: VecDeque<(NodeId, NodeId, Message)>,
    out: Out,
}

fn ids() -> Vec<ReplicaId> {
    (1..=3).map(ReplicaId).collect()
}

impl World {
    fn new() -> World {
        let config = Config {
            window: 8,
            queue: 16,
            sessions: 4,
            session_window: 4,
            kept: 4,
            chunk_bytes: 256,
            ..Config::default()
        };
        let now = Nanos::from_secs(1);
        let replica = |id: u16| {
            let (image, log) = (Plain::new(16, 64), Memory::new(Durability::PowerLoss, 64));
            let recovered = Recovered { born: Incarnation(1), ..Recovered::default() };
            let secret = Key::new([id as u8; 16]);
            (
                id,
                Replica::new(
                    &config,
                    ReplicaId(id),
                    Incarnation(1),
                    &[1],
                    secret,
                    recovered,
                    now,
                    image,
                    log,
                ),
            )
        };
        World {
            now,
            replicas: (1..=3).map(replica).collect(),
            controller: Controller::new(&config, 1, &ids(), None, now),
            client: Client::new(&config, CLIENT, &ids(), 1, now),
            heard: BTreeSet::new(),
            network: VecDeque::new(),
            out: Out::new(),
            config,
        }
    }

    /// What `from` said goes on its way.
    fn said(&mut self, from: NodeId, known: &[ReplicaId]) {
        assert!(self.out.len() <= MOST_SAID, "{from:?} says {} messages at once", self.out.len());
        for (to, message) in self.out.drain(..) {
            let is_known = match to {
                // A client follows whom a replica names; a driver that knows no address for it says nothing.
                NodeId::Replica(_) if from == NodeId::Client(CLIENT) => true,
                NodeId::Replica(id) => known.contains(&id) || self.heard.contains(&to),
                NodeId::Controller(number) => number == 1 || self.heard.contains(&to),
                NodeId::Client(_) => self.heard.contains(&to),
                // Its client follows none.
                NodeId::Home => false,
            };
            assert!(is_known, "{from:?} says something to {to:?}: {message:?}");
            if self.network.len() < UNDER_WAY {
                self.network.push_back((from, to, message));
            }
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.heard.insert(from);
        match to {
            NodeId::Replica(ReplicaId(id)) => {
                let Some(replica) = self.replicas.get_mut(&id) else { return };
                // Its driver has ended it.
                if replica.view().broken {
                    return;
                }
                let mut known = members(replica);
                replica.handle(self.now, from, message, &mut self.out);
                known.extend(members(replica));
                self.said(to, &known);
            }
            NodeId::Controller(1) => {
                self.controller.handle(self.now, from, message, &mut self.out);
                self.store();
            }
            NodeId::Client(CLIENT) => {
                self.client.handle(self.now, from, message, &mut self.out);
                while self.client.next_done().is_some() {}
                self.said(to, &ids());
            }
            _ => {}
        }
    }

    /// The registry takes what is proposed.
    fn store(&mut self) {
        if self.controller.proposal().is_some() {
            self.controller.stored(self.now, Ok(()), &mut self.out);
        }
        self.said(NodeId::Controller(1), &ids());
    }

    fn pass(&mut self, span: Nanos) {
        self.now = self.now.plus(span);
        for id in 1..=3 {
            let Some(replica) = self.replicas.get_mut(&id) else { continue };
            if replica.view().broken {
                continue;
            }
            replica.log_mut().sync();
            let mut known = members(replica);
            let mut ticks = 0;
            while ticks == 0 || replica.next_deadline() <= self.now {
                replica.tick(self.now, &mut self.out);
                ticks += 1;
                assert!(ticks < 50, "replica {id} has a deadline that is not served: {:?}", replica.view());
            }
            known.extend(members(replica));
            self.said(NodeId::Replica(ReplicaId(id)), &known);
        }
        let mut ticks = 0;
        while ticks == 0 || self.controller.next_deadline() <= self.now {
            self.controller.tick(self.now, &mut self.out);
            self.store();
            ticks += 1;
            assert!(ticks < 50, "the controller has a deadline that is not served");
        }
        let mut ticks = 0;
        while ticks == 0 || self.client.next_deadline() <= self.now {
            self.client.tick(self.now, &mut self.out);
            while self.client.next_done().is_some() {}
            ticks += 1;
            assert!(ticks < 50, "the client has a deadline that is not served");
        }
        self.said(NodeId::Client(CLIENT), &ids());
    }

    fn emitted(&self, message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::emit(self.config.chain, message, &mut bytes);
        bytes
    }

    fn step(&mut self, input: &mut Input) {
        match input.byte() % 9 {
            0..=2 => {
                if let Some((from, to, message)) = self.network.pop_front() {
                    self.arrive(from, to, message);
                }
            }
            3 => {
                // Changed on its way, or by whom it comes from.
                let Some((from, to, message)) = self.network.pop_front() else { return };
                let mut bytes = self.emitted(&message);
                scribble(input, &mut bytes);
                let from = if input.byte() % 2 == 0 { from } else { node(input) };
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
                let bytes = input.bytes(length + wire::HEADER).to_vec();
                self.hostile(from, to, bytes);
            }
            7 => {
                // Somebody who has the key, and says whatever an operator may.
                let replica = ReplicaId(u16::from(input.byte() % 6));
                let action = if input.byte() % 2 == 0 {
                    let peers = format!("at {}", replica.0);
                    Action::Add(ReplicaAddress { replica, peers, clients: String::new() })
                } else {
                    Action::Remove(replica, u16::from(input.byte() % 4))
                };
                let order = Some(Order { number: u64::from(input.byte()), action });
                self.arrive(NodeId::Client(9), NodeId::Controller(1), Message::Order { token: 1, order });
            }
            _ => {
                let key = vec![b'a' + input.byte() % 3];
                let transaction = match input.byte() % 3 {
                    0 => Transaction::new().get(key),
                    1 => Transaction::new().put(key, vec![1; usize::from(input.byte() % 70)]),
                    _ => Transaction::new().add(key, i64::from(input.byte())),
                };
                let _ = self.client.start(self.now, transaction, &mut self.out);
                self.said(NodeId::Client(CLIENT), &ids());
            }
        }
    }

    fn hostile(&mut self, from: NodeId, to: NodeId, mut bytes: Vec<u8>) {
        chain_message(&mut bytes);
        if let Ok((_, message)) = wire::parse(&bytes) {
            self.arrive(from, to, message);
        }
    }
}

fn members(replica: &Replica<Plain, Memory>) -> Vec<ReplicaId> {
    replica.configuration().members.iter().map(|member| member.replica).collect()
}

/// Anybody.
fn node(input: &mut Input) -> NodeId {
    match input.byte() % 8 {
        0 => NodeId::Client(CLIENT),
        1 => NodeId::Client(u64::from(input.byte())),
        2 | 3 => NodeId::Controller(1),
        4 => NodeId::Controller(u16::from(input.byte())),
        id => NodeId::Replica(ReplicaId(u16::from(id) - 4)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut world = World::new();
    // A chain that serves, most of the time.
    if input.byte() % 4 > 0 {
        for _ in 0..40 {
            world.pass(Nanos::from_millis(10));
            while let Some((from, to, message)) = world.network.pop_front() {
                world.arrive(from, to, message);
            }
        }
    }
    while !input.is_empty() {
        world.step(&mut input);
    }
});
