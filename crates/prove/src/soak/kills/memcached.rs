//! A client of memcached's protocol at the node, that records what it asks and sees: the keys and the words of the lab's in-network user
//! ([`crate::lab::run::user`]), so that both are in one history.
//!
//! A connection that breaks leaves an operation of which nobody knows what became; the client connects again, and goes on.

use super::Kills;
use super::conduct::Gauge;
use crate::lab::run::load::Pace;
use crate::lab::run::record::{Class, Part, now};
use crate::lab::run::user::{is_number, name};
use crate::soak::link::Link;
use base::{Nanos, Prng};
use protocol::memcache::Line;
use protocol::memcache::client::{Expect, MetaStatus, Reply, meta_token, request};
use sim::kv::{Compute, Op, Ret, Status, Value};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the head of the file.
pub struct Client<'a> {
    part: Part,
    node: String,
    link: Option<Link>,
    random: Prng,
    keys: u64,
    number: u32,
    made: u64,
    pace: Pace,
    gauge: &'a Gauge,
}

impl<'a> Client<'a> {
    /// The `index`-th of these clients.
    pub fn new(kills: &Kills, index: u32, node: SocketAddr, gauge: &'a Gauge) -> Client<'a> {
        let number = kills.clients + index;
        Client {
            part: Part::new(number),
            node: node.to_string(),
            link: None,
            random: Prng::for_entity(kills.seed, u64::from(number), 0x6d63),
            keys: kills.keys,
            number,
            made: 0,
            pace: Pace::of(kills.rate, kills.clients),
            gauge,
        }
    }

    /// Until it is over: what it saw.
    pub fn work(mut self, over: &AtomicBool) -> Part {
        let mut next = Nanos(0);
        while !over.load(Ordering::Relaxed) {
            next = self.pace.wait(next);
            if self.link.is_none() {
                self.link = Link::open(&self.node).ok();
                continue;
            }
            let key = self.random.below(self.keys);
            self.ask(key);
        }
        // What was acknowledged is there: every key once more.
        self.link = self.link.or_else(|| Link::open(&self.node).ok());
        (0..self.keys).for_each(|key| self.perform(key, Op::Get, b""));
        self.part
    }

    fn ask(&mut self, key: u64) {
        let set = |text: &str| Op::Set { value: Value::of(text.as_bytes()), ttl: None };
        let mut text = String::new();
        let op = match self.random.below(20) {
            0..10 => Op::Get,
            10 => Op::Delete,
            11..15 if is_number(key) => {
                text = self.random.below(1000).to_string();
                set(&text)
            }
            _ if is_number(key) => Op::Compute { how: Compute::Incr, by: 1, init: Some(0), ttl: None },
            _ => {
                self.made += 1;
                text = format!("m{}n{}.", self.number, self.made);
                set(&text)
            }
        };
        self.perform(key, op, text.as_bytes());
    }

    /// Does `op`, which stores `value` if it stores one.
    fn perform(&mut self, key: u64, op: Op, value: &[u8]) {
        let Some(mut link) = self.link.take() else { return };
        let name = name(key);
        let expect = command(&mut link.out, name.as_bytes(), &op, value);
        link.expect(expect);
        let (class, is_read) = match op {
            Op::Get => (Class::Miss, true),
            Op::Compute { .. } => (Class::Compute, false),
            _ => (Class::Write, false),
        };
        const IN_MEMORY: &str = "what is in memory can be recorded";
        let id = self.part.call(now(), name.as_bytes(), op).expect(IN_MEMORY);
        let mut seen = None;
        let exchanged = link.exchange(|reply, _| seen = Some(answer(&reply, is_read)), || ());
        if let (Ok(()), Some(None)) = (&exchanged, &seen) {
            // It was said that nobody knows.
            self.link = Some(link);
            return;
        }
        // What was not answered may have been done: it has no end.
        if let (Ok(()), Some(ret)) = (exchanged, seen.flatten()) {
            let class = (ret.status != Status::Error).then_some(class);
            self.part.returns(now(), id, ret, class).expect(IN_MEMORY);
            self.gauge.add();
            self.link = Some(link);
        }
    }
}

fn command(out: &mut Vec<u8>, key: &[u8], op: &Op, value: &[u8]) -> Expect {
    match op {
        Op::Set { .. } => request::meta_set(out, key, "c", value),
        Op::Delete => request::meta_delete(out, key, ""),
        Op::Compute { .. } => request::meta_arithmetic(out, key, "v c N0 J0"),
        _ => request::meta_get(out, key, "v c"),
    }
}

/// What a reply says; none, if that it may have been done.
fn answer(reply: &Reply<'_>, is_read: bool) -> Option<Ret> {
    let Reply::Meta { status, flags, data } = reply else {
        let is_open = matches!(reply, Reply::ServerError(why) if Line::UnknownOutcome.bytes().trim_ascii_end().ends_with(why));
        return (!is_open).then(|| Ret::of(Status::Error));
    };
    let status = match status {
        MetaStatus::Done | MetaStatus::Value => Status::Ok,
        MetaStatus::Miss | MetaStatus::NotFound => Status::Miss,
        _ => Status::Error,
    };
    let number = |token: &[u8]| std::str::from_utf8(token).ok().and_then(|text| text.parse().ok());
    let version = meta_token(flags, b'c').and_then(number);
    let value = data.map(|data| Value::of(if is_read { data } else { data.trim_ascii_end() }));
    Some(Ret { status, value, version })
}
