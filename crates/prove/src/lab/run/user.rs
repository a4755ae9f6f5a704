//! A client of the laboratory: draws operations, does them one at a time, and records what it asked and saw.
//!
//! Why it does not run on `bench::drive`: a judge reads what it did, so each operation is recorded before it is sent and after it is answered, one at
//! a time; an operation that comes late is no sample of a latency but an event of the history, so a missed time is not made up for.
//!
//! Each value is stored once, by one client, so that a wrong one says where it is from. Of minimum, maximum and bits the judge knows no
//! outcome that is well and changes nothing, so they are not drawn.

use super::load::{Load, Pace};
use super::record::{Class, Part, now};
use crate::lab::LabError;
use base::{Nanos, Prng};
use protocol::coherence::client::{Answer, Call};
use protocol::wire::{self, Verb, Version};
use serve::inc::client::{Client, ClientError};
use serve::inc::{IncError, Topology};
use sim::kv::{Compute, Expect, Op, Ret, Status, Value};
use sim::workload::{self, Keys};
use std::collections::BTreeMap;
use std::iter::StepBy;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A text does not grow beyond its size and this.
const ROOM: u64 = 64;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    Compute,
}

/// Shares of kinds of operations.
#[derive(Clone, Debug)]
pub struct Mix(workload::Mix<Kind>);

impl Mix {
    /// Of a hundred; the rest are reads.
    ///
    /// # Errors
    /// In words, if there are more.
    pub fn new(writes: u64, compute: u64) -> Result<Mix, String> {
        let reads = 100u64
            .checked_sub(writes + compute)
            .ok_or_else(|| format!("--writes {writes} and --compute {compute} are more than 100 together"))?;
        let weights = [(reads, Kind::Read), (writes, Kind::Write), (compute, Kind::Compute)];
        Ok(Mix(workload::Mix::new(&weights)))
    }
}

/// Whether a key has a number.
pub fn is_number(key: u64) -> bool {
    key % 4 == 3
}

/// What a key is called.
pub fn name(key: u64) -> String {
    format!("{}{key}", if is_number(key) { "number" } else { "text" })
}

/// The client.
pub struct User {
    client: Client,
    part: Part,
    pace: Pace,
    keys: Keys,
    /// Keys that it stores in the beginning.
    share: StepBy<Range<u64>>,
    mix: Mix,
    random: Prng,
    number: u32,
    size: usize,
    /// Values that it made.
    made: u64,
    /// Versions that it saw lately, for compare-and-swap; no more than there are keys.
    seen: BTreeMap<u64, Version>,
}

impl User {
    /// The `number`th, of so many that store all keys in the beginning, behind box `tor`. Without others it stores none.
    pub fn new(
        topology: &Topology,
        (number, of): (u32, Option<u32>),
        tor: u16,
        mix: &Mix,
        load: &Load,
        (part, pace): (Part, Pace),
    ) -> Result<User, LabError> {
        let share = of.map_or(0..0, |_| u64::from(number)..load.keys);
        Ok(User {
            client: Client::init(topology, Some(tor))?,
            part,
            pace,
            keys: Keys::new(load.keys, load.skew, load.seed),
            share: share.step_by(of.unwrap_or(1) as usize),
            mix: mix.clone(),
            random: Prng::for_entity(load.seed, u64::from(number), 0x75),
            number,
            size: usize::from(load.value_size),
            made: 0,
            seen: BTreeMap::new(),
        })
    }

    /// Stores its share of the keys, then draws operations, until it is over or no operation is left.
    pub fn work(mut self, left: &AtomicU64, over: &AtomicBool) -> Result<Part, LabError> {
        let goes_on = || {
            let take = |n: u64| n.checked_sub(1);
            !over.load(Ordering::Relaxed)
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        };
        let mut share = self.share.clone();
        let mut next = Nanos(0);
        while goes_on() {
            match share.next() {
                Some(key) => self.store(key)?,
                None => {
                    next = self.pace.wait(next);
                    self.draw()?;
                }
            }
        }
        Ok(self.part)
    }

    fn store(&mut self, key: u64) -> Result<(), LabError> {
        let name = name(key);
        let text = if is_number(key) { b"0".to_vec() } else { self.text() };
        let call = Call::new(Verb::Set, name.as_bytes()).value(&text);
        self.perform(key, Kind::Write, call, Op::Set { value: Value::of(&text), ttl: None })
    }

    fn draw(&mut self) -> Result<(), LabError> {
        let key = self.keys.draw(&mut self.random);
        let kind = *self.mix.0.draw(&mut self.random);
        let name = name(key);
        let (call, op) = match (kind, is_number(key)) {
            (Kind::Read, _) => (Call::new(Verb::Get, name.as_bytes()), Op::Get),
            (Kind::Write, false) => self.write_text(&name),
            (Kind::Write, true) => self.write_number(&name),
            (Kind::Compute, false) => self.compute_text(key, &name),
            (Kind::Compute, true) => self.compute_number(&name),
        };
        self.perform(key, kind, call, op)
    }

