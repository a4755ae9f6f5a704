//! What clients asked and were answered, in the words of [`sim::txn`], and what the world knows of what they do not.

use super::super::words::moment;
use base::Picos;
use protocol::chain::transaction::{Abort, Change, Condition, Outcome};
use protocol::chain::{Claim, Transaction};
use sim::kv::Value;
use sim::txn::order::Settled;
use sim::txn::{self, Done, Found, Ret, Txn};

/// An operation.
#[derive(Clone, Debug)]
struct Known {
    client: u32,
    txn: Txn,
    ret: Option<Ret>,
}

/// All operations, and the order of their calls and returns.
#[derive(Clone, Debug, Default)]
pub struct Record {
    known: Vec<Known>,
    /// Moments, operations, and whether they returned.
    moments: Vec<(Picos, usize, bool)>,
    /// What became of operations of which no client knows.
    settled: Settled,
}

impl Record {
    /// An operation begins; its number.
    pub fn call(&mut self, at: Picos, client: u32, transaction: &Transaction) -> usize {
        self.known.push(Known { client, txn: asked(transaction), ret: None });
        self.moments.push((at, self.known.len() - 1, false));
        self.known.len() - 1
    }

    /// It has ended so.
    pub fn returns(&mut self, at: Picos, number: usize, ret: Ret) {
        self.known[number].ret = Some(ret);
        self.moments.push((at, number, true));
    }

    /// No client knows what became of it: it was done with this LSN, or never.
    pub fn settle(&mut self, number: usize, lsn: Option<u64>) {
        self.settled.insert(number as u64, lsn);
    }

    /// What is known beside the history.
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// What the clients saw.
    pub fn history(&self) -> txn::History {
        let mut history = txn::History::new();
        for &(at, number, returned) in &self.moments {
            let Known { client, txn, ret } = &self.known[number];
            match ret {
                Some(ret) if returned => history.returns(at, number as u64, ret.clone()),
                _ => history.call(at, *client, number as u64, b"", txn.clone()),
            }
        }
        history
    }

    /// The last calls and returns, a line each.
    pub fn last(&self, count: usize) -> Vec<String> {
        let shown = &self.moments[self.moments.len().saturating_sub(count)..];
        let line = |(at, number, returned): &(Picos, usize, bool)| {
            let Known { client, txn, ret } = &self.known[*number];
            match ret {
                Some(Ret::Done(done)) if *returned => {
                    format!("{}: client {client}, operation {number}: {done}", moment(*at))
                }
                Some(Ret::Refused) if *returned => {
                    format!("{}: client {client}, operation {number}: refused", moment(*at))
                }
                _ => format!("{}: client {client}, operation {number}: [{txn}]", moment(*at)),
            }
        };
        shown.iter().map(line).collect()
    }
}

/// What a transaction asks.
pub fn asked(transaction: &Transaction) -> Txn {
    let condition = |condition: &Condition| match condition {
        Condition::Version(version) => txn::Condition::Version(*version),
        Condition::Exists => txn::Condition::Exists,
        Condition::Value(value) => txn::Condition::Value(Value::of(value)),
        Condition::AtLeast(least) => txn::Condition::AtLeast(*least),
    };
    let change = |change: &Change| match change {
        Change::Put(value) => txn::Change::Put(said(value)),
        Change::Delete => txn::Change::Delete,
        Change::Add(by) => txn::Change::Add(*by),
    };
    Txn {
        claim: transaction.claim,
        conditions: transaction.conditions.iter().map(|(key, c)| (key[..].into(), condition(c))).collect(),
        reads: transaction.reads.iter().map(|key| key[..].into()).collect(),
        writes: transaction.writes.iter().map(|(key, c)| (key[..].into(), change(c))).collect(),
    }
}

/// A value as histories have it: of a claim its number. No other value of a script begins as one.
fn said(value: &[u8]) -> Value {
    Claim::parse(value)
        .map_or_else(|| Value::of(value), |claim| Value::of(claim.number.to_string().as_bytes()))
}

/// What was answered.
pub fn answered(outcome: &Outcome) -> Done {
    let abort = |abort: &Abort| match abort {
        Abort::Condition(at) => txn::Abort::Condition(*at),
        Abort::NotANumber(at) => txn::Abort::NotANumber(*at),
        Abort::Overflow(at) => txn::Abort::Overflow(*at),
        Abort::NoRoom => txn::Abort::NoRoom,
        Abort::LongReply => txn::Abort::LongReply,
        Abort::Claimed => txn::Abort::Claimed,
    };
    let found = |found: &protocol::chain::transaction::Found| Found {
        version: found.version.0,
        value: said(&found.value),
    };
    Done {
        lsn: outcome.lsn.0,
        abort: outcome.abort.as_ref().map(abort),
        reads: outcome.reads.iter().map(|read| read.as_ref().map(found)).collect(),
        sums: outcome.sums.clone(),
    }
}
