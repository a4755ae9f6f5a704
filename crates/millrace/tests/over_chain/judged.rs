//! Servers' machines over simulated chains that reorder, lose replies and answer late, from a seed, with transactions of others between: every history of a
//! key is linearizable, over one chain and over two; and is not, for some seed, with each bug that is planted.

use base::{Picos, Prng};
use protocol::chain::Transaction;
use protocol::chain::slots::{Map as Slotted, Slots, slot};
use protocol::chain::transaction::Change;
use protocol::memcache::{Command, Parser, Step};
use serve::kv::config::Config;
use serve::kv::service::chained::map::Map;
use serve::kv::service::chained::spread::{self, Spread};
use serve::kv::service::chained::{Answer, Chained, Planted};
use sim::check::{Rules, check};
use sim::history::History;
use sim::kv::{Compute, Expect, Op, Ret, Status, Value};
use std::collections::HashMap;

/// Servers.
const NODES: usize = 2;
/// Clients of each, with one operation under way.
const CLIENTS: usize = 3;
/// Where there are two chains, one of each.
const KEYS: [&str; 2] = ["a", "b"];
const OPERATIONS: usize = 120;
/// One step of the simulation.
const STEP: Picos = Picos(100_000_000_000);
const SECOND: u64 = 1_000_000_000_000;

type Machine = Chained<u64, Option<Planted>>;

/// A mistake that is made on purpose.
#[derive(Clone, Copy, Debug)]
enum Bug {
    Of(Planted),
    Spreading(spread::Planted),
    /// Chains serve keys that another has.
    ServeOthers,
}

/// Which chains there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    Two,
    /// And one of the servers takes each for the other.
    TwoAndAnOldFile,
}

/// What may happen next.
enum Event {
    /// A transaction of a server arrives at a chain.
    Arrive((usize, usize), u64, Transaction),
    /// Its answer arrives.
    Answer((usize, usize), u64, Answer),
    /// It arrives at its chain after its server has given it up.
    Late(usize, Transaction),
}

struct World {
    nodes: Vec<(Machine, Spread<Option<spread::Planted>>)>,
    slots: Slotted,
    chains: Vec<(Slots, Map)>,
    serves_others: bool,
    events: Vec<Event>,
    history: History<Op, Ret>,
    /// Operations under way: which client's, and what.
    asked: HashMap<u64, (usize, Op)>,
    busy: Vec<bool>,
    /// What was last read of a key.
    versions: HashMap<&'static str, u64>,
    at: Picos,
    ids: u64,
    prng: Prng,
}

fn command(text: &str) -> Command<'static> {
    let bytes: &'static [u8] = Box::leak(text.as_bytes().to_vec().into_boxed_slice());
    match Parser::new(1 << 16).next(bytes) {
        Step::Command { command, .. } => command,
        _ => panic!("{text:?} is a command"),
    }
}

