//! Transactions that only read. They do not enter the chain.
//!
//! The tail answers from its image: everything that was ever answered is applied there. Another serving replica answers at once if no entry that is
//! logged and not applied writes one of the keys, since whatever is committed went through its log; else it asks the tail up to where everything is
//! committed, and answers when that is applied here.
//!
//! Invariants: 1. all keys of a transaction, and the claim that it is made under, are read at one moment; 2. nothing is answered at once
//! without a lease, and by the tail only when no
//! replica reads by an earlier configuration, and everything is applied that an earlier tail may have committed.
//!
//! Bounds: `queue` reads wait, for at most `retransmit_max`; then they are sent elsewhere.

use super::Replica;
use super::evaluate::{evaluate_under, user};
use crate::chain::message::{Refusal, RequestId};
use crate::chain::transaction::{Abort, Outcome};
use crate::chain::{Image, Key, Log, Lsn, Message, NodeId, Out, Planted, Transaction, claim};
use crate::planted::Bugs;
use base::Nanos;
use std::collections::BTreeMap;

/// Reads that wait, and what is known of keys that are not clean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reads {
    next_token: u64,
    waiting: BTreeMap<u64, Waiting>,
    dirty: Dirty,
}

/// A read that waits for the tail's word, then for that to be applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    from: NodeId,
    id: RequestId,
    transaction: Transaction,
    until: Nanos,
    after: Option<Lsn>,
}

/// The last entry that writes a key, of those that were looked at. Entries are looked at when a read comes: who answers none pays nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Dirty {
    upto: Lsn,
    keys: BTreeMap<Key, Lsn>,
}

impl Reads {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.waiting.first_key_value().map_or(Nanos::MAX, |(_, first)| first.until)
    }

    /// The log was cut.
    pub(super) fn forget_dirty(&mut self) {
        self.dirty = Dirty::default();
    }
}

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    pub(super) fn hear_read(
        &mut self,
        now: Nanos,
        from: NodeId,
        id: RequestId,
        transaction: Transaction,
        out: &mut Out,
    ) {
        let is_serving = self.seat.is_some_and(|seat| seat.is_serving());
        if !is_serving || !self.lease.runs(now, &self.bugs) {
            return self.refuse_elsewhere(from, id, self.tail_elsewhere(), out);
        }
        if self.is_tail() {
            return match self.reads_as_tail(now) {
                true => self.answer_read(from, id, &transaction, out),
                false => self.refuse(from, id, Refusal::Busy, out),
            };
        }
        if self.bugs.has(Planted::ReadDirty) || self.is_clean(&transaction) {
            return self.answer_read(from, id, &transaction, out);
        }
        self.ask_tail(now, from, id, transaction, out);
    }

    /// Whether it is a tail that may answer now.
    fn reads_as_tail(&self, now: Nanos) -> bool {
        let agreed = self.up.connected || self.seat.is_some_and(|seat| seat.is_head());
        let is_current = agreed && self.copying.is_none() && self.image.applied() >= self.committed;
        let is_settled = is_current && self.lease.grant.settled;
        let hurries = self.bugs.has(Planted::ServeUnsettled);
        self.is_tail() && (is_settled || hurries) && self.lease.runs(now, &self.bugs)
    }

    fn answer_read(&mut self, from: NodeId, id: RequestId, transaction: &Transaction, out: &mut Out) {
        self.stats.reads += 1;
        let claim = if transaction.claim == 0 { 0 } else { claim::number_of(&self.image) };
        let done = evaluate_under(&self.image, claim, transaction);
        let mut outcome = Outcome {
            lsn: self.image.applied(),
            abort: done.abort,
            reads: done.reads,
            sums: done.sums,
            durability: self.log.class(),
            copies: 1,
        };
        if outcome.bytes() > transaction.max_reply() {
            outcome = Outcome { abort: Some(Abort::LongReply), reads: vec![], ..outcome };
        }
        out.push((from, Message::Reply { id, outcome }));
    }

    /// Whether no entry that is logged and not applied writes one of the keys. One that cannot be read may.
    fn is_clean(&mut self, transaction: &Transaction) -> bool {
        let (applied, last) = (self.image.applied(), self.log.last().0);
        let dirty = &mut self.reads.dirty;
        for lsn in (dirty.upto.max(applied).0 + 1..=last.0).map(Lsn) {
            let Some(entry) = self.recent.entry(&self.log, lsn) else { return false };
            dirty.keys.extend(self.image.keys(&entry.tuples).into_iter().map(|key| (key, lsn)));
            dirty.upto = lsn;
        }
        dirty.keys.retain(|_, lsn| *lsn > applied);
        let looks_at_claim = transaction.claim != 0 && !self.bugs.has(Planted::ReadDirtyClaim);
        let claim = looks_at_claim.then_some(claim::CLAIM);
        transaction.keys().into_iter().chain(claim).all(|key| !dirty.keys.contains_key(&user(key)))
    }

    fn ask_tail(&mut self, now: Nanos, from: NodeId, id: RequestId, transaction: Transaction, out: &mut Out) {
        let Some(tail) = self.tail_elsewhere().filter(|_| self.reads.waiting.len() < self.config.queue)
        else {
            return self.refuse(from, id, Refusal::Busy, out);
        };
        self.stats.asked += 1;
        self.reads.next_token += 1;
        let token = self.reads.next_token;
        let until = now.plus(self.config.retransmit_max);
        self.reads.waiting.insert(token, Waiting { from, id, transaction, until, after: None });
        let ask = Message::AskCommitted { epoch: self.configuration.epoch, token };
        out.push((NodeId::Replica(tail), ask));
    }

    pub(super) fn hear_ask_committed(&mut self, now: Nanos, from: NodeId, token: u64, out: &mut Out) {
        if self.reads_as_tail(now) {
            let (epoch, lsn) = (self.configuration.epoch, self.committed);
            out.push((from, Message::Committed { epoch, token, lsn }));
        }
    }

    pub(super) fn hear_committed(&mut self, token: u64, lsn: Lsn) {
        if let Some(read) = self.reads.waiting.get_mut(&token) {
            read.after = Some(lsn);
        }
    }

    /// Answers whoever waited for what is applied now.
    pub(super) fn answer_reads(&mut self, out: &mut Out) {
        let applied = self.image.applied();
        let is_due = |read: &Waiting| read.after.is_some_and(|after| after <= applied);
        let due = self.reads.waiting.iter().filter(|(_, read)| is_due(read));
        let due: Vec<u64> = due.map(|(token, _)| *token).collect();
        for token in due {
            let Some(read) = self.reads.waiting.remove(&token) else { continue };
            self.answer_read(read.from, read.id, &read.transaction, out);
        }
    }

    /// Sends elsewhere whoever waited too long.
    pub(super) fn expire_reads(&mut self, now: Nanos, out: &mut Out) {
        while let Some(first) = self.reads.waiting.first_entry()
            && first.get().until <= now
        {
            let read = first.remove();
            self.refuse_elsewhere(read.from, read.id, self.tail_elsewhere(), out);
        }
    }

    /// Sends all elsewhere.
    pub(super) fn refuse_reads(&mut self, out: &mut Out) {
        for (_, read) in std::mem::take(&mut self.reads.waiting) {
            self.refuse_elsewhere(read.from, read.id, self.tail_elsewhere(), out);
        }
    }
}
