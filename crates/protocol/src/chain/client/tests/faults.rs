//! Clients and a chain that is one value, behind a network that loses, doubles and delays: who is head changes, and who is not names anybody.

use super::*;
use base::Prng;
use std::collections::{BTreeMap, BTreeSet};

const WINDOW: u64 = 3;

/// What a chain promises, without one: each request is done once, and remembered until its place is used for a later one.
#[derive(Default)]
struct Chain {
    lsn: u64,
    sessions: BTreeSet<SessionId>,
    replies: BTreeMap<(SessionId, u64), (u64, Outcome)>,
    /// Keys that were written, and how often.
    written: BTreeMap<Vec<u8>, u32>,
}

impl Chain {
    fn answer(&mut self, message: Message) -> Option<Message> {
        self.lsn += 1;
        Some(match message {
            Message::Open { token } => {
                let session = SessionId(self.lsn.into());
                self.sessions.insert(session);
                Message::Opened { token, session, window: WINDOW }
            }
            Message::Close { session } => {
                self.sessions.remove(&session);
                return None;
            }
            Message::Request { id, transaction } if transaction.only_reads() => {
                Message::Reply { id, outcome: outcome(self.lsn) }
            }
            Message::Request { id, .. } | Message::Ask { id } if !self.sessions.contains(&id.session) => {
                Message::Refused { id, why: Refusal::NoSession }
            }
            Message::Request { id, transaction } => {
                let place = (id.session, id.sequence % WINDOW);
                match self.replies.get(&place) {
                    Some((sequence, outcome)) if *sequence == id.sequence => {
                        Message::Reply { id, outcome: outcome.clone() }
                    }
                    Some((sequence, _)) if *sequence > id.sequence => {
                        Message::Refused { id, why: Refusal::Forgotten }
                    }
                    _ => {
                        *self.written.entry(transaction.writes[0].0.clone()).or_default() += 1;
                        self.replies.insert(place, (id.sequence, outcome(self.lsn)));
                        Message::Reply { id, outcome: outcome(self.lsn) }
                    }
                }
            }
            Message::Ask { id } => {
                let reply = self.replies.get(&(id.session, id.sequence % WINDOW));
                let status = match reply {
                    Some((sequence, outcome)) if *sequence == id.sequence => Status::Done(outcome.clone()),
                    Some((sequence, _)) if *sequence > id.sequence => Status::Forgotten,
                    _ => Status::Unknown,
                };
                Message::Told { id, status }
            }
            message => panic!("no client says {message:?}"),
        })
    }
}

struct World {
    prng: Prng,
    chain: Chain,
    head: ReplicaId,
    clients: Vec<Client>,
    /// When, to whom, from whom.
    network: Vec<(Nanos, NodeId, NodeId, Message)>,
    now: Nanos,
    tickets: BTreeMap<(usize, u64), Begun>,
}

/// A key that somebody reads or writes, and how that ended.
struct Begun {
    key: Vec<u8>,
    ended: Option<Result<Outcome, Failure>>,
}

impl World {
    fn send(&mut self, from: NodeId, out: Out) {
        for (to, message) in out {
            let copies = [1, 1, 1, 1, 2, 0][self.prng.below(6) as usize];
            for _ in 0..copies {
                let delay = if self.prng.chance(0.1) { 400_000_000 } else { 5_000_000 };
                let at = self.now.plus(Nanos(self.prng.below(delay)));
                self.network.push((at, to, from, message.clone()));
            }
        }
    }

    fn arrive(&mut self, to: NodeId, from: NodeId, message: Message) {
        let mut out = Vec::new();
        match to {
            NodeId::Client(c) => self.clients[c as usize].handle(self.now, from, message, &mut out),
            NodeId::Replica(replica) => {
                out.extend(self.replica(replica, message).map(|answer| (from, answer)))
            }
            NodeId::Controller(_) | NodeId::Home => {}
        }
        self.send(to, out);
    }