impl World {
    fn new(seed: u64, shape: Shape, bug: Option<Bug>) -> World {
        let (of, spreading) = match bug {
            Some(Bug::Of(bug)) => (Some(bug), None),
            Some(Bug::Spreading(bug)) => (None, Some(bug)),
            Some(Bug::ServeOthers) | None => (None, None),
        };
        let chains = if shape == Shape::One { 1 } else { 2 };
        let shares: Vec<Slots> = (0..chains).map(|at| Slots::share(at, chains)).collect();
        let slots = Slotted::new(&shares).expect("every slot is there once");
        let node = |number: usize| {
            let machine = Chained::with_bugs(&Config::default(), of).expect("a scratch store");
            let old: Vec<Slots> = shares.iter().rev().cloned().collect();
            let is_old = shape == Shape::TwoAndAnOldFile && number > 0;
            let map = if is_old { Slotted::new(&old).expect("as above") } else { slots.clone() };
            (machine, Spread::new(map, spreading))
        };
        World {
            nodes: (0..NODES).map(node).collect(),
            chains: shares.iter().map(|slots| (slots.clone(), Map::default())).collect(),
            serves_others: matches!(bug, Some(Bug::ServeOthers)),
            slots,
            events: Vec::new(),
            history: History::new(),
            asked: HashMap::new(),
            busy: vec![false; NODES * CLIENTS],
            versions: HashMap::new(),
            at: Picos(0),
            ids: 0,
            prng: Prng::new(seed),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    fn run(mut self) -> History<Op, Ret> {
        while self.ids < OPERATIONS as u64 || !self.events.is_empty() {
            self.at = Picos(self.at.0 + STEP.0);
            let now = 1_000_000 + (self.at.0 / SECOND) as u32;
            self.nodes.iter_mut().for_each(|(node, _)| node.set_now(now));
            let idle = self.busy.iter().position(|busy| !busy);
            match idle {
                Some(_) if self.ids < OPERATIONS as u64 && (self.events.is_empty() || self.below(2) == 0) => {
                    self.ask()
                }
                _ if self.events.is_empty() => break,
                _ => self.happen(),
            }
            self.take();
        }
        self.history
    }

    /// A client that waits for nothing, or one of transactions, asks for something.
    fn ask(&mut self) {
        self.ids += 1;
        let (id, key) = (self.ids, KEYS[self.prng.below(2) as usize]);
        if self.below(8) == 0 {
            return self.transact(id, key);
        }
        let idle: Vec<usize> = (0..self.busy.len()).filter(|at| !self.busy[*at]).collect();
        let client = idle[self.prng.below(idle.len() as u64) as usize];
        let (op, text) = self.operation(id, key);
        let node = client % NODES;
        // A flush is of all keys.
        let of = if matches!(op, Op::Flush { .. }) { "" } else { key };
        self.history.call(self.at, client as u32, id, of.as_bytes(), op.clone());
        self.busy[client] = true;
        self.asked.insert(id, (client, op));
        let (machine, _) = &mut self.nodes[node];
        let hash = machine.hash(key.as_bytes());
        machine.ask(&command(&text), hash, id);
    }

    fn operation(&mut self, id: u64, key: &'static str) -> (Op, String) {
        let number = 1000 + id;
        let value = Value::number(number);
        // Every change tells its version: the judge goes by them.
        let store = |flags: &str| format!("ms {key} 4 c {flags}\r\n{number}\r\n");
        match self.below(16) {
            0..=4 => (Op::Get, format!("mg {key} v c\r\n")),
            5 | 6 => (Op::Set { value, ttl: None }, store("T0")),
            7 | 8 => (Op::Set { value, ttl: Some(Picos(3 * SECOND)) }, store("T3 F7")),
            9 => (Op::Add { value, ttl: None }, store("ME")),
            10 => (Op::Delete, format!("delete {key}\r\n")),
            11 => {
                let version = self.versions.get(key).copied().unwrap_or(1 << 40);
                let op = Op::Cas { value, expect: Expect::Version(version), ttl: None };
                (op, store(&format!("C{version}")))
            }
            12 if self.below(3) == 0 => (Op::Flush { delay: None }, "flush_all\r\n".to_owned()),
            _ => {
                let op = Op::Compute { how: Compute::Incr, by: 1, init: None, ttl: None };
                (op, format!("ma {key} c v\r\n"))
            }
        }
    }

    /// The chain that a key is in.
    fn chain_of(&self, key: &str) -> usize {
        self.slots.of(slot(key.as_bytes()).expect("an item"))
    }

    /// One who knows the chain alone, and does it all at once.
    fn transact(&mut self, id: u64, key: &'static str) {
        let client = self.busy.len() as u32;
        let number = Value::number(1000 + id);
        self.history.call(self.at, client, id, key.as_bytes(), Op::Set { value: number, ttl: None });
        let writes = vec![(key.into(), Change::Put((1000 + id).to_string().into()))];
        let chain = self.chain_of(key);
        let outcome = self.chains[chain].1.execute(&Transaction { writes, ..Transaction::default() });
        self.history.returns(self.at, id, Ret::of(Status::Ok).versioned(outcome.lsn.0));
    }

    fn happen(&mut self) {
        let at = self.prng.below(self.events.len() as u64) as usize;
        match self.events.swap_remove(at) {
            Event::Late(chain, transaction) => drop(self.chains[chain].1.execute(&transaction)),
            Event::Answer((node, chain), number, answer) => {
                let (machine, spread) = &mut self.nodes[node];
                if let Some(answer) = spread.hear(chain, number, answer) {
                    machine.hear(number, answer);
                }
            }
            Event::Arrive((node, chain), number, transaction) => {
                let answer = self.arrive(chain, transaction);
                self.events.push(Event::Answer((node, chain), number, answer));
            }
        }
    }

    fn arrive(&mut self, chain: usize, transaction: Transaction) -> Answer {
        let only_reads = transaction.only_reads();
        if self.chains[chain].0.check(&transaction).is_err() && !self.serves_others {
            return Answer::NotDone;
        }
        match self.below(20) {
            0 => Answer::NotDone,
            1 | 2 if only_reads => Answer::NotDone,
            1 => {
                self.chains[chain].1.execute(&transaction);
                Answer::Unknown
            }
            2 => {
                if self.below(2) == 0 {
                    self.events.push(Event::Late(chain, transaction));
                }
                Answer::Unknown
            }
            _ => Answer::Done(self.chains[chain].1.execute(&transaction)),
        }
    }

    /// What machines send and say.
    fn take(&mut self) {
        for at in 0..NODES {
            let (machine, spread) = &mut self.nodes[at];
            for (number, transaction) in machine.leaving() {
                let arrive = |(chain, its)| Event::Arrive((at, chain), number, its);
                self.events.extend(spread.send(number, transaction).into_iter().map(arrive));
            }
            for (id, reply) in machine.said_bytes() {
                let (client, op) = self.asked.remove(&id).expect("it is answered once");
                self.busy[client] = false;
                let text = String::from_utf8(reply).expect("text");
                if let Some(ret) = self.ret_of(id, &op, &text) {
                    self.history.returns(self.at, id, ret);
                }
            }
        }
    }

    /// What a reply says; none: that nobody knows.
    fn ret_of(&mut self, id: u64, op: &Op, text: &str) -> Option<Ret> {
        let (line, rest) = text.split_once("\r\n").expect("a line");
        let version = line.split(' ').find_map(|word| word.strip_prefix('c')?.parse().ok());
        if let (Op::Get, Some(version)) = (op, version) {
            let key =
                self.history.operations().find(|operation| operation.id == id).expect("it was called").key;
            let key = KEYS.into_iter().find(|known| known.as_bytes() == &key[..]).expect("one of ours");
            self.versions.insert(key, version);
        }
        Some(match line.split(' ').next().expect("a word") {
            "VA" => Ret::hit(rest.trim_end().as_bytes()).versioned(version.expect("it was asked for")),
            "HD" => Ret::of(Status::Ok).versioned(version.expect("it was asked for")),
            "DELETED" | "OK" => Ret::of(Status::Ok),
            "EN" | "NF" | "NOT_FOUND" => Ret::of(Status::Miss),
            "NS" => Ret::of(Status::NotStored),
            "EX" => Ret::of(Status::Exists),
            "SERVER_ERROR" if line.ends_with("it may have been done") => return None,
            "SERVER_ERROR" => Ret::of(Status::Error),
            _ => panic!("operation {id} is answered {text:?}"),
        })
    }
}

fn findings(seed: u64, shape: Shape, bug: Option<Bug>) -> Vec<String> {
    let history = World::new(seed, shape, bug).run();
    // Ends are whole seconds.
    let rules = Rules { early: Picos(SECOND), late: Picos(SECOND), ..Rules::default() };
    let report = check(&history, &rules);
    assert!(report.gave_up.is_empty(), "seed {seed}: {:?}", report.gave_up);
    report.violations.iter().map(|finding| format!("seed {seed}: {finding}")).collect()
}

fn is_found(shape: Shape, bug: Bug) {
    let found = (0..200).find(|seed| !findings(*seed, shape, Some(bug)).is_empty());
    assert!(found.is_some(), "{bug:?} is found by no seed");
}

#[test]
fn commands_over_a_chain_or_two_are_linearizable() {
    let [a, b] = KEYS.map(|key| slot(key.as_bytes()).expect("an item"));
    assert!(Slots::share(0, 2).has(b) && Slots::share(1, 2).has(a));
    for shape in [Shape::One, Shape::Two, Shape::TwoAndAnOldFile] {
        for seed in 0..200 {
            let found = findings(seed, shape, None);
            assert!(found.is_empty(), "{shape:?}: {}", found.join("\n"));
        }
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in [
        Planted::TrustAttributes,
        Planted::RetryUnknown,
        Planted::ForgetConditions,
        Planted::AnswerLater,
        Planted::AnswerExpired,
    ] {
        is_found(Shape::One, Bug::Of(bug));
    }
    for bug in [spread::Planted::FlushOne, spread::Planted::FlushFirst] {
        is_found(Shape::Two, Bug::Spreading(bug));
    }
    is_found(Shape::TwoAndAnOldFile, Bug::ServeOthers);
}
