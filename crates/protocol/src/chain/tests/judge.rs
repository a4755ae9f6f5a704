//! Looks into all machines after every event: what is committed is committed everywhere alike, and durable wherever it must be. At the end it
//! replays the whole order of transactions on a map, and compares what everybody was answered.

use super::world::World;
use crate::chain::claim::{CLAIM, Claim};
use crate::chain::transaction::{Abort, Change, Condition, Found};
use crate::chain::{Entry, Image, Log, Lsn, Outcome, Part, SessionId, Transaction};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// What was committed anywhere. Never changes.
    pub(super) order: BTreeMap<Lsn, Entry>,
    committed: Lsn,
    /// The image after each entry.
    digests: BTreeMap<Lsn, u64>,
    /// The highest LSN in any answer.
    pub(super) answered: Lsn,
    pub(super) violations: Vec<String>,
}

impl Judge {
    /// An operator accepts that what comes after `last` is lost.
    pub(super) fn accept_loss(&mut self, last: Lsn) {
        self.order.split_off(&last.next());
        self.digests.split_off(&last.next());
        self.committed = self.committed.min(last);
        self.answered = self.answered.min(last);
    }

    pub(super) fn violation(&mut self, what: String) {
        if self.violations.len() < 20 {
            self.violations.push(what);
        }
    }
}

impl World {
    /// What one machine did.
    pub(super) fn judge_now(&mut self, id: u16) {
        let Some(machine) = self.running.get(&id) else { return };
        let view = machine.view();
        let judge = &mut self.judge;
        if view.broken {
            judge.violation(format!("replica {id} is broken"));
        }
        let is_judged = view.part == Some(Part::Serving) && view.connected && !view.copying;
        if is_judged {
            for lsn in (view.first.0..=view.committed.0).rev().map(Lsn) {
                let Some(entry) = machine.log().read(lsn) else { continue };
                match judge.order.get(&lsn) {
                    None => drop(judge.order.insert(lsn, entry)),
                    Some(known) if *known == entry => break,
                    Some(known) => {
                        let what = format!("replica {id} commits {entry:?}, but {known:?} was committed");
                        judge.violation(what);
                        break;
                    }
                }
            }
            judge.committed = judge.committed.max(view.committed);
        }
        if !view.copying && is_judged {
            let digest = machine.image().digest();
            let known = *judge.digests.entry(view.applied).or_insert(digest);
            if known != digest {
                judge.violation(format!("replica {id} has another image after {}", view.applied.0));
            }
        }
        if view.applied > view.committed || (is_judged && view.durable > machine.log().last().0) {
            judge.violation(format!("replica {id}: {view:?}"));
        }
        self.judge_durable();
        self.judge_neighbours();
    }

    /// What is committed is durable at each that serves, whether it runs or not.
    fn judge_durable(&mut self) {
        let committed = self.judge.committed;
        for member in self.governor.configuration.serving() {
            let id = member.replica.0;
            let running = self.running.get(&id).filter(|machine| machine.incarnation() == member.incarnation);
            let log = running.map(|machine| machine.log()).or_else(|| Some(&self.disks.get(&id)?.log));
            let Some(log) = log else { continue };
            let is_there = log.durable() >= committed
                && log.read(committed).is_none_or(|entry| self.judge.order.get(&committed) == Some(&entry));
            if !is_there && self.judge.violations.is_empty() {
                let durable = log.durable().0;
                let what = format!("{} is committed, but replica {id} serves with {durable}", committed.0);
                self.judge.violation(what);
            }
        }
    }

    /// What a successor has received is durable at its predecessor.
    fn judge_neighbours(&mut self) {
        let views: BTreeMap<u16, _> =
            self.running.iter().map(|(id, machine)| (*id, machine.view())).collect();
        let members = &self.governor.configuration.members;
        for pair in members.windows(2) {
            let (Some(before), Some(after)) = (views.get(&pair[0].replica.0), views.get(&pair[1].replica.0))
            else {
                continue;
            };
            let connected = before.epoch == after.epoch && before.successor_connected && after.connected;
            let holds = after.copying || after.last <= self.running[&pair[0].replica.0].log().durable();
            let commits =
                before.committed <= after.last.max(after.committed) || pair[1].part == Part::Syncing;
            if connected && before.epoch == self.governor.configuration.epoch && !(holds && commits) {
                self.judge.violation(format!("neighbours: {before:?}, {after:?}"));
            }
        }
    }

