//! Methods whose replies the cache keeps, and methods that make them outdated (`protocol::replies`), by the clients of the cache.
//!
//! ```text
//!  client ── get, add, cas ──▶ boxes ──▶ home       the item of the replies, judged as any other
//!     └── handler: 0.1 to 8 ms; what it does is done at one moment ── what is behind it: a number for each name
//! ```
//! Each call of a method is one operation of the record, a read or a write of its name: the judge holds them against each other as if there were no
//! cache. A client that dies takes its handlers along; what they have written stays.
//!
//! Names share items in half of all runs, as keys with equal hashes do.

use super::bugs::Bug;
use super::homes::Homes;
use super::nodes::{Numbers, Role};
use super::record;
use super::script::{Script, Want};
use super::topology::Topology;
use super::world::{Happening, World};
use base::{Nanos, Picos};
use protocol::coherence::client::{Answer, Call, Failed, OpId};
use protocol::replies::{Item, Lives, Planted, Read, ReadNext, Write, WriteNext};
use sim::faults::{Trouble, What};
use sim::kv::{Op, Ret, Status, Value};
use sim::nodes::Node;
use sim::random;
use std::collections::{BTreeMap, HashMap};

/// Names that methods are about, at most.
const NAMES: u64 = 4;
/// A handler takes no longer.
const HANDLER: Nanos = Nanos(8_000_000);

/// A call of a method.
#[derive(Clone, Debug)]
pub struct Method {
    /// What it is about.
    pub name: usize,
    /// It writes.
    pub writes: bool,
    /// Until what the handler does is done, and until it answers.
    pub takes: [Picos; 2],
}

/// One that is under way.
#[derive(Debug)]
struct Running {
    client: Node,
    /// The client's life.
    life: u32,
    /// In the record.
    number: usize,
    method: Method,
    machine: Machine,
    /// What the handler did is done.
    is_done: bool,
}

#[derive(Debug)]
enum Machine {
    /// With what its handler saw, then.
    Read(Read<Option<Planted>>, Option<Vec<u8>>),
    Write(Write<Option<Planted>>),
}

/// All of them.
#[derive(Debug, Default)]
pub struct Replies {
    /// By their numbers.
    running: BTreeMap<u64, Running>,
    /// What they asked the cache.
    asked: HashMap<(Node, OpId), u64>,
    /// What is behind the handlers.
    behind: HashMap<usize, Vec<u8>>,
    next: u64,
    hits: u64,
    not_stored: u64,
}

impl Replies {
    /// Replies that were found kept, and that were not stored: somebody wrote meanwhile, or the cache was not reached.
    pub fn marks(&self) -> [u64; 2] {
        [self.hits, self.not_stored]
    }

    /// A client has died.
    pub fn forget(&mut self, client: Node) {
        self.running.retain(|_, running| running.client != client);
        self.asked.retain(|(node, _), _| *node != client);
    }
}

impl Script {
    /// The same, with clients that call methods; nothing is lost at homes.
    pub fn with_methods(mut self, topology: &Topology) -> Script {
        let numbers = Numbers::of(topology);
        let mut random = random::stream(self.seed, 0, "names");
        // Of one name more often than of several: more happens to it.
        let names = random.below(2) * random.below(NAMES);
        for (i, intent) in self.intents.iter_mut().enumerate() {
            let mut random = random::stream(self.seed, i as u64, "method");
            if !matches!(intent.want, Want::Flush) && random.below(4) == 0 {
                continue;
            }
            let name = random.below(1 + names) as usize;
            let writes = random.below(4) == 0;
            // Those that write take longer, so that they overlap, and readers come and go meanwhile.
            let longest = Picos::from(HANDLER).0 / if writes { 2 } else { 16 };
            let mut part = || Picos(50_000_000 + random.below(longest - 50_000_000));
            let takes = [part(), part()];
            (intent.want, intent.by_ticket) = (Want::Method(Method { name, writes, takes }), false);
        }
        self.flushes.clear();
        // What decays is lost: marks too.
        self.plan.0.retain(|fault| !matches!(fault.what, What::Trouble(_, Trouble::Rot)));
        if !matches!(self.homes, Homes::Logged | Homes::Chained) {
            self.moves.clear();
            let is_home = |node| node < numbers.count() && matches!(numbers.role(node), Role::Home(_));
            self.plan.0.retain(|fault| !matches!(fault.what, What::Crash(node) if is_home(node)));
        }
        self
    }

    fn lives(&self) -> Lives {
        let patience = self.config.patience.plus(self.config.patience);
        Lives { claim: patience.plus(HANDLER), mark: patience.plus(HANDLER) }
    }

    fn item(&self, name: usize) -> Item {
        let shared = random::stream(self.seed, 0, "shared items").below(2) == 0;
        let key = if shared { format!("r{}", name / 2) } else { format!("r{name}") };
        Item { key: key.into_bytes(), name: name_of(name) }
    }
}

/// As the record has it.
fn name_of(name: usize) -> Vec<u8> {
    format!("method {name}").into_bytes()
}

