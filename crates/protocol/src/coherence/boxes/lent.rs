//! Owned keys that a box lends to a faster tier, which answers for them before the box hears of a request.
//!
//! ```text
//!  owned ──lend: item, sessions, room──▶ lent: the faster tier answers, the machine does not touch it
//!        ◀──take back: item, what was done──   before a message that means the key, and when its time is over
//! ```
//! At any moment one of the two has the truth of an owned key. The machine takes a key back before it looks at it: to do a write that the
//! tier could not judge, to answer a read, to give the key home. So all that docs/design/004-box.md says of an owner holds of the two together.
//!
//! What a tier may do is a [`Loan`]: writes of told sessions that were certainly not begun, once each, with versions of the owner's, as many as
//! there is room for, until the end that the loan says. What it does not know for certain it passes on to the machine: also what it did
//! itself, once more; the machine finds that among the records that come back.
//!
//! [`Loan::write`] is those rules once, in safe Rust: [`Model`] is a tier made of them, for simulations; the XDP program is held against it.
//!
//! Invariants
//! 1. A key that is lent is not touched here; asserted in [`super::owned`].
//! 2. When [`FastTier::take_back`] returns, the tier answers nothing for the key, and all that it answered is in what it returns.
//! 3. A loan ends no later than the owner's time.

use super::super::compute::{self, Effect, Item, Operation};
use super::super::lease::runs;
use super::super::ownership::{Answer, Record, Told, is_ownable, outcome_of};
use super::super::{NodeId, Out, Planted};
use super::Box;
use super::copies::Kept;
use super::owned::item_of;
use crate::planted::{Bugs, NoBugs};
use crate::wire::{Control, Flags, KeyHash, Message, Opcode, Status, Verb, Version};
use base::Nanos;
use std::collections::BTreeMap;

/// An owned key, as the tier has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loan {
    /// What is there, and until when the tier may answer.
    pub kept: Kept,
    /// The version of the next write that stores.
    pub next: Version,
    /// The sessions whose writes it may do; what the owner has done, the tier too, counts as begun.
    pub told: Vec<Told>,
    /// Writes that it may still do.
    pub room: usize,
    /// Those that it has done.
    pub done: Vec<Record>,
}

impl Loan {
    /// Does a write that was certainly not done yet. None, and nothing happens, where it is not known, or there is no room.
    pub fn write(&mut self, verb: Verb, request: &Message) -> Option<Answer> {
        let header = &request.header;
        let is_its = |told: &&mut Told| (told.session, told.client) == (header.round, header.client);
        let told = self.told.iter_mut().find(is_its)?;
        if !told.is_new(header.operation) || self.room == 0 {
            return None;
        }
        let answer = change(&mut self.kept, &mut self.next, verb, request);
        told.begin(header.operation);
        self.room -= 1;
        self.done.push(Record { session: header.round, operation: header.operation, answer });
        Some(answer)
    }
}

/// Does a write to an item; one that stores has the next version.
pub(super) fn change(kept: &mut Kept, next: &mut Version, verb: Verb, request: &Message) -> Answer {
    let item: Item = item_of(kept);
    let outcome = compute::apply(&Operation::of(verb, request), Some(&item));
    if let Effect::Store { value, flags, kind, .. } = outcome.effect {
        (kept.value, kept.flags, kept.kind) = (value, flags, kind);
        kept.version = *next;
        next.0 += 1;
    }
    Answer { status: outcome.status, version: kept.version, number: outcome.number }
}

/// A tier that can answer for owned keys.
pub trait FastTier {
    /// Takes a key. False where it has no room: the machine answers.
    fn lend(&mut self, loan: &Loan) -> bool;

    /// Gives a key back that it took: item, next version and what was done are the tier's. When this returns it answers nothing for it.
    fn take_back(&mut self, hash: KeyHash) -> Loan;
}

impl<B: Bugs<Planted>> Box<B> {
    /// Takes a message that the tier did not answer.
    pub fn handle_behind(
        &mut self,
        tier: &mut impl FastTier,
        now: Nanos,
        from: NodeId,
        message: &Message,
        out: &mut Out,
    ) {
        self.take_back(tier, now, Some(message));
        self.handle(now, from, message, out);
        let serves_on = self.planted.has(Planted::LentServesOn);
        if let Some(loan) = self.owned.loan(message.hash(), &message.key, now, serves_on)
            && tier.lend(&loan)
        {
            self.owned.lent(message.hash());
        }
    }