    /// Replays everything, and compares.
    pub(super) fn judge_answers(&mut self) {
        let mut asked: BTreeMap<(SessionId, u64), (Transaction, Option<Outcome>, Lsn)> = BTreeMap::new();
        let mut reads = Vec::new();
        for ((_, id), one) in self.clients.asked.clone() {
            // Whoever asks the chain whose it is sees nothing of that.
            if let (Err(why), Some(_)) = (self.config.slots.check(&one.transaction), &one.outcome) {
                self.judge.violation(format!("answered, and not this chain's: {why}"));
            }
            if one.transaction.only_reads() {
                reads.extend(one.outcome.map(|outcome| (one.transaction, outcome, one.floor)));
            } else {
                asked.insert((id.session, id.sequence), (one.transaction, one.outcome, one.floor));
            }
        }
        let mut found = Vec::new();
        let mut done = BTreeSet::new();
        let mut model = Model::default();
        let mut states = BTreeMap::from([(Lsn::ZERO, model.clone())]);
        let mut answered_at = BTreeMap::new();
        for (lsn, entry) in &self.judge.order {
            if let Some((transaction, outcome, floor)) = asked.get(&(entry.session, entry.sequence)) {
                if !done.insert((entry.session, entry.sequence)) {
                    found.push(format!("{:?} {} is done twice, at {}", entry.session, entry.sequence, lsn.0));
                }
                let should = model.execute(*lsn, transaction);
                if let Some(is) = outcome.as_ref().filter(|is| is.lsn == *lsn) {
                    answered_at.insert(*lsn, ());
                    let is = (is.abort.is_some(), &is.reads, &is.sums);
                    if is != (should.0, &should.1, &should.2) {
                        found.push(format!("at {} {is:?}, but should be {should:?}", lsn.0));
                    }
                    if *lsn <= *floor {
                        found.push(format!("{} was asked for after {} was answered", lsn.0, floor.0));
                    }
                }
            }
            states.insert(*lsn, model.clone());
        }
        for (transaction, outcome, _) in asked.values() {
            if let Some(outcome) = outcome.as_ref().filter(|outcome| !answered_at.contains_key(&outcome.lsn))
            {
                found.push(format!("answered, and not in the order: {transaction:?} {outcome:?}"));
            }
        }
        for (transaction, outcome, floor) in &reads {
            found.extend(judge_read(&states, (transaction, outcome, *floor)));
        }
        found.into_iter().for_each(|what| self.judge.violation(what));
    }

    /// Nothing is wrong.
    pub(super) fn assert_well(&mut self) {
        self.judge_answers();
        assert!(self.judge.violations.is_empty(), "{:#?}", self.judge.violations);
    }
}

/// A map.
#[derive(Clone, Debug, Default)]
struct Model {
    items: BTreeMap<Vec<u8>, Found>,
}

type Done = (bool, Vec<Option<Found>>, Vec<i64>);

impl Model {
    fn number(&self, key: &[u8]) -> i64 {
        self.items.get(key).map_or(0, |item| String::from_utf8_lossy(&item.value).parse().expect("a number"))
    }

    /// Said once more than the machines say it: only what makes or ends a claim, and what is under the one that there is, writes.
    fn is_claimed(&self, transaction: &Transaction) -> bool {
        let claim = self.items.get(CLAIM).and_then(|item| Claim::parse(&item.value));
        let number = claim.map_or(0, |claim| claim.number);
        let keys: Vec<&[u8]> = transaction.writes.iter().map(|(key, _)| &key[..]).collect();
        let is_free = keys == [CLAIM] || (keys.is_empty() && transaction.claim == 0);
        !is_free && transaction.claim != number
    }

    fn execute(&mut self, lsn: Lsn, transaction: &Transaction) -> Done {
        if self.is_claimed(transaction) {
            return (true, vec![], vec![]);
        }
        let reads = transaction.reads.iter().map(|key| self.items.get(key).cloned()).collect();
        let holds = transaction.conditions.iter().all(|(key, condition)| match condition {
            Condition::Version(version) => self.items.get(key).map_or(0, |item| item.version.0) == *version,
            Condition::Exists => self.items.contains_key(key),
            Condition::Value(value) => self.items.get(key).is_some_and(|item| item.value == *value),
            Condition::AtLeast(least) => self.number(key) >= *least,
        });
        if !holds {
            return (true, reads, vec![]);
        }
        let mut sums = Vec::new();
        for (key, change) in &transaction.writes {
            let value = match change {
                Change::Put(value) => value.clone(),
                Change::Add(amount) => {
                    sums.push(self.number(key) + amount);
                    (self.number(key) + amount).to_string().into_bytes()
                }
                Change::Delete => {
                    self.items.remove(key);
                    continue;
                }
            };
            self.items.insert(key.clone(), Found { version: lsn, value });
        }
        (false, reads, sums)
    }
}

/// What is wrong with the outcome of a transaction that only read, asked for after `floor` was answered.
fn judge_read(
    states: &BTreeMap<Lsn, Model>,
    (transaction, outcome, floor): (&Transaction, &Outcome, Lsn),
) -> Vec<String> {
    let mut found = Vec::new();
    let is_claimed = outcome.abort == Some(Abort::Claimed);
    for at in [outcome.lsn, floor.max(outcome.lsn)] {
        let state = states.range(..=at).next_back().map(|(_, state)| state).expect("there is a first");
        if state.is_claimed(transaction) != is_claimed {
            found.push(format!("at {} {transaction:?} came to {outcome:?}", at.0));
        }
        for (key, is) in transaction.reads.iter().zip(&outcome.reads) {
            let should = state.items.get(key);
            if should != is.as_ref() {
                let key = key.escape_ascii().to_string();
                let (read_at, floor) = (outcome.lsn.0, floor.0);
                found.push(format!(
                    "{key:?} was read as {is:?} at {read_at}, after {floor} was answered; at {} it is {should:?}",
                    at.0
                ));
            }
        }
    }
    found
}
