//! Which chain a transaction of the commands goes to, where items lie in several, by the slots of their keys.
//!
//! ```text
//!  Chained ─▶ transaction ─┬ of one item ─▶ the chain that has its slot
//!                          └ of a flush ──▶ every chain; done when it is in all of them
//! ```
//! A flush is one moment in each chain, and there is none that is the same in all: a transaction of somebody else may find the items of one chain flushed
//! before those of another are. The server's own commands cannot, since nothing is under way while it flushes ([`super::Chained`], invariant 5).
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
    flushes: HashMap<u64, (usize, Vec<Answer>)>,
    bugs: B,
}

impl<B: Bugs<Planted>> Spread<B> {
    /// Over chains that have slots as the map says.
    pub fn new(map: Map, bugs: B) -> Spread<B> {
        Spread { map, flushes: HashMap::new(), bugs }
    }

    /// Where the transaction of this number goes: the places of its chains.
    pub fn send(&mut self, number: u64, transaction: &Transaction) -> std::ops::Range<usize> {
        match self.map.route(transaction) {
            Ok(Some(at)) => at..at + 1,
            Ok(None) => {
                let chains = if self.bugs.has(Planted::FlushFirst) { 1 } else { self.map.chains() };
                self.flushes.insert(number, (chains, Vec::with_capacity(chains)));
                0..chains
            }
            // Commands have one item. Nothing is sent, and nobody answers.
            Err(across) => unreachable!("a transaction of one item is in one chain: {across:?}"),
        }
    }

    /// What a chain answered to the transaction of this number: what its commands are to hear, if that is all of it.
    pub fn hear(&mut self, number: u64, answer: Answer) -> Option<Answer> {
        let Some((left, answers)) = self.flushes.get_mut(&number) else { return Some(answer) };
        *left -= 1;
        answers.push(answer);
        if *left > 0 && !self.bugs.has(Planted::FlushOne) {
            return None;
        }
        let (_, answers) = self.flushes.remove(&number)?;
        Some(together(answers))
    }
}

/// What the answers of all chains come to. There is one at least.
fn together(mut answers: Vec<Answer>) -> Answer {
    let is_done = |answer: &Answer| matches!(answer, Answer::Done(Outcome { abort: None, .. }));
    let is_open = |answer: &Answer| matches!(answer, Answer::Unknown);
    let (done, open) = (answers.iter().any(is_done), answers.iter().any(is_open));
    match answers.iter().all(is_done) {
        false if done || open => Answer::Unknown,
        _ => answers.pop().expect("a chain answered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chain::attributes::FLUSHED;
    use protocol::chain::slots::Slots;
    use protocol::chain::transaction::Abort;
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
        // Slot 12182.
        assert_eq!(spread.send(1, &super::super::item::read(b"foo")), 2..3);
        assert_eq!(spread.hear(1, Answer::NotDone), Some(Answer::NotDone));
        let flush = Transaction { reads: vec![FLUSHED.to_vec()], ..Transaction::default() };
        assert_eq!(spread.send(2, &flush), 0..3);
        assert_eq!((spread.hear(2, done(None)), spread.hear(2, done(None))), (None, None));
        assert_eq!(spread.hear(2, done(None)), Some(done(None)));
        let mut alone = Spread::new(Map::alone(), NoBugs);
        assert_eq!(alone.send(3, &flush), 0..1);
        assert_eq!(alone.hear(3, done(None)), Some(done(None)));
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