    /// Serves what is due.
    pub fn tick_behind(&mut self, tier: &mut impl FastTier, now: Nanos, out: &mut Out) {
        self.take_back(tier, now, None);
        self.tick(now, out);
    }

    /// Takes back what the machine will look at: what is over, and what the message means.
    fn take_back(&mut self, tier: &mut impl FastTier, now: Nanos, message: Option<&Message>) {
        let mut hashes = self.owned.lent_due(now);
        match message {
            Some(message) if !message.key.is_empty() => hashes.push(message.hash()),
            Some(message) if message.header.opcode == Opcode::Control(Control::Invalidate) => {
                hashes.extend(self.owned.lent_of(message.header.home));
            }
            _ => {}
        }
        for hash in hashes {
            if self.owned.is_lent(hash) {
                let mut loan = tier.take_back(hash);
                if self.planted.has(Planted::LentForgotten) {
                    loan.done.clear();
                }
                self.stats.owned += loan.done.len() as u64;
                self.owned.taken_back(hash, loan);
            }
        }
    }
}

/// A faster tier in safe Rust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model<B = NoBugs> {
    loans: BTreeMap<KeyHash, Loan>,
    planted: B,
}

impl<B: Bugs<Planted>> Model<B> {
    /// With mistakes made on purpose.
    pub fn with_bugs(planted: B) -> Model<B> {
        Model { loans: BTreeMap::new(), planted }
    }

    /// The reply to a client's write of a lent key; none where it goes up.
    pub fn answer(&mut self, now: Nanos, from: NodeId, request: &Message) -> Option<Message> {
        let Opcode::Request(verb) = request.header.opcode else { return None };
        let is_plain = request.header.flags == Flags::OWNABLE && request.value.is_empty();
        if !is_ownable(verb) || !is_plain || !matches!(from, NodeId::Client(_)) {
            return None;
        }
        let loan = self.loans.get_mut(&request.hash())?;
        if loan.kept.key != request.key || !runs(loan.kept.end(), now) {
            return None;
        }
        let told = self.planted.has(Planted::LentTwice).then(|| loan.told.clone());
        let answer = loan.write(verb, request)?;
        told.into_iter().for_each(|told| loan.told = told);
        if self.planted.has(Planted::LentVersions) && answer.status == Status::Ok {
            loan.kept.version.0 += super::super::ownership::MOST_RECORDS as u64;
        }
        let mut reply = outcome_of(request, Answer { version: loan.kept.version, ..answer });
        reply.header.flags = Flags::FROM_BOX;
        Some(reply)
    }
}

impl<B: Bugs<Planted>> FastTier for Model<B> {
    fn lend(&mut self, loan: &Loan) -> bool {
        self.loans.insert(loan.kept.hash, loan.clone());
        true
    }

    fn take_back(&mut self, hash: KeyHash) -> Loan {
        let keeps = self.planted.has(Planted::LentKept);
        let loan = if keeps { self.loans.get(&hash).cloned() } else { self.loans.remove(&hash) };
        loan.expect("what is taken back was lent")
    }
}

/// A box with a tier before it, or none, for simulations: what the tier answers the machine does not hear.
#[derive(Clone, Debug)]
pub struct Fronted<B = NoBugs> {
    machine: Box<B>,
    tier: Option<Model<B>>,
}

impl<B: Bugs<Planted>> Fronted<B> {
    /// Of a box that owns nothing yet.
    pub fn new(machine: Box<B>, tier: Option<Model<B>>) -> Fronted<B> {
        Fronted { machine, tier }
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let Some(tier) = &mut self.tier else { return self.machine.handle(now, from, message, out) };
        match tier.answer(now, from, message) {
            Some(mut reply) => {
                // The machine writes its epoch into what clients say.
                reply.header.epoch = self.machine.table.epoch();
                out.push((from, reply));
            }
            None => self.machine.handle_behind(tier, now, from, message, out),
        }
    }

    /// Serves what is due.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        match &mut self.tier {
            Some(tier) => self.machine.tick_behind(tier, now, out),
            None => self.machine.tick(now, out),
        }
    }
}

impl<B> std::ops::Deref for Fronted<B> {
    type Target = Box<B>;

    fn deref(&self) -> &Box<B> {
        &self.machine
    }
}

impl<B> std::ops::DerefMut for Fronted<B> {
    fn deref_mut(&mut self) -> &mut Box<B> {
        &mut self.machine
    }
}

#[cfg(test)]
mod tests;
