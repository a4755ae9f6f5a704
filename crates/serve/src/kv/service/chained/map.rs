//! The smallest chain: a map that does one transaction after the other. For tests and simulations.

use protocol::chain::transaction::{Abort, Change, Condition, Found};
use protocol::chain::{Durability, Lsn, Outcome, Transaction};
use std::collections::BTreeMap;

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Map {
    items: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    last: u64,
}

impl Map {
    /// All keys, with version and value.
    pub fn items(&self) -> &BTreeMap<Vec<u8>, (u64, Vec<u8>)> {
        &self.items
    }

    fn version(&self, key: &[u8]) -> u64 {
        self.items.get(key).map_or(0, |(version, _)| *version)
    }

    /// Does a transaction of conditions on versions, reads, and writes that put or delete.
    ///
    /// # Panics
    /// On others.
    pub fn execute(&mut self, transaction: &Transaction) -> Outcome {
        let holds = |(key, condition): &(Vec<u8>, Condition)| matches!(condition, Condition::Version(version) if *version == self.version(key));
        let broken = transaction.conditions.iter().position(|condition| !holds(condition));
        let found = |key: &Vec<u8>| {
            let (version, value) = self.items.get(key)?;
            Some(Found { version: Lsn(*version), value: value.clone() })
        };
        let reads = transaction.reads.iter().map(found).collect();
        if broken.is_none() && !transaction.only_reads() {
            self.last += 1;
            for (key, change) in &transaction.writes {
                match change {
                    Change::Put(value) => drop(self.items.insert(key.clone(), (self.last, value.clone()))),
                    Change::Delete => drop(self.items.remove(key)),
                    Change::Add(_) => unreachable!("no command adds"),
                }
            }
        }
        Outcome {
            lsn: Lsn(self.last),
            abort: broken.map(|place| Abort::Condition(place as u32)),
            reads,
            sums: vec![],
            durability: Durability::PowerLoss,
            copies: 3,
        }
    }
}
