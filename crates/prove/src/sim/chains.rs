//! What a home whose items lie in a chain has behind it: a chain, which answers late, in any order, not at all, or says that nobody knows, and may do
//! then what was asked long after.
//!
//! It is a [`Map`]: what replicas do among each other is `sim --chain`. When a home ends, of what it had under way each transaction is done or never
//! will be, as if the next life had claimed the chain.

use base::Prng;
use protocol::chain::Transaction;
use protocol::chain::attributes::FLUSHED;
use protocol::planted::NoBugs;
use protocol::wire::Version;
use serve::kv::Transactions;
use serve::kv::service::chained::item::{self, Seen};
use serve::kv::service::chained::map::Map;
use serve::kv::service::chained::{Answer, is_there};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One transaction in so many has no good end.
const BAD_ONE_IN: u64 = 8;
/// Of flushes, which are rare, one in so many.
const BAD_FLUSH_ONE_IN: u64 = 2;
/// While others are under way, one step in so many is that of something late: it is to meet what came long after it.
const LATE_ONE_IN: u64 = 64;

#[derive(Debug, Default)]
struct State {
    map: Map,
    asked: Vec<(u64, Transaction)>,
    /// On their way back.
    answers: Vec<(u64, Answer)>,
    heard: Vec<(u64, Answer)>,
    /// Nobody waits for these any more, and they may be done.
    late: Vec<Transaction>,
}

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something at the chain.
    There,
    /// An answer has arrived.
    Answered,
    /// It was said of a write that nobody knows.
    Unknown,
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Chain(Arc<Mutex<State>>);

impl Chain {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody waits for something that is under way.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        !state.asked.is_empty() || !state.answers.is_empty()
    }

    /// Whether something may be done that nobody waits for.
    pub fn has_late(&self) -> bool {
        !self.state().late.is_empty()
    }

    /// Does one of what is under way.
    pub fn step(&self, luck: &mut Prng, is_calm: bool) -> Step {
        let mut state = self.state();
        let State { map, asked, answers, heard, late } = &mut *state;
        let one_of = |count: usize, luck: &mut Prng| luck.below(count as u64) as usize;
        let is_idle = asked.is_empty() && answers.is_empty();
        match luck.below(LATE_ONE_IN) {
            turn if !late.is_empty() && (turn == 0 || is_idle) => {
                let at = one_of(late.len(), luck);
                map.execute(&late.swap_remove(at));
            }
            turn if !asked.is_empty() && turn % 2 == 0 => {
                let (number, transaction) = asked.swap_remove(one_of(asked.len(), luck));
                let flushes = transaction.writes.iter().any(|(key, _)| key == FLUSHED);
                let is_bad = luck.below(if flushes { BAD_FLUSH_ONE_IN } else { BAD_ONE_IN }) == 0;
                let is_bad = is_bad && !is_calm;
                let (answer, step) = match luck.below(4) {
                    _ if !is_bad => (Answer::Done(map.execute(&transaction)), Step::There),
                    0 => (Answer::NotDone, Step::There),
                    _ if transaction.only_reads() => (Answer::NotDone, Step::There),
                    1 => {
                        map.execute(&transaction);
                        (Answer::Unknown, Step::Unknown)
                    }
                    2 => (Answer::Unknown, Step::Unknown),
                    _ => {
                        late.push(transaction);
                        (Answer::Unknown, Step::Unknown)
                    }
                };
                answers.push((number, answer));
                return step;
            }
            _ if !answers.is_empty() => {
                heard.push(answers.swap_remove(one_of(answers.len(), luck)));
                return Step::Answered;
            }
            _ => {}
        }
        Step::There
    }

    /// The home ends.
    pub fn end(&self, luck: &mut Prng) {
        let mut state = self.state();
        let State { map, asked, answers, heard, late } = &mut *state;
        for transaction in asked.drain(..).map(|(_, transaction)| transaction).chain(late.drain(..)) {
            if luck.below(2) == 0 {
                map.execute(&transaction);
            }
        }
        answers.clear();
        heard.clear();
    }

    /// The version and value of an item at that second.
    pub fn peek(&self, key: &[u8], second: u32) -> Option<(Version, Vec<u8>)> {
        let outcome = self.state().map.clone().execute(&item::read(key));
        let seen = Seen::of(outcome, &NoBugs).filter(|seen| is_there(seen, second))?;
        seen.item.map(|item| (Version(item.state.version), item.value))
    }
}

impl Transactions for Chain {
    fn send(&mut self, mut transactions: Vec<(u64, Transaction)>) {
        self.state().asked.append(&mut transactions);
    }

    fn take_done(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.state().heard)
    }
}