    fn replica(&mut self, replica: ReplicaId, message: Message) -> Option<Message> {
        let id = match &message {
            Message::Open { token } => RequestId { session: SessionId(0), sequence: *token },
            Message::Request { id, .. } | Message::Ask { id } => *id,
            _ => return self.chain.answer(message),
        };
        let refused = |why| Some(Message::Refused { id, why });
        if self.prng.chance(0.05) {
            return refused(Refusal::Busy);
        }
        if replica == self.head {
            return self.chain.answer(message);
        }
        let hint = REPLICAS[self.prng.below(3) as usize];
        refused(Refusal::Elsewhere(self.prng.chance(0.8).then_some(hint)))
    }

    /// One event; whether there is one.
    fn step(&mut self) -> bool {
        if self.prng.chance(0.01) {
            self.head = REPLICAS[self.prng.below(3) as usize];
        }
        if self.prng.chance(0.002) {
            self.chain.sessions.pop_first();
        }
        let arrival = (0..self.network.len()).min_by_key(|i| self.network[*i].0);
        let arrives = arrival.map_or(Nanos::MAX, |i| self.network[i].0);
        let (c, due) = (0..self.clients.len())
            .map(|c| (c, self.clients[c].next_deadline()))
            .min_by_key(|(_, due)| *due)
            .expect("there are clients");
        if arrives.min(due) == Nanos::MAX {
            return false;
        }
        self.now = self.now.max(arrives.min(due));
        if let Some(i) = arrival.filter(|_| arrives <= due) {
            let (_, to, from, message) = self.network.remove(i);
            self.arrive(to, from, message);
        } else {
            let mut out = Vec::new();
            self.clients[c].tick(self.now, &mut out);
            self.send(NodeId::Client(c as u64), out);
        }
        for (c, client) in self.clients.iter_mut().enumerate() {
            while let Some((ticket, result)) = client.next_done() {
                let ended = &mut self.tickets.get_mut(&(c, ticket)).expect("it was begun").ended;
                assert_eq!(ended.replace(result), None, "an operation ends once");
            }
        }
        true
    }
}

fn is_write(key: &[u8]) -> bool {
    key[0] % 5 != 4
}

fn run(seed: u64) -> World {
    let config = Config { patience: Nanos::from_secs(1), window: 8, ..Config::default() };
    let client = |c: u64| Client::new(&config, c + 1, &REPLICAS, seed ^ c, Nanos::ZERO);
    let mut world = World {
        prng: Prng::new(seed),
        chain: Chain::default(),
        head: ReplicaId(2),
        clients: (0..2).map(client).collect(),
        network: Vec::new(),
        now: Nanos::ZERO,
        tickets: BTreeMap::new(),
    };
    for i in 0..60 {
        let c = i % 2;
        let key = vec![i as u8];
        let transaction = if is_write(&key) { put(&key) } else { get(&key) };
        let mut out = Vec::new();
        if let Ok(ticket) = world.clients[c].start(world.now, transaction, &mut out) {
            world.tickets.insert((c, ticket), Begun { key, ended: None });
        }
        world.send(NodeId::Client(c as u64), out);
        let steps = world.prng.below(12);
        for _ in 0..steps {
            world.step();
        }
    }
    while world.step() {}
    world
}

#[test]
fn each_operation_ends_once_and_as_it_says() {
    let (mut done, mut unknown) = (0, 0);
    for seed in 0..300 {
        let world = run(seed);
        for ((c, ticket), Begun { key, ended }) in &world.tickets {
            let times = world.chain.written.get(key).copied().unwrap_or(0);
            match ended.as_ref().expect("everything ends by its patience") {
                Ok(_) => assert_eq!(times, u32::from(is_write(key)), "seed {seed}: client {c}'s {ticket}"),
                Err(Failure::NotDone) => {
                    assert_eq!(times, 0, "seed {seed}: client {c} said that {ticket} was not done");
                }
                Err(Failure::Unknown) => assert!(times <= 1, "seed {seed}"),
                Err(Failure::Refused(why)) => panic!("seed {seed}: {why:?}"),
            }
            done += u64::from(matches!(ended, Some(Ok(_))));
            unknown += u64::from(matches!(ended, Some(Err(Failure::Unknown))));
        }
    }
    assert!(
        done > 10_000 && unknown > 50,
        "{done} done, {unknown} unknown: the faults are too few or too many"
    );
}