    fn perform(&mut self, key: u64, kind: Kind, call: Call, op: Op) -> Result<(), LabError> {
        let recording = || LabError::io("recording what a client saw");
        let id = self.part.call(now(), &call.key, op).map_err(recording())?;
        let verb = call.verb;
        let (ret, class) = match self.client.call(call) {
            Ok(answer) => {
                if answer.version != Version(0) {
                    self.seen.insert(key, answer.version);
                }
                let Some(ret) = seen(verb, &answer) else { return Ok(()) };
                (ret, Some(class(kind, &answer)))
            }
            Err(ClientError::NotDone) => (Ret::of(Status::Error), None),
            Err(ClientError::Unknown) => return Ok(()),
            Err(cause) => return Err(IncError::from(cause).into()),
        };
        self.part.returns(now(), id, ret, class).map_err(recording())
    }

    /// A text that nobody else stores.
    fn text(&mut self) -> Vec<u8> {
        self.made += 1;
        let mut text = format!("c{}n{}.", self.number, self.made).into_bytes();
        text.resize(self.size.max(text.len()), b'.');
        text
    }

    fn write_text(&mut self, key: &str) -> (Call, Op) {
        let verb = [Verb::Set, Verb::Set, Verb::Set, Verb::Add, Verb::Replace, Verb::Delete]
            [self.random.below(6) as usize];
        if verb == Verb::Delete {
            return (Call::new(verb, key.as_bytes()), Op::Delete);
        }
        let text = self.text();
        let (value, ttl) = (Value::of(&text), None);
        let op = match verb {
            Verb::Add => Op::Add { value, ttl },
            Verb::Replace => Op::Replace { value, ttl },
            _ => Op::Set { value, ttl },
        };
        (Call::new(verb, key.as_bytes()).value(&text), op)
    }

    fn write_number(&mut self, key: &str) -> (Call, Op) {
        if self.random.chance(0.2) {
            return (Call::new(Verb::Delete, key.as_bytes()), Op::Delete);
        }
        let number = self.random.below(1 << 20).to_string();
        let op = Op::Set { value: Value::of(number.as_bytes()), ttl: None };
        (Call::new(Verb::Set, key.as_bytes()).value(number.as_bytes()), op)
    }

    fn compute_text(&mut self, key: u64, name: &str) -> (Call, Op) {
        if self.random.chance(0.5) {
            let more = format!("+c{}", self.number).into_bytes();
            let call = Call::new(Verb::Append, name.as_bytes()).value(&more);
            return (call.operand(self.size as u64 + ROOM), Op::Append { value: Value::of(&more) });
        }
        let version = self.seen.get(&key).copied().unwrap_or(Version(1));
        let text = self.text();
        let call = Call { version, ..Call::new(Verb::Cas, name.as_bytes()).value(&text) };
        (call, Op::Cas { value: Value::of(&text), expect: Expect::Version(version.0), ttl: None })
    }

    fn compute_number(&mut self, key: &str) -> (Call, Op) {
        if self.random.chance(0.5) {
            let by = self.random.below(1 << 20);
            return (Call::new(Verb::CondPut, key.as_bytes()).operand(by), Op::CondPut { by, ttl: None });
        }
        let call = Call::new(Verb::Incr, key.as_bytes()).operand(1).value(b"0");
        (call, Op::Compute { how: Compute::Incr, by: 1, init: Some(0), ttl: None })
    }
}

fn class(kind: Kind, answer: &Answer) -> Class {
    match (kind, answer.from_box) {
        (Kind::Read, true) => Class::Hit,
        (Kind::Read, false) => Class::Miss,
        (Kind::Write, _) => Class::Write,
        (Kind::Compute, true) => Class::ComputeHit,
        (Kind::Compute, false) => Class::Compute,
    }
}

/// An answer in the words of histories; `None` where it says nothing.
fn seen(verb: Verb, answer: &Answer) -> Option<Ret> {
    let status = match (verb, answer.status) {
        (_, wire::Status::Ok) => Status::Ok,
        (Verb::Append | Verb::Replace, wire::Status::Miss) | (Verb::Add, wire::Status::Exists) => {
            Status::NotStored
        }
        (_, wire::Status::Miss) => Status::Miss,
        (_, wire::Status::Exists) => Status::Exists,
        (_, wire::Status::NotStored) => Status::NotStored,
        (_, wire::Status::NoRoom) => Status::NoRoom,
        (_, wire::Status::NotNumber) => Status::Error,
        _ => return None,
    };
    let value = match verb {
        Verb::Get if status == Status::Ok => Some(Value::of(&answer.value)),
        Verb::Incr if status == Status::Ok => Some(Value::number(answer.number)),
        _ => None,
    };
    let version = (answer.version != Version(0)).then_some(answer.version.0);
    Some(Ret { status, value, version })
}
