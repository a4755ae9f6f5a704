//! What clients asked and were answered, in the words of [`sim::kv`], from which the judge's history is made.
//!
//! The cache's operations are written as what they were, where the vocabulary differs:
//! * a MIN, MAX or OR that changed nothing is a get that showed the number: it made no version;
//! * a COND_PUT that stored is a max: it leaves an item its life, as arithmetic does;
//! * a FLUSH of all homes is one flush, and of each key one operation on it;
//! * an item that a home loses, by a crash or an eviction, is a delete by [`WORLD`], which begins when it is lost and ends when no
//!   box can have a copy any more: in between reads may still show it, after that nothing may.
//!
//! Times to live are written as the home's clock really measures them, so that the judge may be exact to [`EXACT`].

use super::clock::Clock;
use super::words::moment;
use base::{Nanos, Picos};
use protocol::coherence::client::{Answer, Call};
use protocol::wire::{self, Verb};
use sim::joint;
use sim::kv::{Compute, Expect, Op, Ret, Status, Value};
use sim::txn::{Done, Txn};
use std::collections::BTreeMap;

/// The client that loses items.
pub const WORLD: u32 = 1000;
/// What rounding may shift a deadline by.
pub const EXACT: Picos = Picos::from_nanos(3);

/// An operation.
#[derive(Clone, Debug)]
struct Known {
    client: u32,
    key: Vec<u8>,
    op: joint::Op,
    ret: Option<joint::Ret>,
}

/// All operations, and the order of their calls and returns.
#[derive(Clone, Debug, Default)]
pub struct Record {
    known: Vec<Known>,
    /// Moments, operations, and whether they returned.
    moments: Vec<(Picos, usize, bool)>,
    /// What became of operations of which no client knows: when it was known at the latest, what they were, what was answered.
    settled: BTreeMap<usize, (Picos, Option<joint::Op>, joint::Ret)>,
}

impl Record {
    /// An operation begins; its number.
    pub fn call(&mut self, at: Picos, client: u32, key: &[u8], op: Op) -> usize {
        self.begin(at, client, key, joint::Op::Key(op))
    }

    /// A transaction begins; its number.
    pub fn call_transaction(&mut self, at: Picos, client: u32, txn: Txn) -> usize {
        self.begin(at, client, b"", joint::Op::Txn(txn))
    }

    fn begin(&mut self, at: Picos, client: u32, key: &[u8], op: joint::Op) -> usize {
        self.known.push(Known { client, key: key.to_vec(), op, ret: None });
        self.moments.push((at, self.known.len() - 1, false));
        self.known.len() - 1
    }

    /// It has ended so; `op` is what it was, as it turned out.
    pub fn returns(&mut self, at: Picos, number: usize, op: Option<Op>, ret: Ret) {
        self.end(at, number, op.map(joint::Op::Key), joint::Ret::Key(ret));
    }

    /// A transaction has ended so.
    pub fn returns_done(&mut self, at: Picos, number: usize, done: Done) {
        self.end(at, number, None, joint::Ret::Done(done));
    }

    fn end(&mut self, at: Picos, number: usize, op: Option<joint::Op>, ret: joint::Ret) {
        let known = &mut self.known[number];
        known.op = op.unwrap_or(known.op.clone());
        known.ret = Some(ret);
        self.moments.push((at, number, true));
    }

    /// No client knows what became of this operation, but the world does.
    pub fn settle(&mut self, at: Picos, number: usize, op: Option<Op>, ret: Ret) {
        self.settled.insert(number, (at, op.map(joint::Op::Key), joint::Ret::Key(ret)));
    }

    /// The same of a transaction.
    pub fn settle_done(&mut self, at: Picos, number: usize, done: Done) {
        self.settled.insert(number, (at, None, joint::Ret::Done(done)));
    }

