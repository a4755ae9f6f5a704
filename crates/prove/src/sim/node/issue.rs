//! What clients do: they connect, ask, many requests at once, and hear what they are answered, some of it at a time.

use super::client::Line;
use super::script::{Intent, Size, Todo, Verb, Wanted};
use super::tongue::{Asked, Words};
use super::world::{Happening, World};
use base::Picos;
use sim::kv::{Compute, Expect, Op, Ret, Status, Value};

/// Bytes go on after this at most.
const STEP: u64 = Picos::from_micros(20).0;

impl World<'_> {
    pub(super) fn issue(&mut self, intent: &Intent) {
        let client = intent.client as usize;
        if self.node.is_none() || self.stopped_at.is_some() {
            return;
        }
        if self.clients[client].line.as_ref().is_some_and(|line| line.has_ended || line.peer.is_closed()) {
            // It hears the rest before it comes again.
            return;
        }
        match &intent.todo {
            Todo::End => {
                let Some(line) = &mut self.clients[client].line else { return };
                line.has_ended = true;
                line.send(0);
            }
            Todo::Ask(all) => {
                self.connect(client);
                for wanted in all {
                    self.ask(client, wanted);
                }
            }
        }
        self.go_on(client);
        self.look_after();
    }

    fn connect(&mut self, number: usize) {
        let Some(node) = &self.node else { return };
        let client = &self.clients[number];
        if client.line.is_some() {
            return;
        }
        let edges: Vec<_> =
            (0..node.edges()).filter(|&edge| node.service_of(edge) == client.service).collect();
        let edge = edges[self.luck.below(edges.len() as u64) as usize];
        let width = self.width(number as u32, client.connections + 1);
        let peer =
            node.connect(edge, width).unwrap_or_else(|error| panic!("no descriptors are left: {error}"));
        let client = &mut self.clients[number];
        client.connections += 1;
        client.line = Some(Line::new(peer, client.tongue));
        client.versions.clear();
        self.note(|| format!("client {number}      connects to edge {edge}"));
    }

    fn ask(&mut self, number: usize, wanted: &Wanted) {
        let (now, id) = (self.queue.now(), self.numbers);
        self.numbers += 1;
        let client = &self.clients[number];
        // What is answered with nothing tells no version.
        let is_quiet = wanted.is_quiet && !self.script.tells_versions(client.service);
        let wanted = &Wanted { is_quiet, ..wanted.clone() };
        let (service, life) = (client.service, self.life);
        let key = format!("{life}.{service}.k{}", wanted.key).into_bytes();
        let version = client.versions.get(&key).copied().unwrap_or(0);
        let wanted = &match wanted.verb {
            Verb::Cas if version == 0 => Wanted { verb: Verb::Set, ..wanted.clone() },
            _ => wanted.clone(),
        };
        let value = value(id, wanted);
        let op = operation(wanted, &value, version);
        let is_known = op.is_some();
        match op {
            // Of each key.
            Some(Op::Flush { .. }) => {}
            Some(op) => self.history.call(now, number as u32, id, &key, op),
            None => {}
        }
        if wanted.verb == Verb::Flush {
            self.flush(number, id);
        }
        let client = &mut self.clients[number];
        let Some(line) = &mut client.line else { return };
        let words = Words { key: &key, value: &value, version, opaque: id as u32 };
        line.ask(client.tongue, wanted, words, is_known.then_some(id));
        self.note(|| {
            format!(
                "client {number}      {id}: {:?} of {} ({} bytes)",
                wanted.verb,
                key.escape_ascii(),
                value.len()
            )
        });
    }

    /// Of each key of a service, an operation of its own.
    fn flush(&mut self, number: usize, id: u64) {
        let (now, service, life) = (self.queue.now(), self.clients[number].service, self.life);
        for key in 0..FLUSHED {
            let name = format!("{life}.{service}.k{key}");
            self.history.call(now, number as u32, part(id, key), name.as_bytes(), Op::Flush { delay: None });
        }
    }

    pub(super) fn go_on(&mut self, client: usize) {
        if !std::mem::replace(&mut self.due.1[client], true) {
            let at = self.queue.now().plus(Picos(1 + self.luck.below(STEP)));
            self.queue.push(at, client as u32, Happening::Flow(client));
        }
    }

    pub(super) fn all_go_on(&mut self) {
        (0..self.clients.len()).for_each(|client| self.go_on(client));
    }

    /// Bytes go on between a client and the node.
    pub(super) fn flow(&mut self, number: usize) {
        self.due.1[number] = false;
        let (client, node) = (number as u32, self.script.node());
        let most = self.width(client, self.clients[number].connections).call.max(16);
        let amount = 1 + self.luck.below(most as u64) as usize;
        if self.is_open(client, node) {
            let line = self.clients[number].line.as_mut();
            let has_sent = line.is_some_and(|line| line.send(amount));
            if has_sent && self.luck.below(4) > 0 {
                self.go_on(number);
            }
        }
        if self.is_open(node, client) && self.hear(number, amount) {
            return self.forget(number);
        }
        let Some(line) = &self.clients[number].line else { return };
        if line.has_more() && self.is_open(node, client) && self.is_open(client, node) {
            self.go_on(number);
        }
        self.look_after_edges();
    }

    fn look_after_edges(&mut self) {
        let Some(node) = &self.node else { return };
        let wants: Vec<_> = (0..node.edges()).map(|edge| node.wants_turn(edge)).collect();
        let lag = self.script.lag.0;
        (0..wants.len()).filter(|&edge| wants[edge]).for_each(|edge| self.soon(edge, lag));
    }

    /// A client hears what the node said. True if that is all that it ever will.
    pub(super) fn hear(&mut self, number: usize, most: usize) -> bool {
        let quiet_is_done = self.script.size != Size::Large;
        let Some(line) = &mut self.clients[number].line else { return false };
        match line.hear(most, quiet_is_done) {
            Ok(ended) => ended.into_iter().for_each(|ended| self.returned(number, ended)),
            Err(why) => self.broken(format!("client {number}: {why}")),
        }
        self.look_at_closed(number)
    }

    fn returned(&mut self, number: usize, (asked, ret): (Asked, Option<Ret>)) {
        let now = self.queue.now();
        let (Some(id), Some(ret)) = (asked.number, ret) else { return };
        self.print.number(id);
        self.print.bytes(format!("{ret:?}").as_bytes());
        self.note(|| format!("client {number}      {id}: {:?}", ret.status));
        if asked.verb == Verb::Flush {
            (0..FLUSHED).for_each(|key| self.history.returns(now, part(id, key), ret.clone()));
            return;
        }
        if let Some(version) = ret.version.filter(|_| ret.status == Status::Ok) {
            self.clients[number].versions.insert(asked.key, version);
        }
        let ret = if self.script.tells_versions(self.clients[number].service) {
            ret
        } else {
            Ret { version: None, ..ret }
        };
        let is_refused = ret.status == Status::Error && asked.verb != Verb::Incr;
        // A cache that has no room for what is set drops what was there.
        self.may_evict |= is_refused;
        self.history.returns(now, id, ret);
    }
}

