//! How a transaction is taken through the chain: whole, or one operation after the other.
//!
//! The baseline is what can be done with primitives that change one value in each pass over a chain, as HyperLoop's group operations do; it runs over the
//! same replicas, log and client as ours, so that nothing differs but the passes. It gives up atomicity (or pays two more passes
//! for a lock), which its figures do not show.

use protocol::chain::Transaction;
use serde::Serialize;
use std::fmt;

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The whole transaction in one pass; what only reads is answered by the tail
    Combined,
    /// Each read and each write in a pass of its own through the whole chain
    OneOperationPerPass,
    /// As one-operation-per-pass, after a pass that locks the keys and before one that unlocks them
    OneOperationPerPassLocked,
    /// As one-operation-per-pass, but reads are answered by the tail
    OneOperationPerPassReadsAtTail,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Combined => "combined",
            Mode::OneOperationPerPass => "one-operation-per-pass",
            Mode::OneOperationPerPassLocked => "one-operation-per-pass, locked",
            Mode::OneOperationPerPassReadsAtTail => "one-operation-per-pass, reads at the tail",
        })
    }
}

/// One pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// What it does for the transaction.
    Work(Transaction),
    /// Takes locks; tried again until it gets them.
    Lock(Transaction),
    /// Gives them back.
    Unlock(Transaction),
}

impl Pass {
    /// What is sent.
    pub fn transaction(&self) -> &Transaction {
        match self {
            Pass::Work(transaction) | Pass::Lock(transaction) | Pass::Unlock(transaction) => transaction,
        }
    }
}

/// The passes that a transaction takes in a mode. `lane` is whose it is: what a read writes so that it goes through the chain is
/// a key of that lane, which is never there.
pub fn passes(whole: Transaction, mode: Mode, lane: u64) -> Vec<Pass> {
    if mode == Mode::Combined {
        return vec![Pass::Work(whole)];
    }
    let keys: Vec<Vec<u8>> = whole.keys().iter().map(|key| [b"lock:", *key].concat()).collect();
    let mut passes = Vec::new();
    if mode == Mode::OneOperationPerPassLocked {
        let lock =
            |taken: Transaction, key: &Vec<u8>| taken.if_missing(&key[..]).put(&key[..], lane.to_string());
        passes.push(Pass::Lock(keys.iter().fold(Transaction::new(), lock)));
    }
    for key in whole.reads {
        let read = Transaction::new().get(key);
        passes.push(Pass::Work(match mode {
            Mode::OneOperationPerPassReadsAtTail => read,
            _ => read.delete(format!("pass:{lane}")),
        }));
    }
    let mut conditions = whole.conditions;
    for (key, change) in whole.writes {
        let (own, others) = conditions.into_iter().partition(|(of, _)| *of == key);
        conditions = others;
        passes.push(Pass::Work(Transaction {
            conditions: own,
            reads: Vec::new(),
            writes: vec![(key, change)],
            ..Transaction::default()
        }));
    }
    for condition in conditions {
        let pass = Transaction { conditions: vec![condition], ..Transaction::default() };
        passes.push(Pass::Work(match mode {
            Mode::OneOperationPerPassReadsAtTail => pass,
            _ => pass.delete(format!("pass:{lane}")),
        }));
    }
    if mode == Mode::OneOperationPerPassLocked {
        passes.push(Pass::Unlock(keys.into_iter().fold(Transaction::new(), Transaction::delete)));
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Transaction {
        Transaction::new().get("a").get("b").if_at_least("c", 1).if_exists("e").add("c", -1).put("d", "x")
    }

    #[test]
    fn the_whole_takes_one_pass_and_its_parts_one_each() {
        let count = |mode| passes(whole(), mode, 3).len();
        assert_eq!(count(Mode::Combined), 1);
        // Two reads, two writes of which one has a condition, and a condition on another key.
        assert_eq!(count(Mode::OneOperationPerPass), 5);
        assert_eq!(count(Mode::OneOperationPerPassReadsAtTail), 5);
        assert_eq!(count(Mode::OneOperationPerPassLocked), 7);
        let one = Transaction::new().put("k", "v");
        assert_eq!(passes(one.clone(), Mode::OneOperationPerPass, 3), [Pass::Work(one)]);
    }

    #[test]
    fn reads_go_through_the_chain_or_to_the_tail() {
        let through = passes(whole(), Mode::OneOperationPerPass, 3);
        assert!(through.iter().all(|pass| !pass.transaction().only_reads()));
        let tail = passes(whole(), Mode::OneOperationPerPassReadsAtTail, 3);
        assert_eq!(tail.iter().filter(|pass| pass.transaction().only_reads()).count(), 3);
    }

    #[test]
    fn every_pass_is_a_transaction_and_locks_cover_every_key() {
        for mode in [Mode::Combined, Mode::OneOperationPerPass, Mode::OneOperationPerPassLocked] {
            for pass in passes(whole(), mode, 3) {
                assert_eq!(pass.transaction().check(), Ok(()));
            }
        }
        let locked = passes(whole(), Mode::OneOperationPerPassLocked, 3);
        let (Some(Pass::Lock(lock)), Some(Pass::Unlock(unlock))) = (locked.first(), locked.last()) else {
            panic!("locks come first and last");
        };
        assert_eq!((lock.conditions.len(), lock.writes.len(), unlock.writes.len()), (5, 5, 5));
    }
}
