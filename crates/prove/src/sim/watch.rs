//! What must hold after every event, seen from above all nodes.
//!
//! 1. No box has a copy that it could answer from which is not what its home has now: neither older nor other.
//!    Where a home has lost an item, copies of it may run for a lease, if nothing was stored since.
//! 2. No box answers as the owner of a key that its home has not given it.
//! 3. Tables are never fuller than they were made.
//! 4. No box has a copy that the registration table it goes by keeps away from it.
//!
//! A box is looked at when something happened to it, all boxes when a home has changed a key: between these nothing
//! can become wrong but by the clock, and a box that answers is looked at.

use super::nodes::{Machine, Numbers, SimulatedBox};
use super::ranges;
use super::record::WORLD;
use super::script::Script;
use super::topology::Topology;
use super::world::{Happening, World};
use base::{Nanos, Picos};
use protocol::coherence::Out;
use protocol::coherence::client::Answer;
use protocol::coherence::lease::runs;
use protocol::wire::{
    BoxId, ClientId, Flags, HomeId, Message, OpNumber, Opcode, Round, Status, Verb, Version, key_hash,
};
use sim::kv::{self, Op, Ret};
use sim::nodes::Node;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A write, as the network knows it.
pub type Write = (ClientId, Round, OpNumber);

/// What is known of a key.
#[derive(Clone, Debug)]
struct Key {
    name: Vec<u8>,
    /// Where its home is.
    home: Node,
    /// The version of what is there.
    present: Option<Version>,
    /// Who owns it.
    owner: Option<BoxId>,
    /// Copies of what was lost may run until then.
    lost_until: Picos,
    /// Its home is down, and will have it again: so long copies of what was lost before may run.
    kept: Option<Picos>,
}

/// What is known of all keys.
#[derive(Clone, Debug)]
pub struct Watch {
    keys: Vec<Key>,
    /// The versions that were answered for each home, by node: an owner may answer one of the home's earlier life.
    answered: Vec<HashSet<Version>>,
    /// Writes that made a version.
    made: HashSet<Write>,
    /// When writes took effect, and what their homes answered.
    done: HashMap<Write, (Picos, Answer)>,
    /// Keys that were given to boxes.
    given: u64,
    /// Writes that boxes answered as owners.
    owned: u64,
    /// Operations of [`WORLD`] that are not over, of homes that are down.
    waiting: Vec<(HomeId, usize)>,
}

impl Watch {
    /// Of a world in which nothing has happened.
    pub fn new(topology: &Topology, script: &Script, numbers: &Numbers) -> Watch {
        let key = |name: &Vec<u8>| {
            let home = topology.layout.home_of(key_hash(name));
            let home = numbers.home(home).expect("a key's home is a node");
            Key { name: name.clone(), home, present: None, owner: None, lost_until: Picos::ZERO, kept: None }
        };
        Watch {
            keys: script.keys.iter().map(key).collect(),
            answered: vec![HashSet::new(); numbers.count() as usize],
            made: HashSet::new(),
            done: HashMap::new(),
            given: 0,
            owned: 0,
            waiting: Vec::new(),
        }
    }

    /// When this write took effect, and what was answered.
    pub fn done(&self, write: &Write) -> Option<&(Picos, Answer)> {
        self.done.get(write)
    }

    /// How many keys were given to boxes, and how many writes they answered as owners.
    pub fn ownership(&self) -> (u64, u64) {
        (self.given, self.owned)
    }

    /// Keys of this home.
    pub fn keys_of(&self, home: Node) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.iter().filter(move |key| key.home == home).map(|key| &key.name)
    }

    /// Keys of other homes than this one.
    pub fn keys_of_others(&self, home: Node) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.iter().filter(move |key| key.home != home).map(|key| &key.name)
    }

    /// Whether this write made a version.
    pub fn has_made(&self, write: &Write) -> bool {
        self.made.contains(write)
    }
}

