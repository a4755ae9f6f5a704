//! Which chain a transaction of the commands goes to, where items lie in several, by the slots of their keys.
//!
//! ```text
//!  Chained ─▶ transaction ─┬ of one item ─▶ the chain that has its slot
//!                          └ of a flush ──▶ every chain; done when it is in all of them
//! ```
//! A flush is one moment in each chain, and there is none that is the same in all: a transaction of somebody else may find the items of one chain flushed
//! before those of another are. The server's own commands cannot, since nothing is under way while it flushes ([`super::Chained`], invariant 5). Before boxes
//! a flush has the condition that nobody flushed since it was looked: what was found in the chains is read in their order, and the flush has a condition for
//! each of them in the same order. Nothing of it is kept here.
//!
//! Invariant: a flush is said to be done when every chain has done it, and not to be done when none has; of what is between, that it may have been.
//!
//! Tests: `millrace/tests/over_chain/judged.rs`, with [`Planted`]; at the end.

use super::Answer;
use protocol::chain::slots::Map;
use protocol::chain::{Outcome, Transaction};
use protocol::planted::{Bugs, NoBugs};
use std::collections::HashMap;

/// Mistakes that can be made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A flush is done when one chain has done it.
    FlushOne,
    /// A flush goes to the first chain alone.
    FlushFirst,
}

/// See the head of the file.
pub struct Spread<B = NoBugs> {
    map: Map,
    /// Flushes under way: chains that have not answered, and what those that have did.
    flushes: HashMap<u64, (usize, Vec<(usize, Answer)>)>,
    bugs: B,
}

impl<B: Bugs<Planted>> Spread<B> {
    /// Over chains that have slots as the map says.
    pub fn new(map: Map, bugs: B) -> Spread<B> {
        Spread { map, flushes: HashMap::new(), bugs }
    }

    /// Which slots are whose.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// What goes where of the transaction of this number: places of chains, and what each is to do.
    pub fn send(&mut self, number: u64, transaction: Transaction) -> Vec<(usize, Transaction)> {
        match self.map.route(&transaction) {
            Ok(Some(at)) => vec![(at, transaction)],
            Ok(None) => {
                let chains = if self.bugs.has(Planted::FlushFirst) { 1 } else { self.map.chains() };
                self.flushes.insert(number, (chains, Vec::with_capacity(chains)));
                (0..chains).map(|at| (at, of_chain(at, &transaction))).collect()
            }
            // Commands have one item. Nothing is sent, and nobody answers.
            Err(across) => unreachable!("a transaction of one item is in one chain: {across:?}"),
        }
    }

    /// What the chain at this place answered to the transaction of this number: what its commands are to hear, if that is all of it.
    pub fn hear(&mut self, at: usize, number: u64, answer: Answer) -> Option<Answer> {
        let Some((left, answers)) = self.flushes.get_mut(&number) else { return Some(answer) };
        *left -= 1;
        let looks = matches!(&answer, Answer::Done(outcome) if !outcome.reads.is_empty());
        answers.push((at, answer));
        if *left > 0 && (looks || !self.bugs.has(Planted::FlushOne)) {
            return None;
        }
        let (_, mut answers) = self.flushes.remove(&number)?;
        // Of several that say the same, always that of the same chain.
        answers.sort_by_key(|(at, _)| *at);
        Some(together(answers.into_iter().map(|(_, answer)| answer).collect()))
    }
}

/// A flush, or what looks for one, as the chain at this place is asked.
fn of_chain(at: usize, transaction: &Transaction) -> Transaction {
    let conditions = transaction.conditions.get(at).cloned();
    Transaction { conditions: conditions.into_iter().collect(), ..transaction.clone() }
}