    /// When an operation began.
    pub fn called(&self, number: usize) -> Picos {
        let call = self.moments.iter().find(|(_, of, returned)| *of == number && !returned);
        call.map_or(Picos::ZERO, |(at, ..)| *at)
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// What the clients saw.
    pub fn history(&self) -> joint::History {
        let mut history = joint::History::new();
        for &(at, number, returned) in &self.moments {
            let Known { client, key, op, ret } = &self.known[number];
            match ret {
                Some(ret) if returned => history.returns(at, number as u64, ret.clone()),
                _ => history.call(at, *client, number as u64, key, op.clone()),
            }
        }
        history
    }

    /// The same, and what became of operations of which they do not know: so the judge is stricter, and has less to try.
    pub fn judged(&self) -> joint::History {
        let mut all = self.clone();
        for (&number, (at, op, ret)) in &self.settled {
            all.end(*at, number, op.clone(), ret.clone());
        }
        // What was settled comes after what else happened at that moment.
        all.moments.sort_by_key(|moment| moment.0);
        all.history()
    }

    /// The last calls and returns that concern `key`, a line each.
    pub fn last_of(&self, key: &[u8], count: usize) -> Vec<String> {
        let names = |op: &joint::Op| match op {
            joint::Op::Txn(txn) => txn.keys().any(|named| **named == *key),
            joint::Op::Key(op) => matches!(op, Op::Flush { .. }),
        };
        let concerns = |known: &Known| known.key == key || key.is_empty() || names(&known.op);
        let moments: Vec<_> = self.moments.iter().filter(|(_, n, _)| concerns(&self.known[*n])).collect();
        let shown = &moments[moments.len().saturating_sub(count)..];
        shown.iter().map(|(at, number, returned)| self.line(*at, *number, *returned)).collect()
    }

    fn line(&self, at: Picos, number: usize, returned: bool) -> String {
        let Known { client, key, op, ret } = &self.known[number];
        let what = match (ret.as_ref().filter(|_| returned), op) {
            (Some(joint::Ret::Key(ret)), _) => format!("{ret:?}"),
            (Some(joint::Ret::Done(done)), _) => done.to_string(),
            (None, joint::Op::Key(op)) => format!("{op:?} \"{}\"", key.escape_ascii()),
            (None, joint::Op::Txn(txn)) => format!("[{txn}]"),
        };
        format!("{}: client {client}, operation {number}: {what}", moment(at))
    }
}

/// What a call asks for. `home` is the clock of the key's home.
pub fn asked(call: &Call, home: &Clock) -> Op {
    let ttl = (call.life != Nanos::MAX).then(|| home.real(call.life));
    let value = Value::of(&call.value);
    let compute = |how, init| Op::Compute { how, by: call.operand, init, ttl };
    match call.verb {
        Verb::Set => Op::Set { value, ttl },
        Verb::Add => Op::Add { value, ttl },
        Verb::Replace => Op::Replace { value, ttl },
        Verb::Cas => Op::Cas { value, expect: Expect::Version(call.version.0), ttl },
        Verb::Delete => Op::Delete,
        Verb::Incr => compute(Compute::Incr, value.as_number()),
        Verb::Decr => compute(Compute::Decr, value.as_number()),
        Verb::Min => compute(Compute::Min, Some(call.operand)),
        Verb::Max | Verb::CondPut => compute(Compute::Max, Some(call.operand)),
        Verb::Or => compute(Compute::Or, Some(call.operand)),
        Verb::Append => Op::Append { value },
        Verb::Touch => Op::Touch { ttl },
        Verb::Get | Verb::Flush | Verb::Noop | Verb::Session => Op::Get,
    }
}

/// What it was answered, and what it was, where that is not what was asked. `changed`: it made a version.
///
/// # Errors
/// In words, for an answer that no call gets.
pub fn answered(
    call: &Call,
    answer: &Answer,
    home: &Clock,
    changed: bool,
) -> Result<(Option<Op>, Ret), String> {
    let version = (answer.version.0 != 0).then_some(answer.version.0);
    let ret = |status, value| Ret { status, value, version };
    let nonsense = || format!("{call:?} was answered {answer:?}");
    let status = match (answer.status, call.verb) {
        (wire::Status::Ok, _) => Status::Ok,
        (wire::Status::Miss, Verb::Replace | Verb::Append) => Status::NotStored,
        (wire::Status::Miss, Verb::Set | Verb::Add | Verb::Min | Verb::Max | Verb::Or | Verb::CondPut) => {
            return Err(nonsense());
        }
        (wire::Status::Miss, _) => Status::Miss,
        (wire::Status::Exists, Verb::Add) => Status::NotStored,
        (wire::Status::Exists, Verb::Cas) => Status::Exists,
        (wire::Status::NotStored, Verb::CondPut) => {
            let ttl = (call.life != Nanos::MAX).then(|| home.real(call.life));
            return Ok((Some(Op::CondPut { by: call.operand, ttl }), ret(Status::NotStored, None)));
        }
        (wire::Status::NoRoom, _) => Status::NoRoom,
        (
            wire::Status::NotNumber,
            Verb::Incr | Verb::Decr | Verb::CondPut | Verb::Min | Verb::Max | Verb::Or,
        ) => Status::Error,
        _ => return Err(nonsense()),
    };
    if status != Status::Ok {
        return Ok((None, ret(status, None)));
    }
    match call.verb {
        Verb::Get => Ok((None, ret(status, Some(Value::of(&answer.value))))),
        Verb::Min | Verb::Max | Verb::Or if !changed => {
            let (number, by) = (answer.number, call.operand);
            let is_right = match call.verb {
                Verb::Min => number <= by,
                Verb::Max => number >= by,
                _ => number | by == number,
            };
            let is_read = Ret { value: Some(Value::number(number)), ..ret(status, None) };
            if is_right { Ok((Some(Op::Get), is_read)) } else { Err(nonsense()) }
        }
        Verb::Incr | Verb::Decr | Verb::Min | Verb::Max | Verb::Or | Verb::CondPut => {
            Ok((None, ret(status, Some(Value::number(answer.number)))))
        }
        _ => Ok((None, ret(status, None))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use protocol::wire::{Kind, Version};

    fn answer(status: wire::Status, number: u64) -> Answer {
        Answer {
            status,
            value: vec![],
            flags: 0,
            kind: Kind::Bytes,
            life: base::Nanos::MAX,
            version: Version(7),
            number,
            from_box: false,
        }
    }

    #[test]
    fn what_changed_nothing_is_a_read_and_must_be_right() {
        let clock = Clock::draw(&mut Prng::new(1));
        let max = Call::new(Verb::Max, b"k").operand(5);
        let read = |number, changed| answered(&max, &answer(wire::Status::Ok, number), &clock, changed);
        let (op, ret) = read(9, false).expect("9 is more than 5");
        assert_eq!((op, ret.value, ret.version), (Some(Op::Get), Some(Value::number(9)), Some(7)));
        assert_eq!(read(5, true).expect("it stored").0, None);
        assert!(read(4, false).is_err(), "the larger of 5 and something is not 4");
        assert!(answered(&max, &answer(wire::Status::Miss, 0), &clock, false).is_err(), "a max never misses");
    }

    #[test]
    fn what_is_settled_takes_its_place_in_time() {
        let mut record = Record::default();
        let set = |text: &[u8]| Op::Set { value: Value::of(text), ttl: None };
        let lost = record.call(Picos(1), 0, b"k", set(b"a"));
        let read = record.call(Picos(5), 1, b"k", Op::Get);
        record.returns(Picos(6), read, None, Ret::hit(b"a"));
        record.settle(Picos(3), lost, None, Ret::of(Status::Ok));
        assert_eq!(record.history().events().len(), 3);
        let judged = record.judged();
        assert_eq!(judged.events().iter().map(|e| e.at.0).collect::<Vec<_>>(), [1, 3, 5, 6]);
    }
}