impl World<'_> {
    // ---- after events

    pub(super) fn look_at_box(&mut self, node: Node, out: &Out) {
        let (now, numbers) = (self.now(), &self.numbers);
        let home_of = |message: &Message| Some(numbers.home(message.header.home)? as usize);
        for (_, message) in out.iter().filter(|(_, message)| message.header.flags.contains(Flags::FROM_BOX)) {
            if is_reply_to_write(message)
                && let Some(home) = home_of(message)
            {
                self.watch.owned += 1;
                self.watch.note_reply(now, home, message);
            }
        }
        let place = &self.places[node as usize];
        let now = place.clock.read(self.now());
        let Some(Machine::Box(machine)) = &place.machine else { return };
        let count = machine.copies().count();
        // The table is rounded up to whole sets.
        if count > 2 * self.script.config.copies {
            return self.broken(format!("box {} has {count} copies", machine.id()), b"");
        }
        if let Some((key, what)) = ranges::wrong(machine, now) {
            return self.broken(what, &key);
        }
        let wrong = (0..self.watch.keys.len()).find_map(|i| Some((i, self.wrong_at(i, machine, now)?)));
        if let Some((i, what)) = wrong {
            let key = self.watch.keys[i].name.clone();
            self.broken(what, &key);
        }
    }

    /// Keys that a home has lost with their owners: before what it answered since, which comes after that.
    pub(super) fn note_lost(&mut self, node: Node) {
        let now = self.now();
        while let Some(Machine::Home(home)) = self.machine(node)
            && let Some(key) = home.poll_lost()
        {
            // Since its owner's end nobody has answered anything about it.
            let number = self.record.call(now, WORLD, &key, Op::Delete);
            self.record.returns(now, number, None, Ret::of(kv::Status::Ok));
            self.note(|names| format!("{} has lost {}", names.name(node), key.escape_ascii()));
        }
    }

    pub(super) fn look_at_home(&mut self, node: Node, out: &Out) {
        let now = self.now();
        for (_, message) in out.iter().filter(|(_, message)| is_reply_to_write(message)) {
            self.watch.given += u64::from(message.header.flags.contains(Flags::OWNED));
            self.watch.note_reply(now, node as usize, message);
        }
        for i in 0..self.watch.keys.len() {
            if self.watch.keys[i].home != node {
                continue;
            }
            let present = self.present(i).map(|(version, _)| version);
            let owner = self.owner(i);
            let known = &mut self.watch.keys[i];
            if std::mem::replace(&mut known.present, present) != present
                || std::mem::replace(&mut known.owner, owner) != owner
            {
                self.look_at_all_boxes(i);
            }
        }
    }

    fn look_at_all_boxes(&mut self, key: usize) {
        for node in self.numbers.boxes() {
            let place = &self.places[node as usize];
            let now = place.clock.read(self.now());
            if let Some(Machine::Box(machine)) = &place.machine
                && let Some(what) = self.wrong_at(key, machine, now)
            {
                let key = self.watch.keys[key].name.clone();
                return self.broken(what, &key);
            }
        }
    }

    /// What the home of a key has now.
    fn present(&self, key: usize) -> Option<(Version, Cow<'_, [u8]>)> {
        let key = &self.watch.keys[key];
        let place = &self.places[key.home as usize];
        let Some(Machine::Home(home)) = &place.machine else { return None };
        let now = place.clock.read(self.queue.now());
        home.peek(&key.name, now)
    }

    /// The box that owns a key, as its home has it.
    fn owner(&self, key: usize) -> Option<BoxId> {
        let key = &self.watch.keys[key];
        match &self.places[key.home as usize].machine {
            Some(Machine::Home(home)) => home.owner_of(&key.name),
            _ => None,
        }
    }

    /// What is wrong with a key at a box.
    fn wrong_at(&self, key: usize, machine: &SimulatedBox, now: Nanos) -> Option<String> {
        self.wrong_owner(key, machine, now).or_else(|| self.wrong_copy(key, machine, now))
    }

    /// What is wrong if a box could answer as the owner of a key.
    fn wrong_owner(&self, key: usize, machine: &SimulatedBox, now: Nanos) -> Option<String> {
        let Key { name, lost_until, .. } = &self.watch.keys[key];
        machine.owned(name, now)?;
        let (id, owner) = (machine.id(), self.owner(key));
        let is_wrong = owner != Some(id) && self.queue.now() > *lost_until;
        is_wrong.then(|| {
            format!(
                "box {id} could answer as owner of {}, its home has {owner:?} as such",
                name.escape_ascii()
            )
        })
    }

    /// What is wrong with a box's copy of a key, if it has one that it could answer from.
    fn wrong_copy(&self, key: usize, machine: &SimulatedBox, now: Nanos) -> Option<String> {
        let Key { name, lost_until, .. } = &self.watch.keys[key];
        let kept = machine.copies().find(|kept| kept.key == *name && runs(kept.end(), now))?;
        let (id, version, shown) = (machine.id(), kept.version, name.escape_ascii());
        match self.present(key) {
            Some((present, value)) if present == version => (*value != *kept.value).then(|| {
                format!("box {id} has another value than the home under version {version} of {shown}")
            }),
            Some((present, _)) => {
                Some(format!("box {id} could answer version {version} of {shown}, its home has {present}"))
            }
            None if self.queue.now() <= *lost_until => None,
            None => Some(format!("box {id} could answer version {version} of {shown}, its home has nothing")),
        }
    }

    // ---- homes that lose items

    /// The home of `key` forgets it, if it is there.
    pub(super) fn evict(&mut self, key: &[u8]) {
        let Some(i) = self.watch.keys.iter().position(|known| known.name == key) else { return };
        if self.present(i).is_none() || self.script.homes.survive() {
            return;
        }
        let (now, node) = (self.now(), self.watch.keys[i].home);
        let until = now.plus(self.places[node as usize].clock.real(self.script.config.lease)).plus(Picos(1));
        let Some(Machine::Home(home)) = self.machine(node) else { return };
        home.evict(key);
        let number = self.record.call(now, WORLD, key, Op::Delete);
        let known = &mut self.watch.keys[i];
        (known.present, known.lost_until) = (None, known.lost_until.max(until));
        self.queue.push(until, node, Happening::Lost(vec![number]));
        self.note(|names| format!("{} evicts {}", names.name(node), key.escape_ascii()));
    }

    /// Before a home crashes. One with a log loses nothing that anybody was told of: what boxes have of it is what it will have. So is one whose memory is
    /// kept for its next life, but for what boxes own.
    pub(super) fn home_loses_all(&mut self, node: Node, id: HomeId, is_kept: bool) {
        let now = self.now();
        for i in 0..self.watch.keys.len() {
            if self.watch.keys[i].home != node {
                continue;
            }
            let is_owned = self.owner(i).is_some();
            let is_lost = !self.script.homes.survive() && (!is_kept || is_owned);
            if is_lost && (self.present(i).is_some() || is_owned) {
                let number = self.record.call(now, WORLD, &self.watch.keys[i].name, Op::Delete);
                self.watch.waiting.push((id, number));
            }
            let known = &mut self.watch.keys[i];
            let is_running = !is_lost && known.lost_until > now;
            (known.present, known.owner) = (None, None);
            if is_kept && !is_lost {
                known.kept = Some(known.lost_until);
            }
            if is_kept || !is_running {
                known.lost_until = Picos::MAX;
            }
        }
    }

    /// What a home had is lost with its disk; copies of it may run for a lease.
    pub(super) fn home_has_nothing(&mut self, node: Node) {
        let now = self.now();
        let lease = self.places[node as usize].clock.real(self.script.config.lease);
        for known in self.watch.keys.iter_mut().filter(|known| known.home == node) {
            // Nobody knows whether there was something: it has no end.
            self.record.call(now, WORLD, &known.name, Op::Delete);
            known.lost_until = now.plus(lease).plus(Picos(1));
        }
    }

    /// After a home was started.
    pub(super) fn home_begins(&mut self, node: Node, id: HomeId) {
        let place = &self.places[node as usize];
        if place.life == 1 {
            return;
        }
        if self.script.homes.survive() {
            self.served.recoveries += 1;
            let here = self.watch.keys.iter_mut().filter(|known| known.home == node);
            here.for_each(|known| {
                if known.lost_until == Picos::MAX {
                    known.lost_until = Picos::ZERO;
                }
            });
            return;
        }
        self.look_at_memory(node);
        let until =
            self.now().plus(self.places[node as usize].clock.real(self.script.config.lease)).plus(Picos(1));
        for known in self.watch.keys.iter_mut().filter(|known| known.home == node) {
            known.lost_until = known.kept.take().unwrap_or(until);
        }
        let (mine, others) = self.watch.waiting.drain(..).partition(|(home, _)| *home == id);
        self.watch.waiting = others;
        let mine: Vec<(HomeId, usize)> = mine;
        self.queue.push(until, node, Happening::Lost(mine.into_iter().map(|(_, number)| number).collect()));
    }

    pub(super) fn lost_everywhere(&mut self, numbers: &[usize]) {
        let now = self.now();
        for &number in numbers {
            self.record.returns(now, number, None, Ret::of(kv::Status::Ok));
        }
    }
}