/// What the answers of all chains, in their order, come to. There is one at least. What was read is that of all of them.
fn together(mut answers: Vec<Answer>) -> Answer {
    let is_done = |answer: &Answer| matches!(answer, Answer::Done(Outcome { abort: None, .. }));
    let is_open = |answer: &Answer| matches!(answer, Answer::Unknown);
    let (done, open) = (answers.iter().any(is_done), answers.iter().any(is_open));
    match answers.iter().all(is_done) {
        false if done || open => Answer::Unknown,
        false => answers.pop().expect("a chain answered"),
        true => {
            let outcomes = answers.into_iter().filter_map(|answer| match answer {
                Answer::Done(outcome) => Some(outcome),
                Answer::NotDone | Answer::Unknown => None,
            });
            let all = outcomes.reduce(|mut all, mut last| {
                all.reads.append(&mut last.reads);
                Outcome { reads: all.reads, ..last }
            });
            Answer::Done(all.expect("a chain answered"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chain::attributes::FLUSHED;
    use protocol::chain::slots::Slots;
    use protocol::chain::transaction::{Abort, Change, Condition, Found};
    use protocol::chain::{Durability, Lsn};

    fn done(abort: Option<Abort>) -> Answer {
        let outcome = Outcome {
            lsn: Lsn(1),
            abort,
            reads: vec![],
            sums: vec![],
            durability: Durability::Volatile,
            copies: 1,
        };
        Answer::Done(outcome)
    }

    #[test]
    fn an_item_goes_to_its_chain_and_a_flush_to_all() {
        let shares: Vec<Slots> = (0..3).map(|at| Slots::share(at, 3)).collect();
        let mut spread = Spread::new(Map::new(&shares).expect("a map"), NoBugs);
        let places = |sent: Vec<(usize, Transaction)>| sent.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        // Slot 12182.
        assert_eq!(places(spread.send(1, super::super::item::read(b"foo"))), [2]);
        assert_eq!(spread.hear(2, 1, Answer::NotDone), Some(Answer::NotDone));
        let flush =
            Transaction { writes: vec![(FLUSHED.to_vec(), Change::Put(vec![]))], ..Transaction::default() };
        assert_eq!(places(spread.send(2, flush.clone())), [0, 1, 2]);
        assert_eq!((spread.hear(0, 2, done(None)), spread.hear(2, 2, done(None))), (None, None));
        assert_eq!(spread.hear(1, 2, done(None)), Some(done(None)));
        let mut alone = Spread::new(Map::alone(), NoBugs);
        assert_eq!(places(alone.send(3, flush)), [0]);
        assert_eq!(alone.hear(0, 3, done(None)), Some(done(None)));
    }

    #[test]
    fn a_flush_has_for_each_chain_what_was_found_there_as_condition() {
        let shares: Vec<Slots> = (0..2).map(|at| Slots::share(at, 2)).collect();
        let mut spread = Spread::new(Map::new(&shares).expect("a map"), NoBugs);
        spread.send(1, Transaction { reads: vec![FLUSHED.to_vec()], ..Transaction::default() });
        let found = |versions: &[u64]| {
            let found = |version: &u64| Some(Found { version: Lsn(*version), value: vec![] });
            let Answer::Done(outcome) = done(None) else { unreachable!("it is done") };
            Answer::Done(Outcome { reads: versions.iter().map(found).collect(), ..outcome })
        };
        assert_eq!(spread.hear(1, 1, found(&[70])), None);
        assert_eq!(spread.hear(0, 1, found(&[5])), Some(found(&[5, 70])), "in the order of the chains");
        let conditions = [5, 70].map(|version| (FLUSHED.to_vec(), Condition::Version(version))).into();
        let sent = spread.send(2, Transaction { conditions, ..Transaction::default() });
        let conditions: Vec<_> = sent.into_iter().map(|(_, its)| its.conditions).collect();
        let only = |version| vec![(FLUSHED.to_vec(), Condition::Version(version))];
        assert_eq!(conditions, [only(5), only(70)]);
    }

    #[test]
    fn a_flush_that_some_chains_did_may_have_been_done() {
        let full = || done(Some(Abort::NoRoom));
        for (answers, expected) in [
            (vec![done(None), Answer::NotDone], Answer::Unknown),
            (vec![Answer::NotDone, Answer::Unknown], Answer::Unknown),
            (vec![Answer::NotDone, Answer::NotDone], Answer::NotDone),
            (vec![full(), done(None)], Answer::Unknown),
            (vec![Answer::NotDone, full()], full()),
            (vec![done(None), done(None)], done(None)),
        ] {
            assert_eq!(together(answers.clone()), expected, "{answers:?}");
        }
    }
}