/// Keys of a service at most where there are flushes.
const FLUSHED: u64 = 8;

/// The operation of a flush on one key.
fn part(id: u64, key: u64) -> u64 {
    1 << 40 | id << 4 | key
}

/// What is written: a value that no other request has, or an amount.
fn value(id: u64, wanted: &Wanted) -> Vec<u8> {
    match wanted.verb {
        Verb::Incr => (1 + wanted.size % 1000).to_string().into_bytes(),
        // Every third value is a number.
        Verb::Set | Verb::Add if wanted.size.is_multiple_of(3) => (id * 1_000_000).to_string().into_bytes(),
        _ => {
            let mut value = format!("<{id}>").into_bytes();
            value.resize(value.len().max(wanted.size as usize), b'.');
            value
        }
    }
}

fn operation(wanted: &Wanted, value: &[u8], version: u64) -> Option<Op> {
    let ttl = wanted.life.map(|seconds| Picos(seconds * 1_000_000_000_000));
    let value = || Value::of(value);
    Some(match wanted.verb {
        Verb::Get => Op::Get,
        Verb::Set => Op::Set { value: value(), ttl },
        Verb::Add => Op::Add { value: value(), ttl },
        Verb::Replace => Op::Replace { value: value(), ttl },
        Verb::Append => Op::Append { value: value() },
        Verb::Cas => Op::Cas { value: value(), expect: Expect::Version(version), ttl },
        Verb::Delete => Op::Delete,
        Verb::Incr => {
            Op::Compute { how: Compute::Incr, by: value().as_number().unwrap_or(1), init: None, ttl: None }
        }
        Verb::Touch => Op::Touch { ttl },
        Verb::Flush => Op::Flush { delay: None },
        Verb::Nonsense => return None,
    })
}