impl Watch {
    /// A write by ticket made this version at a home.
    pub fn note_made_by_ticket(&mut self, home: Node, version: Version) {
        self.answered[home as usize].insert(version);
    }

    /// The first answer to a write is given when it takes effect, by its home or by the owner of its key. The first with a version is
    /// that of the write which made it.
    fn note_reply(&mut self, now: Picos, home: usize, message: &Message) {
        let header = &message.header;
        let write = (header.client, header.round, header.operation);
        if header.version != Version(0) && self.answered[home].insert(header.version) {
            self.made.insert(write);
        }
        if !matches!(header.status, Status::Busy | Status::Forgotten | Status::NotHome | Status::Bad) {
            self.done.entry(write).or_insert_with(|| (now, answer_in(message)));
        }
    }
}

fn is_reply_to_write(message: &Message) -> bool {
    let Opcode::Reply(verb) = message.header.opcode else { return false };
    message.header.round != Round(0) && verb != Verb::Session
}

/// What a reply says.
pub fn answer_in(message: &Message) -> Answer {
    let header = &message.header;
    Answer {
        status: header.status,
        value: message.value.clone(),
        flags: header.item_flags,
        kind: header.kind,
        life: header.ttl.nanos(),
        version: header.version,
        number: header.operand,
        from_box: false,
    }
}