impl World<'_> {
    /// A client calls a method.
    pub(super) fn call_method(&mut self, client: Node, method: Method) {
        if self.places[client as usize].machine.is_none() {
            return;
        }
        let (id, planted) = (self.replies.next, self.script.planted.and_then(Bug::in_replies));
        self.replies.next += 1;
        let op = if method.writes { Op::Set { value: Value::of(&written(id)), ttl: None } } else { Op::Get };
        let number = self.record.call(self.now(), client, &name_of(method.name), op);
        let (item, lives) = (self.script.item(method.name), self.script.lives());
        let (machine, call) = if method.writes {
            let (write, call) = Write::with_bugs(item, id, lives, planted);
            (Machine::Write(write), call)
        } else {
            let ttl = Nanos(self.script.config.lease.0 * 4);
            let (read, call) = Read::with_bugs(item, b"", id, (ttl, lives), planted);
            (Machine::Read(read, None), call)
        };
        self.note(|names| {
            format!("{:<13} calls method {id}, operation {number}: {method:?}", names.name(client))
        });
        let life = self.places[client as usize].life;
        let running = Running { client, life, number, method, machine, is_done: false };
        self.replies.running.insert(id, running);
        self.ask_cache(id, client, call);
    }

    fn ask_cache(&mut self, id: u64, client: Node, call: Call) {
        // What is asked last must not end after the run.
        if self.is_calm && self.now() > self.script.until.plus(Picos::from(self.script.config.lease)) {
            self.replies.running.remove(&id);
            return;
        }
        let op = record::asked(&call, &self.places[self.home_of(&call.key) as usize].clock);
        let number = self.record.call(self.now(), client, &call.key, op);
        self.start_for(client, call, number, None, |world, op| {
            world.replies.asked.insert((client, op), id);
        });
    }

    /// An operation of a client has ended: perhaps one that a method waits for.
    pub(super) fn method_hears(&mut self, client: Node, op: OpId, outcome: Result<Answer, Failed>) {
        let Some(id) = self.replies.asked.remove(&(client, op)) else { return };
        let Some(running) = self.replies.running.get_mut(&id) else { return };
        let outcome = outcome.as_ref().map_err(|failed| *failed);
        match &mut running.machine {
            Machine::Read(read, Some(_)) => {
                self.replies.not_stored += u64::from(!read.stored(outcome));
                self.replies.running.remove(&id);
            }
            Machine::Read(read, None) => match read.answered(outcome) {
                ReadNext::Ask(call) => self.ask_cache(id, client, call),
                ReadNext::Handle => self.handle(id),
                ReadNext::Hit(reply) => {
                    self.replies.hits += 1;
                    let number = running.number;
                    self.replies.running.remove(&id);
                    self.read_ends(number, &reply);
                }
            },
            Machine::Write(write) => {
                let next = write.answered(outcome);
                self.write_goes_on(id, next);
            }
        }
    }

    fn write_goes_on(&mut self, id: u64, next: WriteNext) {
        let Some(running) = self.replies.running.get(&id) else { return };
        let (client, number) = (running.client, running.number);
        match next {
            WriteNext::Ask(call) => self.ask_cache(id, client, call),
            WriteNext::Handle => self.handle(id),
            WriteNext::Refused => {
                self.replies.running.remove(&id);
                self.record.returns(self.now(), number, None, Ret::of(Status::Error));
            }
            WriteNext::Over { is_sure } => {
                self.replies.running.remove(&id);
                // Whoever is not told that it is done knows nothing.
                if is_sure {
                    self.record.returns(self.now(), number, None, Ret::of(Status::Ok));
                }
            }
        }
    }

    fn read_ends(&mut self, number: usize, reply: &[u8]) {
        let ret = if reply.is_empty() { Ret::of(Status::Miss) } else { Ret::hit(reply) };
        self.record.returns(self.now(), number, None, ret);
    }

    /// The handler begins.
    fn handle(&mut self, id: u64) {
        let Some(running) = self.replies.running.get(&id) else { return };
        let (client, at) = (running.client, self.now().plus(running.method.takes[0]));
        self.queue.push(at, client, Happening::Handler(id));
    }

    /// A handler does what it does, or is done.
    pub(super) fn handler_goes_on(&mut self, id: u64) {
        let Some(running) = self.replies.running.get_mut(&id) else { return };
        let (client, name) = (running.client, running.method.name);
        if self.places[client as usize].life != running.life {
            self.replies.running.remove(&id);
            return;
        }
        if !std::mem::replace(&mut running.is_done, true) {
            match &mut running.machine {
                Machine::Read(_, seen) => {
                    *seen = Some(self.replies.behind.get(&name).cloned().unwrap_or_default());
                }
                Machine::Write(_) => drop(self.replies.behind.insert(name, written(id))),
            }
            let at = self.queue.now().plus(running.method.takes[1]);
            self.queue.push(at, client, Happening::Handler(id));
            return;
        }
        match &mut running.machine {
            Machine::Write(write) => {
                let next = write.handled();
                self.write_goes_on(id, next);
            }
            Machine::Read(read, seen) => {
                let reply = seen.clone().expect("it has looked");
                let number = running.number;
                let store = read.handled(Some(&reply));
                self.read_ends(number, &reply);
                match store {
                    Some(call) => self.ask_cache(id, client, call),
                    None => drop(self.replies.running.remove(&id)),
                }
            }
        }
    }
}

/// What a method writes: nobody else's.
fn written(id: u64) -> Vec<u8> {
    format!("by {id}").into_bytes()
}
